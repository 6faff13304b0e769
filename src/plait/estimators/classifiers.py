"""What the classifiers over the columns of several parties share."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets

from plait._types import Array
from plait.errors import InputError, SettingError
from plait.estimators.base import Vertical, as_input_error
from plait.privacy.policy import Policy
from plait.problem.losses import Loss
from plait.problem.registry import keeps_bounds


class VerticalClassifier(ClassifierMixin, Vertical):  # type: ignore[misc]
    """A binary model, or one against the rest for every class."""

    class_weight: Mapping[Any, float] | str | None
    classes_: npt.NDArray[Any]

    def _loss(self) -> Loss:
        raise NotImplementedError

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The accuracy on X (N, d) and the classes y (N,): the share of rows whose class is predicted."""
        with as_input_error():
            return float(super().score(X, y, sample_weight))

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Train on X (N, d) and the classes y (N,); more than two classes are trained one against the rest."""
        loss = self._loss()
        _check_class_weight(self.class_weight, Policy.of(self.privacy))
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
        labels = [np.where(member == k, 1.0, -1.0) for k in policies]
        self.coef_, self.intercept_ = self._keep(self._train(parts, labels, loss, weights, list(policies.values())))
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = keeps_bounds(self.penalty)  # the best model within bounds may be a poor one
        return tags

    def decision_function(self, X: Any) -> Array:
        """The scores: (N,) for two classes, else (N, K)."""
        z = self._scores(X)
        return z[:, 0] if self.classes_.size == 2 else z

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The likeliest class of every row, (N,)."""
        z = self.decision_function(X)
        return self.classes_[(z > 0).astype(int) if z.ndim == 1 else z.argmax(axis=1)]


def _class_weighted(class_weight: Any, y: Any, sample_weight: Any) -> Any:
    """Row weights (N,) times the weights of their classes; None when all are equal."""
    weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if class_weight is None:
        return weights
    by_class = compute_sample_weight(class_weight, y)
    return by_class if weights is None else by_class * weights


def _check_class_weight(class_weight: Any, policy: Policy) -> None:
    """The weight of a row's class is its label, and every party is told the weights."""
    if class_weight is not None and policy.labels is not None:
        raise SettingError(
            "labels that are protected must not show in the weights that every party is told. Found class_weight = "
            f"{class_weight!r}. Leave it out; sample_weight may be given where it does not depend on the labels."
        )


def _check_classes(classes: npt.NDArray[Any], member: npt.NDArray[np.intp], weights: Array | None) -> None:
    """Every class must have rows that count."""
    if classes.size < 2:
        found = f"one class, {classes[0]!r}" if classes.size else "no label"
        raise InputError(f"labels must name at least two classes. Found {found}.")
    if weights is None or weights.shape != member.shape:
        return  # plait.fit says what is wrong with them
    empty = np.bincount(member, weights=weights) == 0
    if empty.any():
        raise InputError(
            f"every class must have rows of positive weight. Found zero weights for class {classes[empty][0]!r}."
        )
