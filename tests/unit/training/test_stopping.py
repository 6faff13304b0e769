"""When a run ends, and in which words."""

import numpy as np
import pytest

from plait.methods.base import Measured
from plait.training.stopping import Stopping


def after(gap: float, estimate: float) -> Measured:
    return Measured(round=3, objective=1.0, primal=0.0, dual=gap, gap=gap, estimate=estimate)


@pytest.mark.parametrize(
    ("gap", "estimate", "words"),
    [
        (2e-7, np.nan, "within 2e-07 of the best possible model, proved"),
        (2e-3, 4e-9, "estimated within 4e-09 of the best possible model, not certified: proved is 2e-03"),
        (np.inf, 4e-9, "estimated within 4e-09 of the best possible model, not certified"),
        (7.0, 4e-9, "estimated within 4e-09 of the best possible model, not certified"),
    ],
)
def test_an_end_says_what_is_proved_and_what_is_estimated(gap: float, estimate: float, words: str) -> None:
    reason = Stopping(tol=1e-6).reason(after(gap, estimate), None, 0.0)
    assert reason is not None
    assert reason.converged
    assert reason.text == words
