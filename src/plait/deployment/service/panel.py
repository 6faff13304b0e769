"""The parties behind the service: every request asks all of them at once, and a new run takes over without a stop."""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from http import HTTPStatus

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from plait.deployment.common_rows import CommonRows, Question
from plait.deployment.job_file import Job
from plait.deployment.joint_scores import add_up
from plait.deployment.masked_scores import MaskedParties, is_over, limited, masks_scores, unmasked
from plait.deployment.run_folder import RunFolder
from plait.deployment.scorers import Scorers
from plait.deployment.service.answers import HttpRefusal, RowScore, RowScores
from plait.deployment.service.gathering import Asked, Gathering
from plait.errors import MissingPartyError, ProtocolError, TransportError
from plait.messages import Share
from plait.transports.handshake import Query
from plait.transports.queries import QueryMailbox, QueryQueue
from plait.transports.server import Hub

_LONGEST_QUERY = 20.0  # seconds that a party which shows signs of life may take for one query
_MEETINGS = 3  # exchanges of masking keys for one request: a party may reconnect while it is answered
_LONGEST_LOAD = 600.0  # seconds that parties may take to read their rows for another run


@dataclass(frozen=True)
class ServedModel:
    """The coordinator's part of one run's model."""

    run: str
    intercept: float

    @classmethod
    def of(cls, folder: RunFolder) -> "ServedModel":
        return cls(folder.status.run, float(folder.model()["intercept"]))


