"""Where the coordinator's last minimisation over its vectors ended, with the loss's slopes and Hessian there.

A pass over the rows is dear, and a Hessian is as dear as many.  So the next minimisation, with another model of the
penalties, starts from here.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from plait._replace import replace
from plait._types import Array
from plait.methods.base import Task
from plait.methods.subspace.images import Images
from plait.methods.subspace.point import Point
from plait.methods.subspace.products import Products, independent

_CAUTION = 100.0  # times what rounding is expected to add to the loss: it stays, and what is gained here is little
_FITTED = 1e-7  # of the loss: what a vector that is all rounding may seem to gain in a round


@dataclass(frozen=True)
class Valley:
    """Independent images (k, N) among those received, and where the last minimisation over them ended.

    kept      (K,): which of the received vectors they are
    at        coefficients (k,) and the loss there
    ridge     (k, k): what the vectors' rounding adds to the loss
    hessian   (k, k) of the loss somewhere near, None before the first minimisation
    slopes    (k,) of the loss at `at`, None where they have not been computed
    """

    basis: Images
    kept: npt.NDArray[np.bool_]
    at: Array
    point: Point
    ridge: Array
    products: Products
    hessian: Array | None = None
    slopes: Array | None = None

    @staticmethod
    def of(
        task: Task,
        start: Point,
        vectors: Images,
        k: Array,
        noise: Array | None = None,
        products: Products | None = None,
    ) -> "Valley":
        """k (K, K): a curvature of the penalties that is sure.

        noise (K, K) is the covariance of the vectors' rounding at each row.  Where vectors nearly cancel, their
        rounding is left, and the loss would fall along it, though no party's scores do.
        """
        ridge = np.zeros((len(vectors), len(vectors)))
        if noise is not None and noise.any():
            fitted = float(start.gradient @ start.gradient) / (2 * _FITTED * max(abs(start.value), 1e-300))
            ridge = max(_CAUTION * float(start.curvature.sum()), fitted) * noise
        if products is None:
            products = Products.of(task, start, vectors, None, np.empty(0, dtype=np.intp))
        kept = independent(float(start.curvature.sum()) * products.gram + k + ridge, np.diag(ridge))
        whole = bool(kept.all())
        basis, ridge = (vectors, ridge) if whole else (vectors.picked(kept), ridge[np.ix_(kept, kept)])
        # A Hessian of another place would hide along which steps a loss with flat parts is flat.
        known = task.loss.bends_slowly and bool(products.known[kept].all()) and kept.any()
        hessian = products.hessian[np.ix_(kept, kept)] if known else None
        return Valley(basis, kept, np.zeros(len(basis)), start, ridge, products, hessian)

    def parabola(self, c: Array) -> float:
        """The loss for coefficients c (K,), by its parabola at `at`."""
        return self.loss(c[self.kept])

    def loss(self, c: Array) -> float:
        """The same for coefficients (k,) of the independent vectors."""
        assert self.slopes is not None
        assert self.hessian is not None
        away = c - self.at
        return self.point.value + float(self.slopes @ away) + float(away @ (self.hessian @ away)) / 2

    def carried(self) -> Products:
        """The products with the Hessian as it is now, for the next round."""
        known = np.zeros(self.kept.size, dtype=bool)
        hessian = np.zeros((self.kept.size,) * 2)
        if self.hessian is not None:
            known |= self.kept
            hessian[np.ix_(self.kept, self.kept)] = self.hessian
        return replace(self.products, hessian=hessian, known=known)

    def spread(self, c: Array) -> Array:
        """Coefficients (K,) of all received vectors."""
        whole = np.zeros(self.kept.size)
        whole[self.kept] = c
        return whole
