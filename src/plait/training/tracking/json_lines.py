"""Rounds as JSON lines: one object per line, each complete as soon as it is written."""

import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from plait._checks import need_path
from plait._files import make_folder, open_private
from plait.training.history import Round
from plait.training.tracking.forecast import Forecaster
from plait.training.tracking.tracker import Ending, RunFacts, Tracker, fields_of


def json_line(event: str, facts: dict[str, Any]) -> str:
    """One event as one line, with the time in UTC."""
    return json.dumps({"time": datetime.now(UTC).isoformat(), "event": event, **facts})


class JsonLinesFile(Tracker):
    """Write every event of a run as one JSON object per line.

    The events are "begin" (the fields of `RunFacts`), "round" (the fields of `plait.Round`, then `rate` in rounds a
    second, `rounds_expected` and `seconds_left`) and "end" (the fields of `Ending`).  Each has `time`, in UTC.  What is
    not known is null.  A file that exists is continued.

    Parameters
    ----------
    path : str or Path
        The file.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = need_path("JsonLinesFile(path)", path)
        self._file: Any = None
        self._forecaster = Forecaster()

    def begin(self, facts: RunFacts) -> None:
        self._forecaster = Forecaster(facts.max_rounds, facts.tol)
        self._write("begin", asdict(facts))

    def round(self, record: Round) -> None:
        self._write("round", fields_of(record) | self._forecaster.add(record).fields())

    def end(self, ending: Ending) -> None:
        self._write("end", asdict(ending))
        self._file.close()
        self._file = None

    def _write(self, event: str, facts: dict[str, Any]) -> None:
        if self._file is None:
            make_folder(self._path.parent)
            self._file = open_private(self._path, "ab")
        self._file.write((json_line(event, facts) + "\n").encode())
        self._file.flush()
