"""Regression over the columns of several parties."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import column_or_1d

from plait._types import Array
from plait.data.parts import read_labels
from plait.estimators.base import Parties, PenaltyLike, Vertical, as_input_error, named_loss
from plait.methods.base import Method
from plait.privacy.policy import Policy
from plait.problem.losses import Cauchy, Huber, Loss, Pinball, Poisson, Squared
from plait.training.loop import Observer

_REGRESSIONS: dict[str, Loss] = {
    "squared": Squared(),
    "huber": Huber(),
    "poisson": Poisson(),
    "pinball": Pinball(),
    "cauchy": Cauchy(),
}


class VerticalRegression(RegressorMixin, Vertical):  # type: ignore[misc]
    """Linear regression with a loss of choice over the columns of several parties.

    loss            "squared", "huber", "poisson", "pinball" or "cauchy", or the loss object
    the others      as for VerticalLogisticRegression

    After fit: coef_, intercept_, n_iter_ (rounds), history_, fits_, owners_, n_features_in_, feature_names_in_.
    """

    def __init__(
        self,
        parties: Parties = None,
        *,
        loss: Loss | str = "squared",
        penalty: PenaltyLike = "l2",
        alpha: float | None = None,
        method: Method | str = "auto",
        max_rounds: int = 1000,
        tol: float = 1e-8,
        fit_intercept: bool = True,
        callbacks: Sequence[Observer] = (),
        privacy: Any = None,
    ) -> None:
        self.parties = parties
        self.loss = loss
        self.penalty = penalty
        self.alpha = alpha
        self.method = method
        self.max_rounds = max_rounds
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.callbacks = callbacks
        self.privacy = privacy

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "VerticalRegression":
        """Train on X (N, d) and the targets y (N,)."""
        loss = named_loss(self.loss, _REGRESSIONS, classifies=False)
        parts = self._read_training(X, y)
        with as_input_error():
            y = column_or_1d(y, warn=True)
        labels = read_labels(y, next(iter(parts.values())).matrix.shape[0])
        weights, intercepts = self._keep([self._train(parts, labels, loss, sample_weight, Policy.of(self.privacy))])
        self.coef_, self.intercept_ = weights[0], float(intercepts[0])
        return self

    def predict(self, X: Any) -> Array:
        """The predicted targets, (N,): the score itself, or its exponential for the Poisson loss."""
        z = self._scores(X)[:, 0]
        return np.exp(z) if isinstance(self.fits_[0].loss, Poisson) else z
