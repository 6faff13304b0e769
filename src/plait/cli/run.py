"""`plait fit`, `plait coordinator`, `plait party`: one job file, run simulated, as processes, or on many machines."""

from typing import Annotated

import typer

from plait.cli.align import consent_of
from plait.cli.options import (
    Anywhere,
    Certificates,
    Config,
    Fresh,
    Insecure,
    JobFile,
    Log,
    LogOption,
    Page,
    Stay,
    Track,
    Yes,
    start,
)
from plait.cli.watching import Shown
from plait.deployment.coordinator_program import coordinate
from plait.deployment.pairs import partners
from plait.deployment.partner_runs import coordinate_all
from plait.deployment.party_program import take_part
from plait.deployment.processes import fit_in_processes
from plait.errors import ConfigError


def fit(
    job_file: JobFile,
    processes: Annotated[
        bool,
        typer.Option(
            "--processes", help="Run one process per party, with certificates that are thrown away afterwards."
        ),
    ] = False,
    fresh: Fresh = False,
    yes: Yes = False,
    log: LogOption = Log.text,
    track: Track = None,
    page: Page = "",
    stay: Stay = False,
) -> None:
    """Run the whole job on this machine, in one process or in one process per party."""
    program = start(job_file)
    job = program.job
    if processes:
        if job.alignment is not None and not yes:
            raise ConfigError(
                "a job that runs as processes cannot ask whether to use the common rows. Agree beforehand: add --yes."
            )
        own = [*(["--page", page] if page else []), *(["--stay"] if stay else [])]
        own += [word for each in track or () for word in ("--track", each)]
        fit_in_processes(job, job_file, fresh, yes, log.value, own)
        return
    consent, local = consent_of(job, program.file, yes), program.local_parties()
    with Shown(log, track or (), page, stay).watch(program.viewer("fit", local)) as progress:
        coordinate(job, program.file, local, None, progress, fresh, consent)


def coordinator(
    job_file: JobFile,
    config: Config = None,
    listen: Annotated[str, typer.Option(help="host:port to listen on, instead of the one in the party file.")] = "",
    certificates: Certificates = None,
    alone: Annotated[bool, typer.Option("--alone", help="Leave out the label party's own columns.")] = False,
    fresh: Fresh = False,
    yes: Yes = False,
    insecure: Insecure = False,
    insecure_anywhere: Anywhere = False,
    log: LogOption = Log.text,
    track: Track = None,
    page: Page = "",
    stay: Stay = False,
) -> None:
    """Run the label party's program: it holds the labels, waits for the other parties and trains."""
    program = start(job_file, "", config, listen, certificates, insecure, insecure_anywhere)
    if program.job.blind is not None:
        raise ConfigError(
            "the coordinator of this job is a blind machine. Found `plait coordinator`. Run `plait blind` there, and "
            "`plait party` at both parties."
        )
    if alone and partners(program.job):
        raise ConfigError("[report] partners = true needs the label party's columns here. Found --alone. Leave it out.")
    local = [program.file] if program.file.name in program.job.parties and not alone else []
    consent = consent_of(program.job, program.file, yes)
    with Shown(log, track or (), page, stay).watch(program.viewer("coordinator", local)) as progress:
        coordinate_all(program.job, program.file, local, program.listen(), progress, fresh, consent)


def blind(
    job_file: JobFile,
    config: Config = None,
    listen: Annotated[str, typer.Option(help="host:port to listen on, instead of the job's port.")] = "",
    certificates: Certificates = None,
    fresh: Fresh = False,
    insecure: Insecure = False,
    insecure_anywhere: Anywhere = False,
    log: LogOption = Log.text,
    page: Page = "",
    stay: Stay = False,
) -> None:
    """Run a blind machine: it trains for two parties, which run `plait party`, and sees no label and no score.

    It holds no data. Whoever runs it must not work for, or with, either of the parties.
    """
    program = start(job_file, "", config, listen, certificates, insecure, insecure_anywhere)
    if program.job.blind is None:
        raise ConfigError('a blind machine needs protection = "blind" and a section [blind] in the job. Found none.')
    with Shown(log, (), page, stay).watch(program.viewer("blind")) as progress:
        coordinate(program.job, program.file, [], program.listen(), progress, fresh)


def party(
    job_file: JobFile,
    name: Annotated[str, typer.Option(help="Which party of the job this program stands for.")],
    config: Config = None,
    address: Annotated[str, typer.Option(help="host:port to call, instead of the one in the job file.")] = "",
    certificates: Certificates = None,
    insecure: Insecure = False,
    insecure_anywhere: Anywhere = False,
    yes: Yes = False,
    log: LogOption = Log.text,
    track: Track = None,
    page: Page = "",
    stay: Stay = False,
) -> None:
    """Run a feature party's program: it calls the coordinator, and calls again when the line breaks."""
    program = start(job_file, name, config, address, certificates, insecure, insecure_anywhere)
    consent = consent_of(program.job, program.file, yes)
    with Shown(log, track or (), page, stay).watch(program.viewer("party")) as progress:
        take_part(program.job, program.file, program.dial(), progress, consent)
