"""The rules of one party, from the agreed job and its own file: what it answers, and how often in all.

`training_agreement` says what a training may ask (`plait.transports.law` checks every message against it).  `Tally`
counts answers over all runs on the same file, durably: a coordinator that starts over does not start from zero.
"""

import fcntl
import json
import math
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

from blake3 import blake3

from plait._files import make_folder, open_private, read_json, write_json
from plait.data.arrow_tables import ParquetSource
from plait.deployment.job_file import Job, PartyFile
from plait.errors import InputError, PrivacyError, ProtocolError, StorageError
from plait.messages import Form
from plait.training.history import Round
from plait.training.party import Party
from plait.transports.handshake import Welcome
from plait.transports.law import Agreement

_BLOCK = 16  # answers that are counted ahead; the next ones are counted while half of these are left
_LONGEST_PASS = 1 << 20  # exchanges of a private pass: they are numbered over all parties
MOST_RUNS = 16  # runs that one start of a party's program joins


def training_agreement(job: Job, party: Party, rows: int) -> Agreement:
    """What a party answers in training: at most the job's rounds, vectors of the method's lengths.

    In a protected run all vectors are 64-bit words.
    """
    rounds = _LONGEST_PASS if job.policy.private else job.stopping.max_rounds
    form = Form(party.method.lengths(rows))
    if party.shield is not None:
        form = party.shield.form
    return Agreement("fit", form, job.run.precision, rounds)


def most_exchanges(job: Job, party: Party, rows: int) -> int:
    """How many broadcasts a party answers at most in one run of the job."""
    before = 0 if party.shield is None else party.shield.exchanges_before
    return party.method.exchanges(job.stopping.max_rounds, rows) + before


ALIGNMENT = Agreement("align")
PREDICTION = Agreement("predict")
SERVICE = Agreement("serve")


def need_phase(welcome: Welcome, *allowed: str) -> None:
    """Raise ProtocolError unless the coordinator is there for something that this party came for."""
    if welcome.phase not in allowed:
        raise ProtocolError(f"this party is here to {' or '.join(allowed)}. Found a coordinator to {welcome.phase}.")


def told_results(details: dict[str, Any]) -> dict[str, Any]:
    """What a coordinator says about a finished run, for the party's report; what does not fit is left out."""
    known = {f.name for f in fields(Round)}
    rounds = [row for row in _list(details.get("rounds")) if isinstance(row, dict) and set(row) == known]
    kept: dict[str, Any] = {"rounds": [row for row in rounds if all(map(_number, row.values())) and _counted(row)]}
    if isinstance(details.get("rounds_taken"), int):
        kept["rounds_taken"] = details["rounds_taken"]
    if _number(details.get("objective")):
        kept["objective"] = details.get("objective")
    if isinstance(details.get("reason"), str):
        kept["reason"] = details["reason"]
    return kept


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _number(value: Any) -> bool:
    # Larger numbers overflow in the first product.
    return value is None or (isinstance(value, int | float) and abs(value) < 1e300 and math.isfinite(value))


def _counted(row: dict[str, Any]) -> bool:
    return all(isinstance(row[key], int | float) for key in ("round", "seconds", "bytes_down", "bytes_up"))


def data_digest(file: PartyFile) -> str:
    """BLAKE3 of a party's data, before columns are chosen or prepared.

    Of a file, its content; of a folder, that of all its files; of a query, its text, because its tables lie elsewhere.
    """
    data = file.data
    if data.source:
        return blake3(data.source.encode()).hexdigest()
    path = file.path(data.file)
    if not path.is_dir():
        return _file_digest(path)
    return blake3("".join(_file_digest(part) for part in ParquetSource(path).files).encode()).hexdigest()


def _file_digest(path: Path) -> str:
    try:
        return blake3(max_threads=blake3.AUTO).update_mmap(path).hexdigest()
    except (OSError, ValueError) as error:
        raise InputError(f"the data file must be readable at {path}. Found: {error}.") from error


