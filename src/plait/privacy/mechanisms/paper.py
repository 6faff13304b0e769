"""The mechanism of the ADMM sharing paper, faithfully, and why it guarantees nothing.

The share D x is sent as D (x + xi), xi ~ N(0, sigma^2 (D^T D)^-1). The noise D xi lies in the column space
of D. Neighbouring data sets have different column spaces, so the two output laws are mutually singular: an
observer who tests whether a share lies in col(D) tells them apart with certainty, for every sigma. Its
sensitivity lemma is false as well. This module exists to reproduce the paper; its cost is infinite and the
ledger says so.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from plait._checks import need_types
from plait.errors import InputError, PrivacyError, SettingError
from plait.privacy.accountants import classical_sigma
from plait.privacy.accounting import Cost
from plait.privacy.clipping import row_norms
from plait.privacy.mechanisms.base import DefaultMethod, Mechanism, Schedule
from plait.privacy.noise import Grid, Keystream

Floats = NDArray[np.float64]

RANK_TOLERANCE = 1e-9  # of the largest eigenvalue: smaller ones are rounding errors, and count as 0
ROW_TOLERANCE = 1e-6  # by which a row's norm may differ from 1, which the paper assumes: float32 data are within it
REASON = "none (the support of the noise depends on the data)"


class NoGuaranteeWarning(UserWarning):
    """A run uses a mechanism that guarantees nothing."""


class _InColumnSpace(Mechanism):
    """What both forms of the paper's noise say of themselves."""

    schedule: ClassVar[Schedule] = Schedule.EVERY_ROUND
    default_method: ClassVar[DefaultMethod] = DefaultMethod.PAPER

    @property
    def cost(self) -> Cost:
        """Infinite: nothing is guaranteed."""
        return Cost(mu=math.inf)

    @property
    def guarantee(self) -> str:
        return REASON

    @property
    def warning(self) -> str:
        return (
            f"{type(self).__name__} is not differentially private: its noise lies in the column space of the data. "
            "Use plait.privacy.Recommended for a guarantee."
        )


@dataclass(frozen=True)
class PaperMechanism(_InColumnSpace):
    """The paper's noise at the paper's scale.  The paper claims (epsilon, delta) per round; it guarantees nothing.

    A run fills in `rho`, `parties` and `penalty`, which it knows.

    Parameters
    ----------
    epsilon : float
        What the paper claims per round, in (0, 1].
    delta : float, default=1e-5
        What the paper claims per round.
    bound : float, default=1.0
        b_1, the norms of x, y and z.
    rho : float, default=1.0
        rho of the run, which fills it in.
    parties : int, default=2
        M of the run, which fills it in.
    penalty : float, default=0.0
        lambda of the run, which fills it in.
    curvature : float, default=1.0
        c_1 = sup |R''|.
    """

    epsilon: float
    delta: float = 1e-5
    bound: float = 1.0
    rho: float = 1.0
    parties: int = 2
    penalty: float = 0.0
    curvature: float = 1.0

    def __post_init__(self) -> None:
        need_types(self)
        if not 0 < self.epsilon <= 1:
            raise SettingError(
                f"The paper's theorem needs a per-round epsilon in (0, 1]. Found {self.epsilon}. For a "
                "total epsilon use calibrate(PaperAccountant(), ...)."
            )
        for name in ("delta", "bound", "rho", "parties"):
            if not getattr(self, name) > 0:
                raise SettingError(f"`{name}` must be positive. Found {getattr(self, name)}.")

    def sensitivity(self, width: int) -> float:
        """The paper's C = 3 / (d rho) [lambda c_1 + (1 + M rho) b_1]; its lemma is false."""
        inner = self.penalty * self.curvature + (1 + self.parties * self.rho) * self.bound
        return 3 / (width * self.rho) * inner

    def feedback_bound(self) -> float:
        """What a party may receive: |c| <= M b_1 and |y| / rho <= b_1 / rho, of which it sees the sum only."""
        return (self.parties + 1 / self.rho) * self.bound

    def scale(self, width: int) -> float:
        """sqrt(2 ln(1.25/delta)) C / epsilon."""
        return classical_sigma(self.epsilon, self.delta) * self.sensitivity(width)


