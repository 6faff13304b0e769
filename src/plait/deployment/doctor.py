"""`plait doctor`: what could go wrong on this machine, checked before it does."""

import datetime
import platform
import socket
import stat
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import scipy.sparse as sp

from plait._mapped_files import in_file
from plait._texts import in_both_cases
from plait._version import __version__
from plait.alignment.ids import Ids
from plait.data.memory import Room, in_words, least_memory, stored_bytes
from plait.data.parts import equal_weights
from plait.data.statistics import gather
from plait.deployment.consent import shown
from plait.deployment.endpoints import Dial, Listen, link
from plait.deployment.job_file import Job, PartyFile
from plait.deployment.local_data import Rows, load_ids, load_labels, load_rows, prepare_rows, read_new_rows, room_of
from plait.deployment.party_privacy import admit, mechanism_of, policy_at, spec_at
from plait.errors import BudgetError, ConfigError, PlaitError
from plait.privacy.ledger.witness import state_folder
from plait.privacy.policy import Policy
from plait.problem.features import GRAM_LIMIT, Features
from plait.problem.row_blocks import row_slices
from plait.training.assembly import assemble_party
from plait.transports import certificates
from plait.transports.admission import CHECK, CHECKED
from plait.transports.certificates import Folder
from plait.transports.handshake import PROTOCOL, Hello
from plait.transports.tls import bare

PASS, WARN, FAIL = "pass", "warn", "fail"
_IDS_LOOKED_AT = 5_000  # ids: enough to meet both cases where a table mixes them
_SOON = datetime.timedelta(days=30)  # before a certificate ends: time to have a new one signed


@dataclass(frozen=True)
class Diagnosis:
    """One line of the table: what was looked at, how it stands, what was found and what to do."""

    what: str
    level: str
    found: str
    fix: str = ""


def examine(
    job: Job, file: PartyFile, listen: Listen | None, dial: Dial | None, folder: Path | None
) -> Iterator[Diagnosis]:
    """Every check for one party on this machine; `folder` holds its certificates, None for plain text."""
    yield Diagnosis(
        "software", PASS, f"plait {__version__}, Python {platform.python_version()}, gRPC {grpc.__version__}"
    )
    yield Diagnosis("job file", PASS, f"{job.name}: {', '.join(job.parties)}; digest {job.digest[:16]}")
    if folder is not None:
        pinned = job.fingerprints.get(file.name, "")
        yield from _guarded(
            "certificates", "See `plait cert`.", lambda: _certificates(Folder(folder), file.name, pinned)
        )
    yield from _guarded("privacy", f"Write it into {file.name}.toml.", lambda: _privacy(job, file))
    yield from _guarded("data", f"Correct {file.name}.toml or the file.", lambda: _data(job, file))
    if listen is not None:
        yield _listening(listen)
    if dial is not None:
        yield from _guarded("coordinator", "Read what it says.", lambda: _dialling(job, file, dial))


def _guarded(what: str, fix: str, check: Callable[[], Iterator[Diagnosis]]) -> Iterator[Diagnosis]:
    """The findings of a check; an error of plait's own is a finding, too."""
    try:
        yield from check()
    except PlaitError as error:
        yield Diagnosis(what, FAIL, str(error), fix)


def _certificates(folder: Folder, name: str, pinned: str) -> Iterator[Diagnosis]:
    certificate = certificates.read_certificate(folder.certificate(name))
    authority = certificates.read_certificate(folder.authority)
    certificates.check_pair(certificate, authority, folder.key(name))
    if certificates.name_of(certificate) != name:
        found = certificates.name_of(certificate)
        yield Diagnosis("certificate", FAIL, f"it names {found!r}, not {name!r}", "Request one in your own name.")
    now = datetime.datetime.now(datetime.UTC)
    for what, one in (("certificate", certificate), ("authority", authority)):
        yield _validity(what, one.not_valid_before_utc, one.not_valid_after_utc, now)
    mark = certificates.fingerprint(certificate)
    if pinned and bare(pinned) != bare(mark):
        fix = "Use the certificate of that key, or agree on a new job file."
        yield Diagnosis("fingerprint", FAIL, f"{mark}, and the job file pins {pinned}", fix)
    else:
        yield Diagnosis("fingerprint", PASS, mark + (", as the job file pins it" if pinned else ""))
    if stat.S_IMODE(folder.key(name).stat().st_mode) & 0o077:
        yield Diagnosis("private key", WARN, "others on this machine can read it", f"chmod 600 {folder.key(name)}")


