"""`plait doctor`: a table of checks for this machine, with the fix for each."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from plait.cli.failures import reports_errors
from plait.cli.options import Anywhere, Config, Insecure, JobFile, listen_address, security_of
from plait.deployment.doctor import FAIL, PASS, WARN, Diagnosis, examine
from plait.deployment.endpoints import Dial, Listen
from plait.deployment.job_file import read_job, read_party
from plait.errors import CertificateError
from plait.transports.tls import PlainText, Security

_COLOURS = {PASS: "green", WARN: "yellow", FAIL: "red"}


@reports_errors
def doctor(
    job_file: JobFile,
    name: Annotated[str, typer.Option(help="Which party this is; the coordinator by default.")] = "",
    config: Config = None,
    address: Annotated[str, typer.Option(help="host:port to listen on or to dial, instead of the files'.")] = "",
    certificates: Annotated[Path | None, typer.Option(help="The folder of certificates.")] = None,
    insecure: Insecure = False,
    insecure_anywhere: Anywhere = False,
) -> None:
    """Check certificates, clock, network, versions, files, columns and memory; say how to mend what is wrong."""
    job = read_job(job_file)
    file = read_party(job_file, name or job.coordinator.name, config)
    folder = None if insecure or insecure_anywhere else certificates or file.path(file.network.certificates)
    try:
        security: Security | None = security_of(file, certificates, insecure, insecure_anywhere)
    except CertificateError:
        security = None  # reported in the table
    listen, dial = None, None
    if file.name == job.coordinator.name:
        listen = Listen(listen_address(job, file, address, insecure), security or PlainText(file.name))
    elif security is not None:
        dial = Dial(address or job.coordinator.address, security)
    findings = list(examine(job, file, listen, dial, folder))
    _show(findings)
    if any(finding.level == FAIL for finding in findings):
        sys.exit(1)


def _show(findings: list[Diagnosis]) -> None:
    table = Table(box=None, pad_edge=False)
    for column in ("", "check", "found", "what to do"):
        table.add_column(column, overflow="fold")
    for f in findings:
        table.add_row(f"[{_COLOURS[f.level]}]{f.level}[/]", f.what, f.found, f.fix)
    Console().print(table)
