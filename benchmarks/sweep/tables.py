"""The tables that models are trained on: those that come with scikit-learn, generated ones, and those of PLAIT_DATA."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.special import expit
from sklearn import datasets as bundled

from benchmarks.datasets.a9a import a9a
from benchmarks.datasets.credit import credit
from benchmarks.sweep.problems import Array
from plait.errors import DatasetError

__all__ = ["GENERATED", "LARGE", "PLAIN", "DatasetError", "Table", "table"]


@dataclass(frozen=True)
class Table:
    """Columns (N, d) and one target for each kind of loss; `widths` where the parties' columns are given."""

    columns: Array
    classes: Array
    numbers: Array
    counts: Array
    widths: tuple[int, ...] = ()
    weights: Array | None = None

    def target(self, loss: str) -> Array:
        """Labels that the loss can take."""
        if loss == "poisson":
            return self.counts
        return self.classes if loss in ("logistic", "hinge", "squared_hinge") else self.numbers


def _table(columns: Array, target: Array, classes: Array | None = None) -> Table:
    """One target in three forms: above its median or not, as it is, and as counts with mean 3."""
    if classes is None:
        classes = target > np.median(target)
    counts = np.round(3 * (target - target.min()) / max(float(np.mean(target - target.min())), 1e-12))
    return Table(columns, np.where(classes, 1.0, -1.0), target.astype(np.float64), counts)


