"""How much of each helper's score to use, so that helpers who hold the same signal do not count it twice.

Helper k has the score s_k, one number per row, and the public curvature w. Near its own optimum the loss
of sum_k alpha_k s_k is sum_k e_k (1 - alpha_k)^2 / 2 plus cross terms r_kl sqrt(e_k e_l) alpha_k alpha_l,
where e_k = sum_i w_i s_ki^2 is the helper's energy and r_kl the correlation of sqrt(w) s_k and sqrt(w) s_l.
Each helper sends a noisy sketch of sqrt(w) s_k, and the label party solves S alpha = e with S_kl = r_kl
sqrt(e_k e_l). It takes for r_kl the posterior mean, given an estimate, its error and a prior on [0, 1]:
1/2 where the error is large, and the estimate where it is small. The label party sees sketches only.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FEWEST_BUCKETS = 8  # buckets of a sketch: with fewer, too many rows share a bucket to compare helpers' scores
MOST_BUCKETS = 2**15
"""Most buckets of a sketch, which is sent as scalars: with so many its sampling error is already negligible."""
CLIP = 1.0
"""Scores are clipped at this multiple of their root mean square: a larger one adds more noise than information."""


@dataclass(frozen=True, eq=False)
class Layout:
    """Public buckets (N,) and signs (N,), one of each per row."""

    bucket: NDArray[np.int64]
    sign: Floats
    buckets: int

    @classmethod
    def of(cls, run: str, records: int, buckets: int) -> "Layout":
        """The layout of a run. Everyone may know it: it protects nothing."""
        seed = int.from_bytes(hashlib.sha256(f"plait sketch {run}".encode()).digest()[:8], "big")
        rng = np.random.default_rng(seed)
        bucket = rng.integers(0, buckets, records).astype(np.int64)
        return cls(bucket, rng.choice([-1.0, 1.0], records), buckets)


@dataclass(frozen=True, eq=False)
class Sketch:
    """A released sketch: bucket sums (buckets,), the energy of the clipped scores, and the noise of a sum."""

    sums: Floats
    energy: float
    sigma: float


def bucket_count(records: int, mu: float, sensitivity: float) -> int:
    """The number of buckets at which sampling error and noise are equal: N mu^2 / (2 (Delta CLIP)^2).

    It is at least FEWEST_BUCKETS, and at most N and MOST_BUCKETS.
    """
    best = records * mu**2 / (sensitivity * CLIP) ** 2 / 2
    return int(np.clip(best, FEWEST_BUCKETS, min(records, MOST_BUCKETS)))


def correlation(a: Sketch, b: Sketch) -> tuple[float, float]:
    """The estimated correlation of two sketched scores, and its standard error."""
    floor = a.sigma, b.sigma
    ea, eb = max(a.energy, floor[0] ** 2), max(b.energy, floor[1] ** 2)
    buckets = a.sums.size
    scale = math.sqrt(ea * eb)
    estimate = float(a.sums @ b.sums) / scale
    sampling = (1 + min(1.0, estimate**2)) / buckets
    noise = (a.sigma**2 / ea + b.sigma**2 / eb) + buckets * (a.sigma * b.sigma / scale) ** 2
    return estimate, math.sqrt(sampling + noise)


def posterior_mean(estimate: float, error: float) -> float:
    """The posterior mean of r = sin(theta)^2, theta uniform on [0, pi/2] beforehand, given a normal estimate of r.

    This prior prefers r near 0 and near 1: most helpers hold either different signals or the same one.
    """
    r = np.sin(np.linspace(0.0, np.pi / 2, 401)) ** 2  # 401 points: the mean is exact to 0.002
    exponent = -(((estimate - r) / error) ** 2) / 2
    density = np.exp(exponent - exponent.max())
    return float(density @ r / density.sum())


def mixing_factors(energies: Sequence[float], sketches: Sequence[Sketch]) -> Floats:
    """alpha (helpers,): the factor of each helper's score, between 0 and 1."""
    from scipy.optimize import nnls  # imported only where it is used: it loads slowly

    count = len(energies)
    root = np.sqrt(np.maximum(np.asarray(energies, dtype=float), 0.0))
    matrix = np.eye(count)
    for k in range(count):
        for m in range(k):
            matrix[k, m] = matrix[m, k] = posterior_mean(*correlation(sketches[k], sketches[m]))
    # Identical helpers make the matrix singular.  A floor under its eigenvalues splits the signal evenly between them.
    values, vectors = np.linalg.eigh(matrix)
    factor = np.sqrt(np.maximum(values, 1e-3))[:, None] * vectors.T
    whitened = np.linalg.solve(factor.T, root)
    scaled, _ = nnls(factor, whitened)
    alpha: Floats = np.where(root > 0, scaled / np.where(root > 0, root, 1.0), 0.0)
    return np.clip(alpha, 0.0, 1.0)
