"""A primal-dual interior point method on the norms and walls of one party's penalty, in a step's coordinates u (d,).

Each norm, wall or ball is a cone: a primal point (tau, v) inside it, a dual point (a, -s) inside it, and for v = u

    norm    a ||u||        a is its strength; s its slope, |s| < a; tau > |v|
    ball    ||u|| <= r     tau is r; s its slope, |s| < a, and a is free
    wall    u >= place     v > 0 is the distance, and the multiplier is positive

At a target mu Newton's method with the scaling of Nesterov and Todd makes the slope at the next u linear in u,

    s(u) = h + H u,

which is the parabola that the coordinator gets.  Once it has chosen u, the points move towards where Newton puts them,
as far as they stay inside.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from plait._replace import replace
from plait._types import Array

_Over = Callable[[Array], Array]
_INSIDE = 1e-30  # of squares: what rounding must leave between a point and the surface of its cone


@dataclass(frozen=True)
class KinkParabola:
    """The slope h + H u (d,) of kinks that are rounded off:  H = diag(weight) + sign r r^T, group by group."""

    h: Array
    weight: Array
    rank_one: Array
    """r (d,)."""
    sign: float
    member: npt.NDArray[np.intp] | None
    """The group of each weight (d,); None where every weight is its own."""

    def bent(self, v: Array) -> Array:
        """H v, (d,)."""
        along = self.rank_one * v
        if self.member is not None:
            along = np.asarray(np.bincount(self.member, weights=along)[self.member], dtype=np.float64)
        return np.asarray(self.weight * v + self.sign * self.rank_one * along)

    def gram(self, rows: Array) -> Array:
        """rows H rows^T (k, k) for rows (k, d)."""
        if self.member is None:
            return np.asarray((rows * (self.weight + self.sign * self.rank_one**2)) @ rows.T)
        if self.member.max(initial=0) == 0:
            along = (rows @ self.rank_one)[:, None]
        else:
            along = np.zeros((len(rows), int(self.member.max()) + 1))
            np.add.at(along.T, self.member, (rows * self.rank_one).T)
        return np.asarray((rows * self.weight) @ rows.T + self.sign * (along @ along.T))


@dataclass(frozen=True)
class Move:
    """How much of a step keeps both points inside, and the cone after a part of it."""

    room: float
    taken: Callable[[float], "Cone"]


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
    """Norms of groups of weights, or of single ones: a (G,), unit (G,) of mu; s (d,), tau (G,), v (d,)."""

    a: Array
    unit: Array
    member: npt.NDArray[np.intp] | None
    s: Array
    tau: Array
    v: Array

    @staticmethod
    def at(a: Array, unit: Array, member: npt.NDArray[np.intp] | None, s: Array, mu: Array) -> "Norms":
        """On the central path where the slopes are s (d,), inside."""
        found = Norms(a, unit, member, s, a, s)
        room = np.maximum(a * a - found.sums(s * s), _INSIDE * a * a)
        return replace(found, tau=mu * a / room, v=found.each(mu / room) * s)

    def sums(self, v: Array) -> Array:
        """Of each group, (G,)."""
        if self.member is None:
            return v
        return np.asarray(np.bincount(self.member, weights=v, minlength=self.a.size), dtype=np.float64)

    def each(self, v: Array) -> Array:
        """Of each weight's group, (d,)."""
        return v if self.member is None else v[self.member]

    @property
    def gap(self) -> Array:
        """x^T z in units, (G,)."""
        return np.asarray((self.a * self.tau - self.sums(self.s * self.v)) / self.unit)

    def _scaling(self) -> _Scaling:
        return _scaled(self.tau, self.v, self.a, self.s, self.sums, self.each)

    def parabola(self, target: float) -> KinkParabola:
        w = self._scaling()
        size = 1 / self.each(w.eta)
        flat = self.each(np.sqrt(2 / (1 + 2 * self.sums(w.w1 * w.w1)) / w.eta)) * w.w1
        found = KinkParabola(self.s, size, flat, -1.0, self.member)
        return replace(found, h=self.s - found.bent(self.each(target * self.unit / w.room) * self.s))

    def newton(self, u: Array, target: float) -> Move:
        """The step that Newton's method wants, given u (d,)."""
        change = self._moved(u, target)
        return Move(self._room(change), lambda part: self._stepped(change, part))

    def _moved(self, u: Array, target: float) -> "Norms":
        """The changes of s, tau and v that Newton's method wants for the step to u (d,)."""
        w, p = self._scaling(), self.parabola(target)
        ds = p.h + p.bent(u) - self.s
        tau = target * self.unit * self.a / w.room + 2 * w.eta * w.w0 * self.sums(w.w1 * ds)
        return replace(self, s=ds, tau=tau - self.tau, v=u - self.v)

    def _room(self, change: "Norms") -> float:
        """How much of the change keeps both points inside."""
        return min(
            _longest(self.tau, change.tau, self.v, change.v, self.sums),
            _longest(self.a, np.zeros_like(self.a), self.s, change.s, self.sums),
        )

    def _stepped(self, change: "Norms", part: float) -> "Norms":
        return replace(self, s=self.s + part * change.s, tau=self.tau + part * change.tau, v=self.v + part * change.v)


