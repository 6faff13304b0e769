"""What all estimators share: reading a table party by party, training, scoring."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.utils import assert_all_finite, check_consistent_length
from sklearn.utils.validation import check_is_fitted, validate_data

from plait._checks import need_type
from plait._types import Array
from plait.data.columns import as_table, assign_columns, split_columns
from plait.data.parts import Part, read_weights
from plait.errors import DataTypeError, InputError, PlaitError, SettingError
from plait.estimators.equal_rows import SMALL, merge_equal_rows
from plait.estimators.nested_options import NestedOptions
from plait.methods.base import Method
from plait.methods.registry import AUTO
from plait.privacy.policy import Policy, check_covered
from plait.problem.features import clip_rows
from plait.problem.losses import Loss
from plait.problem.penalties import Penalty
from plait.problem.registry import loss_of, takes_alpha
from plait.protection.modes import Protection
from plait.training.fit import fit
from plait.training.fit_result import Coefficient, Fit
from plait.training.loop import Observer
from plait.training.stopping import Stopping

Parties: TypeAlias = Mapping[str, Any] | int | None
PenaltyLike: TypeAlias = Penalty | str | Mapping[str, Penalty | str] | Sequence[Penalty | str]
Parts: TypeAlias = Mapping[str, Part]


class Vertical(NestedOptions):
    """What all estimators share: reading the table party by party, training, scoring."""

    parties: Parties
    penalty: PenaltyLike
    alpha: float | None
    l1_ratio: float | None
    method: Method | str
    max_rounds: int
    max_iter: int | None
    tol: float
    fit_intercept: bool
    warm_start: bool
    callbacks: Sequence[Observer]
    privacy: Any
    precision: str
    protection: Protection | str
    coef_: Array
    intercept_: Any
    _copied: bool = False  # whether `clone` made it, as a cross-validation does for each of its fits

    def __sklearn_clone__(self) -> Any:
        copy = super().__sklearn_clone__()
        copy._copied = True
        return copy

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _read_training(self, X: Any, y: Any) -> dict[str, Part]:
        """X as parts, its columns' names and owners remembered."""
        need_type("fit_intercept", self.fit_intercept, bool)
        need_type("warm_start", self.warm_start, bool)
        with as_input_error():
            validate_data(self, X, y, skip_check_array=True)
            check_consistent_length(X, y)
        table = as_table(X)
        rows, width = table.shape
        self._number = _number_of(X)
        self.owners_ = assign_columns(self.parties, width, getattr(self, "feature_names_in_", None))
        if rows < 2:
            raise InputError("there must be at least two rows to learn from. Found one (n_samples=1).")
        Policy.of(self.privacy).admit(tuple(self.owners_), searching=self._copied)
        return self._split(table)

    def _split(self, table: Any) -> dict[str, Part]:
        """Each party's part; an error about numbers says what scikit-learn's does, then which party and column."""
        try:
            return split_columns(table, self.owners_)
        except InputError as error:
            if not (words := _not_finite(table)):
                raise
            raise InputError(f"{words} {error}") from None

    def _train(
        self, parts: Parts, labels: Sequence[Array], loss: Loss, weights: Any, policies: Sequence[Policy]
    ) -> list[Fit]:
        """One run for each of the labels (N,).  A row without weight counts for nothing, as if it were not there."""
        shielded = Protection.of(self.protection) is not None
        if not shielded and not any(_protects(policy, parts) for policy in policies):  # there rows keep their places
            parts, labels, weights = _counting(parts, labels, weights)
            # Who names a method wants to see what it does with the rows.
            if isinstance(self.method, str) and self.method == AUTO:
                parts, labels, weights = merge_equal_rows(parts, labels, weights)
        earlier = self._earlier(len(labels))
        jobs = zip(labels, policies, earlier, strict=True)
        return [self._train_one(parts, y, loss, weights, policy, start) for y, policy, start in jobs]

    def _earlier(self, count: int) -> list[dict[str, Array] | None]:
        """The weights of the last call of `fit`, model by model and party by party; None where they do not fit."""
        weights = np.atleast_2d(getattr(self, "coef_", np.empty((0, 0)))) if self.warm_start else np.empty((0, 0))
        if weights.shape != (count, self.n_features_in_):
            return [None] * count
        return [{name: row[at] for name, at in self.owners_.items()} for row in weights]

    def _train_one(
        self, parts: Parts, labels: Array, loss: Loss, weights: Any, policy: Policy, start: dict[str, Array] | None
    ) -> Fit:
        """One run.  With an intercept, each party first takes the means off its columns; the model is the same.

        A party with a mechanism does not: means are statistics of its data that nobody paid for.  In a protected run
        the means are of all rows alike: nobody is told the row weights, which may tell the labels.
        """
        known = weights if Protection.of(self.protection) is None else None
        mechanisms = policy.mechanisms(tuple(parts))
        pairs: dict[str, tuple[Part, Array | float]] = {name: (part, 0.0) for name, part in parts.items()}
        for name in (name for name, mechanism in mechanisms.items() if not mechanism.protects):
            part = _laid_out(parts[name])
            pairs[name] = _centred(part, known) if self.fit_intercept else (part, 0.0)
        trained = self._run({name: part for name, (part, _) in pairs.items()}, labels, loss, weights, policy, start)
        assert isinstance(trained.weights, dict)
        shift = sum(float(np.sum(pairs[name][1] * x)) for name, x in trained.weights.items())
        return replace(trained, intercept=trained.intercept - shift)

    def _run(
        self, parts: Parts, labels: Any, loss: Loss, weights: Any, policy: Policy, start: dict[str, Array] | None
    ) -> Fit:
        return fit(
            parts,
            labels,
            loss=loss,
            penalty=self.penalty,
            alpha=self.alpha if takes_alpha(self.penalty) else None,  # a grid may vary it along with the penalty
            l1_ratio=self.l1_ratio,
            method=self.method,
            stopping=Stopping(self.max_rounds if self.max_iter is None else self.max_iter, tol=self.tol),
            fit_intercept=self.fit_intercept,
            sample_weight=weights,
            callbacks=self.callbacks,
            privacy=policy,
            precision=self.precision,
            protection=self.protection,
            start=start,
        )

    def _keep(self, fits: Sequence[Fit]) -> tuple[Array, Array]:
        """Remember how training went; the weights (K, d) in the table's order of columns, the intercepts (K,)."""
        self.fits_ = list(fits)
        self.guarantee_ = Policy.of(self.privacy).guarantee(tuple(self.owners_))
        self.n_iter_ = self._rounds([f.rounds for f in fits])
        self.history_ = fits[0].history if len(fits) == 1 else [f.history for f in fits]
        weights = np.empty((len(fits), self.n_features_in_), dtype=self._number)
        for row, trained in zip(weights, fits, strict=True):
            assert isinstance(trained.weights, dict)
            for party, positions in self.owners_.items():
                row[positions] = trained.weights[party]
        return weights, np.array([f.intercept for f in fits], dtype=self._number)

    def _rounds(self, rounds: Sequence[int]) -> Any:
        """How many rounds training took, in the form of `n_iter_`."""
        return max(rounds)

    def coefficients(self) -> list[Coefficient]:
        """Every weight with its party and column; `pandas.DataFrame(model.coefficients())` is a table of them.

        Returns
        -------
        list of Coefficient
            Named tuples (party, column, weight, label), in the table's order of columns; `label` is the class that
            a weight speaks for, where there are more than two, or the number of its target, where there are several.
        """
        check_is_fitted(self, "coef_")
        names = [str(name) for name in getattr(self, "feature_names_in_", range(self.n_features_in_))]
        holder = {int(i): party for party, positions in self.owners_.items() for i in positions}
        weights = np.atleast_2d(self.coef_)
        labels = getattr(self, "classes_", range(len(weights))) if len(weights) > 1 else [None]
        return [
            Coefficient(holder[i], name, float(row[i]), label)
            for label, row in zip(labels, weights, strict=True)
            for i, name in enumerate(names)
        ]

    @property
    def party_coef_(self) -> dict[str, Array]:
        """Party name -> its part of `coef_`, (d_m,) or (K, d_m), its columns in the order of `owners_`."""
        check_is_fitted(self, "coef_")
        return {party: self.coef_[..., positions] for party, positions in self.owners_.items()}

    def _scores(self, X: Any) -> Array:
        """z (N, K) for new rows."""
        check_is_fitted(self, "coef_")
        check_covered(self.fits_[0].uncovered)
        table = as_table(X)
        with as_input_error():
            validate_data(self, X, reset=False, skip_check_array=True)
        parts = self._split(table)
        weights = np.atleast_2d(self.coef_)
        clip = self.fits_[0].clip
        shares = [
            np.asarray(clip_rows(p.matrix, clip.get(name)) @ weights[:, self.owners_[name]].T)
            for name, p in parts.items()
        ]
        z = np.sum(shares, axis=0) + np.atleast_1d(self.intercept_)
        return z.astype(np.result_type(_number_of(X), weights.dtype), copy=False)


