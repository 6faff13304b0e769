"""Data sets: each file has one function that returns the parties' tables and the labels -1/+1."""

import os
from pathlib import Path

Parts = tuple[object, ...]


class Absent(Exception):
    """A data set that is not on this machine, and how to bring it here."""


def data_file(name: str) -> Path:
    """A file under PLAIT_DATA."""
    root = os.environ.get("PLAIT_DATA")
    if not root:
        raise Absent("PLAIT_DATA is not set: let it name the folder with the data sets")
    path = Path(root) / name
    if not path.exists():
        raise Absent(f"{name} is not in PLAIT_DATA")
    return path


def split(table, widths):
    """Consecutive columns, as many as each party has."""
    ends = [sum(widths[: i + 1]) for i in range(len(widths))]
    return tuple(table[:, end - width : end] for width, end in zip(widths, ends, strict=True))


def standardised(table):
    """Mean 0 and standard deviation 1 in every column that varies."""
    deviation = table.std(axis=0)
    deviation[deviation == 0] = 1.0
    return (table - table.mean(axis=0)) / deviation