@dataclass(frozen=True)
class PaperNoise(_InColumnSpace):
    """The paper's noise at a level of your choice, as in the paper's figures.  It guarantees nothing.

    Parameters
    ----------
    sigma : float
        The noise level, 0 or more.
    """

    sigma: float

    def __post_init__(self) -> None:
        need_types(self)
        if not (math.isfinite(self.sigma) and self.sigma >= 0):
            raise SettingError(f"`sigma` must be zero or positive, and finite. Found {self.sigma}.")

    def scale(self, width: int) -> float:
        """sigma, for any number of columns."""
        return self.sigma


@dataclass(frozen=True)
class NoPrivacy(Mechanism):
    """Nothing is protected: shares are sent as they are.  This is a choice, and its cost is infinite."""

    schedule: ClassVar[Schedule] = Schedule.NEVER

    @property
    def cost(self) -> Cost:
        """Infinite: nothing is guaranteed."""
        return Cost(mu=math.inf)

    @property
    def guarantee(self) -> str:
        return "none (no privacy mechanism)"


@dataclass(frozen=True, eq=False)
class ColumnNoise:
    """Draws from N(0, sigma^2 (D^T D)^+): `factor` (d, r) is V e^-1/2 for the r eigenvalues e above tolerance."""

    factor: Floats

    @classmethod
    def of(cls, gram: Floats) -> "ColumnNoise":
        """From D^T D, d x d."""
        return cls.of_eigen(*np.linalg.eigh(gram))

    @classmethod
    def of_eigen(cls, values: Floats, vectors: Floats) -> "ColumnNoise":
        """From the eigenvalues (d,), ascending, and eigenvectors (d, d) of D^T D."""
        kept = values > RANK_TOLERANCE * values[-1]
        if not (values[-1] > 0 and kept.any()):
            raise InputError("The paper's noise needs a matrix that is not zero. Found rank 0.")
        return cls(vectors[:, kept] / np.sqrt(values[kept]))

    @property
    def rank(self) -> int:
        return int(self.factor.shape[1])

    def sample(self, sigma: float, stream: Keystream) -> Floats:
        draw: Floats = sigma * (self.factor @ Grid.for_sigma(1.0).noisy(np.zeros(self.rank), stream))
        return draw


def check_unit_rows(matrix: Any) -> None:
    """Refuse rows whose norm is not 1: the paper assumes it."""
    norms = row_norms(matrix)
    bad = np.flatnonzero(np.abs(norms - 1) > ROW_TOLERANCE)
    if bad.size:
        raise PrivacyError(
            f"The paper's mechanism needs rows of norm 1. Found norm {norms[bad[0]]:.3g} in row {bad[0]} "
            f"({bad.size} rows in all). Normalise the rows; a zero row must be dropped."
        )


def to_ball(vector: Floats, radius: float) -> Floats:
    """The nearest point to `vector` in the ball |x| <= radius: for y, z and the feedback that a party receives."""
    norm = float(np.linalg.norm(vector))
    return vector if norm <= radius else vector * (radius / norm)


def minimise_on_ball(hessian: Floats, linear: Floats, radius: float) -> Floats:
    """argmin x^T H x / 2 + <linear, x> over |x| <= r, by the secular equation |(H + nu I)^-1 linear| = r."""
    from scipy.optimize import brentq  # imported only where it is used: it loads slowly

    values, vectors = np.linalg.eigh(hessian)
    values = np.where(values > RANK_TOLERANCE * max(values[-1], 0.0), values, 0.0)
    rotated = vectors.T @ linear

    def solve(nu: float) -> Floats:
        bottom = values + nu
        return -np.divide(rotated, bottom, out=np.zeros_like(rotated), where=bottom > 0)

    flat = values == 0
    unbounded = bool(np.any(np.abs(rotated[flat]) > 1e-9 * max(1.0, float(np.linalg.norm(rotated)))))
    if not unbounded and np.linalg.norm(solve(0.0)) <= radius:
        return vectors @ solve(0.0)
    top = float(np.linalg.norm(rotated)) / radius
    nu = brentq(lambda v: float(np.linalg.norm(solve(v))) - radius, top * 1e-14, top * (1 + 1e-12) + 1e-300)
    return to_ball(vectors @ solve(float(nu)), radius)
