"""A coordinator with a good certificate that lies: the party ends the conversation, and says why."""

import json
import re
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from plait.messages import Broadcast, Parcel, Share
from plait.transports import handshake
from plait.transports.frames import Kind, pack

from . import hostile
from .conftest import Job, JobMaker
from .hostile import RUN, Talk

ROWS = 400
L1: dict[str, object] = {
    "method": 'name = "subspace"',
    "rounds": 20,
    "rows": ROWS,
    "patience": 5,
    "model": 'penalties = { shop = { name = "l1", alpha = 1e-3 } }',
}


def orders(memory: float = 3, coefficients: tuple[float, ...] = ()) -> np.ndarray:
    return np.array([0.0, memory, 0.0, 1.0, 1.0, 8.0, 0.0, 1.0, 0.0, len(coefficients), *coefficients])


def gradient(seed: int = 0) -> np.ndarray:
    """One that a logistic loss can have: the signs of fixed labels, sizes up to 1/N."""
    rng = np.random.default_rng(seed)
    return np.random.default_rng(99).choice([-1.0, 1.0], ROWS) * rng.uniform(0.1, 0.9, ROWS) / ROWS


def attacked(job: Job, script: object, phase: str = "fit", run: str = RUN, raw_welcome: bytes = b"") -> str:
    """What the party says in the end, when the coordinator plays a script."""
    with hostile.coordinator(job, script, phase, run, raw_welcome):  # type: ignore[arg-type]
        job.start("shop")
        assert job.wait("shop", 60) == 1, job.log("shop")
    said = job.log("shop")
    assert "Traceback" not in said
    assert len(said) < 20_000
    return said


def peak_memory(program: subprocess.Popen[bytes], seconds: float = 60) -> int:
    """Most kB that a program held until its end, or until the seconds are over.

    Not `getrusage`: that counts every other child of the test process, and what the test process held when it forked.
    """
    peak, deadline = 0, time.monotonic() + seconds
    while program.poll() is None and time.monotonic() < deadline:
        held = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{program.pid}/status").read_text())
        peak = int(held[1]) if held else peak  # a program that has just ended has no such line
        time.sleep(0.02)
    return peak


@pytest.mark.threat("coordinator", "more broadcasts than the job has rounds", "the party counts exchanges of a run")
def test_more_chosen_broadcasts_than_the_job_has_rounds_are_not_answered(jobs: JobMaker) -> None:
    job, answers = jobs(**L1), []

    def script(talk: Talk) -> None:
        for seq in range(1, 995):
            answer = talk.ask(Broadcast(min(seq, 20), gradient(seq), orders()), seq)
            if not isinstance(answer, Share):
                return
            answers.append(answer)

    said = attacked(job, script)
    assert len(answers) == 20  # the job's rounds
    assert "every round has one gradient" in said


@pytest.mark.threat("coordinator", "the same over many runs", "`trust.max_rounds`, over all runs on the data file")
def test_a_party_counts_its_answers_over_all_runs_on_its_data(jobs: JobMaker) -> None:
    job, answers = jobs(**L1), []
    shop = job.folder / "shop.toml"
    shop.write_text(shop.read_text().replace("[trust]", "[trust]\nmax_rounds = 25"))

    def script(talk: Talk) -> None:
        for seq in range(1, 15):
            answer = talk.ask(Broadcast(seq, gradient(seq), orders()), seq)
            if not isinstance(answer, Share):
                return
            answers.append(answer)
        talk.say(hostile.finished("again", ok=False))
        talk.hear()

    for number in range(3):
        said = attacked(job, script, run=f"20260101-120000-00000{number}")
    assert len(answers) == 25
    assert "raise trust.max_rounds" in said


