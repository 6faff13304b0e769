"""`plait predict`, `plait evaluate`: scores by all parties together."""

from pathlib import Path
from typing import Annotated

import typer

from plait._files import write_json
from plait.alignment.proposal import Consent, agree
from plait.cli.align import consent_of
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
    Yes,
    start,
)
from plait.cli.watching import watcher
from plait.deployment.alignment_folder import SCORING
from plait.deployment.job_file import read_job
from plait.deployment.joint_scores import JointScores, need_replaceable
from plait.deployment.local_data import load_labels
from plait.deployment.report.evidence import evidence_on_new_rows
from plait.deployment.report.page import write_report
from plait.deployment.report.sections import shown_once
from plait.deployment.run_folder import RunFolder
from plait.deployment.score import predict as predict_jointly
from plait.deployment.score_party import help_score
from plait.deployment.scorer import PREDICT
from plait.errors import ConfigError
from plait.problem.metrics import metrics

RowsFile = Annotated[str, typer.Option("--rows", help="The new rows, instead of data.score in the party file.")]
Refresh = Annotated[
    bool, typer.Option("--refresh", help="Join new rows again that were joined privately before (label party).")
]
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
    ids: Annotated[
        Path | None,
        typer.Option(help="A text file of ids, one per line, to score instead of all rows (label party)."),
    ] = None,
    refresh: Refresh = False,
    yes: Yes = False,
    config: Config = None,
    address: Address = "",
    certificates: Certificates = None,
    insecure: Insecure = False,
    insecure_anywhere: Anywhere = False,
    log: LogOption = Log.text,
) -> None:
    """Score new rows. Every party runs this with its own name; the coordinator gets the scores.

    The rows of all parties are joined by their ids, in any order: privately, or by the label party's list, as the
    section [scoring] of the job says. For each id the output says which party lacks it, and what was done about that.
    """
    program = start(job_file, name, config, address, certificates, insecure, insecure_anywhere, scores=True)
    if not program.coordinates:
        help_score(
            program.job, program.file, program.dial(), rows, PREDICT, watcher(log), consent_to_join(program, yes)
        )
        return
    if out is not None:
        need_replaceable(out)
    scores = _scores(program, rows, run, log, yes, refresh, ids)
    path = out or scores.folder / "scores.csv"
    scores.write(path, program.job.loss, decimals)
    lost = len(scores.ids) - int(scores.complete.sum())
    _say_gaps(scores)
    typer.echo(f"{len(scores.ids) - lost} scores in {path}" + (f"; {lost} rows have none" if lost else ""))


def evaluate(
    job_file: JobFile,
    name: Name = "",
    rows: RowsFile = "",
    run: RunName = "",
    refresh: Refresh = False,
    yes: Yes = False,
    config: Config = None,
    address: Address = "",
    certificates: Certificates = None,
    insecure: Insecure = False,
    insecure_anywhere: Anywhere = False,
    log: LogOption = Log.text,
) -> None:
    """Measure the model on new rows with labels, and write a new report.

    Every party runs this with its own name; the label party gets the result. A party that runs `plait predict` instead
    does the same.
    """
    program = start(job_file, name, config, address, certificates, insecure, insecure_anywhere, scores=True)
    if not program.coordinates:
        help_score(
            program.job, program.file, program.dial(), rows, PREDICT, watcher(log), consent_to_join(program, yes)
        )
        return
    _show_metrics(program, rows, _scores(program, rows, run, log, yes, refresh, compare=True))


def _scores(
    program: Program,
    rows: str,
    run: str,
    log: Log,
    yes: bool,
    refresh: bool,
    ids: Path | None = None,
    compare: bool = False,
) -> JointScores:
    """The coordinator's side: every party's part of the scores, added up."""
    listen = program.listen() if program.named else None
    consent, local = consent_to_join(program, yes), program.local_parties()
    asked = [] if ids is None else _listed(ids)
    return predict_jointly(
        program.job, program.file, local, listen, rows, run, watcher(log), consent, asked, refresh, compare
    )


def consent_to_join(program: Program, yes: bool) -> Consent:
    """Who agrees to use the common rows, where new rows are joined privately."""
    job = program.job
    return consent_of(job, program.file, yes, SCORING) if job.joins_privately else agree


def _listed(path: Path) -> list[str]:
    try:
        found = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--ids must be a text file in UTF-8. Found {path}: {error}.") from error
    if not found:
        raise ConfigError(f"--ids must hold one id per line. Found none in {path}.")
    return found


def _show_metrics(program: Program, rows: str, scores: JointScores) -> None:
    job, file = program.job, program.file
    labels, known = load_labels(job, file, rows or file.data.score), scores.complete
    found = metrics(job.loss, scores.values[known], labels.values[known])
    write_json(scores.folder / "metrics.json", {"format": 1, "rows": int(known.sum()), **found})
    folder = RunFolder(scores.folder)
    evidence = evidence_on_new_rows(job, file, program.local_parties(), rows or file.data.score, scores)
    as_trained = read_job(program.job_file)  # where a blind machine trained, `job` says who scores
    write_report(folder, as_trained, file, {**folder.model(), "rounds": folder.history()}, (evidence,))
    for what, value in shown_once(found).items():
        typer.echo(f"{what:24s} {value:.4f}")
    _say_gaps(scores)
    typer.echo(f"{int(known.sum())} rows; also in {scores.folder / 'metrics.json'} and report.html")


def _say_gaps(scores: JointScores) -> None:
    if scores.gaps:
        typer.echo(scores.gaps)
