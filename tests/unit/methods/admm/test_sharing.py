"""Jacobi and GaussSeidel against literal transcriptions of the paper, in the paper's own units."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar

import plait
from plait.data.parts import read_parts
from plait.problem.penalties import Penalty

N, WIDTHS, LAMBDA = 30, (3, 2, 4), 0.05
RHO = 0.7  # plait's units: the paper's rho is RHO / N


def tables() -> tuple[list[np.ndarray], np.ndarray]:
    rng = np.random.default_rng(31)
    parts = [rng.standard_normal((N, w)) for w in WIDTHS]
    truth = sum(d @ rng.standard_normal(d.shape[1]) for d in parts)
    return parts, np.where(truth + rng.standard_normal(N) > 0, 1.0, -1.0)


class Paper:
    """Algorithm 1 and its sequential form with two pulled vectors, sum_k D_k x_k - z and y; l is the mean loss."""

    def __init__(self, parts: list[np.ndarray], labels: np.ndarray, loss: str, penalty: str) -> None:
        self.parts, self.labels, self.loss, self.penalty = parts, labels, loss, penalty
        self.rho = RHO / N
        self.x = [np.zeros(d.shape[1]) for d in parts]
        self.z, self.y = np.zeros(N), np.zeros(N)

    def total(self) -> np.ndarray:
        return sum(d @ x for d, x in zip(self.parts, self.x, strict=True))

    def solve_x(self, m: int, others: np.ndarray, y: np.ndarray) -> np.ndarray:
        """argmin  lambda R(x) + <y, D x> + rho/2 ||others + D x||^2, others = sum over k != m of D_k x_k - z."""
        d, rho = self.parts[m], self.rho
        if self.penalty == "L2":
            return np.linalg.solve(LAMBDA * np.eye(d.shape[1]) + rho * d.T @ d, -d.T @ (y + rho * others))
        # |x| = p + n with p, n >= 0.
        width = d.shape[1]

        def cost(pn: np.ndarray) -> tuple[float, np.ndarray]:
            x = pn[:width] - pn[width:]
            r = others + d @ x
            g = d.T @ (y + rho * r)
            return LAMBDA * pn.sum() + y @ (d @ x) + rho / 2 * r @ r, np.concatenate([LAMBDA + g, LAMBDA - g])

        start = np.concatenate([np.maximum(self.x[m], 0), np.maximum(-self.x[m], 0)])
        found = minimize(
            cost, start, jac=True, bounds=[(0, None)] * (2 * width), options={"ftol": 1e-16, "gtol": 1e-13}
        )
        return self._polish(found.x[:width] - found.x[width:], d, others, y)

    def _polish(self, x: np.ndarray, d: np.ndarray, others: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The same minimiser to the last digit: a linear system on the weights that are not zero."""
        on = np.abs(x) > 1e-6
        sign = np.sign(x[on])
        out = np.zeros_like(x)
        a = d[:, on]
        out[on] = np.linalg.solve(self.rho * a.T @ a, -a.T @ (y + self.rho * others) - LAMBDA * sign)
        return out

    def solve_z(self, total: np.ndarray, y: np.ndarray) -> np.ndarray:
        """argmin  l(z) - <y, z> + rho/2 ||total - z||^2, one sample at a time."""
        if self.loss == "squared":
            return (self.labels / N + y + self.rho * total) / (1 / N + self.rho)

        def root(s: float, v: float, label: float) -> float:
            def cost(z: float) -> float:
                return np.logaddexp(0, -label * z) / N - v * z + self.rho / 2 * (s - z) ** 2

            z = minimize_scalar(cost, bracket=(s - 1, s + 1), options={"xtol": 1e-12}).x
            for _ in range(5):  # Newton
                p = 1 / (1 + np.exp(label * z))
                z -= (-label * p / N - v - self.rho * (s - z)) / (p * (1 - p) / N + self.rho)
            return float(z)

        return np.array([root(*args) for args in zip(total, y, self.labels, strict=True)])

    def jacobi(self) -> None:
        pulled, y = self.total() - self.z, self.y
        self.x = [self.solve_x(m, pulled - self.parts[m] @ self.x[m], y) for m in range(len(self.parts))]
        self.finish()

    def gauss_seidel(self) -> None:
        for m in range(len(self.parts)):
            others = sum(d @ x for k, (d, x) in enumerate(zip(self.parts, self.x, strict=True)) if k != m) - self.z
            self.x[m] = self.solve_x(m, others, self.y)
        self.finish()

    def finish(self) -> None:
        self.z = self.solve_z(self.total(), self.y)
        self.y = self.y + self.rho * (self.total() - self.z)

    def lyapunov(self) -> float:
        """The definition: squared norms of grad~_x L, of grad_z L and of the gap."""
        gap = self.total() - self.z
        value = 0.0
        for d, x in zip(self.parts, self.x, strict=True):
            g = d.T @ (self.y + self.rho * gap)
            inner = x - g
            if self.penalty == "L2":
                prox = inner / (1 + LAMBDA)
            else:
                prox = np.sign(inner) * np.maximum(np.abs(inner) - LAMBDA, 0)
            value += float(np.sum((x - prox) ** 2))
        if self.loss == "squared":
            slope = (self.z - self.labels) / N
        else:
            slope = -self.labels / (1 + np.exp(self.labels * self.z)) / N
        grad_z = slope - self.y - self.rho * gap
        return value + float(grad_z @ grad_z) + float(gap @ gap)

    def objective(self) -> float:
        s = self.total()
        loss = (s - self.labels) ** 2 / 2 if self.loss == "squared" else np.logaddexp(0, -self.labels * s)
        x = np.concatenate(self.x)
        return float(loss.mean() + (LAMBDA / 2 * x @ x if self.penalty == "L2" else LAMBDA * np.abs(x).sum()))


