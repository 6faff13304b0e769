"""HiGHS, a simplex solver, for problems that are linear programmes: kinked losses with L1 and bounds.

Its answers are vertices, so they are exact up to rounding where an interior-point solver stops short.
"""

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

from benchmarks.sweep.problems import Array
from benchmarks.sweep.scaled import Scaled

_FINEST = 1e-10  # the smallest tolerance that HiGHS takes
_SECONDS = 20.0  # long enough for all tables but the largest


def linear(s: Scaled) -> bool:
    """Whether the problem is a linear programme."""
    return not s.loss.smooth and not s.ridge.any() and not s.groups and not s.balls


def solve_linear(s: Scaled) -> tuple[Array, float, Array] | None:
    """u, c and the slopes (N,); None where time ran out.  Variables: u = p - m, c, and what lies above and below."""
    n, d = s.design.shape
    w = s.gain * s.problem.weights
    ones = np.ones((n, 1 if s.problem.intercept else 0))
    hinge = s.loss.name == "hinge"
    sign = s.y if hinge else np.ones(n)
    target = np.ones(n) if hinge else s.y
    above, below = (np.zeros(n), w) if hinge else ((1 - s.loss.shape) * w, s.loss.shape * w)
    columns = sign[:, None] * np.hstack([s.design, -s.design, ones])
    cost = np.concatenate([s.l1, s.l1, np.zeros(ones.shape[1]), above, below])
    bounds = [(max(lo, 0.0), max(hi, 0.0)) for lo, hi in zip(s.lower, s.upper, strict=True)]
    bounds += [(max(-hi, 0.0), max(-lo, 0.0)) for lo, hi in zip(s.lower, s.upper, strict=True)]
    bounds += [(None, None)] * ones.shape[1] + [(0.0, None)] * (2 * n)
    options = {"primal_feasibility_tolerance": _FINEST, "dual_feasibility_tolerance": _FINEST, "time_limit": _SECONDS}
    found = linprog(
        cost,
        A_eq=sp.hstack([sp.csr_matrix(columns), -sp.identity(n), sp.identity(n)]).tocsc(),
        b_eq=target,
        bounds=bounds,
        method="highs-ds",
        options=options,
    )
    if found.x is None or found.status != 0:
        return None
    slopes = -sign * np.divide(found.eqlin.marginals, w, out=np.zeros(n), where=w > 0)
    return found.x[:d] - found.x[d : 2 * d], float(found.x[2 * d]) if s.problem.intercept else 0.0, slopes
