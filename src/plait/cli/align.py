"""`plait align`: find the common samples before any training; and how a party is asked for its consent."""

import sys

import typer

from plait.alignment.aligner import Consent, Proposal, agree
from plait.cli.failures import reports_errors
from plait.cli.options import (
    Address,
    Anywhere,
    Certificates,
    Config,
    Fresh,
    Insecure,
    JobFile,
    Log,
    LogOption,
    Name,
    Yes,
    end_when_told,
    listen_address,
    need_party,
    security_of,
)
from plait.cli.watching import watcher
from plait.deployment.align import align as align_jointly
from plait.deployment.align import help_align, need_alignment
from plait.deployment.endpoints import Dial, Listen
from plait.deployment.job_file import Job, read_job, read_party
from plait.errors import ConfigError


@reports_errors
def align(
    job_file: JobFile,
    name: Name = "",
    yes: Yes = False,
    config: Config = None,
    address: Address = "",
    certificates: Certificates = None,
    fresh: Fresh = False,
    insecure: Insecure = False,
    insecure_anywhere: Anywhere = False,
    log: LogOption = Log.text,
) -> None:
    """Find the samples that all parties share, without showing the others; every party runs this with its own name."""
    end_when_told()
    job = read_job(job_file)
    need_alignment(job)
    consent = consent_of(job, yes)
    file = read_party(job_file, name or job.coordinator.name, config)
    if not name:
        parties = [read_party(job_file, party) for party in job.parties]
        align_jointly(job, file, parties, None, consent, watcher(log), fresh)
        return
    security = security_of(file, certificates, insecure, insecure_anywhere)
    if name != job.coordinator.name:
        need_party(job, name)
        help_align(job, file, Dial(address or job.coordinator.address, security), consent, watcher(log))
        return
    local = [file] if name in job.parties else []
    listen = Listen(listen_address(job, file, address, insecure), security)
    align_jointly(job, file, local, listen, consent, watcher(log), fresh)


def consent_of(job: Job, yes: bool) -> Consent:
    """Consent given by --yes, or asked for at the terminal; ConfigError at once when there is none to ask at."""
    if yes or job.alignment is None:
        return agree
    if not sys.stdin.isatty():
        raise ConfigError("consent to an alignment must be given at a terminal, or by --yes. Found neither.")
    return _ask


def _ask(proposal: Proposal) -> bool:
    for name, size in proposal.sizes.items():
        typer.echo(f"  {name:<20} {size:>12,} ids")
    typer.echo(f"  {'in common':<20} {proposal.common:>12,}")
    typer.echo("If all agree, every party learns which of its own samples these are, and no more.")
    try:
        return typer.confirm(f"{proposal.party}: use them?")
    except typer.Abort:
        raise KeyboardInterrupt from None
