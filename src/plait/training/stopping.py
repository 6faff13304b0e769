"""When a run ends: because it is done, because it was told to, or because it goes wrong."""

from collections import deque
from dataclasses import dataclass

import numpy as np

from plait._checks import need_types
from plait.errors import DivergedError, SettingError
from plait.methods.base import Measured

_PATIENCE = 5  # rounds: the residuals of the last five are compared with those of the five before
_EXPLODED = 1e3  # times the objective's size at the start: with residuals that did not fall, a run is lost
_SLACK = 1e-3  # of the objective's size: what rounding and a loose inner solution may add
_DIGITS = 1e-15  # of the objective: no smaller distance can be told from rounding
_WORSE = 0.05  # of its size: a convergent run may pass above a start close to the optimum for a while


@dataclass(frozen=True)
class Stopping:
    """End a run when any of these is reached.

    Parameters
    ----------
    max_rounds : int, default=200
        End after this many rounds.
    tol : float, default=1e-6
        End when the proved gap to the optimum, relative to the objective, is at or below this.  Where nothing can be
        proved an estimate of it counts, and for ADMM both relative residuals.
    max_seconds : float, default=None
        End after this time.
    lyapunov : float, default=None
        End when the paper's V^t is at or below this.
    objective : float, default=None
        End when the objective is at or below this.
    guarded : bool, default=True
        Raise DivergedError when a run goes wrong; noise that was added on purpose looks like that.
    """

    max_rounds: int = 200
    tol: float = 1e-6
    max_seconds: float | None = None
    lyapunov: float | None = None
    objective: float | None = None
    guarded: bool = True

    def __post_init__(self) -> None:
        need_types(self)
        if self.max_rounds < 1:
            raise SettingError(f"Stopping(max_rounds) must be at least 1. Found {self.max_rounds}.")
        if not self.tol >= 0:
            raise SettingError(f"Stopping(tol) must not be negative. Found {self.tol}.")
        if self.max_seconds is not None and not self.max_seconds > 0:
            raise SettingError(f"Stopping(max_seconds) must be positive. Found {self.max_seconds}.")

    def reason(self, now: Measured, complete: Measured | None, seconds: float) -> "Reason | None":
        """Why to stop, given the newest state, an earlier one with its Lyapunov value, and the time; None to go on."""
        for m in (now, complete):
            if m is not None and (reason := self._settled(m)) is not None:
                return reason
        # Where vectors are rounded, the coordinator's own account may lie above what the parties have confirmed.
        if self.objective is not None and any(m is not None and m.objective <= self.objective for m in (now, complete)):
            return Reason(f"objective at most {self.objective:g}", converged=True)
        if self.lyapunov is not None and complete is not None and complete.lyapunov <= self.lyapunov:
            return Reason(f"Lyapunov value at most {self.lyapunov:g}", converged=True)
        if now.round >= self.max_rounds:
            return Reason(f"max_rounds = {self.max_rounds} reached", converged=False)
        if self.max_seconds is not None and seconds >= self.max_seconds:
            return Reason(f"max_seconds = {self.max_seconds:g} reached", converged=False)
        return None

    def leaves_room(self, now: Measured, seconds: float) -> bool:
        """Whether a run that has reached its tolerance may take one more round, to choose among equally good models."""
        return now.round < self.max_rounds and (self.max_seconds is None or seconds < self.max_seconds)

    def contradicts(self, reason: "Reason", final: Measured) -> bool:
        """Whether the last measurement takes back that the tolerance was reached."""
        return reason.by_gap and self._settled(final) is None and final.round < self.max_rounds

    def confirmed(self, reason: "Reason", final: Measured) -> "Reason":
        """The reason as the last measurement leaves it."""
        settled = self._settled(final) if reason.by_gap or not reason.converged else None
        if settled is not None and settled.by_gap:
            return settled
        if reason.by_gap:
            return Reason(f"the last measurement leaves a gap of {final.gap:.0e}", converged=False)
        return reason

    def _settled(self, m: Measured) -> "Reason | None":
        """The tolerance is reached: proved, or as far as can be told; one of 0 never is."""
        if self.tol == 0:
            return None
        if m.gap <= self.tol:
            return Reason(f"within {max(m.gap, _DIGITS):.0e} of the best possible model, proved", True, by_gap=True)
        if m.estimate <= self.tol:
            text = f"estimated within {max(m.estimate, _DIGITS):.0e} of the best possible model, not certified"
            if m.gap < 1:  # a larger one says nothing
                text += f": proved is {m.gap:.0e}"
            return Reason(text, converged=True, by_gap=True)
        if m.paused:
            return Reason("rounds gain nothing more in short numbers, not certified", converged=True, by_gap=True)
        if np.isnan(m.gap) and np.maximum(m.primal, m.dual) <= self.tol:
            return Reason(f"both residuals at most {self.tol:g}, not certified", converged=True)
        return None


@dataclass(frozen=True)
class Reason:
    """Why a run ended, and whether that counts as convergence."""

    text: str
    converged: bool
    by_gap: bool = False
    """Whether it rests on a bound or an estimate of the gap, which the last measurement has to confirm."""


class Watch:
    """Notices a run that goes wrong.

    A convergent run may pass through bad objectives at first, but then its residuals fall.  A run whose objective has
    been worse than doing nothing for several rounds while its residuals do not fall is diverging or cycling.
    """

    def __init__(self, start: Measured, remedy: str) -> None:
        self._start = start.objective
        # An objective of 0 at the start is a perfect fit, and still needs a unit.
        self._size = max(abs(start.objective), 1e-12)
        self._remedy = remedy
        self._worse: deque[float] = deque(maxlen=2 * _PATIENCE)

    def look(self, now: Measured) -> None:
        """Raise DivergedError when the run has gone wrong."""
        residual = float(np.fmax(now.primal, now.dual))
        if now.round == 1 and np.isfinite(now.objective):
            # The first round starts from zero weights, or from where a party's constraints push them.
            self._start = max(self._start, now.objective)
        if np.isnan(now.objective) or not np.isfinite(residual):
            raise self._error(now, "the numbers are no longer finite")
        if now.objective <= self._start + _WORSE * self._size:
            self._worse.clear()
            return
        self._worse.append(residual)
        seen = list(self._worse)
        if now.objective > _EXPLODED * self._size and len(seen) > 2 and residual >= seen[0]:
            raise self._error(now, "it keeps growing")
        # Residuals that fell by less than a tenth in so many rounds do not fall.
        if len(seen) == self._worse.maxlen and min(seen[_PATIENCE:]) >= 0.9 * min(seen[:_PATIENCE]):
            raise self._error(now, "it cycles, and the residuals do not fall")

    def accept(self, now: Measured) -> None:
        """Raise DivergedError when the run ends in a worse place than it began."""
        if not now.objective <= self._start + _SLACK * self._size:
            raise self._error(now, "the run ends there")

    def _error(self, now: Measured, what: str) -> DivergedError:
        return DivergedError(
            f"the run diverged: after round {now.round} the objective is {now.objective:.4g}, "
            f"worse than the {self._start:.4g} of all-zero weights, and {what}. {self._remedy}"
        )


class Unwatched:
    """Lets a run go wherever it goes."""

    def look(self, now: Measured) -> None:
        """Whatever was measured is accepted."""

    def accept(self, now: Measured) -> None:
        """Wherever the run ended is accepted."""
