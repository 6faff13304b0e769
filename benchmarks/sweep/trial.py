"""Ask plait for a model, through its public functions only."""

import signal
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import plait
from benchmarks.sweep.cases import Case
from benchmarks.sweep.judge import Answer
from benchmarks.sweep.problems import Loss, Problem, Terms

_LOSSES = {
    "logistic": lambda _: plait.Logistic(),
    "squared": lambda _: plait.Squared(),
    "hinge": lambda _: plait.Hinge(),
    "squared_hinge": lambda _: plait.SquaredHinge(),
    "huber": plait.Huber,
    "poisson": lambda _: plait.Poisson(),
    "pinball": plait.Pinball,
}


def loss_of(loss: Loss) -> plait.Loss:
    return _LOSSES[loss.name](loss.shape)


def penalty_of(terms: Terms) -> plait.Penalty:
    """The sum of the parts that are there."""
    parts: list[plait.Penalty] = []
    parts += [plait.L2(terms.ridge)] if terms.ridge > 0 else []
    parts += [plait.L1(terms.l1)] if terms.l1 > 0 else []
    parts += [plait.GroupLasso(terms.group, terms.groups)] if terms.group > 0 else []
    if np.isfinite(terms.radius):
        parts.append(plait.Ball(terms.radius, non_negative=terms.lower == 0))
    elif np.isfinite(terms.lower) or np.isfinite(terms.upper):
        parts.append(plait.Box(terms.lower, terms.upper))
    total: plait.Penalty = plait.NoPenalty()
    for part in parts:
        total = part if isinstance(total, plait.NoPenalty) else total + part
    return total


def ask(case: Case, problem: Problem, seconds: float) -> Answer:
    """Fit within a limit of seconds; whatever plait raises goes to the caller."""
    method: Any = case.method if case.method == "auto" else getattr(plait, case.method)()
    options = {} if case.precision == "float64" else {"precision": case.precision}
    with warnings.catch_warnings(), _limit(seconds):
        warnings.simplefilter("ignore")
        begun = time.perf_counter()
        fit = plait.fit(
            list(problem.parts),
            problem.y,
            loss=loss_of(problem.loss),
            penalty=[penalty_of(t) for t in problem.terms],
            method=method,
            stopping=plait.Stopping(tol=case.tol),
            fit_intercept=problem.intercept,
            sample_weight=problem.sample_weight,
            **options,
        )
        took = time.perf_counter() - begun
    gap = float(getattr(fit, "gap", np.nan))  # a program without certificates says nothing
    return Answer(
        np.concatenate([np.asarray(x, dtype=np.float64) for x in fit.weights]),
        float(fit.intercept),
        float(fit.objective),
        int(fit.rounds),
        bool(fit.converged),
        str(fit.reason),
        took,
        getattr(fit, "certified", None),
        None if np.isnan(gap) else gap,
    )


@contextmanager
def _limit(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in the main thread after this time."""

    def ring(*_: object) -> None:
        raise TimeoutError(f"not done in {seconds:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
