"""Where the coordinator listens and where the parties dial."""

from dataclasses import dataclass

from plait.deployment.job_file import Job
from plait.deployment.job_settings import check_address
from plait.errors import ConfigError
from plait.transports.client import Link
from plait.transports.grpc_options import Note
from plait.transports.tls import PlainText, Security


@dataclass(frozen=True)
class Listen:
    """Where the coordinator listens, and as whom."""

    address: str
    security: Security


@dataclass(frozen=True)
class Dial:
    """Where a party calls, and as whom."""

    address: str
    security: Security

    def __post_init__(self) -> None:
        check_address(self.address, "the address to call")


def link(job: Job, dial: Dial, note: Note, patience: float | None = None) -> Link:
    """A party's connection to the coordinator of a job, whose key must be the one that the job pins, if it does."""
    if job.fingerprints and isinstance(dial.security, PlainText):
        raise ConfigError("a job that pins fingerprints must run with certificates. Found --insecure. Leave it out.")
    made = Link(dial.address, job.coordinator.name, dial.security, patience or job.coordinator.patience, note)
    made.pinned, made.proves = job.fingerprints.get(job.coordinator.name, ""), bool(job.fingerprints)
    return made
