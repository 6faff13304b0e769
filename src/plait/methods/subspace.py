"""The subspace method: parties send preconditioned directions, the coordinator minimises exactly over their span.

A round.  The coordinator sends g = w loss'(z) and the coefficients of the last step.  Party m applies the step,
computes a direction d_m (a Newton step on its block, see direction.py) and sends D_m d_m with the penalty's quadratic
model along its last steps and d_m.  The coordinator minimises the objective over the span of the last steps and the
new directions, of every party separately or of their sums only, without communication: the objective never grows.

The curvature costs no message: for these losses it can be read off the gradient.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import scipy.linalg

from plait.errors import SettingError
from plait.losses import Loss, Seen
from plait.messages import Broadcast, Share
from plait.methods.admm import vector_of
from plait.methods.base import Block, CoordinatorSide, Measured, Method, PartySide, Task
from plait.methods.direction import Curvature, Others, Preconditioner, newton_direction
from plait.methods.span import minimise_over_span
from plait.penalties import Penalty
from plait.types import Array

_SPAN_VECTORS, _SPAN_BYTES = 128, 2**30
_OTHERS, _OTHERS_BYTES = 40, 2**26
_CURVATURE_FLOOR = 4e-3
_MOST_CROWDED = 20
_FAINT = 1e-12
_CHEAP_GRAM = 5e9


@dataclass(frozen=True)
class Subspace(Method):
    """Smooth losses with smooth penalties, in a tenth of the rounds of ADMM.

    sums_only   let the coordinator use only sums over the parties, as secure aggregation will show it
    memory      how many past steps (per party) the coordinator minimises over; None chooses by N, M and memory
    """

    sums_only: bool = False
    memory: int | None = None

    def __post_init__(self) -> None:
        if self.memory is not None and self.memory < 1:
            raise SettingError(f"Subspace(memory) must be at least 1. Found {self.memory}.")

    def steps_kept(self, rows: int, parties: int) -> int:
        """How many past steps are kept; both sides compute it."""
        if self.memory is not None:
            return self.memory
        vectors = 1 if self.sums_only else parties
        fitting = _SPAN_BYTES // (8 * rows * vectors)
        return int(max(3, min(40 if self.sums_only else 30, _SPAN_VECTORS // vectors, fitting)))

    def check(self, loss: Loss, penalties: Mapping[str, Penalty]) -> None:
        if not loss.smooth:
            raise SettingError(
                f"Subspace needs a smooth loss. Found {loss!r}, which has kinks. Use method=plait.Proximal()."
            )
        for name, penalty in penalties.items():
            if not penalty.smooth:
                raise SettingError(
                    f"Subspace needs smooth penalties without constraints. Found {penalty!r} at party {name!r}. "
                    "Use method=plait.Proximal()."
                )

    def party_side(self, block: Block) -> PartySide:
        return SubspaceParty(self, block)

    def coordinator_side(self, task: Task) -> CoordinatorSide:
        return SubspaceCoordinator(self, task)


def _rows(width: int, rows: int = 0) -> Array:
    return np.empty((rows, width))


@dataclass(frozen=True)
class PartyState:
    """x (d,), its last steps (k, d) and direction (d,); the others' moves (k, N); the first and last gradient (N,)."""

    x: Array
    steps: Array
    direction: Array
    others: Array
    total_gram: Array
    first: Array | None = None
    last: Array | None = None
    factored: tuple[Array, Array] | None = None
    """The weights and the ridge that the preconditioner was made with."""
    rounds: int = 0


