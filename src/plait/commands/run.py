"""`plait fit`, `plait coordinator`, `plait party`: one job file, run simulated, as processes, or on many machines."""

import signal
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from plait.certificates import Folder
from plait.commands.failures import reports_errors
from plait.commands.watching import watcher
from plait.config import Job, PartyFile, read_job, read_party
from plait.deployment.coordinating import Listen, coordinate
from plait.deployment.partaking import Dial, take_part
from plait.deployment.processes import fit_in_processes
from plait.errors import ConfigError
from plait.transports.tls import Identity, PlainText, Security


class Log(StrEnum):
    """How progress is shown."""

    text = "text"
    json = "json"


JobFile = Annotated[Path, typer.Argument(help="The job file.", metavar="JOB")]
LogOption = Annotated[Log, typer.Option(help="Progress as sentences or as JSON lines.")]
Config = Annotated[Path | None, typer.Option(help="The party file; NAME.toml beside the job file by default.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Start over instead of resuming an interrupted run.")]
Insecure = Annotated[bool, typer.Option("--insecure", help="Plain text, on this machine only.")]
Anywhere = Annotated[bool, typer.Option("--insecure-anywhere", help="Plain text, even across a network.")]


@reports_errors
def fit(
    job_file: JobFile,
    processes: Annotated[bool, typer.Option("--processes", help="Real processes, throw-away certificates.")] = False,
    fresh: Fresh = False,
    log: LogOption = Log.text,
) -> None:
    """Run the whole job on this machine: simulated, or as separate processes."""
    _stop_on_sigterm()
    job = read_job(job_file)
    if processes:
        fit_in_processes(job, job_file, fresh, log.value)
        return
    parties = [read_party(job_file, name) for name in job.parties]
    coordinate(job, read_party(job_file, job.coordinator.name), parties, None, watcher(log), fresh)


@reports_errors
def coordinator(
    job_file: JobFile,
    config: Config = None,
    listen: Annotated[str, typer.Option(help="host:port to listen on, instead of the party file's.")] = "",
    certificates: Annotated[Path | None, typer.Option(help="The folder of certificates.")] = None,
    alone: Annotated[bool, typer.Option("--alone", help="Without the label party's own columns.")] = False,
    fresh: Fresh = False,
    insecure: Insecure = False,
    insecure_anywhere: Anywhere = False,
    log: LogOption = Log.text,
) -> None:
    """Hold the labels, wait for the parties and train; brings the label party's own columns, too."""
    _stop_on_sigterm()
    job = read_job(job_file)
    file = read_party(job_file, job.coordinator.name, config)
    local = [file] if job.coordinator.name in job.parties and not alone else []
    security = security_of(file, certificates, insecure, insecure_anywhere)
    address = listen_address(job, file, listen, insecure)
    coordinate(job, file, local, Listen(address, security), watcher(log), fresh)


@reports_errors
def party(
    job_file: JobFile,
    name: Annotated[str, typer.Option(help="Which party of the job this is.")],
    config: Config = None,
    address: Annotated[str, typer.Option(help="host:port to dial, instead of the job's.")] = "",
    certificates: Annotated[Path | None, typer.Option(help="The folder of certificates.")] = None,
    insecure: Insecure = False,
    insecure_anywhere: Anywhere = False,
    log: LogOption = Log.text,
) -> None:
    """Take part with one party's columns; dials the coordinator and resumes by itself."""
    _stop_on_sigterm()
    job = read_job(job_file)
    need_party(job, name)
    file = read_party(job_file, name, config)
    security = security_of(file, certificates, insecure, insecure_anywhere)
    take_part(job, file, Dial(address or job.coordinator.address, security), watcher(log))


def need_party(job: Job, name: str) -> None:
    """Raise ConfigError unless the job names this party."""
    if name not in job.parties:
        raise ConfigError(f"--name must be one of {', '.join(job.parties)}. Found {name!r}.")


def security_of(file: PartyFile, folder: Path | None, insecure: bool, anywhere: bool) -> Security:
    """Certificates, unless plain text was typed."""
    if insecure or anywhere:
        return PlainText(file.name, anywhere)
    return Identity.load(Folder(folder or file.path(file.network.certificates)), file.name)


def listen_address(job: Job, file: PartyFile, given: str, insecure: bool) -> str:
    """Where the coordinator listens: as typed, as in its file, or at the job's port on all interfaces."""
    host, _, port = job.coordinator.address.rpartition(":")
    return given or file.network.listen or (f"{host}:{port}" if insecure else f"[::]:{port}")


def _stop_on_sigterm() -> None:
    """A polite kill is an interruption: the run can be resumed."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
