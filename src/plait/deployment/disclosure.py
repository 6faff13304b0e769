"""What a run shows of each party and what it tells it, counted before round 1 and at its end.

A vector of a party's scores, D_m d, is one direction of the space of its columns.  As many as it has columns span all
of it: whoever then knows some rows can compute the others.
"""

from pathlib import Path

import numpy as np

from plait.deployment.job_file import Job
from plait.deployment.message_log import read_log
from plait.deployment.party_privacy import guaranteed
from plait.problem.losses import Logistic, Loss, Poisson, Squared
from plait.protection.leverage import Leverage, label_exposure

SHOWS, SHOWN = "shows", "has shown"
"""What the lines are called in an audit log, before round 1 and at the end."""


def shows_scores(job: Job, name: str) -> bool:
    """Whether vectors of this party's scores leave it so that somebody can read them, without noise."""
    readable = job.protection is None or job.protection.mode == "labels"
    return readable and name != job.label_party and not guaranteed(job, name)


def party_before(job: Job, name: str, columns: int, shown: int, limit: int) -> list[str]:
    """What a party is told before round 1; `shown` counts the vectors that earlier runs showed on these data."""
    if not shows_scores(job, name):
        return []
    allowed = f"trust.max_directions allows {limit}" if limit else "trust.max_directions sets no limit"
    return [
        f"shows {job.coordinator.name} one vector of its scores in each of at most {job.stopping.max_rounds} rounds; "
        f"{_directions(shown, columns)} were shown on these data before, and {allowed}"
    ]


def party_after(job: Job, name: str, columns: int, vectors: int, shown: int, leverage: Leverage | None) -> list[str]:
    """What a party is told at the end of a run in which it sent so many `vectors`."""
    lines = []
    reader = job.coordinator.name
    if shows_scores(job, name):
        lines.append(
            f"has shown {reader} {vectors} vectors of its scores: {_directions(vectors, columns)}; over all runs on "
            f"these data {_directions(shown, columns)}"
        )
    elif name != job.label_party and not guaranteed(job, name):
        lines.append(f"has shown {reader} {vectors} vectors of its scores, masked: none of its {columns} directions")
    if leverage is not None:
        lines.append(f"has learnt {_moments(job.loss, columns, vectors)}; {leverage}")
    return lines


def coordinator_before(job: Job, columns: dict[str, int], rows: int) -> list[str]:
    """What the coordinator of a protected run is told before round 1; `columns` are those that were encrypted."""
    lines = []
    for name, count in columns.items():
        if name != job.label_party:
            lines.append(f"{name} learns of {rows} labels {_moments(job.loss, count)}. {_guess(count, rows)}")
    return lines


def coordinator_after(job: Job, columns: dict[str, int], vectors: int, rows: int) -> list[str]:
    """What the coordinator is told after so many rounds; `columns` is empty where no party has told its own."""
    lines = []
    for name in (each for each in job.parties if each != job.label_party):
        if shows_scores(job, name):
            known = f": {_directions(vectors, columns[name])}" if name in columns else ""
            lines.append(f"{name} has shown {vectors} vectors of its scores{known}")
        if name in columns:
            lines.append(
                f"{name} has learnt {_moments(job.loss, columns[name], vectors)}. {_guess(columns[name], rows)}"
            )
    return lines


def noted(audit: Path) -> list[str]:
    """The lines of an audit log, each once: those of the end, or where there are none those of before round 1."""
    if not audit.exists():
        return []
    lines = [entry.facts for entry in read_log(audit) if entry.facts["what"] in (SHOWS, SHOWN)]
    last = [facts["line"] for facts in lines if facts["what"] == SHOWN] or [facts["line"] for facts in lines]
    return list(dict.fromkeys(last))


def _guess(columns: int, rows: int) -> str:
    """What the moments of so many columns tell of one label, for people."""
    right = float(label_exposure(np.array([columns / rows]))[0])
    return f"From these sums it guesses a yes/no label of a mean row right with probability {right:.3f} (chance: 0.500)"


def _directions(vectors: int, columns: int) -> str:
    return f"{min(vectors, columns)} of {columns} directions of its columns"


def _moments(loss: Loss, columns: int, rounds: int | None = None) -> str:
    """What D^T g tells of the labels: for g = mu(z) - y no more than D^T y, else something new in every round."""
    if isinstance(loss, Logistic | Squared | Poisson):
        return f"{columns} sums over all rows (D^T y, one a column), however many rounds there are"
    return f"{columns} sums over all rows (D^T g, one a column) in each of {rounds or 'all'} rounds"
