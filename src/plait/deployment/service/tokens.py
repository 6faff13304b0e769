"""Bearer tokens: who may ask the service, and how often.

A token is shown once, when it is made.  The file keeps its SHA-256 only: a token has 256 random bits, so nobody can
find it from its digest.
"""

import hashlib
import secrets
import threading
import time
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path

from plait._files import read_json, write_json
from plait._names import check_name
from plait.deployment.job_file import PartyFile
from plait.errors import ConfigError

_TOKEN_BYTES = 32  # random bytes of a token: nobody guesses it
_LOOK = 1.0  # seconds between two looks at the file: a revoked token is refused by then


@dataclass(frozen=True)
class Client:
    """One client of the service, as the file knows it."""

    name: str
    sha256: str
    per_minute: int
    made: str = ""


ANYBODY = Client("anybody", "", 0)
"""Who asks where there are no tokens."""


def tokens_file(file: PartyFile) -> Path:
    """Where the label party keeps the digests of its clients' tokens."""
    return file.path(f"{file.name}.tokens.json")


class Tokens:
    """The tokens in a file, read again when the file changes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._clients: dict[str, Client] = {}
        self._stamp: tuple[int, int] | None = None
        self._looked = -_LOOK
        self._needed = False
        self._refresh()

    def __len__(self) -> int:
        self._refresh()
        return len(self._clients)

    @property
    def needed(self) -> bool:
        """Whether nobody may ask without a token: once there has been one, whatever became of it or its file."""
        self._refresh()
        return self._needed

    @property
    def clients(self) -> list[Client]:
        """All clients, by name."""
        self._refresh()
        return sorted(self._clients.values(), key=lambda client: client.name)

    def make(self, name: str, per_minute: int) -> str:
        """A new token for a client; an old one of the same name no longer counts."""
        if per_minute < 0:
            raise ConfigError(f"--per-minute must be 0 or more. Found {per_minute}.")
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        made = datetime.now(UTC).isoformat(timespec="seconds")
        self._write(
            [*self._others(name), Client(check_name(name, "a client's name"), _digest(token), per_minute, made)]
        )
        return token

    def revoke(self, name: str) -> None:
        """Refuse a client from now on."""
        others = self._others(name)
        if len(others) == len(self.clients):
            raise ConfigError(f"--revoke must name a client with a token. Found {name!r}.")
        self._write(others)

    def find(self, token: str) -> Client | None:
        """Whose token this is."""
        self._refresh()
        return self._clients.get(_digest(token))  # a lookup by digest: its time tells nothing about a token

    def _others(self, name: str) -> list[Client]:
        return [client for client in self.clients if client.name != name]

    def _write(self, clients: list[Client]) -> None:
        write_json(self.path, {"format": 1, "tokens": [asdict(client) for client in clients]})
        self._looked = -_LOOK

    def _refresh(self) -> None:
        now = time.monotonic()
        if now - self._looked < _LOOK:
            return
        self._looked = now
        stamp = _stamp(self.path)
        if stamp == self._stamp:
            return
        self._needed = self._needed or stamp is not None
        self._clients = _read(self.path) if stamp else {}
        self._stamp = stamp


class Allowance:
    """At most so many per minute; 0 for no limit."""

    def __init__(self, per_minute: int) -> None:
        self._per_minute = per_minute
        self._left = float(per_minute)
        self._seen = time.monotonic()
        self._lock = threading.Lock()

    def take(self, count: int) -> bool:
        """Whether `count` more are allowed now; if so they are taken."""
        if self._per_minute == 0:
            return True
        with self._lock:
            now = time.monotonic()
            self._left = min(self._per_minute, self._left + (now - self._seen) * self._per_minute / 60)
            self._seen = now
            if count > self._left:
                return False
            self._left -= count
            return True


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_mtime_ns, found.st_ino


def _read(path: Path) -> dict[str, Client]:
    content = read_json(path, "the file of tokens", {"tokens": [{f.name: f.type for f in fields(Client)}]})
    clients = [Client(**{f.name: row[f.name] for f in fields(Client)}) for row in content["tokens"]]
    return {client.sha256: client for client in clients}
