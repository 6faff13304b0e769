"""Where a party's releases are charged, drawn and stored: private numbers leave in no other way."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np

from plait._checks import need_types
from plait._types import Array
from plait.errors import BudgetError, PrivacyError
from plait.privacy.accounting import Cost
from plait.privacy.ledger.budget import Budget, Unlimited
from plait.privacy.ledger.canonical import canonical_digest
from plait.privacy.ledger.keys import open_chain, read_secret
from plait.privacy.ledger.known_tables import Tables, needed, old_charges
from plait.privacy.ledger.ledger import Ledger
from plait.privacy.ledger.people import People
from plait.privacy.noise import KeyedNoise, Keystream, Noise, Release

DEFAULT_TABLE = "people"  # the account of a folder whose owner has named no table
UNPROTECTED = ".unprotected"  # ends the name of the account of releases without a guarantee


class Account(Protocol):
    """Charges a release before it is computed and keeps what was released."""

    def check(self, cost: Cost, run: str, plan: str = "") -> None: ...

    def receipt(self, plan: str) -> int: ...

    def check_receipt(self, receipt: int) -> None: ...

    def release(
        self, release: Release, cost: Cost, mechanism: str, noise: Noise, compute: Callable[[], bytes]
    ) -> bytes: ...


class Unrecorded:
    """No ledger: for a single simulated run, whose cost is not added to that of others."""

    def check(self, cost: Cost, run: str, plan: str = "") -> None:
        """Every cost is allowed."""

    def receipt(self, plan: str) -> int:
        return 0

    def check_receipt(self, receipt: int) -> None:
        """There is no ledger that could be old."""

    def release(
        self, release: Release, cost: Cost, mechanism: str, noise: Noise, compute: Callable[[], bytes]
    ) -> bytes:
        return compute()


@dataclass(frozen=True)
class Book:
    """One party's releases in one run: `draw` charges, draws and stores each of them."""

    run: str
    party: str
    noise: Noise = field(default_factory=KeyedNoise)
    account: Account = field(default_factory=Unrecorded)

    def draw(
        self,
        round_: int,
        name: str,
        cost: Cost,
        mechanism: object,
        inputs: object,
        make: Callable[[Keystream], Array],
        plan: str = "",
    ) -> Array:
        """Charge a release, compute it with noise of its own, store it, and return its numbers, flat.

        `inputs` is all that the release depends on.  The noise key depends on it, and on the mechanism with its noise
        scale: one keystream at two scales would reveal the value.  Within a `plan` each (round, name) is released once.
        """
        tag = canonical_digest("release", mechanism, cost, inputs, plan).hex()
        release = Release(self.run, self.party, round_, name, tag, plan)

        def compute() -> bytes:
            return np.ascontiguousarray(make(self.noise.stream(release)), dtype="<f8").tobytes()

        content = self.account.release(release, cost, type(mechanism).__name__, self.noise, compute)
        return np.frombuffer(content, dtype="<f8").astype(np.float64)


@dataclass(frozen=True)
class LedgerFolder:
    """A folder that keeps each party's account, its stored releases and the secret of its noise.

    In a deployment every party has its own folder, which nobody else may read.  In a simulation all parties share one.

    Parameters
    ----------
    root : str or Path
        The folder; it is made where there is none.
    budget : Budget or Unlimited
        What each party will spend on the people in the table, over all runs.
    table : str, default="people"
        The name of the table.  All its rows, columns and versions have one account.
    witness : str or Path, default=None
        A second folder that remembers how far each ledger has come, so that an old copy of `root` is noticed.  None is
        the user's own state folder.
    """

    root: Path | str
    budget: Budget | Unlimited
    table: str = DEFAULT_TABLE
    witness: Path | str | None = None

    def __post_init__(self) -> None:
        need_types(self)

    def admit(self, parties: Sequence[str]) -> None:
        """Let parties charge this table; PrivacyError for a name that the folder's owner has not opened."""
        if parties:
            self._tables.admit(self.table, parties)

    def admit_labels(self) -> None:
        """Let the label party charge its labels to this table."""
        self._tables.admit_labels(self.table)

    def need_no_account(self, accounts: Sequence[str]) -> None:
        """PrivacyError where one of these accounts, which a run would not charge, has a budget here.

        An account is that of a party, or of the labels (`LABEL_HOLDER`).
        """
        for name in accounts:
            if self.keeps(name) and self._limited(name):
                raise PrivacyError(needed(Path(self.root), self.table, name))

    def keeps(self, party: str) -> bool:
        """Whether the folder has an account of this party and table; it is not made by the question."""
        return Path(self.root).exists() and self._tables.keeps(self.table, party)

    def open(self, party: str, because: str) -> None:
        """The owner opens the account of a party and this table; the folder's register records it and why."""
        self._tables.open(self.table, party, because)

    def ledger(self, party: str, guaranteed: bool = True) -> Ledger:
        """The party's account; for releases without a guarantee a second account, which has no limit."""
        bare = (
            self._ledger(party, self.table + UNPROTECTED, Unlimited()) if self._shown(party) or not guaranteed else None
        )
        if not guaranteed:
            assert bare is not None
            return bare
        if bare is not None and bare.charges():
            raise BudgetError(
                f"What was sent without a guarantee cannot be protected afterwards. Found {len(bare.charges())} such "
                f"releases of party {party!r} from table {self.table!r}. Nothing is left to spend."
            )
        ledger = self._ledger(party, self.table, self.budget)
        if self._tables.first() in (None, self.table):
            ledger.carry(old_charges(Path(self.root), party))
        return ledger

    def people(self, party: str) -> People:
        """Whose rows the party's account has ever paid for."""
        return People(Path(self.root), party, self.table, self._witness)

    def noise(self, party: str) -> KeyedNoise:
        """Noise under the party's persisted secret, made at first use."""
        name = hashlib.sha256(party.encode()).hexdigest()[:24]
        return KeyedNoise(read_secret(Path(self.root) / f"{name}.secret"))

    @property
    def _tables(self) -> Tables:
        return Tables(Path(self.root), self._witness)

    @property
    def _witness(self) -> Path | None:
        return None if self.witness is None else Path(self.witness)

    def _ledger(self, party: str, table: str, budget: Budget | Unlimited) -> Ledger:
        return Ledger(Path(self.root), party, table, budget, self._witness)

    def _limited(self, party: str) -> bool:
        """Whether this account was opened with a budget, whatever `budget` is now."""
        chain = open_chain(Path(self.root), Ledger.folder(Path(self.root), party, self.table).name, self._witness)
        with chain.locked() as entries:
            return not entries or entries[0].body["budget"]["epsilon"] is not None

    def _shown(self, party: str) -> bool:
        """Whether there is an account of releases without a guarantee."""
        return Ledger.folder(Path(self.root), party, self.table + UNPROTECTED).exists()
