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
from plait.methods.registry import AUTO
from plait.privacy.policy import Policy
from plait.problem.losses import Loss, Poisson
from plait.problem.registry import DEFAULT_PENALTY, LOSSES
from plait.training.fit import FIT_INTERCEPT
from plait.training.loop import Observer
from plait.training.precision import DEFAULT_PRECISION
from plait.training.stopping import Stopping

_REGRESSIONS: dict[str, type[Loss]] = {name: kind for name, kind in LOSSES.items() if not kind.classifies}


class VerticalRegression(RegressorMixin, Vertical):  # type: ignore[misc]
    """Linear regression with a loss of choice over the columns of several parties.

    Parameters
    ----------
    parties : dict, int or None, default=None
        Who holds which columns: a dict name -> column names, positions or slices; an int M for an even split; None for
        one party.
    loss : Loss or str, default="squared"
        "squared", "huber", "poisson", "pinball" or "cauchy", or the loss object.
    penalty : Penalty or str, or a list or dict of them, default="l2"
        One for all parties, or one per party: a penalty such as `plait.L1(0.1)`, or its name: "l2", "l1", "none",
        "elastic-net", "log", "box", "ball" or "non-negative".
    alpha : float, default=None
        The strength of penalties that are given by name; None is 1e-4.
    method : Method or str, default="auto"
        A method, or its name; "auto" takes the one that needs the fewest rounds.
    max_rounds : int, default=200
        Stop after this many rounds.
    tol : float, default=1e-6
        Stop when both relative residuals are at or below this.
    fit_intercept : bool, default=True
        Add a constant that is not penalised.
    callbacks : list of callables, default=()
        Each is called with the record (`plait.Round`) of every round.
    privacy : mechanism, list or dict of mechanisms, or Policy, default=None
        As in `plait.fit`; `guarantee_` says in words what is protected.
    precision : str, default="float64"
        How numbers are sent: "float64", "float32" in half the bytes, or "int16" in a quarter.

    Attributes
    ----------
    coef_ : ndarray of shape (d,)
        The weights, in the table's order of columns.
    intercept_ : float
        The constant.
    party_coef_ : dict of str to ndarray
        Party name -> its part of `coef_`.
    owners_ : dict of str to ndarray
        Party name -> the positions of its columns.
    n_features_in_ : int
        How many columns the table had.
    feature_names_in_ : ndarray of str
        Their names, where the table had names.
    n_iter_ : int
        How many rounds training took.
    history_ : History
        One record per round; a list of them where several models were trained.
    fits_ : list of Fit
        The runs behind the model.
    guarantee_ : str
        What is protected, in words.

    Examples
    --------
    >>> import numpy as np, plait
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 4))
    >>> y = X[:, 0] + X[:, 3] + rng.normal(size=200)
    >>> model = plait.VerticalRegression({"bank": slice(0, 2), "shop": slice(2, 4)}).fit(X, y)
    >>> [c.party for c in model.coefficients()]
    ['bank', 'bank', 'shop', 'shop']
    """

    def __init__(
        self,
        parties: Parties = None,
        *,
        loss: Loss | str = "squared",
        penalty: PenaltyLike = DEFAULT_PENALTY,
        alpha: float | None = None,
        method: Method | str = AUTO,
        max_rounds: int = Stopping.max_rounds,
        tol: float = Stopping.tol,
        fit_intercept: bool = FIT_INTERCEPT,
        callbacks: Sequence[Observer] = (),
        privacy: Any = None,
        precision: str = DEFAULT_PRECISION,
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
        self.precision = precision

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
