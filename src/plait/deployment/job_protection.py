"""Reads what a job file says of protection, privacy and scores, and checks that these go together."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from plait.alignment.ids import AlignmentOptions
from plait.deployment.job_settings import PolicyOptions, ReportOptions, RunOptions, ScoringOptions
from plait.deployment.registry import LABEL_MECHANISMS, MECHANISMS, choose, need_keys
from plait.errors import ConfigError, SettingError
from plait.methods.base import Method
from plait.privacy.mechanisms.paper import NoPrivacy
from plait.privacy.policy import Policy
from plait.problem.losses import Loss
from plait.problem.penalties import Penalty
from plait.protection.modes import Protection
from plait.protection.secure_sums import check_outside
from plait.training.blind_shield import check_blind
from plait.training.protected import protected_form, summed_groups
from plait.training.stopping import Stopping


def protected_method(
    method: Method,
    protection: Protection | None,
    label_party: str,
    parties: tuple[str, ...],
    policy: Policy,
    run: RunOptions,
    weighted: bool,
    where: str,
) -> Method:
    """The method as it runs under this protection; `weighted`: whether rows have weights."""
    if protection is None:
        return method
    if policy.private or run.precision != "float64":
        raise ConfigError(
            f'{where}: protection goes with no [privacy] and run.precision = "float64" so far. Found one of them. Set '
            'protection = "plain", or leave it out.'
        )
    try:
        if protection.mode == "sums":
            for group in summed_groups(protection, parties):
                check_outside({name: name for name in group}, label_party)
        return protected_form(method, protection, parties, weighted)
    except SettingError as error:
        raise ConfigError(f"{where}: {error}") from error


def blind_protection(
    protection: Protection,
    given: Mapping[str, Any],
    parties: tuple[str, ...],
    loss: Loss,
    penalties: Mapping[str, Penalty],
    where: str,
) -> Protection:
    """The protection of a job whose coordinator is a blind machine."""
    options, machine, model = given.get("blind"), given["coordinator"].name, given["model"]
    if options is None or options.label_party not in parties or machine in parties:
        raise ConfigError(
            f'{where}: protection = "blind" must have a coordinator that is no party, and a section [blind] whose '
            f"label_party is one. Found the coordinator {machine!r} and the parties {', '.join(parties)}."
        )
    if "alignment" in given:
        raise ConfigError(
            f"{where}: a blind machine must get the same rows from both parties, in the same order. Found [alignment]. "
            "Align the files with another job first (`plait align`), and leave it out here."
        )
    try:
        check_blind(parties, loss, penalties, model.weighted, model.fit_intercept)
    except SettingError as error:
        raise ConfigError(f"{where}: {error}") from error
    return replace(protection, label_party=options.label_party)


def read_policy(options: PolicyOptions, parties: tuple[str, ...], loss: Loss, stopping: Stopping, where: str) -> Policy:
    """Who protects what; parties that the section does not name protect nothing."""
    need_keys(options.parties, f"{where}.parties", parties)
    named = {name: choose(MECHANISMS, own, f"{where}.parties.{name}") for name, own in options.parties.items()}
    policy = Policy(
        {name: named.get(name, NoPrivacy()) for name in parties},
        labels=None if options.labels is None else choose(LABEL_MECHANISMS, options.labels, f"{where}.labels"),
        offset=options.offset,
        disjoint=options.disjoint,
    )
    try:
        policy.mechanisms(parties)
        policy.loss_of_targets(loss)
    except SettingError as error:
        raise ConfigError(f"{where}: {error}") from error
    if named and stopping.max_seconds is not None:
        raise ConfigError(f"{where}: a private run ends by its rounds. Found stopping.max_seconds. Leave it out.")
    return policy


def check_scoring(
    options: ScoringOptions,
    alignment: AlignmentOptions | None,
    policy: Policy,
    protection: Protection | None,
    where: str,
) -> ScoringOptions:
    """The options, where they go with the rest of the job; ConfigError where they do not."""
    if options.address and (protection is None or protection.mode != "blind"):
        raise ConfigError(f'{where}.address goes with protection = "blind". Found another. Leave it out.')
    if options.join == "private" and alignment is None:
        raise ConfigError(f'{where}.join = "private" needs the rules by which ids are compared. Add [alignment].')
    if options.missing == "mean" and policy.private:
        raise ConfigError(
            f'{where}.missing = "mean" shows the mean part of a party, which no mechanism protects. Found a private '
            'job. Set missing = "leave out".'
        )
    if options.missing == "mean" and protection is not None and protection.mode == "sums":
        raise ConfigError(
            f'{where}.missing = "mean" would show the part of one party where the others lack the row. Found it with '
            'protection = "sums". Set missing = "leave out" or "refuse".'
        )
    return options


def check_report(options: ReportOptions, policy: Policy, protection: Protection | None, where: str) -> ReportOptions:
    """The options, where they show nothing that the job hides; ConfigError where they would."""
    hides = "[privacy]" if policy.private else ""
    if protection is not None and protection.mode != "labels":
        hides = f'protection = "{protection.mode}"'
    if options.partners and hides:
        raise ConfigError(
            f"{where}.partners = true trains the label party with each partner alone, and shows it that partner's "
            f"scores. Found {hides}, which hides them. Leave partners out."
        )
    return options
