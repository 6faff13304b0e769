"""A party's side of a run that tells its owner each round: its number, its time and its bytes, and nothing else.

The objective and the residuals are about the labels, and a feature party is not told them while a run goes on.
"""

import time
from dataclasses import replace
from typing import Any

from plait.deployment.progress import Progress
from plait.messages import Broadcast, Share
from plait.training.history import Round


class WatchedParty:
    """A party's side whose answers are told to `progress`; everything else is the side's own."""

    def __init__(self, participant: Any, progress: Progress) -> None:
        self._participant = participant
        self._progress = progress
        self._began: float | None = None
        self._told = 0
        self._open = Round(0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._participant, name)

    def answer(self, seq: int, broadcast: Broadcast, *more: Any) -> Share:
        """Answer, and tell a round when its first answer is given; further exchanges count with the next round."""
        began = self._began = time.perf_counter() if self._began is None else self._began
        share: Share = self._participant.answer(seq, broadcast, *more)
        record = replace(
            self._open,
            numbers_down=self._open.numbers_down + broadcast.numbers,
            numbers_up=self._open.numbers_up + share.numbers,
            bytes_down=self._open.bytes_down + broadcast.bytes,
            bytes_up=self._open.bytes_up + share.bytes,
        )
        if broadcast.round > self._told:
            self._told = broadcast.round
            self._progress.round(replace(record, round=broadcast.round, seconds=time.perf_counter() - began))
            record = Round(0)
        self._open = record
        return share
