"""The rows that protected runs were trained on: what two runs tell together shows no label of the rows they differ in.

Of a run a party learns D^T y.  Of two runs it learns the difference: D^T y of the rows that only one of them had, and
so as many of their labels as it has columns, exactly.  A blind machine knows a row again by how its score moves.  So
the rows that were in the same runs, each with the same label, must be many.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from plait._types import Array
from plait.deployment.job_file import Job, PartyFile
from plait.deployment.row_sets import Names, RowSets, among, digest_of, names_of
from plait.errors import PrivacyError
from plait.protection.leverage import MAX_COLUMNS_SHARE


def too_few(earlier: Sequence[Names], new: Names, least: int) -> Names:
    """The rows that fewer than `least` rows share all their runs with, and fewer than before the new run."""
    names = np.unique(np.concatenate([*earlier, new]))
    before = _together(names, earlier)
    after = _together(names, [*earlier, new])
    before[~np.logical_or.reduce([among(run, names) for run in earlier])] = names.size  # in no run before
    return names[after < np.minimum(before, least)]


def _together(names: Names, runs: Sequence[Names]) -> npt.NDArray[np.int64]:
    """For each row (n,), how many rows were in the same of these runs."""
    group = np.zeros(names.size, dtype=np.int64)
    for run in runs:
        group = 2 * group + among(run, names)
        group = (np.cumsum(np.bincount(group) > 0) - 1)[group]
    return np.bincount(group)[group]


def note_rows(job: Job, file: PartyFile, ids: Sequence[str], labels: Array, columns: int | None) -> None:
    """Note durably which rows this run of the label party has; PrivacyError where earlier runs forbid it.

    columns: of the party that has most of them; None where nobody knows, and then all rows must be those of before.
    """
    names = names_of(ids, labels)
    least = len(ids) if columns is None or not file.data.id else math.ceil(columns / MAX_COLUMNS_SHARE)
    sets, digest = RowSets(file.path("counts") / f"{file.name}-rows"), digest_of(names)
    with sets.locked():
        if any(known == digest and number >= least for known, number in sets.known):
            return
        earlier = [sets.read(known) for known in sorted({known for known, _ in sets.known} - {digest})]
        shown = too_few(earlier, names, least).size if earlier else 0
        if shown and not file.trust.accept_other_rows:
            raise PrivacyError(_refusal(job, file, shown, least))
        sets.add(names, least)


def _refusal(job: Job, file: PartyFile, shown: int, least: int) -> str:
    who = "a blind machine and the other party" if job.blind is not None else "a party"
    how = "Name the ids (data.id), by which rows are known again. " if not file.data.id else ""
    return (
        f"rows that are not in the same protected runs as before, or have another label, must be {least} or more "
        f"together: {who} would learn labels of fewer from the difference of two runs. Found {shown}. {how}Train with "
        f"the same rows as before, or change more of them at once. If those labels may be learnt, set "
        f"trust.accept_other_rows = true in {file.name}.toml."
    )
