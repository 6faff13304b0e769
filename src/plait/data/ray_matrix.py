"""A matrix whose row blocks are held by actors of a Ray cluster.

Every actor loads its own rows from the source and keeps them.  What crosses the network are vectors of the block's
rows, sums over its rows (D^T v, Gram matrices), and rows that this process asks for: a sample for its curvature, say.
An actor that is lost is started again by Ray, loads its rows again, and answers what it was asked: the results have the
same bits.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from plait._threads import blas_threads
from plait._types import Array
from plait.data.preparation import Preparation
from plait.data.recipes import Recipe
from plait.data.row_places import parted, row_places
from plait.errors import ConfigError, PlaitError, StorageError
from plait.problem.row_blocks import Kernel, Loaded, as_float64, grouped, row_slices, split

Groups = Sequence[Sequence[slice]]
Kept = Sequence[Any]
"""The reference of a `Recipe`, in a list, so that Ray hands it over as it is: an actor looks it up when it needs it."""
_CALL_ROWS = 1 << 20  # rows of a call, which costs about a millisecond: the vectors of the next ones travel meanwhile


class Holder:
    """What an actor does: hold the rows from `first` to `last`, and compute on them."""

    def __init__(self, first: int, last: int) -> None:
        self._first, self._last = first, last
        self._rows: Any = None

    def compute(
        self, recipe: Kept, kernel: Kernel, groups: Groups, vectors: Sequence[Array], shared: tuple[Any, ...]
    ) -> list[Any]:
        """What a kernel gives for each of these groups of blocks; the vectors have one entry for each of their rows."""
        held, start = self._loaded(recipe), groups[0][0].start

        def fetch(rows: slice) -> Array:
            return as_float64(held, slice(rows.start - self._first, rows.stop - self._first))

        def entries(group: Sequence[slice]) -> list[Array]:
            return [v[group[0].start - start : group[-1].stop - start] for v in vectors]

        with blas_threads(1):
            return [kernel(Loaded(group, fetch), entries(group), *shared) for group in groups]

    def take(self, recipe: Kept, rows: Any) -> Any:
        """Some rows, by their numbers in the whole table."""
        return self._loaded(recipe)[np.asarray(rows) - self._first]

    def _loaded(self, recipe: Kept) -> Any:
        """The rows, which an actor that was started again does not have."""
        if self._rows is None:
            self._rows = _ray().get(recipe[0]).load(self._first, self._last)
        return self._rows


class RayMatrix:
    """A matrix (N, d) that a cluster holds."""

    def __init__(self, recipe: Recipe, shape: tuple[int, int], workers: int) -> None:
        self.shape, self.dtype, self.ndim = shape, np.dtype(recipe.dtype), 2
        self._recipe, self._workers = recipe, workers
        held = split(grouped(row_slices(*shape)), workers)
        self._calls = [(i, *call) for i, of_one in enumerate(held) for call in enumerate(_calls(of_one))]
        self._firsts = np.array([of_one[0][0].start for of_one in held])
        lasts = [of_one[-1][-1].stop for of_one in held]
        actor = _ray().remote(num_cpus=1, max_restarts=-1, max_task_retries=-1)(Holder)
        self._kept: Kept = [_ray().put(recipe)]
        self._holders = [actor.remote(int(a), b) for a, b in zip(self._firsts, lasts, strict=True)]

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
        asked: dict[tuple[int, int], Any] = {}
        for i, turn, groups in sorted(self._calls, key=lambda call: call[1]):  # no actor waits for another's vectors
            parts = [v[groups[0][0].start : groups[-1][-1].stop] for v in vectors]
            asked[i, turn] = self._holders[i].compute.remote(self._kept, kernel, groups, parts, together)
        for i, turn, _ in self._calls:
            yield from _answered(ray, asked.pop((i, turn)))

    def __getitem__(self, key: Any) -> Any:
        """Some rows, and some columns of them, in this process, as those of a `DiskMatrix`."""
        rows, columns = parted(key)
        wanted = row_places(rows, self.shape[0])
        owners = np.searchsorted(self._firsts, wanted, side="right") - 1
        found = np.empty((wanted.size, self.shape[1]), self.dtype)
        for i in np.unique(owners):
            found[owners == i] = _answered(_ray(), self._holders[i].take.remote(self._kept, wanted[owners == i]))
        chosen = found[:, columns]
        return chosen if isinstance(rows, slice) or np.ndim(rows) else chosen[0]


def _calls(groups: Groups) -> list[Groups]:
    """Consecutive groups of blocks that an actor is asked for at once."""
    rows = groups[-1][-1].stop - groups[0][0].start
    return split(groups, -(-rows // _CALL_ROWS))


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
