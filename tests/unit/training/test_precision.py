"""Vectors in shorter numbers: half or a quarter of the bytes, as many rounds, and the same optimum."""

import dataclasses

import numpy as np
import pytest
from scipy.optimize import minimize

import plait
from plait.errors import ProtocolError
from plait.messages import Broadcast, Message, Share
from plait.methods.base import Task
from plait.methods.subspace.images import Images
from plait.methods.subspace.point import Point
from plait.methods.subspace.span import minimise_over_span
from plait.training.precision import Line
from plait.transports import frames


def table() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((400, 12)) * np.geomspace(0.3, 3, 12)
    return x, np.where(x @ rng.standard_normal(12) + 2 * rng.standard_normal(400) > 0, 1.0, -1.0)


def objective(w: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean(np.log1p(np.exp(-y * (x @ w)))) + 1e-3 / 2 * w @ w)


METHODS = [plait.Subspace(), plait.Subspace(sums_only=True), plait.Proximal(), plait.GaussSeidel()]


@pytest.mark.parametrize("precision", ["float32", "int16"])
@pytest.mark.parametrize("method", METHODS, ids=str)
def test_reaches_the_optimum_in_as_many_rounds(method: plait.Method, precision: str) -> None:
    x, y = table()
    best = minimize(objective, np.zeros(12), (x, y), method="BFGS", options={"gtol": 1e-9}).fun
    parts = np.split(x, [3, 7], axis=1)
    fits = {}
    for each in ("float64", precision):
        stopping = plait.Stopping(max_rounds=300, tol=0, objective=best * (1 + 1e-6))
        fits[each] = plait.fit(
            parts, y, penalty=plait.L2(1e-3), method=method, stopping=stopping, precision=each, fit_intercept=False
        )
        found = objective(np.concatenate(fits[each].weights), x, y)
        assert found == pytest.approx(best, rel=2e-6)
    assert fits[precision].rounds <= fits["float64"].rounds + 1
    double, short = (fits[p].history[0] for p in ("float64", precision))
    assert short.numbers_up == double.numbers_up
    vectors = double.numbers_up // (400 * 3)
    saved, steps = {"float32": (4, 0), "int16": (6, 1)}[precision]
    assert double.bytes_up - short.bytes_up == 3 * vectors * (saved * 400 - 8 * steps)


LOSSES = {
    "poisson": (plait.Poisson(), lambda s: np.random.default_rng(1).poisson(np.exp(s / 4)).astype(float)),
    "huber": (plait.Huber(), lambda s: s + np.random.default_rng(2).standard_t(2, s.size)),
    "squared": (plait.Squared(), lambda s: 1e6 + 1e3 * s + np.random.default_rng(3).standard_normal(s.size)),
    "cauchy": (plait.Cauchy(), lambda s: s + np.random.default_rng(4).standard_t(2, s.size)),
    "hinge": (plait.Hinge(), lambda s: np.where(s + 2 * np.random.default_rng(5).logistic(size=s.size) > 0, 1.0, -1.0)),
}


