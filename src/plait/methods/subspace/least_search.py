"""The search for the least of equally good weights, round by round at the coordinator."""

from collections.abc import Mapping
from functools import reduce

import numpy as np

from plait._replace import replace
from plait.messages import Share
from plait.methods.base import Measured, Task, vector_of
from plait.methods.subspace.coordinator_state import Groups, SubspaceState
from plait.methods.subspace.least_norm import MOST_ROWS, LeastNorm, ambiguous


def begun(task: Task, state: SubspaceState) -> SubspaceState | None:
    """The state with a search under way; None where there is none to begin, or it has ended."""
    if state.least is not None:
        return None if state.least.done else state
    groups = tuple(i for i, free in enumerate(state.free) if free)
    parts = tuple(state.shares[i] for i in groups)
    if state.searched or state.spans is not None or state.rounded or task.rows > MOST_ROWS:
        return None
    images = tuple(state.images[i].matrix for i in groups)
    if not any(part.any() for part in parts) or not ambiguous(task, state.free_width, images):
        return None
    return replace(state, least=LeastNorm.of(task, groups, parts), searched=True)


def continued(
    task: Task, groups: Groups, state: SubspaceState, least: LeastNorm, shares: Mapping[str, Share]
) -> tuple[SubspaceState, Measured]:
    """One step further in the search for the least weights; where it ends, these are taken."""
    heard = [[shares[name] for name in groups[i] if name in shares] for i in least.groups]
    least = least.heard(task, tuple(reduce(np.add, (vector_of(s) for s in each)) for each in heard))
    before = replace(state.measured, gap=state.bounds.gap(state.measured.objective))
    coefficients = [np.empty(0) if i in least.groups else c for i, c in enumerate(state.coefficients)]
    measured = replace(state.measured, round=before.round + 1)
    state = replace(state, least=least, coefficients=tuple(coefficients), measured=measured)
    if not least.reached:
        return state, before
    parts = dict(zip(least.groups, least.parts(), strict=True))
    found = tuple(parts.get(i, share) for i, share in enumerate(state.shares))
    moved = reduce(np.add, found) - reduce(np.add, state.shares)
    shift = -float(task.weights @ moved) if task.fit_intercept else 0.0
    return replace(state, shares=found, z=state.z + moved + shift, intercept=state.intercept + shift), before
