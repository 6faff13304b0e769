"""The rows that protected runs were trained on: what two runs tell together shows no label of the rows they differ in.

Of a run a party learns D^T y.  Of two runs it learns the difference: D^T y of the rows that only one of them had, and
so as many of their labels as it has columns, exactly.  A blind machine knows a row again by how its score moves.  So
the rows that were in the same runs, each with the same label, must be many.
"""

import fcntl
import hashlib
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from plait._files import make_folder, open_private, write_atomically
from plait._texts import Texts
from plait._types import Array
from plait.deployment.job_file import Job, PartyFile
from plait.errors import PrivacyError, StorageError
from plait.protection.leverage import MAX_COLUMNS_SHARE

Names = npt.NDArray[np.uint64]
_MIX = np.uint64(0x9E3779B97F4A7C15)  # odd, from the golden ratio: spreads a label over all 64 bits


def names_of(ids: Sequence[str], labels: Array) -> Names:
    """64 bits for every row with its label, in ascending order."""
    texts = ids if type(ids) is Texts else Texts.of(ids)  # row numbers are not kept as texts
    each = np.ascontiguousarray(labels + 0.0, dtype=np.float64).view(np.uint64)  # + 0: -0 and 0 are one label
    mixed = (texts.hashes() ^ (each * _MIX)) * _MIX
    return np.unique(mixed ^ (mixed >> np.uint64(32)))


def too_few(earlier: Sequence[Names], new: Names, least: int) -> Names:
    """The rows that fewer than `least` rows share all their runs with, and fewer than before the new run."""
    names = np.unique(np.concatenate([*earlier, new]))
    before = _together(names, earlier)
    after = _together(names, [*earlier, new])
    before[~np.logical_or.reduce([_among(run, names) for run in earlier])] = names.size  # in no run before
    return names[after < np.minimum(before, least)]


def _together(names: Names, runs: Sequence[Names]) -> npt.NDArray[np.int64]:
    """For each row (n,), how many rows were in the same of these runs."""
    group = np.zeros(names.size, dtype=np.int64)
    for run in runs:
        group = 2 * group + _among(run, names)
        group = (np.cumsum(np.bincount(group) > 0) - 1)[group]
    return np.bincount(group)[group]


def _among(run: Names, names: Names) -> npt.NDArray[np.bool_]:
    """Which names (n,) are in the run; both in ascending order."""
    return run[np.minimum(np.searchsorted(run, names), run.size - 1)] == names


def note_rows(job: Job, file: PartyFile, ids: Sequence[str], labels: Array, columns: int | None) -> None:
    """Note durably which rows this run of the label party has; PrivacyError where earlier runs forbid it.

    columns: of the party that has most of them; None where nobody knows, and then all rows must be those of before.
    """
    names = names_of(ids, labels)
    least = len(ids) if columns is None or not file.data.id else math.ceil(columns / MAX_COLUMNS_SHARE)
    folder = make_folder(file.path("counts") / f"{file.name}-rows")
    with open_private(folder / "lock", "ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        path = folder / f"{_digest(names)}-{least}"
        others = {each.name.partition("-")[0]: _read(each) for each in sorted(folder.glob("*-*"))}
        if any(_least(each) >= least for each in folder.glob(f"{_digest(names)}-*")):
            return
        others.pop(_digest(names), None)
        if others and not file.trust.accept_other_rows:
            shown = too_few(list(others.values()), names, least).size
            if shown:
                raise PrivacyError(_refusal(job, file, shown, least))
        write_atomically(path, names.astype("<u8").tobytes())


def _refusal(job: Job, file: PartyFile, shown: int, least: int) -> str:
    who = "a blind machine and the other party" if job.blind is not None else "a party"
    how = "Name the ids (data.id), by which rows are known again. " if not file.data.id else ""
    return (
        f"rows that are not in the same protected runs as before, or have another label, must be {least} or more "
        f"together: {who} would learn labels of fewer from the difference of two runs. Found {shown}. {how}Train with "
        f"the same rows as before, or change more of them at once. If those labels may be learnt, set "
        f"trust.accept_other_rows = true in {file.name}.toml."
    )


def _digest(names: Names) -> str:
    return hashlib.sha256(names.astype("<u8").tobytes()).hexdigest()[:32]


def _least(path: Path) -> int:
    return int(path.name.partition("-")[2])


def _read(path: Path) -> Names:
    data = path.read_bytes()
    names = np.frombuffer(data, dtype="<u8") if len(data) % 8 == 0 else np.empty(0, dtype="<u8")
    if _digest(names) != path.name.partition("-")[0]:
        raise StorageError(f"{path} must hold the rows of an earlier run. Found it changed. Restore a copy of it.")
    return names.astype(np.uint64)
