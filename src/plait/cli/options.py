"""Options that several commands share, and what they stand for."""

import os
import signal
import threading
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from plait.deployment.job_file import Job, PartyFile
from plait.errors import ConfigError
from plait.transports.certificates import Folder
from plait.transports.tls import Identity, PlainText, Security


class Log(StrEnum):
    """How progress is shown."""

    text = "text"
    json = "json"


JobFile = Annotated[Path, typer.Argument(help="The job file.", metavar="JOB")]
LogOption = Annotated[Log, typer.Option(help="Progress as sentences or as JSON lines.")]
Config = Annotated[Path | None, typer.Option(help="The party file; NAME.toml beside the job file by default.")]
Address = Annotated[str, typer.Option(help="host:port to listen on or to dial, instead of the files'.")]
Certificates = Annotated[Path | None, typer.Option(help="The folder of certificates.")]
Name = Annotated[str, typer.Option(help="Which party this is; empty to do it all on this machine.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Start over instead of resuming an interrupted run.")]
Insecure = Annotated[bool, typer.Option("--insecure", help="Plain text, on this machine only.")]
Anywhere = Annotated[bool, typer.Option("--insecure-anywhere", help="Plain text, even across a network.")]
Yes = Annotated[bool, typer.Option("--yes", help="Agree to use the common samples, however many, without being asked.")]


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


def end_when_told(grace: float = 20.0) -> None:
    """Ctrl-C and a polite kill interrupt: the run can be resumed.

    Asking again changes nothing, so that what is written is written to the end.  A program that has not ended after
    `grace` seconds leaves as if killed: its files are made to survive that, too.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_IGN)
        last = threading.Timer(grace, os._exit, (130,))
        last.daemon = True
        last.start()
        raise KeyboardInterrupt

    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, stop)
