"""What a run reports: one record per round."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, overload

from plait._checks import need_type
from plait.errors import PlaitError


@dataclass(frozen=True)
class Round:
    """The state after one round.

    Parameters
    ----------
    round : int
        The number of the round, from 1; 0 is the state before.
    objective : float, default=nan
        Mean loss and penalties at the parties' weights.
    primal : float, default=nan
        How far scores are from their copy z, relative.
    dual : float, default=nan
        How far the total is from what parties took it to be, relative.
    lyapunov : float, default=nan
        The paper's V^t.
    rho : float, default=nan
        The penalty parameter of ADMM.
    gap : float, default=nan
        By how much the objective may still fall, relative: proved; nan where nothing is.
    estimate : float, default=nan
        The same as far as can be told, where nothing can be proved.
    seconds : float, default=0.0
        Time since the run began.
    numbers_down : int, default=0
        Numbers that the coordinator sent in this round, to all parties.
    numbers_up : int, default=0
        Numbers that the parties sent.
    bytes_down : int, default=0
        Bytes that the coordinator sent.
    bytes_up : int, default=0
        Bytes that the parties sent.
    """

    round: int
    objective: float = math.nan
    primal: float = math.nan
    dual: float = math.nan
    lyapunov: float = math.nan
    rho: float = math.nan
    gap: float = math.nan
    estimate: float = math.nan
    seconds: float = 0.0
    numbers_down: int = 0
    numbers_up: int = 0
    bytes_down: int = 0
    bytes_up: int = 0


class History(Sequence[Round]):
    """The rounds of a run, and the state before the first one.

    Parameters
    ----------
    start : Round
        The state before the first round.
    rounds : list of Round
        The rounds, in order.
    """

    def __init__(self, start: Round, rounds: Sequence[Round]) -> None:
        need_type("History(start)", start, Round)
        need_type("History(rounds)", rounds, Sequence[Round])
        self.start = start
        self._rounds = tuple(rounds)

    @property
    def last(self) -> Round:
        """The newest state: that of the last round, or the start where no round was needed."""
        return self._rounds[-1] if self._rounds else self.start

    @overload
    def __getitem__(self, index: int) -> Round: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Round, ...]: ...

    def __getitem__(self, index: int | slice) -> Round | tuple[Round, ...]:
        return self._rounds[index]

    def __len__(self) -> int:
        return len(self._rounds)

    def __iter__(self) -> Iterator[Round]:
        return iter(self._rounds)

    def __repr__(self) -> str:
        return f"History({len(self)} rounds)"

    def to_pandas(self) -> Any:
        """A pandas DataFrame with one row per round."""
        try:
            import pandas as pd
        except ImportError as error:
            raise PlaitError("to_pandas() needs pandas. Install it: pip install 'plait[pandas]'.") from error
        return pd.DataFrame([asdict(r) for r in self], columns=[f.name for f in fields(Round)])
