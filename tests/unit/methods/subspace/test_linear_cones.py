"""The interior point method on kinks of single weights, against the one on norms of groups of one weight each."""

import numpy as np
import pytest

from plait.methods.subspace.cones import Norms
from plait.methods.subspace.linear_cones import KinkCones, Walls

D, TARGET = 7, 0.2


@pytest.fixture
def points() -> tuple[KinkCones, Norms, np.ndarray]:
    """The same points inside the same cones, off the central path, and weights u to go to."""
    rng = np.random.default_rng(3)
    a, unit = rng.uniform(0.5, 2, D), rng.uniform(0.1, 1, D)
    s, v = a * rng.uniform(-0.99, 0.99, D), rng.standard_normal(D)
    tau = np.abs(v) * rng.uniform(1.01, 3, D)
    kinks = KinkCones(np.array([tau - v, tau + v, a + s, a - s]), unit, TARGET)
    return kinks, Norms(a, unit, np.arange(D), s, tau, v, TARGET), 3 * rng.standard_normal(D)


def test_a_weight_of_its_own_has_the_parabola_of_a_group_of_one(points: tuple[KinkCones, Norms, np.ndarray]) -> None:
    kinks, norms, u = points
    np.testing.assert_allclose(kinks.bend.h + kinks.bend.weight * u, norms.bend.h + norms.bend.bent(u), rtol=1e-9)
    np.testing.assert_allclose(kinks.gaps, norms.gaps, rtol=1e-12)


def test_a_weight_of_its_own_moves_as_a_group_of_one(points: tuple[KinkCones, Norms, np.ndarray]) -> None:
    kinks, norms, u = points
    one, other = kinks.change(u), norms.change(u)
    np.testing.assert_allclose((one[1] - one[0]) / 2, other.v, rtol=1e-9)
    np.testing.assert_allclose((one[0] + one[1]) / 2, other.tau, rtol=1e-9)
    np.testing.assert_allclose((one[2] - one[3]) / 2, other.s, rtol=1e-9)
    np.testing.assert_allclose(kinks.room(one), norms.room(other), rtol=1e-9)


def test_whole_steps_to_the_same_weights_end_on_the_central_path(points: tuple[KinkCones, Norms, np.ndarray]) -> None:
    kinks, _, u = points
    for _ in range(60):
        change = kinks.change(u)
        kinks = kinks.stepped(change, np.minimum(1.0, 0.9 * kinks.room(change)))
    p, q, left, right = kinks.points
    np.testing.assert_allclose(p * left, TARGET * kinks.unit, rtol=1e-9)
    np.testing.assert_allclose(q * right, TARGET * kinks.unit, rtol=1e-9)
    np.testing.assert_allclose((q - p) / 2, u, rtol=1e-9)


def test_walls_end_at_the_distance_of_the_weights() -> None:
    on, place = np.array([0, 2]), np.array([-1.0, 0.5])
    walls = Walls(4, on, place, 1.0, np.array([[0.3, 2.0], [1.0, 0.1]]), np.ones(2), 0.05)
    u = np.array([0.5, 9.0, 0.75, -9.0])
    for _ in range(60):
        change = walls.change(u)
        walls = walls.stepped(change, np.minimum(1.0, 0.9 * walls.room(change)))
    np.testing.assert_allclose(walls.points[0], [1.5, 0.25], rtol=1e-9)
    np.testing.assert_allclose(walls.points[1], 0.05 / np.array([1.5, 0.25]), rtol=1e-9)
    slope = walls.bend.h + walls.bend.weight * u
    np.testing.assert_allclose(slope, [-0.05 / 1.5, 0.0, -0.2, 0.0], rtol=1e-9, atol=1e-12)
