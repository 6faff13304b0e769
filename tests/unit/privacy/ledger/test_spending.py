"""What the ledgers say was spent, and what is left."""

import math
from pathlib import Path

import pytest

from plait.errors import BudgetError, PrivacyError
from plait.privacy import Budget, LedgerFolder
from plait.privacy.accounting import Cost, mu_of
from plait.privacy.ledger.hash_chain import is_unkeyed
from plait.privacy.ledger.known_tables import old_charges
from plait.privacy.ledger.ledger import Ledger
from plait.privacy.ledger.spending import read_spending
from plait.privacy.noise import InsecureTestNoise, Release

NOISE = InsecureTestNoise(0)


def charge(ledger: Ledger, cost: Cost, run: str) -> None:
    ledger.reserve(Release(run, ledger.party, 0, "gradient", run), cost, "R", NOISE)


@pytest.mark.parametrize(("limit", "spent"), [(1.0, 0.5), (3.0, 1.0), (8.0, 7.9)])
def test_what_is_left_is_what_one_more_run_may_cost(tmp_path: Path, limit: float, spent: float) -> None:
    ledger = LedgerFolder(tmp_path, Budget(limit)).ledger("shop")
    charge(ledger, Cost(mu=mu_of(spent, 1e-5)), "first")
    (found,) = read_spending(tmp_path)
    assert found.left > limit - found.epsilon, "mu^2 adds up, epsilon does not"
    assert mu_of(found.left, 1e-5) == pytest.approx(math.sqrt(mu_of(limit, 1e-5) ** 2 - mu_of(spent, 1e-5) ** 2))
    with pytest.raises(BudgetError):
        charge(ledger, Cost(mu=mu_of(found.left * 1.001, 1e-5)), "too much")
    charge(ledger, Cost(mu=mu_of(found.left * 0.999, 1e-5)), "all of it")
    assert read_spending(tmp_path)[0].left < 0.1 * limit


def test_epsilons_of_labels_add_up(tmp_path: Path) -> None:
    charge(LedgerFolder(tmp_path, Budget(3.0)).ledger("bank"), Cost(pure=1.0), "first")
    assert read_spending(tmp_path)[0].left == pytest.approx(2.0)


def test_only_version_1_is_without_a_key(tmp_path: Path) -> None:
    """A version of two digits begins with 1, too."""
    for version, unkeyed in ((1, True), (2, False), (10, False), (19, False)):
        path = tmp_path / f"{version}" / "journal.jsonl"
        path.parent.mkdir()
        path.write_text(f'{{"version": {version}, "seq": 1}}\n')
        assert is_unkeyed(path) is unkeyed
    assert not is_unkeyed(_torn(tmp_path))
    (tmp_path / "1" / "journal.jsonl").unlink()
    assert old_charges(tmp_path, "shop") == []


def _torn(folder: Path) -> Path:
    path = folder / "torn.jsonl"
    path.write_text('{"version": 1, "se')
    return path


def test_a_receipt_of_another_table_of_the_party_is_known(tmp_path: Path) -> None:
    """A label party keeps one receipt for each helper, whatever table the helper's last run was about."""
    people, firms = (LedgerFolder(tmp_path, Budget(1.0), table) for table in ("people", "firms"))
    for name, folder in (("shop", people), ("shop", firms), ("tele", firms)):
        ledger = folder.ledger(name)
        ledger.reserve(Release("run", name, 0, "Gram", name, plan="plan"), Cost(mu=0.1), "R", NOISE)
    given = people.ledger("shop").receipt("plan")
    firms.ledger("shop").check_receipt(given)
    for unknown in (given + 2, LedgerFolder(tmp_path, Budget(1.0), "firms").ledger("tele").receipt("plan")):
        with pytest.raises(PrivacyError, match="newest"):
            firms.ledger("shop").check_receipt(unknown)
