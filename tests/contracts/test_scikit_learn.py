"""scikit-learn's own checks, run on every estimator.

The checks compare decision values to 1e-7, so the estimators get a tolerance to match.
"""

from typing import Any

from sklearn.utils.estimator_checks import parametrize_with_checks

import plait

ESTIMATORS = [
    plait.VerticalLogisticRegression(tol=1e-12),
    plait.VerticalLogisticRegression(method=plait.Subspace(), tol=1e-13),
    plait.VerticalSVC(tol=1e-12),
    plait.VerticalSVC(loss="hinge", method=plait.Proximal(), max_rounds=1000, tol=1e-12),
    plait.VerticalRegression(tol=1e-12),
    plait.VerticalRegression(loss="huber", tol=1e-12),
]


@parametrize_with_checks(ESTIMATORS)
def test_passes_the_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)
