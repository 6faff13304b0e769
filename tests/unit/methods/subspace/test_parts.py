"""A coordinator's long vectors are worked on in parts: the same numbers as of the whole."""

import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import plait
from plait._mapped_files import Workspace
from plait.data.parts import read_parts
from plait.methods.base import Block, Method, Task
from plait.methods.subspace.images import Images
from plait.methods.subspace.point import Point
from plait.privacy.policy import Policy
from plait.problem import row_blocks
from plait.problem.features import Features
from plait.problem.losses import Hinge, Logistic, Loss, Poisson
from plait.problem.losses.envelope import Envelope
from plait.problem.penalties import Penalty
from plait.training.assembly import RunSpec
from plait.training.session import Session

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


@pytest.mark.parametrize("rows", [50, ROWS])
def test_a_row_of_weight_0_bends_the_loss_of_no_other(rows: int) -> None:
    """Its curvature of 1e260 was a measure for the least that a flat row counts."""
    z, y, w = np.linspace(-800.0, 2.0, rows), np.ones(rows), np.full(rows, 1 / rows)
    z[0], w[0] = 600.0, 0.0
    found = Point.at(Task(Poisson(), y, w, ("a",)), z)
    assert found.curvature.max() == pytest.approx(np.exp(2.0) / rows)
    assert found.curvature.min() == found.curvature[0] == 0


@pytest.mark.parametrize("rows", [50, ROWS])
@pytest.mark.parametrize("on_disk", [False, True])
def test_products_of_vectors_are_those_of_their_matrix_wherever_they_lie(
    rows: int, on_disk: bool, tmp_path: Path
) -> None:
    rng = np.random.default_rng(1)
    v, w, c = rng.standard_normal((3, rows)), rng.random(rows), rng.standard_normal(3)
    where = Workspace(on_disk, tmp_path)
    images = Images((), rows, where).and_these(where.kept(vector) for vector in v)
    assert images.gram(w) == pytest.approx((v * w) @ v.T, rel=1e-11)
    assert images.dot(w) == pytest.approx(v @ w, rel=1e-11)
    assert images.combined(c) == pytest.approx(c @ v, rel=1e-11)
    assert images.newest(2).dot(w) == pytest.approx(v[1:] @ w, rel=1e-11)
    assert images.picked(np.array([True, False, True])).dot(w) == pytest.approx(v[[0, 2]] @ w, rel=1e-11)
    assert not list(tmp_path.iterdir())


def test_no_vectors_combine_to_zero() -> None:
    none = Images((), ROWS)
    assert not none.combined(np.empty(0)).any()
    assert none.dot(np.ones(ROWS)).shape == (0,)
    assert none.gram(np.ones(ROWS)).shape == (0, 0)


@pytest.mark.parametrize(
    ("method", "loss", "penalty"),
    [
        (plait.Subspace(), Logistic(), plait.L2(1e-3)),
        (plait.Subspace(), Logistic(), plait.L1(1e-3)),
        (plait.Augmented(), Hinge(), plait.L2(1e-3)),
    ],
    ids=["l2", "l1", "kinks"],
)
def test_a_coordinator_with_its_vectors_in_files_finds_the_same_bits(
    method: Method, loss: Loss, penalty: Penalty, tmp_path: Path
) -> None:
    rng = np.random.default_rng(2)
    parts = {"a": rng.standard_normal((ROWS, 2)), "b": rng.standard_normal((ROWS, 1))}
    y = parts["a"][:, 0] - parts["b"][:, 0] + rng.logistic(size=ROWS) > 0
    tol = 1e-6 if loss.smooth else 1e-3

    def trained(where: Workspace) -> tuple[bytes, float, int]:
        policy = Policy.of(None)
        protections = policy.protections(tuple(parts), loss)
        spec = RunSpec(dict.fromkeys(parts, penalty), method, plait.Stopping(tol=tol), True, protections, policy)
        done = Session(spec, read_parts(parts), np.where(y, 1.0, -1.0), workspace=where).train()
        weights = b"".join(x.tobytes() for x in done.model.weights.values())
        return weights, done.model.intercept, len(done.outcome.history)

    assert trained(Workspace(True, tmp_path)) == trained(Workspace())


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Parts so short that what many cores work on at once is less than a vector."""
    monkeypatch.setattr(row_blocks, "_BLOCK_NUMBERS", 1 << 12)
    row_blocks.row_slices.cache_clear()
    yield
    row_blocks.row_slices.cache_clear()


@pytest.mark.parametrize(
    ("method", "loss"), [(plait.Subspace(), Logistic()), (plait.Augmented(), Hinge())], ids=["smooth", "kinks"]
)
def test_rounds_of_a_coordinator_with_its_vectors_in_files_take_no_vector_of_memory(
    method: Method, loss: Loss, tmp_path: Path, small_parts: None
) -> None:
    rows, where = 1 << 20, Workspace(True, tmp_path)
    y = where.kept(np.where(np.arange(rows) % 7 < 3, 1.0, -1.0))
    x = where.kept(np.random.default_rng(4).standard_normal(rows) + y)
    weights = np.broadcast_to(np.float64(1 / rows), (rows,))
    block = Block(Features(x[:, None]), plait.L2(1e-3), loss, weights, workspace=where)
    party, coordinator = method.party_side(block), method.coordinator_side(Task(loss, y, weights, ("a",), True, where))
    peaks, at, state = [], party.start(), coordinator.start()
    for _ in range(4):
        at, share = party.respond(at, coordinator.requests(state)["a"])
        share = replace(share, vector=where.kept(share.vector))
        tracemalloc.start()
        state, _ = coordinator.absorb(state, {"a": share})
        coordinator.requests(state)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert max(peaks) < 8 * rows, f"a vector takes {8 * rows}"