def standardised(columns: Array) -> Array:
    spread = columns.std(axis=0)
    return (columns - columns.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


def _breast(raw: bool = False) -> Table:
    x, y = bundled.load_breast_cancer(return_X_y=True)
    return _table(x if raw else standardised(x), x[:, 3] / 100.0 + y, y == 1)


def _diabetes() -> Table:
    return _table(*bundled.load_diabetes(return_X_y=True))


def _digits() -> Table:
    x, y = bundled.load_digits(return_X_y=True)
    return _table(x / 16.0, y.astype(float), y >= 5)


def _wine(raw: bool = False) -> Table:
    x, y = bundled.load_wine(return_X_y=True)
    return _table(x if raw else standardised(x), x[:, 0] + y, y == 1)


def _iris() -> Table:
    x, y = bundled.load_iris(return_X_y=True)
    return _table(x, y.astype(float), y == 1)


def _linnerud() -> Table:
    x, y = bundled.load_linnerud(return_X_y=True)
    return _table(standardised(x), y[:, 0])


PLAIN: dict[str, Callable[[], Table]] = {
    "breast": _breast,
    "diabetes": _diabetes,
    "digits": _digits,
    "wine": _wine,
    "iris": _iris,
    "linnerud": _linnerud,
    "breast raw": lambda: _breast(raw=True),
    "wine raw": lambda: _wine(raw=True),
}


def generated(columns: Array, rng: np.random.Generator, noise: float = 0.5) -> Table:
    """A linear model with a third of its weights not zero; classes are drawn from a logistic model of it."""
    spread = columns.std(axis=0)
    weights = rng.normal(size=columns.shape[1]) * (rng.random(columns.shape[1]) < 1 / 3)
    weights[rng.integers(columns.shape[1])] = 1.0
    z = standardised(columns) @ np.where(spread > 0, weights, 0.0)
    z /= max(float(z.std()), 1e-12)
    numbers = z + noise * rng.normal(size=z.size)
    classes = rng.random(z.size) < expit(2 * z)
    classes[:2] = [True, False]
    return Table(columns, np.where(classes, 1.0, -1.0), numbers, rng.poisson(np.exp(0.5 * z)).astype(float))


def _normal(rng: np.random.Generator, rows: int = 300, columns: int = 24) -> Table:
    return generated(rng.normal(size=(rows, columns)), rng)


def _near_copies(rng: np.random.Generator, parties: int, size: float, rows: int = 600, width: int = 8) -> Table:
    """Every party holds the same columns up to noise of this size."""
    first = rng.normal(size=(rows, width))
    copies = [first] + [first + size * rng.normal(size=first.shape) for _ in range(parties - 1)]
    return replace(generated(np.hstack(copies), rng), widths=(width,) * parties)


def _correlated(rng: np.random.Generator) -> Table:
    shared = rng.normal(size=(300, 1))
    return generated(np.sqrt(0.95) * shared + np.sqrt(0.05) * rng.normal(size=(300, 60)), rng)


def _scales(rng: np.random.Generator, decades: float) -> Table:
    plain = _normal(rng)
    return replace(plain, columns=plain.columns * 10 ** rng.uniform(-decades, decades, size=24))


def _low_rank(rng: np.random.Generator) -> Table:
    return generated(rng.normal(size=(300, 10)) @ rng.normal(size=(10, 60)), rng)


def _offset(rng: np.random.Generator, by: float) -> Table:
    plain = _normal(rng)
    return replace(plain, numbers=plain.numbers + by)


def _large_target(rng: np.random.Generator) -> Table:
    plain = _normal(rng)
    return replace(plain, numbers=2e5 + 1e5 * plain.numbers)


def _shifted_columns(rng: np.random.Generator) -> Table:
    plain = _normal(rng)
    return replace(plain, columns=plain.columns + 1e3)


def _imbalance(rng: np.random.Generator) -> Table:
    plain = _normal(rng, rows=1000)
    rare = plain.numbers > np.quantile(plain.numbers, 0.985)
    return replace(plain, classes=np.where(rare, 1.0, -1.0), counts=np.where(rare, plain.counts, 0.0))


def _weighted(rng: np.random.Generator) -> Table:
    plain = _normal(rng)
    weights = np.exp(2 * rng.normal(size=300)) * (rng.random(300) < 0.8)
    return replace(plain, weights=weights)


def _constant_columns(rng: np.random.Generator) -> Table:
    plain = _normal(rng)
    plain.columns[:, ::7] = 1.0
    plain.columns[:, 1::11] = 0.0
    return plain


def _outliers(rng: np.random.Generator) -> Table:
    plain = _normal(rng)
    return replace(plain, numbers=plain.numbers + rng.standard_cauchy(size=300))


def _one_hot(rng: np.random.Generator) -> Table:
    levels = rng.integers(0, 8, size=(500, 8))
    return generated((levels[:, :, None] == np.arange(8)).reshape(500, 64).astype(float), rng)


def _exact(rng: np.random.Generator) -> Table:
    x = rng.normal(size=(100, 4))
    z = x @ rng.normal(size=4)
    return Table(x, np.where(rng.random(100) < expit(z), 1.0, -1.0), z + 2, rng.poisson(np.exp(0.3 * z)).astype(float))


GENERATED: dict[str, Callable[[np.random.Generator], Table]] = {
    "normal": _normal,
    "copies 1e-3": lambda rng: _near_copies(rng, 2, 1e-3, rows=2000, width=10),
    "copies 1e-5": lambda rng: _near_copies(rng, 5, 1e-5),
    "same columns": lambda rng: _near_copies(rng, 3, 0.0),
    "correlated": _correlated,
    "wide": lambda rng: _normal(rng, rows=40, columns=120),
    "very wide": lambda rng: _normal(rng, rows=30, columns=600),
    "tiny wide": lambda rng: _normal(rng, rows=8, columns=16),
    "scales 1e3": lambda rng: _scales(rng, 3.0),
    "scales 1e6": lambda rng: _scales(rng, 6.0),
    "low rank": _low_rank,
    "target + 1e3": lambda rng: _offset(rng, 1e3),
    "target + 1e6": lambda rng: _offset(rng, 1e6),
    "target 2e5": _large_target,
    "columns + 1e3": _shifted_columns,
    "imbalance": _imbalance,
    "weighted": _weighted,
    "constant columns": _constant_columns,
    "outliers": _outliers,
    "one hot": _one_hot,
    "exact": _exact,
    "hundred columns": lambda rng: _normal(rng, rows=400, columns=100),
}


def _a9a() -> Table:
    parts, y = a9a(2)
    columns = np.hstack([p[:3000].toarray() for p in parts])
    rng = np.random.default_rng(0)
    return replace(_table(columns, columns.sum(axis=1) + rng.normal(size=3000)), classes=y[:3000])


def _credit() -> Table:
    parts, y = credit()
    columns = np.hstack([p[:3000] for p in parts])
    rng = np.random.default_rng(0)
    return replace(_table(columns, columns[:, :4].sum(axis=1) + rng.normal(size=3000)), classes=y[:3000])


LARGE: dict[str, Callable[[], Table]] = {"a9a": _a9a, "credit": _credit}


@lru_cache(maxsize=32)
def table(name: str, seed: int = 0) -> Table:
    """A table by its name; `seed` draws the generated ones anew."""
    if name in GENERATED:
        return GENERATED[name](np.random.default_rng([seed, *name.encode()]))
    return (PLAIN | LARGE)[name]()
