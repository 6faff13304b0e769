"""`plait predict`, `plait evaluate`: scores by all parties together."""

from pathlib import Path
from typing import Annotated

import typer
from scipy.special import expit

from plait._files import write_json
from plait.cli.options import (
    Address,
    Anywhere,
    Certificates,
    Config,
    Insecure,
    JobFile,
    Log,
    LogOption,
    Name,
    Program,
    start,
)
from plait.cli.watching import watcher
from plait.deployment.job_file import Job, PartyFile
from plait.deployment.local_data import load_labels
from plait.deployment.report.page import write_report
from plait.deployment.run_folder import RunFolder
from plait.deployment.score import PREDICT, JointScores, help_score
from plait.deployment.score import predict as predict_jointly
from plait.problem.metrics import metrics

RowsFile = Annotated[str, typer.Option("--rows", help="The new rows, instead of data.score in the party file.")]
RunName = Annotated[str, typer.Option("--run", help="A finished run. By default the newest of this job.")]


def predict(
    job_file: JobFile,
    name: Name = "",
    rows: RowsFile = "",
    run: RunName = "",
    out: Annotated[
        Path | None, typer.Option(help="The CSV file to write. By default scores.csv in the run folder.")
    ] = None,
    decimals: Annotated[int | None, typer.Option(help="Digits after the point to which scores are rounded.")] = None,
    config: Config = None,
    address: Address = "",
    certificates: Certificates = None,
    insecure: Insecure = False,
    insecure_anywhere: Anywhere = False,
    log: LogOption = Log.text,
) -> None:
    """Score new rows. Every party runs this with its own name; the coordinator gets the scores."""
    program = start(job_file, name, config, address, certificates, insecure, insecure_anywhere)
    if not program.coordinates:
        help_score(program.job, program.file, program.dial(), rows, PREDICT, watcher(log))
        return
    scores = _scores(program, rows, run, log)
    path = out or scores.folder / "scores.csv"
    scores.write(path, expit(scores.values) if program.job.loss.classifies else None, decimals)
    typer.echo(f"{len(scores.ids)} scores in {path}")


def evaluate(
    job_file: JobFile,
    name: Name = "",
    rows: RowsFile = "",
    run: RunName = "",
    config: Config = None,
    address: Address = "",
    certificates: Certificates = None,
    insecure: Insecure = False,
    insecure_anywhere: Anywhere = False,
    log: LogOption = Log.text,
) -> None:
    """Measure the model on new rows with labels. The other parties run `plait predict`."""
    program = start(job_file, name, config, address, certificates, insecure, insecure_anywhere)
    _show_metrics(program.job, program.file, rows, _scores(program, rows, run, log))


def _scores(program: Program, rows: str, run: str, log: Log) -> JointScores:
    """The coordinator's side: every party's part of the scores, added up."""
    listen = program.listen() if program.named else None
    return predict_jointly(program.job, program.file, program.local_parties(), listen, rows, run, watcher(log))


def _show_metrics(job: Job, file: PartyFile, rows: str, scores: JointScores) -> None:
    labels = load_labels(job, file, rows or file.data.score)
    found = metrics(job.loss, scores.values, labels.values)
    write_json(scores.folder / "metrics.json", {"format": 1, "rows": len(scores.ids), **found})
    folder = RunFolder(scores.folder)
    write_report(scores.folder, job, {**folder.model(), "rounds": folder.history(), "new_metrics": found})
    for what, value in found.items():
        typer.echo(f"{what:24s} {value:.4f}")
    typer.echo(f"{len(scores.ids)} rows; also in {scores.folder / 'metrics.json'} and report.html")
