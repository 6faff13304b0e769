"""What is minimised, written down once more without plait.

    minimise over x, b   sum_i w_i loss(z_i; y_i) + sum_m R_m(x_m),      z = sum_m D_m x_m + b,   sum_i w_i = 1

R_m(x) = ridge/2 ||x||^2 + l1 ||x||_1 + group * sum_g sqrt(size of g) ||x_g||,  lower <= x <= upper,  ||x|| <= radius.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import expit, xlogy

Array = np.ndarray

REGRESSION = ("squared", "huber", "pinball")
CLASSIFICATION = ("logistic", "hinge", "squared_hinge")


@dataclass(frozen=True)
class Loss:
    """One of the seven losses; `shape` is Huber's delta or pinball's quantile."""

    name: str
    shape: float = 1.0

    @property
    def smooth(self) -> bool:
        return self.name not in ("hinge", "pinball")

    @property
    def classifies(self) -> bool:
        return self.name in CLASSIFICATION

    def value(self, z: Array, y: Array) -> Array:
        """loss(z; y), elementwise."""
        match self.name:
            case "logistic":
                return np.logaddexp(0.0, -y * z)
            case "squared":
                return (z - y) ** 2 / 2
            case "hinge":
                return np.maximum(1 - y * z, 0.0)
            case "squared_hinge":
                return np.maximum(1 - y * z, 0.0) ** 2
            case "huber":
                r = np.abs(z - y)
                return np.where(r <= self.shape, r**2 / 2, self.shape * (r - self.shape / 2))
            case "poisson":
                with np.errstate(over="ignore"):
                    return np.exp(z) - y * z
            case "pinball":
                return np.maximum(self.shape * (y - z), (self.shape - 1) * (y - z))
        raise ValueError(f"no loss is called {self.name!r}")

    def slope(self, z: Array, y: Array) -> Array:
        """d loss / dz; at a kink, one subgradient."""
        match self.name:
            case "logistic":
                return -y * expit(-y * z)
            case "squared":
                return z - y
            case "hinge":
                return np.where(y * z < 1, -y, 0.0)
            case "squared_hinge":
                return -2 * y * np.maximum(1 - y * z, 0.0)
            case "huber":
                return np.clip(z - y, -self.shape, self.shape)
            case "poisson":
                with np.errstate(over="ignore"):
                    return np.exp(z) - y
        return np.where(z < y, -self.shape, 1 - self.shape)

    def bend(self, z: Array, y: Array) -> Array:
        """The second derivative, for smooth losses."""
        match self.name:
            case "logistic":
                return expit(z) * expit(-z)
            case "squared":
                return np.ones_like(z)
            case "squared_hinge":
                return np.where(y * z < 1, 2.0, 0.0)
            case "huber":
                return np.where(np.abs(z - y) <= self.shape, 1.0, 0.0)
            case "poisson":
                with np.errstate(over="ignore"):
                    return np.exp(z)
        raise ValueError(f"{self.name} has kinks")

    def inside(self, slope: Array, y: Array) -> Array:
        """The nearest slope at which the conjugate is finite."""
        match self.name:
            case "logistic" | "hinge":
                return -y * np.clip(-y * slope, 0.0, 1.0)
            case "squared_hinge":
                return -y * np.maximum(-y * slope, 0.0)
            case "huber":
                return np.clip(slope, -self.shape, self.shape)
            case "poisson":
                return np.maximum(slope, -y)
            case "pinball":
                return np.clip(slope, -self.shape, 1 - self.shape)
        return slope

    def conjugate(self, slope: Array, y: Array) -> Array:
        """max over z of  slope z - loss(z; y)  at slopes from `inside`."""
        match self.name:
            case "logistic":
                p = -y * slope
                return xlogy(p, p) + xlogy(1 - p, 1 - p)
            case "squared" | "huber":
                return slope * y + slope**2 / 2
            case "hinge":
                return y * slope
            case "squared_hinge":
                return y * slope + slope**2 / 4
            case "poisson":
                mean = slope + y
                return xlogy(mean, mean) - mean
        return slope * y

    def floor(self, y: Array) -> Array:
        """The least value that the loss can take for each label."""
        return y - xlogy(y, y) if self.name == "poisson" else np.zeros_like(y)


@dataclass(frozen=True)
class Terms:
    """One party's penalty and constraints; `groups` has one number per column where there is a group penalty."""

    ridge: float = 0.0
    l1: float = 0.0
    group: float = 0.0
    groups: tuple[int, ...] = ()
    lower: float = -np.inf
    upper: float = np.inf
    radius: float = np.inf

    @property
    def members(self) -> list[Array]:
        """The columns of each group."""
        numbers = np.asarray(self.groups, dtype=int)
        return [np.flatnonzero(numbers == g) for g in np.unique(numbers)]

    def value(self, x: Array) -> float:
        norms = sum(np.sqrt(g.size) * float(np.linalg.norm(x[g])) for g in self.members) if self.group else 0.0
        return self.ridge / 2 * float(x @ x) + self.l1 * float(np.abs(x).sum()) + self.group * norms

    def violation(self, x: Array) -> float:
        """How far x is outside its constraints, relative to the size of x."""
        outside = max(float((self.lower - x).max(initial=0.0)), float((x - self.upper).max(initial=0.0)), 0.0)
        outside = max(outside, float(np.linalg.norm(x)) - self.radius)
        return outside / max(1.0, float(np.abs(x).max(initial=0.0)))

    def nearest(self, x: Array) -> Array:
        """x moved into the constraints."""
        x = np.clip(x, self.lower, self.upper)
        norm = float(np.linalg.norm(x))
        return x if norm <= self.radius else x * (self.radius / norm) * (1 - 1e-16)

    @property
    def kind(self) -> str:
        """The penalty in words, without its strength."""
        names = [("l2", self.ridge), ("l1", self.l1), ("group", self.group)]
        found = [name for name, strength in names if strength > 0] or ["none"]
        walls = [("nonneg", self.lower == 0 and np.isinf(self.upper)), ("ball", np.isfinite(self.radius))]
        walls.append(("box", np.isfinite(self.upper) or (np.isfinite(self.lower) and self.lower != 0)))
        return "+".join(found + [name for name, there in walls if there])


