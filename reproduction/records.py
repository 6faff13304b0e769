"""What a reproduction measures, and how it is kept: one JSON file per stage, written whole."""

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

import numpy as np

from plait._files import read_json, write_json
from plait._version import __version__
from plait.errors import StorageError

_FORMAT = 1
R = TypeVar("R")


@dataclass(frozen=True)
class Trail:
    """One run, epoch by epoch; entry 0 is the start."""

    setting: str
    objective: tuple[float, ...]
    test: tuple[float, ...]
    lyapunov: tuple[float, ...] = ()

    def reaches(self, objective: float) -> int | None:
        """The first epoch whose training objective is at most this."""
        return _first(self.objective, objective)

    def reaches_test(self, loss: float) -> int | None:
        """The first epoch whose test log loss is at most this."""
        return _first(self.test, loss)

    @property
    def best_epoch(self) -> int:
        """The epoch with the lowest test log loss."""
        return int(np.nanargmin(self.test))


@dataclass(frozen=True)
class Tuning:
    """All settings that were tried, the parameter behind each, and the one with the lowest final training objective."""

    method: str
    values: tuple[tuple[float, ...], ...]
    trails: tuple[Trail, ...]

    @property
    def chosen(self) -> int:
        final = [t.objective[-1] for t in self.trails]
        return int(np.argmin(np.where(np.isfinite(final), final, np.inf)))


@dataclass(frozen=True)
class Race:
    """Figures 1a and 2a: both grids, then the chosen settings and the subspace method."""

    admm_grid: Tuning
    sgd_grid: Tuning
    admm: Trail
    sgd: Trail
    subspace: Trail

    @property
    def rho(self) -> float:
        return self.admm_grid.values[self.admm_grid.chosen][0]

    @property
    def lowest(self) -> float:
        """The lowest training objective that any run reached."""
        seen = [self.admm, self.sgd, self.subspace, *self.admm_grid.trails, *self.sgd_grid.trails]
        return float(np.nanmin([np.nanmin(t.objective) for t in seen]))


@dataclass(frozen=True)
class Baselines:
    """scikit-learn on all columns and on the first party's alone; then the same problem solved in other ways.

    together, alone    test log loss with scikit-learn's own settings (C = 1)
    iterations         how many the first of them took before its tolerance of 1e-4 was met
    optimum            the training objective at C = 1 without an intercept, solved to a tolerance of 1e-9
    at_optimum         the test log loss there
    stopped            test log loss of the pooled solver stopped after so many iterations
    penalties          test log loss for each C
    """

    together: float
    alone: float
    iterations: int
    optimum: float
    at_optimum: float
    stopped: tuple[tuple[int, float], ...]
    penalties: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Difference:
    """ADMM's test log loss minus scikit-learn's, on the same rows, and its standard error over these rows."""

    mean: float
    error: float


@dataclass(frozen=True)
class Noisy:
    """Figures 1b, 2b and 3: a run with the paper's noise."""

    sigma: float
    seed: int
    trail: Trail


@dataclass(frozen=True)
class Holding:
    """A party's table: its width and rank, the least positive and the largest eigenvalue of D^T D, and row norms."""

    party: str
    columns: int
    rank: int
    smallest: float
    largest: float
    shortest_row: float
    longest_row: float


@dataclass(frozen=True)
class Facts:
    """What was trained on; `origins` counts a rebuilt table's columns by party and origin."""

    description: str
    rows: int
    test_rows: int
    holdings: tuple[Holding, ...]
    origins: tuple[tuple[str, tuple[int, ...]], ...] = ()


@dataclass(frozen=True)
class Replay:
    """One ADMM run seen through the theory.

    lagrangian    the augmented Lagrangian divided by N, from epoch 1 on
    bound         the largest norm of x_m, y and z on the way: the paper's b_1
    """

    rho: float
    trail: Trail
    lagrangian: tuple[float, ...]
    bound: float


@dataclass(frozen=True)
class Theory:
    """Convergence checked: runs replayed, a second split into many parties, and a counterexample.

    crowd            parties of the second split
    crowded          its runs, one for each rho of the grid
    counterexample   objective after every round where the paper's assumption holds, by number of parties
    """

    replays: tuple[Replay, ...]
    crowd: int
    crowded: tuple[Trail, ...]
    counterexample: tuple[tuple[int, tuple[float, ...]], ...]


