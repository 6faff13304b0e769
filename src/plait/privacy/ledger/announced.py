"""Runs of several fits, such as the folds of a cross-validation: announced to the ledger before the first of them.

The ledger notes the announcement where its budget covers all the fits.  From then on the run makes no more fits than
that.  A fit is known by the name of its plan, so that a fit that is repeated is no other fit.
"""

from collections.abc import Sequence

from plait.errors import BudgetError
from plait.privacy.ledger.charge import Charge
from plait.privacy.ledger.hash_chain import Body, ChainEntry

ANNOUNCED = "announced"  # the kind of these entries in a ledger's chain
_CLASS = ", class "


def class_run(run: str, k: int) -> str:
    """The name of the run that trains class k against the rest."""
    return f"{run}{_CLASS}{k}"


def announcement(charges: Sequence[Charge], run: str, fits: int) -> Body:
    """What the ledger notes: `begun` is how many fits the run, or each of its classes, has made before."""
    runs = {c.release.run for c in charges if _belongs(c.release.run, run)}
    return {"run": run, "fits": fits, "begun": {name: len(_plans(charges, name)) for name in sorted(runs)}}


def is_announced(entries: Sequence[ChainEntry], run: str, fits: int) -> bool:
    """Whether the last announcement of this run is of so many fits."""
    last = _last(entries, run)
    return last is not None and last["fits"] == fits


def need_announced(entries: Sequence[ChainEntry], charges: Sequence[Charge], run: str, plan: str) -> None:
    """BudgetError for a plan beyond the number of fits that its run has announced."""
    last, made = _last(entries, run), _plans(charges, run)
    if last is not None and plan not in made and len(made) >= last["begun"].get(run, 0) + last["fits"]:
        raise BudgetError(
            f"Run {last['run']!r} has announced {last['fits']} fits. Found one more. Nothing was released. Give the "
            "next fits a run of their own, and say how many: Policy(run=..., fits=...)."
        )


def _last(entries: Sequence[ChainEntry], run: str) -> Body | None:
    notes = (e.body for e in reversed(entries) if e.kind == ANNOUNCED)
    return next((body for body in notes if _belongs(run, body["run"])), None)


def _belongs(run: str, announced: str) -> bool:
    return run == announced or run.startswith(announced + _CLASS)


def _plans(charges: Sequence[Charge], run: str) -> set[str]:
    return {c.release.plan for c in charges if c.release.run == run}
