"""What a fit says about itself, beside what its weights say."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from benchmarks.sweep.problems import Array, Problem
from benchmarks.sweep.reference import Reference

CERTIFIED = 1e-8  # a reference known less well than this judges nothing
WITHIN = 1e-6  # the distance from the optimum that is asked for, relative
_FEASIBLE = 1e-9  # how far outside its constraints a model may be by rounding, relative to its weights
_CLEAR = 1e-5  # how far from its kink a weight or slope must be, relative, for the support to be unique
_NOISE = 1e-6  # of scores and labels: weights that all add less to scores are a reference's rounding of zero
_ROUNDING = 1e-15  # of the loss before training: no objective is known better, in plait or here


@dataclass(frozen=True)
class Answer:
    """What a fit gave: pooled weights (d,), intercept, and its own words."""

    x: Array
    b: float
    objective: float
    rounds: int
    converged: bool
    reason: str
    seconds: float
    certified: bool | None = None
    gap: float | None = None
    """How far it says the optimum can be below its objective, relative to that; None where it says nothing."""


@dataclass(frozen=True)
class Verdict:
    """One line of results; `gap` is the distance from the optimum, relative, and may be minus a reference's own error.

    misreported    the objective that was reported less that of the weights; negative is too good to be true
    said_gap       the gap that the fit claims, in the unit of `gap`
    """

    case: str
    loss: str
    penalty: str
    status: str
    words: str = ""
    gap: float | None = None
    within: bool = False
    converged: bool = False
    certified: bool | None = None
    said_gap: float | None = None
    false_claim: bool = False
    misreported: float = 0.0
    violation: float = 0.0
    rounds: int = 0
    seconds: float = 0.0
    support: bool | None = None
    nonzeros: int = 0
    best_nonzeros: int = 0
    reference_gap: float = 0.0

    def record(self) -> dict[str, Any]:
        return asdict(self)


def judge(case: Any, problem: Problem, known: Reference, answer: Answer) -> Verdict:
    """Compare an answer with the reference, from its weights alone."""
    true = problem.objective(answer.x, answer.b)
    gap = float((true - known.value) / known.scale) if np.isfinite(true) else np.inf
    misreported = float((answer.objective - true) / known.scale)
    violation = problem.violation(answer.x)
    start = problem.loss_at(np.zeros(problem.y.size))
    allowed = known.relative + 1e-12 + _ROUNDING * abs(start) / known.scale  # the reference's own error, and rounding
    reached = gap <= case.tol + allowed and violation <= _FEASIBLE and misreported >= -case.tol - allowed
    said = None if answer.gap is None else answer.gap * abs(answer.objective) / known.scale
    understated = said is not None and bool(answer.certified) and gap > 1.001 * said + allowed
    return Verdict(
        case=case.name,
        loss=case.loss,
        penalty=case.penalty,
        status="judged",
        words=answer.reason,
        gap=gap,
        within=bool(gap <= WITHIN and violation <= _FEASIBLE),
        converged=answer.converged,
        certified=answer.certified,
        said_gap=said,
        false_claim=bool((claims(answer) and not reached) or understated),
        misreported=misreported,
        violation=float(violation),
        rounds=answer.rounds,
        seconds=answer.seconds,
        support=same_support(problem, known, answer.x),
        nonzeros=int(np.count_nonzero(answer.x)),
        best_nonzeros=int(np.count_nonzero(support(problem, known)[0])),
        reference_gap=known.relative,
    )


def claims(answer: Answer) -> bool:
    """Whether the fit says that it reached its tolerance: by a certificate, or by the word converged without doubt."""
    return bool(answer.certified) or (answer.converged and "not certified" not in answer.reason)


def support(problem: Problem, known: Reference) -> tuple[Array, Array]:
    """Per column: not zero at the optimum, and whether that is beyond doubt; columns without L1 are left out."""
    w = problem.weights
    pull = np.abs(problem.table.T @ (w * known.slopes))
    unit = np.sqrt(w @ problem.table**2)
    size = np.abs(known.x) * unit
    l1 = np.concatenate([np.full(p.shape[1], t.l1) for t, p in zip(problem.terms, problem.parts, strict=True)])
    # Where the optimum has no weights those of a reference are what its solver left of zero.
    scores = np.abs(np.append(problem.table @ known.x + known.b, problem.y))
    largest = max(float(size.max(initial=0.0)), _NOISE * float(scores.max()), 1e-300)
    alive = (l1 > 0) & (size > _CLEAR * largest)
    dead = (l1 > 0) & (size <= 1e-3 * _CLEAR * largest) & (pull < (1 - _CLEAR) * l1)
    return alive, alive | dead


def same_support(problem: Problem, known: Reference, x: Array) -> bool | None:
    """Whether the weights that are not zero are the optimum's; None where the optimum's own are not unique."""
    if any(t.l1 == 0 or t.kind not in ("l1", "l2+l1") for t in problem.terms):
        return None
    alive, sure = support(problem, known)
    if not sure.all():
        return None
    z = problem.table @ known.x + known.b
    bend = problem.loss.bend(z, problem.y) if problem.loss.smooth else np.zeros_like(z)
    design = np.sqrt(problem.weights * bend)[:, None] * np.c_[problem.table[:, alive], np.ones(z.size)]
    length = np.linalg.norm(design, axis=0)
    design = design / np.where(length > 0, length, 1.0)
    ridged = all(t.ridge > 0 for t in problem.terms)
    if not ridged and (
        not problem.loss.smooth or np.linalg.svd(design[:, :-1], compute_uv=False).min(initial=1.0) < 1e-4
    ):
        return None
    return bool(np.array_equal(x != 0, alive))
