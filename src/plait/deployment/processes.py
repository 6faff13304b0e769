"""A whole job as real processes on this machine, with certificates that are thrown away afterwards."""

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from plait.deployment.job_file import Job
from plait.errors import TransportError
from plait.transports import certificate_authority
from plait.transports.certificates import Folder

PARENT = "PLAIT_PARENT"
"""The environment variable that tells a process whose child it is: it ends when that one is gone."""
_GRACE = 20.0  # seconds for the other programs to end after the coordinator: as long as one told to end may take


def fit_in_processes(job: Job, job_file: Path, fresh: bool, yes: bool, log: str, more: Sequence[str] = ()) -> None:
    """Start the coordinator, with `more` options, and every other party; wait for all of them."""
    with tempfile.TemporaryDirectory(prefix="plait-certs-") as temporary:
        folder = Folder(Path(temporary))
        throw_away_certificates(job, folder)
        address = f"127.0.0.1:{free_port()}"
        common = ["--certificates", temporary, "--log", log, *(["--yes"] if yes else [])]
        own = [*(["--fresh"] if fresh else []), *more]
        role = "coordinator" if job.blind is None else "blind"
        commands = [[role, str(job_file), "--listen", address, *common, *own]]
        for name in job.parties:
            if name != job.coordinator.name:
                commands.append(["party", str(job_file), "--name", name, "--address", address, *common])
        _run_all(commands)


def throw_away_certificates(job: Job, folder: Folder) -> None:
    """An authority and a certificate for everyone, all in one folder: for one machine only."""
    certificate_authority.init_authority(folder, job.coordinator.name)
    for name in job.parties:
        if name != job.coordinator.name:
            certificate_authority.sign_request(folder, certificate_authority.make_request(folder, name))


def free_port() -> int:
    """A port on loopback that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _run_all(commands: list[list[str]]) -> None:
    env = {**os.environ, PARENT: str(os.getpid())}
    running = [subprocess.Popen([sys.executable, "-m", "plait", *command], env=env) for command in commands]
    try:
        codes = [running[0].wait()]
        codes += [process.wait(_GRACE) for process in running[1:]]
    except subprocess.TimeoutExpired:
        raise TransportError(
            f"every party must end after the coordinator. Found one running {_GRACE} s later."
        ) from None
    finally:
        for process in running:
            if process.poll() is None:
                process.terminate()
        for process in running:
            process.wait()
    if any(codes):
        raise TransportError("every process must end well. Found one that did not: its message stands above.")
