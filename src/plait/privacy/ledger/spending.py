"""What the ledgers below a folder say was spent."""

import math
from dataclasses import dataclass
from pathlib import Path

from plait.errors import SettingError
from plait.privacy.accounting import Cost
from plait.privacy.ledger.hash_chain import HashChain
from plait.privacy.ledger.ledger import Charge, decode_charge

DEFAULT_DELTA = 1e-5  # probability at which spending is stated where the ledger has no budget: the mechanisms' default


@dataclass(frozen=True)
class Spending:
    """One ledger: whose, its limit (None for none), and its charges in order."""

    party: str
    fingerprint: str
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
        """What one more release could cost alone at most: epsilon does not add up, mu^2 does."""
        return math.inf if self.limit is None else max(0.0, self.limit - self.epsilon)


def read_spending(path: Path) -> list[Spending]:
    """Every ledger at or below `path`, verified; PrivacyError when one is damaged."""
    folder = path.parent if path.name == "journal.jsonl" else path
    candidates = [folder, *sorted(p for p in folder.iterdir() if p.is_dir())] if folder.is_dir() else []
    found = [HashChain(p) for p in candidates if (p / "journal.jsonl").exists()]
    if not found:
        raise SettingError(
            f"There must be a ledger at {path}. Found none. Name the folder that LedgerFolder(root, ...) was given, or "
            "one ledger's folder below it."
        )
    return [_read(journal) for journal in found]


def _read(journal: HashChain) -> Spending:
    with journal.locked() as entries:
        opening = entries[0].body
        charges = tuple(decode_charge(e.body) for e in entries if e.kind == "reserve")
    budget = opening["budget"]
    return Spending(
        opening["party"], opening["fingerprint"], budget["epsilon"], budget["delta"] or DEFAULT_DELTA, charges
    )