@pytest.mark.parametrize("penalty", ["L2", "L1"])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize(
    ("method", "step"), [(plait.Jacobi(rho=RHO), Paper.jacobi), (plait.GaussSeidel(rho=RHO), Paper.gauss_seidel)]
)
def test_first_iterates_are_the_papers(
    method: plait.Method, step: Callable[[Paper], None], loss: str, penalty: str
) -> None:
    parts, labels = tables()
    paper = Paper(parts, labels, loss, penalty)
    chosen: Penalty = plait.L2(LAMBDA) if penalty == "L2" else plait.L1(LAMBDA)
    loss_object = plait.Squared() if loss == "squared" else plait.Logistic()
    for rounds in range(1, 7):
        step(paper)
        with pytest.warns(plait.ConvergenceWarning):
            fit = plait.fit(
                parts,
                labels,
                loss=loss_object,
                penalty=chosen,
                method=method,
                stopping=plait.Stopping(rounds, tol=0.0),
                fit_intercept=False,
            )
        for ours, theirs in zip(fit.weights, paper.x, strict=True):
            assert ours == pytest.approx(theirs, abs=1e-10)
        last = fit.history[-1]
        assert last.round == rounds
        assert last.objective == pytest.approx(paper.objective(), rel=1e-10)
        assert last.lyapunov == pytest.approx(paper.lyapunov(), rel=1e-8, abs=1e-16)
        gap = paper.total() - paper.z
        assert last.primal > 0
        assert (last.primal < 1e-12) == (np.linalg.norm(gap) < 1e-12)


def test_every_lyapunov_value_in_the_history_is_the_definition() -> None:
    parts, labels = tables()
    paper = Paper(parts, labels, "logistic", "L1")
    start = paper.lyapunov()
    with pytest.warns(plait.ConvergenceWarning):
        fit = plait.fit(
            parts,
            labels,
            penalty=plait.L1(LAMBDA),
            method=plait.Jacobi(rho=RHO),
            stopping=plait.Stopping(8, tol=0.0),
            fit_intercept=False,
        )
    assert fit.history.start.lyapunov == pytest.approx(start, rel=1e-12)
    for record in fit.history:
        paper.jacobi()
        assert record.lyapunov == pytest.approx(paper.lyapunov(), rel=1e-7, abs=1e-16)
        assert record.objective == pytest.approx(paper.objective(), rel=1e-10)


