"""What a job's privacy means at one party: its budget, its ledger, its noise, and how its columns may be prepared."""

from collections.abc import Sequence
from dataclasses import replace

from plait.data.prepare_options import PrepareOptions
from plait.deployment.job_file import Job, PartyFile
from plait.deployment.ledger_note import need_same_ledger
from plait.deployment.progress import Progress
from plait.errors import ConfigError, PrivacyError
from plait.privacy.ledger.budget import Budget, Unlimited
from plait.privacy.ledger.known_tables import LABEL_HOLDER
from plait.privacy.ledger.people import People
from plait.privacy.ledger.release_gate import LedgerFolder
from plait.privacy.mechanisms.base import Mechanism
from plait.privacy.noise import InsecureTestNoise
from plait.privacy.policy import Policy
from plait.training.assembly import RunSpec
from plait.training.tracking.tracker import RunFacts


def mechanism_of(job: Job, name: str) -> Mechanism:
    """How a party protects its features."""
    return job.policy.mechanisms(job.parties)[name]


def guaranteed(job: Job, name: str) -> bool:
    """Whether a party's features are protected by a mechanism with a guarantee."""
    return name in job.parties and mechanism_of(job, name).guaranteed


def policy_at(job: Job, file: PartyFile) -> Policy:
    """The job's policy with this party's own ledger, budget and noise."""
    need_same_ledger(file)
    protects_labels = job.policy.labels is not None and file.name == job.coordinator.name
    noisy = file.name in job.parties and mechanism_of(job, file.name).protects
    options = file.privacy
    protected = protects_labels or guaranteed(job, file.name)
    if not protected and options.epsilon is not None:
        found = "with noise that guarantees nothing" if noisy else "without [privacy]"
        raise PrivacyError(
            f"{file.name}.toml sets a budget, and so {file.name!r} takes part only in runs that protect it. "
            f"Found a job {found} for {file.name!r}. Ask for one with a guarantee."
        )
    _need_no_promise(job, file)
    if not protected:
        return replace(job.policy, ledger=_ledgers(file, Unlimited())) if noisy else job.policy
    if options.epsilon is None:
        raise ConfigError(
            f"{file.name}.toml must say what {file.name!r} will spend on these data in all, because the job protects "
            "them. Found no [privacy] epsilon. Set it to what the people in the data were promised."
        )
    ledger = _ledgers(file, Budget(options.epsilon, options.delta, options.adjacency))
    noise = None if options.test_noise is None else InsecureTestNoise(options.test_noise)
    policy = replace(job.policy, ledger=ledger, noise=noise, public_weights=options.public_weights)
    if file.name in job.parties:
        policy.need_adjacency(mechanism_of(job, file.name))
    return policy


def _need_no_promise(job: Job, file: PartyFile) -> None:
    """PrivacyError where a run would show data that the party's ledger keeps a budget for."""
    names = [] if guaranteed(job, file.name) else [file.name]
    if file.name == job.label_party and job.policy.labels is None:
        names.append(LABEL_HOLDER)
    ledgers = _ledgers(file, Unlimited())
    if any(ledgers.keeps(name) for name in names):
        raise PrivacyError(
            f"{ledgers.root} keeps a budget of {file.name!r} for the people in table {ledgers.table!r}, and so it "
            f"takes part only in runs that protect it. Found a job without [privacy] for {file.name!r} or for its "
            f"labels. Set privacy.epsilon in {file.name}.toml and ask for a job that protects them. For other people, "
            "name their table: privacy.table."
        )


def _ledgers(file: PartyFile, budget: Budget | Unlimited) -> LedgerFolder:
    options = file.privacy
    witness = file.path(options.ledger_witness) if options.ledger_witness else None
    return LedgerFolder(file.path(options.ledger), budget, options.table, witness)


def people_of(file: PartyFile) -> People:
    """The people whose rows took part in a protected run with this party's table."""
    need_same_ledger(file)
    return _ledgers(file, Unlimited()).people(file.name)


def need_protected_weights(job: Job, file: PartyFile, guarded: bool) -> None:
    """PrivacyError where a party with a budget for its columns would score with weights that no guarantee covers."""
    if file.privacy.epsilon is not None and file.name != job.coordinator.name and not guarded:
        raise PrivacyError(
            f"{file.name}.toml sets a budget, and so {file.name!r} scores only with weights that were protected. Found "
            "a run that protected nothing: its scores would show what its rows have done to the weights. Nothing was "
            "scored. Train again with [privacy] in the job."
        )


def spec_at(job: Job, file: PartyFile) -> RunSpec:
    """The job's run as this party knows it: with its own ledger and noise, and its own limit of leverages."""
    protection = job.protection and replace(job.protection, max_leverage=file.trust.max_leverage)
    return RunSpec(
        job.penalties,
        job.method,
        job.stopping,
        job.intercept,
        job.policy.protections(job.parties, job.loss),
        policy_at(job, file),
        precision=job.run.precision,
        weighted=job.weighted,
        protection=protection,
    )


def admit(job: Job, file: PartyFile, policy: Policy) -> None:
    """Let this party charge its account; parties whose files stand beside this one share its ledger folder."""
    if policy.ledger is not None and guaranteed(job, file.name):
        beside = [n for n in job.parties if n == file.name or file.path(f"{n}.toml").exists()]
        policy.ledger.admit([n for n in beside if guaranteed(job, n)])


def discreet(job: Job, file: PartyFile) -> bool:
    """Whether this party's errors say nothing to others: what went wrong may depend on what it protects.

    A party with a budget says nothing in any job.  It refuses a job that protects nothing, with one fixed sentence.
    """
    hides_labels = file.name == job.coordinator.name and job.policy.labels is not None
    return hides_labels or guaranteed(job, file.name) or file.privacy.epsilon is not None


def check_preparation(name: str, options: PrepareOptions) -> None:
    """PrivacyError where the preparation would learn from private rows, which no budget pays for."""
    found = {
        f"impute = {options.impute!r}": options.impute in ("mean", "median"),
        f"scale = {options.scale!r}": options.scale not in ("none", "ranges"),
        f"transformer = {options.transformer!r}": bool(options.transformer),
        "one_hot without categories": not set(options.one_hot) <= set(options.categories),
    }
    used = [what for what, learns in found.items() if learns]
    if used:
        raise PrivacyError(
            f"party {name!r}: in a private run columns are prepared by public constants, because one row moves "
            f'statistics, and nobody paid for that. Found {", ".join(used)}. Write impute = "zero", scale = '
            '"ranges" with ranges = { column = [low, high] }, and categories = { column = [values] }, all of them '
            "known without the data."
        )


def run_facts(job: Job, name: str, run: str, rows: int) -> RunFacts:
    """What `name` knows of a run before round 1."""
    stopping = job.stopping
    return RunFacts(
        job.parties, rows, repr(job.method), stopping.max_rounds, stopping.tol, party=name, run=run, job=job.name
    )


def say_guarantees(job: Job, names: Sequence[str], progress: Progress) -> None:
    """What the run protects, in words, where anyone protects anything."""
    if job.policy.private:
        lines = dict(zip(job.parties, job.policy.guarantee(job.parties).splitlines(), strict=True))
        for name in names:
            progress.say(lines[name])
