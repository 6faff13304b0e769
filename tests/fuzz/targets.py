"""What is fuzzed: readers of bytes that come from peers, from disk and from people, and samples to begin with.

Every target takes bytes and may do two things: return, or raise a PlaitError.
"""

import contextlib
import io
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from plait._files import read_json, write_json
from plait.data.dates import DateFormat, formats_of
from plait.data.guess import guess_columns
from plait.data.tables import read_table
from plait.deployment import state
from plait.deployment.job_file import read_job, read_party
from plait.deployment.journal import Journal
from plait.deployment.message_log import AuditLog, read_log
from plait.deployment.service.answers import HttpRefusal
from plait.deployment.service.batch import read_rows
from plait.deployment.service.handlers import _read_ids
from plait.deployment.stored_party import Answered, Snapshot
from plait.errors import PlaitError, ProtocolError
from plait.messages import Broadcast, Form, Message, Parcel, Share
from plait.training.precision import Line
from plait.transports import handshake
from plait.transports.frames import frames, pack_parcel
from plait.transports.law import Agreement, AnswerLaw, PartyLaw, QueryLaw
from plait.transports.mailbox import Ask
from tests.fuzz.protected import Certified, ProtectedRun
from tests.fuzz.stored import StoredFiles

ROWS = 40


@dataclass(frozen=True)
class Target:
    """A reader, samples that it reads, and of a million inputs how many it gets."""

    name: str
    read: Callable[[bytes], object]
    samples: tuple[bytes, ...]
    share: int


def _messages() -> list[Message]:
    rng = np.random.default_rng(1)
    return [
        Share(3, rng.standard_normal(ROWS), rng.standard_normal(2)),
        Share(4, None, rng.standard_normal(5)),
        Broadcast(5, rng.standard_normal(ROWS), rng.standard_normal(12), closing=True),
        Line("int16").say(Share(7, rng.standard_normal(ROWS), rng.standard_normal(3)))[1],
    ]


def _frames() -> tuple[bytes, ...]:
    controls: list[handshake.Control] = [
        handshake.Hello(handshake.PROTOCOL, "0.1", "bank", "ab" * 32, "fit"),
        handshake.Welcome("20260101-120000-0a1b2c", "ab" * 32, "fit"),
        handshake.Ready(ROWS, "cd" * 32, 4),
        handshake.Query(["a", "b"], "20260101-120000-0a1b2c"),
        handshake.Query(["a", "b", "c"], "20260101-120000-0a1b2c", requests=[2, 1]),
        handshake.Load("20260101-120000-0a1b2c", "20260101-120000-0a1b2c"),
        handshake.Query(["a"], "20260101-120000-0a1b2c", "ab" * 32, 7),
        handshake.Meet(["ab" * 40, "cd"]),
        handshake.Alive(),
        handshake.Prove("ab" * 32),
        handshake.Proof("PEM", "ab"),
        handshake.Finished(True, "done", {"rounds": [{"round": 1}]}),
    ]
    parcels = [pack_parcel(Parcel("take", "shop", 7, 3, bytes(96)), 2), pack_parcel(Parcel("check"), 2)]
    said = [f for m in _messages() for f in frames(m, 2, 1)]
    return (*said, *map(handshake.encode, controls), *parcels)


def _at_party(purpose: str, wire: str = "float64") -> Callable[[bytes], object]:
    agreed = Agreement(purpose, Form(frozenset({ROWS})), wire, rounds=10)
    return lambda data: PartyLaw(agreed).read(data)


def _queried(data: bytes) -> object:
    law = QueryLaw("shop")
    law.expect(2, handshake.Query(["a", "b"]))
    law.expect(3, handshake.Load("20260101-120000-0a1b2c", "20260101-120000-0a1b2c"))
    law.expect(4, handshake.Alive())
    law.expect(5, handshake.Meet([]))
    return law.read(data)


def _at_coordinator(item: Broadcast | Parcel, wire: str = "float64") -> Callable[[bytes], object]:
    def read(data: bytes) -> object:
        law = AnswerLaw("shop", Form(frozenset({ROWS})), wire)
        law.expect(Ask(2, item, 1))
        return law.read(data)

    return read


def _state(data: bytes) -> object:
    return state.decode(data)