class Tally:
    """How many answers of each kind a party has given about one data file, over all jobs and runs.

    Every answer is counted on the disk before it is given.  A worker counts the next ones ahead, so that answers do not
    wait for the disk.  A killed program has counted up to 24 answers of a kind more than it gave: 7 left of one block,
    16 of the next, and the one that it was about to give.  The count lies in `counts/` beside the party file, not in
    the run folders, so that removing old runs does not reset it.
    """

    def __init__(self, file: PartyFile) -> None:
        folder = make_folder(file.path("counts"))
        self._path = folder / f"{file.name}-{data_digest(file)[:32]}.json"
        self._ahead: dict[str, int] = {}
        self._worker = ThreadPoolExecutor(1, "plait-tally")
        self._coming: dict[str, Future[int]] = {}

    def spend(self, what: str, count: int, limit: int, remedy: str, at_once: int = _BLOCK) -> None:
        """Count `count` answers before they are given; beyond `limit` (0 for none) PrivacyError, and none is counted.

        On the disk `at_once` answers are counted ahead; `close` takes back those that were not given.
        """
        if count > self._ahead.get(what, 0):
            self._collect()
        if count > self._ahead.get(what, 0):
            self._reserve(what, count, limit, remedy, at_once)
        self._ahead[what] -= count
        if self._ahead[what] < at_once // 2 and what not in self._coming:
            self._coming[what] = self._worker.submit(self._more, what, at_once, limit)

    def _reserve(self, what: str, count: int, limit: int, remedy: str, at_once: int) -> None:
        """Count `count` answers now, and more ahead where the limit allows it."""
        with self._locked() as counts:
            ahead = self._ahead.get(what, 0)
            spent = counts.get(what, 0) - ahead
            if limit and spent + count > limit:
                raise PrivacyError(
                    f"this party gives {limit} {what} on these data, over all runs. Found {spent} "
                    f"given and {count} more "
                    f"asked for. {remedy}"
                )
            block = count if limit and spent + count + at_once > limit else count + at_once - 1
            counts[what] = spent + block
            self._write(counts)
            self._ahead[what] = block

    def _more(self, what: str, count: int, limit: int) -> int:
        """On the worker: count `count` more ahead, or as many as the limit leaves; returns how many."""
        with self._locked() as counts:
            counted = counts.get(what, 0)
            more = min(count, limit - counted) if limit else count
            if more <= 0:
                return 0
            self._write({**counts, what: counted + more})
            return more

    def _collect(self) -> None:
        """Wait for what the worker counts ahead."""
        coming, self._coming = self._coming, {}
        for what, more in coming.items():
            self._ahead[what] = self._ahead.get(what, 0) + more.result()

    def spent(self, what: str) -> int:
        """How many were given."""
        self._collect()
        with self._locked() as counts:
            return counts.get(what, 0) - self._ahead.get(what, 0)

    def close(self) -> None:
        """Take back what was counted ahead and not given."""
        self._worker.shutdown()
        with suppress(StorageError):  # nothing was counted then
            self._collect()
        if any(self._ahead.values()):
            with self._locked() as counts:
                self._write({what: n - self._ahead.get(what, 0) for what, n in counts.items()})
            self._ahead = {}

    @contextmanager
    def _locked(self) -> Iterator[dict[str, int]]:
        try:
            with open_private(self._path.with_suffix(".lock"), "ab") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield self._read()
        except OSError as error:
            raise StorageError(
                f"{self._path} must be writable. Found: {error.strerror}. Make room, or correct it, and start again."
            ) from error

    def _read(self) -> dict[str, int]:
        if not self._path.exists():
            return {}
        counts = read_json(self._path, "the count of a party's answers", {"counts": {...: int}})["counts"]
        if any(n < 0 for n in counts.values()):
            raise StorageError(f"{self._path} must hold counts. Found {json.dumps(counts)[:80]}. Restore it.")
        return counts

    def _write(self, counts: dict[str, int]) -> None:
        write_json(self._path, {"format": 1, "counts": counts})
