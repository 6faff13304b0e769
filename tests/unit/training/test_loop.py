"""The loop: what is recorded, what is counted, who is told, and when a run ends."""

import time

import numpy as np
import pytest

import plait
from plait.methods.base import Measured
from plait.training.stopping import Stopping, Watch

N, M = 40, 3


@pytest.fixture(scope="module")
def problem() -> tuple[list[np.ndarray], np.ndarray]:
    rng = np.random.default_rng(41)
    parts = [rng.standard_normal((N, 4)) for _ in range(M)]
    score = sum(d @ rng.standard_normal(4) for d in parts)
    return parts, np.where(score + 2 * rng.standard_normal(N) > 0, 1, 0)


def run(problem: tuple[list[np.ndarray], np.ndarray], rounds: int = 6, **options: object) -> plait.Fit:
    options = {
        "penalty": plait.L2(0.1),
        "stopping": Stopping(max_rounds=rounds, tol=0.0),
        "fit_intercept": False,
        **options,
    }
    with pytest.warns(plait.ConvergenceWarning, match="before its tolerance was reached"):
        return plait.fit(*problem, **options)  # type: ignore[arg-type]


class TestTraffic:
    def test_jacobi_sends_one_vector_each_way_and_two_scalars(
        self, problem: tuple[list[np.ndarray], np.ndarray]
    ) -> None:
        history = run(problem, method=plait.Jacobi(rho=1.0)).history
        for record in history[:-1]:
            assert (record.numbers_down, record.numbers_up) == (M * (N + 2), M * (N + 2))
        # The last round also carries the final measurement: v again, and two scalars back.
        assert (history[-1].numbers_down, history[-1].numbers_up) == (2 * M * (N + 2), M * (N + 2) + 2 * M)
        for record in history:
            assert (record.bytes_down, record.bytes_up) == (8 * record.numbers_down, 8 * record.numbers_up)

    def test_proximal_adds_at_most_its_coefficients(self, problem: tuple[list[np.ndarray], np.ndarray]) -> None:
        history = run(problem, 9, method=plait.Proximal(acceleration=4)).history
        extra = [record.numbers_down - M * (N + 2) for record in history[:-1]]
        assert extra[0] == 0
        assert all(0 <= e <= 4 * M for e in extra)
        assert max(extra) > 0
        assert all(record.numbers_up == M * (N + 2) for record in history[:-1])

    def test_gauss_seidel_asks_one_after_another_and_then_all(
        self, problem: tuple[list[np.ndarray], np.ndarray]
    ) -> None:
        history = run(problem, method=plait.GaussSeidel(rho=1.0)).history
        for record in history:
            assert (record.numbers_down, record.numbers_up) == (2 * M * (N + 2), M * (N + 2) + 2 * M)


