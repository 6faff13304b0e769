"""A coordinator's long vectors are worked on in parts: the same numbers as of the whole."""

import numpy as np
import pytest

from plait.methods.base import Task
from plait.methods.subspace.span import Point, weighted_gram
from plait.problem.losses import Hinge, Logistic, Loss
from plait.problem.losses.envelope import Envelope

ROWS = (1 << 20) + 7  # one more part than vectors of 2^20 rows have


def losses() -> list[Loss]:
    shift = np.random.default_rng(3).standard_normal(ROWS) / 10
    return [Logistic(), Envelope(Hinge(), 2.0, shift)]


@pytest.mark.parametrize("loss", losses(), ids=["logistic", "envelope"])
def test_a_point_of_many_rows_is_that_of_all_rows_at_once(loss: Loss) -> None:
    rng = np.random.default_rng(0)
    z, y, w = rng.standard_normal(ROWS), np.sign(rng.standard_normal(ROWS)), rng.random(ROWS)
    task = Task(loss, y, w / w.sum(), ("a",))
    value, gradient, h = loss.derivatives(z, y)
    least = 0.0 if h.min() > 0 else 1e-4 * h.max()
    found = Point.at(task, z)
    assert found.gradient.tobytes() == (task.weights * gradient).tobytes()
    assert found.curvature.tobytes() == (task.weights * np.maximum(h, least)).tobytes()
    assert found.value == pytest.approx(float(np.sum(task.weights * value)), rel=1e-12)
    assert task.mean_loss(z) == pytest.approx(found.value, rel=1e-12)
    assert task.gradient(z) == pytest.approx(found.gradient, rel=1e-12)


def test_a_gram_matrix_of_long_vectors_is_the_weighted_product() -> None:
    rng = np.random.default_rng(1)
    v, w = rng.standard_normal((3, ROWS)), rng.random(ROWS)
    assert weighted_gram(v, 2.0, w) == pytest.approx(2 * (v * w) @ v.T, rel=1e-11)