@dataclass(frozen=True)
class RoundWall:
    """|u| <= radius; unit of mu; s (d,), a, v (d,)."""

    radius: float
    unit: float
    s: Array
    a: float
    v: Array

    @staticmethod
    def at(radius: float, unit: float, v: Array, mu: float) -> "RoundWall":
        """On the central path at v (d,), inside."""
        room = radius**2 - float(v @ v)
        return RoundWall(radius, unit, mu / room * v, mu * radius / room, v)

    @property
    def gap(self) -> Array:
        return np.array([(self.radius * self.a - float(self.s @ self.v)) / self.unit])

    def _scaling(self) -> _Scaling:
        return _scaled(np.full(1, self.radius), self.v, np.full(1, self.a), self.s, _total, _spread)

    def _centre(self, w: _Scaling, target: float) -> tuple[Array, float]:
        """Where the slope stays as it is (d,), and by how much the dual's head lacks of its target."""
        mu = target * self.unit / float(w.room[0])
        lacks = mu * self.a - self.radius
        pull = 2 * float(w.w0[0]) / (2 * float(w.w0[0]) ** 2 - 1)
        return mu * self.s - pull * lacks * w.w1, lacks

    def parabola(self, target: float) -> KinkParabola:
        w = self._scaling()
        size = np.full(self.s.size, 1 / float(w.eta[0]))
        steep = np.sqrt(2 / float(w.eta[0])) * w.w1
        found = KinkParabola(self.s, size, steep, 1.0, np.zeros(self.s.size, dtype=np.intp))
        return replace(found, h=self.s - found.bent(self._centre(w, target)[0]))

    def newton(self, u: Array, target: float) -> Move:
        """The step that Newton's method wants, given u (d,)."""
        change = self._moved(u, target)
        return Move(self._room(change), lambda part: self._stepped(change, part))

    def _moved(self, u: Array, target: float) -> "RoundWall":
        w, p = self._scaling(), self.parabola(target)
        ds = p.h + p.bent(u) - self.s
        eta, w0 = float(w.eta[0]), float(w.w0[0])
        head = self._centre(w, target)[1] + 2 * eta * w0 * float(w.w1 @ ds)
        return replace(self, s=ds, a=head / (eta * (2 * w0 * w0 - 1)), v=u - self.v)

    def _room(self, change: "RoundWall") -> float:
        one = np.ones(1)
        return min(
            _longest(self.radius * one, 0 * one, self.v, change.v, _total),
            _longest(self.a * one, change.a * one, self.s, change.s, _total),
        )

    def _stepped(self, change: "RoundWall", part: float) -> "RoundWall":
        return replace(self, s=self.s + part * change.s, a=self.a + part * change.a, v=self.v + part * change.v)


@dataclass(frozen=True)
class Walls:
    """side (u_j - place) >= 0, j = on (n,); unit (n,) of mu; the distance v (n,) and the multiplier a (n,)."""

    width: int
    on: npt.NDArray[np.intp]
    place: Array
    side: float
    unit: Array
    v: Array
    a: Array

    @property
    def gap(self) -> Array:
        return np.asarray(self.v * self.a / self.unit)

    def parabola(self, target: float) -> KinkParabola:
        h, weight = np.zeros(self.width), np.zeros(self.width)
        bend = self.a / self.v
        weight[self.on] = bend
        h[self.on] = -self.side * (self.a + target * self.unit / self.v) - bend * self.place
        return KinkParabola(h, weight, np.zeros(self.width), 1.0, None)

    def newton(self, u: Array, target: float) -> Move:
        """The step that Newton's method wants, given u (d,)."""
        change = self._moved(u, target)
        return Move(self._room(change), lambda part: self._stepped(change, part))

    def _moved(self, u: Array, target: float) -> "Walls":
        far = self.side * (u[self.on] - self.place)
        return replace(self, v=far - self.v, a=(target * self.unit - self.a * far) / self.v)

    def _room(self, change: "Walls") -> float:
        return min(_until_zero(self.v, change.v), _until_zero(self.a, change.a))

    def _stepped(self, change: "Walls", part: float) -> "Walls":
        return replace(self, v=self.v + part * change.v, a=self.a + part * change.a)


Cone = Norms | RoundWall | Walls


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


def _longest(p: Array, dp: Array, q: Array, dq: Array, sums: _Over) -> float:
    """The largest t for which  |q + t dq| <= p + t dp  in every cone."""
    c = np.maximum(p * p - sums(q * q), 0.0)
    b, a = p * dp - sums(q * dq), dp * dp - sums(dq * dq)
    below = np.sqrt(np.maximum(b * b - a * c, 0.0)) - b
    blocked = (below > 0) & (b * b - a * c >= 0) & ((a < 0) | (b < 0))
    return float(np.min(c[blocked] / below[blocked], initial=np.inf))


def _until_zero(v: Array, dv: Array) -> float:
    falls = dv < 0
    return float(np.min(v[falls] / -dv[falls], initial=np.inf))