@pytest.mark.parametrize("method", [plait.Jacobi(rho=1.0), plait.Proximal(), plait.GaussSeidel(rho=1.0)])
class TestHistory:
    def test_callbacks_see_every_round_once_and_in_order(
        self, problem: tuple[list[np.ndarray], np.ndarray], method: plait.Method
    ) -> None:
        seen: list[plait.Round] = []
        fit = run(problem, method=method, callbacks=[seen.append])
        assert [record.round for record in seen] == [1, 2, 3, 4, 5, 6]
        assert tuple(seen) == tuple(fit.history)
        assert fit.rounds == len(fit.history) == 6
        assert not fit.converged

    def test_seconds_never_run_backwards(
        self, problem: tuple[list[np.ndarray], np.ndarray], method: plait.Method
    ) -> None:
        seconds = [record.seconds for record in run(problem, method=method).history]
        assert seconds == sorted(seconds)
        assert seconds[0] > 0

    def test_history_starts_at_zero_weights(
        self, problem: tuple[list[np.ndarray], np.ndarray], method: plait.Method
    ) -> None:
        assert run(problem, method=method).history.start.objective == pytest.approx(np.log(2))

    def test_last_record_describes_the_weights_that_are_returned(
        self, problem: tuple[list[np.ndarray], np.ndarray], method: plait.Method
    ) -> None:
        fit = run(problem, method=method, fit_intercept=True)
        parts, labels = problem
        scores = sum(d @ x for d, x in zip(parts, fit.weights, strict=True)) + fit.intercept
        penalty = sum(0.05 * x @ x for x in fit.weights)
        expected = np.mean(np.logaddexp(0, -(2 * labels - 1) * scores)) + penalty
        assert fit.history[-1].objective == pytest.approx(expected, rel=1e-12)
        assert fit.objective == fit.history[-1].objective
        assert fit.scores(parts) == pytest.approx(scores)

    def test_stops_at_the_lyapunov_value_that_was_asked_for(
        self, problem: tuple[list[np.ndarray], np.ndarray], method: plait.Method
    ) -> None:
        stopping = Stopping(max_rounds=1000, tol=0.0, lyapunov=1e-6)
        fit = plait.fit(*problem, penalty=plait.L2(0.1), method=method, stopping=stopping, fit_intercept=False)
        assert fit.converged
        assert "Lyapunov" in fit.reason
        values = [record.lyapunov for record in fit.history]
        assert min(values) <= 1e-6
        assert all(v > 1e-6 for v in values[:-2])
        assert [record.round for record in fit.history] == list(range(1, fit.rounds + 1))

    def test_time_limit_ends_between_rounds(
        self, problem: tuple[list[np.ndarray], np.ndarray], method: plait.Method
    ) -> None:
        fit = run(
            problem,
            method=method,
            stopping=Stopping(max_rounds=10**6, tol=0.0, max_seconds=0.05),
            callbacks=[lambda _: time.sleep(0.01)],
        )
        parts, labels = problem
        scores = sum(d @ x for d, x in zip(parts, fit.weights, strict=True))
        expected = np.mean(np.logaddexp(0, -(2 * labels - 1) * scores)) + sum(0.05 * x @ x for x in fit.weights)
        assert "max_seconds" in fit.reason
        assert fit.objective == pytest.approx(expected, rel=1e-12)


def test_time_limit_never_cuts_a_sequential_round_in_half(problem: tuple[list[np.ndarray], np.ndarray]) -> None:
    fit = run(problem, method=plait.GaussSeidel(rho=1.0), stopping=Stopping(max_rounds=50, tol=0.0, max_seconds=1e-9))
    assert fit.rounds == 1
    parts, labels = problem
    scores = sum(d @ x for d, x in zip(parts, fit.weights, strict=True))
    expected = np.mean(np.logaddexp(0, -(2 * labels - 1) * scores)) + sum(0.05 * x @ x for x in fit.weights)
    assert fit.objective == pytest.approx(expected, rel=1e-12)


def test_stops_at_the_objective_that_was_asked_for(problem: tuple[list[np.ndarray], np.ndarray]) -> None:
    fit = plait.fit(
        *problem, penalty=plait.L2(0.1), stopping=Stopping(max_rounds=500, tol=0.0, objective=0.6), fit_intercept=False
    )
    assert fit.converged
    assert fit.objective <= 0.6
    assert all(record.objective > 0.6 for record in fit.history[:-1])


def test_stops_when_both_residuals_reach_the_tolerance(problem: tuple[list[np.ndarray], np.ndarray]) -> None:
    stopping = Stopping(max_rounds=500, tol=1e-4)
    fit = plait.fit(*problem, penalty=plait.L2(0.1), method=plait.Proximal(), stopping=stopping, fit_intercept=False)
    assert fit.converged
    assert max(fit.history[-1].primal, fit.history[-1].dual) <= 1e-4
    assert all(max(record.primal, record.dual) > 1e-4 for record in fit.history[:-1])


def test_subspace_stops_one_round_after_the_tolerance(problem: tuple[list[np.ndarray], np.ndarray]) -> None:
    fit = plait.fit(*problem, penalty=plait.L2(0.1), stopping=Stopping(max_rounds=500, tol=1e-4), fit_intercept=False)
    assert fit.converged
    assert max(fit.history[-1].primal, fit.history[-1].dual) <= 1e-4
    assert all(record.dual > 1e-4 for record in fit.history[:-2])


def test_history_becomes_a_table(problem: tuple[list[np.ndarray], np.ndarray]) -> None:
    history = run(problem).history
    table = history.to_pandas()
    assert list(table["round"]) == [1, 2, 3, 4, 5, 6]
    assert table["objective"].to_numpy() == pytest.approx([record.objective for record in history])
    assert {"lyapunov", "primal", "dual", "rho", "seconds", "numbers_down", "bytes_up"} <= set(table.columns)


@pytest.mark.parametrize(
    "make", [lambda: Stopping(max_rounds=0), lambda: Stopping(tol=-1.0), lambda: Stopping(max_seconds=0.0)]
)
def test_impossible_limits_are_refused(make) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(plait.SettingError, match="Found"):
        make()


