"""The paper's own experiments on one data set: two tuned methods, two baselines, and noise."""

from collections.abc import Callable, Sequence

import numpy as np
from sklearn.linear_model import LogisticRegression

from plait.data.datasets import gisette_origins
from plait.methods.admm.jacobi import Jacobi
from plait.methods.sgd import Sgd
from plait.methods.subspace.method import Subspace
from plait.privacy.clipping import row_norms
from plait.privacy.mechanisms.paper import RANK_TOLERANCE, PaperNoise
from plait.privacy.noise import InsecureTestNoise
from plait.privacy.policy import Policy
from reproduction.plans import Plan
from reproduction.records import Baselines, Difference, Facts, Holding, Noisy, Race, Trail, Tuning
from reproduction.subject import Subject, quietly, scores, side_by_side

Say = Callable[[str], None]


def describe(subject: Subject) -> Facts:
    """What is trained on, and what the paper's assumptions meet there."""
    data = subject.data
    holdings = []
    for name, part in subject.parts.items():
        values, norms = part.features.gram_eigen[0], row_norms(part.matrix)
        kept = values[values > RANK_TOLERANCE * values[-1]]
        extremes = (float(kept[0]), float(kept[-1]), float(norms.min()), float(norms.max()))
        holdings.append(Holding(name, part.matrix.shape[1], kept.size, *extremes))
    origins: tuple[tuple[str, tuple[int, ...]], ...] = ()
    if data.name == "gisette":
        ends = np.cumsum([h.columns for h in holdings])[:-1]
        cut = np.split(gisette_origins(), ends)
        origins = tuple(
            (h.party, tuple(np.bincount(c, minlength=4).tolist())) for h, c in zip(holdings, cut, strict=True)
        )
    return Facts(data.description, data.y.size, data.y_test.size, tuple(holdings), origins)


def race(subject: Subject, plan: Plan, say: Say) -> Race:
    """Tune both methods on grids of one size, then run the chosen settings and the subspace method."""
    admm = [(rho,) for rho in plan.rhos]
    sgd = [(step, decay) for step in plan.steps for decay in plan.decays]
    admm_grid = _tuned("ADMM sharing", admm, lambda v: subject.run(_jacobi(v), plan.tuning, _admm_words(v)), say)
    sgd_grid = _tuned("SGD", sgd, lambda v: subject.run(_sgd(plan, v), plan.tuning, _sgd_words(v)), say)
    best_admm, best_sgd = admm[admm_grid.chosen], sgd[sgd_grid.chosen]
    say(f"ADMM sharing, {_admm_words(best_admm)}, {plan.epochs} epochs")
    long_admm = subject.run(_jacobi(best_admm), plan.epochs, _admm_words(best_admm))
    say(f"SGD, {_sgd_words(best_sgd)}, {plan.epochs} epochs")
    long_sgd = subject.run(_sgd(plan, best_sgd), plan.epochs, _sgd_words(best_sgd))
    say(f"subspace, {plan.rounds} rounds")
    return Race(admm_grid, sgd_grid, long_admm, long_sgd, subject.run(Subspace(), plan.rounds, "no setting to tune"))


def _tuned(
    method: str, values: Sequence[tuple[float, ...]], run: Callable[[tuple[float, ...]], Trail], say: Say
) -> Tuning:
    trails = []
    for i, value in enumerate(values, 1):
        say(f"tuning {method}, setting {i} of {len(values)}")
        trails.append(run(value))
    return Tuning(method, tuple(values), tuple(trails))


def _jacobi(value: tuple[float, ...]) -> Jacobi:
    return Jacobi(rho=value[0])


def _sgd(plan: Plan, value: tuple[float, ...]) -> Sgd:
    return Sgd(step=value[0], decay=value[1], batch=plan.batch)


def _admm_words(value: tuple[float, ...]) -> str:
    return f"rho = {value[0]:g}"


def _sgd_words(value: tuple[float, ...]) -> str:
    return f"step = {value[0]:g}" + (f", decay = {value[1]:g}" if value[1] else "")


def baselines(subject: Subject, plan: Plan, say: Say) -> Baselines:
    """scikit-learn with its own settings, then stopped early, solved exactly, and with other penalties."""
    x, y = subject.pooled, subject.data.y
    first = slice(0, next(iter(subject.parts.values())).matrix.shape[1])

    def pooled(**options: object) -> LogisticRegression:
        say("scikit-learn, " + (", ".join(f"{k} = {v:g}" for k, v in options.items()) or "as it comes"))
        return LogisticRegression(**{"max_iter": 1000} | options).fit(x, y)

    with quietly():
        together = pooled()
        exact = pooled(fit_intercept=False, tol=1e-9, max_iter=20_000)
        alone = LogisticRegression(max_iter=1000).fit(x[:, first], y)
        w = exact.coef_[0]
        return Baselines(
            together=subject.test_loss_of(together),
            alone=subject.test_loss_of(alone, first),
            iterations=int(together.n_iter_[0]),
            optimum=float(np.logaddexp(0, -y * (x @ w)).mean()) + subject.alpha / 2 * float(w @ w),
            at_optimum=subject.test_loss_of(exact),
            stopped=tuple((k, subject.test_loss_of(pooled(max_iter=k))) for k in plan.iterations),
            penalties=tuple((c, subject.test_loss_of(pooled(C=c))) for c in plan.strengths),
        )


def compare_with_pooled(subject: Subject, plan: Plan, rho: float, say: Say) -> Difference:
    """ADMM without noise, as in Fig. 3, against scikit-learn as it comes, row by row."""
    say("ADMM against scikit-learn, row by row")
    data = subject.data
    _, states = subject.run_with_weights(Jacobi(rho=rho), plan.noisy, "")
    pooled = LogisticRegression(max_iter=1000).fit(subject.pooled, data.y)
    theirs = subject.losses_of(pooled.decision_function(side_by_side(data.test_parts)))
    apart = subject.losses_of(scores(data.test_parts, states[-1:])[:, 0]) - theirs
    return Difference(float(apart.mean()), float(apart.std(ddof=1) / np.sqrt(apart.size)))


def noise(subject: Subject, plan: Plan, rho: float, say: Say) -> tuple[Noisy, ...]:
    """ADMM sharing with the paper's noise at every level, once per seed."""
    runs = []
    for sigma in plan.sigmas:
        for seed in plan.seeds[: None if sigma else 1]:
            say(f"noise sigma = {sigma:g}, seed {seed}")
            policy = Policy(PaperNoise(sigma), noise=InsecureTestNoise(seed))
            runs.append(Noisy(sigma, seed, subject.run(Jacobi(rho=rho), plan.noisy, f"sigma = {sigma:g}", policy)))
    return tuple(runs)
