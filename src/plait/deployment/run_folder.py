"""A run folder: runs/RUN/NAME holds everything that one party keeps of one run, and nothing of another's.

run.json           which run, which job, how it stands
weights.json       the party's own part of the model            (party)
model.json         intercept, loss, parties                      (coordinator)
preparation.json   how its columns were prepared                 (party)
history.json       one entry per round
audit.jsonl        every message sent and received, sealed
report.html        all of this to look at, without a network
checkpoint/        what a restart resumes from
"""

import contextlib
import fcntl
import hashlib
import secrets
import shutil
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from plait._files import make_folder, need_no_link, open_private, read_json, write_json
from plait._names import is_run
from plait._types import Array
from plait._version import __version__
from plait.errors import StorageError
from plait.training.history import Round

_STAMP = "%Y%m%d-%H%M%S"
COORDINATOR = "coordinator"
RESUMABLE = ("running", "interrupted")
ALIGNED = "aligned"


@dataclass(frozen=True)
class Status:
    """run.json."""

    run: str
    job: str
    name: str
    key: str
    status: str = "running"
    reason: str = ""
    checksum: int = 0
    plait: str = __version__
    started: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    """What the job file said, so that runs can be compared."""
    alignment: str = ""
    """The alignment whose rows are used; empty where the files hold the same rows."""


_STATUS = {
    **dict.fromkeys(("run", "job", "name", "key"), str),
    **dict.fromkeys(("status?", "reason?", "plait?", "started?", "alignment?"), str),
    "checksum?": int,
    "settings?": {},
}
_WEIGHTS = {
    **dict.fromkeys(("party", "run", "preparation"), str),
    "columns": [str],
    "weights": [float],
    "clip": (float, None),
    "mean?": float,
    "guaranteed?": bool,
    "covered?": bool,
}
_MODEL = {"run": str, "intercept": float, "loss": str, "parties": [str], "rows?": int, "metrics?": ({...: float}, None)}


def new_run(runs: Path | None = None) -> tuple[str, str]:
    """A name for a new run, and the key for its digests of ids.

    Names sort by time: a new one comes after all that were made here, even where the clock was put back.  Names that
    other coordinators made do not count: they may say any time.
    """
    now = datetime.now(UTC)
    own = [] if runs is None else [path.parent.name for path in runs.glob(f"*/{COORDINATOR}")]
    names = [name for name in own if is_run(name)]
    with contextlib.suppress(ValueError, OverflowError):  # a name that is no time, or the last one, was not made here
        last = datetime.strptime(max(names, default="")[:15], _STAMP).replace(tzinfo=UTC)
        now = max(now, last + timedelta(seconds=1))
    return f"{now:{_STAMP}}-{secrets.token_hex(3)}", secrets.token_hex(32)


class TrainedPart(NamedTuple):
    """What a party has trained, and how it was protected then, whatever a job says later.

    columns, weights   the names of the columns, and one weight for each
    clip               the norm to which rows are clipped before they are scored, as they were in training
    mean               the mean part of a score over the training rows; 0 where a guarantee covers them
    guaranteed         whether a guarantee covers the training rows: they are then never scored
    covered            whether scores may be made with the weights
    """

    columns: tuple[str, ...]
    weights: Array
    clip: float | None
    mean: float
    guaranteed: bool
    covered: bool