@pytest.mark.threat("coordinator", "vectors that are no gradient of the loss", "range, and for labels -1/+1 the signs")
@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (Broadcast(1, 2 * gradient() * ROWS, orders()), "is at most 1 per row"),
        (Broadcast(1, gradient(), orders(memory=2e7)), "a memory of 1 to 4096"),
        (Broadcast(1, gradient(), orders()[:3]), "10 scalars or more"),
        (Broadcast(1, gradient(), orders(coefficients=(1.0,) * 9)), "coefficients"),
        (Broadcast(1, gradient(), np.zeros(60_000)), "must ask for"),
        (Broadcast(1, None, orders()), "a gradient, a question without one"),
        (Broadcast(21, gradient(), orders()), "has rounds 0 to 20"),
        (Broadcast(1, np.zeros(ROWS - 1), orders()), "one number for each of 400 rows"),
        (Broadcast(1, gradient().astype(np.float32), orders()), "must come in float64"),
        (Broadcast(1, np.full(ROWS, 1e200), orders()), "numbers up to 1e\\+100"),
        (Broadcast(1, gradient(), np.full(9, 1e200)), "scalars up to"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_broadcast_that_no_honest_coordinator_sends_is_not_answered(
    jobs: JobMaker, wrong: Broadcast, why: str
) -> None:
    job, answers = jobs(**L1), []
    said = attacked(job, lambda talk: answers.append(talk.ask(wrong, 1)))
    assert not isinstance(answers[0], Share)
    assert re.search(why, said), said


@pytest.mark.threat("coordinator", "vectors that are no gradient of the loss", "range, and for labels -1/+1 the signs")
def test_a_gradient_whose_signs_change_is_not_answered(jobs: JobMaker) -> None:
    job, answers = jobs(**L1), []

    def script(talk: Talk) -> None:
        answers.append(talk.ask(Broadcast(1, gradient(), orders()), 1))
        answers.append(talk.ask(Broadcast(2, -gradient(), orders()), 2))

    assert "keeps the signs of the labels" in attacked(job, script)
    assert [isinstance(answer, Share) for answer in answers] == [True, False]


@pytest.mark.threat(
    "coordinator", "gradients so small that one column moves", "no share of fewer than `trust.min_columns` columns"
)
def test_a_share_of_a_single_column_is_not_sent(jobs: JobMaker) -> None:
    """Gradients get smaller until few columns are worth their L1 penalty: the last one would be shown as it is."""
    job, shares = jobs(**L1), []

    def script(talk: Talk) -> None:
        low, high = 0.0, 1.0
        for seq in range(1, 20):
            scale = (low + high) / 2
            answer = talk.ask(Broadcast(seq, scale * gradient(), orders()), seq)
            if not isinstance(answer, Share) or answer.vector is None:
                return
            low, high = (low, scale) if np.abs(answer.vector).max() > 0 else (scale, high)
            shares.append(answer.vector)

    said = attacked(job, script)
    assert "a share must be made of 2 columns or more" in said
    columns = np.loadtxt(job.folder / "shop.csv", delimiter=",", skiprows=1, usecols=(1, 2, 3, 4))
    moved = [share for share in shares if np.abs(share).max() > 0]
    assert moved
    assert all(abs(np.corrcoef(share, column)[0, 1]) < 0.999999 for share in moved for column in columns.T)


@pytest.mark.threat("coordinator", "a run named by a path", "names of runs have one form")
@pytest.mark.parametrize("name", ["/tmp/elsewhere", "../../elsewhere", "..", "a\0b", "20260101-120000-0a1b2c/../x", ""])
def test_a_run_named_by_a_path_is_refused_and_nothing_is_written(jobs: JobMaker, name: str) -> None:
    job = jobs(**L1)
    (job.folder / "runs").mkdir()
    before = {path for path in job.folder.rglob("*") if path.name != "shop.log"}
    text = json.dumps({"type": "Welcome", "run": name, "key": hostile.KEY, "phase": "fit", "alignment": ""}).encode()
    said = attacked(job, lambda talk: None, raw_welcome=pack(Kind.CONTROL, 0, [text]))
    assert "a run must be named by date" in said
    assert {path for path in job.folder.rglob("*") if path.name != "shop.log"} == before
    assert not Path("/tmp/elsewhere").exists()


def test_a_gap_in_the_exchanges_is_noticed_before_the_next_answer(jobs: JobMaker) -> None:
    job, answers = jobs(**L1), []

    def script(talk: Talk) -> None:
        answers.append(talk.ask(Broadcast(1, gradient(), orders()), 1))
        answers.append(talk.ask(Broadcast(4, gradient(), orders()), 4, before=3))

    said = attacked(job, script)
    assert "Found a gap" in said
    assert "start over" in said
    assert not isinstance(answers[1], Share)


@pytest.mark.threat("coordinator", "terminal escapes in a reason", "control characters are replaced")
def test_what_the_coordinator_says_cannot_steer_the_terminal(jobs: JobMaker) -> None:
    job = jobs(**L1)

    def script(talk: Talk) -> None:
        text = {"type": "Finished", "ok": False, "reason": "\x1b]0;owned\x07\x1b[2J\u202e" * 300, "details": {}}
        talk.say(pack(Kind.CONTROL, 0, [json.dumps(text).encode()]))
        talk.hear()

    said = attacked(job, script)
    assert "\x1b" not in said
    assert "\u202e" not in said


def test_a_party_that_came_to_train_gives_no_scores_and_aligns_nothing(jobs: JobMaker) -> None:
    for frame in (handshake.encode(handshake.Query(["r1"]), 1), hostile.pack_parcel(Parcel("announce"), 1)):
        job, answers = jobs(**L1), []

        def script(talk: Talk, frame: bytes = frame, answers: list[object] = answers) -> None:
            talk.say(frame)
            answers.append(talk.hear())

        assert "this party is here to fit" in attacked(job, script)


@pytest.mark.threat(
    "coordinator",
    "2e7 models in one message; asks and never reads",
    "numbers of a message are bounded; few answers wait",
)
def test_a_coordinator_that_asks_and_never_reads_does_not_fill_the_memory(jobs: JobMaker) -> None:
    job = jobs(**L1)

    def script(talk: Talk) -> None:
        for seq in range(1, 2000):
            message = Broadcast(min(seq, 20), gradient(seq), orders())
            for data in hostile.frames(message, seq, seq - 1):
                talk.say(data)
        hostile.threading.Event().wait(5)

    with hostile.coordinator(job, script):
        assert 30_000 < peak_memory(job.start("shop")) < 700_000  # kB; 1.5 GB in the attack
    assert job.wait("shop") == 1, job.log("shop")


@pytest.mark.threat(
    "coordinator", "the same question for ever", "an answer is repeated a few times between two new ones"
)
def test_an_exchange_is_not_repeated_for_ever_nor_logged_at_length(jobs: JobMaker) -> None:
    job, answers = jobs(**L1), []

    def script(talk: Talk) -> None:
        for _ in range(5000):
            answers.append(talk.ask(Broadcast(1, gradient(), orders()), 1))
            if not isinstance(answers[-1], Share):
                return

    assert "asked for again" in attacked(job, script)
    assert len(answers) < 100
    assert {answer.digest for answer in answers[:-1]} == {answers[0].digest}
    assert sum(path.stat().st_size for path in job.folder.rglob("audit.jsonl")) < 50_000


@pytest.mark.threat("coordinator", "numbers at the edge of what is a number", "an answer of finite numbers, or none")
@pytest.mark.parametrize(
    ("place", "value"),
    [
        (4, 5e-324),
        *(
            pytest.param(place, value, marks=pytest.mark.slow)
            for place, value in [
                (0, 4096.0),
                (2, 1e49),
                (2, -1e49),
                (2, 5e-324),
                (4, 1e49),
                (5, -0.0),
                (5, 1e49),
                (6, -0.0),
            ]
        ),
    ],
)
def test_strange_orders_are_answered_with_numbers_or_not_at_all(jobs: JobMaker, place: int, value: float) -> None:
    job, answers = jobs(**L1), []

    def script(talk: Talk) -> None:
        for seq in (1, 2):
            wrong = orders()
            wrong[place] = value
            tiny = np.where(np.arange(ROWS) % 2, gradient(), np.sign(gradient()) * 5e-324)
            answers.append(talk.ask(Broadcast(seq, tiny, wrong), seq))
        talk.say(hostile.finished("enough", ok=False))
        talk.hear()

    attacked(job, script)
    for answer in answers:
        assert not isinstance(answer, Share) or answer.vector is None or np.isfinite(answer.vector).all()


ALIGNED: dict[str, object] = {
    "rounds": 5,
    "rows": ROWS,
    "patience": 5,
    "more": "[alignment]\nmin_rows = 100\n",
}


@pytest.mark.threat(
    "coordinator",
    "invented sets, sets of one id, repeated elements",
    "sets are those of the job, at least `min_rows` each, elements differ",
)
@pytest.mark.parametrize(
    ("sizes", "why"),
    [
        ({"shop": ROWS, **{f"probe-{i}": 1 for i in range(400)}}, "an alignment must be among"),
        ({"shop": ROWS, "../../elsewhere": 200}, "an alignment must be among"),
        ({"shop": ROWS, "coordinator": 200, "shop2": 200}, "an alignment must be among"),
        ({"shop": ROWS, "coordinator": 1}, "at least 100"),
        ({"shop": ROWS, "coordinator": 1 << 40}, "none larger than"),
    ],
)
def test_sets_that_are_not_those_of_the_job_are_refused(jobs: JobMaker, sizes: dict[str, int], why: str) -> None:
    job, answers = jobs(**ALIGNED), []
    before = {path for path in job.folder.rglob("*") if "shop" not in path.name}

    def script(talk: Talk) -> None:
        talk.parcel(Parcel("announce"), 1)
        answers.append(talk.parcel(Parcel("begin", data=json.dumps(sizes).encode()), 2))

    job.command = lambda name, *more: [*Job.command(job, name), "--yes"]  # type: ignore[method-assign]
    assert why in attacked(job, script, phase="align")
    assert not isinstance(answers[0], Parcel)
    assert not set(job.folder.rglob("*taken*"))
    assert before <= set(job.folder.rglob("*"))


@pytest.mark.threat("coordinator", "questions of an alignment without end", "as many as these sets take, four times")
def test_an_alignment_has_an_end(jobs: JobMaker) -> None:
    job, answers = jobs(**ALIGNED), []

    def script(talk: Talk) -> None:
        for seq in range(1, 5000):
            answers.append(talk.parcel(Parcel("announce"), seq))
            if not isinstance(answers[-1], Parcel):
                return

    job.command = lambda name, *more: [*Job.command(job, name), "--yes"]  # type: ignore[method-assign]
    assert "takes at most" in attacked(job, script, phase="align")
    assert len(answers) < 200
    assert sum(path.stat().st_size for path in job.folder.rglob("audit.jsonl")) < 100_000


@pytest.mark.threat("coordinator", "more places traced than were agreed on", "each place is led back once")
def test_places_beyond_those_agreed_on_are_not_led_back(jobs: JobMaker) -> None:
    """100 are agreed on; every further question is about other places."""
    from plait.alignment import group
    from plait.alignment.group import new_exponent

    job, answers = jobs(**ALIGNED), []
    exponent = new_exponent(bytes(range(64)))
    own = group.hash_and_blind([f"probe{i}".encode() for i in range(2000)], exponent)

    def script(talk: Talk) -> None:
        sizes = {"shop": ROWS, "coordinator": 2000}
        talk.parcel(Parcel("announce"), 1)
        talk.parcel(Parcel("begin", data=json.dumps(sizes).encode()), 2)
        talk.parcel(Parcel("take", "coordinator", 0, 0, own), 3)
        talk.parcel(Parcel("propose", count=100), 4)
        for k in range(20):
            places = np.arange(100 * k, 100 * k + 100, dtype="<u8").tobytes()
            answers.append(talk.parcel(Parcel("trace", "coordinator", 0, 0, places), 5 + k))

    job.command = lambda name, *more: [*Job.command(job, name), "--yes"]  # type: ignore[method-assign]
    said = attacked(job, script, phase="align")
    assert "must stay the same" in said
    assert sum(isinstance(answer, Parcel) for answer in answers) == 1