class Panel:
    """All parties of a job, asked together.

    Parameters
    ----------
    job : Job
    model : ServedModel
        The run that is used first.
    local : dict of Scorers
        The parties in this process, by name.
    hub : Hub
        Where the other parties are connected.
    decimals : int
        Digits after the point of every score and probability.
    silence : float
        Seconds without a sign of life after which a party counts as away.
    common : CommonRows, default=None
        The rows that all parties hold, where they were joined privately: the other parties are asked for no other one.
    """

    def __init__(
        self,
        job: Job,
        model: ServedModel,
        local: dict[str, Scorers],
        hub: Hub,
        decimals: int,
        silence: float,
        common: CommonRows | None = None,
    ) -> None:
        self.model = model
        self._job = job
        self._names = job.parties
        self._local = local
        self._hub = hub
        self._decimals = decimals
        self._silence = silence
        self._common = common
        self._masked = MaskedParties(hub.by_id) if masks_scores(job) and hub.by_id else None
        self._gathering = Gathering(list(local), self._ask_all)
        self._queues = {name: QueryQueue(scorers.look_up) for name, scorers in local.items()}

    @property
    def present(self) -> dict[str, bool]:
        """Which parties are here."""
        mailboxes = self._hub.by_id
        return {name: name in self._local or mailboxes[name].present for name in self._names}

    @property
    def absent(self) -> list[str]:
        """The parties that are not here now."""
        return [name for name, here in self.present.items() if not here]

    async def scores(self, ids: list[str]) -> RowScores:
        """Scores of these ids by all parties together; HttpRefusal when one is away or has reached its limit."""
        model = self.model
        if absent := self.absent:
            raise away(*absent)
        question = Question.by_list(ids) if self._common is None else self._common.question(ids)
        try:
            own = Query(ids, model.run)
            query = own if question.ids is ids else Query(list(question.ids), model.run)
        except ProtocolError as error:
            raise HttpRefusal(HTTPStatus.BAD_REQUEST, str(error)) from None
        ask = self._gathering.ask if self._masked is None else self._ask_masked
        shares = await ask(own, query)
        shares = {n: share if n in self._local else question.spread(share) for n, share in shares.items()}
        return RowScores(model.run, self._combined(model, ids, shares, question.absent))

    async def _ask_all(self, asked: Asked) -> dict[str, Share]:
        """Every party's part of each row."""
        under_way = {name: self._ask(name, asked.own if name in self._local else asked.sent) for name in self._names}
        return {name: await self._answer(name, future, asked.since) for name, future in under_way.items()}

    async def _ask_masked(self, own: Query, query: Query) -> dict[str, Share]:
        """The same where parts are masked: they come as their totals, in the place of one party."""
        for _ in range(_MEETINGS):
            query = await self._masked_query(query)
            shares = await self._ask_all(Asked(own, query))
            others = {name: share for name, share in shares.items() if name not in self._local}
            if any(limited(share) for share in others.values()):
                return shares
            if not is_over(others):
                return shares | unmasked(others)
            assert self._masked is not None
            self._masked.forget(query)
        raise away(*(name for name in self._names if name not in self._local))

    async def _masked_query(self, query: Query) -> Query:
        """The same query under masks of its own; where a party has reconnected, all exchange keys first."""
        assert self._masked is not None
        try:
            if self._masked.met:
                return self._masked.query(query.ids, query.run)
            return await asyncio.to_thread(self._masked.query, query.ids, query.run)
        except (TransportError, TimeoutError):
            raise away(*self._hub.by_id) from None

    async def load(self, folder: RunFolder) -> None:
        """Use another run once every party has it; requests that are under way end with the one before it."""
        model, used = ServedModel.of(folder), self.model.run
        mailboxes = self._hub.by_id
        arrivals = {name: mailbox.arrivals for name, mailbox in mailboxes.items()}
        remote = [asyncio.wrap_future(mailbox.load(model.run, used)) for mailbox in mailboxes.values()]
        own = [asyncio.to_thread(scorers.load, model.run, used) for scorers in self._local.values()]
        async with asyncio.timeout(_LONGEST_LOAD):
            answers, _ = await asyncio.gather(asyncio.gather(*remote), asyncio.gather(*own))
        for name, answer in zip(mailboxes, answers, strict=True):
            if answer.problem:
                raise TransportError(f"party {name!r} must have run {model.run}. Found: {answer.problem}")
        self._switch(model, arrivals)

    def _switch(self, model: ServedModel, arrivals: dict[str, int]) -> None:
        """Name the new run to all who join from now on, then look who has joined before: that one has the old run."""
        used = self.model.run
        self._hub.use_run(model.run)
        for name, mailbox in self._hub.by_id.items():
            if mailbox.arrivals != arrivals[name]:
                self._hub.use_run(used)
                raise MissingPartyError(f"party {name!r} must stay while a run is loaded. Found that it came anew.")
        self.model = model

    def refresh(self) -> None:
        """Read the rows of the parties in this process again."""
        for scorers in self._local.values():
            scorers.refresh()

    def close(self) -> None:
        """End the threads of the local parties."""
        for queue in self._queues.values():
            queue.close()
        for scorers in self._local.values():
            scorers.close()

    def _ask(self, name: str, query: Query) -> "asyncio.Future[Share]":
        ask: Callable[[Query], Future[Share]] = (self._queues.get(name) or self._hub.by_id[name]).ask
        try:
            return asyncio.wrap_future(ask(query))
        except TransportError:
            raise away(name) from None

    async def _answer(self, name: str, future: "asyncio.Future[Share]", since: float) -> Share:
        """One party's share; a party that gives no sign of life is not waited for."""
        mailbox = self._hub.by_id.get(name)
        deadline = since + _LONGEST_QUERY
        while True:
            done, _ = await asyncio.wait([future], timeout=_time_left(mailbox, self._silence))
            try:
                if done:
                    return future.result()
            except (TransportError, asyncio.CancelledError):
                raise away(name) from None
            if time.monotonic() > deadline or (mailbox is not None and not mailbox.present):
                future.cancel()
                raise away(name)

    def _combined(
        self, model: ServedModel, ids: Sequence[str], shares: dict[str, Share], absent: NDArray[np.bool_]
    ) -> list[RowScore]:
        if full := [name for name, share in shares.items() if limited(share)]:
            raise HttpRefusal(HTTPStatus.TOO_MANY_REQUESTS, f"the limit of {_named(full)} is reached. Wait.", *full)
        total, missing = add_up(self._job, model.intercept, shares, absent)
        return [self._shown(name, value, list(lost)) for name, value, lost in zip(ids, total, missing, strict=True)]

    def _shown(self, id_: str, total: float, missing: list[str]) -> RowScore:
        if np.isnan(total):
            return RowScore(id_, None, missing=missing, policy="left out")
        probability = round(float(expit(total)), self._decimals) if self._job.loss.gives_odds else None
        policy = "mean" if missing else None
        return RowScore(id_, round(float(total), self._decimals), probability, missing or None, policy)


def away(*parties: str) -> HttpRefusal:
    """The answer while a party is not here."""
    return HttpRefusal(HTTPStatus.SERVICE_UNAVAILABLE, f"{_named(parties)} cannot be reached now. Try again.", *parties)


def _named(parties: Sequence[str]) -> str:
    return f"{'party' if len(parties) == 1 else 'parties'} {', '.join(parties)}"


def _time_left(mailbox: QueryMailbox | None, silence: float) -> float:
    """Seconds until a party that stays silent counts as away."""
    return silence if mailbox is None else max(0.01, mailbox.seen + silence - time.monotonic() + 0.001)
