"""`plait predict`, `plait evaluate`, `plait serve`: scores by all parties together."""

from pathlib import Path
from typing import Annotated

import typer
from scipy.special import expit

from plait._files import write_json
from plait.cli.failures import reports_errors
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
    end_when_told,
    listen_address,
    security_of,
)
from plait.cli.watching import watcher
from plait.deployment.assembly import load_labels
from plait.deployment.endpoints import Dial, Listen
from plait.deployment.job_file import Job, PartyFile, read_job, read_party
from plait.deployment.report.page import write_report
from plait.deployment.run_folder import RunFolder
from plait.deployment.score import PREDICT, SERVE, JointScores, help_score
from plait.deployment.score import predict as predict_jointly
from plait.deployment.serve import ServeOptions
from plait.deployment.serve import serve as serve_scores
from plait.problem.metrics import metrics

_DEFAULT = ServeOptions()

RowsFile = Annotated[str, typer.Option("--rows", help="The new rows, instead of data.score in the party file.")]
RunName = Annotated[str, typer.Option("--run", help="A finished run; the newest of this job by default.")]


@reports_errors
def predict(
    job_file: JobFile,
    name: Name = "",
    rows: RowsFile = "",
    run: RunName = "",
    out: Annotated[Path | None, typer.Option(help="The CSV file to write; scores.csv in the run folder.")] = None,
    decimals: Annotated[int | None, typer.Option(help="Round scores to so many digits.")] = None,
    config: Config = None,
    address: Address = "",
    certificates: Certificates = None,
    insecure: Insecure = False,
    insecure_anywhere: Anywhere = False,
    log: LogOption = Log.text,
) -> None:
    """Score new rows; every party runs this with its own name, the coordinator gets the scores."""
    end_when_told()
    job = read_job(job_file)
    file = read_party(job_file, name or job.coordinator.name, config)
    listen = None
    if name:
        security = security_of(file, certificates, insecure, insecure_anywhere)
        if name != job.coordinator.name:
            help_score(job, file, Dial(address or job.coordinator.address, security), rows, PREDICT, watcher(log))
            return
        listen = Listen(listen_address(job, file, address, insecure), security)
    scores = predict_jointly(job, file, _local(job, job_file, file, name), listen, rows, run, watcher(log))
    path = out or scores.folder / "scores.csv"
    scores.write(path, expit(scores.values) if job.loss.classifies else None, decimals)
    typer.echo(f"{len(scores.ids)} scores in {path}")


@reports_errors
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
    """Measure the model on new rows with labels; the other parties run `plait predict`."""
    end_when_told()
    job = read_job(job_file)
    file = read_party(job_file, name or job.coordinator.name, config)
    listen = None
    if name:
        security = security_of(file, certificates, insecure, insecure_anywhere)
        listen = Listen(listen_address(job, file, address, insecure), security)
    scores = predict_jointly(job, file, _local(job, job_file, file, name), listen, rows, run, watcher(log))
    _show_metrics(job, file, rows, scores)


@reports_errors
def serve(
    job_file: JobFile,
    name: Annotated[str, typer.Option(help="A feature party answers with its name; the coordinator needs none.")] = "",
    rows: RowsFile = "",
    run: RunName = "",
    http: Annotated[str, typer.Option(help="host:port of the service.")] = _DEFAULT.http,
    per_minute: Annotated[int, typer.Option(help="Ids scored per minute; 0 for no limit.")] = _DEFAULT.per_minute,
    most_ids: Annotated[int, typer.Option(help="Ids in one request.")] = _DEFAULT.most_ids,
    decimals: Annotated[int, typer.Option(help="Digits of every score.")] = _DEFAULT.decimals,
    config: Config = None,
    address: Address = "",
    certificates: Certificates = None,
    insecure: Insecure = False,
    insecure_anywhere: Anywhere = False,
    log: LogOption = Log.text,
) -> None:
    """Serve scores over HTTP at the coordinator; feature parties run it with --name and answer."""
    end_when_told()
    job = read_job(job_file)
    file = read_party(job_file, name or job.coordinator.name, config)
    security = security_of(file, certificates, insecure, insecure_anywhere)
    if name and name != job.coordinator.name:
        help_score(job, file, Dial(address or job.coordinator.address, security), rows, SERVE, watcher(log))
        return
    listen = Listen(listen_address(job, file, address, insecure), security)
    options = ServeOptions(http, per_minute, most_ids, decimals)
    serve_scores(job, file, listen, options, run, rows, watcher(log))


def _local(job: Job, job_file: Path, file: PartyFile, name: str) -> list[PartyFile]:
    """The parties in this process: all of them without a name, else the coordinator's own."""
    if name:
        return [file] if file.name in job.parties else []
    return [file if party == file.name else read_party(job_file, party) for party in job.parties]


def _show_metrics(job: Job, file: PartyFile, rows: str, scores: JointScores) -> None:
    labels = load_labels(job, file, rows or file.data.score)
    found = metrics(job.loss, scores.values, labels.values)
    write_json(scores.folder / "metrics.json", {"format": 1, "rows": len(scores.ids), **found})
    folder = RunFolder(scores.folder)
    write_report(scores.folder, job, {**folder.model(), "rounds": folder.history(), "new_metrics": found})
    for what, value in found.items():
        typer.echo(f"{what:24s} {value:.4f}")
    typer.echo(f"{len(scores.ids)} rows; also in {scores.folder / 'metrics.json'} and report.html")
