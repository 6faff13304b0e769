"""A party's models in a service: each scores for queries that name it."""

import threading
from collections.abc import Callable, Sequence

from plait.deployment.law import SERVICE
from plait.deployment.scorer import Scorer
from plait.errors import PlaitError, ProtocolError
from plait.messages import Broadcast, Share
from plait.transports.handshake import Finished, Query, Ready
from plait.transports.participant import AnswersNothing

_TOLD = 8  # runs that cannot be used of which the owner hears one by one; then each time when their number has doubled


class Scorers(AnswersNothing):
    """A party's models in a service: the one that is used, and one more.

    That is the next one until all parties have it, and then the one before, for requests that are under way.  Only the
    service says which one is used: a next one that another party lacks displaces nothing.
    """

    agreement = SERVICE

    def __init__(self, make: Callable[[str], Scorer], run: str, tell: Callable[[str], None] = lambda _: None) -> None:
        """All that `make` makes share their masks; `tell` hears why a run cannot be used: a few times, then seldom."""
        self._make = make
        self._tell = tell
        self._told, self._unusable = "", 0
        self._run = run
        self._scorers = {run: make(run)}
        self._changing = threading.Lock()

    @property
    def ready(self) -> Ready:
        return self._scorers[self._run].ready

    @property
    def count(self) -> int:
        """How many rows there are to score."""
        return len(self._scorers[self._run].rows.ids)

    def look_up(self, queries: Sequence[Query]) -> list[Share]:
        """The shares of several queries, each by the model that it names."""
        shares: dict[int, Share] = {}
        for run in {query.run or self._run for query in queries}:
            scorer = self._scorers.get(run)
            if scorer is None:
                raise ProtocolError(f"a query must name a run that was asked for before. Found {run}.")
            places = [i for i, query in enumerate(queries) if (query.run or self._run) == run]
            shares |= dict(zip(places, scorer.look_up([queries[i] for i in places]), strict=True))
        return [shares[i] for i in range(len(queries))]

    def load(self, run: str, used: str) -> None:
        """Have another model ready, for queries that name it; let go of all but this and the one that is used."""
        with self._changing:
            if used not in (run, *self._scorers):
                raise ProtocolError(f"a service must use a run that was asked for before. Found {used}.")
            for old in [name for name in self._scorers if name not in (run, used)]:
                self._scorers.pop(old).close()
            self._run = used
            if run not in self._scorers:
                self._scorers[run] = self._made(run)

    def _made(self, run: str) -> Scorer:
        try:
            return self._make(run)
        except PlaitError as error:
            why = f"run {run} cannot be used: {error}"
            if why != self._told:
                self._told, self._unusable = why, self._unusable + 1
                if self._unusable <= _TOLD or self._unusable & (self._unusable - 1) == 0:
                    self._tell(why)
            raise

    def meet(self, keys: Sequence[str]) -> list[str]:
        """A new masking key where none are given; else use these."""
        with self._changing:
            return self._scorers[self._run].meet(keys)

    def refresh(self) -> None:
        """Read the rows of every model again."""
        with self._changing:
            for scorer in self._scorers.values():
                scorer.refresh()

    def answer(self, seq: int, broadcast: Broadcast, before: int | None = None) -> Share:
        raise ProtocolError("scores are asked for by id. Found a request for all rows. Nothing was scored.")

    def finish(self, finished: Finished) -> None:
        for scorer in self._scorers.values():
            scorer.finish(finished)

    def close(self) -> None:
        """Let other programs use the folders."""
        with self._changing:
            for scorer in self._scorers.values():
                scorer.close()
            self._scorers.clear()
