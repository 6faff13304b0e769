"""The scores of new rows, with what each of them lacks."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from plait._files import write_atomically
from plait._types import Array
from plait.deployment.job_file import Job
from plait.deployment.scorer import LIMIT_REACHED
from plait.errors import InputError, PrivacyError, ProtocolError
from plait.messages import Share

SOMEBODY = "some party"
"""Who lacks a row after a private join: nobody knows."""
_SHOWN = 5  # ids in an error: enough to find the cause


@dataclass(frozen=True)
class JointScores:
    """Ids and scores z (N,) of new rows; NaN where a row has no score.

    missing   the parties that lack each row, none for a complete one
    policy    what the job says about rows that a party lacks
    """

    ids: Sequence[str]
    values: Array
    folder: Path
    missing: Sequence[tuple[str, ...]]
    policy: str

    @classmethod
    def of(
        cls,
        job: Job,
        ids: Sequence[str],
        intercept: float,
        parts: Mapping[str, Share],
        folder: Path,
        known: NDArray[np.int64] | None = None,
    ) -> "JointScores":
        """Add the parts up.  `known` (N,) says where each id stands in them, -1 for nowhere; None for all in order."""
        count = len(ids)
        at = np.arange(count) if known is None else known
        absent = at < 0
        total = np.full(count, intercept)
        lacking: dict[str, NDArray[np.bool_]] = {SOMEBODY: absent} if absent.any() else {}
        for name in job.parties:
            vector, marks = parts[name].vector, parts[name].scalars
            if vector is None or marks.size not in (0, vector.size):
                raise ProtocolError(f"party {name!r} must answer with a score and a mark for each id. Found others.")
            if (marks == LIMIT_REACHED).any():
                raise PrivacyError(
                    f"{count} scores must fit into the limits of party {name!r} (trust.max_queries a minute, "
                    "trust.scores_per_id, trust.max_scores in its file). Found them exceeded. Nothing was written."
                )
            total += np.where(absent, 0.0, vector[at])
            if marks.any():
                lacking[name] = np.where(absent, False, marks[at] > 0)
        missing = (
            [tuple(name for name, rows in lacking.items() if rows[i]) for i in range(count)]
            if lacking
            else [()] * count
        )
        found = cls(ids, total, folder, missing, job.scoring.missing)
        return found._by_policy(len(job.parties))

    def _by_policy(self, parties: int) -> "JointScores":
        lost = [i for i, names in enumerate(self.missing) if names]
        if self.policy == "refuse" and lost:
            names = sorted({name for i in lost for name in self.missing[i]})
            examples = ", ".join(self.ids[i] for i in lost[:_SHOWN]) + (", ..." if len(lost) > _SHOWN else "")
            remedy = '"leave out"' if SOMEBODY in names else '"mean" or "leave out"'
            raise InputError(
                'every new row must be known to all parties (scoring.missing = "refuse" in the job). Found '
                f"{len(lost)} of {len(self.ids)} that are not, at {', '.join(names)}: {examples}. A row that was "
                "trained on, or asked for too often, counts as unknown. Mend the files, or set scoring.missing to "
                f"{remedy} in the job file of every party."
            )
        values = self.values.copy()
        for i in lost:
            if self.policy == "leave out" or len(self.missing[i]) == parties:
                values[i] = np.nan
        return JointScores(self.ids, values, self.folder, self.missing, self.policy)

    @property
    def complete(self) -> NDArray[np.bool_]:
        """Which rows (N,) have a score."""
        return np.isfinite(self.values)

    def write(self, path: Path, probabilities: Array | None, decimals: int | None) -> None:
        """A CSV file, rounded where that is wanted: exact scores tell more about the columns than a decision needs."""
        text = io.StringIO()
        out = csv.writer(text)
        out.writerow(["id", "score", *(["probability"] if probabilities is not None else []), "missing", "policy"])
        columns = [self.values] if probabilities is None else [self.values, probabilities]
        for i, name in enumerate(self.ids):
            cells = [_shown(float(column[i]), decimals) for column in columns]
            out.writerow([name, *cells, " ".join(self.missing[i]), self._applied(i)])
        write_atomically(path, text.getvalue().encode())

    def _applied(self, i: int) -> str:
        if not self.missing[i]:
            return ""
        return self.policy if np.isfinite(self.values[i]) else "left out"


def _shown(value: float, decimals: int | None) -> str:
    if not np.isfinite(value):
        return ""
    return repr(value) if decimals is None else f"{value:.{decimals}f}"
