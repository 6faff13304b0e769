"""Local preparation: how a party's columns become the numbers it trains on, fitted on its own rows only.

Columns are imputed, scaled, and one-hot encoded; then a scikit-learn transformer may follow.  What was fitted is kept
as plain numbers (JSON), a transformer in the skops format; nothing is pickled.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp

from plait._files import read_json, write_atomically, write_json
from plait._names import some_of
from plait._types import Array
from plait.data import transformers
from plait.data.csr_writer import CsrWriter
from plait.data.matrix_writer import MatrixWriter
from plait.data.memory import IN_MEMORY, Room
from plait.data.one_hot import category, encode, encode_sparse, places_among, values_of
from plait.data.prepare_options import PrepareOptions
from plait.data.scaling import filling, need_finite, scaling, scaling_by_ranges
from plait.data.sources import REMEDY, Kind, Source
from plait.data.statistics import gather
from plait.data.tables import Table
from plait.errors import ConfigError, InputError, StorageError
from plait.problem.row_blocks import elsewhere, row_slices

_EMPTY = ("", "nan")  # an empty cell, as a text and as a number
_WIDE = 0.05  # of the numbers of a row are stored where a one-hot table is sparse: there products are faster, too


@runtime_checkable
class Rebuilt(Protocol):
    """Numbers that lie elsewhere, say with the actors of a cluster, which read and prepare them from their source."""

    def through(self, prepared: "Preparation", width: int) -> Any: ...


@dataclass(frozen=True)
class Preparation:
    """What was fitted: for every number column (p,) its filling, shift and factor; for every text column its values.

    Scaled numbers are moved into [-bound, bound], and `unit` stands for a value that is present.
    """

    numbers: tuple[str, ...]
    fill: Array
    shift: Array
    factor: Array
    categories: dict[str, tuple[str, ...]]
    bound: float = np.inf
    unit: float = 1.0
    transformer: Any = None
    transformed: tuple[str, ...] = ()
    """The number columns that the transformer is applied to."""

    def apply(self, table: Table, room: Room = IN_MEMORY, dense: bool = False) -> tuple[Any, tuple[str, ...]]:
        """The matrix (N, d), where there is room for it, and the names of its columns.

        A wide one-hot table becomes a CSR matrix, unless it must be `dense`.
        """
        names = tuple(f"{column}={value}" for column, values in self.categories.items() for value in values)
        if self.transformer is not None:
            _need_memory(table)
            matrix, numbers = self._transformed(self._scaled(_pick(table, self.numbers)))
            return _beside(matrix, encode(table, self.categories, self.unit, slice(None))), (*numbers, *names)
        if self._idle and self.numbers == table.names:
            return table.numbers, self.numbers
        if isinstance(table.numbers, Rebuilt):
            return table.numbers.through(self, len(self.numbers) + len(names)), (*self.numbers, *names)
        at = [table.names.index(name) for name in _present(table, self.numbers)]
        width, stored = len(at) + len(names), len(at) + len(self.categories)
        if sp.issparse(table.numbers) or (not dense and stored <= _WIDE * width):
            return self._sparse(table, at, width, room), (*self.numbers, *names)
        writer = MatrixWriter(width, table.rows, room)
        for rows in row_slices(table.rows, width):
            block = self._scaled(table.numbers[rows][:, at])
            writer.append_rows(np.hstack([block, encode(table, self.categories, self.unit, rows)]))
        return writer.finish(), (*self.numbers, *names)

    def _sparse(self, table: Table, at: list[int], width: int, room: Room) -> Any:
        """The matrix (N, d) as CSR, made block by block."""
        stored = table.numbers.nnz if sp.issparse(table.numbers) else table.rows * (len(at) + len(self.categories))
        writer = CsrWriter(room)
        for rows in row_slices(table.rows, width, stored):
            block = sp.csr_matrix(self._scaled(table.numbers[rows][:, at]))
            encoded = encode_sparse(table, self.categories, self.unit, rows)
            writer.append(sp.hstack([block, encoded], format="csr") if encoded.shape[1] else block)
        return writer.finish(width)

    @property
    def _idle(self) -> bool:
        """Whether every number stays as it is."""
        moved = self.shift.any() or (self.factor != 1).any() or np.isfinite(self.bound)
        return not (moved or self.categories or np.isfinite(self.fill).any())

    def steps(self) -> dict[str, float]:
        """By how much each number column grows where the prepared one grows by 1; those of a transformer left out."""
        kept = zip(self.numbers, self.factor.tolist(), strict=True)
        return {name: 1 / factor for name, factor in kept if factor and name not in self.transformed}

    def unseen(self, table: Table) -> list[str]:
        """One sentence per text column with values that training did not have; these count as no value at all."""
        sentences = []
        for column, values in self.categories.items():
            found = category(table, column, slice(None))
            filled = np.array([value not in _EMPTY for value in found.values] or [False])[found.codes]
            new = found.codes[filled & (places_among(found, values) < 0)]
            if new.size:
                sentences.append(
                    f"column {column!r} has values in {new.size} of {len(found)} rows that training did not have, like "
                    f"{found.values[new[0]]!r}. These rows are scored as if the column were empty."
                )
        return sentences

    def _transformed(self, matrix: Any) -> tuple[Any, list[str]]:
        """The number columns, those of the transformer last and under the names that it gives them."""
        if self.transformer is None:
            return matrix, list(self.numbers)
        at = [j for j, name in enumerate(self.numbers) if name in self.transformed]
        rest = [j for j, name in enumerate(self.numbers) if name not in self.transformed]
        made = self.transformer.transform(matrix[:, at])
        names = [self.numbers[j] for j in rest] + transformers.output_names(
            self.transformer, self.transformed, made.shape[1]
        )
        if not rest:
            return made, names
        both = [matrix[:, rest], made]
        return (sp.hstack(both).tocsr() if any(map(sp.issparse, both)) else np.hstack(both)), names

    def _scaled(self, matrix: Any) -> Any:
        if sp.issparse(matrix):
            return sp.csr_matrix(matrix.multiply(self.factor[None, :]))
        filled = np.where(np.isnan(matrix), self.fill[None, :], matrix) if np.isnan(self.fill).sum() == 0 else matrix
        return np.clip((filled - self.shift) * self.factor, -self.bound, self.bound)

    def save(self, folder: Path) -> None:
        """Write preparation.json, and preparation.skops where there is a transformer."""
        content = {
            "format": 2,
            "numbers": list(self.numbers),
            "fill": [None if np.isnan(v) else v for v in self.fill.tolist()],
            "shift": self.shift.tolist(),
            "factor": self.factor.tolist(),
            "categories": {name: list(values) for name, values in self.categories.items()},
            "bound": None if np.isinf(self.bound) else self.bound,
            "unit": self.unit,
            "transformer": None if self.transformer is None else transformers.import_path_of(self.transformer),
            "transformed": list(self.transformed),
        }
        if self.transformer is not None:
            write_atomically(folder / "preparation.skops", transformers.dump(self.transformer))
        write_json(folder / "preparation.json", content)


_STORED = {
    "numbers": [str],
    "fill": [(float, None)],
    "shift": [float],
    "factor": [float],
    "categories": {...: [str]},
    "bound": (float, None),
    "unit": float,
    "transformer": (str, None),
    "transformed": [str],
}


def load(folder: Path) -> Preparation:
    """What `save` wrote, bit for bit."""
    content = read_json(folder / "preparation.json", "a preparation", _STORED, version=2)
    width = len(content["numbers"])
    if any(len(content[name]) != width for name in ("fill", "shift", "factor")):
        raise StorageError(
            f"{folder / 'preparation.json'} must say how each column is prepared. Found others. Restore it."
        )
    transformer = None
    if content["transformer"] is not None:
        transformer = transformers.load(folder / "preparation.skops", content["transformer"])
    return Preparation(
        tuple(content["numbers"]),
        np.array([np.nan if v is None else v for v in content["fill"]], dtype=np.float64),
        np.array(content["shift"], dtype=np.float64),
        np.array(content["factor"], dtype=np.float64),
        {name: tuple(values) for name, values in content["categories"].items()},
        np.inf if content["bound"] is None else content["bound"],
        content["unit"],
        transformer,
        tuple(content["transformed"]),
    )


def fit(table: Table, options: PrepareOptions, leave_out: tuple[str, ...], only: tuple[str, ...] = ()) -> Preparation:
    """Fit on a party's own rows; `leave_out` names labels and dropped columns, `only` those to use (empty for all)."""
    wanted = _wanted((*table.names, *table.texts), leave_out, only)
    categories = {name: values_of(table, name, options.categories.get(name)) for name in options.one_hot}
    for name in wanted:
        if name in table.texts and name not in categories:
            example = table.texts[name].values[table.texts[name].codes[0]]
            raise InputError(f"column {name!r} must hold numbers. Found texts, like {example!r}. {REMEDY}")
    numbers = tuple(name for name in wanted if name not in categories)
    sparse = sp.issparse(table.numbers)
    matrix = table.numbers if sparse else _pick(table, numbers)
    if sparse:
        fill, known = np.zeros(len(numbers)), None
    else:
        known = gather(matrix)
        if options.scale != "ranges":  # those move every number into its range
            need_finite(matrix, known, numbers)
        fill = filling(matrix, known, numbers, options.impute)
        known = known.filled(fill)
    if options.scale == "ranges":
        shift, factor, unit = scaling_by_ranges(matrix, numbers, len(categories), options.ranges)
        fitted = Preparation(numbers, fill, shift, factor, categories, bound=unit, unit=unit)
    else:
        shift, factor = scaling(matrix, known, options.scale)
        if sparse:
            at = [table.names.index(name) for name in numbers]
            shift, factor = shift[at], factor[at]
        fitted = Preparation(numbers, fill, shift, factor, categories)
    if not options.transformer:
        return fitted
    unknown = [name for name in options.transform if name not in numbers]
    if unknown:
        raise ConfigError(
            f"prepare.transform must name number columns of this party. Found {', '.join(unknown)}. "
            f"The number columns are {', '.join(numbers)}."
        )
    _need_memory(table)
    chosen = tuple(name for name in numbers if name in options.transform or not options.transform)
    transformer = transformers.make(options.transformer, options.options)
    transformer.fit(fitted._scaled(_pick(table, numbers))[:, [numbers.index(name) for name in chosen]])
    return replace(fitted, transformer=transformer, transformed=chosen)


