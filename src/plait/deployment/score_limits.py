"""How many scores a party gives away: per minute, per id and per run, kept on disk, for batches and services.

One file per party, beside its party file.  A restart, a reconnection or a second program starts no new allowance.
"""

import contextlib
import sqlite3
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from plait._files import mark
from plait.deployment.job_file import PartyFile
from plait.deployment.party_settings import TrustOptions
from plait.errors import StorageError

_WAIT = 30.0  # seconds for which a program waits for another one that writes the same file
_TABLES = """
create table if not exists minute (one integer primary key check (one = 1), left_over real, seen real);
create table if not exists runs (run text primary key, given integer);
create table if not exists ids (run text, id text, given integer, primary key (run, id));
"""
_ONE_MORE = "insert into ids values (?, ?, 1) on conflict (run, id) do update set given = given + 1 where given < ?"
"""Changes one row, or none where the limit is reached."""
_ANY = 1 << 62  # scores of an id where there is no limit: more than can be given
_Allowed: TypeAlias = NDArray[np.bool_] | None


class ScoreLimits:
    """A party's allowance of scores; all programs of the party share it.

    Parameters
    ----------
    path : Path
        The file that keeps it.
    trust : TrustOptions
        The limits.
    batch : bool, default=False
        Whether this is one batch, which the party's owner has started: when its first query fits into the minute, the
        others do, too, and use up the minute.  Limits per id and per run hold for every row of it.
    begun : bool, default=False
        Whether the first query of this batch has fitted already, by another model.
    """

    def __init__(self, path: Path, trust: TrustOptions, batch: bool = False, begun: bool = False) -> None:
        self._path = path
        self._trust = trust
        self._batch, self.begun = batch, begun
        self._lock = threading.Lock()
        mark(path)  # for the owner alone, and what SQLite puts beside it as well
        try:
            self._store = sqlite3.connect(path, timeout=_WAIT, isolation_level=None, check_same_thread=False)
            self._store.execute("pragma journal_mode = wal")  # one write to the disk for each transaction
            self._store.execute("pragma synchronous = full")
            self._store.executescript(_TABLES)
        except sqlite3.Error as error:
            raise self._unusable(error) from error

    @classmethod
    def of(cls, file: PartyFile, batch: bool = False, begun: bool = False) -> "ScoreLimits":
        return cls(file.path(f"{file.name}.scores.sqlite"), file.trust, batch, begun)

    def take(self, run: str, *requests: Sequence[str]) -> list[_Allowed]:
        """For each request which of its ids may be scored now; None when there have been too many in this minute.

        Every id that is asked for counts, known or not: the limit says nothing about the ids.  All requests are counted
        in one transaction, in their order.
        """
        try:
            with self._lock:
                self._store.execute("begin immediate")
                allowed = self._take(self._store, run, requests)
                self._store.execute("commit")
                return allowed
        except sqlite3.Error as error:
            self._undo()
            raise self._unusable(error) from error

    def _undo(self) -> None:
        """Leave a transaction that the disk did not take, so that the next one can begin."""
        with self._lock, contextlib.suppress(sqlite3.Error):
            if self._store.in_transaction:
                self._store.execute("rollback")

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._store.close()

    def _unusable(self, error: sqlite3.Error) -> StorageError:
        return StorageError(
            f"a party must count the scores that it gives, or it gives none. Found {self._path}: {error}. "
            "Make room, or restore it, and start again."
        )

    def _take(self, store: sqlite3.Connection, run: str, requests: Sequence[Sequence[str]]) -> list[_Allowed]:
        row = store.execute("select given from runs where run = ?", (run,)).fetchone()
        given = before = row[0] if row else 0
        found: list[_Allowed] = []
        for ids in requests:
            if not self._minute(store, len(ids)):
                found.append(None)
            elif self._trust.max_scores and given + len(ids) > self._trust.max_scores:
                found.append(np.zeros(len(ids), dtype=np.bool_))
            else:
                given += len(ids)
                found.append(self._count(store, run, ids))
        if given > before:
            store.execute("insert or replace into runs values (?, ?)", (run, given))
        return found

    def _count(self, store: sqlite3.Connection, run: str, ids: Sequence[str]) -> NDArray[np.bool_]:
        """Count one more score of each id, and say which of them were below their limit."""
        most = self._trust.scores_per_id or _ANY
        return np.array([store.execute(_ONE_MORE, (run, name, most)).rowcount > 0 for name in ids], dtype=np.bool_)

    def _minute(self, store: sqlite3.Connection, count: int) -> bool:
        """Whether `count` more fit into the allowance, which fills up again at max_queries a minute."""
        most = self._trust.max_queries
        if most == 0:
            return True
        now = time.time()
        row = store.execute("select left_over, seen from minute").fetchone()
        left, seen = row if row else (float(most), now)
        left = min(float(most), left + max(0.0, now - seen) * most / 60)
        fits = self.begun or count <= left
        self.begun = self._batch and fits
        store.execute("insert or replace into minute values (1, ?, ?)", (max(0.0, left - count) if fits else left, now))
        return fits
