"""`plait fit`, `plait coordinator`, `plait party`: one job file, run simulated, as processes, or on many machines."""

from typing import Annotated

import typer

from plait.cli.align import consent_of
from plait.cli.failures import reports_errors
from plait.cli.options import (
    Anywhere,
    Certificates,
    Config,
    Fresh,
    Insecure,
    JobFile,
    Log,
    LogOption,
    Yes,
    end_when_told,
    listen_address,
    need_party,
    security_of,
)
from plait.cli.watching import watcher
from plait.deployment.coordinator_program import coordinate
from plait.deployment.endpoints import Dial, Listen
from plait.deployment.job_file import read_job, read_party
from plait.deployment.party_program import take_part
from plait.deployment.processes import fit_in_processes
from plait.errors import ConfigError


@reports_errors
def fit(
    job_file: JobFile,
    processes: Annotated[bool, typer.Option("--processes", help="Real processes, throw-away certificates.")] = False,
    fresh: Fresh = False,
    yes: Yes = False,
    log: LogOption = Log.text,
) -> None:
    """Run the whole job on this machine: simulated, or as separate processes."""
    end_when_told()
    job = read_job(job_file)
    if processes:
        if job.alignment is not None and not yes:
            raise ConfigError("processes cannot be asked for consent to an alignment. Found no --yes. Type it.")
        fit_in_processes(job, job_file, fresh, yes, log.value)
        return
    consent = consent_of(job, yes)
    parties = [read_party(job_file, name) for name in job.parties]
    coordinate(job, read_party(job_file, job.coordinator.name), parties, None, watcher(log), fresh, consent)


@reports_errors
def coordinator(
    job_file: JobFile,
    config: Config = None,
    listen: Annotated[str, typer.Option(help="host:port to listen on, instead of the party file's.")] = "",
    certificates: Certificates = None,
    alone: Annotated[bool, typer.Option("--alone", help="Without the label party's own columns.")] = False,
    fresh: Fresh = False,
    yes: Yes = False,
    insecure: Insecure = False,
    insecure_anywhere: Anywhere = False,
    log: LogOption = Log.text,
) -> None:
    """Hold the labels, wait for the parties and train; brings the label party's own columns, too."""
    end_when_told()
    job = read_job(job_file)
    file = read_party(job_file, job.coordinator.name, config)
    local = [file] if job.coordinator.name in job.parties and not alone else []
    security = security_of(file, certificates, insecure, insecure_anywhere)
    address = listen_address(job, file, listen, insecure)
    coordinate(job, file, local, Listen(address, security), watcher(log), fresh, consent_of(job, yes))


@reports_errors
def party(
    job_file: JobFile,
    name: Annotated[str, typer.Option(help="Which party of the job this is.")],
    config: Config = None,
    address: Annotated[str, typer.Option(help="host:port to dial, instead of the job's.")] = "",
    certificates: Certificates = None,
    insecure: Insecure = False,
    insecure_anywhere: Anywhere = False,
    yes: Yes = False,
    log: LogOption = Log.text,
) -> None:
    """Take part with one party's columns; dials the coordinator and resumes by itself."""
    end_when_told()
    job = read_job(job_file)
    need_party(job, name)
    file = read_party(job_file, name, config)
    security = security_of(file, certificates, insecure, insecure_anywhere)
    take_part(job, file, Dial(address or job.coordinator.address, security), watcher(log), consent_of(job, yes))