def kinds_wanted(
    source: Source, options: PrepareOptions, leave_out: tuple[str, ...], only: tuple[str, ...] = ()
) -> dict[str, Kind]:
    """How the columns of a source are wanted for `fit`: those that are left out are not even read."""
    wanted = _wanted(source.columns, leave_out, only)
    return {name: "category" if name in options.one_hot else "number" for name in [*wanted, *options.one_hot]}


def _beside(matrix: Any, encoded: Array) -> Any:
    if encoded.shape[1]:
        matrix = sp.hstack([matrix, encoded]) if sp.issparse(matrix) else np.hstack([matrix, encoded])
    return sp.csr_matrix(matrix) if sp.issparse(matrix) else np.ascontiguousarray(matrix, dtype=np.float64)


def _wanted(known: tuple[str, ...], leave_out: tuple[str, ...], only: tuple[str, ...]) -> list[str]:
    for name in (*only, *leave_out):
        if name and name not in known:
            raise InputError(f"the file must have a column {name!r}. Found {some_of(known)}.")
    return [name for name in (only or known) if name not in leave_out]


def _pick(table: Table, names: tuple[str, ...]) -> Any:
    if names == table.names:
        return table.numbers
    return table.numbers[:, [table.names.index(name) for name in _present(table, names)]]


def _present(table: Table, names: tuple[str, ...]) -> tuple[str, ...]:
    missing = [name for name in names if name not in table.names]
    if missing:
        raise InputError(f"the file must have the number columns {', '.join(missing)}. Found other columns.")
    return names


def _need_memory(table: Table) -> None:
    if elsewhere(table.numbers):
        raise InputError(
            "prepare.transformer must have the whole table in memory. Found one that does not fit. Raise data.memory, "
            "or leave the transformer out."
        )
