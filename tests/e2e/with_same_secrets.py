"""Runs `plait` with a run's name and secrets that are always the same: two runs can then be compared bit by bit.

    python with_same_secrets.py party job.toml --name shop

Nothing else is changed.  Only the first start of a run draws them; a restart reads them from the run's folder.
"""

import hashlib
import sys

from plait.cli import main
from plait.deployment import coordinator_opening, run_keys


class _Known:
    """In the place of the module `secrets`: what it gives is a function of the command line."""

    @staticmethod
    def token_hex(size: int) -> str:
        return hashlib.sha256(" ".join(sys.argv).encode()).hexdigest()[: 2 * size]


if __name__ == "__main__":
    run_keys.secrets = _Known  # type: ignore[assignment,attr-defined]
    coordinator_opening.new_run = lambda *runs: ("20260101-000000-0a0b0c", "07" * 32)
    sys.argv[0] = "plait"
    main()
