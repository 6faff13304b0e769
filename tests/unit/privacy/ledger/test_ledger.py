import json
import math
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from plait.errors import BudgetError, PrivacyError, SettingError
from plait.privacy.accounting import Cost, mu_of
from plait.privacy.ledger.budget import Budget, Unlimited
from plait.privacy.ledger.ledger import Ledger
from plait.privacy.noise import InsecureTestNoise, KeyedNoise, Release

DATA = "the data"
BUDGET = Budget(1.0, 1e-5)
TENTH = Cost(mu=mu_of(1.0, 1e-5) / math.sqrt(10) * (1 - 1e-12))
NOISE = InsecureTestNoise(0)


def release(round_: int, digest: str = "aa", run: str = "run") -> Release:
    return Release(run, "bank", round_, "gradient", digest)


def open_ledger(root: Path) -> Ledger:
    return Ledger(root, "bank", DATA, BUDGET)


def send(ledger: Ledger, round_: int, content: bytes = b"bytes", digest: str = "aa") -> bytes:
    return ledger.release(release(round_, digest), TENTH, "R", NOISE, lambda: content)


def test_charges_add_up_to_the_budget_and_no_further(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path)
    for k in range(10):
        send(ledger, k)
    assert ledger.spent().epsilon(1e-5) == pytest.approx(1.0)
    computed = []

    def compute() -> bytes:
        computed.append(1)
        return b"too much"

    with pytest.raises(BudgetError, match="Nothing was released"):
        ledger.release(release(10), TENTH, "R", NOISE, compute)
    assert not computed
    assert len(ledger.charges()) == 10


def test_charges_are_remembered_across_runs_and_processes(tmp_path: Path) -> None:
    for k in range(3):
        open_ledger(tmp_path).release(release(0, run=f"trial {k}"), TENTH, "R", NOISE, lambda: b"x")
    assert open_ledger(tmp_path).spent().mu == pytest.approx(TENTH.mu * math.sqrt(3))


def test_a_resumed_run_sends_the_same_bytes_for_no_new_charge(tmp_path: Path) -> None:
    send(open_ledger(tmp_path), 1, b"first")
    assert send(open_ledger(tmp_path), 1, b"second") == b"first"
    assert len(open_ledger(tmp_path).charges()) == 1


def test_a_release_reserved_before_a_crash_is_computed_again_for_no_new_charge(tmp_path: Path) -> None:
    open_ledger(tmp_path).reserve(release(1), TENTH, "R", NOISE)
    assert send(open_ledger(tmp_path), 1, b"now") == b"now"
    assert len(open_ledger(tmp_path).charges()) == 1


def test_another_secret_makes_a_reserved_release_a_new_one(tmp_path: Path) -> None:
    open_ledger(tmp_path).reserve(release(1), TENTH, "R", KeyedNoise())
    open_ledger(tmp_path).reserve(release(1), TENTH, "R", KeyedNoise())
    assert len(open_ledger(tmp_path).charges()) == 2


def test_the_same_round_with_other_inputs_pays_again(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path)
    send(ledger, 1, digest="aa")
    send(ledger, 1, digest="bb")
    assert len(ledger.charges()) == 2
    for k in range(8):
        send(ledger, 2 + k)
    with pytest.raises(BudgetError, match="other inputs"):
        send(ledger, 1, digest="cc")


def test_one_noise_key_cannot_serve_two_noise_scales(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path)
    send(ledger, 1)
    with pytest.raises(PrivacyError, match="noise scale"):
        ledger.reserve(release(1), Cost(mu=TENTH.mu / 2), "R", NOISE)


def test_a_failing_computation_stays_paid(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path)

    def fail() -> bytes:
        raise RuntimeError("no memory")

    with pytest.raises(RuntimeError):
        ledger.release(release(1), TENTH, "R", NOISE, fail)
    assert len(ledger.charges()) == 1


def test_a_release_without_guarantee_needs_an_unlimited_ledger(tmp_path: Path) -> None:
    unbounded = Cost(mu=math.inf)
    with pytest.raises(BudgetError):
        open_ledger(tmp_path / "a").reserve(release(1), unbounded, "paper", NOISE)
    ledger = Ledger(tmp_path / "b", "bank", DATA, Unlimited())
    ledger.reserve(release(1), unbounded, "paper", NOISE)
    assert ledger.spent().epsilon(1e-5) == math.inf
    entry = json.loads(ledger.path.read_text().splitlines()[1])
    assert entry["body"]["guarantee"] == "none"
    assert entry["version"] == 2


def test_test_noise_is_recorded(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path)
    send(ledger, 1)
    assert "INSECURE" in ledger.charges()[0].noise


def test_a_ledger_keeps_its_budget(tmp_path: Path) -> None:
    open_ledger(tmp_path)
    with pytest.raises(PrivacyError, match="opened with"):
        Ledger(tmp_path, "bank", DATA, Budget(5.0))


def test_each_party_and_each_table_has_its_own_ledger(tmp_path: Path) -> None:
    paths = {Ledger(tmp_path, p, f, BUDGET).path for p in ("bank", "shop") for f in (DATA, "other")}
    assert len(paths) == 4
    with pytest.raises(PrivacyError, match="own party"):
        Ledger(tmp_path, "shop", DATA, BUDGET).reserve(release(1), TENTH, "R", NOISE)
    with pytest.raises(SettingError, match="table"):
        Ledger(tmp_path, "bank", "../escape", BUDGET)


