"""Moves of a party's weights that change none of its scores, as there are where it has more columns than rows.

Which of all weights with the same scores a party holds is its own affair.  So what it states along its span is the
least penalty of all weights that have the scores there.  The coordinator then trades scores between parties, of which
each alone may fit the labels; along directions of weights as they were sent it could only trade those weights.

    minimise over u   h^T u + u^T W u / 2    where  D u = t,    W diagonal:      u = W^-1 (D^T f - h),
                                                                D W^-1 D^T f = t + D W^-1 h
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from plait._types import Array
from plait.methods.subspace.messages import Model

MOST_ROWS, _MOST_NUMBERS = 512, 2**22  # a matrix (N, N) is factorised for every question; numbers of a dense table
_RANK = 1e-13  # of the largest eigenvalue of D D^T: what lies below is rounding, as no column has it
_LEAST_WEIGHT = 1e-10  # of the largest entry of W: weights far from their kinks have no curvature
_REFINEMENTS = 3  # of u, so that its scores are what they are to be
_EXACT = 1e-14  # of the scores: where u misses more of them, the weights go along the directions only


def may_be_idle(rows: int, columns: int) -> bool:
    """Whether a table of this size has such moves, and is small enough to use them."""
    return rows < columns and rows <= MOST_ROWS and rows * columns <= _MOST_NUMBERS


@dataclass(frozen=True)
class IdleMoves:
    """Columns D (N, d), a basis (N, r) of what they span, scores (N,) at x, and what each direction adds (k, N)."""

    columns: Array
    spanned: Array
    scores: Array
    images: Array

    @staticmethod
    def of(columns: Array, scores: Array, images: Array) -> "IdleMoves | None":
        """None where no move is idle."""
        values, vectors = np.linalg.eigh(columns @ columns.T)
        spanned = vectors[:, values > _RANK * values[-1]]
        return IdleMoves(columns, spanned, scores, images) if 0 < spanned.shape[1] < columns.shape[1] else None


@dataclass(frozen=True)
class Settled:
    """A parabola  h^T u + u^T diag(weight) u / 2, factorised, to find the least of weights with equal scores."""

    moves: IdleMoves
    h: Array
    weight: Array
    factor: Array
    size: Array

    @staticmethod
    def of(moves: IdleMoves, h: Array, weight: Array, at: Array) -> "Settled | None":
        """With slopes that are right at some weights (d,); None where it is too ill-conditioned."""
        lifted = np.maximum(weight, _LEAST_WEIGHT * float(weight.max()))
        inner = moves.spanned.T @ ((moves.columns / lifted) @ moves.columns.T) @ moves.spanned
        size = np.sqrt(inner.diagonal())
        if not (np.isfinite(size).all() and (size > 0).all()):
            return None
        factor, info = scipy.linalg.lapack.dpotrf(inner / (size[:, None] * size), lower=1)
        return None if info else Settled(moves, h - (lifted - weight) * at, lifted, factor, size)

    def _solved(self, v: Array) -> Array:
        """f with  D W^-1 D^T f = v,  for v (N,) or (N, k) among what the columns span."""
        inner = ((self.moves.spanned.T @ v).T / self.size).T
        found, _ = scipy.linalg.lapack.dpotrs(self.factor, inner, lower=1)
        return np.asarray(self.moves.spanned @ (found.reshape(inner.shape).T / self.size).T)

    def _force(self, scores: Array) -> Array:
        return self._solved(scores + self.moves.columns @ (self.h / self.weight))

    def _at(self, force: Array) -> Array:
        return np.asarray((self.moves.columns.T @ force - self.h) / self.weight)

    def weights(self, c: Array) -> Array | None:
        """Those (d,) with the scores of a step c (k,); None where rounding leaves too much of these out."""
        d, wanted = self.moves.columns, self.moves.scores + c @ self.moves.images
        u = self._at(self._force(wanted))
        for _ in range(_REFINEMENTS):
            u = u + (d.T @ self._solved(wanted - d @ u)) / self.weight
        return u if np.linalg.norm(wanted - d @ u) <= _EXACT * np.linalg.norm(wanted) else None

    def model(self, value: float, at: Array) -> Model:
        """The least, as a parabola in c; value: what the penalty is at some weights (d,)."""
        images = self.moves.images
        force = self._force(self.moves.scores)
        start = self._at(force)
        constant = value + float((start - at) @ (self.h + self.weight * (start + at) / 2))
        k = images @ self._solved(images.T)
        return Model(constant, images @ force, (k + k.T) / 2)
