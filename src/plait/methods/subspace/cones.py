"""A primal-dual interior point method on the norms of groups and the ball of one party's penalty.

Each norm or ball is a cone: a primal point (tau, v) inside it, a dual point (a, -s) inside it, and for v = u (d,)

    norm    a ||u||        a is its strength; s its slope, |s| < a; tau > |v|
    ball    ||u|| <= r     tau is r; s its slope, |s| < a, and a is free

At a target mu Newton's method with the scaling of Nesterov and Todd makes the slope at the next u linear in u,

    s(u) = h + H u,

which is the parabola that the coordinator gets.  Once it has chosen u, the points move towards where Newton puts them,
as far as they stay inside.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from plait._replace import replace
from plait._types import Array
from plait.methods.subspace.linear_cones import Bend

_Over = Callable[[Array], Array]
_IDLE = 1e-12  # of a unit: the least multiplier of a ball, whose square must be a number
_INSIDE = 1e-30  # of squares: what rounding must leave between a point and the surface of its cone


@dataclass(frozen=True)
class RoundBend(Bend):
    """The slope h + H u of rounded norms and balls:  H = diag(weight) + sign r r^T  in each group."""

    rank_one: Array
    """r (d,)."""
    sign: float
    member: npt.NDArray[np.intp]
    """The group of each weight (d,)."""

    def turned(self, v: Array) -> Array:
        """H v but for the diagonal, (d,)."""
        along = np.bincount(self.member, weights=self.rank_one * v)[self.member]
        return np.asarray(self.sign * self.rank_one * along, dtype=np.float64)

    def bent(self, v: Array) -> Array:
        """H v, (d,)."""
        return np.asarray(self.weight * v + self.turned(v))

    def gram(self, rows: Array) -> Array:
        """rows H rows^T (k, k) but for the diagonal, for rows (k, d)."""
        if self.member.max(initial=0) == 0:
            along = (rows @ self.rank_one)[:, None]
        else:
            along = np.zeros((len(rows), int(self.member.max()) + 1))
            np.add.at(along.T, self.member, (rows * self.rank_one).T)
        return np.asarray(self.sign * (along @ along.T))


@dataclass(frozen=True)
class _Scaling:
    """Nesterov and Todd's scaling  W^2 = eta (2 w w^T - J)  with  W^2 z = x  for x = (tau, v), z = (a, -s)."""

    eta: Array
    w0: Array
    w1: Array
    room: Array
    """a^2 - |s|^2."""


@dataclass(frozen=True)
class Norms:
    """Norms of groups of weights: a (G,), unit (G,) of the target; s (d,), tau (G,), v (d,); the target."""

    a: Array
    unit: Array
    member: npt.NDArray[np.intp]
    s: Array
    tau: Array
    v: Array
    target: float

    @staticmethod
    def at(a: Array, unit: Array, member: npt.NDArray[np.intp], s: Array, mu: Array, target: float) -> "Norms":
        """On the central path where the slopes are s (d,), inside."""
        found = Norms(a, unit, member, s, a, s, target)
        room = np.maximum(a * a - found.sums(s * s), _INSIDE * a * a)
        return replace(found, tau=mu * a / room, v=found.each(mu / room) * s)

    def sums(self, v: Array) -> Array:
        """Of each group, (G,)."""
        return np.asarray(np.bincount(self.member, weights=v, minlength=self.a.size), dtype=np.float64)

    def each(self, v: Array) -> Array:
        """Of each weight's group, (d,)."""
        return v[self.member]

    @cached_property
    def gaps(self) -> Array:
        """x^T z (G,): what the penalty's slopes leave open."""
        return np.asarray(self.a * self.tau - self.sums(self.s * self.v))

    @cached_property
    def _scaling(self) -> _Scaling:
        return _scaled(self.tau, self.v, self.a, self.s, self.sums, self.each)

    @cached_property
    def bend(self) -> RoundBend:
        w = self._scaling
        size = 1 / self.each(w.eta)
        flat = self.each(np.sqrt(2 / (1 + 2 * self.sums(w.w1 * w.w1)) / w.eta)) * w.w1
        found = RoundBend(self.s, size, flat, -1.0, self.member)
        return replace(found, h=self.s - found.bent(self.each(self.target * self.unit / w.room) * self.s))

    def change(self, u: Array) -> "Norms":
        """The changes of s, tau and v that Newton's method wants for the step to u (d,)."""
        w, bend = self._scaling, self.bend
        ds = bend.h + bend.bent(u) - self.s
        tau = self.target * self.unit * self.a / w.room + 2 * w.eta * w.w0 * self.sums(w.w1 * ds)
        return replace(self, s=ds, tau=tau - self.tau, v=u - self.v)

    def room(self, change: "Norms") -> Array:
        """How much of the change keeps both points inside, (G,)."""
        return np.minimum(
            _longest(self.tau, change.tau, self.v, change.v, self.sums),
            _longest(self.a, np.zeros_like(self.a), self.s, change.s, self.sums),
        )

    def stepped(self, change: "Norms", part: Array) -> "Norms":
        """After a part (G,) of the change: each group goes as far as it can."""
        each = self.each(part)
        return replace(self, s=self.s + each * change.s, tau=self.tau + part * change.tau, v=self.v + each * change.v)

    def aimed(self, target: float) -> "Norms":
        return replace(self, target=target)


