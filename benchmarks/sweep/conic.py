"""Clarabel, an interior-point solver for conic programmes, applied to a scaled problem.

`Rows` collects  A v + s = h,  s in a cone;  the first d entries of v are the weights u, the next the intercept.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import clarabel
import numpy as np
import scipy.sparse as sp

from benchmarks.sweep.problems import Array
from benchmarks.sweep.scaled import Scaled

_FINEST = 1e-12  # far below the 1e-8 that a reference is asked for; the solver ends earlier where rounding stops it


@dataclass
class Rows:
    """A growing conic programme  min v^T P v / 2 + q^T v."""

    size: int
    blocks: list[Any] = field(default_factory=list)
    right: list[Array] = field(default_factory=list)
    cones: list[Any] = field(default_factory=list)
    square: list[tuple[int, Any]] = field(default_factory=list)
    linear: list[tuple[int, Array]] = field(default_factory=list)

    def variables(self, count: int, square: Any = None, linear: Array | None = None) -> int:
        """Add variables with their part of the objective; returns the number of the first."""
        first = self.size
        self.size += count
        if square is not None:
            self.square.append((first, square))
        if linear is not None:
            self.linear.append((first, linear))
        return first

    def add(self, cone: Any, right: Array, *pieces: tuple[int, Any]) -> int:
        """One block of rows: pieces are (first column, matrix).  Returns the number of its first row."""
        first = sum(r.size for r in self.right)
        self.blocks.append(pieces)
        self.right.append(np.asarray(right, dtype=np.float64))
        self.cones.append(cone)
        return first

    def solve(self) -> tuple[Array, Array]:
        """v and the dual variables of all rows."""
        lines = []
        for pieces, right in zip(self.blocks, self.right, strict=True):
            lines.append(
                sum((_placed(p, at, right.size, self.size) for at, p in pieces), _nothing(right.size, self.size))
            )
        p = sum((_square(at, m, self.size) for at, m in self.square), _nothing(self.size, self.size))
        q = np.zeros(self.size)
        for at, values in self.linear:
            q[at : at + values.size] += values
        solution = clarabel.DefaultSolver(
            sp.triu(p).tocsc(), q, sp.vstack(lines).tocsc(), np.concatenate(self.right), self.cones, _settings()
        ).solve()
        return np.array(solution.x), np.array(solution.z)


def add_penalty(rows: Rows, s: Scaled) -> None:
    """Ridge, L1, group norms, bounds and balls on the first d variables."""
    rows.square.append((0, sp.diags(s.ridge)))
    on = np.flatnonzero(s.l1 > 0)
    if on.size:
        pick, one = _picked(on, s.l1.size), sp.identity(on.size)
        t = rows.variables(on.size, linear=s.l1[on])
        rows.add(clarabel.NonnegativeConeT(on.size), np.zeros(on.size), (0, pick), (t, -one))
        rows.add(clarabel.NonnegativeConeT(on.size), np.zeros(on.size), (0, -pick), (t, -one))
    for sign, bound in ((1.0, s.upper), (-1.0, s.lower)):
        on = np.flatnonzero(np.isfinite(bound))
        if on.size:
            rows.add(clarabel.NonnegativeConeT(on.size), sign * bound[on], (0, sign * _picked(on, bound.size)))
    for norm in s.groups:
        t = rows.variables(1, linear=np.array([norm.strength]))
        top = sp.csr_matrix(([-1.0], ([0], [0])), shape=(norm.members.size + 1, 1))
        rows.add(_cone(norm), np.zeros(norm.members.size + 1), (0, _stretched(norm, s.l1.size)), (t, top))
    for norm in s.balls:
        rows.add(_cone(norm), np.r_[norm.strength, np.zeros(norm.members.size)], (0, _stretched(norm, s.l1.size)))


def solve_piecewise(s: Scaled) -> tuple[Array, float, Array]:
    """u, c and the slopes (N,) of a loss made of lines and parabolas, from one programme."""
    n, d = s.design.shape
    w = s.gain * s.problem.weights
    intercept = s.problem.intercept
    design = np.hstack([s.design, np.ones((n, 1))]) if intercept else s.design
    rows = Rows(design.shape[1])
    add_penalty(rows, s)
    one, none = sp.identity(n), np.zeros(n)
    name, shape = s.loss.name, s.loss.shape
    if name in ("hinge", "squared_hinge"):
        t = rows.variables(n, *((None, w) if name == "hinge" else (sp.diags(2 * w), None)))
        rows.add(clarabel.NonnegativeConeT(n), none, (t, -one))
        first = rows.add(clarabel.NonnegativeConeT(n), -np.ones(n), (0, -s.y[:, None] * design), (t, -one))
    else:
        pieces: list[tuple[int, Any]] = [(0, design)]
        if name in ("squared", "huber"):
            pieces.append((rows.variables(n, sp.diags(w)), -one))
        if name in ("huber", "pinball"):
            above, below = (shape, shape) if name == "huber" else (1 - shape, shape)
            over, under = rows.variables(n, linear=above * w), rows.variables(n, linear=below * w)
            pieces += [(over, -one), (under, one)]
            rows.add(clarabel.NonnegativeConeT(2 * n), np.zeros(2 * n), (over, -sp.identity(2 * n)))
        first = rows.add(clarabel.ZeroConeT(n), s.y, *pieces)
    v, dual = rows.solve()
    slopes = np.divide(dual[first : first + n], w, out=np.zeros(n), where=w > 0)
    slopes = -s.y * slopes if name in ("hinge", "squared_hinge") else slopes
    return v[:d], float(v[d]) if intercept else 0.0, slopes


def solve_parabola(s: Scaled, root: Array, gradient: Array) -> Array:
    """argmin of  ||root v||^2 / 2 + gradient^T v + penalty(u),  v = (u, c),  root (k, len v)."""
    ridge = np.r_[s.ridge, np.zeros(gradient.size - s.ridge.size)]
    rows = Rows(gradient.size)
    add_penalty(rows, s)
    if not rows.cones:
        return _least_squares(root, ridge, gradient)
    k = root.shape[0]
    r = rows.variables(k, square=sp.identity(k))
    rows.linear.append((0, gradient))
    rows.add(clarabel.ZeroConeT(k), np.zeros(k), (0, root), (r, -sp.identity(k)))
    return rows.solve()[0][: gradient.size]


def _least_squares(root: Array, ridge: Array, gradient: Array) -> Array:
    """The same without kinks: the shortest solution of  (root^T root + ridge) v = -gradient."""
    _, values, vectors = np.linalg.svd(np.vstack([root, np.diag(np.sqrt(ridge))]), full_matrices=False)
    kept = values > 1e-14 * values.max(initial=0.0)
    along = vectors[kept]
    return -along.T @ ((along @ gradient) / values[kept] ** 2)


def _settings() -> Any:
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_iter = 200
    settings.time_limit = 60.0  # seconds; what it has by then is judged by its certificate
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = _FINEST
    settings.max_threads = 1
    return settings


def _nothing(rows: int, columns: int) -> Any:
    return sp.csr_matrix((rows, columns))


def _placed(piece: Any, at: int, rows: int, columns: int) -> Any:
    block = sp.coo_matrix(piece)
    return sp.csr_matrix((block.data, (block.row, block.col + at)), shape=(rows, columns))


def _square(at: int, piece: Any, size: int) -> Any:
    block = sp.coo_matrix(piece)
    return sp.csr_matrix((block.data, (block.row + at, block.col + at)), shape=(size, size))


def _picked(on: Array, width: int) -> Any:
    return sp.csr_matrix((np.ones(on.size), (np.arange(on.size), on)), shape=(on.size, width))


def _stretched(norm: Any, width: int) -> Any:
    size = norm.members.size
    return sp.csr_matrix((-norm.stretch, (1 + np.arange(size), norm.members)), shape=(size + 1, width))


def _cone(norm: Any) -> Any:
    return clarabel.SecondOrderConeT(norm.members.size + 1)


__all__: Sequence[str] = ["solve_parabola", "solve_piecewise"]