@pytest.mark.parametrize("case", LOSSES)
def test_rounding_is_never_taken_for_a_way_down(case: str) -> None:
    """Few rows, heavy tails: following the rounding of vectors that cancel would cost 1e-5 to 1e-3 here."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3000, 20)) * np.geomspace(0.1, 10, 20)
    loss, make = LOSSES[case]
    y = make(x @ (rng.standard_normal(20) / np.geomspace(0.1, 10, 20)))
    parts = np.split(x, [4, 11], axis=1)
    penalty = plait.L1(1e-2) if case == "huber" else plait.L2(1e-3)
    reached = {}
    for precision in ("float64", "int16"):
        fit = plait.fit(parts, y, loss=loss, penalty=penalty, fit_intercept=True, precision=precision)
        assert fit.converged
        assert fit.certified or not loss.convex
        scores = sum(p @ w for p, w in zip(parts, fit.weights, strict=True)) + fit.intercept
        reached[precision] = float(np.mean(loss.value(scores, loss.labels(y)))) + sum(map(penalty.value, fit.weights))
        assert fit.objective == pytest.approx(reached[precision], rel=1e-6 if case == "hinge" else 2e-7)
        assert fit.rounds <= (16 if precision == "float64" else 30)
    assert reached["int16"] == pytest.approx(reached["float64"], rel=1e-6)


def test_directions_that_are_mere_rounding_are_left_alone() -> None:
    rng = np.random.default_rng(7)
    rows = 500
    v, step = rng.standard_normal(rows), 1e-4
    basis = np.stack([v + rng.uniform(-step / 2, step / 2, rows) for _ in range(3)])  # one direction, rounded thrice
    task = Task(plait.Logistic(), rng.choice([-1.0, 1.0], rows), np.full(rows, 1 / rows), ("a",))
    start, none = Point.at(task, np.zeros(rows)), np.zeros((3, 3))
    followed = minimise_over_span(task, start, Images(tuple(basis), rows), np.zeros(3), none)
    left = minimise_over_span(
        task, start, Images(tuple(basis), rows), np.zeros(3), none, noise=np.eye(3) * step**2 / 12
    )
    alone = minimise_over_span(task, start, Images((v,), rows), np.zeros(1), none[:1, :1])
    assert followed.value < alone.value * (1 - 1e-3), "the rounding of 500 numbers explains some labels"
    assert left.value == pytest.approx(alone.value, rel=1e-6)
    assert np.abs(left.coefficients).max() < 1 < np.abs(followed.coefficients).max()


def test_numbers_cross_the_wire_as_they_were_rounded() -> None:
    values = np.random.default_rng(6).standard_normal(300_000)
    for precision, size in (("float32", 4), ("int16", 2)):
        for message, kind in (
            (Share(3, values), frames.Kind.SHARE),
            (Broadcast(3, values, np.array([7.0]), closing=True), frames.Kind.BROADCAST),
        ):
            here = there = Line(precision)
            for changed in (message, dataclasses.replace(message, vector=values + 1e-3 * np.sin(values))):
                here, sent = here.say(changed)
                packed = list(frames.frames(sent, 9))
                assert sum(map(len, packed)) < size * values.size + 1000
                assembler = frames.Assembler(kind, values.size)
                *parts, done = [assembler.add(frames.unpack(frame)) for frame in packed]
                assert parts == [None] * len(parts)
                assert done is not None
                got: Message = done.message
                assert (got.step, got.change, got.round) == (sent.step, sent.change, 3)
                np.testing.assert_array_equal(got.scalars, message.scalars)
                np.testing.assert_array_equal(got.vector, sent.vector)
                assert got.digest == sent.digest
                assert got.bytes == sent.bytes
                there, read = there.hear(got)
                assert read.vector is not None
                assert read.vector.dtype == np.float64
                np.testing.assert_allclose(read.vector, changed.vector, rtol=1e-6, atol=2e-4)
                if precision == "int16":
                    np.testing.assert_array_equal(there.heard, here.said)
            assert sent.change == (precision == "int16")


def test_a_run_that_goes_on_after_its_end_does_so_in_single_precision() -> None:
    """The answer to the request that closes it still comes in steps, as a change to the vector before."""
    rng = np.random.default_rng(9)
    vectors = rng.standard_normal(100) + 1e-3 * rng.standard_normal((3, 100))
    here = there = Line("int16")
    for k, vector in enumerate(vectors):
        here, sent = here.say(Share(k, vector))
        if k == 1:
            here, there = here.finer(), there.finer()  # the coordinator's end turns before it hears the answer
        there, read = there.hear(sent)
        assert sent.vector is not None
        assert sent.vector.dtype == (np.int16 if k < 2 else np.float32)
        assert sent.change == (k == 1)
        np.testing.assert_allclose(read.vector, vector, rtol=1e-6, atol=2e-4 if k < 2 else 1e-9)
    assert (here.said, there.heard) == (None, None), "changes come no more"
    assert Line("float64").finer() == Line("float64")


def test_what_rounding_leaves_out_is_sent_later() -> None:
    rng = np.random.default_rng(8)
    goal, away = rng.standard_normal(1000), rng.standard_normal(1000)
    here = there = Line("int16")
    for k in range(12):
        vector = goal + 0.3**k * away
        here, sent = here.say(Share(k, vector))
        there, read = there.hear(sent)
        assert sent.step is not None
        assert np.abs(read.vector - vector).max() <= sent.step * 0.501
    assert sent.change
    assert np.abs(read.vector - goal).max() < 1e-5
    assert sent.step < 1e-9, "as the vectors settle, the steps shrink"


@pytest.mark.parametrize(
    "vector",
    [np.zeros(3), np.empty(0), np.array([5e-324, 0.0, -5e-324]), np.array([1.7e308, -1.7e308, 1.0]), np.ones(1)],
    ids=["zero", "empty", "tiny", "huge", "one"],
)
def test_extreme_vectors_travel(vector: np.ndarray) -> None:
    here = there = Line("int16")
    for each in (vector, -vector, vector):
        here, sent = here.say(Share(1, each))
        there, read = there.hear(sent)
        assert read.vector is not None
        assert np.abs(read.vector - each).max(initial=0.0) <= max(1e-4 * np.abs(each).max(initial=0.0), 1e-300)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_not_finite_travel_as_they_are(bad: float) -> None:
    _, sent = Line("int16").say(Share(1, np.array([1.0, bad])))
    assert sent.step is None
    np.testing.assert_array_equal(sent.vector, [1.0, bad])


@pytest.mark.parametrize("before", [None, np.zeros(4)], ids=["nothing", "another length"])
def test_a_change_to_nothing_is_refused(before: np.ndarray | None) -> None:
    change = Share(2, np.ones(3, np.int16), step=0.5, change=True)  # type: ignore[arg-type]
    with pytest.raises(ProtocolError, match="must follow the vector that it changes"):
        Line("int16", heard=before).hear(change)


@pytest.mark.parametrize("precision", ["float32", "int16"])
def test_a_private_run_is_never_rounded(precision: str) -> None:
    x, y = table()
    with pytest.raises(plait.PlaitError, match=f'precision = "{precision}" would round what the ledger'):
        plait.fit([x / 20], y, precision=precision, privacy=plait.privacy.Recommended(epsilon=1.0))


def test_a_precision_that_there_is_not_is_refused() -> None:
    x, y = table()
    with pytest.raises(plait.PlaitError, match=r"precision must be one of float64, float32, int16\. Found 'float16'"):
        plait.fit([x], y, precision="float16")
