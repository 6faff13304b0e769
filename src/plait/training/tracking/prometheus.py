"""The newest round in the text format of Prometheus."""

import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from plait._checks import need_path
from plait._files import write_atomically
from plait.training.history import Round
from plait.training.tracking.forecast import Forecast, Forecaster
from plait.training.tracking.tracker import Ending, RunFacts, Tracker

_PAUSE = 1.0  # seconds between two files: scrapers come less often, and a durable file costs milliseconds
_UNKNOWN = RunFacts((), 0, "")


@dataclass(frozen=True)
class RunGauges:
    """What is shown of a run: what it is, its newest round, all bytes so far, and whether it goes on."""

    facts: RunFacts = _UNKNOWN
    record: Round = field(default_factory=lambda: Round(0))
    forecast: Forecast = field(default_factory=Forecast)
    bytes_down: int = 0
    bytes_up: int = 0
    running: bool = False

    def after(self, record: Round, forecast: Forecast) -> "RunGauges":
        """The same after one more round."""
        down, up = self.bytes_down + record.bytes_down, self.bytes_up + record.bytes_up
        return replace(self, record=record, forecast=forecast, bytes_down=down, bytes_up=up)

    @property
    def ended(self) -> "RunGauges":
        """The same after the end: nothing runs, and no time is left."""
        return replace(self, forecast=Forecast(), running=False)

    def exposition(self) -> str:
        """The text that Prometheus reads; what is not known is left out."""
        labels = {"job": self.facts.job, "party": self.facts.party, "run": self.facts.run}
        known = ",".join(f'{key}="{_escaped(value)}"' for key, value in labels.items() if value)
        residual = max(self.record.primal, self.record.dual)
        gauges = [
            ("plait_training_running", "gauge", "1 while a run trains, else 0.", float(self.running)),
            ("plait_training_rows", "gauge", "Rows that are trained on.", float(self.facts.rows)),
            ("plait_training_rounds_total", "counter", "Rounds so far.", float(self.record.round)),
            ("plait_training_seconds_total", "counter", "Seconds of the run so far.", self.record.seconds),
            ("plait_training_sent_bytes_total", "counter", "Bytes that the coordinator sent.", float(self.bytes_down)),
            ("plait_training_received_bytes_total", "counter", "Bytes that parties sent.", float(self.bytes_up)),
            ("plait_training_objective", "gauge", "Mean loss and penalties.", self.record.objective),
            ("plait_training_gap", "gauge", "Proved relative gap to the optimum.", self.record.gap),
            ("plait_training_residual", "gauge", "The larger relative residual.", residual),
            ("plait_training_seconds_left", "gauge", "Seconds left, as foretold.", self.forecast.seconds_left),
        ]  # fmt: skip
        return "".join(
            f"# HELP {name} {words}\n# TYPE {name} {kind}\n{name}{{{known}}} {value!r}\n"
            for name, kind, words, value in gauges
            if value is not None and value == value
        )


class PrometheusFile(Tracker):
    """Keep the newest round in a file that Prometheus' node exporter reads (its textfile collector).

    Parameters
    ----------
    path : str or Path
        The file; the collector wants its name to end in `.prom`.  It is readable for its owner alone, so the collector
        runs as the same user.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = need_path("PrometheusFile(path)", path)
        self._gauges = RunGauges()
        self._forecaster = Forecaster()
        self._shown = 0.0

    def begin(self, facts: RunFacts) -> None:
        self._forecaster = Forecaster(facts.max_rounds, facts.tol)
        self._show(RunGauges(facts, running=True))

    def round(self, record: Round) -> None:
        self._gauges = self._gauges.after(record, self._forecaster.add(record))
        if time.monotonic() - self._shown >= _PAUSE:
            self._show(self._gauges)

    def end(self, ending: Ending) -> None:
        self._show(self._gauges.ended)

    def _show(self, gauges: RunGauges) -> None:
        self._gauges, self._shown = gauges, time.monotonic()
        write_atomically(self._path, gauges.exposition().encode())


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
