"""Products of the vectors that the coordinator has received: those of one round serve in the next.

A party's vectors are the same in the next round but for one.  From the products follows which vectors are independent.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.linalg

from plait._types import Array
from plait.methods.base import Task
from plait.methods.subspace.images import Images
from plait.methods.subspace.point import Point

_DEPENDENT = 1e-12  # of a vector's square: what newer vectors leave of it; less is rounding


@dataclass(frozen=True)
class Products:
    """Of vectors V (K, N):  V diag(w) V^T (K, K) with the rows' weights, and the loss's Hessian (K, K) along them.

    The Hessian may be that of an earlier place.  known (K,) says for which vectors there is one.
    """

    gram: Array
    hessian: Array
    known: npt.NDArray[np.bool_]

    @staticmethod
    def of(
        task: Task, start: Point, vectors: Images, before: "Products | None", kept: npt.NDArray[np.intp]
    ) -> "Products":
        """kept (K,): where each vector was in the last round, -1 for a new one."""
        size = len(vectors)
        old = np.flatnonzero(kept >= 0) if before is not None else np.empty(0, dtype=np.intp)
        if before is None or 2 * old.size < size:  # most are new
            gram = vectors.gram(task.weights)
            return Products(gram, np.zeros((size, size)), np.zeros(size, dtype=bool))
        place, new = kept[old], np.flatnonzero(kept < 0)
        gram, hessian = np.empty((size, size)), np.zeros((size, size))
        gram[np.ix_(old, old)] = before.gram[np.ix_(place, place)]
        known = np.zeros(size, dtype=bool)
        known[old] = before.known[place]
        rest = np.flatnonzero(~known) if known.any() else np.empty(0, dtype=np.intp)

        def part(some: Array, rows: slice) -> Array:
            weighted = np.vstack([some[new] * task.weights[rows], some[rest] * start.curvature[rows]])
            return np.asarray(some @ weighted.T)

        cross = vectors.summed(part)
        gram[:, new], gram[new] = cross[:, : new.size], cross[:, : new.size].T
        if rest.size:
            hessian[np.ix_(old, old)] = before.hessian[np.ix_(place, place)]
            hessian[:, rest], hessian[rest] = cross[:, new.size :], cross[:, new.size :].T
            known[:] = True
        return Products(gram, hessian, known)


def independent(gram: Array, rounding: Array) -> npt.NDArray[np.bool_]:
    """Which vectors (K,) add to those after them more than rounding; all rows count, curved or not."""
    size = np.diag(gram).copy()
    root = np.sqrt(np.maximum(size, 1e-300))
    least = 2 * np.maximum(_DEPENDENT, rounding / np.maximum(size, 1e-300))
    left = gram / (root[:, None] * root)
    # Vectors are eliminated from the newest to the oldest: what is left of each is the diagonal of a factorisation.
    if size.size and bool((size > 0).all()):
        factor, info = scipy.linalg.lapack.dpotrf(left[::-1, ::-1], lower=1)
        if info == 0 and bool((np.diag(factor)[::-1] ** 2 > least).all()):
            return np.ones(size.size, dtype=bool)
    keep = np.zeros(len(size), dtype=bool)
    for j in range(len(size) - 1, -1, -1):
        keep[j] = size[j] > 0 and left[j, j] > least[j]
        if keep[j]:
            row = left[j] / np.sqrt(left[j, j])
            left -= row[:, None] * row
    return keep
