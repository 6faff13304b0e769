"""What the ledgers below a folder say was spent."""

import math
from dataclasses import dataclass
from pathlib import Path

from plait.errors import SettingError
from plait.privacy.accounting import Cost, epsilon_of, frontier, mu_of
from plait.privacy.ledger.budget import Budget
from plait.privacy.ledger.charge import Charge, decode_charge
from plait.privacy.ledger.hash_chain import HashChain, is_unkeyed
from plait.privacy.ledger.keys import chain_key

DEFAULT_DELTA = 1e-5  # delta at which spending is stated for a ledger without a budget: the mechanisms' default


@dataclass(frozen=True)
class Spending:
    """One ledger: whose, its limit (None for none), and its charges in order."""

    party: str
    table: str
    limit: float | None
    delta: float
    charges: tuple[Charge, ...]

    @property
    def guaranteed(self) -> Cost:
        """The composed cost of the charges that guarantee something."""
        return sum((c.cost for c in self.charges if c.guarantee != "none"), Cost())

    @property
    def epsilon(self) -> float:
        """Spent so far, at the ledger's delta."""
        return self.guaranteed.epsilon(self.delta)

    @property
    def unguaranteed(self) -> int:
        """How many releases guarantee nothing."""
        return sum(c.guarantee == "none" for c in self.charges)

    @property
    def left(self) -> float:
        """About the largest epsilon that one more run may cost: mu^2 adds up, so it is more than limit - epsilon.

        For a ledger of labels, whose epsilons add up, it is the limit minus what is spent.
        """
        if self.limit is None:
            return math.inf
        spent, budget = self.guaranteed, Budget(self.limit, self.delta)
        if spent.pure or not budget.covers(spent):
            return max(0.0, self.limit - self.epsilon)
        most = 2 * mu_of(self.limit, self.delta)
        return epsilon_of(frontier(lambda mu: budget.covers(spent + Cost(mu=mu)), 0.0, most), self.delta)


def read_spending(path: Path) -> list[Spending]:
    """Every ledger at or below `path`, verified; PrivacyError when one is damaged."""
    folder = path.parent if path.name == "journal.jsonl" else path
    found = sorted(p.parent for p in folder.rglob("journal.jsonl")) if folder.is_dir() else []
    ledgers = [s for s in map(_read, found) if s is not None]
    if not ledgers:
        raise SettingError(
            f"There must be a ledger at {path}. Found none. Name the folder that LedgerFolder(root, ...) was given, or "
            "one ledger's folder below it."
        )
    return ledgers


def _read(folder: Path) -> Spending | None:
    """What one chain says; None for the register of tables, and for a chain of version 1, which was carried over."""
    if is_unkeyed(folder / "journal.jsonl"):
        return None
    with HashChain(folder, chain_key(folder.parent)).locked() as entries:
        opening = entries[0].body
        charges = tuple(decode_charge(e.body) for e in entries if e.kind == "reserve")
    if "budget" not in opening:
        return None
    budget = opening["budget"]
    return Spending(opening["party"], opening["table"], budget["epsilon"], budget["delta"] or DEFAULT_DELTA, charges)
