"""Requests asked together: each gets its own rows, and none waits for ever."""

import asyncio
from collections.abc import Coroutine

import numpy as np
import pytest

from plait.deployment.service.gathering import Asked, Gathering
from plait.errors import MissingPartyError
from plait.messages import Share
from plait.transports.handshake import MOST_IDS, MOST_QUERY_BYTES, Query

RUN, NEXT = "20260101-120000-0a1b2c", "20260101-130000-0a1b2c"


class Parties:
    """A bank in this process and a shop outside it, that answer when they are told to; id "7" has part 7."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.go = asyncio.Event()
        self.go.set()
        self.error: Exception | None = None
        self.gathering = Gathering(["bank"], self.answer)

    async def answer(self, asked: Asked) -> dict[str, Share]:
        self.asked.append(asked)
        await self.go.wait()
        if self.error is not None:
            raise self.error
        return {"bank": _share(asked.own), "shop": _share(asked.sent)}

    def ask(self, *ids: str, sent: list[str] | None = None, run: str = RUN) -> Coroutine[None, None, dict[str, Share]]:
        return self.gathering.ask(Query(list(ids), run), Query(sent or list(ids), run))

    @property
    def sizes(self) -> list[list[int]]:
        return [asked.sent.requests or [len(asked.sent.ids)] for asked in self.asked]


def _share(query: Query) -> Share:
    numbers = [float(text) if text.isdigit() else float(len(text)) for text in query.ids]
    return Share(0, np.array(numbers), np.ones(len(query.ids)))


def parts(shares: dict[str, Share]) -> dict[str, list[float]]:
    assert all(share.vector is not None and share.vector.size == share.scalars.size for share in shares.values())
    return {name: share.vector.tolist() for name, share in shares.items() if share.vector is not None}


def test_requests_of_one_moment_share_a_query_and_get_their_own_rows() -> None:
    async def work() -> None:
        parties = Parties()
        found = await asyncio.gather(
            parties.ask("1", "2"), parties.ask("3", sent=["30", "31"]), parties.ask("4", "5", "6", sent=["40"])
        )
        assert [parts(each) for each in found] == [
            {"bank": [1, 2], "shop": [1, 2]},
            {"bank": [3], "shop": [30, 31]},
            {"bank": [4, 5, 6], "shop": [40]},
        ]
        assert parties.sizes == [[2, 2, 1]]
        assert parties.asked[0].own.requests == [2, 1, 3]

    asyncio.run(work())


def test_what_comes_while_two_queries_are_under_way_goes_with_the_third() -> None:
    async def work() -> None:
        parties = Parties()
        parties.go.clear()
        tasks = []
        for i in range(10):
            tasks.append(asyncio.create_task(parties.ask(str(i))))
            await asyncio.sleep(0.001)
        parties.go.set()
        assert [parts(found)["shop"] for found in await asyncio.gather(*tasks)] == [[i] for i in range(10)]
        assert parties.sizes == [[1], [1], [1] * 8]
        assert parties.asked[2].since < parties.asked[1].since + 1, "the first of them says since when they wait"

    asyncio.run(work())


def test_runs_many_ids_and_long_ids_are_not_mixed_beyond_one_query() -> None:
    async def work() -> None:
        parties = Parties()
        await asyncio.gather(parties.ask("1"), parties.ask("2", run=NEXT), parties.ask("3", run=NEXT))
        assert [(each.own.run, each.own.ids) for each in parties.asked] == [(RUN, ["1"]), (NEXT, ["2", "3"])]
        parties.asked.clear()
        await asyncio.gather(*(parties.ask(*map(str, range(500))) for _ in range(5)))
        assert parties.sizes == [[500, 500], [500, 500], [500]]
        assert 1000 <= MOST_IDS < 1500
        parties.asked.clear()
        long = "ä" * 500
        await asyncio.gather(*(parties.ask(*[long] * 100) for _ in range(3)))
        assert parties.sizes == [[100], [100], [100]]
        assert all(asked.sent.size <= MOST_QUERY_BYTES < 2 * asked.sent.size for asked in parties.asked)

    asyncio.run(work())


def test_an_error_is_everybodys_and_the_next_request_is_asked_anew() -> None:
    async def work() -> None:
        parties = Parties()
        parties.error = MissingPartyError("shop")
        found = await asyncio.gather(parties.ask("1"), parties.ask("2"), return_exceptions=True)
        assert all(isinstance(each, MissingPartyError) for each in found)
        parties.error = None
        assert parts(await parties.ask("3"))["shop"] == [3]

    asyncio.run(work())


def test_a_client_that_goes_takes_nobody_along() -> None:
    async def work() -> None:
        parties = Parties()
        parties.go.clear()
        tasks = [asyncio.create_task(parties.ask(str(i))) for i in range(3)]
        await asyncio.sleep(0.01)
        late = [asyncio.create_task(parties.ask(str(i))) for i in range(3, 6)]
        await asyncio.sleep(0.01)
        later = [asyncio.create_task(parties.ask(str(i))) for i in range(6, 9)]
        await asyncio.sleep(0.01)
        for gone in (tasks[1], late[0], later[0]):
            gone.cancel()
        parties.go.set()
        found = await asyncio.gather(*tasks, *late, *later, return_exceptions=True)
        kept = [parts(each)["shop"][0] for each in found if isinstance(each, dict)]
        assert kept == [0, 2, 4, 5, 7, 8]
        assert "6" not in [each for asked in parties.asked for each in asked.sent.ids], "nobody waits for it any more"

    asyncio.run(work())


@pytest.mark.parametrize("together", [1, 50])
def test_shares_of_any_number_of_requests_are_those_of_each_alone(together: int) -> None:
    async def work() -> None:
        parties, rng = Parties(), np.random.default_rng(together)
        asked = [[str(n) for n in rng.integers(0, 999, rng.integers(1, 9))] for _ in range(together)]
        found = await asyncio.gather(*(parties.ask(*ids) for ids in asked))
        assert [parts(each)["bank"] for each in found] == [[float(text) for text in ids] for ids in asked]

    asyncio.run(work())
