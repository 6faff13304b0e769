"""`plait doctor`: a table of checks for this machine, with the fix for each."""

import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from plait._names import plain
from plait.cli.options import Address, Anywhere, Certificates, Config, Insecure, JobFile, start
from plait.deployment.doctor import FAIL, PASS, WARN, Diagnosis, examine
from plait.errors import CertificateError
from plait.transports.tls import PlainText, Security

_COLOURS = {PASS: "green", WARN: "yellow", FAIL: "red"}


def doctor(
    job_file: JobFile,
    name: Annotated[str, typer.Option(help="Which party this program stands for. By default the coordinator.")] = "",
    config: Config = None,
    address: Address = "",
    certificates: Certificates = None,
    insecure: Insecure = False,
    insecure_anywhere: Anywhere = False,
) -> None:
    """Check certificates, clock, network, versions, files, columns and memory. Say how to mend what is wrong."""
    program = start(job_file, name, config, address, certificates, insecure, insecure_anywhere)
    try:
        security: Security | None = program.security()
    except CertificateError:
        security = None  # reported in the table
    listen, dial = None, None
    if program.coordinates:
        listen = program.listen(security or PlainText(program.file.name))
    elif security is not None:
        dial = program.dial()
    findings = list(examine(program.job, program.file, listen, dial, program.certificate_folder))
    _show(findings)
    if any(finding.level == FAIL for finding in findings):
        sys.exit(1)


def _show(findings: list[Diagnosis]) -> None:
    """Names of columns and files stand in it: neither markup nor what steers a terminal is obeyed."""
    table = Table(box=None, pad_edge=False)
    for column in ("", "check", "found", "what to do"):
        table.add_column(column, overflow="fold")
    for f in findings:
        table.add_row(Text(f.level, style=_COLOURS[f.level]), *(Text(plain(text)) for text in (f.what, f.found, f.fix)))
    Console().print(table)
