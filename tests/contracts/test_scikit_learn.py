"""scikit-learn's own checks, run on every estimator with every loss and every penalty, all else as it comes.

All of them take minutes and run with `make test-all`.
"""

from typing import Any

import pytest
from sklearn.utils.estimator_checks import check_sample_weight_equivalence_on_dense_data, parametrize_with_checks

import plait
from plait.problem.registry import LOSSES, PENALTIES

QUICK = [
    plait.VerticalLogisticRegression(),
    plait.VerticalLogisticRegression(penalty="elastic-net"),
    plait.VerticalLogisticRegression(penalty=plait.L2(0.1) + plait.Ball(3.0)),
    plait.VerticalRegression(),
    plait.VerticalRegression(penalty="l1"),
    plait.VerticalRegression(loss="huber"),
    plait.VerticalRegression(loss="poisson"),
    plait.VerticalRegression(loss="pinball"),
    plait.VerticalRegression(loss="cauchy"),
]
TIGHT = [
    plait.VerticalLogisticRegression(method=plait.Subspace(), tol=1e-13),
    plait.VerticalSVC(tol=1e-12),
    plait.VerticalSVC(loss="hinge", method=plait.Proximal(), max_rounds=1000, tol=1e-12),
    plait.VerticalRegression(tol=1e-12),
]
_NAMED = [name for name in PENALTIES if name != "group-lasso"]  # it names the group of every column, of unknown number
ALL = [
    *(plait.VerticalLogisticRegression(penalty=penalty) for penalty in _NAMED),
    *(plait.VerticalSVC(loss=loss, penalty=penalty) for loss in ("squared-hinge", "hinge") for penalty in _NAMED),
    *(
        plait.VerticalRegression(loss=loss, penalty=penalty)
        for loss, kind in LOSSES.items()
        if not kind.classifies
        for penalty in _NAMED
    ),
]


@parametrize_with_checks(QUICK)
def test_passes_the_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


@parametrize_with_checks(TIGHT)
def test_passes_the_checks_of_scikit_learn_with_a_small_tolerance(estimator: Any, check: Any) -> None:
    check(estimator)


_KINKED = ("hinge", "pinball")
_UNENDED = (
    "check_sample_weights_list",
    "check_regressor_data_not_an_array",
    "check_regressor_multioutput",
    "check_supervised_y_2d",
)


def _expected(estimator: Any) -> dict[str, str]:
    """The checks that a loss with kinks may not pass beside a penalty that is not convex, and why."""
    if getattr(estimator, "loss", "") not in _KINKED or estimator.penalty != "log":
        return {}
    return dict.fromkeys(_UNENDED, "neither smooth nor convex: ADMM may take more than 200 rounds")


@pytest.mark.parametrize("estimator", ALL, ids=str)
def test_a_row_of_twice_the_weight_is_as_good_as_two(estimator: Any) -> None:
    check_sample_weight_equivalence_on_dense_data(type(estimator).__name__, estimator)


@pytest.mark.slow
@parametrize_with_checks(ALL, expected_failed_checks=_expected)
def test_passes_the_checks_of_scikit_learn_with_every_loss_and_penalty(estimator: Any, check: Any) -> None:
    check(estimator)
