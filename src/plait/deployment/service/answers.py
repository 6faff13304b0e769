"""What the service says: one dataclass for each body, from which its OpenAPI document is made too."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field, fields, is_dataclass
from http import HTTPStatus
from typing import Any, Generic, TypeVar


@dataclass(frozen=True)
class ScoresRequest:
    """The ids of the rows to score."""

    ids: list[str]


@dataclass(frozen=True)
class RowScore:
    """One row's score; null where a party gives none for it."""

    id: str
    score: float | None
    probability: float | None = field(default=None, metadata={"optional": True})
    missing: list[str] | None = field(default=None, metadata={"optional": True})
    """The parties that gave no part of it."""
    policy: str | None = field(default=None, metadata={"optional": True})
    """What was done about that: "left out", or "mean" where their mean part stands in."""


@dataclass(frozen=True)
class RowScores:
    """One entry per id, in the order of the request, and the run whose model scored them."""

    run: str
    scores: list[RowScore]


@dataclass(frozen=True)
class Health:
    """Whether the process answers."""

    status: str
    version: str


@dataclass(frozen=True)
class Readiness:
    """Whether scores can be given now."""

    status: str
    run: str
    absent: list[str]


@dataclass(frozen=True)
class Problem:
    """What went wrong, which parties are the reason, and the number of the request in the log."""

    error: str
    request: str = ""
    parties: list[str] | None = field(default=None, metadata={"optional": True})


Row = TypeVar("Row")


class Lines(Generic[Row]):
    """Many rows, one JSON object per line, that leave as they are made."""

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self.chunks = chunks


class HttpRefusal(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: HTTPStatus, reason: str, *parties: str) -> None:
        super().__init__(reason)
        self.status = status
        self.parties = list(parties)


def plain_answer(answer: Any) -> Any:
    """An answer as JSON knows it; optional fields that are empty are left out."""
    if isinstance(answer, list):
        return [plain_answer(item) for item in answer]
    kind = type(answer)
    if kind not in _FIELDS:
        found = fields(answer) if is_dataclass(answer) else ()
        _FIELDS[kind] = tuple((f.name, bool(f.metadata.get("optional"))) for f in found)
    if not _FIELDS[kind]:
        return answer
    values = ((name, getattr(answer, name), optional) for name, optional in _FIELDS[kind])
    return {name: plain_answer(value) for name, value, optional in values if value is not None or not optional}


_FIELDS: dict[type, tuple[tuple[str, bool], ...]] = {}
"""By type: its fields, and which of them may be left out; none where it is no dataclass.  Found once for each."""
