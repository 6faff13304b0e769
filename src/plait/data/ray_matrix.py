"""A matrix whose row blocks are held by actors of a Ray cluster.

Every actor loads its own rows from the source and keeps them.  Vectors of the block's rows and results of the size of a
column cross the network, and nothing else.  An actor that is lost is started again by Ray, loads its rows again, and
answers what it was asked: the results have the same bits.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from plait._threads import blas_threads
from plait._types import Array
from plait.data.preparation import Preparation
from plait.data.recipes import Recipe
from plait.errors import ConfigError, PlaitError, StorageError
from plait.problem.row_blocks import Kernel, Loaded, as_float64, grouped, row_slices


class Holder:
    """What an actor does: hold the rows from `first` to `last`, and compute on them."""

    def __init__(self, recipe: Recipe, first: int, last: int) -> None:
        self._recipe, self._first, self._last = recipe, first, last
        self._rows: Any = None

    def compute(self, kernel: Kernel, group: Sequence[slice], vectors: Sequence[Array], shared: tuple[Any, ...]) -> Any:
        """What a kernel gives for some blocks; the vectors have one entry for each row of the group."""
        rows = self._loaded()
        with blas_threads(1):
            return kernel(Loaded(group, lambda place: as_float64(rows, self._local(place))), vectors, *shared)

    def _local(self, rows: slice) -> slice:
        return slice(rows.start - self._first, rows.stop - self._first)

    def take(self, rows: Any) -> Any:
        """Some rows, by their numbers in the whole table."""
        return self._loaded()[np.asarray(rows) - self._first]

    def _loaded(self) -> Any:
        if self._rows is None:
            self._rows = self._recipe.load(self._first, self._last)
        return self._rows


class RayMatrix:
    """A matrix (N, d) that a cluster holds."""

    def __init__(self, recipe: Recipe, shape: tuple[int, int], workers: int) -> None:
        self.shape, self.dtype, self.ndim = shape, np.dtype(recipe.dtype), 2
        self._recipe, self._workers = recipe, workers
        self._groups = grouped(row_slices(*shape))
        count = min(workers, len(self._groups))
        self._firsts = np.array([self._groups[len(self._groups) * i // count][0].start for i in range(count)])
        lasts = [*self._firsts[1:].tolist(), shape[0]]
        actor = _ray().remote(num_cpus=1, max_restarts=-1, max_task_retries=-1)(Holder)
        self._kept = _ray().put(recipe)  # as long as this matrix: an actor that is started again asks for it
        self._holders = [actor.remote(self._kept, int(a), b) for a, b in zip(self._firsts, lasts, strict=True)]

    @property
    def nbytes(self) -> int:
        """Bytes over all actors."""
        return self.shape[0] * self.shape[1] * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def through(self, prepared: Preparation, width: int) -> "RayMatrix":
        """The same rows, prepared, in new actors; those of this matrix end."""
        self.close()
        return RayMatrix(self._recipe.through(prepared), (self.shape[0], width), self._workers)

    def close(self) -> None:
        """End the actors."""
        for holder in self._holders:
            _ray().kill(holder)
        self._holders = []

    def mapped(self, kernel: Kernel, vectors: Sequence[Array], shared: tuple[Any, ...]) -> Iterator[Any]:
        """What a kernel gives for each group of blocks, in order; all actors compute at once."""
        ray, together = _ray(), _ray().put(shared)
        asked = []
        for group in self._groups:
            first, last = group[0].start, group[-1].stop
            holder = self._holders[int(np.searchsorted(self._firsts, first, side="right")) - 1]
            asked.append(holder.compute.remote(kernel, group, [v[first:last] for v in vectors], together))
        for answer in asked:
            yield _answered(ray, answer)

    def __getitem__(self, key: Any) -> Any:
        """Some rows, and a few columns of them, in this process."""
        rows, columns = key if isinstance(key, tuple) else (key, slice(None))
        wanted = np.arange(self.shape[0])[rows]
        owners = np.searchsorted(self._firsts, wanted, side="right") - 1
        found = np.empty((wanted.size, self.shape[1]), self.dtype)
        for i in np.unique(owners):
            found[owners == i] = _answered(_ray(), self._holders[i].take.remote(wanted[owners == i]))
        return found[:, columns]


def join(address: str, workers: int) -> int:
    """Join the cluster at an address, or start one on this machine; how many actors there will be."""
    ray = _ray()
    if not ray.is_initialized():
        quiet = {"log_to_driver": False, "logging_level": "ERROR"}
        options = {"address": address} if address else {"address": "local", "include_dashboard": False}
        try:
            ray.init(**options, **quiet)
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            raise ConfigError(
                f"cluster.address must be that of a running Ray cluster. Found {address or 'none, and none starts'!r}: "
                f"{str(error).splitlines()[0][:200]}. Start it with `ray start --head`, or leave the address empty."
            ) from error
    return workers or max(1, int(ray.cluster_resources().get("CPU", 1)))


def _answered(ray: Any, answer: Any) -> Any:
    """An actor's answer; its own error where it says what is wrong with the data."""
    try:
        return ray.get(answer)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, PlaitError):
            raise error.cause from None
        raise StorageError(f"every worker of the cluster must compute. Found: {str(error.cause)[:300]}.") from error
    except ray.exceptions.RayError as error:
        raise StorageError(
            f"the Ray cluster must stay reachable. Found: {str(error).splitlines()[0][:200]}. Nothing is lost: start "
            "the program again, and the run goes on."
        ) from error


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise ConfigError(
            "cluster.engine is ray, which must be installed. Found it missing: pip install 'plait[ray]'."
        ) from error
    return ray
