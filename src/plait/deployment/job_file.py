"""Job files and party files: TOML in, frozen dataclasses out.

A job file is the same at every party and holds nothing private.  A party file is private to its party: where its data
lie, how they are prepared, where its certificates are.  Every option stands here, or on the object that it configures
(`plait.Stopping`, `plait.Proximal`, ...), once.
"""

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from plait._names import check_name
from plait.alignment.ids import AlignmentOptions, Missing, Repeated
from plait.data.preparation import PrepareOptions
from plait.deployment.registry import LABEL_MECHANISMS, LOSSES, MECHANISMS, build, choose, convert, method, penalty
from plait.errors import ConfigError, SettingError
from plait.methods.base import Method
from plait.privacy.mechanisms.paper import NoPrivacy
from plait.privacy.policy import Policy
from plait.problem.losses import Logistic, Loss
from plait.problem.penalties import L2, Penalty
from plait.training.precision import need_wire
from plait.training.stopping import Stopping

FORMAT = 1
_SECTIONS = ("format", "name", "parties", "coordinator", "model", "method", "stopping", "run", "privacy")


@dataclass(frozen=True)
class CoordinatorSpec:
    """Who holds the labels and where the parties dial.

    name         the label party: its certificate must carry this name
    address      host:port that every party can reach
    patience     seconds that a party may be missing before the run ends
    """

    name: str
    address: str = "127.0.0.1:7443"
    patience: float = 600.0

    def __post_init__(self) -> None:
        check_name(self.name)
        host, _, port = self.address.rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise ConfigError(f"coordinator.address must be host:port. Found {self.address!r}.")
        if not self.patience > 0:
            raise ConfigError(f"coordinator.patience must be positive. Found {self.patience}.")


@dataclass(frozen=True)
class RunOptions:
    """How every process runs.

    threads      BLAS threads per process; the same everywhere, so that the numbers repeat
    wire         "float64", "float32" to send half the bytes, or "int16" to send a quarter
    """

    threads: int = 1
    wire: str = "float64"

    def __post_init__(self) -> None:
        if self.threads < 1:
            raise ConfigError(f"run.threads must be 1 or more. Found {self.threads}.")
        need_wire(self.wire)


@dataclass(frozen=True)
class Job:
    """What all parties agree on."""

    name: str
    parties: tuple[str, ...]
    coordinator: CoordinatorSpec
    penalties: Mapping[str, Penalty]
    method: Method
    loss: Loss = field(default_factory=Logistic)
    intercept: bool = True
    stopping: Stopping = field(default_factory=Stopping)
    run: RunOptions = field(default_factory=RunOptions)
    weighted: bool = False
    """Whether records have weights, which the label party's file names and every party is told."""
    policy: Policy = field(default_factory=Policy)
    """Who protects what; the same job on the same data is the same release, wherever it runs."""
    alignment: AlignmentOptions | None = None
    """How the common rows are found first; None when all files hold the same rows in the same order."""
    digest: str = ""
    """SHA-256 of the file's content, comments aside: parties with another job are refused."""

    @property
    def briefed(self) -> bool:
        """Whether parties are told something about the records before round 1."""
        return self.weighted or self.policy.labels is not None


@dataclass(frozen=True)
class DataOptions:
    """Where a party's rows lie.

    file         CSV, Parquet, LIBSVM (.svm, .libsvm) or NumPy (.npy, .npz), relative to the party file
    id           the column that names the rows, or a list of columns; empty for files without one
    label        the label column (coordinator only)
    weight       a column of sample weights (coordinator only, with model.weighted in the job)
    columns      the columns to use; empty for all others
    drop         columns to leave out
    score        new rows for `plait predict` and `plait evaluate`
    repeated_ids before an alignment: "refuse"; "first" keeps the first row of each; "drop" drops them all
    missing_ids  before an alignment: "refuse", or "drop" the rows
    """

    file: str
    id: tuple[str, ...] = ()
    label: str = ""
    weight: str = ""
    columns: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    score: str = ""
    repeated_ids: Repeated = "refuse"
    missing_ids: Missing = "refuse"


@dataclass(frozen=True)
class TrustOptions:
    """What this party insists on.

    min_columns  a party with fewer columns refuses to start: one column times a number is sent as it is
    max_queries  scores that this party gives a prediction service per minute; 0 for no limit
    """

    min_columns: int = 2
    max_queries: int = 0


@dataclass(frozen=True)
class PrivacyOptions:
    """What this party is willing to spend, where the job protects its features or its labels.

    epsilon, delta   its budget for one data set, over all jobs and runs
    ledger           the folder of its ledgers and of the secret of its noise
    test_noise       a seed, for tests only: whoever knows it can remove the noise; the ledger records it
    """

    epsilon: float | None = None
    delta: float = 1e-5
    ledger: str = "ledgers"
    test_noise: int | None = None


@dataclass(frozen=True)
class NetworkOptions:
    """How this party meets the others.

    certificates   the folder with ca.crt, NAME.crt and NAME.key
    listen         host:port to listen on (coordinator only); empty for all interfaces, at the job's port
    """

    certificates: str = "certs"
    listen: str = ""


@dataclass(frozen=True)
class PartyFile:
    """What one party keeps to itself."""

    name: str
    folder: Path
    data: DataOptions
    prepare: PrepareOptions = field(default_factory=PrepareOptions)
    trust: TrustOptions = field(default_factory=TrustOptions)
    privacy: PrivacyOptions = field(default_factory=PrivacyOptions)
    network: NetworkOptions = field(default_factory=NetworkOptions)
    runs: str = "runs"

    def path(self, relative: str) -> Path:
        """A path of this file, relative to where it stands."""
        return self.folder / relative