def test_proximal_without_extras_and_one_party_is_the_papers_algorithm() -> None:
    parts, labels = tables()
    one = [np.hstack(parts)]
    plain = plait.Proximal(rho=RHO, adaptive=False, acceleration=0)
    with pytest.warns(plait.ConvergenceWarning):
        a = plait.fit(
            one,
            labels,
            penalty=plait.L2(LAMBDA),
            method=plain,
            stopping=plait.Stopping(5, tol=0.0),
            fit_intercept=False,
        )
    with pytest.warns(plait.ConvergenceWarning):
        b = plait.fit(
            one,
            labels,
            penalty=plait.L2(LAMBDA),
            method=plait.Jacobi(rho=RHO),
            stopping=plait.Stopping(5, tol=0.0),
            fit_intercept=False,
        )
    assert a.weights[0] == pytest.approx(b.weights[0], abs=1e-14)


@pytest.mark.parametrize(
    "make",
    [
        lambda: plait.Jacobi(rho=0.0),
        lambda: plait.Jacobi(rho=-1.0),
        lambda: plait.Proximal(rho=np.nan),
        lambda: plait.Proximal(tau=-0.5),
        lambda: plait.Proximal(acceleration=-1),
        lambda: plait.GaussSeidel(rho=np.inf),
    ],
)
def test_impossible_options_are_refused(make: Callable[[], plait.Method]) -> None:
    with pytest.raises(plait.SettingError, match="Found"):
        make()


@pytest.mark.parametrize(
    "method", [plait.Proximal(), plait.GaussSeidel(), plait.Proximal(acceleration=0, adaptive=False)]
)
def test_every_safe_method_reaches_the_same_optimum(method: plait.Method) -> None:
    parts, labels = tables()
    stopping = plait.Stopping(max_rounds=3000, tol=1e-9)
    reference = plait.fit([np.hstack(parts)], labels, penalty=plait.L2(LAMBDA), stopping=stopping, fit_intercept=False)
    fit = plait.fit(parts, labels, penalty=plait.L2(LAMBDA), method=method, stopping=stopping, fit_intercept=False)
    assert fit.objective == pytest.approx(reference.objective, rel=1e-10)


@pytest.mark.parametrize("rho", [1e-2, 0.1, 1.0, 10.0, 100.0])
def test_proximal_converges_for_every_rho(rho: float) -> None:
    parts, labels = tables()
    fit = plait.fit(
        parts,
        labels,
        penalty=plait.L1(0.01),
        method=plait.Proximal(rho=rho),
        stopping=plait.Stopping(max_rounds=3000, tol=1e-8),
        fit_intercept=False,
    )
    best = plait.fit(
        [np.hstack(parts)], labels, penalty=plait.L1(0.01), stopping=plait.Stopping(3000, tol=1e-9), fit_intercept=False
    )
    assert fit.objective == pytest.approx(best.objective, rel=1e-8)


def test_an_unguarded_run_goes_wherever_it_goes() -> None:
    method, rule = plait.Jacobi(rho=2.0), plait.Stopping(max_rounds=40, tol=0, guarded=False)
    with pytest.warns(plait.ConvergenceWarning):
        fit = plait.fit(
            [np.ones((2, 1))] * 3,
            [1.0, 2.0],
            loss=plait.Squared(),
            penalty=plait.L2(0.1),
            method=method,
            stopping=rule,
            fit_intercept=False,
        )
    assert fit.rounds == 40
    assert fit.objective > 1e3 * fit.history[0].objective


@pytest.mark.filterwarnings("ignore::plait.ConvergenceWarning")
def test_runs_on_the_same_parts_share_their_factorisation() -> None:
    rng = np.random.default_rng(0)
    parts = read_parts([rng.normal(size=(30, 4)), rng.normal(size=(30, 3))])
    y = np.sign(rng.normal(size=30))
    method, rule = plait.Jacobi(rho=0.5), plait.Stopping(max_rounds=5, tol=0)
    first = plait.fit({p.name: p for p in parts}, y, method=method, stopping=rule, fit_intercept=False)
    factor = parts[0].features.gram_eigen
    again = plait.fit({p.name: p for p in parts}, y, method=method, stopping=rule, fit_intercept=False)
    fresh = plait.fit({p.name: p.matrix for p in parts}, y, method=method, stopping=rule, fit_intercept=False)
    assert parts[0].features.gram_eigen is factor
    for name, weights in first.weights.items():
        np.testing.assert_array_equal(weights, again.weights[name])
        np.testing.assert_array_equal(weights, fresh.weights[name])