def _number_of(X: Any) -> Any:
    """float32 where the whole table is of it, so that a model keeps it; else float64."""
    kinds = getattr(X, "dtypes", None)
    found = {str(kind).lower() for kind in ([getattr(X, "dtype", "")] if kinds is None else kinds)}
    return np.float32 if found == {"float32"} else np.float64


def _not_finite(table: Any) -> str:
    """scikit-learn's words for a table of numbers some of which are missing or infinite; "" for another table."""
    try:
        assert_all_finite(table, input_name="X")
    except TypeError:
        return ""
    except ValueError as error:
        return str(error).splitlines()[0]
    return ""


def _protects(policy: Policy, parts: Parts) -> bool:
    """Whether the policy protects anything; then rows keep their places."""
    return policy.labels is not None or any(m.protects for m in policy.mechanisms(tuple(parts)).values())


def _counting(parts: Parts, labels: Sequence[Array], weights: Any) -> tuple[Parts, Sequence[Array], Array | None]:
    """The rows that have a weight, and the weights as an array (N,); None for equal ones."""
    if weights is None:
        return parts, labels, None
    counts = read_weights(weights, labels[0].size) > 0
    given = np.broadcast_to(np.asarray(weights, dtype=np.float64), counts.shape)
    if counts.all():
        return parts, labels, given
    kept = {name: Part(name, p.matrix[counts], p.columns) for name, p in parts.items()}
    return kept, [y[counts] for y in labels], given[counts]


