"""Anderson acceleration of a fixed-point iteration w <- F(w), with a safeguard.

The next input is an affine combination of the last images F(w_j) whose coefficients minimise the same combination of
the residuals F(w_j) - w_j.  Parties hold their own images, so only the coefficients are sent.
"""

from dataclasses import dataclass, field

import numpy as np

from plait._types import Array

_REGULARISATION = 1e-12  # of the scaled Gram matrix, whose diagonal is 1: above its rounding errors, below its content
_GROWTH = 2.0  # times the last residual: a step that makes it grow as much is taken back
_BOUND, _DECAY = 1e3, 1e-6  # residuals must stay below _BOUND k^-(1 + _DECAY) times the first: their sum is finite
FIRST_REACH = 50.0  # plain steps: how far an accelerated step may go at first
WIDER, NARROWER = 2.0, 8.0  # factors of the reach after a good and after a bad step: trust is lost faster than won
_LEAST_REACH, _GREATEST_REACH = 1.0, 1e6  # plain steps: never shorter than one, and never without any limit


@dataclass(frozen=True)
class Memory:
    """The last residuals (newest last), their Gram matrix, and what the safeguard remembers."""

    residuals: tuple[Array, ...] = ()
    gram: Array = field(default_factory=lambda: np.empty((0, 0)))
    first: float = np.inf
    last: float = np.inf
    accepted: int = 0

    def push(self, residual: Array, keep: int) -> "Memory":
        """Remember one more residual, forgetting the oldest beyond `keep`."""
        norm = float(np.linalg.norm(residual))
        if self.residuals and (self.last == 0 or norm == 0):  # nothing had moved, or nothing moves any more
            return Memory().push(residual, keep)
        residuals = (*self.residuals, residual)[-keep:]
        row = np.array([float(f @ residual) for f in residuals])
        old = self.gram[max(0, len(self.residuals) + 1 - keep) :, max(0, len(self.residuals) + 1 - keep) :]
        gram = np.block([[old, row[:-1, None]], [row[None, :-1], row[None, -1:]]])
        first = norm if not np.isfinite(self.first) else self.first
        return Memory(residuals, gram, first, norm, self.accepted + 1)

    def regrets(self, residual: Array) -> bool:
        """Whether the last combination led to a place with a larger residual than it came from."""
        return len(self.residuals) > 1 and float(np.linalg.norm(residual)) > _GROWTH * self.last

    def cleared(self) -> "Memory":
        """Forget the residuals, but not what the safeguard counts."""
        return Memory(first=self.first, accepted=self.accepted)

    @property
    def trusted(self) -> bool:
        """The safeguard of A2DR: accelerate only while residuals stay below a summable bound."""
        return len(self.residuals) > 1 and self.last <= _BOUND * self.first * (self.accepted + 1) ** -(1 + _DECAY)

    def coefficients(self) -> Array:
        """Coefficients, summing to 1, of the combination of residuals with the least norm; newest last."""
        k = len(self.residuals)
        if not self.trusted:
            return newest(k)
        scale = np.sqrt(np.diag(self.gram))
        damped = self.gram / np.outer(scale, scale) + _REGULARISATION * np.eye(k)
        c = np.linalg.solve(damped, 1 / scale) / scale
        return c / c.sum()


def part_within(reach: float, far: float) -> float:
    """Which part of the way to a combination that lies `far` from the newest image is within `reach`."""
    return 1.0 if far <= reach else reach / far


def newest(count: int) -> Array:
    """The coefficients that take the newest image as it is."""
    c = np.zeros(count)
    c[-1] = 1.0
    return c


def next_reach(reach: float, good: bool) -> float:
    """How far the next combination may lead, in plain steps: further after a good one, much less far after a bad one.

    Where residuals hardly change from round to round, the best combination is poorly determined; so it is approached.
    """
    return min(WIDER * reach, _GREATEST_REACH) if good else max(reach / NARROWER, _LEAST_REACH)
