"""The secrets below a ledger folder: the key of its chains, and the secrets of the parties' noise."""

import contextlib
import hashlib
import hmac
import os
import secrets
import threading
from pathlib import Path

from plait._files import write_atomically
from plait.errors import PrivacyError
from plait.privacy.ledger.hash_chain import HashChain
from plait.privacy.ledger.witness import Witness, default_witness

REGISTER = "tables"  # the chain of a root that lists its accounts
_KEY = "ledger.key"  # the file of the secret below the key
SECRET_BYTES = 32  # bytes of every secret: the key length of HMAC-SHA256 and AES-256


def open_chain(root: Path, name: str, witness: Path | None = None) -> HashChain:
    """The keyed chain `name` below `root`, with its counter at the witness.

    The user's own state folder may be the witness of many roots, so a counter there has a name made from the key.
    """
    key = chain_key(root)
    watched = hmac.new(key, f"witness {name}".encode(), hashlib.sha256).hexdigest()[:32]
    own = Witness(default_witness(), watched, needed=witness is None)
    if witness is None:
        return HashChain(Path(root) / name, key, own)
    counted = watched if name == REGISTER else f"ledger-{name}"
    return HashChain(Path(root) / name, key, Witness(witness, counted, chosen=name != REGISTER), own)


def chain_key(root: Path) -> bytes:
    """The key of all chains below `root`; a copy of the folder has the same key, and so the same counters."""
    return hmac.new(read_secret(Path(root) / _KEY), b"plait ledger chain", hashlib.sha256).digest()


def has_key(root: Path) -> bool:
    """Whether there is a ledger folder at `root`; none is made by the question."""
    return (Path(root) / _KEY).exists()


def read_secret(path: Path) -> bytes:
    """The secret in this file, made at first use; of two threads or processes that make it, the first wins."""
    if not path.exists():
        made = path.with_name(f"{path.name}.{threading.get_native_id()}.new")
        write_atomically(made, secrets.token_bytes(SECRET_BYTES))
        with contextlib.suppress(FileExistsError):
            os.link(made, path)
        made.unlink()
    content = path.read_bytes()
    if len(content) != SECRET_BYTES:
        raise PrivacyError(
            f"A secret must have {SECRET_BYTES} bytes. Found {len(content)} in {path}. Restore it from a copy; with "
            "another secret every release is a new one and pays again."
        )
    return content
