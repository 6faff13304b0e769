"""Classifiers over the columns of several parties."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit
from sklearn.base import ClassifierMixin
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets

from plait._types import Array
from plait.errors import InputError
from plait.estimators.base import Parties, PenaltyLike, Vertical, as_input_error, named_loss
from plait.methods.base import Method
from plait.methods.registry import AUTO
from plait.privacy.policy import Policy
from plait.problem.losses import Logistic, Loss
from plait.problem.registry import DEFAULT_PENALTY, LOSSES
from plait.training.fit import FIT_INTERCEPT
from plait.training.loop import Observer
from plait.training.precision import DEFAULT_PRECISION
from plait.training.stopping import Stopping

_MACHINES: dict[str, type[Loss]] = {name: LOSSES[name] for name in ("squared-hinge", "hinge")}


class _VerticalClassifier(ClassifierMixin, Vertical):  # type: ignore[misc]
    class_weight: Mapping[Any, float] | str | None
    classes_: npt.NDArray[Any]

    def _loss(self) -> Loss:
        raise NotImplementedError

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Train on X (N, d) and the classes y (N,); more than two classes are trained one against the rest."""
        loss = self._loss()
        parts = self._read_training(X, y)
        with as_input_error():
            y = column_or_1d(y, warn=True)
            assert_all_finite(y, input_name="y")
            check_classification_targets(y)
            weights = _class_weighted(self.class_weight, y, sample_weight)
        self.classes_, member = np.unique(y, return_inverse=True)
        _check_classes(self.classes_, member, weights)
        policy, count = Policy.of(self.privacy), self.classes_.size
        policies = {1: policy} if count == 2 else dict(enumerate(policy.of_classes(member, count)))
        fits = [self._train(parts, np.where(member == k, 1.0, -1.0), loss, weights, p) for k, p in policies.items()]
        self.coef_, self.intercept_ = self._keep(fits)
        return self

    def decision_function(self, X: Any) -> Array:
        """The scores: (N,) for two classes, else (N, K)."""
        z = self._scores(X)
        return z[:, 0] if self.classes_.size == 2 else z

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The likeliest class of every row, (N,)."""
        z = self.decision_function(X)
        return self.classes_[(z > 0).astype(int) if z.ndim == 1 else z.argmax(axis=1)]


class VerticalLogisticRegression(_VerticalClassifier):
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
    method : Method or str, default="auto"
        A method, or its name; "auto" takes the one that needs the fewest rounds.
    max_rounds : int, default=200
        Stop after this many rounds.
    tol : float, default=1e-6
        Stop when both relative residuals are at or below this.
    fit_intercept : bool, default=True
        Add a constant that is not penalised.
    class_weight : dict or "balanced", default=None
        Class -> weight; "balanced" makes all classes count alike.
    callbacks : list of callables, default=()
        Each is called with the record (`plait.Round`) of every round.
    privacy : mechanism, list or dict of mechanisms, or Policy, default=None
        As in `plait.fit`; `guarantee_` says in words what is protected.
    precision : str, default="float64"
        How numbers are sent: "float64", "float32" in half the bytes, or "int16" in a quarter.

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
        method: Method | str = AUTO,
        max_rounds: int = Stopping.max_rounds,
        tol: float = Stopping.tol,
        fit_intercept: bool = FIT_INTERCEPT,
        class_weight: Mapping[Any, float] | str | None = None,
        callbacks: Sequence[Observer] = (),
        privacy: Any = None,
        precision: str = DEFAULT_PRECISION,
    ) -> None:
        self.parties = parties
        self.penalty = penalty
        self.alpha = alpha
        self.method = method
        self.max_rounds = max_rounds
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.callbacks = callbacks
        self.privacy = privacy
        self.precision = precision

    def _loss(self) -> Loss:
        return Logistic()

    def predict_proba(self, X: Any) -> Array:
        """The probability of every class, (N, K); one-vs-rest probabilities are scaled to sum to 1."""
        p = expit(self._scores(X))
        if p.shape[1] == 1:
            return np.hstack([1 - p, p])
        total = p.sum(axis=1, keepdims=True)
        return np.divide(p, total, out=np.full_like(p, 1 / p.shape[1]), where=total > 0)

    def predict_log_proba(self, X: Any) -> Array:
        """The logarithm of predict_proba."""
        return np.log(self.predict_proba(X))


class VerticalSVC(_VerticalClassifier):
    """A linear support vector machine over the columns of several parties.

    Parameters
    ----------
    parties : dict, int or None, default=None
        Who holds which columns: a dict name -> column names, positions or slices; an int M for an even split; None for
        one party.
    loss : Loss or str, default="squared-hinge"
        "squared-hinge" or "hinge", or the loss object.
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
    class_weight : dict or "balanced", default=None
        Class -> weight; "balanced" makes all classes count alike.
    callbacks : list of callables, default=()
        Each is called with the record (`plait.Round`) of every round.
    privacy : mechanism, list or dict of mechanisms, or Policy, default=None
        As in `plait.fit`; `guarantee_` says in words what is protected.
    precision : str, default="float64"
        How numbers are sent: "float64", "float32" in half the bytes, or "int16" in a quarter.

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
    >>> y = X[:, 0] + X[:, 3] > 0
    >>> model = plait.VerticalSVC({"bank": slice(0, 2), "shop": slice(2, 4)}).fit(X, y)
    >>> [c.party for c in model.coefficients()]
    ['bank', 'bank', 'shop', 'shop']
    """

    def __init__(
        self,
        parties: Parties = None,
        *,
        loss: Loss | str = "squared-hinge",
        penalty: PenaltyLike = DEFAULT_PENALTY,
        alpha: float | None = None,
        method: Method | str = AUTO,
        max_rounds: int = Stopping.max_rounds,
        tol: float = Stopping.tol,
        fit_intercept: bool = FIT_INTERCEPT,
        class_weight: Mapping[Any, float] | str | None = None,
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
        self.class_weight = class_weight
        self.callbacks = callbacks
        self.privacy = privacy
        self.precision = precision

    def _loss(self) -> Loss:
        return named_loss(self.loss, _MACHINES, classifies=True)


def _class_weighted(class_weight: Any, y: Any, sample_weight: Any) -> Any:
    """Sample weights (N,) times the weights of their classes; None when all are equal."""
    weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if class_weight is None:
        return weights
    by_class = compute_sample_weight(class_weight, y)
    return by_class if weights is None else by_class * weights


def _check_classes(classes: npt.NDArray[Any], member: npt.NDArray[np.intp], weights: Array | None) -> None:
    """Every class must have samples that count."""
    if classes.size < 2:
        found = f"one class, {classes[0]!r}" if classes.size else "no label"
        raise InputError(f"labels must name at least two classes. Found {found}.")
    if weights is None or weights.shape != member.shape:
        return  # plait.fit says what is wrong with them
    empty = np.bincount(member, weights=weights) == 0
    if empty.any():
        raise InputError(
            f"every class must have samples of positive weight. Found zero weights for class {classes[empty][0]!r}."
        )