class RunFolder:
    """One party's folder of one run, locked while a process uses it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: BinaryIO | None = None

    @property
    def owner(self) -> str:
        """RUN/NAME: the party and the run that own this folder; files in it carry this text."""
        return f"{self.path.parent.name}/{self.path.name}"

    @property
    def checkpoint(self) -> Path:
        return self.path / "checkpoint"

    def begin(self, status: Status) -> Status:
        """Create the folder, or reopen it when it holds the same run of the same job on the same data."""
        for folder in (self.path.parent, self.path, self.checkpoint):
            need_no_link(folder)
        make_folder(self.path)
        self.lock()
        if not (self.path / "run.json").exists():
            started = datetime.now(UTC).isoformat()
            self.write(replace(status, started=started))
            return self.status
        found = self.status
        if found.checksum != status.checksum and not self._exchanged:  # such as one refused until its file was right
            found = replace(found, checksum=status.checksum)
        if (found.run, found.job, found.checksum) != (status.run, status.job, status.checksum):
            raise StorageError(
                f"{self.path} must hold run {status.run} of this job on these data. Found other data or another job. "
                "Restore them, or start over with `plait coordinator --fresh`."
            )
        if found.status != "finished":
            self.write(replace(found, status="running", reason=""))
        return found

    @property
    def _exchanged(self) -> bool:
        """Whether this run has taken or given anything yet."""
        log = self.path / "audit.jsonl"
        kept = [file for file in self.checkpoint.rglob("*") if file.is_file() and file.stat().st_size]
        return bool(kept) or (log.exists() and b'"received"' in log.read_bytes())

    @property
    def status(self) -> Status:
        content = read_json(self.path / "run.json", "a run's status", _STATUS)
        return Status(**{f.name: content[f.name] for f in fields(Status) if f.name in content})

    def write(self, status: Status) -> None:
        write_json(self.path / "run.json", {"format": 1, **asdict(status)})

    def end(self, status: str, reason: str) -> None:
        """Note how the run stands now; a finished one needs no checkpoint."""
        self.write(replace(self.status, status=status, reason=reason))
        if status == "finished":
            shutil.rmtree(self.checkpoint, ignore_errors=True)

    def write_weights(self, trained: TrainedPart) -> None:
        """Write what was trained; the preparation must have been written before."""
        about = {"format": 1, "party": self.status.name, "run": self.status.run, "preparation": self._preparation()}
        content = {**trained._asdict(), "columns": list(trained.columns), "weights": trained.weights.tolist()}
        write_json(self.path / "weights.json", about | content)

    def weights(self) -> TrainedPart:
        """What was trained, bit for bit."""
        content = read_json(self.path / "weights.json", "a party's weights", _WEIGHTS)
        if (content["party"], content["run"]) != (self.path.name, self.path.parent.name):
            raise StorageError(
                f"{self.path / 'weights.json'} must be of this party and run. Found {content['party']!r} and "
                f"{content['run']!r}. Restore the folder."
            )
        if content["preparation"] != self._preparation():
            raise StorageError(
                f"{self.path / 'weights.json'} must belong to the preparation beside it. Found another preparation. "
                "Restore the folder."
            )
        weights = np.array(content["weights"], dtype=np.float64)
        if len(weights) != len(content["columns"]):
            raise StorageError(
                f"{self.path / 'weights.json'} must hold one weight for each column. Found {len(weights)} and "
                f"{len(content['columns'])}. Restore the folder."
            )
        return TrainedPart(
            tuple(content["columns"]),
            weights,
            content["clip"],
            float(content.get("mean", 0.0)),
            bool(content.get("guaranteed", False)),
            bool(content.get("covered", True)),
        )

    def _preparation(self) -> str:
        """A digest of how the columns were prepared."""
        found = hashlib.sha256()
        for name in ("preparation.json", "preparation.skops"):
            path = self.path / name
            found.update(path.read_bytes() if path.exists() else b"")
        return found.hexdigest()

    def write_model(self, intercept: float, loss: str, parties: tuple[str, ...], result: dict[str, Any]) -> None:
        content = {"format": 1, "run": self.status.run, "intercept": intercept, "loss": loss, "parties": list(parties)}
        write_json(self.path / "model.json", {**content, **result})

    def model(self) -> dict[str, Any]:
        content = read_json(self.path / "model.json", "a trained model", _MODEL)
        if content["run"] != self.path.parent.name:
            raise StorageError(
                f"{self.path / 'model.json'} must be of this run. Found {content['run']!r}. Restore the folder."
            )
        return content

    def write_history(self, rounds: list[dict[str, Any]]) -> None:
        write_json(self.path / "history.json", {"format": 1, "rounds": rounds})

    def history(self) -> list[dict[str, Any]]:
        return list(read_json(self.path / "history.json", "a history", {"rounds": [{...: (float, None)}]})["rounds"])

    def release(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def lock(self) -> None:
        """Be the only process that writes here; StorageError when another is."""
        if self._lock is not None:
            return
        lock = open_private(self.path / ".lock", "wb")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise StorageError(
                f"{self.path} must be used by one process. Found another that uses it. End it."
            ) from None
        self._lock = lock


def plain_rounds(rounds: list[Round]) -> list[dict[str, Any]]:
    """Rounds as JSON knows them: what is not finite becomes null."""
    return [{k: v if np.isfinite(v) else None for k, v in asdict(r).items()} for r in rounds]


def find_run(runs: Path, name: str, job: str, statuses: tuple[str, ...]) -> RunFolder | None:
    """The newest run of this job in one of these statuses."""
    for path in sorted(runs.glob(f"*/{name}/run.json"), reverse=True):
        folder = RunFolder(path.parent)
        status = folder.status
        if status.job == job and status.status in statuses:
            return folder
    return None
