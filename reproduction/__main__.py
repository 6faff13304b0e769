"""`python -m reproduction`: the paper's experiments, and a report that sets its claims beside what was measured."""

import time
from pathlib import Path
from typing import Annotated

import typer

from plait.cli.failures import interruptible, run

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
@interruptible()
def reproduce(
    output: Annotated[Path, typer.Option(help="Folder for the report and for finished stages.")] = Path(
        "plait-reproduction"
    ),
    summary: Annotated[
        Path | None, typer.Option(help="Also write a Markdown page here, its pictures in a folder beside it.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small data that stand in for the paper's: seconds.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Compute finished stages again.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the result, no progress.")] = False,
) -> None:
    """Run the paper's experiments on a9a and gisette, and report every figure and claim beside what was measured.

    Minutes. Finished stages are kept: after an interruption the same command goes on where it stopped.
    """
    from reproduction.claims import judge
    from reproduction.plans import FULL, QUICK
    from reproduction.report import write_report
    from reproduction.study import reproduce as study

    began = time.perf_counter()

    def say(text: str) -> None:
        if not quiet:
            typer.echo(f"{time.perf_counter() - began:6.0f} s  {text}", err=True)

    outcome = study(QUICK if quick else FULL, output, say, fresh)
    page = write_report(outcome, output, summary)
    for i, claim in enumerate(judge(outcome), 1):
        typer.echo(f"{i:2d}. {claim.verdict:18}  {claim.says}")
    for path in (page, summary):
        if path is not None:
            typer.echo(f"The report: {path}")


if __name__ == "__main__":
    run(app)
