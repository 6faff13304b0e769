"""The subspace method where the coordinator sees sums over groups of parties only.

Most of what parties say is added up anyway.  Two things are minima: how much of a step stays within bounds, and the
largest t with a finite conjugate at -t D^T g.  A minimum cannot be read off a sum, so parties say instead

    by how much a step falls short, 0 or more:      the sum is 0 where every party can take all of it
    the conjugate at every rung t of a ladder,      the sum at a rung is the parties' joint conjugate;
      and 0 there, or infinity where it has none:   infinite where any party has none

Vectors are given in a unit that the coordinator names, the size of the last sum, and rounded to 2^-40 of it.

Masks turn infinity into a random number, so that nobody learns how many parties, or which, have no conjugate at a rung.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from plait._types import Array
from plait.messages import Broadcast, Form, Share
from plait.methods.base import CoordinatorSide, Measured, PartySide
from plait.methods.protected.outlook import Outlook
from plait.methods.subspace.coordinator_state import Groups
from plait.methods.subspace.messages import NUMBERS, StepProposal
from plait.methods.subspace.party import SubspaceParty
from plait.methods.subspace.party_state import SubspacePartyState
from plait.problem.conjugates import conjugate, reach
from plait.problem.penalties import Penalty

_HALVINGS, _PER_HALVING = 40, 2  # of 1 - t, down to 1e-12; rungs for each: a gap is at most sqrt(2) times as wide
LADDER = np.append(1 - 2.0 ** (-np.arange(1, _HALVINGS * _PER_HALVING + 1) / _PER_HALVING), 1.0)
_REACH, _CONJUGATE = NUMBERS.index("reach"), NUMBERS.index("conjugate")
GRID_BITS = 40  # of a number in a sum, in units of the last sum's largest: as secure sums round
_SHORT = slice(0, 2)  # of an answer: fraction and scale


def rungs(penalty: Penalty, pull: Array) -> Array:
    """The conjugate at -t D^T g for every t of the ladder (K,), infinite where it has none, then 0 or infinity (K,)."""
    largest = reach(penalty, -pull) if penalty.convex else 0.0
    found = np.array([conjugate(penalty, -t * pull) if t <= largest else np.inf for t in LADDER])
    return np.concatenate([found, np.where(np.isfinite(found), 0.0, np.inf)])


class SummedParty(PartySide):
    """A party whose shares have one form for all parties of a group, and mean something once they are added up."""

    def __init__(self, inner: SubspaceParty) -> None:
        self.inner = inner

    def start(self) -> Any:
        return self.inner.start()

    def check(self, state: Any, broadcast: Broadcast) -> None:
        self.inner.check(state, broadcast)

    def respond(self, state: Any, broadcast: Broadcast) -> tuple[Any, Share]:
        state, share = self.inner.respond(state, broadcast)
        scalars = share.scalars.copy()
        if broadcast.vector is None:
            scalars[_SHORT] = 1 - scalars[_SHORT]
            return state, replace(share, scalars=scalars)
        scalars[[_REACH, _CONJUGATE]] = 0.0
        unit = Outlook.unpack(StepProposal.unpack(broadcast.scalars).outlook).unit
        rows = self.inner.block.features.rows
        vector = (
            np.zeros(rows)
            if share.vector is None
            else np.ldexp(np.rint(np.ldexp(share.vector / unit, GRID_BITS)), -GRID_BITS)
        )
        if share.vector is not None and self.inner.keeps:
            state = self._arrived(state, unit * vector)
        penalty = self.inner.block.penalty
        along = 0 if penalty.smooth or broadcast.closing else len(state.steps[-_memory(broadcast) :])
        scalars = np.concatenate([[unit], rungs(penalty, broadcast.vector), scalars, np.zeros(along)])
        return state, replace(share, vector=vector, scalars=scalars)

    def _arrived(self, state: SubspacePartyState, vector: Array) -> SubspacePartyState:
        """With the vector as the sum holds it, on a grid."""
        if state.corrected is not None:
            return replace(state, known=state.known - state.corrected + vector, corrected=None)
        return replace(state, image=vector)

    def weights(self, state: Any) -> Array:
        return self.inner.weights(state)

    def shown(self, state: Any) -> int:
        return self.inner.shown(state)


class SummedCoordinator(CoordinatorSide):
    """Reads sums over groups; where the shares themselves come, it adds them up."""

    def __init__(self, inner: CoordinatorSide, groups: Groups) -> None:
        self.inner, self.groups = inner, groups

    def start(self) -> Any:
        return self.inner.start()

    def requests(self, state: Any) -> dict[str, Broadcast]:
        return _expected(self.inner.requests(state))

    def closing(self, state: Any) -> dict[str, Broadcast]:
        return _expected(self.inner.closing(state))

    def told(self, state: Any, vector: Array) -> Any:
        return self.inner.told(state, vector)

    def absorb(self, state: Any, shares: Mapping[str, Share]) -> tuple[Any, Measured | None]:
        return self.inner.absorb(state, self._read(shares))

    def closed(self, state: Any, shares: Mapping[str, Share]) -> Measured:
        return self.inner.closed(state, self._read(shares))

    def reopened(self, state: Any, shares: Mapping[str, Share]) -> Any:
        return self.inner.reopened(state, self._read(shares))

    def current(self, state: Any) -> Measured:
        return self.inner.current(state)

    def intercept(self, state: Any) -> float:
        return self.inner.intercept(state)

    def known_scores(self, state: Any) -> Array | None:
        return self.inner.known_scores(state)

    def _read(self, shares: Mapping[str, Share]) -> dict[str, Share]:
        """One share for each group that was asked, at its first party's place."""
        each = {group[0]: [shares[name] for name in group if name in shares] for group in self.groups}
        sizes = {group[0]: len(group) for group in self.groups}
        return {name: _as_one(_added(group), sizes[name]) for name, group in each.items() if group}