def test_a_deleted_ledger_counts_as_spent(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path)
    send(ledger, 1)
    ledger.path.unlink()
    with pytest.raises(PrivacyError, match="counts as spent"):
        open_ledger(tmp_path)


def test_a_deleted_marker_counts_as_spent(tmp_path: Path) -> None:
    send(open_ledger(tmp_path), 1)
    next(tmp_path.glob("*.head.json")).unlink()
    with pytest.raises(PrivacyError, match="counts as spent"):
        open_ledger(tmp_path)


@pytest.mark.parametrize("damage", ["drop the last line", "drop a middle line", "edit a cost", "add a line"])
def test_a_damaged_ledger_counts_as_spent(tmp_path: Path, damage: str) -> None:
    ledger = open_ledger(tmp_path)
    for k in range(3):
        send(ledger, k)
    lines = ledger.path.read_text().splitlines(keepends=True)
    changed = {
        "drop the last line": lines[:-1],
        "drop a middle line": lines[:2] + lines[3:],
        "edit a cost": [lines[0], lines[1].replace('"mu": 0.0', '"mu": 0.00'), *lines[2:]],
        "add a line": [*lines, lines[-1]],
    }[damage]
    assert changed != lines
    ledger.path.write_text("".join(changed))
    with pytest.raises(PrivacyError, match="counts as spent"):
        open_ledger(tmp_path).spent()


def test_a_stored_release_that_was_changed_is_not_sent(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path)
    send(ledger, 1)
    next(ledger.path.parent.glob("releases/*.bin")).write_bytes(b"other")
    with pytest.raises(PrivacyError, match="byte for byte"):
        send(ledger, 1)


@pytest.mark.parametrize("kept", [0, 1, 40, -1])
def test_an_entry_torn_by_a_crash_counts_as_spent(tmp_path: Path, kept: int) -> None:
    ledger = open_ledger(tmp_path)
    send(ledger, 1)
    head = next(tmp_path.glob("*.head.json"))
    before, size = json.loads(head.read_text()), ledger.path.stat().st_size
    ledger.reserve(release(2), TENTH, "R", NOISE)
    content = ledger.path.read_bytes()
    line = content[size:]
    # What a crash leaves while the second charge is being written: announced in the head, partly on disk.
    body = json.loads(line)["body"]
    head.write_text(json.dumps({**before, "pending": {"kind": "reserve", "body": body}}))
    ledger.path.write_bytes(content[:size] + line[:kept])
    for _ in range(2):
        assert open_ledger(tmp_path).spent().mu == pytest.approx(TENTH.mu * math.sqrt(2))
    send(open_ledger(tmp_path), 3)
    assert open_ledger(tmp_path).spent().mu == pytest.approx(TENTH.mu * math.sqrt(3))


def spend(root: str, worker: int, accepted: "multiprocessing.Queue[int]") -> None:
    ledger = open_ledger(Path(root))
    count = 0
    for k in range(8):
        try:
            ledger.reserve(release(k, run=f"worker {worker}"), TENTH, "R", NOISE)
            count += 1
        except BudgetError:
            pass
    accepted.put(count)


def test_processes_on_one_ledger_cannot_both_spend(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    accepted = context.Queue()
    workers = [context.Process(target=spend, args=(str(tmp_path), w, accepted)) for w in range(3)]
    for worker in workers:
        worker.start()
    counts = [accepted.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join()
    assert sum(counts) == 10
    assert open_ledger(tmp_path).spent().epsilon(1e-5) <= 1.0


VICTIM = """
import sys
from pathlib import Path
from plait.privacy.accounting import Cost
from plait.privacy.ledger.budget import Budget
from plait.privacy.ledger.ledger import Ledger
from plait.privacy.noise import InsecureTestNoise, Release
ledger = Ledger(Path(sys.argv[1]), "bank", sys.argv[2], Budget(100.0))
for k in range(100000):
    release = Release("run", "bank", k, "g", "d")
    ledger.release(release, Cost(mu=1e-3), "R", InsecureTestNoise(0), lambda: b"%d" % k)
    print(k, flush=True)
"""


@pytest.mark.parametrize("delay", [0.0, 0.013, 0.03])
def test_a_killed_process_never_forgets_what_it_sent(tmp_path: Path, delay: float) -> None:
    command = [sys.executable, "-c", VICTIM, str(tmp_path), DATA]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as victim:
        assert victim.stdout is not None
        for _ in range(5):
            victim.stdout.readline()
        time.sleep(delay)
        os.kill(victim.pid, signal.SIGKILL)
        sent = 5 + len(victim.stdout.read().splitlines())
    ledger = Ledger(tmp_path, "bank", DATA, Budget(100.0))
    assert sent <= len(ledger.charges()) <= sent + 1
    resent = ledger.release(
        Release("run", "bank", 3, "g", "d"), Cost(mu=1e-3), "R", InsecureTestNoise(0), lambda: b"fresh noise"
    )
    assert resent == b"3"
