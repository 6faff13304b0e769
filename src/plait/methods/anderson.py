"""Anderson acceleration of a fixed-point iteration w <- F(w), with a safeguard.

The next input is an affine combination of the last images F(w_j) whose coefficients minimise the same combination of
the residuals F(w_j) - w_j.  Parties hold their own images, so only the coefficients are sent.
"""

from dataclasses import dataclass, field

import numpy as np

from plait.types import Array

_REGULARISATION = 1e-12
_GROWTH = 2.0
_BOUND, _DECAY = 1e3, 1e-6


@dataclass(frozen=True)
class Memory:
    """The last residuals (newest last), their Gram matrix, and what the safeguard remembers."""

    residuals: tuple[Array, ...] = ()
    gram: Array = field(default_factory=lambda: np.empty((0, 0)))
    first: float = np.inf
    last: float = np.inf
    accepted: int = 0

    def push(self, residual: Array, keep: int) -> "Memory":
        """Remember one more residual, forgetting the oldest beyond `keep`; forget all when the residual has grown."""
        norm = float(np.linalg.norm(residual))
        if self.residuals and (self.last == 0 or norm == 0):  # nothing had moved, or nothing moves any more
            return Memory().push(residual, keep)
        if norm > _GROWTH * self.last:
            return Memory((residual,), np.array([[norm * norm]]), self.first, norm, self.accepted)
        residuals = (*self.residuals, residual)[-keep:]
        row = np.array([float(f @ residual) for f in residuals])
        old = self.gram[max(0, len(self.residuals) + 1 - keep) :, max(0, len(self.residuals) + 1 - keep) :]
        gram = np.block([[old, row[:-1, None]], [row[None, :-1], row[None, -1:]]])
        first = norm if not np.isfinite(self.first) else self.first
        return Memory(residuals, gram, first, norm, self.accepted + 1)

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


def newest(count: int) -> Array:
    """The coefficients that take the newest image as it is."""
    c = np.zeros(count)
    c[-1] = 1.0
    return c
