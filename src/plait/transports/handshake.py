"""The control messages around training: the handshake, queries for scores, and the end of a run.

    party                          coordinator
      Hello   ------------------->             versions, name, job digest, purpose
     (Prove   ------------------->             where the job pins fingerprints: a random number
              <-------------------   Proof)    the coordinator's certificate, and the number signed by its key
              <-------------------   Welcome   run, key for the digest of the ids, phase
      Ready   ------------------->             rows, digest of the ids, the last exchange it has answered
              <-------------------   Broadcast ...
      Share   ------------------->
              <-------------------   Finished  how the run went
Before training the same happens with parcels in the place of broadcasts and shares: the alignment.  Instead of any
answer the coordinator may say Refused.
"""

import json
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias, cast

from plait._names import LONGEST_TEXT, check_party, check_run, is_hex, is_run, plain
from plait.errors import ConfigError, ProtocolError
from plait.transports.frames import CHUNK_BYTES, Frame, Kind, pack, unpack

PROTOCOL = 9
"""Changes whenever a party of one version could misunderstand a coordinator of another."""

PHASES = ("fit", "pair", "align", "predict", "serve", "check")
"""All that a party and a coordinator can be there for; a pair is a run of the label party with one partner."""
DIGEST_BYTES, KEY_BYTES = 32, 32  # SHA-256 of a job and of ids; the key under which ids are digested
MOST_IDS, LONGEST_ID = 1024, 512  # of one query: ids, and characters of an id; together they fit into one frame
MOST_QUERY_BYTES = CHUNK_BYTES - (1 << 13)  # of the ids of a query: what remains is for its other fields
MOST_KEYS, LONGEST_KEY = 128, 4096  # of one meeting: announced keys, and bytes of a key with its certificate
_LONGEST_PROOF = 8192  # characters of a certificate in PEM: several times as many as it has
_LONGEST_VERSION = 40  # characters of a package version
_MOST_DETAILS, _DEEPEST = 100_000, 4  # values in the details of an end, and how deep they may be nested


def _need(holds: bool, what: str, found: object) -> None:
    if not holds:
        raise ProtocolError(f"{what} Found {plain(str(found), 80)!r}.")


@dataclass(frozen=True)
class Hello:
    """A party introduces itself."""

    protocol: int
    package: str
    party: str
    job: str
    purpose: str

    def __post_init__(self) -> None:
        _need(len(self.package) <= _LONGEST_VERSION and self.package.isprintable(), "a version is short.", self.package)
        try:
            check_party(self.party)
        except ConfigError as error:
            raise ProtocolError(str(error)) from None
        _need(is_hex(self.job, DIGEST_BYTES), "a job is named by its SHA-256.", self.job)
        _need(self.purpose in PHASES, f"a party is there to {', '.join(PHASES)}.", self.purpose)


@dataclass(frozen=True)
class Welcome:
    """The coordinator names the run (or the trained model), the key under which ids are digested, and the phase.

    While parties are aligned, `run` is the name of the alignment.  Afterwards `alignment` names the one whose rows are
    used; it is empty where the files hold the same rows.
    """

    run: str
    key: str
    phase: str
    alignment: str = ""

    def __post_init__(self) -> None:
        check_run(self.run)
        _need(self.alignment == "" or is_run(self.alignment), "an alignment is named as a run.", self.alignment)
        _need(is_hex(self.key, KEY_BYTES), f"a key has {KEY_BYTES} bytes.", self.key)
        _need(self.phase in PHASES, f"a coordinator is there to {', '.join(PHASES)}.", self.phase)


@dataclass(frozen=True)
class Prove:
    """Where the job pins fingerprints, a party asks who the coordinator is: a new random number each time."""

    nonce: str

    def __post_init__(self) -> None:
        _need(is_hex(self.nonce, KEY_BYTES), f"a nonce has {KEY_BYTES} bytes.", self.nonce)


@dataclass(frozen=True)
class Proof:
    """The coordinator's certificate (PEM) and its signature of the nonce, the party and the job (hexadecimal)."""

    certificate: str
    signature: str

    def __post_init__(self) -> None:
        _need(len(self.certificate) <= _LONGEST_PROOF, "a certificate is short.", len(self.certificate))
        _need(len(self.signature) <= _LONGEST_PROOF, "a signature is short.", len(self.signature))


def proven(nonce: str, party: str, job: str) -> bytes:
    """What a coordinator signs to show that it has the key of its certificate."""
    return b"plait coordinator\0" + "\0".join((nonce, party, job)).encode()


@dataclass(frozen=True)
class Ready:
    """The party's rows, as a number and as a keyed digest of their ids, and the last exchange it has answered."""

    rows: int
    ids: str
    last: int

    def __post_init__(self) -> None:
        _need(self.ids == "" or is_hex(self.ids, DIGEST_BYTES), "ids are named by their digest.", self.ids)
        _need(self.rows >= 0 and self.last >= 0, "rows and exchanges are counted from 0.", (self.rows, self.last))


@dataclass(frozen=True)
class Refused:
    """The coordinator will not talk to this party; `retry` when that may change by itself."""

    reason: str
    retry: bool

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", plain(self.reason))


