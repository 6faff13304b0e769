"""`Fit`: a trained model, what it says of itself, and the scores that it gives."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from plait._checks import need_path
from plait._types import Array
from plait.data.parts import in_columns, read_parts
from plait.errors import InputError
from plait.methods.base import Method
from plait.privacy.policy import check_covered
from plait.problem.features import scores_of
from plait.problem.losses import Loss
from plait.training.fit_file import load_fields, save_fields
from plait.training.history import History


class Coefficient(NamedTuple):
    """One weight of a model, and where it belongs.

    Parameters
    ----------
    party : str
        Who holds the column and the weight.
    column : str
        The name of the column; its position where the table has no names.
    weight : float
        The weight.
    label : object, default=None
        The class that the weight speaks for, where a classifier has more than two.
    """

    party: str
    column: str
    weight: float
    label: Any = None


@dataclass(frozen=True, repr=False)
class Fit:
    """A trained model: each party's weights, the intercept, and how the run went.

    `plait.fit` makes it.

    Parameters
    ----------
    weights : list of ndarray or dict of str to ndarray
        The weights of every party, each of shape (d_m,); a list or a dict as the parts were.
    intercept : float
        The constant b; 0 where none was fitted.
    objective : float
        Mean loss and penalties at these weights.
    rounds : int
        How many rounds the run took.
    converged : bool
        Whether the run reached what it was to stop at, and not only a limit of rounds or time.
    reason : str
        Why the run ended, in words.
    history : History
        One record per round.
    method : Method
        The method that was used.
    choice : str
        Why this method, in words.
    loss : Loss
        The loss that was minimised.
    columns : dict of str to tuple of str, default={}
        The names of every party's columns.
    guarantee : str, default=""
        What the run protects, in words: one line per party.
    clip : dict of str to float, default={}
        Where rows of private parties are clipped, in training and in scoring.
    released : dict of str to ndarray, default={}
        Noisy scores of the training rows that a private party released, where it was asked to.
    uncovered : tuple of str, default=()
        Parties whose weights their guarantee does not cover: nothing is scored with them.
    protection : str, default=""
        What a protected run has shown, in words and numbers; empty where nothing was protected.
    gap : float, default=nan
        By how much the objective may still fall at most, relative to it: proved; nan where there is no proof.
    certified : bool, default=False
        Whether the gap is proved and within the tolerance.
    """

    weights: list[Array] | dict[str, Array]
    intercept: float
    objective: float
    rounds: int
    converged: bool
    reason: str
    history: History
    method: Method
    choice: str
    loss: Loss
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    guarantee: str = ""
    clip: Mapping[str, float] = field(default_factory=dict)
    released: Mapping[str, Array] = field(default_factory=dict)
    uncovered: tuple[str, ...] = ()
    protection: str = ""
    gap: float = np.nan
    certified: bool = False

    def __repr__(self) -> str:
        widths = ", ".join(f"{name}: {x.size} columns" for name, x in self._named().items())
        ended = "converged" if self.converged else "not converged"
        return (
            f"Fit({self.loss!r} by {self.method!r}; {widths}; objective {self.objective:.6g}, "
            f"{ended} after {self.rounds} rounds: {self.reason})"
        )

    def _named(self) -> dict[str, Array]:
        """Party name -> weights (d_m,)."""
        if isinstance(self.weights, dict):
            return self.weights
        return {f"party {i}": x for i, x in enumerate(self.weights)}

    def coefficients(self) -> list[Coefficient]:
        """Every weight with its party and column; `pandas.DataFrame(fit.coefficients())` is a table of them.

        Returns
        -------
        list of Coefficient
            Named tuples (party, column, weight, label), party by party in the order of training.
        """
        return [
            Coefficient(name, column, float(weight))
            for name, x in self._named().items()
            for column, weight in zip(self.columns.get(name) or map(str, range(x.size)), x, strict=True)
        ]

    def scores(self, parts: Any) -> Array:
        """z = sum_m D_m x_m + b for new rows.

        Parameters
        ----------
        parts : list or dict of tables (N, d_m)
            As in `plait.fit`.  Columns with names are put into the order of training.

        Returns
        -------
        ndarray of shape (N,)
            One score per row.

        Raises
        ------
        InputError
            When parties, rows or columns are not those of training.
        """
        check_covered(self.uncovered)
        read, weights = read_parts(parts), self._named()
        if len(read) != len(weights) or {part.name for part in read} != set(weights):
            expected = (
                list(weights) if isinstance(self.weights, dict) else f"{len(weights)} parties, in the order of training"
            )
            raise InputError(f"parts must come from {expected}. Found {[part.name for part in read]}.")
        total = np.full(read[0].matrix.shape[0], self.intercept)
        for part in read:
            matrix = in_columns(part, weights[part.name].size, self.columns.get(part.name, ()))
            total += scores_of(matrix, self.clip.get(part.name), weights[part.name])
        return total

    def save(self, path: str | Path) -> None:
        """Write the model to one JSON file, which `Fit.load` reads.

        Parameters
        ----------
        path : str or Path
            Where to; an older file there is replaced at once or not at all.

        Raises
        ------
        StorageError
            When the loss or the method is not one of plait's own.
        """
        save_fields(self, need_path("Fit.save(path)", path))

    @classmethod
    def load(cls, path: str | Path) -> "Fit":
        """Read a model that `save` wrote.

        Parameters
        ----------
        path : str or Path
            The file.

        Returns
        -------
        Fit
            The same model, number for number.

        Raises
        ------
        StorageError
            When there is no such file, or it is damaged or of another version.
        """
        return cls(**load_fields(cls, need_path("Fit.load(path)", path)))