@dataclass(frozen=True)
class Timed:
    """Seconds for the same updates on the same inputs, over all parties and rounds.

    x_prototype, z_prototype   SciPy's L-BFGS-B; SciPy's scalar minimisation, one call per sample
    x_first                    plait's x-update in the first round, which factorises
    x_plait, z_plait           plait's updates in all rounds, the first included
    x_excess                   how much larger the prototype's x-objective is, relative, at most
    z_gap                      the largest difference between two z
    """

    rounds: int
    x_prototype: float
    z_prototype: float
    x_first: float
    x_plait: float
    z_plait: float
    x_excess: float
    z_gap: float


@dataclass(frozen=True)
class Support:
    """A game: was the share made from the table or from a neighbour?  Guessed by which column space it lies in."""

    party: str
    sigma: float
    change: float
    games: int
    right: int


@dataclass(frozen=True)
class Measured:
    """Everything about one data set."""

    facts: Facts
    baselines: Baselines
    race: Race
    difference: Difference
    noise: tuple[Noisy, ...]
    theory: Theory
    timed: Timed
    support: Support

    @property
    def optimum(self) -> float:
        """The lowest training objective seen anywhere."""
        return min(self.baselines.optimum, self.race.lowest)

    def noisy_losses(self, sigma: float) -> list[float]:
        """Test log losses at the end, one per seed."""
        return [n.trail.test[-1] for n in self.noise if n.sigma == sigma]


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """A disk that is full or closed is an error of its own, and says what to do."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"{path} must be a file that can be written. Found: {error.strerror}. Make room, or choose another folder."
        ) from error


class Shelf:
    """A folder of finished stages; one made with other settings counts as absent."""

    def __init__(self, folder: Path, settings: object, fresh: bool = False) -> None:
        self.folder = folder
        self.digest = hashlib.sha256(f"{__version__} {settings!r}".encode()).hexdigest()
        self.fresh = fresh
        self.seconds = self.processor = 0.0
        """What all stages asked for so far took when they were computed, by the clock and of the processors."""

    def stage(self, name: str, kind: Any, compute: Callable[[], R]) -> R:
        """The stage as it was kept, or computed now and kept."""
        path = self.folder / f"{name}.json"
        kept = None if self.fresh else self._kept(path)
        if kept is not None:
            self._took(kept["seconds"], kept["processor"])
            return cast(R, read_record(kind, kept["result"]))
        began, busy = time.perf_counter(), time.process_time()
        result = compute()
        took = {"seconds": time.perf_counter() - began, "processor": time.process_time() - busy}
        with writing(path):
            write_json(path, {"format": _FORMAT, "settings": self.digest, **took, "result": _plain(result)})
        self._took(**took)
        return result

    def _took(self, seconds: float, processor: float) -> None:
        self.seconds += seconds
        self.processor += processor

    def _kept(self, path: Path) -> dict[str, Any] | None:
        try:
            content = read_json(path, "A kept stage", {}, _FORMAT)
        except StorageError:
            return None
        return content if content.get("settings") == self.digest else None


def _plain(record: Any) -> Any:
    """A record, or a tuple of them, as JSON can hold it."""
    return [_plain(r) for r in record] if isinstance(record, tuple) else asdict(record)


def read_record(kind: Any, content: Any) -> Any:
    """A record from what JSON made of it: lists become tuples again, objects become dataclasses."""
    if is_dataclass(kind) and isinstance(kind, type):
        hints = get_type_hints(kind)
        return kind(**{f.name: read_record(hints[f.name], content[f.name]) for f in fields(kind)})
    if get_origin(kind) is tuple:
        items = get_args(kind)
        each = [items[0]] * len(content) if items[-1] is ... else items
        return tuple(read_record(item, c) for item, c in zip(each, content, strict=True))
    return content


def _first(values: tuple[float, ...], level: float) -> int | None:
    reached = np.flatnonzero(np.asarray(values) <= level)
    return int(reached[0]) if reached.size else None
