"""Vectors in single precision: half the bytes, as many rounds, and the same optimum."""

import numpy as np
import pytest
from scipy.optimize import minimize

import plait
from plait.messages import Broadcast, Share, rounded
from plait.transports import wire


def table() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((400, 12)) * np.geomspace(0.3, 3, 12)
    return x, np.where(x @ rng.standard_normal(12) + 2 * rng.standard_normal(400) > 0, 1.0, -1.0)


def objective(w: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean(np.log1p(np.exp(-y * (x @ w)))) + 1e-3 / 2 * w @ w)


METHODS = [plait.Subspace(), plait.Subspace(sums_only=True), plait.Proximal(), plait.GaussSeidel()]


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_reaches_the_optimum_in_as_many_rounds(method: plait.Method) -> None:
    x, y = table()
    best = minimize(objective, np.zeros(12), (x, y), method="BFGS", options={"gtol": 1e-9}).fun
    parts = np.split(x, [3, 7], axis=1)
    fits = {}
    for precision in ("float64", "float32"):
        stopping = plait.Stopping(max_rounds=300, tol=0, objective=best * (1 + 1e-6))
        fits[precision] = plait.fit(parts, y, penalty=plait.L2(1e-3), method=method, stopping=stopping, wire=precision)
        found = objective(np.concatenate(fits[precision].weights), x, y)
        assert found == pytest.approx(best, rel=2e-6)
    assert fits["float32"].rounds <= fits["float64"].rounds + 1
    double, single = (fits[p].history[0] for p in ("float64", "float32"))
    assert single.numbers_up == double.numbers_up
    vector = 400 * 3
    assert double.bytes_up - single.bytes_up == 4 * vector * (double.bytes_up // (8 * vector))


def test_numbers_cross_the_wire_as_they_were_rounded() -> None:
    values = np.random.default_rng(6).standard_normal(300_000)
    for message, kind in (
        (Share(3, values), wire.Kind.SHARE),
        (Broadcast(3, values, closing=True), wire.Kind.BROADCAST),
    ):
        sent = rounded(message)
        frames = list(wire.frames(sent, 9))
        assert sum(map(len, frames)) < 4 * values.size + 1000
        assembler = wire.Assembler(kind, values.size)
        *parts, done = [assembler.add(wire.unpack(frame)) for frame in frames]
        assert parts == [None] * len(parts)
        assert done is not None
        assert done.message.single
        np.testing.assert_array_equal(done.message.vector, values.astype(np.float32))
        assert done.message.digest == sent.digest
        assert done.message.bytes == sent.bytes == 4 * values.size


def test_a_precision_that_there_is_not_is_refused() -> None:
    x, y = table()
    with pytest.raises(plait.PlaitError, match=r"wire must be one of float64, float32\. Found 'float16'"):
        plait.fit([x], y, wire="float16")