def _laid_out(part: Part) -> Part:
    """A small part, sparse or not, as a dense one row by row: so equal tables have equal models, to the last digit."""
    matrix = part.matrix
    if matrix.shape[0] * matrix.shape[1] > SMALL:
        return part
    dense = matrix.toarray() if sp.issparse(matrix) else matrix
    return Part(part.name, np.ascontiguousarray(dense), part.columns)


def _centred(part: Part, weights: Any) -> tuple[Part, Array | float]:
    """The part less its weighted column means, and these; a sparse part stays as it is, for it would fill up."""
    if sp.issparse(part.matrix):
        return part, 0.0
    means = read_weights(weights, part.matrix.shape[0]) @ part.matrix
    centred = part.matrix - means
    centred[:, _constant(part.matrix)] = 0.0  # not what rounding left of the mean
    return Part(part.name, centred, part.columns), means


def _constant(matrix: Array) -> npt.NDArray[np.intp]:
    """The columns (k,) of a matrix (N, d) whose numbers are all the same; few need more than two rows to be told."""
    maybe = np.flatnonzero(matrix[0] == matrix[-1])
    return maybe[(matrix[:, maybe] == matrix[0, maybe]).all(axis=0)]


def named_loss(given: Loss | str, known: Mapping[str, type[Loss]], classifies: bool) -> Loss:
    """A loss from its name in `known`, or a loss object of the right kind."""
    if isinstance(given, Loss) and given.classifies != classifies:
        kind = "classification" if classifies else "regression"
        raise SettingError(
            f"loss must be one of {', '.join(map(repr, known))}, or a {kind} loss object. Found {given!r}."
        )
    return loss_of(given, known)


@contextmanager
def as_input_error() -> Iterator[None]:
    """Turn what scikit-learn's validation finds into plait's own error."""
    try:
        yield
    except PlaitError:
        raise
    except TypeError as error:
        raise DataTypeError(f"X, y and weights must be tables and lists of numbers. Found: {error}.") from error
    except (ValueError, OverflowError) as error:
        raise InputError(str(error)) from error
    except (KeyError, IndexError) as error:
        raise InputError(f"X must be a table with rows and columns. Found something else ({error!r}).") from error
