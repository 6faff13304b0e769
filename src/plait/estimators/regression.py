"""Regression over the columns of several parties."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import d2_tweedie_score
from sklearn.utils import column_or_1d

from plait._types import Array
from plait.data.parts import read_labels
from plait.errors import SettingError
from plait.estimators.base import Parties, PenaltyLike, Vertical, as_input_error, named_loss
from plait.methods.base import Method
from plait.methods.registry import AUTO
from plait.privacy.policy import Policy
from plait.problem.losses import Loss, Poisson
from plait.problem.registry import DEFAULT_PENALTY, LOSSES, keeps_bounds
from plait.protection.modes import DEFAULT_PROTECTION, Protection
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
    l1_ratio : float, default=None
        The part of the L1 norm in an elastic net that is given by name, from 0 to 1; None is 0.5.
    method : Method or str, default="auto"
        A method, or its name; "auto" takes the one that needs the fewest rounds.
    max_rounds : int, default=200
        Stop after this many rounds.
    max_iter : int, default=None
        scikit-learn's name of `max_rounds`: where it is given, it counts.
    tol : float, default=1e-6
        Stop when the gap to the optimum, relative to the objective, is at or below this: proved where it can be, else
        estimated.
    fit_intercept : bool, default=True
        Add a constant that is not penalised.
    warm_start : bool, default=False
        Begin at the weights of the last call of `fit`, if there was one with as many columns.
    callbacks : list of callables, default=()
        Each is called with the record (`plait.Round`) of every round.
    privacy : mechanism, list or dict of mechanisms, or Policy, default=None
        As in `plait.fit`; `guarantee_` says in words what is protected.
    precision : str, default="float64"
        How numbers are sent: "float64", "float32" in half the bytes, or "int16" in a quarter, as long as that gains
        something: then in "float32".
    protection : str or Protection, default="plain"
        As in `plait.fit`: "labels", "sums" or "blind" trains the model as a protected run does, for study.

    Attributes
    ----------
    coef_ : ndarray of shape (d,) or (K, d)
        The weights, in the table's order of columns; one row per target where there are several.
    intercept_ : float or ndarray of shape (K,)
        The constant; an array where y has two dimensions.
    party_coef_ : dict of str to ndarray
        Party name -> its part of `coef_`.
    owners_ : dict of str to ndarray
        Party name -> the positions of its columns.
    n_features_in_ : int
        How many columns the table had.
    feature_names_in_ : ndarray of str
        Their names, where the table had names.
    n_iter_ : int or ndarray of shape (K,)
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
        l1_ratio: float | None = None,
        method: Method | str = AUTO,
        max_rounds: int = Stopping.max_rounds,
        max_iter: int | None = None,
        tol: float = Stopping.tol,
        fit_intercept: bool = FIT_INTERCEPT,
        warm_start: bool = False,
        callbacks: Sequence[Observer] = (),
        privacy: Any = None,
        precision: str = DEFAULT_PRECISION,
        protection: Protection | str = DEFAULT_PROTECTION,
    ) -> None:
        self.parties = parties
        self.loss = loss
        self.penalty = penalty
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.method = method
        self.max_rounds = max_rounds
        self.max_iter = max_iter
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.warm_start = warm_start
        self.callbacks = callbacks
        self.privacy = privacy
        self.precision = precision
        self.protection = protection

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "VerticalRegression":
        """Train on X (N, d) and the targets y (N,), or (N, K) for a model of each of K targets."""
        loss = self._loss()
        parts = self._read_training(X, y)
        rows = next(iter(parts.values())).matrix.shape[0]
        table = _numbers(y, several=not self._counts)
        targets = [read_labels(column, rows) for column in (table.T if table.ndim == 2 else [table])]
        policies = _policies(self.privacy, len(targets), tuple(parts))
        weights, intercepts = self._keep(self._train(parts, targets, loss, sample_weight, policies))
        self.coef_ = weights if len(targets) > 1 else weights[0]
        self.intercept_ = (intercepts if table.ndim == 2 else intercepts[0]) if self.fit_intercept else 0.0
        return self

    def _rounds(self, rounds: Sequence[int]) -> Any:
        return np.array(rounds, dtype=np.int32) if len(rounds) > 1 else rounds[0]

    def predict(self, X: Any) -> Array:
        """The predicted targets, (N,) or (N, K): the scores themselves, or their exponentials for the Poisson loss."""
        z = self._scores(X)
        z = z if np.ndim(self.coef_) == 2 else z[:, 0]
        return self.fits_[0].loss.predicted(z)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of the spread of y that the model explains: R^2, or D^2 of the deviance for the Poisson loss."""
        with as_input_error():
            if not self._counts:
                return float(super().score(X, y, sample_weight))
            return float(d2_tweedie_score(y, self.predict(X), sample_weight=sample_weight, power=1))

    def _loss(self) -> Loss:
        return named_loss(self.loss, _REGRESSIONS, classifies=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = keeps_bounds(self.penalty)  # the best model within bounds may be a poor one
        tags.target_tags.positive_only = self._counts
        tags.target_tags.multi_output = not self._counts  # scikit-learn's checks of several targets take negative ones
        return tags

    @property
    def _counts(self) -> bool:
        """Whether targets are counts."""
        return self.loss == "poisson" or isinstance(self.loss, Poisson)


def _numbers(y: Any, several: bool) -> Any:
    """The targets, (N,) or (N, K); one column counts as (N,) where `several` are not expected, with a warning."""
    table = y.to_numpy() if hasattr(y, "to_numpy") else np.asarray(y)
    return column_or_1d(table, warn=True) if table.ndim == 2 and table.shape[1] == 1 and not several else table


def _policies(privacy: Any, targets: int, parties: tuple[str, ...]) -> list[Policy]:
    """One for each target; what is protected may be released once, for one target."""
    policy = Policy.of(privacy)
    if targets > 1 and (policy.labels is not None or any(m.protects for m in policy.mechanisms(parties).values())):
        raise SettingError(
            f"a private model must have one target. Found {targets}. Train one model per target, each with its budget."
        )
    return [policy] * targets
