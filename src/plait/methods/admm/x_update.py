"""The party's x-update: which factorisation or iteration, chosen from the penalty and the shape of D.

    x <- argmin over x of   penalty(x) + (kappa/2) || D (x - centre) + shift ||^2

With c = G centre - D^T shift and G = D^T D this is  penalty(x) + (kappa/2) x^T G x - kappa c^T x.  Full column rank
is not needed: along the null space of D a penalty-free x takes the least norm.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property, lru_cache

import numpy as np

from plait._types import Array
from plait.problem.features import Features, eigen
from plait.problem.penalties import Penalty
from plait.problem.prox_newton import CompositeProblem, Quadratic

_GRADED = 1e8  # squared column norms further apart than this lose digits in a common eigendecomposition
_ACTIVE_LIMIT = 1000  # weights that are not 0, up to which their Gram matrix is formed: 8 MB, a few ms to factorise


class LocalSolver(ABC):
    """One party's x-update."""

    def __init__(self, features: Features, penalty: Penalty) -> None:
        self.features = features
        self.penalty = penalty

    @abstractmethod
    def solve(self, kappa: float, centre: Array, shift: Array, adjoint: Array) -> Array:
        """The minimiser; shift has shape (N,), centre (d,), and adjoint = D^T shift is passed because it is known."""


class PrimalRidge(LocalSolver):
    """Quadratic penalty, d <= N: one eigendecomposition of D^T D serves every rho, lambda and round.

    Columns of very different size are brought to one size first; then there is one decomposition per rho and lambda.
    """

    def solve(self, kappa: float, centre: Array, shift: Array, adjoint: Array) -> Array:
        if self.features.graded(_GRADED):
            return self._solve_graded(kappa, self.features.gram @ centre - adjoint)
        e, q = self.features.gram_eigen
        target = kappa * (e * (q.T @ centre) - q.T @ adjoint)
        scale = kappa * e + self.penalty.ridge
        return q @ np.divide(target, scale, out=np.zeros_like(target), where=e > 0)

    def _solve_graded(self, kappa: float, linear: Array) -> Array:
        unit, e, q = self._scaled_eigen(kappa)
        target = q.T @ (unit * kappa * linear)
        return unit * (q @ np.divide(target, e, out=np.zeros_like(target), where=e > 0))

    @lru_cache(maxsize=1)  # noqa: B019  one solver lives as long as its party
    def _scaled_eigen(self, kappa: float) -> tuple[Array, Array, Array]:
        """1 / sqrt of the diagonal of kappa D^T D + ridge I, and the decomposition of that matrix scaled by it."""
        matrix = kappa * self.features.gram
        matrix[np.diag_indices(matrix.shape[0])] += self.penalty.ridge
        size = np.sqrt(np.diag(matrix))
        unit = 1 / np.where(size > 0, size, 1.0)
        return (unit, *eigen(matrix * np.outer(unit, unit)))


class DualRidge(LocalSolver):
    """Quadratic penalty, d > N: x = D^T alpha, and one eigendecomposition of D D^T serves them all."""

    def solve(self, kappa: float, centre: Array, shift: Array, adjoint: Array) -> Array:
        e, q = self.features.dual_eigen
        target = kappa * (q.T @ (self.features.forward(centre) - shift))
        alpha = np.divide(target, kappa * e + self.penalty.ridge, out=np.zeros_like(target), where=e > 0)
        return self.features.adjoint(q @ alpha)


class IterativeRidge(LocalSolver):
    """Quadratic penalty, both sides too large to factorise: conjugate gradients, warm-started at the centre."""

    tolerance = 1e-10  # of the first residual: far below what a round changes

    def solve(self, kappa: float, centre: Array, shift: Array, adjoint: Array) -> Array:
        f, ridge = self.features, self.penalty.ridge
        diagonal = kappa * f.column_squares + ridge
        return conjugate_gradients(
            lambda x: kappa * f.adjoint(f.forward(x)) + ridge * x,
            residual=-(ridge * centre + kappa * adjoint),
            start=centre,
            precondition=lambda r: r / np.where(diagonal > 0, diagonal, 1.0),
            tolerance=self.tolerance,
        )


class Composite(LocalSolver):
    """Any other penalty: a warm-started proximal iteration, on D^T D where it fits, else on products with D."""

    @property
    def tolerance(self) -> float:
        # Relative; products with D cost more than with D^T D, and lose more digits.
        return 1e-11 if self.features.primal_fits else 1e-8

    @cached_property
    def _problem(self) -> CompositeProblem:
        f = self.features
        if f.primal_fits:
            quadratic = Quadratic(
                lambda x: f.gram @ x, np.diag(f.gram).copy(), lambda on: f.gram[np.ix_(on, on)], f.columns
            )
        else:
            quadratic = Quadratic(lambda x: f.adjoint(f.forward(x)), f.column_squares, f.gram_of, _ACTIVE_LIMIT)
        return CompositeProblem(self.penalty, quadratic)

    def solve(self, kappa: float, centre: Array, shift: Array, adjoint: Array) -> Array:
        linear = self._problem.quadratic.apply(centre) - adjoint
        return self._problem.solve(linear, 1 / kappa, centre, self.tolerance)


def choose_solver(features: Features, penalty: Penalty) -> LocalSolver:
    """The solver for this penalty and shape; nothing that does not fit is ever formed."""
    if not penalty.quadratic:
        return Composite(features, penalty)
    if features.columns <= features.rows and features.primal_fits:
        return PrimalRidge(features, penalty)
    if features.dual_fits and not (features.primal_fits and features.graded(_GRADED)):
        return DualRidge(features, penalty)
    return PrimalRidge(features, penalty) if features.primal_fits else IterativeRidge(features, penalty)


def conjugate_gradients(
    apply: Callable[[Array], Array],
    residual: Array,
    start: Array,
    precondition: Callable[[Array], Array],
    tolerance: float,
    max_steps: int = 1000,
) -> Array:
    """Solve  apply(x - start) = residual  for x, apply symmetric positive semidefinite."""
    x, r = start.copy(), residual.copy()
    z = precondition(r)
    p, rz = z.copy(), float(r @ z)
    goal = tolerance**2 * rz
    for _ in range(max_steps):
        if rz <= goal or rz <= 0:
            break
        ap = apply(p)
        curvature = float(p @ ap)
        if curvature <= 0:
            break
        step = rz / curvature
        x += step * p
        r -= step * ap
        z = precondition(r)
        rz, previous = float(r @ z), rz
        p = z + (rz / previous) * p
    return x
