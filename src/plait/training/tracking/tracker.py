"""What a tracker is told: what is known before round 1, each round, and how the run ended."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from plait.errors import PlaitError
from plait.training.history import Round
from plait.training.stopping import Reason, Stopping


@dataclass(frozen=True)
class RunFacts:
    """What is known of a run before round 1.

    Parameters
    ----------
    parties : tuple of str
        The parties of the run.
    rows : int
        The rows that are trained on.
    method : str
        The method and its options, as Python writes them.
    max_rounds : int, default=200
        The run ends after so many rounds at the latest.
    tol : float, default=1e-06
        The run ends when its gap or its residuals are at or below this.
    party : str, default=""
        Whose view this is; empty where one process holds all parties.
    run : str, default=""
        The name of the run; empty where it has none.
    job : str, default=""
        The name of the job; empty where there is no job file.
    """

    parties: tuple[str, ...]
    rows: int
    method: str
    max_rounds: int = Stopping().max_rounds
    tol: float = Stopping().tol
    party: str = ""
    run: str = ""
    job: str = ""


@dataclass(frozen=True)
class Ending:
    """How a run ended.

    Parameters
    ----------
    reason : str
        In words.
    converged : bool
        Whether a tolerance or another aim was reached.
    failed : bool, default=False
        Whether an error ended it.
    """

    reason: str
    converged: bool
    failed: bool = False


class Tracker:
    """Is told how a run goes; the base of all trackers, which does nothing with it.

    A tracker is also a function of one `plait.Round`, so it goes wherever a callback goes.
    """

    def begin(self, facts: RunFacts) -> None:
        """Take what is known before round 1."""
        return

    def round(self, record: Round) -> None:
        """Take one round."""
        return

    def end(self, ending: Ending) -> None:
        """Take how the run ended; whatever is open is closed."""
        return

    def __call__(self, record: Round) -> None:
        """Take one round, as a callback does."""
        self.round(record)


def fields_of(record: Round) -> dict[str, float | int | None]:
    """A round as JSON knows it: what is not finite becomes null."""
    return {key: value if math.isfinite(value) else None for key, value in asdict(record).items()}


def known_fields(record: Round) -> dict[str, float]:
    """What is known of a round, without its number."""
    return {key: float(value) for key, value in fields_of(record).items() if value is not None and key != "round"}


@contextmanager
def tracked(observers: Sequence[Any], facts: RunFacts) -> Iterator[list[Reason]]:
    """Tell the trackers among `observers` that a run begins, and how it ended: put the reason into the list."""
    trackers = [each for each in observers if isinstance(each, Tracker)]
    for each in trackers:
        each.begin(facts)
    found: list[Reason] = []
    ending = Ending("interrupted", converged=False, failed=True)
    try:
        yield found
        ending = Ending(found[-1].text, found[-1].converged)
    except PlaitError as error:
        ending = Ending(str(error), converged=False, failed=True)
        raise
    finally:
        for each in trackers:
            each.end(ending)
