"""The scores of new rows, and which parties lack each row."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from plait._files import need_own_file, write_atomically
from plait._types import Array
from plait.deployment.common_rows import lacking
from plait.deployment.job_file import Job
from plait.errors import InputError, PrivacyError, ProtocolError
from plait.messages import Share
from plait.problem.losses import Loss, Poisson
from plait.transports.law import LIMIT_REACHED

_SHOWN = 5  # ids in an error: enough to find the cause
_HEADINGS = tuple(f"id,score,{meant}missing,policy" for meant in ("probability,", "expected,", ""))
"""Of a file of scores: with the probability of the positive class, with the expected count, or with neither."""


def need_replaceable(path: Path) -> None:
    """Raise StorageError where a file is there that holds no scores of an earlier prediction."""
    need_own_file(path, *_HEADINGS)


@dataclass(frozen=True)
class JointScores:
    """Ids and scores z (N,) of new rows; NaN where a row has no score.

    missing   the parties that lack each row, none for a complete one
    policy    what the job says about rows that a party lacks
    by_pair   by partner: the scores (N,) of the model of the label party with this partner alone, where there is one
    """

    ids: Sequence[str]
    values: Array
    folder: Path
    missing: Sequence[tuple[str, ...]]
    policy: str
    by_pair: Mapping[str, Array] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        job: Job,
        ids: Sequence[str],
        intercept: float,
        parts: Mapping[str, Share],
        folder: Path,
        absent: NDArray[np.bool_],
    ) -> "JointScores":
        """Add the parts up, one of each party for each id; some party lacks the rows that are `absent` (N,)."""
        for name in job.parties:
            vector, marks = parts[name].vector, parts[name].scalars
            if vector is None or not vector.size == marks.size == len(ids):
                raise ProtocolError(f"party {name!r} must answer with a score and a mark for each id. Found others.")
            if (marks == LIMIT_REACHED).any():
                raise PrivacyError(
                    f"{len(ids)} scores must fit into the limit of party {name!r} (trust.max_queries in its file). "
                    "Found it exceeded: a batch begins when its first 500 rows fit into a minute. Nothing was written."
                )
        values, missing = add_up(job, intercept, parts, absent)
        found = cls(ids, values, folder, missing, job.scoring.missing)
        if found.policy == "refuse":
            found._need_all()
        return found

    def _need_all(self) -> None:
        lost = [i for i, names in enumerate(self.missing) if names]
        if lost:
            names = sorted({name for i in lost for name in self.missing[i]})
            examples = ", ".join(self.ids[i] for i in lost[:_SHOWN]) + (", ..." if len(lost) > _SHOWN else "")
            raise InputError(
                'every new row must be known to all parties (scoring.missing = "refuse" in the job). Found '
                f"{len(lost)} of {len(self.ids)} that are not, at {', '.join(names)}: {examples}. A row that was "
                "trained on, or asked for too often (trust.scores_per_id, trust.max_scores), counts as unknown. Mend "
                'the files, or set scoring.missing to "mean" or "leave out" in the job file of every party.'
            )

    @property
    def complete(self) -> NDArray[np.bool_]:
        """Which rows (N,) have a score."""
        return np.isfinite(self.values)

    @property
    def gaps(self) -> str:
        """How many rows some party lacks, and what was done about them, in a sentence; empty where there are none."""
        lost = [names for names in self.missing if names]
        if not lost:
            return ""
        none = len(self.ids) - int(self.complete.sum())
        names = " or ".join(sorted({name for names in lost for name in names}))
        done = [f"{len(lost) - none:,} are scored with a mean part in its place"] if none < len(lost) else []
        done += [f"{none:,} have no score"] if none else []
        return f"{len(lost):,} of {len(self.ids):,} rows are not known to {names}: {', and '.join(done)}."

    def write(self, path: Path, loss: Loss, decimals: int | None) -> None:
        """A CSV file, rounded where that is wanted: exact scores tell more about the columns than a decision needs."""
        text = io.StringIO()
        out = csv.writer(text)
        meant = _meant(loss, self.values)
        out.writerow(["id", "score", *meant, "missing", "policy"])
        columns = [self.values, *meant.values()]
        for i, name in enumerate(self.ids):
            cells = [_shown(float(column[i]), decimals) for column in columns]
            out.writerow([name, *cells, " ".join(self.missing[i]), self._applied(i)])
        write_atomically(path, text.getvalue().encode())

    def _applied(self, i: int) -> str:
        if not self.missing[i]:
            return ""
        return self.policy if np.isfinite(self.values[i]) else "left out"


def _meant(loss: Loss, scores: Array) -> dict[str, Array]:
    """What scores mean, by the name of its column; empty where they stand for themselves."""
    if loss.gives_odds:
        return {"probability": expit(scores)}
    return {"expected": loss.predicted(scores)} if isinstance(loss, Poisson) else {}


def add_up(
    job: Job, intercept: float, parts: Mapping[str, Share], absent: NDArray[np.bool_]
) -> tuple[Array, Sequence[tuple[str, ...]]]:
    """The scores (N,), NaN where the job's policy gives none, and the parties that lack each row."""
    vectors = [share.vector for share in parts.values() if share.vector is not None]
    lost = {name: share.scalars > 0 for name, share in parts.items()}
    by_mean = job.scoring.missing == "mean"  # even then a row that every party lacks has no score
    without = (np.logical_and if by_mean else np.logical_or).reduce(list(lost.values()))
    total = intercept + np.sum(vectors, axis=0)
    return np.where(without, np.nan, total), _missing(job, lost, absent)


def _missing(job: Job, lost: Mapping[str, NDArray[np.bool_]], absent: NDArray[np.bool_]) -> Sequence[tuple[str, ...]]:
    """The parties that lack each row, by their marks; for an absent row the label party knows only its own mark."""
    if not any(rows.any() for rows in lost.values()):
        return [()] * absent.size
    own, others = job.coordinator.name, lacking(job)
    missing = []
    for i, unknown in enumerate(absent.tolist()):
        names = tuple(name for name, rows in lost.items() if rows[i])
        missing.append((*(name for name in names if name == own), *others) if unknown else names)
    return missing


def _shown(value: float, decimals: int | None) -> str:
    if not np.isfinite(value):
        return ""
    return repr(value) if decimals is None else f"{value:.{decimals}f}"
