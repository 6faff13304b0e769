"""What all chains of sealed entries share: every entry holds a digest over itself and the digest of the entry before.

An entry that was changed, removed or inserted breaks the chain.  The ledgers of `privacy.ledger` and the audit log of
`deployment.message_log` are such chains; each says in its own module what an entry holds.
"""

import hashlib
import json
from typing import Any

START = "0" * 64  # hexadecimal digits of a SHA-256: what stands for the digest before the first entry


def canonical(content: Any) -> bytes:
    """JSON with sorted keys: the same content always gives the same bytes.  Raises ValueError for NaN and infinity."""
    return json.dumps(content, sort_keys=True, allow_nan=False).encode()


def digest(data: bytes) -> str:
    """SHA-256, as 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()
