"""Options that several commands share, and what they stand for."""

import os
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from plait.cli.failures import INTERRUPTED
from plait.deployment.endpoints import Dial, Listen
from plait.deployment.job_file import Job, PartyFile, file_of, read_job, read_party
from plait.deployment.page.board import Viewer
from plait.deployment.processes import PARENT
from plait.errors import ConfigError
from plait.transports.certificates import Folder
from plait.transports.tls import Identity, PlainText, Security


class Log(StrEnum):
    """How progress is shown."""

    text = "text"
    json = "json"


JobFile = Annotated[Path, typer.Argument(help="The job file.", metavar="JOB")]
LogOption = Annotated[Log, typer.Option(help="Show progress as sentences or as JSON lines.")]
Track = Annotated[
    list[str] | None,
    typer.Option(
        help="Also write the rounds to FILE.jsonl, FILE.csv, FILE.prom (Prometheus), tensorboard:FOLDER or mlflow:URI. "
        "Give it several times for several.",
        metavar="WHERE",
    ),
]
Page = Annotated[
    str,
    typer.Option(
        help="Serve a live page at host:port, such as 127.0.0.1:8081. Elsewhere than on this machine it needs the "
        "token that the program prints.",
        metavar="HOST:PORT",
    ),
]
Stay = Annotated[bool, typer.Option("--stay", help="Keep the page up after the end, until Ctrl-C.")]
Config = Annotated[Path | None, typer.Option(help="The party file. By default NAME.toml beside the job file.")]
Address = Annotated[str, typer.Option(help="host:port to listen on or to call, instead of the one in the files.")]
Certificates = Annotated[
    Path | None, typer.Option(help="The folder of certificates, instead of the one in the party file.")
]
Name = Annotated[
    str, typer.Option(help="Which party this program stands for. Without it, all parties run on this machine.")
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Start over instead of resuming an interrupted run.")]
Insecure = Annotated[bool, typer.Option("--insecure", help="Send plain text without TLS, on this machine only.")]
Anywhere = Annotated[
    bool,
    typer.Option(
        "--insecure-anywhere",
        help="Send plain text without TLS, even across a network: everybody on the way can read it.",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Agree beforehand to use the common rows, however many they are.")]


@dataclass(frozen=True)
class Program:
    """One program of a job, as its command line starts it: the files that it reads and the network that it uses.

    `file` is the file of the party that this program stands for; `named` is False when one program does it all.
    """

    job: Job
    job_file: Path
    file: PartyFile
    named: bool
    address: str
    certificates: Path | None
    insecure: bool
    anywhere: bool

    @property
    def coordinates(self) -> bool:
        """Whether this program is the coordinator's."""
        return self.file.name == self.job.coordinator.name

    @property
    def certificate_folder(self) -> Path | None:
        """Where the certificates are; None when plain text was asked for."""
        if self.insecure or self.anywhere:
            return None
        return self.certificates or self.file.path(self.file.network.certificates)

    def viewer(self, program: str, local: Sequence[PartyFile] = ()) -> Viewer:
        """Whose live page this program has."""
        return Viewer(program, self.job, self.file.name, tuple(file.name for file in local))

    def local_parties(self) -> list[PartyFile]:
        """The parties in this process: all of them without a name, else the coordinator's own columns."""
        if self.named:
            return [self.file] if self.file.name in self.job.parties else []
        others = (name for name in self.job.parties if name != self.file.name)
        read = {name: read_party(self.job_file, name) for name in others}
        return [read.get(name, self.file) for name in self.job.parties]

    def security(self) -> Security:
        """Certificates, unless plain text was asked for."""
        folder = self.certificate_folder
        if folder is None:
            return PlainText(self.file.name, self.anywhere)
        return Identity.load(Folder(folder), self.file.name)

    def listen(self, security: Security | None = None) -> Listen:
        """Where the coordinator listens: as typed, as in its file, or at the job's port on all interfaces."""
        host, _, port = self.job.coordinator.address.rpartition(":")
        default = f"{host}:{port}" if self.insecure else f"[::]:{port}"
        return Listen(self.address or self.file.network.listen or default, security or self.security())

    def dial(self) -> Dial:
        """Where a party calls the coordinator: as typed, or as in the job file."""
        if self.file.name not in self.job.parties:
            parties = ", ".join(self.job.parties)
            raise ConfigError(f"--name must be one of {parties}. Found {self.file.name!r}.")
        return Dial(self.address or self.job.coordinator.address, self.security())


def start(
    job_file: Path,
    name: str = "",
    config: Path | None = None,
    address: str = "",
    certificates: Path | None = None,
    insecure: bool = False,
    anywhere: bool = False,
    scores: bool = False,
) -> Program:
    """What every program of a job does first: prepare to be interrupted, read the job file and the party's file.

    One that gives `scores` has the label party as its coordinator, also where a blind machine trained.
    """
    end_when_told()
    job, named = read_job(job_file), bool(name)
    job = job.for_scores if scores else job
    if name and name not in (*job.parties, job.coordinator.name):
        raise ConfigError(f"--name must be one of {', '.join(job.parties)}. Found {name!r}.")
    file = file_of(job, job_file, name, config)
    return Program(job, job_file, file, named, address, certificates, insecure, anywhere)


_LOOK = 0.5  # seconds between two looks at who the parent is
GRACE = 20.0  # seconds that a program has to end after it was told to: the other programs of a job wait as long for it


def end_when_told(grace: float = GRACE) -> None:
    """Make Ctrl-C (SIGINT) and SIGTERM interrupt the program in such a way that the run can be resumed.

    A second signal changes nothing, so that what is being written is written to the end.  A program that has not ended
    after `grace` seconds ends as if it had been killed: its files are made to survive that, too.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_IGN)
        last = threading.Timer(grace, os._exit, (INTERRUPTED,))
        last.daemon = True
        last.start()
        raise KeyboardInterrupt

    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, stop)
    if parent := os.environ.get(PARENT, ""):
        threading.Thread(target=_end_with, args=(parent,), name="plait-parent", daemon=True).start()


def _end_with(parent: str) -> None:
    """End as if told to when the process that started this one is gone, even killed: nobody would end it then."""
    while str(os.getppid()) == parent:
        time.sleep(_LOOK)
    os.kill(os.getpid(), signal.SIGTERM)
