"""What the coordinator keeps of products from one round to the next: of steps, and of the vectors themselves."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from plait._types import Array
from plait.methods.subspace.coordinator_state import SubspaceState
from plait.methods.subspace.questions import Span


def step_products(
    state: SubspaceState, spans: Sequence[Span], coefficients: Sequence[Array]
) -> tuple[tuple[Array, ...], Array]:
    """Each group's products after the step, and the new step's with the last ones and itself, over all groups."""
    grown, total = [], np.zeros(0)
    for old, span, c in zip(state.products, spans, coefficients, strict=True):
        height, width = old.shape
        table = np.zeros((height + 1, width + 1))  # the products with the new step come last
        if not span.kinks:
            table[:height, :width] = old
            along, itself = span.report.along, span.report.model.k @ c
            table[height, :width] = along[len(along) - width :]
            table[0 if state.dropped else 1 :, width] = itself
        step = c @ (table if state.dropped else table[1:])
        if not state.dropped:
            table[0, width] = float(step[:width].sum())
        total = step if not total.size else total + step
        table[0] += step
        table = table[:, -state.memory :]
        grown.append(table if height <= state.memory else np.vstack([table[0], table[-state.memory :]]))
    return tuple(grown), total


def vector_places(state: SubspaceState, free: int) -> npt.NDArray[np.intp]:
    """Where each vector of all groups' bases, and the constant, was in the last round; -1 for a new one, or x.

    free: 1 where there is a constant, else 0.
    """
    if state.gram_known is None:
        return np.empty(0, dtype=np.intp)
    groups = len(state.images)
    each = (len(state.gram_known) - free) // groups
    return _places(groups, each, len(state.images[0]), state.dropped, free)


@lru_cache(maxsize=256)  # shapes: those of a few runs
def _places(groups: int, each: int, kept: int, dropped: bool, free: int) -> npt.NDArray[np.intp]:
    """The same where each group had so many vectors, of which the last ones are kept."""
    places: list[int] = []
    for last in range(each, (groups + 1) * each, each):
        places += [*[-1] * dropped, *range(last - kept, last), -1]
    return np.array([*places, *range(each * groups, each * groups + free)], dtype=np.intp)
