"""The paper's prototype, timed against plait: Algorithm 1 with SciPy's optimisers for both updates.

In units of the summed loss, with v = sum_k D_k x_k - z + u:

    x_m <- argmin  (1/2) ||x||^2 + (rho/2) ||D_m (x - x_m) + v||^2        L-BFGS-B
    z_i <- argmin  loss(z_i) + (rho/2) (sum_k D_k x_k + u - z)_i^2        one scalar minimisation per sample
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import minimize, minimize_scalar

from plait._types import Array
from plait.methods.admm.x_update import LocalSolver, choose_solver
from plait.problem.losses import Logistic
from plait.problem.penalties import L2
from reproduction.experiments import Say
from reproduction.records import Timed
from reproduction.subject import Subject


class Prototype:
    """Algorithm 1 as the paper implemented it, one round at a time; lambda is 1 in these units."""

    def __init__(self, parts: dict[str, Any], labels: Array, rho: float) -> None:
        self.parts, self.labels, self.rho = parts, labels, rho
        self.x = {name: np.zeros(d.shape[1]) for name, d in parts.items()}
        self.z = np.zeros(labels.size)
        self.u = np.zeros(labels.size)

    @property
    def total(self) -> Array:
        return np.sum([d @ self.x[name] for name, d in self.parts.items()], axis=0)

    def x_objective(self, name: str, v: Array) -> Callable[[Array], tuple[float, Array]]:
        """The x-subproblem's value and gradient."""
        d, centre = self.parts[name], self.x[name]

        def both(x: Array) -> tuple[float, Array]:
            r = d @ (x - centre) + v
            return float(x @ x + self.rho * (r @ r)) / 2, x + self.rho * np.asarray(d.T @ r)

        return both

    def x_update(self, name: str, v: Array) -> Array:
        return minimize(self.x_objective(name, v), self.x[name], jac=True, method="L-BFGS-B").x

    def z_update(self, pull: Array) -> Array:
        rho = self.rho

        def scalar(y: float, p: float) -> float:
            return float(minimize_scalar(lambda z: np.logaddexp(0.0, -y * z) + rho / 2 * (z - p) ** 2).x)

        return np.array([scalar(y, p) for y, p in zip(self.labels, pull, strict=True)])

    def dual_update(self) -> None:
        self.u = self.u + self.total - self.z


def time_updates(subject: Subject, rho: float, rounds: int, say: Say) -> Timed:
    """Run the prototype, and let plait make every one of its updates, too, from the same inputs."""
    proto = Prototype(subject.data.parts, subject.data.y, rho)
    fresh = Subject.of(subject.data)
    solvers = {name: choose_solver(part.features, L2(subject.alpha)) for name, part in fresh.parts.items()}
    loss, step = Logistic(), np.full(subject.data.y.size, 1 / rho)
    spent = dict.fromkeys(("x_prototype", "z_prototype", "x_first", "x_plait", "z_plait"), 0.0)
    excess, z_gap = 0.0, 0.0

    def timed(what: str, job: Callable[..., Array], *inputs: Any) -> Array:
        began = time.perf_counter()
        result = job(*inputs)
        spent[what] += time.perf_counter() - began
        return result

    for number in range(1, rounds + 1):
        say(f"the paper's prototype against plait, round {number} of {rounds}")
        v = proto.total - proto.z + proto.u
        moved = {}
        for name, solver in solvers.items():
            moved[name] = timed("x_prototype", proto.x_update, name, v)
            ours = timed("x_plait", _x_update, solver, proto.x[name], v, rho)
            value = proto.x_objective(name, v)
            least = value(ours)[0]
            excess = max(excess, (value(moved[name])[0] - least) / max(least, 1e-300))
        if number == 1:
            spent["x_first"] = spent["x_plait"]
        proto.x = moved
        pull = proto.total + proto.u
        proto.z = timed("z_prototype", proto.z_update, pull)
        z = timed("z_plait", loss.prox, pull, step, subject.data.y)
        z_gap = max(z_gap, float(np.abs(z - proto.z).max()))
        proto.dual_update()
    return Timed(rounds, **spent, x_excess=excess, z_gap=z_gap)


def _x_update(solver: LocalSolver, centre: Array, v: Array, rho: float) -> Array:
    return solver.solve(rho / v.size, centre, v, solver.features.adjoint(v))