@dataclass(frozen=True)
class RoundWall:
    """|u| <= radius; unit of the target; s (d,), a, v (d,); the target."""

    radius: float
    unit: float
    s: Array
    a: float
    v: Array
    target: float

    @staticmethod
    def at(radius: float, unit: float, v: Array, mu: float, target: float) -> "RoundWall":
        """On the central path at v (d,), inside."""
        room = radius**2 - float(v @ v)
        return RoundWall(radius, unit, mu / room * v, mu * radius / room, v, target)

    @cached_property
    def gaps(self) -> Array:
        return np.array([self.radius * self.a - float(self.s @ self.v)])

    @cached_property
    def _scaling(self) -> _Scaling:
        return _scaled(np.full(1, self.radius), self.v, np.full(1, self.a), self.s, _total, _spread)

    @cached_property
    def _centre(self) -> tuple[Array, float]:
        """The u (d,) at which the slope stays as it is, and by how much tau, the radius, is below its target."""
        w = self._scaling
        mu = self.target * self.unit / float(w.room[0])
        lacks = mu * self.a - self.radius
        pull = 2 * float(w.w0[0]) / (2 * float(w.w0[0]) ** 2 - 1)
        return mu * self.s - pull * lacks * w.w1, lacks

    @cached_property
    def bend(self) -> RoundBend:
        w = self._scaling
        size = np.full(self.s.size, 1 / float(w.eta[0]))
        steep = np.sqrt(2 / float(w.eta[0])) * w.w1
        found = RoundBend(self.s, size, steep, 1.0, np.zeros(self.s.size, dtype=np.intp))
        return replace(found, h=self.s - found.bent(self._centre[0]))

    def change(self, u: Array) -> "RoundWall":
        """The changes of s, a and v that Newton's method wants for the step to u (d,)."""
        w, bend = self._scaling, self.bend
        ds = bend.h + bend.bent(u) - self.s
        eta, w0 = float(w.eta[0]), float(w.w0[0])
        head = self._centre[1] + 2 * eta * w0 * float(w.w1 @ ds)
        return replace(self, s=ds, a=head / (eta * (2 * w0 * w0 - 1)), v=u - self.v)

    def room(self, change: "RoundWall") -> Array:
        """How much of the change keeps both points inside, (1,)."""
        one = np.ones(1)
        return np.minimum(
            _longest(self.radius * one, 0 * one, self.v, change.v, _total),
            _longest(self.a * one, change.a * one, self.s, change.s, _total),
        )

    def stepped(self, change: "RoundWall", part: Array) -> "RoundWall":
        a = max(self.a + float(part[0]) * change.a, _IDLE * self.unit / self.radius)
        return replace(self, s=self.s + part * change.s, a=a, v=self.v + part * change.v)

    def aimed(self, target: float) -> "RoundWall":
        return replace(self, target=target)


def _total(v: Array) -> Array:
    return np.full(1, float(v.sum()))


def _spread(v: Array) -> Array:
    return v  # of one number, which NumPy repeats


def _scaled(tau: Array, v: Array, a: Array, s: Array, sums: _Over, each: _Over) -> _Scaling:
    """Of cones with these points; sums over a cone's weights, and each weight's cone."""
    primal = np.maximum(tau * tau - sums(v * v), _INSIDE * tau * tau)
    dual = np.maximum(a * a - sums(s * s), _INSIDE * a * a)
    nx, nz = np.sqrt(primal), np.sqrt(dual)
    gamma = np.sqrt((1 + np.maximum((tau * a - sums(s * v)) / (nx * nz), 1.0)) / 2)
    w1 = (v / each(nx) + s / each(nz)) / (2 * each(gamma))
    return _Scaling(nx / nz, (tau / nx + a / nz) / (2 * gamma), w1, dual)


def _longest(p: Array, dp: Array, q: Array, dq: Array, sums: _Over) -> Array:
    """The largest t (G,) for which  |q + t dq| <= p + t dp  in each cone."""
    c = np.maximum(p * p - sums(q * q), 0.0)
    b, a = p * dp - sums(q * dq), dp * dp - sums(dq * dq)
    below = np.sqrt(np.maximum(b * b - a * c, 0.0)) - b
    blocked = (below > 0) & (b * b - a * c >= 0) & ((a < 0) | (b < 0))
    return np.where(blocked, c / np.where(blocked, below, 1.0), np.inf)
