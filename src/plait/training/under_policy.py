"""What a policy means for a run: which method, how each party runs it, and when to stop."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from plait.methods.admm.jacobi import Jacobi
from plait.methods.admm.proximal import Proximal
from plait.methods.auto import Choice, choose_method
from plait.methods.base import Method
from plait.methods.private.noisy_shares import guard
from plait.methods.private.pass_parties import Protected, Unprotected
from plait.methods.registry import method_of
from plait.privacy.ledger.release_gate import Book
from plait.privacy.mechanisms.base import DefaultMethod, Schedule
from plait.privacy.policy import Protections
from plait.problem.penalties import Penalty
from plait.training.stopping import Stopping


def choose(asked: Method | str, protections: Protections, penalties: Mapping[str, Penalty]) -> Choice:
    """The method that was asked for, or the one that "auto" stands for under these protections."""
    method = method_of(asked)
    if method is None:
        return _automatic(protections, penalties)
    method.check(protections.loss, penalties)
    return Choice(method, f"{type(method).__name__}: as asked")


def _automatic(protections: Protections, penalties: Mapping[str, Penalty]) -> Choice:
    if protections.default_method is DefaultMethod.FIXED_RHO:
        return Choice(Proximal(adaptive=False, acceleration=0), "Proximal, rho fixed: MechanismA needs it")
    if protections.default_method is DefaultMethod.PAPER:
        return Choice(Jacobi(), "Jacobi: the paper's algorithm, for the paper's noise")
    unprotected = {name: penalty for name, penalty in penalties.items() if name not in protections.helpers}
    choice = choose_method(protections.loss, unprotected)
    if protections.helpers:
        return replace(choice, reason="Recommended: unprotected parties first, then one private pass")
    return choice


def unprotected_method(method: Method, protections: Protections) -> Method:
    """The method as a party runs it that protects nothing."""
    return Unprotected(method) if protections.helpers else method


def protected_method(method: Method, protections: Protections, book: Book) -> Method:
    """The method as the party of this release gate runs it under its mechanism."""
    mechanism: Any = protections.mechanisms[book.party]
    if mechanism.schedule is Schedule.ONE_PASS:
        return Protected(method, mechanism, book, protections.sketch)
    return guard(method, mechanism, book, len(protections.mechanisms))


def limits(protections: Protections, stopping: Stopping) -> Stopping:
    """At most as many rounds as mechanisms pay for; a run with noise in every round is not watched for divergence."""
    rounds = stopping.max_rounds if protections.max_rounds is None else min(stopping.max_rounds, protections.max_rounds)
    return replace(stopping, max_rounds=rounds, guarded=stopping.guarded and not protections.noisy)