@dataclass(frozen=True)
class Problem:
    """The parties' tables (N, d_m), labels (N,), -1/+1 for classes, one `Terms` per party, sample weights or None."""

    loss: Loss
    parts: tuple[Array, ...]
    y: Array
    terms: tuple[Terms, ...]
    intercept: bool = False
    sample_weight: Array | None = None

    @cached_property
    def table(self) -> Array:
        """All columns side by side (N, d)."""
        return np.hstack(self.parts)

    @cached_property
    def weights(self) -> Array:
        """The share of each sample in the mean (N,)."""
        n = self.y.size
        return np.full(n, 1 / n) if self.sample_weight is None else self.sample_weight / self.sample_weight.sum()

    @cached_property
    def blocks(self) -> tuple[slice, ...]:
        """Where each party's columns stand in the pooled table."""
        ends = np.cumsum([p.shape[1] for p in self.parts])
        return tuple(slice(int(e) - p.shape[1], int(e)) for e, p in zip(ends, self.parts, strict=True))

    def loss_at(self, z: Array) -> float:
        return float(self.weights @ self.loss.value(z, self.y))

    def penalty(self, x: Array) -> float:
        return sum(t.value(x[block]) for t, block in zip(self.terms, self.blocks, strict=True))

    def objective(self, x: Array, b: float) -> float:
        """F at pooled weights x (d,) and intercept b; constraints count as met."""
        return self.loss_at(self.table @ x + b) + self.penalty(x)

    def violation(self, x: Array) -> float:
        return max(t.violation(x[block]) for t, block in zip(self.terms, self.blocks, strict=True))

    @cached_property
    def key(self) -> str:
        """Names the numbers that go in."""
        text = repr((self.loss, self.terms, self.intercept, [p.shape for p in self.parts]))
        digest = hashlib.sha256(text.encode())
        for array in (self.table, self.y, self.weights):
            digest.update(np.ascontiguousarray(array, dtype=np.float64).tobytes())
        return digest.hexdigest()[:20]