class TestDivergence:
    """Three of ten parties hold identical columns."""

    @staticmethod
    def identical() -> tuple[list[np.ndarray], np.ndarray]:
        rng = np.random.default_rng(43)
        parts = [rng.standard_normal((200, 3)) for _ in range(10)]
        parts[1] = parts[2] = parts[0]
        score = sum(d @ rng.standard_normal(3) for d in parts)
        return parts, np.where(score + 2 * rng.standard_normal(200) > 0, 1.0, -1.0)

    @pytest.mark.parametrize("rho", [1e-3, 1e-2, 0.1])
    def test_jacobi_is_noticed_within_twenty_rounds(self, rho: float) -> None:
        rounds: list[plait.Round] = []
        with pytest.raises(plait.DivergedError, match=r"diverged: after round \d+ .* Use method=plait.Proximal\(\)"):
            plait.fit(
                *self.identical(), penalty=plait.L2(1e-3), method=plait.Jacobi(rho=rho), callbacks=[rounds.append]
            )
        assert len(rounds) <= 20

    def test_a_short_diverging_run_returns_no_weights(self) -> None:
        with pytest.raises(plait.DivergedError):
            plait.fit(
                *self.identical(),
                penalty=plait.L2(1e-3),
                method=plait.Jacobi(rho=1e-2),
                stopping=Stopping(max_rounds=4),
            )

    @pytest.mark.parametrize("rho", [None, 1e-2, 0.1, 10.0])
    def test_proximal_converges_where_jacobi_does_not(self, rho: float | None) -> None:
        parts, labels = self.identical()
        stopping = Stopping(max_rounds=3000, tol=1e-8)
        fit = plait.fit(
            parts,
            labels,
            penalty=plait.L2(1e-3),
            method=plait.Proximal(rho=rho),
            stopping=stopping,
            fit_intercept=False,
        )
        pooled = plait.fit([np.hstack(parts)], labels, penalty=plait.L2(1e-3), stopping=stopping, fit_intercept=False)
        assert fit.converged
        assert fit.objective == pytest.approx(pooled.objective, rel=1e-8)
        assert fit.weights[0] == pytest.approx(fit.weights[1], abs=1e-4)

    def test_constraints_that_exclude_zero_are_no_divergence(self) -> None:
        rng = np.random.default_rng(44)
        d = np.abs(rng.standard_normal((50, 4)))
        labels = rng.standard_normal(50)
        fit = plait.fit(
            [d[:, :2], d[:, 2:]], labels, loss=plait.Squared(), penalty=plait.Box(2.0, 3.0), fit_intercept=False
        )
        assert np.concatenate(fit.weights) == pytest.approx(np.full(4, 2.0))
        assert fit.objective > fit.history.start.objective

    def test_numbers_that_overflow_are_noticed(self) -> None:
        watch = Watch(Measured(0, 1.0, np.inf, np.inf), "Do something else.")
        watch.look(Measured(1, 0.9, 1.0, 1.0))
        with pytest.raises(plait.DivergedError, match=r"no longer finite.*Do something else"):
            watch.look(Measured(2, np.nan, 1.0, 1.0))


def test_rank_deficient_and_badly_scaled_columns_converge() -> None:
    rng = np.random.default_rng(45)
    base = rng.standard_normal((150, 12))
    x = base * np.geomspace(1e-6, 1e6, 12)
    x = np.hstack([x, x[:, :4] + x[:, 4:8], base[:, :2]])
    labels = np.where(base @ rng.standard_normal(12) + 2 * rng.standard_normal(150) > 0, 1.0, -1.0)
    parts = np.array_split(x, 6, axis=1)
    for penalty, method in (
        (plait.L2(1e-3), "auto"),
        (plait.L2(1e-3), plait.Proximal()),
        (plait.L1(1e-3), plait.Proximal()),
    ):
        fit = plait.fit(
            parts,
            labels,
            penalty=penalty,
            method=method,
            stopping=Stopping(max_rounds=5000, tol=1e-7),
            fit_intercept=False,
        )
        pooled = plait.fit(
            [x], labels, penalty=penalty, stopping=Stopping(max_rounds=2000, tol=1e-9), fit_intercept=False
        )
        assert fit.objective == pytest.approx(pooled.objective, rel=1e-6)
