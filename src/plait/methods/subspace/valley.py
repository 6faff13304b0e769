"""Where the coordinator's last minimisation over its vectors ended, with the loss's slopes and Hessian there.

A pass over the rows is dear, and a Hessian is as dear as many.  So the next minimisation, with another model of the
penalties, starts from here.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from plait._types import Array
from plait.methods.base import Task
from plait.methods.subspace.images import Images
from plait.methods.subspace.point import Point
from plait.methods.subspace.products import gram_of, independent
from plait.problem.row_blocks import sum_of_sizes

_CAUTION = 100.0  # times what rounding is expected to add to the loss: that stays, and steps along it gain little
_FINE = 1e-12  # of a vector's square: rounding of float32 is less, that of int16 more
_FITTED = 1e-7  # of the loss: what a vector that is all rounding may seem to gain in a round


@dataclass(frozen=True)
class Valley:
    """Independent images (k, N) among those received, and where the last minimisation over them ended.

    kept      (K,): which of the received vectors they are
    at        coefficients (k,) and the loss there
    ridge     (k, k): what the vectors' rounding adds to the loss
    gram      (K, K): products of all received vectors, rows counting by their weights
    hessian   (k, k) of the loss somewhere near in this round, None before the first minimisation
    slopes    (k,) of the loss at `at`, None where they have not been computed
    """

    basis: Images
    kept: npt.NDArray[np.bool_]
    at: Array
    point: Point
    ridge: Array
    gram: Array
    hessian: Array | None = None
    slopes: Array | None = None

    @staticmethod
    def of(
        task: Task,
        start: Point,
        vectors: Images,
        k: Array,
        noise: Array | None = None,
        gram: Array | None = None,
    ) -> "Valley":
        """k (K, K): a curvature of the penalties that is sure.

        noise (K, K) is the covariance of the vectors' rounding at each row.  Where vectors nearly cancel, their
        rounding is left, and the loss would fall along it, though no party's scores do.
        """
        ridge = np.zeros((len(vectors), len(vectors)))
        if gram is None:
            gram = gram_of(task, vectors, None, np.empty(0, dtype=np.intp))
        if noise is not None and noise.any():
            g = start.gradient
            # Where the loss is smooth rounding costs in second order; at kinks, which many rows share, in first.
            # In int16 no step would be left then.
            lost = np.diag(noise)
            fine = bool((lost < _FINE * np.diag(gram))[lost > 0].any())
            steep = sum_of_sizes(g) ** 2 if task.loss.rounds_kinks and fine else float(g @ g)
            fitted = steep / (2 * _FITTED * max(abs(start.value), 1e-300))
            ridge = max(_CAUTION * float(start.curvature.sum()), fitted) * noise
        kept = independent(float(start.curvature.sum()) * gram + k + ridge, np.diag(ridge))
        whole = bool(kept.all())
        basis, ridge = (vectors, ridge) if whole else (vectors.picked(kept), ridge[np.ix_(kept, kept)])
        # No Hessian of an earlier round, or part of one: where vectors nearly cancel only their differences count.
        return Valley(basis, kept, np.zeros(len(basis)), start, ridge, gram)

    def parabola(self, c: Array) -> float:
        """The loss for coefficients c (K,), by its parabola at `at`."""
        return self.loss(c[self.kept])

    def loss(self, c: Array) -> float:
        """The same for coefficients (k,) of the independent vectors."""
        assert self.slopes is not None
        assert self.hessian is not None
        away = c - self.at
        return self.point.value + float(self.slopes @ away) + float(away @ (self.hessian @ away)) / 2

    def spread(self, c: Array) -> Array:
        """Coefficients (K,) of all received vectors."""
        whole = np.zeros(self.kept.size)
        whole[self.kept] = c
        return whole
