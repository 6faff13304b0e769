"""What is said around the training messages: the handshake, queries for scores, and the end of a run.

    party                          coordinator
      Hello   ------------------->             versions, name, job digest, purpose
              <-------------------   Welcome   run, key for the digest of the ids, phase
      Ready   ------------------->             rows, digest of the ids, the last exchange it has answered
              <-------------------   Broadcast ...
      Share   ------------------->
              <-------------------   Finished  how the run went
Before training the same happens with parcels in the place of broadcasts and shares: the alignment.  Instead of any
answer the coordinator may say Refused.
"""

import json
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeAlias, cast

from plait.errors import ProtocolError
from plait.transports.frames import CHUNK_BYTES, Frame, Kind, pack, unpack

PROTOCOL = 2
"""Changes whenever a party of one version could misunderstand a coordinator of another."""


@dataclass(frozen=True)
class Hello:
    """A party introduces itself."""

    protocol: int
    package: str
    party: str
    job: str
    purpose: str


@dataclass(frozen=True)
class Welcome:
    """The coordinator names the run (or the trained model), the key under which ids are digested, and what is on."""

    run: str
    key: str
    phase: str


@dataclass(frozen=True)
class Ready:
    """The party's rows, as a number and as a keyed digest of their ids, and the last exchange it has answered."""

    rows: int
    ids: str
    last: int


@dataclass(frozen=True)
class Refused:
    """The coordinator will not talk to this party; `retry` when that may change by itself."""

    reason: str
    retry: bool


@dataclass(frozen=True)
class Query:
    """The rows that the coordinator wants scores for, by id."""

    ids: list[str]


@dataclass(frozen=True)
class Finished:
    """The run has ended; details are for the party's own report."""

    ok: bool
    reason: str
    details: dict[str, Any]


Control: TypeAlias = Hello | Welcome | Ready | Refused | Query | Finished
_TYPES: dict[str, type[Control]] = {t.__name__: t for t in (Hello, Welcome, Ready, Refused, Query, Finished)}


def encode(control: Control, seq: int = 0) -> bytes:
    """One control frame."""
    text = json.dumps({"type": type(control).__name__, **asdict(control)}, separators=(",", ":")).encode()
    if len(text) > CHUNK_BYTES:
        raise ProtocolError(f"a control message must fit into {CHUNK_BYTES} bytes. Found {len(text)}.")
    return pack(Kind.CONTROL, seq, [text])


def decode(frame: Frame) -> Control:
    """Read a control frame; ProtocolError unless it has exactly the fields it should."""
    try:
        content = json.loads(bytes(frame.payload))
    except (ValueError, RecursionError):
        raise ProtocolError("a control message must be JSON. Found something else.") from None
    kind = _TYPES.get(str(content.pop("type", None))) if isinstance(content, dict) else None
    if kind is None:
        raise ProtocolError(f"a control message must be one of {sorted(_TYPES)}. Found another.")
    expected = {f.name: cast(type, f.type) for f in fields(kind)}
    if set(content) != set(expected):
        raise ProtocolError(f"{kind.__name__} must have the fields {sorted(expected)}. Found {sorted(content)[:9]}.")
    for name, value in content.items():
        _check(kind, name, value, expected[name])
    return kind(**content)


def _check(kind: type[Control], name: str, value: object, wanted: Any) -> None:
    plain = getattr(wanted, "__origin__", wanted)
    sound = type(value) is plain
    if plain is list:
        sound = isinstance(value, list) and all(type(item) is str for item in value)
    if plain is int:
        sound = type(value) is int and -1 <= value < 1 << 62
    if not sound:
        raise ProtocolError(f"{kind.__name__}.{name} must be {plain.__name__}. Found {type(value).__name__}.")


def expect(data: bytes, *wanted: type[Control]) -> Control:
    """Read bytes that must be a control message of one of these types."""
    frame = unpack(data)
    found = decode(frame) if frame.kind is Kind.CONTROL else None
    if found is None or not isinstance(found, wanted):
        names = " or ".join(t.__name__ for t in wanted)
        raise ProtocolError(f"{names} must come here. Found {type(found).__name__ if found else frame.kind.name}.")
    return found