class _Files:
    """One file that is written again for every input."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="plait-fuzz-"))

    def reader(self, name: str, read: Callable[[Path], object]) -> Callable[[bytes], object]:
        path = self._folder / name

        def run(data: bytes) -> object:
            path.write_bytes(data)
            return read(path)

        return run


def _journal(path: Path) -> object:
    journal = Journal(path)
    try:
        return [record.seq for record in journal.records()]
    finally:
        journal.close()


def _party(path: Path) -> object:
    return read_party(path.with_name("job.toml"), "shop")


def _http(data: bytes) -> object:
    """What the service does with a body, up to the question for the parties."""
    found = None
    with contextlib.suppress(HttpRefusal):
        found = read_rows(data)
    try:
        return found, handshake.encode(handshake.Query(_read_ids(data).ids))
    except (HttpRefusal, ProtocolError):
        return found


def _greeting(data: bytes) -> object:
    return handshake.expect(data, handshake.Hello, handshake.Ready, handshake.Finished)


def _log_bytes() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        log = AuditLog(Path(folder) / "audit.jsonl")
        log.note("started", last=0)
        log.message("sent", "coordinator", 1, Share(1, np.ones(4)))
        log.close()
        return (Path(folder) / "audit.jsonl").read_bytes()


def _sealed_json() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        write_json(Path(folder) / "model.json", {"format": 1, "run": "20260101-120000-0a1b2c", "intercept": 0.5})
        return (Path(folder) / "model.json").read_bytes()


def _npz() -> bytes:
    out = io.BytesIO()
    np.savez(out, X=np.ones((3, 2)), label=np.ones(3))
    return out.getvalue()


def _arrow_files(files: "_Files") -> tuple[Target, ...]:
    """Those that pyarrow reads, where it is installed."""
    try:
        import pyarrow as pa
        from pyarrow import feather, parquet
    except ImportError:
        return ()
    table, in_parquet, in_feather = pa.table({"id": ["a", "b"], "x": [1.0, 2.0]}), io.BytesIO(), io.BytesIO()
    parquet.write_table(table, in_parquet)
    feather.write_feather(table, in_feather, compression="uncompressed")
    return (
        Target("Parquet files", files.reader("t.parquet", read_table), (in_parquet.getvalue(),), 2_000),
        Target("Arrow files", files.reader("t.arrow", read_table), (in_feather.getvalue(),), 2_000),
    )


def _journal_bytes() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(Path(folder) / "journal")
        for seq in (1, 2, 3):
            journal.append(seq, [b"payload" * seq])
        journal.close()
        return (Path(folder) / "journal").read_bytes()


def _date(data: bytes) -> object:
    """A format and a text, with a zero between them; a text that is no date is a ValueError there."""
    form, _, text = data.decode("utf-8", "replace").partition("\0")
    read = DateFormat(form)
    with contextlib.suppress(ValueError):
        return read.years(text)
    return formats_of([text])


_TABLES = (b"id;x;since;paid\n k 1 ;1.000,5;31.12.1990;yes\n k 2 ;2,5;1.1.1991;no\n", b"a,b\n1,x\n2,y\n")
_PARTY = b"""[data]
file = "shop.csv"
id = "id"
[prepare]
scale = "standard"
[trust]
max_rounds = 20
"""
_JOB = b"""format = 1
name = "test"
parties = ["bank", "shop"]
protection = "plain"
[coordinator]
name = "bank"
address = "127.0.0.1:7443"
[model]
loss = "logistic"
penalty = { name = "l2", alpha = 1e-3 }
[stopping]
max_rounds = 20
"""


def targets() -> list[Target]:
    """All of them; their shares add up to a million."""
    files, said = _Files(), _frames()
    snapshot = Snapshot(3, (Answered(3, Share(3, np.ones(4))),), (np.zeros((2, 3)), 1.5, {"a": None}))
    states = (state.encode(snapshot), state.encode(Broadcast(2, np.ones(5))))
    broadcast = Broadcast(3, np.ones(ROWS))
    return [
        Target("broadcasts at a party", _at_party("fit"), said, 121_000),
        Target("short broadcasts at a party", _at_party("fit", "int16"), said, 100_000),
        Target("parcels at a party", _at_party("align"), said, 100_000),
        Target("queries at a party", _at_party("serve"), said, 100_000),
        Target("shares at a coordinator", _at_coordinator(broadcast), said, 121_000),
        Target("parcels at a coordinator", _at_coordinator(Parcel("give", "shop")), said, 100_000),
        Target("scores at a coordinator", _queried, said, 80_000),
        Target("checkpoints", _state, states, 100_000),
        Target("HTTP bodies", _http, (b'{"ids": ["a", "b"]}', b'{"ids": [1]}', b'{"id": "a"}\n{"id": "b"}\n'), 50_000),
        Target("greetings at a coordinator", _greeting, said, 20_000),
        Target("audit logs", files.reader("audit.jsonl", lambda path: list(read_log(path))), (_log_bytes(),), 5_000),
        Target(
            "stored JSON", files.reader("m.json", lambda path: read_json(path, "a model", {})), (_sealed_json(),), 5_000
        ),
        Target("party files", files.reader("shop.toml", _party), (_PARTY,), 8_000),
        Target("journals", files.reader("journal", _journal), (_journal_bytes(),), 10_000),
        Target("job files", files.reader("job.toml", read_job), (_JOB,), 10_000),
        Target("CSV files", files.reader("t.csv", read_table), (b"id,x\na,1\nb,2\n", b'a;b\n"1,5";2\n'), 6_000),
        Target("npz files", files.reader("t.npz", read_table), (_npz(),), 4_000),
        *_arrow_files(files),
        Target("dates", _date, (b"DD.MM.YYYY\031.12.1990", b"YYYY-MM-DD\01990-12-31 10:00"), 5_000),
        Target(
            "tables that are guessed", files.reader("g.csv", lambda path: guess_columns(path, True)), _TABLES, 3_000
        ),
        *_protected(),
        *_stored(),
    ]


def _protected() -> list[Target]:
    run, certified = ProtectedRun(), Certified()
    return [
        Target("offers at a party", run.read_offer, (run.offer.tobytes(),), 10_000),
        Target("masking keys at a party", run.read_keys, (run.keys.tobytes(),), 5_000),
        Target("encrypted gradients at a party", run.read_gradient, (run.gradient.tobytes(),), 5_000),
        Target("encrypted columns", run.read_hints, (run.hints.tobytes(),), 1_000),
        Target("signatures", certified.read_signature, (certified.proof,), 10_000),
        Target("proofs at a party", certified.read_proof, (certified.certificate,), 5_000),
        Target("requests to sign", certified.reader("CERTIFICATE REQUEST"), (certified.request,), 2_000),
        Target("certificates", certified.reader("CERTIFICATE"), (certified.certificate,), 2_000),
    ]


def _stored() -> list[Target]:
    stored = StoredFiles()
    masks = b"\n1 " + b"ab" * 32 + b"\n\n2 " + b"cd" * 32 + b"\n"
    return [
        Target("stored JSON with a right checksum", stored.read, (b"0", b"1"), 5_000),
        Target("masks that were used", stored.read_masks, (masks,), 5_000),
    ]


__all__ = ["PlaitError", "Target", "targets"]
