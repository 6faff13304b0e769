"""A coordinator that lies about how a run ends, or begins again: the party's program comes to an end of its own."""

import pytest

from plait.messages import Broadcast, Share
from plait.transports import handshake
from plait.transports.handshake import Finished, Refused

from . import hostile
from .conftest import JobMaker
from .hostile import Talk
from .test_attacks_of_a_coordinator import L1, attacked, gradient, orders


@pytest.mark.threat("coordinator", "announces phase after phase for ever", "one start goes through 16 phases")
def test_ends_that_announce_another_phase_come_to_an_end(jobs: JobMaker) -> None:
    """Where an alignment ends, a party calls again for what follows it; a training is followed by no alignment."""
    job, ends = jobs(**L1), []

    def script(talk: Talk) -> None:
        ends.append(1)
        talk.say(hostile.finished("ok", phase="align"))
        talk.hear()

    assert "goes through 16 phases" in attacked(job, script)
    assert len(ends) == 16
    (log,) = job.folder.glob("runs/*/shop/audit.jsonl")
    assert log.read_text().count('"finished"') == 1


@pytest.mark.threat("coordinator", "goes on with a run that has finished", "a finished run answers nothing new")
def test_a_finished_run_is_not_continued(jobs: JobMaker) -> None:
    job, answers = jobs(**L1), []

    def train(talk: Talk) -> None:
        for seq in (1, 2, 3):
            assert isinstance(talk.ask(Broadcast(seq, gradient(seq), orders()), seq), Share)
        talk.say(hostile.finished("done"))
        talk.hear()

    with hostile.coordinator(job, train):
        job.start("shop")
        assert job.wait("shop", 60) == 0, job.log("shop")
    (weights,) = job.folder.glob("runs/*/shop/weights.json")
    trained = weights.read_bytes()
    said = attacked(job, lambda talk: answers.append(talk.ask(Broadcast(4, gradient(4), orders()), 4)))
    assert isinstance(answers[0], Finished)
    assert "has finished here is not continued" in said
    assert weights.read_bytes() == trained


@pytest.mark.threat(
    "coordinator", "says for ever that it is not ready", "`coordinator.patience`, from the last request"
)
def test_a_party_does_not_come_again_for_ever(jobs: JobMaker) -> None:
    job = jobs(**L1)  # its patience is 5 seconds
    said = attacked(job, lambda talk: talk.say(handshake.encode(Refused("come again", retry=True))))
    assert "must be reachable" in said
