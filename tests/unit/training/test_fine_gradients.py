"""Gradients of twice the digits: a protected run ends as early, and as well proved, as a plain one."""

from typing import Any

import numpy as np
import pytest

import plait

ROWS = 900
CASES: dict[str, tuple[str, plait.Penalty, bool]] = {
    "a loss with kinks": ("hinge", plait.L2(1e-3), True),
    "a loss with kinks and real labels": ("pinball", plait.L2(1e-3), True),
    "kinks, and no penalty": ("hinge", plait.NoPenalty(), False),
}


@pytest.mark.parametrize("mode", ["labels", "sums"])
@pytest.mark.parametrize("case", CASES)
def test_slopes_are_exact_enough_to_end_in_about_the_plain_rounds(case: str, mode: str) -> None:
    loss, penalty, provable = CASES[case]
    rng = np.random.default_rng(1)
    parts = {name: rng.standard_normal((ROWS, 4)) for name in "abc"}
    score = sum(table[:, 0] for table in parts.values()) + rng.logistic(size=ROWS)
    options: dict[str, Any] = {
        "loss": loss,
        "penalty": penalty,
        "stopping": plait.Stopping(tol=1e-7, max_rounds=60),
    }
    y = score if loss == "pinball" else np.where(score > 0, 1, -1)
    plain = plait.fit(parts, y, **options)
    found = plait.fit(parts, y, protection=mode, **options)
    assert found.converged
    assert found.certified == plain.certified == provable
    assert found.objective == pytest.approx(plain.objective, rel=1e-6)
    assert found.rounds <= 1.6 * plain.rounds
