"""All stages in order, each kept as soon as it is done: an interrupted reproduction goes on where it stopped."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from reproduction.experiments import Say, baselines, compare_with_pooled, describe, noise, race
from reproduction.plans import Plan, Study
from reproduction.prototype import time_updates
from reproduction.records import (
    Baselines,
    Difference,
    Facts,
    Measured,
    Noisy,
    Race,
    Shelf,
    Support,
    Theory,
    Timed,
)
from reproduction.subject import Subject
from reproduction.theory import check_theory, guess_the_table

R = TypeVar("R")
_STAGES = 8


@dataclass(frozen=True)
class Outcome:
    """What was measured on both data sets, and the seconds that it took, by the clock and of the processors."""

    study: Study
    narrow: Measured
    wide: Measured
    seconds: float
    processor: float


def reproduce(study: Study, folder: Path, say: Say, fresh: bool = False) -> Outcome:
    """Run what is not yet kept in the folder; whatever data are missing, the first seconds tell."""
    say("reading the data")
    subjects = [Subject.of(plan.load()) for plan in study.plans]
    shelves = [Shelf(folder, plan, fresh) for plan in study.plans]
    narrow, wide = (_measure(*each, say) for each in zip(study.plans, subjects, shelves, strict=True))
    return Outcome(study, narrow, wide, sum(s.seconds for s in shelves), sum(s.processor for s in shelves))


def _measure(plan: Plan, subject: Subject, shelf: Shelf, say: Say) -> Measured:
    told = partial(_tell, say, plan.data)

    def stage(number: int, name: str, kind: object, compute: Callable[[Say], R]) -> R:
        return shelf.stage(f"{plan.data}-{name}", kind, lambda: compute(partial(told, number)))

    facts = stage(1, "facts", Facts, lambda tell: describe(subject))
    pooled = stage(2, "baselines", Baselines, lambda tell: baselines(subject, plan, tell))
    raced = stage(3, "race", Race, lambda tell: race(subject, plan, tell))
    apart = stage(4, "difference", Difference, lambda tell: compare_with_pooled(subject, plan, raced.rho, tell))
    noisy = stage(5, "noise", tuple[Noisy, ...], lambda tell: noise(subject, plan, raced.rho, tell))
    theory = stage(6, "theory", Theory, lambda tell: check_theory(subject, plan, raced.rho, tell))
    timed = stage(7, "prototype", Timed, lambda tell: time_updates(subject, raced.rho, plan.timed, tell))
    support = stage(8, "support", Support, lambda tell: guess_the_table(subject, tell))
    return Measured(facts, pooled, raced, apart, noisy, theory, timed, support)


def _tell(say: Say, data: str, number: int, text: str) -> None:
    say(f"{data}, stage {number} of {_STAGES}: {text}")
