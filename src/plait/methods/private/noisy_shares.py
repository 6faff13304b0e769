"""Party sides of ADMM sharing that send what a mechanism releases, and go on from that: never the clean share.

In plait's units (mean loss, rho per row) the x-update is, after multiplication by N / (rho + tau),

    x = argmin |D x - s|^2 / 2 + kappa |x|^2 / 2 + R_0(x),
    s = w - v rho / (rho + tau),    kappa = N lambda / (rho + tau),

with w the share as it was last released.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from plait._types import Array
from plait.errors import PrivacyError, SettingError
from plait.messages import Broadcast, Share
from plait.methods.admm.sharing import Sharing, SharingParty, SharingPartyState, need_weights
from plait.methods.base import Block, CoordinatorSide, Method, PartySide, Task
from plait.privacy.clipping import ClippedRows
from plait.privacy.ledger.canonical import canonical_digest
from plait.privacy.ledger.release_gate import Book
from plait.privacy.mechanisms.base import Mechanism
from plait.privacy.mechanisms.noisy_admm import MechanismA
from plait.privacy.mechanisms.paper import (
    ColumnNoise,
    PaperMechanism,
    PaperNoise,
    check_unit_rows,
    minimise_on_ball,
    to_ball,
)
from plait.problem.penalties import Ball, Combined, Penalty


@dataclass(frozen=True)
class Guarded(Method):
    """A method as one party runs it: its shares pass through its mechanism."""

    inner: Sharing
    mechanism: Mechanism
    book: Book
    parties: int

    def coordinator_side(self, task: Task) -> CoordinatorSide:
        return self.inner.coordinator_side(task)

    def exchanges(self, rounds: int, rows: int) -> int:
        return self.inner.exchanges(rounds, rows)

    def party_side(self, block: Block) -> PartySide:
        """The mechanism's side; SettingError where the mechanism and the block do not go together."""
        return _SIDES[type(self.mechanism)](self, self.mechanism, block)

    def rho(self, block: Block) -> float:
        if self.inner.rho is not None:
            return self.inner.rho
        if block.loss.curvature is None:
            raise SettingError(
                f"{type(self.mechanism).__name__} needs to know rho. Found a loss without a curvature: give the method "
                "rho=...."
            )
        return block.loss.stiffness(np.zeros(1))


def guard(method: Method, mechanism: Mechanism, book: Book, parties: int) -> Guarded:
    """`method` under `mechanism`; SettingError where the two do not go together."""
    if not isinstance(method, Sharing) or method.adapts or method.memory:
        raise SettingError(
            f"{type(mechanism).__name__} needs ADMM sharing with a fixed rho and no acceleration: plait.Jacobi(), or "
            f"plait.Proximal(adaptive=False, acceleration=0). Found {method!r}."
        )
    return Guarded(method, mechanism, book, parties)


def _noisy_admm(method: Guarded, mechanism: MechanismA, block: Block) -> PartySide:
    _check_strongly_convex(mechanism, block.penalty)
    weight = method.rho(block) * (1 + method.inner.proximity(method.parties))
    penalty, scale = block.penalty, block.features.rows / weight
    rest = Combined(0.0, penalty.shape, penalty.feasible)
    fitted = replace(mechanism, kappa=scale * penalty.ridge, rest=rest, scale=scale)
    method.book.account.check(fitted.cost(block.features.rows).times(fitted.rounds), method.book.run)
    return AdmmSide(fitted, block, method.book)


def _paper_mechanism(method: Guarded, mechanism: PaperMechanism, block: Block) -> PartySide:
    if not block.penalty.quadratic:
        raise SettingError(
            f"PaperMechanism needs an L2 penalty. Found {block.penalty!r}. Use plait.privacy.Recommended."
        )
    weight = block.features.rows * block.penalty.ridge
    fitted = replace(mechanism, rho=method.rho(block), parties=method.parties, penalty=weight)
    return PaperBallSide(fitted, block, method.book)


def _paper_noise(method: Guarded, mechanism: PaperNoise, block: Block) -> PartySide:
    return PaperSide(mechanism, block, method.book)


_SIDES: Mapping[type[Mechanism], Callable[[Guarded, Any, Block], PartySide]] = {
    MechanismA: _noisy_admm,
    PaperMechanism: _paper_mechanism,
    PaperNoise: _paper_noise,
}
"""Every mechanism that adds noise to each share has a row here."""


def _check_strongly_convex(mechanism: MechanismA, penalty: Penalty) -> None:
    """The proof of its sensitivity adds two variational inequalities, over a convex set, and divides by kappa."""
    if not (penalty.convex and penalty.ridge > 0):
        raise SettingError(
            "MechanismA needs a convex penalty with an L2 part, such as plait.L2(0.1) or plait.ElasticNet(0.1): "
            f"without one, a row can move the x-update without bound. Found {penalty!r}. Add plait.L2(alpha), or "
            "use plait.privacy.Recommended, which takes any penalty."
        )
    try:
        Combined(0.0, penalty.shape, penalty.feasible) + Ball(mechanism.radius)
    except SettingError as error:
        raise SettingError(
            f"MechanismA solves within |x| <= {mechanism.radius:g}, and no solver here has that beside {penalty!r}: "
            f"{error} Use plait.privacy.Recommended, which takes any penalty."
        ) from None


class _NoisySide(PartySide):
    """What all of them ask of a broadcast: rho and tau, nothing that combines past shares."""

    def check(self, state: Any, broadcast: Broadcast) -> None:
        need_weights(broadcast, images=1)