def _memory(broadcast: Broadcast) -> int:
    return StepProposal.unpack(broadcast.scalars).memory


def _added(shares: list[Share]) -> Share:
    if len(shares) == 1:
        return shares[0]
    vectors = [share.vector for share in shares if share.vector is not None]
    vector = np.sum(vectors, axis=0) if vectors else None
    return replace(shares[0], vector=vector, scalars=np.sum([share.scalars for share in shares], axis=0))


def _as_one(share: Share, parties: int) -> Share:
    """A sum as the share of one party that stands for all: the highest rung that all of them reach is its reach."""
    scalars = share.scalars.copy()
    if share.vector is None:
        scalars[_SHORT] = np.clip(1 - scalars[_SHORT], 0.0, 1.0)
        return replace(share, scalars=scalars)
    count, unit, scalars = LADDER.size, float(scalars[0]) / parties, scalars[1:]
    joint, flags, rest = scalars[:count], scalars[count : 2 * count], scalars[2 * count :]
    reached = np.flatnonzero(flags == 0)
    if reached.size:
        top = reached[-1]
        rest[_REACH], rest[_CONJUGATE] = LADDER[top], joint[top]
    step = unit * np.ldexp(np.sqrt(parties), -GRID_BITS)
    return replace(share, vector=unit * share.vector, scalars=rest, step=float(step))


def _expected(requests: dict[str, Broadcast]) -> dict[str, Broadcast]:
    """The requests with the form that answers have here."""
    return {
        name: request if request.vector is None else replace(request, expects=_with_ladder(request.expects))
        for name, request in requests.items()
    }


def _with_ladder(form: Form | None) -> Form | None:
    if form is None or form.scalars is None:
        return form
    return Form(form.lengths, frozenset(1 + 2 * LADDER.size + count for count in form.scalars), vector=True)