def _validity(what: str, begin: datetime.datetime, end: datetime.datetime, now: datetime.datetime) -> Diagnosis:
    if now < begin:
        return Diagnosis(
            f"{what}, clock", FAIL, f"valid only from {begin:%Y-%m-%d %H:%M} UTC", "Set this machine's clock."
        )
    if now > end:
        return Diagnosis(
            f"{what}, expiry", FAIL, f"expired on {end:%Y-%m-%d}", "Request a new one: `plait cert request`."
        )
    level = WARN if end - now < _SOON else PASS
    return Diagnosis(f"{what}, expiry", level, f"valid until {end:%Y-%m-%d}", "Renew it soon." if level == WARN else "")


def _privacy(job: Job, file: PartyFile) -> Iterator[Diagnosis]:
    """What this party shows and promises.  Its ledger is not opened: a new one would keep the budget of today."""
    policy_at(job, file)
    for option, sentence in shown(job, file):
        accepted = not option or getattr(file.trust, option)
        fix = "" if accepted else f"Write trust.{option} = true into {file.name}.toml, or ask for a job with [privacy]."
        yield Diagnosis("shown to others", PASS if accepted else FAIL, sentence, fix)
    if job.policy.private and file.name in job.parties:
        words = job.policy.guarantee(job.parties).splitlines()[job.parties.index(file.name)]
        yield Diagnosis("privacy", PASS, words.partition(": ")[2])


def _data(job: Job, file: PartyFile) -> Iterator[Diagnosis]:
    runs = file.path(file.runs)
    if runs.exists() and not runs.is_dir():
        raise ConfigError(f"runs must be a folder. Found a file: {runs}.")
    if job.blind is not None and file.name == job.coordinator.name:
        yield Diagnosis("data", PASS, "a blind machine has none")
        return
    if file.name == job.label_party:
        labels = load_labels(job, file)
        share = float(np.mean(labels.values > 0))
        yield Diagnosis("labels", PASS, f"{len(labels.ids)} rows, {100 * share:.1f} % positive")
    if job.alignment is not None:
        yield _ids(job, load_ids(job, file), file.name)
    if file.name not in job.parties:
        return
    rows = load_rows(job, file)
    yield from _rehearsal(job, file, rows)
    shape = rows.matrix.shape
    yield Diagnosis("columns", PASS, f"{shape[0]} rows, {shape[1]} columns, no missing numbers after preparation")
    if not file.data.id:
        yield Diagnosis("ids", WARN, "the file has no id column", "Rows can be compared by number only. Set data.id.")
    if shape[1] > shape[0]:
        yield Diagnosis("shape", WARN, "more columns than rows", "What is sent may pin down the labels. Drop columns.")
    flat = _constant_columns(rows)
    if flat:
        yield Diagnosis("constant columns", WARN, ", ".join(flat[:5]), "They say nothing. List them in data.drop.")
    if file.data.score:
        new = prepare_rows(file, read_new_rows(job, file, file.data.score).table, rows.prepared)
        yield Diagnosis("new rows", PASS, f"{len(new.ids)} rows to score in {file.data.score}")
    yield _memory(rows, room_of(job, file))


def _ids(job: Job, ids: Ids, name: str) -> Diagnosis:
    both = in_both_cases(ids.texts.take(np.arange(min(len(ids.texts), _IDS_LOOKED_AT))))
    if both is None or job.alignment is None or job.alignment.case == "fold":
        return Diagnosis("ids", PASS, ids.report(name))
    found = f"{ids.report(name)}; some in capitals, others in small letters: {both[0]!r}, {both[1]!r}"
    return Diagnosis("ids", WARN, found, 'To compare them without regard to case: case = "fold" in the job file.')