class PaperSide(_NoisySide):
    """The paper's D (x + xi) at a plain level of noise."""

    def __init__(self, mechanism: PaperMechanism | PaperNoise, block: Block, book: Book) -> None:
        self.mechanism = mechanism
        self.block = block
        self.book = book
        self.noise = ColumnNoise.of_eigen(*block.features.gram_eigen)
        self.data = canonical_digest(block.features.matrix, block.penalty, block.weights)
        self.clean = SharingParty(block, memory=0)

    def start(self) -> SharingPartyState:
        return self.clean.start()

    def respond(self, state: SharingPartyState, broadcast: Broadcast) -> tuple[SharingPartyState, Share]:
        if broadcast.closing:
            return self.clean.respond(state, broadcast)
        moved, share = self.step(state, broadcast)
        sigma = self.mechanism.scale(self.block.features.columns)
        assert broadcast.vector is not None
        x = self.book.draw(
            broadcast.round,
            f"share with noise of rank {self.noise.rank} of {self.block.features.columns}",
            self.mechanism.cost,
            self.mechanism,
            (self.data, state.x, broadcast.vector, broadcast.scalars),
            lambda stream: moved + self.noise.sample(sigma, stream) if sigma else moved,
        )
        scalars = np.array([self.block.penalty.value(x), share.scalars[1]])
        return SharingPartyState(x, (x,)), Share(broadcast.round, self.block.features.forward(x), scalars)

    def step(self, state: SharingPartyState, broadcast: Broadcast) -> tuple[Array, Share]:
        """The x-update from the released weights, before noise."""
        after, share = self.clean.respond(state, broadcast)
        return after.x, share

    def weights(self, state: SharingPartyState) -> Array:
        return state.x


class PaperBallSide(PaperSide):
    """The paper's mechanism with its assumptions enforced: unit rows, |x| <= b_1, bounded feedback."""

    mechanism: PaperMechanism

    def __init__(self, mechanism: PaperMechanism, block: Block, book: Book) -> None:
        check_unit_rows(block.features.matrix)
        super().__init__(mechanism, block, book)

    def step(self, state: SharingPartyState, broadcast: Broadcast) -> tuple[Array, Share]:
        assert broadcast.vector is not None
        features, released = self.block.features, self.block.features.forward(state.x)
        feedback = to_ball(broadcast.vector - released, self.mechanism.feedback_bound())
        rho, tau = broadcast.scalars[:2]
        kappa = features.rows * self.block.penalty.ridge / (rho + tau)
        target = (tau * released - rho * feedback) / (rho + tau)
        hessian = features.gram + kappa * np.eye(features.columns)
        x = minimise_on_ball(hessian, -features.adjoint(target), self.mechanism.bound)
        return x, Share(broadcast.round, None, np.array([0.0, np.nan]))


@dataclass(frozen=True)
class AdmmState:
    """The last released share (N,), the weights behind it, which stay with the party, and where the run stands.

    plan    names the releases of this run in the ledger; round 1 makes it
    round   the last round that was answered
    """

    released: Array
    x: Array
    plan: str = ""
    round: int = 0


class AdmmSide(_NoisySide):
    """Mechanism A: the clipped x-update with isotropic noise.  Its scalars are zeros, and so tell nothing."""

    def __init__(self, mechanism: MechanismA, block: Block, book: Book) -> None:
        self.mechanism = mechanism
        self.radius = 1.0 if mechanism.clip is None else mechanism.clip
        self.rows = ClippedRows.of(block.features.matrix, self.radius)
        self.cost = mechanism.cost(self.rows.shape[0])
        self.book = book
        self.block = block

    def start(self) -> AdmmState:
        return AdmmState(np.zeros(self.rows.shape[0]), np.zeros(self.rows.shape[1]))

    def respond(self, state: AdmmState, broadcast: Broadcast) -> tuple[AdmmState, Share]:
        silent = np.zeros(2)
        if broadcast.closing:
            return state, Share(broadcast.round, None, silent)
        target = self._target(state, broadcast)
        plan = state.plan or self._plan(target)
        x = self.mechanism.solve(self.rows, target)
        released = self.book.draw(
            broadcast.round,
            "share",
            self.cost,
            self.mechanism,
            (plan, target),
            lambda stream: self.mechanism.noisy(self.rows, x, stream),
            plan,
        )
        return AdmmState(released, x, plan, broadcast.round), Share(broadcast.round, released, silent)

    def _plan(self, target: Array) -> str:
        """The name of this run's releases; a run that cannot be paid to its end is refused here."""
        plan = canonical_digest(self.book.run, self.book.party, self.rows, self.mechanism, target).hex()
        self.book.account.check(self.cost.times(self.mechanism.rounds), self.book.run, plan)
        return plan

    def _target(self, state: AdmmState, broadcast: Broadcast) -> Array:
        """s, from what was released; the coordinator may neither add rounds nor weaken the penalty."""
        if not state.round + 1 == broadcast.round <= self.mechanism.rounds:
            raise PrivacyError(
                f"MechanismA pays for {self.mechanism.rounds} rounds, one after another, each once. Found a request "
                f"for round {broadcast.round} after round {state.round}. Nothing was released."
            )
        assert broadcast.vector is not None
        rho, tau = broadcast.scalars[:2]
        kappa = self.rows.shape[0] * self.block.penalty.ridge / (rho + tau)
        # The margin is for the rounding of rho and tau, and moves the noise by less than 1e-9 of it.
        if broadcast.scalars.size > 2 or kappa < self.mechanism.kappa * (1 - 1e-9):
            raise PrivacyError(
                f"MechanismA was calibrated for kappa = {self.mechanism.kappa:.4g}. Found a broadcast that asks for "
                f"{kappa:.4g} or for a combination of past shares. Nothing was released."
            )
        return state.released - broadcast.vector * (rho / (rho + tau))

    def weights(self, state: AdmmState) -> Array:
        return state.x / self.radius
