"""Rounds as a CSV file: one row per round, written as it ends."""

import csv
import io
from dataclasses import fields
from pathlib import Path
from typing import Any

from plait._checks import need_path
from plait._files import make_folder, open_private
from plait.training.history import Round
from plait.training.tracking.tracker import Ending, RunFacts, Tracker, fields_of

_COLUMNS = [field.name for field in fields(Round)]


class CsvFile(Tracker):
    """Write one row per round, with the fields of `plait.Round` as columns; what is not known is left empty.

    A new run replaces the file.

    Parameters
    ----------
    path : str or Path
        The file.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = need_path("CsvFile(path)", path)
        self._file: Any = None

    def begin(self, facts: RunFacts) -> None:
        make_folder(self._path.parent)
        self._file = open_private(self._path, "wb")
        self._write(_COLUMNS)

    def round(self, record: Round) -> None:
        if self._file is not None:
            self._write(list(fields_of(record).values()))

    def end(self, ending: Ending) -> None:
        self._file.close()
        self._file = None

    def _write(self, cells: list[Any]) -> None:
        line = io.StringIO()
        csv.writer(line).writerow(cells)
        self._file.write(line.getvalue().encode())
        self._file.flush()
