"""The one loop that drives every method over every transport."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from plait._replace import replace
from plait.messages import Broadcast, Message, Share, Transport
from plait.methods.base import CLOSINGS, Measured
from plait.training.coordinator import Coordinator
from plait.training.history import History, Round
from plait.training.stopping import Reason, Stopping, Unwatched, Watch

Observer = Callable[[Round], None]
Clock = Callable[[], float]
"""How many seconds a run has taken."""


@dataclass(frozen=True)
class Outcome:
    """How a run went."""

    history: History
    reason: Reason


class _Recorder:
    """Turns what the coordinator measured and what was sent into the history."""

    def __init__(self, start: Measured, observers: Sequence[Observer], clock: Clock | None) -> None:
        self._observers = observers
        self._start = Round(0, objective=start.objective)
        began = time.perf_counter()
        self._clock = clock or (lambda: time.perf_counter() - began)
        self._open: dict[int, Round] = {}
        self._closed: list[Round] = []

    @property
    def seconds(self) -> float:
        return self._clock()

    def sent(self, number: int, requests: Mapping[str, Broadcast], shares: Mapping[str, Share]) -> None:
        """Add an exchange to round `number`'s traffic."""
        row = self._open.get(number) or Round(number)
        down_numbers, down_bytes = _traffic(requests.values())
        up_numbers, up_bytes = _traffic(shares.values())
        self._open[number] = replace(
            row,
            seconds=self.seconds,
            numbers_down=row.numbers_down + down_numbers,
            numbers_up=row.numbers_up + up_numbers,
            bytes_down=row.bytes_down + down_bytes,
            bytes_up=row.bytes_up + up_bytes,
        )

    def complete(self, m: Measured) -> None:
        """Close a round's record and show it to the observers."""
        if self._closed and self._closed[-1].round == m.round:
            return  # measured again
        row = self._open.pop(m.round, None) or Round(m.round)
        row = replace(row, objective=m.objective, primal=m.primal, dual=m.dual, lyapunov=m.lyapunov, rho=m.rho)
        row = replace(row, gap=m.gap, estimate=m.estimate)
        if m.round == 0:
            self._start = row
            return
        self._closed.append(row)
        for observe in self._observers:
            observe(row)

    def history(self) -> History:
        """The rounds; what was sent in one that was never finished counts with the last."""
        closed = list(self._closed)
        for row in self._open.values() if closed else ():
            last = closed[-1]
            closed[-1] = replace(
                last,
                numbers_down=last.numbers_down + row.numbers_down,
                numbers_up=last.numbers_up + row.numbers_up,
                bytes_down=last.bytes_down + row.bytes_down,
                bytes_up=last.bytes_up + row.bytes_up,
            )
        return History(self._start, closed)


def _traffic(messages: Collection[Message]) -> tuple[int, int]:
    numbers = count = 0
    for message in messages:
        numbers += message.numbers
        count += message.bytes
    return numbers, count


def run(
    coordinator: Coordinator,
    transport: Transport,
    stopping: Stopping,
    observers: Sequence[Observer] = (),
    clock: Clock | None = None,
) -> Outcome:
    """Exchange messages until a stopping rule holds, then let every party measure where it ended.

    `clock` says how many seconds the run has taken, also before it was resumed; None counts from this call on.
    """
    recorder = _Recorder(coordinator.current, observers, clock)
    watch = Watch(coordinator.current, coordinator.method.remedy) if stopping.guarded else Unwatched()
    for closings in range(CLOSINGS):
        reason, complete = _until(coordinator, transport, stopping, recorder, watch)
        while reason.by_gap and stopping.leaves_room(coordinator.current, recorder.seconds) and coordinator.settle():
            if (settled := _exchange(coordinator, transport, recorder)) is not None:
                recorder.complete(settled)
        now = coordinator.current
        if complete is not None and complete.round == now.round and np.isnan(complete.gap):
            final = complete  # measured by the round itself
            break
        requests = coordinator.closing()
        shares = transport.exchange(requests)
        recorder.sent(next(iter(requests.values())).round, requests, shares)
        final = coordinator.close(shares)
        if not stopping.contradicts(reason, final) or closings == CLOSINGS - 1:
            break
    reason = stopping.confirmed(reason, final)
    recorder.complete(final)
    watch.accept(final)
    return Outcome(recorder.history(), reason)


def _exchange(coordinator: Coordinator, transport: Transport, recorder: _Recorder) -> Measured | None:
    """Ask, take the answers, and note what crossed; an earlier state once it is fully measured."""
    requests = coordinator.requests()
    shares = transport.exchange(requests)
    complete = coordinator.absorb(shares)
    recorder.sent(next(iter(requests.values())).round, requests, shares)
    return complete


def _until(
    coordinator: Coordinator, transport: Transport, stopping: Stopping, recorder: _Recorder, watch: Watch | Unwatched
) -> tuple[Reason, Measured | None]:
    """Exchange messages until a stopping rule holds; why, and the last state that was fully measured."""
    while True:
        before = coordinator.current.round
        complete = _exchange(coordinator, transport, recorder)
        now = coordinator.current
        if now.round > before:
            watch.look(now)
        if complete is not None:
            if (reason := stopping.reason(now, complete, recorder.seconds)) is not None:
                if complete.round < now.round:
                    recorder.complete(complete)
                return reason, complete
            recorder.complete(complete)
        elif now.round > before and (reason := stopping.reason(now, None, recorder.seconds)) is not None:
            return reason, None
