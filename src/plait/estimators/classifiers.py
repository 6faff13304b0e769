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
from plait.privacy.policy import Policy
from plait.problem.losses import Hinge, Logistic, Loss, SquaredHinge
from plait.training.loop import Observer

_MACHINES: dict[str, Loss] = {"squared_hinge": SquaredHinge(), "hinge": Hinge()}


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

    parties         who holds which columns: a dict name -> column names, positions or slices; an int M for an even
                    split; None for one party
    penalty, alpha  "l2", "l1" or "none" and its strength (1e-4 unless given), or penalty objects: one, or one per party
    method          a plait method, or "auto" for the one that needs the fewest rounds
    max_rounds, tol when to stop
    fit_intercept   add an unpenalised constant
    class_weight    a dict class -> weight, or "balanced"
    callbacks       called with the record of every round
    privacy         as in plait.fit: a mechanism, one per party, or a plait.privacy.Policy; guarantee_ says it in words

    After fit: coef_, intercept_, classes_, n_iter_ (rounds), history_, fits_, owners_, n_features_in_,
    feature_names_in_.
    """

    def __init__(
        self,
        parties: Parties = None,
        *,
        penalty: PenaltyLike = "l2",
        alpha: float | None = None,
        method: Method | str = "auto",
        max_rounds: int = 1000,
        tol: float = 1e-8,
        fit_intercept: bool = True,
        class_weight: Mapping[Any, float] | str | None = None,
        callbacks: Sequence[Observer] = (),
        privacy: Any = None,
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

    loss            "squared_hinge" or "hinge", or the loss object
    the others      as for VerticalLogisticRegression

    After fit: coef_, intercept_, classes_, n_iter_ (rounds), history_, fits_, owners_, n_features_in_,
    feature_names_in_.
    """

    def __init__(
        self,
        parties: Parties = None,
        *,
        loss: Loss | str = "squared_hinge",
        penalty: PenaltyLike = "l2",
        alpha: float | None = None,
        method: Method | str = "auto",
        max_rounds: int = 1000,
        tol: float = 1e-8,
        fit_intercept: bool = True,
        class_weight: Mapping[Any, float] | str | None = None,
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
        self.class_weight = class_weight
        self.callbacks = callbacks
        self.privacy = privacy

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
        raise InputError(f"labels must name at least two classes. Found one class, {classes[0]!r}.")
    if weights is None or weights.shape != member.shape:
        return  # plait.fit says what is wrong with them
    empty = np.bincount(member, weights=weights) == 0
    if empty.any():
        raise InputError(
            f"every class must have samples of positive weight. Found zero weights for class {classes[empty][0]!r}."
        )