@dataclass(frozen=True)
class Query:
    """The rows that the coordinator wants scores for, by id, and the run whose model scores them.

    Several queries may be under way at once.  An empty run stands for the one that the Welcome named.  Where parts are
    masked, `meeting` names the keys that are used, and no two queries under them have the same number.

    A query may join several requests of clients: `requests` says how many ids each of them has, in their order.  Limits
    take or refuse each request as a whole.  Where it is empty, all ids are of one request.
    """

    ids: list[str]
    run: str = ""
    meeting: str = ""
    number: int = 0
    requests: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        _need(self.run == "" or is_run(self.run), "a query names a run.", self.run)
        _need(self.meeting == "" or is_hex(self.meeting, KEY_BYTES), "a meeting has a digest.", self.meeting)
        _need(self.number >= 0, "queries are counted from 0.", self.number)
        _need(1 <= len(self.ids) <= MOST_IDS, f"a query asks for 1 to {MOST_IDS} ids.", len(self.ids))
        longest = max(map(len, self.ids))
        _need(longest <= LONGEST_ID, f"an id has at most {LONGEST_ID} characters.", longest)
        _need(self.size <= MOST_QUERY_BYTES, "a query fits into one frame.", len(self.ids))
        if self.requests:
            _need(min(self.requests) >= 1, "a request asks for an id or more.", min(self.requests))
            _need(sum(self.requests) == len(self.ids), "each id is of one request.", sum(self.requests))
            _need(not self.meeting, "masked parts are asked for request by request.", len(self.requests))

    @property
    def size(self) -> int:
        """How many bytes its ids take at most."""
        return sum(map(_encoded, self.ids))


@dataclass(frozen=True)
class Load:
    """The coordinator asks a party to have the model of another run ready; the party answers with the same message.

    `used` is the run that is used until all parties are ready: the party keeps it.  `problem` is empty, or says why the
    party cannot.
    """

    run: str
    used: str
    problem: str = ""

    def __post_init__(self) -> None:
        check_run(self.run)
        check_run(self.used)
        object.__setattr__(self, "problem", plain(self.problem))


@dataclass(frozen=True)
class Meet:
    """Parties that mask their parts of scores exchange keys (hexadecimal) through the coordinator.

    Asked without keys, a party makes a new one and answers with it.  Asked with the keys of all, it answers with none.
    """

    keys: list[str]

    def __post_init__(self) -> None:
        _need(len(self.keys) <= MOST_KEYS, f"at most {MOST_KEYS} parties meet.", len(self.keys))
        longest = max(map(len, self.keys), default=0)
        _need(longest <= 2 * LONGEST_KEY, f"a key has at most {LONGEST_KEY} bytes.", longest)
        _need(all(is_hex(key, len(key) // 2) for key in self.keys), "keys are hexadecimal.", len(self.keys))


@dataclass(frozen=True)
class Alive:
    """Asked between queries, and answered with the same: the party is there, and so is the connection."""


@dataclass(frozen=True)
class Finished:
    """The run has ended; details are for the party's own report."""

    ok: bool
    reason: str
    details: dict[str, Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", plain(self.reason))
        object.__setattr__(self, "details", _plain_details(self.details))


def _plain_details(details: dict[str, Any]) -> dict[str, Any]:
    """The details, their texts safe to print; ProtocolError unless they are few, flat, and of plain values."""
    count = 0

    def copy(value: Any, depth: int) -> Any:
        nonlocal count
        count += 1
        _need(count <= _MOST_DETAILS and depth <= _DEEPEST, "the details of an end are few and flat.", count)
        if isinstance(value, str):
            return plain(value, LONGEST_TEXT)
        if isinstance(value, dict):
            return {plain(str(key), 80): copy(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [copy(item, depth + 1) for item in value]
        _need(value is None or isinstance(value, bool | int | float), "details are plain.", type(value).__name__)
        return value

    return cast(dict[str, Any], copy(details, 0))


def _encoded(text: str) -> int:
    """How many bytes a text takes at most as JSON: 2 for a character, 12 for one beyond ASCII; quotes, a comma."""
    return 3 + (2 * len(text) if text.isascii() and text.isprintable() else 12 * len(text))


Control: TypeAlias = Hello | Prove | Proof | Welcome | Ready | Refused | Query | Load | Meet | Alive | Finished
_TYPES: dict[str, type[Control]] = {
    t.__name__: t for t in (Hello, Prove, Proof, Welcome, Ready, Refused, Query, Load, Meet, Alive, Finished)
}


def encode(control: Control, seq: int = 0) -> bytes:
    """One control frame."""
    text = json.dumps({"type": type(control).__name__, **vars(control)}, separators=(",", ":")).encode()
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
        found = [plain(name, 20) for name in sorted(content)[:9]]
        raise ProtocolError(f"{kind.__name__} must have the fields {sorted(expected)}. Found {found}.")
    for name, value in content.items():
        _check(kind, name, value, expected[name])
    return kind(**content)


def _check(kind: type[Control], name: str, value: object, wanted: Any) -> None:
    bare = getattr(wanted, "__origin__", wanted)
    sound = type(value) is bare
    if bare is list:
        (of,) = wanted.__args__
        sound = isinstance(value, list) and all(_is_plain(item, of) for item in value)
    elif sound:
        sound = _is_plain(value, bare)
    if not sound:
        raise ProtocolError(f"{kind.__name__}.{name} must be {bare.__name__}. Found {type(value).__name__}.")


def _is_plain(value: object, kind: type) -> bool:
    """Whether a value is of this very type, and no impossible number."""
    return type(value) is kind and (not isinstance(value, int) or -1 <= value < 1 << 62)


def expect(data: bytes, *wanted: type[Control]) -> Control:
    """Read bytes that must be a control message of one of these types."""
    frame = unpack(data)
    found = decode(frame) if frame.kind is Kind.CONTROL else None
    if found is None or not isinstance(found, wanted):
        names = " or ".join(t.__name__ for t in wanted)
        raise ProtocolError(f"{names} must come here. Found {type(found).__name__ if found else frame.kind.name}.")
    return found
