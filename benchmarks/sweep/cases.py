"""The cases of the sweep, by name.  A case is built when it runs, so that listing them costs nothing."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.sweep.mixtures import ALL, CONSTRAINTS, MIXTURES, PENALTIES, pick
from benchmarks.sweep.problems import Array, Loss, Problem
from benchmarks.sweep.tables import GENERATED, LARGE, PLAIN, table

LOSSES = {
    "logistic": Loss("logistic"),
    "squared": Loss("squared"),
    "hinge": Loss("hinge"),
    "squared_hinge": Loss("squared_hinge"),
    "huber": Loss("huber", 1.35),
    "poisson": Loss("poisson"),
    "pinball": Loss("pinball", 0.9),
}
SPLITS = ("contiguous", "interleaved", "random")


@dataclass(frozen=True)
class Case:
    """One fit: a problem, the number format of its messages, and the method."""

    name: str
    build: Callable[[], Problem]
    loss: str
    penalty: str
    precision: str = "float64"
    method: str = "auto"
    tol: float = 1e-6

    @property
    def family(self) -> str:
        return self.name.split(" | ")[0]


def dealt(width: int, parties: int, split: str, seed: int) -> list[Array]:
    """Which columns each party holds; no party without a column."""
    parties = min(parties, width)
    order = np.arange(width)
    if split == "interleaved":
        return [order[k::parties] for k in range(parties)]
    if split == "random":
        order = np.random.default_rng(seed).permutation(width)
    return np.array_split(order, parties)


def problem(name: str, loss: str, penalty: str, parties: int, split: str, intercept: bool, seed: int) -> Problem:
    """Deal a table's columns to parties and give each its penalty."""
    given = table(name, seed)
    if given.widths:
        ends = np.cumsum(given.widths)
        held = [np.arange(e - w, e) for e, w in zip(ends, given.widths, strict=True)]
    else:
        held = dealt(given.columns.shape[1], parties, split, seed)
    y = given.target(loss)
    kind = LOSSES[loss]
    slope = kind.slope(np.full(y.size, y.mean() if loss in ("squared", "huber", "pinball") else 0.0), y)
    top = float(np.abs(given.columns.T @ slope).max()) / y.size
    parts = tuple(np.ascontiguousarray(given.columns[:, h]) for h in held)
    return Problem(kind, parts, y, ALL[penalty]([h.size for h in held], top), intercept, given.weights)


def _case(family: str, name: str, loss: str, penalty: str, seed: int, parties: Sequence[int], **how: str) -> Case:
    what = f"{family} | {name} | {loss} | {penalty}"
    m = int(pick(what + " parties", parties, seed))
    split = str(pick(what + " split", SPLITS, seed))
    intercept = bool(pick(what + " intercept", (0, 1), seed))
    words = [f"M={m}", split, *(["intercept"] if intercept else []), *how.values()]
    return Case(
        f"{what} | {' '.join(words)}",
        lambda: problem(name, loss, penalty, m, split, intercept, seed),
        loss,
        penalty,
        **how,  # type: ignore[arg-type]
    )


def plain(seed: int) -> Iterator[Case]:
    """Every loss and penalty on the tables of scikit-learn."""
    for name in PLAIN:
        for loss in LOSSES:
            for penalty in PENALTIES:
                yield _case("plain", name, loss, penalty, seed, (2, 3, 5, 10))


def constrained(seed: int) -> Iterator[Case]:
    """Constraints everywhere, and mixtures between parties."""
    for name in ("breast", "diabetes", "wine", "iris", "digits", "normal", "weighted"):
        for loss in LOSSES:
            for penalty in CONSTRAINTS | MIXTURES:
                yield _case("constrained", name, loss, penalty, seed, (2, 3, 4))


def stress(seed: int) -> Iterator[Case]:
    """Tables that are hard on the arithmetic."""
    for name in GENERATED:
        for loss in LOSSES:
            for penalty in ("none", "l2(1e-4)", "l1(1e-3)", "l1(top/30)", "enet(1e-4)", "one nonneg"):
                yield _case("stress", name, loss, penalty, seed, (2, 3, 10))


def formats(seed: int) -> Iterator[Case]:
    """Short numbers on the wire."""
    for name in ("breast", "diabetes", "wine", "copies 1e-3", "hundred columns"):
        for loss in LOSSES:
            for penalty in ("l2(1e-4)", "l1(1e-3)", "one nonneg"):
                for precision in ("float32", "int16"):
                    yield _case("format", name, loss, penalty, seed, (2, 10), precision=precision)


def methods(seed: int) -> Iterator[Case]:
    """Methods that a user may choose."""
    for name in ("breast", "diabetes", "normal"):
        for loss in LOSSES:
            for penalty in ("l2(1e-2)", "l1(1e-2)", "group(1e-2)", "l2+nonneg"):
                for method in ("Proximal", "GaussSeidel"):
                    yield _case("method", name, loss, penalty, seed, (2, 3), method=method)


def party_counts(seed: int) -> Iterator[Case]:
    """One party, and fifty."""
    for parties in (1, 50):
        for loss in LOSSES:
            for penalty in ("l2(1e-4)", "l1(1e-3)", "enet(1e-2)", "group(1e-2)", "one nonneg"):
                yield _case("parties", "hundred columns", loss, penalty, seed, (parties,))


def public(seed: int) -> Iterator[Case]:
    """The first rows of larger public tables; skipped where PLAIT_DATA has none."""
    for name in LARGE:
        for loss in LOSSES:
            for penalty in ("l2(1e-4)", "l1(1e-3)", "l1(1e-4)", "one nonneg"):
                yield _case("public", name, loss, penalty, seed, (2, 10))
