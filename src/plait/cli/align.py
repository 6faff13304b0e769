"""`plait align`: find the common rows before any training; and how a party is asked for its consent."""

import sys
from typing import Annotated

import typer

from plait.alignment.proposal import Consent, Proposal, agree
from plait.cli.options import (
    Address,
    Anywhere,
    Certificates,
    Config,
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
from plait.deployment.alignment_folder import TRAINING, has_aligned
from plait.deployment.job_file import Job, PartyFile
from plait.errors import ConfigError


def align(
    job_file: JobFile,
    name: Name = "",
    yes: Yes = False,
    config: Config = None,
    address: Address = "",
    certificates: Certificates = None,
    refresh: Annotated[
        bool,
        typer.Option("--refresh", help="Find the common rows anew, although they were found before (at every party)."),
    ] = False,
    insecure: Insecure = False,
    insecure_anywhere: Anywhere = False,
    log: LogOption = Log.text,
) -> None:
    """Find the rows that all parties hold, without showing the others. Every party runs this with its own name.

    Every job of the same parties with the same id rules uses the result.
    """
    program = start(job_file, name, config, address, certificates, insecure, insecure_anywhere)
    need_alignment(program.job)
    consent = consent_of(program.job, program.file, yes)
    if not program.coordinates:
        help_align(program.job, program.file, program.dial(), consent, watcher(log), refresh)
        return
    listen = program.listen() if program.named else None
    align_jointly(program.job, program.file, program.local_parties(), listen, consent, watcher(log), refresh)


def consent_of(job: Job, file: PartyFile, yes: bool, purpose: str = TRAINING) -> Consent:
    """Consent given by --yes, or asked for at the terminal; ConfigError at once when there is none to ask at.

    Rows that were agreed on before may be used without asking.
    """
    if yes or job.alignment is None:
        return agree
    if sys.stdin.isatty():
        return _ask
    if not has_aligned(job, file, purpose):
        raise ConfigError(_NOBODY)
    return _nobody


_NOBODY = "consent to an alignment must be given at a terminal, or by --yes. Found neither."


def _nobody(proposal: Proposal) -> bool:
    raise ConfigError(_NOBODY)


def _ask(proposal: Proposal) -> bool:
    for name, size in proposal.sizes.items():
        typer.echo(f"  {name:<20} {size:>12,} ids")
    typer.echo(f"  {'in common':<20} {proposal.common:>12,}")
    typer.echo("If all agree, every party learns which of its own rows these are, and no more.")
    try:
        return typer.confirm(f"{proposal.party}: use them?")
    except typer.Abort:
        raise KeyboardInterrupt from None
