"""Trackers write what a run told them, in formats that others read."""

import csv
import json
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import plait
from plait import tracking
from plait.training.tracking.event_file import crc32c
from plait.training.tracking.forecast import duration

FACTS = tracking.RunFacts(("bank", "shop"), 300, "Subspace()", run="20260101-000000-abcdef", job="credit", party="bank")


@pytest.fixture(scope="module")
def tables() -> tuple[dict[str, np.ndarray], np.ndarray]:
    rng = np.random.default_rng(0)
    bank, shop = rng.normal(size=(300, 3)), rng.normal(size=(300, 2))
    return {"bank": bank, "shop": shop}, bank[:, 0] + shop[:, 1] + rng.logistic(size=300) > 0


def test_json_lines_tell_the_run_from_its_beginning_to_its_end(tables, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "new folder" / "rounds.jsonl"
    stopping = plait.Stopping(tol=1e-12)  # so that there are rounds enough to expect more
    fit = plait.fit(*tables, callbacks=[tracking.JsonLinesFile(path)], stopping=stopping)
    first, *rounds, last = [json.loads(line) for line in path.read_text().splitlines()]
    assert first["event"] == "begin"
    assert first["parties"] == ["bank", "shop"]
    assert first["rows"] == 300
    assert [line["round"] for line in rounds] == [r.round for r in fit.history]
    assert rounds[-1]["objective"] == fit.objective
    assert rounds[-1]["rounds_expected"] >= len(rounds)
    assert (last["event"], last["reason"], last["converged"]) == ("end", fit.reason, True)
    assert path.stat().st_mode & 0o077 == 0


def test_a_run_that_fails_is_told_as_failed(tables, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "rounds.jsonl"

    def stop(record: plait.Round) -> None:
        raise plait.PlaitError("enough")

    with pytest.raises(plait.PlaitError, match="enough"):
        plait.fit(*tables, callbacks=[tracking.JsonLinesFile(path), stop])
    last = json.loads(path.read_text().splitlines()[-1])
    assert (last["event"], last["failed"], last["reason"]) == ("end", True, "enough")


def test_csv_has_one_row_per_round(tables, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "rounds.csv"
    fit = plait.fit(*tables, callbacks=[tracking.CsvFile(path)])
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["objective"]) for row in rows] == [r.objective for r in fit.history]
    assert rows[0]["rho"] == ""


def test_crc32c_is_that_of_the_standard() -> None:
    assert crc32c(b"123456789") == 0xE3069283  # the check value of RFC 3720's polynomial
    assert crc32c(bytes(32)) == 0x8A9136AA  # RFC 3720, B.4


def records(data: bytes) -> Iterator[bytes]:
    """An independent reader of the framing: checksums are compared bit by bit."""

    def masked(part: bytes) -> int:
        crc = 0xFFFFFFFF
        for byte in part:
            crc ^= byte
            for _ in range(8):
                crc = (crc >> 1) ^ (0x82F63B78 * (crc & 1))
        crc ^= 0xFFFFFFFF
        return ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32

    while data:
        (length,) = struct.unpack("<Q", data[:8])
        assert struct.unpack("<I", data[8:12]) == (masked(data[:8]),)
        message = data[12 : 12 + length]
        assert struct.unpack("<I", data[12 + length : 16 + length]) == (masked(message),)
        yield message
        data = data[16 + length :]


def test_event_files_hold_the_objective_of_every_round(tables, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    fit = plait.fit(*tables, callbacks=[tracking.EventFile(tmp_path)])
    (path,) = tmp_path.glob("events.out.tfevents.*")
    version, *rounds = records(path.read_bytes())
    assert b"brain.Event:2" in version
    assert len(rounds) == len(fit.history)
    tag = b"plait/objective"
    for message, record in zip(rounds, fit.history, strict=True):
        (shown,) = struct.unpack("<f", message.split(tag)[1][1:5])  # after the tag: one byte of field 2, four of float
        assert shown == pytest.approx(record.objective, rel=1e-6)
        assert message[9:11] == bytes([0x10, record.round])


def test_the_newest_round_is_kept_for_prometheus(tmp_path: Path) -> None:
    tracker = tracking.PrometheusFile(tmp_path / "plait.prom")
    tracker.begin(FACTS)
    tracker.round(plait.Round(1, objective=0.5, bytes_up=10))
    tracker.round(plait.Round(2, objective=0.25, bytes_up=30))
    tracker.end(tracking.Ending("done", converged=True))
    lines = (tmp_path / "plait.prom").read_text().splitlines()
    labels = '{job="credit",party="bank",run="20260101-000000-abcdef"}'
    assert f"plait_training_rounds_total{labels} 2.0" in lines
    assert f"plait_training_received_bytes_total{labels} 40.0" in lines
    assert f"plait_training_objective{labels} 0.25" in lines
    assert f"plait_training_running{labels} 0.0" in lines
    assert not any(line.startswith("plait_training_gap{") for line in lines)


def test_a_steady_fall_is_followed_to_the_tolerance() -> None:
    forecaster = tracking.Forecaster(max_rounds=100, tol=1e-6)
    for number in range(1, 6):
        forecast = forecaster.add(plait.Round(number, gap=10.0**-number, seconds=2.0 * number))
    assert forecast.rounds_expected == 6
    assert forecast.rate == pytest.approx(0.5)
    assert forecast.seconds_left == pytest.approx(2.0)
    assert str(forecast) == "2 s a round, about 2 s left"


def test_no_end_is_foretold_where_nothing_is_measured() -> None:
    forecaster = tracking.Forecaster()
    for number in range(1, 6):
        forecast = forecaster.add(plait.Round(number, seconds=0.1 * number))
    assert forecast.rounds_expected is None
    assert str(forecast) == "10 rounds/s"


@pytest.mark.parametrize(("seconds", "words"), [(3.2, "3 s"), (250, "4 min 10 s"), (7510, "2 h 5 min")])
def test_durations_are_words_of_two_units_at_most(seconds: float, words: str) -> None:
    assert duration(seconds) == words


@pytest.mark.filterwarnings("ignore")  # of other libraries about each other
@pytest.mark.parametrize("kind", ["file://", "sqlite:///"])
def test_mlflow_gets_parameters_metrics_and_the_end(tmp_path: Path, kind: str) -> None:
    mlflow = pytest.importorskip("mlflow", reason="mlflow is an extra")
    if kind.startswith("sqlite"):
        pytest.importorskip("sqlalchemy", reason="MLflow itself, and not the extra, keeps runs in a database")
    uri = f"{kind}{tmp_path}/runs"
    tracker = tracking.MlflowRun(uri)
    tracker.begin(FACTS)
    tracker.round(plait.Round(1, objective=0.5))
    tracker.end(tracking.Ending("done", converged=True))
    client = mlflow.tracking.MlflowClient(uri)
    (run,) = client.search_runs([client.get_experiment_by_name("plait").experiment_id])
    assert run.data.params["parties"] == "bank, shop"
    assert run.data.metrics["objective"] == 0.5
    assert run.info.status == "FINISHED"


def test_mlflow_says_what_it_cannot_use_and_does_not_hold_up_a_run() -> None:
    mlflow = pytest.importorskip("mlflow", reason="mlflow is an extra")
    with pytest.raises(plait.PlaitError, match=r"must be given a folder .* Found 'nonsense://x'"):
        tracking.MlflowRun("nonsense://x")
    began = time.monotonic()
    with pytest.raises(mlflow.exceptions.MlflowException, match="refused"):
        tracking.MlflowRun("http://127.0.0.1:9").begin(FACTS)
    assert time.monotonic() - began < 60


def test_without_mlflow_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    monkeypatch.setitem(sys.modules, "mlflow.tracking", None)
    with pytest.raises(plait.PlaitError, match=r"plait\[mlflow\]"):
        tracking.MlflowRun()
