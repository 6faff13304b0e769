"""`plait runs`, `plait show`, `plait forget`: the runs that a party keeps."""

import json
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from plait._names import plain
from plait.cli.options import Config, JobFile
from plait.deployment.job_file import PartyFile, file_of, read_job
from plait.deployment.run_folder import COORDINATOR
from plait.deployment.run_list import FORGOTTEN, RunSummary, find, folders_of, forget, list_runs, others_of

Whose = Annotated[str, typer.Option("--name", help="Which party this is; the label party by default.")]
Json = Annotated[bool, typer.Option("--json", help="As JSON, for programs.")]
Run = Annotated[str, typer.Argument(help="The name of a run, or the beginning of it.", metavar="RUN")]
_REASON = 160  # characters of a reason below the table: two lines of a narrow screen
_SHOWN_SETTINGS = 3  # that differ: a cell of a few lines
_SHOWN_METRICS = 2  # after the mean loss, which the others repeat: a table of more is wider than a screen


def runs(job_file: JobFile, name: Whose = "", config: Config = None, as_json: Json = False) -> None:
    """List the runs of a job: when, on how many rows, with which settings, how good, and how each stands."""
    job = read_job(job_file)
    file, role = _party(job_file, name, config)
    found = list_runs(file.path(file.runs), role)
    if as_json:
        typer.echo(json.dumps([{**s.facts(), "differs": s.differences(job.settings)} for s in found], indent=1))
        return
    if not found:
        typer.echo(f"No runs in {file.path(file.runs)}. `plait coordinator` or `plait fit` makes one.")
        return
    table = Table(box=box.SIMPLE_HEAD, header_style="bold")
    table.add_column("run", no_wrap=True)  # its name begins with the date and time
    for heading in ("state", "rows", "rounds", "metrics", "unlike the job file"):
        table.add_column(heading, overflow="fold")
    for summary in found:
        table.add_row(*(Text(cell) for cell in _cells(summary, summary.differences(job.settings))))
    Console().print(table)
    for summary in found:
        if summary.status.status not in ("finished", FORGOTTEN) and summary.status.reason:
            typer.echo(f"{summary.status.run}: {_short(summary.status.reason)}")


def show(job_file: JobFile, run: Run, name: Whose = "", config: Config = None, as_json: Json = False) -> None:
    """Show all that is known of one run."""
    file, role = _party(job_file, name, config)
    facts = find(file.path(file.runs), role, run).facts()
    if as_json:
        typer.echo(json.dumps(facts, indent=1))
        return
    for line in _readable(facts):
        typer.echo(plain(line))


def forget_run(
    job_file: JobFile,
    run: Run,
    name: Whose = "",
    config: Config = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Remove what a run has left here: weights, model, preparation, scores, rows and checkpoints.

    The label party's own columns are forgotten with the model. The sealed log and the entries of a privacy ledger stay:
    what has left cannot be called back.
    """
    file, role = _party(job_file, name, config)
    runs = file.path(file.runs)
    name_of_run = find(runs, role, run).status.run
    if not yes:
        typer.confirm(f"Remove the model of run {name_of_run} for ever?", abort=True)
    for summary in folders_of(runs, name_of_run, file.name, role):
        removed = ", ".join(forget(summary)) or "nothing"
        typer.echo(f"Removed {removed} from {summary.path}; run.json and audit.jsonl stay.")
    for other in others_of(runs, name_of_run, file.name, role):
        typer.echo(f"{runs / name_of_run / other} belongs to another party, and stays: --name {other} forgets it.")


def _party(job_file: Path, name: str, config: Path | None) -> tuple[PartyFile, str]:
    """The party's file, and the name of its folder in a run; the label party looks at the coordinator's."""
    job = read_job(job_file)
    role = COORDINATOR if name in ("", job.coordinator.name) else name
    return file_of(job, job_file, name, config), role


def _readable(facts: Mapping[str, Any], before: str = "") -> Iterator[str]:
    """One line per fact, and those of a section below its heading."""
    width = max(map(len, facts), default=0) + 2
    for key, value in facts.items():
        if isinstance(value, Mapping):
            yield f"{before}{key}" if value else f"{before}{key:{width}s}none"
            yield from _readable(value, before + "  ")
        elif isinstance(value, list):
            yield f"{before}{key:{width}s}{', '.join(map(_word, value))}"
        elif value is not None and value != "":
            yield f"{before}{key:{width}s}{_word(value)}"


def _word(value: Any) -> str:
    """A value as a person writes it: yes or no, six digits of a number, other things as they are."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _cells(summary: RunSummary, differing: dict[str, Any]) -> tuple[str, ...]:
    status = summary.status
    metrics = [f"{key} {value:.4f}" for key, value in list(summary.metrics.items())[1 : 1 + _SHOWN_METRICS]]
    return (
        status.run,
        status.status,
        str(summary.rows or ""),
        str(summary.rounds or ""),
        ", ".join(metrics),
        _unlike(differing),
    )


def _unlike(differing: Mapping[str, Any]) -> str:
    """The first settings that differ; `plait show` has all of them."""
    words = [f"no {key}" if value is None else f"{key} = {json.dumps(value)}" for key, value in differing.items()]
    more = [f"and {len(words) - _SHOWN_SETTINGS} more"] if len(words) > _SHOWN_SETTINGS else []
    return ", ".join([*words[:_SHOWN_SETTINGS], *more])


def _short(reason: str) -> str:
    """The beginning of a reason, in whole words; `plait show` has all of it."""
    return textwrap.shorten(plain(reason), _REASON, placeholder=" ...")
