"""Job files and party files: TOML in, frozen dataclasses out.

A job file is the same at every party and holds nothing private.  A party file is private to its party: where its data
lie, how they are prepared, where its certificates are.  Every option stands once: in
`job_settings` or `party_settings`, or on the object that it configures (`plait.Stopping`, `plait.Proximal`, ...).
"""

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from plait._names import check_name, check_party, is_hex
from plait.alignment.ids import NOT_RULES, AlignmentOptions
from plait.data.prepare_options import PrepareOptions
from plait.deployment.job_protection import (
    blind_protection,
    check_report,
    check_scoring,
    protected_method,
    read_policy,
)
from plait.deployment.job_settings import (
    JOB_SECTIONS,
    RENAMED,
    BlindOptions,
    CoordinatorSpec,
    ModelOptions,
    ReportOptions,
    RunOptions,
    ScoringOptions,
)
from plait.deployment.party_settings import (
    PARTY_SECTIONS,
    ClusterOptions,
    DataOptions,
    NetworkOptions,
    PrivacyOptions,
    TrustOptions,
)
from plait.deployment.registry import (
    LOSSES,
    build,
    choose,
    method,
    need_keys,
    penalty,
    read_protection,
)
from plait.deployment.run_folder import COORDINATOR
from plait.errors import ConfigError
from plait.methods.base import Method
from plait.methods.registry import AUTO
from plait.privacy.policy import Policy
from plait.problem.losses import Loss
from plait.problem.penalties import Penalty
from plait.protection.modes import Protection
from plait.training.stopping import Stopping
from plait.transports.tls import bare

FINGERPRINT_BYTES = 16  # bytes of a fingerprint: half a SHA-256, as much as people compare
FORMAT = 1  # of job files; another number is refused
_OPTIONAL = ("alignment", "blind")  # sections that switch something on
_LARGEST_FILE = 1 << 20  # bytes of a job or party file: far more than one needs


@dataclass(frozen=True)
class Job:
    """What all parties agree on."""

    name: str
    parties: tuple[str, ...]
    coordinator: CoordinatorSpec
    penalties: Mapping[str, Penalty]
    method: Method
    loss: Loss
    intercept: bool
    stopping: Stopping = field(default_factory=Stopping)
    run: RunOptions = field(default_factory=RunOptions)
    weighted: bool = False
    """Whether rows have weights, which the label party's file names and every party is told."""
    policy: Policy = field(default_factory=Policy)
    """Who protects what; the same job on the same data is the same release, wherever it runs."""
    protection: Protection | None = None
    """What is encrypted and masked; None for "plain"."""
    blind: BlindOptions | None = None
    """Whom the coordinator works for, where it is a blind machine."""
    alignment: AlignmentOptions | None = None
    """How the common rows are found first; None when all files hold the same rows in the same order."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What the file says, as it stands there."""
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    """Fingerprints of the keys that parties must have, by name; others are refused, whoever signed them."""
    scoring: ScoringOptions = field(default_factory=ScoringOptions)
    """How new rows are found, and what happens to those that a party lacks."""
    report: ReportOptions = field(default_factory=ReportOptions)
    """What is measured for the report besides the model."""
    pair_of: tuple[str, ...] = ()
    """Where this job is the label party with one partner, for a report: all parties of the job that it is made of."""
    keeper: str = COORDINATOR
    """Whose folder of a run holds the model's intercept."""
    digest: str = ""
    """SHA-256 of the file's content, comments aside: parties with another job are refused."""
    model_digest: str = ""
    """The same without [scoring], [report] and [fingerprints]: runs with it are of this job, however they are used."""

    @property
    def label_party(self) -> str:
        """The organisation that holds the labels: it runs the coordinator, unless that is a blind machine."""
        return self.coordinator.name if self.blind is None else self.blind.label_party

    @property
    def for_scores(self) -> "Job":
        """The same job with the label party as its coordinator: a blind machine scores nothing."""
        if self.blind is None:
            return self
        if not self.scoring.address:
            raise ConfigError(
                "a blind machine scores nothing: the label party asks for scores itself. Found no address of it. Set "
                'scoring.address in the job file, such as "bank.example:7444", where the other party can reach it.'
            )
        label_party = self.blind.label_party
        coordinator = replace(self.coordinator, name=label_party, address=self.scoring.address)
        return replace(self, coordinator=coordinator, blind=None, protection=Protection("labels"), keeper=label_party)

    @property
    def joins_privately(self) -> bool:
        """Whether new rows are aligned before they are scored, instead of named by the label party."""
        return (self.scoring.join or ("list" if self.alignment is None else "private")) == "private"


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
    cluster: ClusterOptions = field(default_factory=ClusterOptions)
    runs: str = "runs"

    def path(self, relative: str) -> Path:
        """A path of this file, relative to where it stands."""
        return self.folder / relative


def read_job(path: Path) -> Job:
    """A job from its file."""
    return job_of(_read(path, "a job file"), path.name)