def _rehearsal(job: Job, file: PartyFile, rows: Rows) -> Iterator[Diagnosis]:
    """The party put together as in a run; what it would charge goes into a ledger that is thrown away.

    The party's own ledger is opened only where there is one already: a new one would keep the budget of today.
    """
    spec, name = spec_at(job, file), file.name
    ledger = spec.policy.ledger
    with tempfile.TemporaryDirectory(prefix="plait-doctor-") as scratch, state_folder(Path(scratch) / "state"):
        if ledger is not None:
            thrown_away = replace(ledger, root=Path(scratch) / "ledgers", witness=Path(scratch) / "witness")
            spec = replace(spec, policy=replace(spec.policy, ledger=thrown_away))
        admit(job, file, spec.policy)
        assemble_party(spec, name, Features(rows.matrix), equal_weights(len(rows.ids)))
        _require_one_run(job, spec.policy, name)
    if ledger is not None and Path(ledger.root).exists():
        yield _left_to_spend(job, policy_at(job, file), name)


def _require_one_run(job: Job, policy: Policy, name: str) -> None:
    """BudgetError where less is left of the budget for this party's columns than one run takes."""
    replace(policy, parties=mechanism_of(job, name), labels=None).require([name], 1)


def _left_to_spend(job: Job, policy: Policy, name: str) -> Diagnosis:
    try:
        _require_one_run(job, policy, name)
    except BudgetError as error:
        return Diagnosis(
            "budget", WARN, str(error), "A run that was charged before may be repeated. Others are refused."
        )
    return Diagnosis("budget", PASS, "one more run fits into what is left")


def _constant_columns(rows: Rows) -> list[str]:
    matrix = rows.matrix
    if sp.issparse(matrix):
        ends = [(b.max(axis=0).toarray(), b.min(axis=0).toarray()) for b in _sparse_blocks(matrix)]
        spread = np.max([high for high, _ in ends], axis=0) - np.min([low for _, low in ends], axis=0)
    else:
        known = gather(matrix)
        spread = known.high - known.low
    return [name for name, width in zip(rows.columns, np.ravel(spread), strict=True) if width == 0]


def _sparse_blocks(matrix: Any) -> Iterator[Any]:
    return (matrix[rows] for rows in row_slices(matrix.shape[0], matrix.shape[1], matrix.nnz))


def _memory(rows: Rows, room: Room) -> Diagnosis:
    """Where the table lies, and what the process takes at the least: the program, vectors, a Gram matrix, a table."""
    count, width = rows.matrix.shape
    if sp.issparse(rows.matrix):
        held = 0 if in_file(rows.matrix.data) else stored_bytes(rows.matrix)
    else:
        held = rows.matrix.nbytes if isinstance(rows.matrix, np.ndarray) else 0
    # Bytes: the Gram matrix and two factors of at most 4096 rows, 8 a number.
    need, have = least_memory(count) + 2 * held + 3 * min(width, count, GRAM_LIMIT) ** 2 * 8, room.bytes
    vectors = "files" if room.workspace(count).on_disk else "memory"
    text = f"{rows.lies}; vectors of one number per row lie in {vectors}; about {in_words(need)} needed"
    if need > have:
        return Diagnosis("memory", FAIL, text, "Raise data.memory, free memory, or use a larger machine.")
    return Diagnosis("memory", WARN if need > have / 2 else PASS, text)


def _listening(listen: Listen) -> Diagnosis:
    host, _, port = listen.address.rpartition(":")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host.strip("[]"), int(port)))
        except OSError as error:
            return Diagnosis(
                "port", FAIL, f"{listen.address}: {error.strerror}", "End what uses it, or set network.listen."
            )
    return Diagnosis("port", PASS, f"{listen.address} is free; open it in the firewall")


def _dialling(job: Job, file: PartyFile, dial: Dial) -> Iterator[Diagnosis]:
    host, _, port = dial.address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=5):
            pass
    except OSError as error:
        fix = "Start the coordinator; check the address, DNS and the firewall. This party only dials out."
        yield Diagnosis("coordinator", WARN, f"{dial.address}: {error.strerror or error}", fix)
        return
    yield Diagnosis("network", PASS, f"{dial.address} answers")
    connection = link(job, dial, lambda what, **facts: None, 5.0)
    said = connection.check(Hello(PROTOCOL, __version__, file.name, job.digest, CHECK))
    if said == CHECKED:
        yield Diagnosis("coordinator", PASS, said)
    else:
        yield Diagnosis(
            "coordinator", FAIL, said, "Compare ca.crt and fingerprints with the label party: `plait cert show`."
        )
