"""Logistic regression over the columns of several parties."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import expit, log_expit

from plait._types import Array
from plait.estimators.base import Parties, PenaltyLike
from plait.estimators.classifiers import VerticalClassifier
from plait.methods.base import Method
from plait.methods.registry import AUTO
from plait.problem.losses import Logistic, Loss
from plait.problem.registry import DEFAULT_PENALTY
from plait.protection.modes import DEFAULT_PROTECTION, Protection
from plait.training.fit import FIT_INTERCEPT
from plait.training.loop import Observer
from plait.training.precision import DEFAULT_PRECISION
from plait.training.stopping import Stopping


class VerticalLogisticRegression(VerticalClassifier):
    """Logistic regression over the columns of several parties.

    Parameters
    ----------
    parties : dict, int or None, default=None
        Who holds which columns: a dict name -> column names, positions or slices; an int M for an even split; None for
        one party.
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
    class_weight : dict or "balanced", default=None
        Class -> weight; "balanced" makes all classes count alike.
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
    coef_ : ndarray of shape (1, d) or (K, d)
        The weights, in the table's order of columns.
    intercept_ : ndarray of shape (1,) or (K,)
        The constant.
    classes_ : ndarray of shape (K,)
        The classes, sorted.
    party_coef_ : dict of str to ndarray
        Party name -> its part of `coef_`.
    owners_ : dict of str to ndarray
        Party name -> the positions of its columns.
    n_features_in_ : int
        How many columns the table had.
    feature_names_in_ : ndarray of str
        Their names, where the table had names.
    n_iter_ : ndarray of shape (1,) or (K,)
        How many rounds training took, for each model.
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
    >>> y = X[:, 0] + X[:, 3] > 0
    >>> model = plait.VerticalLogisticRegression({"bank": slice(0, 2), "shop": slice(2, 4)}).fit(X, y)
    >>> [c.party for c in model.coefficients()]
    ['bank', 'bank', 'shop', 'shop']
    """

    def __init__(
        self,
        parties: Parties = None,
        *,
        penalty: PenaltyLike = DEFAULT_PENALTY,
        alpha: float | None = None,
        l1_ratio: float | None = None,
        method: Method | str = AUTO,
        max_rounds: int = Stopping.max_rounds,
        max_iter: int | None = None,
        tol: float = Stopping.tol,
        fit_intercept: bool = FIT_INTERCEPT,
        warm_start: bool = False,
        class_weight: Mapping[Any, float] | str | None = None,
        callbacks: Sequence[Observer] = (),
        privacy: Any = None,
        precision: str = DEFAULT_PRECISION,
        protection: Protection | str = DEFAULT_PROTECTION,
    ) -> None:
        self.parties = parties
        self.penalty = penalty
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.method = method
        self.max_rounds = max_rounds
        self.max_iter = max_iter
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.warm_start = warm_start
        self.class_weight = class_weight
        self.callbacks = callbacks
        self.privacy = privacy
        self.precision = precision
        self.protection = protection

    def _loss(self) -> Loss:
        return Logistic()

    def _rounds(self, rounds: Sequence[int]) -> Any:
        return np.array(rounds, dtype=np.int32)

    def predict_proba(self, X: Any) -> Array:
        """The probability of every class, (N, K); one-vs-rest probabilities are scaled to sum to 1."""
        z = self._scores(X)
        if z.shape[1] == 1:
            return expit(np.hstack([-z, z]))
        p = expit(z)
        total = p.sum(axis=1, keepdims=True)
        return np.divide(p, total, out=np.full_like(p, 1 / p.shape[1]), where=total > 0)

    def predict_log_proba(self, X: Any) -> Array:
        """The logarithm of predict_proba."""
        z = self._scores(X)
        return log_expit(np.hstack([-z, z])) if z.shape[1] == 1 else np.log(self.predict_proba(X))