def job_of(table: dict[str, Any], where: str) -> Job:
    """A job from what its file says; errors call the file `where`."""
    need_keys(table, where, ("format", "name", "parties", "protection", "method", "fingerprints", *JOB_SECTIONS))
    if table.get("format") != FORMAT:
        raise ConfigError(f"{where}: format must be {FORMAT}. Found {table.get('format')!r}.")
    parties = _names(table, where)
    given = {key: _section(table, key, where) for key in JOB_SECTIONS if key in table or key not in _OPTIONAL}
    model, stopping, run = given["model"], given["stopping"], given["run"]
    penalties = _penalties(model, parties, f"{where}: model")
    loss = choose(LOSSES, model.loss, f"{where}: model.loss")
    policy = read_policy(given["privacy"], parties, loss, stopping, f"{where}: privacy")
    if policy.private and run.precision != "float64":
        raise ConfigError(f'{where}: a private run needs run.precision = "float64". Found {run.precision!r}.')
    name = check_name(str(table.get("name", Path(where).stem)))
    protection = read_protection(table.get("protection"), f"{where}: protection")
    if protection is not None and protection.mode == "blind":
        protection = blind_protection(protection, given, parties, loss, penalties, where)
    elif "blind" in given:
        raise ConfigError(f'{where}: the section [blind] goes with protection = "blind". Found another. Change one.')
    chosen = method(table.get("method", AUTO), policy, loss, penalties, f"{where}: method")
    return Job(
        name=name,
        parties=parties,
        coordinator=given["coordinator"],
        penalties=penalties,
        loss=loss,
        intercept=model.fit_intercept,
        method=protected_method(
            chosen, protection, given["coordinator"].name, parties, policy, run, model.weighted, where
        ),
        protection=protection,
        blind=given.get("blind"),
        stopping=stopping,
        weighted=model.weighted,
        policy=replace(policy, run=f"{name}-{_release(table)}"),
        run=run,
        settings=table,
        alignment=given.get("alignment"),
        fingerprints=_fingerprints(table, (*parties, given["coordinator"].name), where),
        scoring=check_scoring(given["scoring"], given.get("alignment"), policy, protection, f"{where}: scoring"),
        report=check_report(given["report"], policy, protection, f"{where}: report"),
        digest=_digest(table),
        model_digest=_digest(_without_limits(table), "scoring", "report", "fingerprints"),
    )


def read_party(job_path: Path, name: str, path: Path | None = None) -> PartyFile:
    """A party's file: `path`, or NAME.toml beside the job file."""
    path = job_path.with_name(f"{check_party(name)}.toml") if path is None else path
    table = _read(path, f"the party file of {name!r}")
    where = path.name
    need_keys(table, where, (*PARTY_SECTIONS, "runs"))
    if "data" not in table:
        raise ConfigError(f"{where} must have a [data] section. Found none. Say at least where the file is.")
    built = {key: build(kind, table[key], f"{where}: {key}") for key, kind in PARTY_SECTIONS.items() if key in table}
    return PartyFile(name=name, folder=path.parent, runs=str(table.get("runs", "runs")), **built)


def file_of(job: Job, job_path: Path, name: str = "", path: Path | None = None) -> PartyFile:
    """The file of a party, or of the coordinator; a blind machine, which has no data, needs none."""
    name = name or job.coordinator.name
    own = job_path.with_name(f"{name}.toml") if path is None else path
    if job.blind is not None and name == job.coordinator.name and not own.exists():
        return PartyFile(name, job_path.parent, DataOptions(file="none"))
    return read_party(job_path, name, path)


def _read(path: Path, what: str) -> dict[str, Any]:
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise ConfigError(f"{what} must be at most {_LARGEST_FILE} bytes long. Found {path}, which is larger.")
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{what} must be at {path}. Found: {error.strerror}. `plait init` writes one.") from error
    except (ValueError, RecursionError) as error:  # TOML, UTF-8, a NUL in the path, or nested too deep
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{what} must be TOML. Found {path}: {error}.") from error


def _section(table: dict[str, Any], key: str, where: str) -> Any:
    """A section of the job file as its dataclass."""
    given = table.get(key, {})
    for old, new in RENAMED.get(key, {}).items():
        if isinstance(given, dict) and old in given:
            raise ConfigError(f"{where}: {key}.{old} is called {key}.{new} now. Found {old}. Write {new} instead.")
    return build(JOB_SECTIONS[key], given, f"{where}: {key}")


def _names(table: dict[str, Any], where: str) -> tuple[str, ...]:
    names = table.get("parties")
    if not isinstance(names, list) or not names or len(set(map(str, names))) != len(names):
        raise ConfigError(f'{where}: parties must list different names, like ["bank", "shop"]. Found {names!r}.')
    return tuple(check_party(str(name)) for name in names)


def _fingerprints(table: dict[str, Any], names: tuple[str, ...], where: str) -> dict[str, str]:
    """The fingerprints that are pinned, by name, as `plait cert show` prints them."""
    found = table.get("fingerprints", {})
    need_keys(found, f"{where}: fingerprints", names)
    for name, text in found.items():
        if not isinstance(text, str) or not is_hex(bare(text), FINGERPRINT_BYTES):
            raise ConfigError(
                f"{where}: fingerprints.{name} must be {2 * FINGERPRINT_BYTES} hexadecimal digits, as `plait cert "
                f"show` prints them. Found {text!r}."
            )
    return dict(found)


def _penalties(model: ModelOptions, parties: tuple[str, ...], where: str) -> dict[str, Penalty]:
    """One penalty per party: model.penalties.NAME, else model.penalty."""
    common, own = penalty(model.penalty, f"{where}.penalty"), model.penalties
    need_keys(own, f"{where}.penalties", parties)
    return {name: penalty(own[name], f"{where}.penalties.{name}") if name in own else common for name in parties}


def _digest(table: dict[str, Any], *without: str) -> str:
    content = {key: value for key, value in table.items() if key not in without}
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()


def _without_limits(table: dict[str, Any]) -> dict[str, Any]:
    """The table without the limits on the rows of an alignment: a model does not depend on them."""
    if "alignment" not in table:
        return table
    rules = {key: value for key, value in table["alignment"].items() if key not in NOT_RULES}
    return {**table, "alignment": rules}


def _release(table: dict[str, Any]) -> str:
    """A digest that names what a job releases in training: all but where it runs, and how its model is used."""
    return _digest(table, "coordinator", "scoring", "report", "fingerprints")[:16]
