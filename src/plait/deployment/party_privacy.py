"""What a job's privacy means at one party: its budget, its ledger, its noise, and how its columns may be prepared."""

from dataclasses import replace

from plait.data.preparation import PrepareOptions
from plait.deployment.job_file import Job, PartyFile
from plait.errors import ConfigError, PrivacyError
from plait.privacy.ledger.ledger import Budget
from plait.privacy.ledger.release_gate import LedgerFolder
from plait.privacy.mechanisms.noisy_admm import MechanismA
from plait.privacy.mechanisms.paper import NoPrivacy
from plait.privacy.mechanisms.recommended import Recommended
from plait.privacy.noise import InsecureTestNoise
from plait.privacy.policy import Mechanism, Policy


def mechanism_of(job: Job, name: str) -> Mechanism:
    """How a party protects its features."""
    return job.policy.mechanisms(job.parties)[name]


def guaranteed(job: Job, name: str) -> bool:
    """Whether a party's features are protected by a mechanism with a guarantee."""
    return isinstance(mechanism_of(job, name), Recommended | MechanismA)


def policy_at(job: Job, file: PartyFile) -> Policy:
    """The job's policy with this party's own ledger, budget and noise."""
    protects_labels = job.policy.labels is not None and file.name == job.coordinator.name
    features = file.name in job.parties and not isinstance(mechanism_of(job, file.name), NoPrivacy)
    if not (protects_labels or features):
        return job.policy
    options = file.privacy
    if options.epsilon is None:
        raise ConfigError(
            f"{file.name}.toml must say what {file.name!r} will spend on these data in all, because the job protects "
            "them. Found no [privacy] epsilon. Set it to what the people in the data were promised."
        )
    ledger = LedgerFolder(file.path(options.ledger), Budget(options.epsilon, options.delta))
    noise = None if options.test_noise is None else InsecureTestNoise(options.test_noise)
    return replace(job.policy, ledger=ledger, noise=noise)


def check_preparation(name: str, options: PrepareOptions) -> None:
    """Refuse what would learn from private rows without paying: PrivacyError names what to write instead."""
    found = {
        f"impute = {options.impute!r}": options.impute in ("mean", "median"),
        f"scale = {options.scale!r}": options.scale not in ("none", "ranges"),
        f"transformer = {options.transformer!r}": bool(options.transformer),
        "one_hot without categories": not set(options.one_hot) <= set(options.categories),
    }
    used = [what for what, learns in found.items() if learns]
    if used:
        raise PrivacyError(
            f"party {name!r}: in a private run columns are prepared by public constants, because one record moves "
            f'statistics, and nobody paid for that. Found {", ".join(used)}. Write impute = "zero", scale = '
            '"ranges" with ranges = { column = [low, high] }, and categories = { column = [values] }, all of them '
            "known without the data."
        )
