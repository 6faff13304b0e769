"""A second place that remembers how far a ledger had come, so that an old copy of it is noticed.

After every entry, the ledger's number of entries and its last hash (its counter) are written to the witness, which lies
in another folder, best on another disk.  A ledger with fewer entries than its witness counts is an old copy, or a copy
of a ledger that went on elsewhere.

In a folder that the owner has chosen, a ledger's counter has the name of its party and table.  So a ledger that was
lost with its key, and begun anew, also has fewer entries than its witness counts.  The ledger remembers the chosen
folder: where the counter is gone from it, the ledger is refused.

The user's own state folder is a second witness beside a chosen one, where it can be written.  It notices a copied
folder that has its chosen witness inside.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from plait._files import write_atomically
from plait.errors import PrivacyError, StorageError
from plait.privacy.ledger.hash_chain import ChainEntry

WITNESS = "witness"
"""The kind of a chain's entry that names a folder which its owner has chosen as its witness."""


def default_witness() -> Path:
    """The folder of a user's own that outlives a job's folder: PLAIT_STATE, else the XDG state folder."""
    given = os.environ.get("PLAIT_STATE")
    if given:
        return Path(given)
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "plait" / "witness"


@contextmanager
def state_folder(folder: Path) -> Iterator[None]:
    """Use this folder in the place of the user's own state folder, for ledgers that are thrown away."""
    before = os.environ.get("PLAIT_STATE")
    os.environ["PLAIT_STATE"] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ["PLAIT_STATE"]
        else:
            os.environ["PLAIT_STATE"] = before


@dataclass(frozen=True)
class Witness:
    """The mirrored counter of one chain, under a `name` in a folder.

    chosen   whether the owner has chosen the folder
    needed   whether a folder that cannot be read or written is an error: not for a second witness beside a chosen one
    """

    folder: Path
    name: str
    chosen: bool = False
    needed: bool = True

    def check(self, entries: list[ChainEntry]) -> None:
        """PrivacyError where the chain is older than what was written here, or another one."""
        seen = self._read()
        if seen is None:
            self._need_new(entries)
            return
        seq, seal = seen
        if len(entries) < seq or (seq and entries[seq - 1].hash != seal):
            raise PrivacyError(
                f"A ledger must be the newest one, or what was spent since is forgotten. Found {len(entries)} entries, "
                f"and {seq} at its witness {self.path}: an old copy was put back, the ledger was lost, or two copies "
                "are in use. Nothing is released. Restore the newest copy of the ledger's folder, and use one only."
            )

    def _need_new(self, entries: list[ChainEntry]) -> None:
        """PrivacyError where a chosen folder had this chain's counter before."""
        if self.chosen and any(e.kind == WITNESS and e.body["folder"] == self.mark for e in entries):
            raise PrivacyError(
                f"The witness of a ledger must know how far the ledger had come. Found that {self.path} is gone, and "
                "the ledger says that it was there. Nothing is released. Restore it, or choose another folder."
            )

    @property
    def mark(self) -> str:
        """A digest of the folder's path, by which a chain remembers it."""
        return hashlib.sha256(str(self.folder.absolute()).encode()).hexdigest()[:32]

    def note(self, entries: list[ChainEntry]) -> None:
        """Store the number of entries and the last hash of the chain."""
        content = {"version": 1, "seq": len(entries), "seal": entries[-1].hash}
        try:
            write_atomically(self.path, json.dumps(content).encode())
        except (OSError, StorageError) as error:
            if self.needed:
                raise self._unusable(error) from error

    @property
    def path(self) -> Path:
        return self.folder / f"{self.name}.json"

    def _read(self) -> tuple[int, str] | None:
        try:
            content = json.loads(self.path.read_bytes())
            return int(content["seq"]), str(content["seal"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            if isinstance(error, OSError) and not self.needed:
                return None
            raise self._unusable(error) from error

    def _unusable(self, error: Exception) -> PrivacyError:
        return PrivacyError(
            f"The witness of a ledger must be a file that plait can read and write. Found {self.path}: {error}. Name "
            "another folder: privacy.ledger_witness in the party file, or LedgerFolder(..., witness=)."
        )
