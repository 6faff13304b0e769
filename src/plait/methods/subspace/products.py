"""Products of the vectors that the coordinator has received: those of one round serve in the next.

A party's vectors are the same in the next round but for one.  From the products follows which vectors are independent.
"""

import numpy as np
import numpy.typing as npt
import scipy.linalg

from plait._types import Array
from plait.methods.base import Task
from plait.methods.subspace.images import Images

_DEPENDENT = 1e-12  # of a vector's square: what newer vectors leave of it; less is rounding


def gram_of(task: Task, vectors: Images, before: Array | None, kept: npt.NDArray[np.intp]) -> Array:
    """V diag(w) V^T (K, K) for vectors V (K, N) and the rows' weights w.

    before: that of the last round; kept (K,): where each vector was there, -1 for a new one.
    """
    size = len(vectors)
    if before is None or 2 * np.count_nonzero(kept >= 0) < size:  # most are new
        return vectors.gram(task.weights)
    new = np.flatnonzero(kept < 0)
    gram = before[kept[:, None], kept]  # what -1 takes from the end is replaced
    cross = vectors.cross(new, task.weights)
    gram[:, new], gram[new] = cross, cross.T
    return gram


def independent(gram: Array, rounding: Array) -> npt.NDArray[np.bool_]:
    """Which vectors (K,) add to those after them more than rounding; all rows count, curved or not."""
    size = gram.diagonal()
    some = np.maximum(size, 1e-300)
    root = np.sqrt(some)
    least = 2 * np.maximum(_DEPENDENT, rounding / some)
    left = gram / (root[:, None] * root)
    # Vectors are eliminated from the newest to the oldest: what is left of each is the diagonal of a factorisation.
    if size.size and bool((size > 0).all()):
        factor, info = scipy.linalg.lapack.dpotrf(left[::-1, ::-1], lower=1)
        if info == 0 and bool((factor.diagonal()[::-1] ** 2 > least).all()):
            return np.ones(size.size, dtype=bool)
    keep = np.zeros(len(size), dtype=bool)
    for j in range(len(size) - 1, -1, -1):
        keep[j] = size[j] > 0 and left[j, j] > least[j]
        if keep[j]:
            row = left[j] / np.sqrt(left[j, j])
            left -= row[:, None] * row
    return keep