class SubspaceParty(PartySide):
    """Broadcast scalars: memory, the score that all samples start with, how many features there are in all, the
    coefficients of the step, and the new row of the Gram matrix of all parties' steps in the penalty's metric.

    Share scalars: penalty, stationarity, Newton decrement, width, r (k+1,), and the upper triangle of K (k+1, k+1).
    """

    def __init__(self, method: Subspace, block: Block) -> None:
        self.method = method
        self.block = block
        self.others_kept = int(min(_OTHERS, _OTHERS_BYTES // (8 * block.features.rows)))
        self._inverse: tuple[Array, Preconditioner] | None = None
        self.per_sample = np.where(block.weights > 0, block.weights, 1.0)

    def start(self) -> PartyState:
        d, n = self.block.features.columns, self.block.features.rows
        return PartyState(np.zeros(d), _rows(d), np.zeros(d), _rows(n), np.empty((0, 0)))

    def weights(self, state: PartyState) -> Array:
        return state.x

    def respond(self, state: PartyState, broadcast: Broadcast) -> tuple[PartyState, Share]:
        g = broadcast.vector
        assert g is not None
        memory, start, width = int(broadcast.scalars[0]), float(broadcast.scalars[1]), float(broadcast.scalars[2])
        state = self._applied(state, broadcast.scalars[3:], memory, start, g)
        features, penalty = self.block.features, self.block.penalty
        loss_gradient = features.adjoint(g)
        head = [penalty.value(state.x), self.block.stationarity(state.x, loss_gradient)]
        if broadcast.closing:
            return state, Share(broadcast.round, None, np.array(head))
        gradient = loss_gradient + penalty.gradient(state.x)
        h = penalty.majoriser(state.x)
        seen = self._seen(g, state.first if state.first is not None else g, start)
        w = self.block.weights * np.maximum(seen.curvature, _CURVATURE_FLOOR * float(seen.curvature.mean()))
        # The others' unexplored features look like one more ridge; they matter where features are as many as samples.
        crowded = 1 + min(state.rounds, _MOST_CROWDED) * min(1.0, width / features.rows)
        state, curvature = self._curvature(state, w, crowded * h)
        direction = newton_direction(curvature, gradient, self._others(state, gradient, w, h))
        basis = np.vstack([state.steps[-memory:], direction])
        k = (basis * h) @ basis.T
        head += [-float(gradient @ direction), features.columns]
        scalars = np.concatenate([head, basis @ penalty.gradient(state.x), k[np.triu_indices(len(basis))]])
        first = g if state.first is None else state.first
        state = replace(state, direction=direction, first=first, last=g, rounds=state.rounds + 1)
        return state, Share(broadcast.round, features.forward(direction), scalars)

    def _applied(self, state: PartyState, scalars: Array, memory: int, start: float, g: Array) -> PartyState:
        """Take the step that the coordinator chose, and note how the others moved meanwhile."""
        if state.first is None or state.last is None:
            return state
        kept = min(len(state.steps), memory)
        coefficients, gram_row = scalars[: kept + 1], scalars[kept + 1 :]
        step = coefficients @ np.vstack([state.steps[len(state.steps) - kept :], state.direction])
        keep = max(self.others_kept, memory)
        others = state.others
        if self.others_kept:
            own = self.block.features.forward(step)
            before, after = self._seen(state.last, state.first, start), self._seen(g, state.first, start)
            # Where nothing is known, take it that the others did not move.
            others = np.where(before.known & after.known, after.score - before.score - own, 0.0)
            others = np.vstack([state.others, others])[-self.others_kept :]
        return replace(
            state,
            x=state.x + step,
            steps=np.vstack([state.steps, step])[-keep:],
            others=others,
            total_gram=_grown(state.total_gram, gram_row)[-keep:, -keep:],
        )

    def _curvature(self, state: PartyState, w: Array, h: Array) -> tuple[PartyState, Curvature]:
        """H at these weights; a large matrix is factorised again only in rounds 1, 2, 4, 8, ..."""
        f = self.block.features
        cheap = f.rows * f.columns**2 <= _CHEAP_GRAM
        fresh = state.factored is None or cheap or not f.primal_fits or state.rounds & (state.rounds - 1) == 0
        if fresh:
            state = replace(state, factored=(w, h))
        assert state.factored is not None
        if self._inverse is None or self._inverse[0] is not state.factored[0]:
            self._inverse = (state.factored[0], Preconditioner(f, *state.factored))
        return state, Curvature(f, w, h, self._inverse[1], exact=fresh and f.primal_fits)

    def _seen(self, g: Array, first: Array, start: float) -> Seen:
        return self.block.loss.seen(g / self.per_sample, first / self.per_sample, start)

    def _others(self, state: PartyState, gradient: Array, w: Array, h: Array) -> Others | None:
        """The others' moves that amount to something, with the penalty and the slope along them."""
        k = len(state.others)
        energy = np.einsum("kn,kn,n->k", state.others, state.others, w)
        alive = energy > _FAINT * float(energy.max(initial=0.0))
        if k == 0 or not alive.any():
            return None
        own = state.steps[-k:]
        penalty = state.total_gram[-k:, -k:] - (own * h) @ own.T
        # Along every total step the objective is already flat, so the others' slope is the opposite of one's own.
        slope = -(own @ gradient)
        return Others(state.others[alive], penalty[np.ix_(alive, alive)], slope[alive])


def _grown(gram: Array, row: Array) -> Array:
    """A Gram matrix with one more row, whose products with the oldest vectors are not known and taken as 0."""
    n = len(gram) + 1
    grown = np.zeros((n, n))
    grown[:-1, :-1] = gram
    grown[-1, n - row.size :] = row
    grown[n - row.size :, -1] = row
    return grown


@dataclass(frozen=True)
class SubspaceState:
    """z (N,), b, and per group (each party, or all together) the images of the last steps (k, N) with their K."""

    z: Array
    intercept: float
    images: tuple[Array, ...]
    grams: tuple[Array, ...]
    measured: Measured
    coefficients: tuple[Array, ...]
    start_score: float = 0.0
    width: float = 0.0
    gram_row: Array = field(default_factory=lambda: np.empty(0))
    decrease: float = np.nan


class SubspaceCoordinator(CoordinatorSide):
    """Minimises over the span of what it has received."""

    def __init__(self, method: Subspace, task: Task) -> None:
        self.method = method
        self.task = task
        self.memory = method.steps_kept(task.rows, len(task.parties))
        together = method.sums_only or len(task.parties) == 1
        self.groups = (task.parties,) if together else tuple((name,) for name in task.parties)

    def start(self) -> SubspaceState:
        task, groups = self.task, len(self.groups)
        z = np.zeros(task.rows)
        b = 0.0
        if task.fit_intercept:
            b = float(
                minimise_over_span(task, z, np.ones((1, task.rows)), np.zeros(1), np.zeros((1, 1))).coefficients[0]
            )
        measured = Measured(0, task.mean_loss(z + b), 0.0, np.nan)
        empty = (_rows(task.rows),) * groups
        return SubspaceState(z + b, b, empty, (np.empty((0, 0)),) * groups, measured, (np.empty(0),) * groups, b)

    def requests(self, state: SubspaceState) -> dict[str, Broadcast]:
        return self._messages(state, closing=False)

    def closing(self, state: SubspaceState) -> dict[str, Broadcast]:
        return self._messages(state, closing=True)

    def _messages(self, state: SubspaceState, closing: bool) -> dict[str, Broadcast]:
        task = self.task
        g = task.gradient(state.z)
        number = state.measured.round + (not closing)
        return {
            name: Broadcast(
                number, g, np.concatenate([[self.memory, state.start_score, state.width], c, state.gram_row]), closing
            )
            for group, c in zip(self.groups, state.coefficients, strict=True)
            for name in group
        }

    def absorb(self, state: SubspaceState, shares: Mapping[str, Share]) -> tuple[SubspaceState, Measured | None]:
        before = self._completed(state, shares)
        images, slopes, grams = [], [], []
        for group, old in zip(self.groups, state.images, strict=True):
            new = sum((vector_of(shares[name]) for name in group), np.zeros(self.task.rows))
            scalars = sum((shares[name].scalars[4:] for name in group), np.zeros(1))
            images.append(np.vstack([old, new]))
            slopes.append(scalars[: len(old) + 1])
            grams.append(_symmetric(scalars[len(old) + 1 :], len(old) + 1))
        width = sum(float(shares[name].scalars[3]) for name in self.task.parties)
        return replace(self._step(state, before, images, slopes, grams), width=width), before

    def _step(
        self, state: SubspaceState, before: Measured, images: list[Array], slopes: list[Array], grams: list[Array]
    ) -> SubspaceState:
        """Minimise over the span, and keep the step in place of the newest direction."""
        task, ones = self.task, int(self.task.fit_intercept)
        basis = np.vstack([*images, np.ones((ones, task.rows))])
        r = np.concatenate([*slopes, np.zeros(ones)])
        k = scipy.linalg.block_diag(*grams, np.zeros((ones, ones)))
        best = minimise_over_span(task, state.z, basis, r, k)
        cuts = np.cumsum([len(i) for i in images])
        c = np.split(best.coefficients, cuts)
        kept = [np.vstack([i[:-1], a @ i])[-self.memory :] for i, a in zip(images, c, strict=False)]
        rows = (np.append((m @ a)[:-1], a @ m @ a)[-self.memory :] for m, a in zip(grams, c, strict=False))
        measured = Measured(before.round + 1, before.objective - best.decrease, 0.0, np.nan)
        return SubspaceState(
            z=best.scores,
            intercept=state.intercept + (float(c[-1][0]) if ones else 0.0),
            images=tuple(kept),
            grams=tuple(grams),
            measured=measured,
            coefficients=tuple(c[: len(images)]),
            start_score=state.start_score,
            gram_row=sum(rows, np.zeros(1)),
            decrease=best.decrease,
        )

    def _completed(self, state: SubspaceState, shares: Mapping[str, Share]) -> Measured:
        """The state with the parties' own account of it: their penalties, their gradients, their Newton decrements."""
        said = np.array([shares[name].scalars[:3] for name in self.task.parties])
        objective = self.task.mean_loss(state.z) + float(said[:, 0].sum())
        # A block's Newton decrement is what that party alone could still gain; together they can gain up to M times it.
        left = len(said) * float(said[:, 2].sum()) if said.shape[1] == 3 else np.nan
        dual = float(np.fmax(left, state.decrease)) / max(abs(objective), 1e-300)
        return replace(state.measured, objective=objective, lyapunov=float(said[:, 1].sum()), dual=dual)

    def closed(self, state: SubspaceState, shares: Mapping[str, Share]) -> Measured:
        return self._completed(state, shares)

    def current(self, state: SubspaceState) -> Measured:
        return state.measured

    def intercept(self, state: SubspaceState) -> float:
        return state.intercept


def _symmetric(triangle: Array, size: int) -> Array:
    k = np.zeros((size, size))
    k[np.triu_indices(size)] = triangle
    return k + np.triu(k, 1).T