def read_job(path: Path) -> Job:
    """A job from its file."""
    table = _read(path, "a job file")
    digest = hashlib.sha256(json.dumps(table, sort_keys=True, default=str).encode()).hexdigest()
    where = path.name
    sections = ("coordinator", "model", "method", "stopping", "run", "privacy", "alignment")
    _need_keys(table, where, ("format", "name", "parties", *sections))
    if table.get("format") != FORMAT:
        raise ConfigError(f"{where}: format must be {FORMAT}. Found {table.get('format')!r}.")
    parties = _names(table, where)
    coordinator = build(CoordinatorSpec, table.get("coordinator", {}), f"{where}: coordinator")
    model = table.get("model", {})
    _need_keys(model, f"{where}: model", ("loss", "penalty", "penalties", "intercept", "weighted"))
    penalties = _penalties(model, parties, f"{where}: model")
    loss = choose(LOSSES, model.get("loss", "logistic"), f"{where}: model.loss")
    name = check_name(str(table.get("name", path.stem)))
    stopping = build(Stopping, table.get("stopping", {}), f"{where}: stopping")
    policy = _policy(table.get("privacy", {}), parties, loss, stopping, f"{where}: privacy")
    run = build(RunOptions, table.get("run", {}), f"{where}: run")
    if policy.private and run.wire != "float64":
        raise ConfigError(f'{where}: a private run needs run.wire = "float64". Found {run.wire!r}.')
    return Job(
        name=name,
        parties=parties,
        coordinator=coordinator,
        penalties=penalties,
        loss=loss,
        intercept=convert(model.get("intercept", True), bool, f"{where}: model.intercept"),
        method=method(table.get("method", "auto"), policy, loss, penalties, f"{where}: method"),
        stopping=stopping,
        weighted=convert(model.get("weighted", False), bool, f"{where}: model.weighted"),
        policy=replace(policy, run=f"{name}-{_release(table)}"),
        run=run,
        alignment=build(AlignmentOptions, table["alignment"], f"{where}: alignment") if "alignment" in table else None,
        digest=digest,
    )


def read_party(job_path: Path, name: str, path: Path | None = None) -> PartyFile:
    """A party's file: `path`, or NAME.toml beside the job file."""
    path = job_path.with_name(f"{check_name(name)}.toml") if path is None else path
    table = _read(path, f"the party file of {name!r}")
    where = path.name
    sections: dict[str, Any] = {
        "data": DataOptions,
        "prepare": PrepareOptions,
        "trust": TrustOptions,
        "privacy": PrivacyOptions,
        "network": NetworkOptions,
    }
    _need_keys(table, where, (*sections, "runs"))
    if "data" not in table:
        raise ConfigError(f"{where} must have a [data] section. Found none. Say at least where the file is.")
    built = {key: build(kind, table[key], f"{where}: {key}") for key, kind in sections.items() if key in table}
    return PartyFile(name=name, folder=path.parent, runs=str(table.get("runs", "runs")), **built)


def _read(path: Path, what: str) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{what} must be at {path}. Found: {error.strerror}. `plait init` writes one.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{what} must be TOML. Found {path}: {error}.") from error


def _need_keys(table: Any, where: str, known: tuple[str, ...]) -> None:
    if not isinstance(table, dict):
        raise ConfigError(f"{where} must be a table. Found {table!r}.")
    unknown = sorted(set(table) - set(known))
    if unknown:
        raise ConfigError(f"{where} knows {', '.join(known)}. Found {', '.join(unknown)}.")


def _names(table: dict[str, Any], where: str) -> tuple[str, ...]:
    names = table.get("parties")
    if not isinstance(names, list) or not names or len(set(map(str, names))) != len(names):
        raise ConfigError(f'{where}: parties must list different names, like ["bank", "shop"]. Found {names!r}.')
    return tuple(check_name(str(name)) for name in names)


def _penalties(model: dict[str, Any], parties: tuple[str, ...], where: str) -> dict[str, Penalty]:
    """One penalty per party: model.penalties.NAME, else model.penalty, else a light ridge."""
    common = penalty(model["penalty"], f"{where}.penalty") if "penalty" in model else L2(1e-4)
    own = model.get("penalties", {})
    _need_keys(own, f"{where}.penalties", parties)
    return {name: penalty(own[name], f"{where}.penalties.{name}") if name in own else common for name in parties}


def _policy(table: Any, parties: tuple[str, ...], loss: Loss, stopping: Stopping, where: str) -> Policy:
    """Who protects what; parties that the table does not name protect nothing."""
    _need_keys(table, where, ("parties", "labels", "offset", "disjoint"))
    own = table.get("parties", {})
    _need_keys(own, f"{where}.parties", parties)
    named = {name: choose(MECHANISMS, own[name], f"{where}.parties.{name}") for name in own}
    labels = table.get("labels")
    policy = Policy(
        {name: named.get(name, NoPrivacy()) for name in parties},
        labels=None if labels is None else choose(LABEL_MECHANISMS, labels, f"{where}.labels"),
        offset=convert(table.get("offset", True), bool, f"{where}.offset"),
        disjoint=convert(table.get("disjoint", False), bool, f"{where}.disjoint"),
    )
    try:
        policy.mechanisms(parties)
        policy.loss_of_targets(loss)
    except SettingError as error:
        raise ConfigError(f"{where}: {error}") from error
    if named and stopping.max_seconds is not None:
        raise ConfigError(f"{where}: a private run ends by its rounds. Found stopping.max_seconds. Leave it out.")
    return policy


def _release(table: dict[str, Any]) -> str:
    """Names what a job releases: all of it but where the coordinator listens."""
    content = {key: value for key, value in table.items() if key != "coordinator"}
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:16]
