"""`plait align`: find the common rows before any training; and how a party is asked for its consent."""

import sys

import typer

from plait.alignment.aligner import Consent, Proposal, agree
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
    start,
)
from plait.cli.watching import watcher
from plait.deployment.align import align as align_jointly
from plait.deployment.align import help_align, need_alignment
from plait.deployment.job_file import Job
from plait.errors import ConfigError


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
    """Find the rows that all parties hold, without showing the others. Every party runs this with its own name."""
    program = start(job_file, name, config, address, certificates, insecure, insecure_anywhere)
    need_alignment(program.job)
    consent = consent_of(program.job, yes)
    if not program.coordinates:
        help_align(program.job, program.file, program.dial(), consent, watcher(log))
        return
    listen = program.listen() if program.named else None
    align_jointly(program.job, program.file, program.local_parties(), listen, consent, watcher(log), fresh)


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
    typer.echo("If all agree, every party learns which of its own rows these are, and no more.")
    try:
        return typer.confirm(f"{proposal.party}: use them?")
    except typer.Abort:
        raise KeyboardInterrupt from None
