"""Runs `plait`, holds it at the n-th call of a function until told to go on, and slows its disk down when told.

    python -m tests.faults.held FOLDER plait.transports.conversation:_computed 3 party job.toml --name shop

FOLDER/held appears when the program waits; FOLDER/go lets it go on; while FOLDER/slow is there, every call that makes
something durable takes SLOW seconds.  Up to that moment, and after it, the program is unchanged.
"""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from plait.cli import main
from tests.e2e.killed_at import arm

SLOW = 0.5  # seconds for one fsync: a hundred times as long as a disk takes


def wait_in(folder: Path) -> None:
    """Say that the moment has come, and wait to be told to go on."""
    (folder / "held").touch()
    while not (folder / "go").exists():
        time.sleep(0.01)


def slow_down(folder: Path) -> None:
    """Let fsync and fdatasync take their time while the folder says so."""

    def slowed(real: Callable[[int], None]) -> Callable[[int], None]:
        def sync(descriptor: int) -> None:
            if (folder / "slow").exists():
                time.sleep(SLOW)
            real(descriptor)

        return sync

    os.fsync, os.fdatasync = slowed(os.fsync), slowed(os.fdatasync)


if __name__ == "__main__":
    place = Path(sys.argv[1])
    slow_down(place)
    arm(sys.argv[2], "before", int(sys.argv[3]), lambda: wait_in(place))
    sys.argv = ["plait", *sys.argv[4:]]
    main()
