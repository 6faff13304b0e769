"""Rows of several runs: few that differ are found, and what a party would have read of them is what it reads."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import plait
from plait.deployment.earlier_rows import too_few
from plait.deployment.row_sets import RowSets, names_of
from plait.messages import Broadcast
from plait.training.party_shield import Agreed, PartyShield


def run(*rows: range) -> np.ndarray:
    return np.array(sorted(set(itertools.chain(*rows))), dtype=np.uint64)


RUNS = {
    "other rows altogether": ([run(range(100))], run(range(200, 300)), 0),
    "one less": ([run(range(100))], run(range(99)), 1),
    "one more": ([run(range(100))], run(range(101)), 1),
    "many more": ([run(range(100))], run(range(110)), 0),
    "the same": ([run(range(100)), run(range(110))], run(range(100)), 0),
    "one less of many more": ([run(range(100)), run(range(120))], run(range(119)), 1),
    "many less, and one stays": ([run(range(100))], run(range(50), range(99, 100), range(200, 300)), 0),
    "few were shown before": ([run(range(100)), run(range(99))], run(range(100)), 0),
    "few were shown before, and a part of them now": ([run(range(100)), run(range(95))], run(range(97)), 5),
}


@pytest.mark.parametrize(("earlier", "new", "found"), RUNS.values(), ids=RUNS)
def test_rows_by_which_runs_differ_must_be_many(earlier: list[np.ndarray], new: np.ndarray, found: int) -> None:
    assert too_few(earlier, new, 10).size == found


def test_what_is_found_is_what_follows_from_the_sums_of_all_runs() -> None:
    """Against linear algebra: sums over runs give the sum over a row's group only through the groups there are."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        runs = [np.flatnonzero(rng.random(12) < 0.7).astype(np.uint64) for _ in range(3)]
        table = np.array([np.isin(np.arange(12), each) for each in runs])
        before, after = (
            {
                i: sum(1 for j in range(12) if (known[:, i] == known[:, j]).all()) if known[:, i].any() else 99
                for i in range(12)
            }
            for known in (table[:2], table)
        )
        expected = [i for i in range(12) if table[:, i].any() and after[i] < min(before[i], 3)]
        assert too_few(runs[:2], runs[2], 3).tolist() == expected


def test_a_row_with_another_label_is_another_row() -> None:
    ids, y = ["a", "b", "c"], np.array([0.0, 1.0, -1.0])
    assert np.array_equal(names_of(ids, y), names_of(ids[::-1], y[::-1]))
    assert np.intersect1d(names_of(ids, y), names_of(ids, -y)).size == 1
    assert names_of(["a", "b"], np.ones(2)).size == 2


@pytest.mark.parametrize("mode", ["labels", "sums"])
def test_a_party_reads_the_labels_of_few_rows_from_two_runs_and_not_of_many(
    monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """The attack that the rule prevents: the difference of the first D^T g of two runs, by least squares."""
    rng, columns = np.random.default_rng(0), 8
    parts = {name: rng.standard_normal((2000, width)) for name, width in (("a", 3), ("b", columns), ("c", 3))}
    coins = rng.random(2000) < 0.5
    received: list[np.ndarray] = []
    opened = PartyShield.open

    def heard(shield: PartyShield, agreed: Agreed, broadcast: Broadcast) -> Any:
        found = opened(shield, agreed, broadcast)
        if shield._name == "b" and found.vector is not None:
            received.append(found.vector)
        return found

    monkeypatch.setattr(PartyShield, "open", heard)

    def first(rows: np.ndarray) -> np.ndarray:
        """D^T (1/2 - y), over all rows."""
        received.clear()
        plait.fit({n: x[rows] for n, x in parts.items()}, coins[rows], fit_intercept=False, protection=mode)
        return np.asarray(received[0] * rows.size)

    everybody = np.arange(2000)
    for fewer, least, most in ((columns, 1.0, 1.0), (10 * columns, 0.5, 0.8)):
        gone = everybody[:fewer]
        table = parts["b"][gone]
        moments = first(everybody) - first(everybody[fewer:])
        guess = table @ np.linalg.lstsq(table.T @ table, -moments, rcond=None)[0]
        assert least <= np.mean((guess > 0) == coins[gone]) <= most


def test_what_a_crash_left_of_a_set_is_no_set(tmp_path: Path) -> None:
    sets = RowSets(tmp_path / "rows")
    sets.add(run(range(5)), 40)
    (tmp_path / "rows" / f".{sets.known[0][0]}-40.17.tmp").write_bytes(b"abc")
    ((digest, number),) = sets.known
    assert (sets.read(digest).tolist(), number) == ([0, 1, 2, 3, 4], 40)
