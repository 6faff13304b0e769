"""A party's end of a conversation: what one coordinator can make it do at once."""

import threading

import pytest

from plait._version import __version__
from plait.transports.admission import Terms
from plait.transports.client import Link
from plait.transports.handshake import PROTOCOL, Finished, Hello, Ready
from plait.transports.law import Agreement
from plait.transports.participant import AnswersNothing
from plait.transports.server import Hub
from plait.transports.tls import PlainText

JOB, KEY, RUN = "ab" * 32, "ef" * 32, "20260101-120000-0a1b2c"


class SlowToLoad(AnswersNothing):
    """Loads a run when the test says so, and counts how many it loads at once."""

    agreement = Agreement("serve")
    ready = Ready(1, "", 0)

    def __init__(self) -> None:
        self.go = threading.Event()
        self.loading = self.most = 0

    def load(self, run: str, used: str) -> None:
        self.loading += 1
        self.most = max(self.most, self.loading)
        self.go.wait(30)
        self.loading -= 1

    def finish(self, finished: Finished) -> None:
        return


@pytest.mark.threat("coordinator", "thousands of runs to be loaded at once", "one at a time; the others get a no")
def test_one_run_is_loaded_at_a_time_however_many_are_asked_for() -> None:
    terms = Terms(("shop",), JOB, "serve", RUN, KEY, 0, "", patience=60, by_id=True, silence=60)
    hub, party = Hub(terms, lambda what, **facts: None), SlowToLoad()
    port = hub.open("127.0.0.1:0", PlainText("bank"))
    link = Link(f"127.0.0.1:{port}", "bank", PlainText("shop"), 60, lambda what, **facts: None)
    hello = Hello(PROTOCOL, __version__, "shop", JOB, "serve")
    thread = threading.Thread(target=link.serve, args=(hello, lambda welcome: party), daemon=True)
    thread.start()
    hub.wait_for_all(lambda absent, again: None)
    first, *others = [hub.by_id["shop"].load(RUN, RUN) for _ in range(50)]
    assert {answer.result(30).problem for answer in others} == {"another run is being loaded. Try again."}
    assert not first.done()
    party.go.set()
    assert first.result(30).problem == ""
    assert party.most == 1
    assert hub.by_id["shop"].load(RUN, RUN).result(30).problem == "", "and then the next one"
    hub.finish(Finished(True, "done", {}), lambda _: None, 10)
    hub.close()
    thread.join(30)
