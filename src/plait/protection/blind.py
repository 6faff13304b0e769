"""The arithmetic of a blind third machine: it trains for two owners and sees neither a label nor a score.

Both owners share a secret.  From it they draw a permutation pi of the rows and signs s in {-1, 1}^N, and send only
disguised vectors s_i v_pi(i).  A loss that depends on y z alone (logistic, hinge, squared hinge), or on |y - z|
(squared, Huber), has the same value on disguised labels and scores, and its gradient is the disguised gradient.

    machine sees   s * y_pi,  s * (z_A + z_B)_pi       and returns   s * g_pi

Disguised labels of {-1, 1} are fair coins.  The scores are added up under pairwise masks, so that the machine sees
their sum only.  It does learn y z of every row, without knowing which row it is, and how each moves through a run.
Where most scores have one sign, some combination of a few rounds has one in all rows: then the signs are known, and the
order alone hides whose label it is.  A machine that colludes with one owner undoes all of this.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from plait._types import Array
from plait.errors import InputError
from plait.protection.randomness import Stream, derive


@dataclass(frozen=True)
class Disguise:
    """The secret permutation and signs that two owners share for one run."""

    secret: bytes
    run: str
    rows: int

    @cached_property
    def order(self) -> npt.NDArray[np.intp]:
        """pi (N,): the order of random 64-bit keys; a tie has probability below N^2 / 2^65."""
        return np.argsort(Stream(derive(self.secret, "blind order", self.run)).words(self.rows), kind="stable")

    @cached_property
    def signs(self) -> Array:
        """s (N,) in {-1, 1}."""
        bits = np.unpackbits(Stream(derive(self.secret, "blind signs", self.run)).bytes(-(-self.rows // 8)))
        return 1.0 - 2.0 * bits[: self.rows].astype(np.float64)

    def hide(self, vector: Array) -> Array:
        """s_i v_pi(i), (N,)."""
        self._check(vector)
        return self.signs * vector[self.order]

    def reveal(self, vector: Array) -> Array:
        """The vector v (N,) of which this is the disguise."""
        self._check(vector)
        plain = np.empty_like(vector)
        plain[self.order] = self.signs * vector
        return plain

    def _check(self, vector: Array) -> None:
        if vector.shape != (self.rows,):
            raise InputError(f"a disguised vector must have {self.rows} numbers. Found shape {vector.shape}.")
