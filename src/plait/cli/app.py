"""The command line: parse, build the object, call it, report one error."""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table

from plait._version import __version__
from plait.cli import cert, predict, privacy, run, runs, serve
from plait.cli.align import align
from plait.cli.doctor import doctor
from plait.cli.failures import Commands
from plait.cli.failures import run as run_commands
from plait.cli.init import init
from plait.training.history import Round
from plait.training.loop import Observer

if TYPE_CHECKING:
    from plait.studies.demo import Score
    from plait.studies.parity import Row

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(privacy.app, name="privacy")
_out, _err = Console(), Console(stderr=True)

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only the result, no progress.")]

app.command()(init)
app.add_typer(cert.app, name="cert")
app.command()(doctor)
app.command()(align)
app.command()(run.fit)
app.command()(run.coordinator)
app.command()(run.party)
app.command()(runs.runs)
app.command()(runs.show)
app.command("forget")(runs.forget_run)
app.command()(predict.predict)
app.command()(predict.evaluate)
app.add_typer(serve.app, name="serve")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and end.")
]


@app.callback()
def root(version: Version = False) -> None:
    """Train one model over columns that never leave their owners."""


@app.command()
def version() -> None:
    """Print the version."""
    _print_version(True)


@app.command()
def demo(
    output: Annotated[Path, typer.Option(help="Folder for the picture.")] = Path("plait-demo"),
    quiet: Quiet = False,
) -> None:
    """Train one model over three parties, and compare it with each of them alone and with pooled data."""
    from plait.studies import demo as story
    from plait.studies.figures import draw_demo, pictures_can_be_drawn

    began = time.perf_counter()
    tables = story.load_tables()
    if quiet:
        joint, _ = story.train_jointly(tables)
    else:
        _out.print(story.STORY, highlight=False)
        with _live_rounds() as show:
            joint, _ = story.train_jointly(tables, [show])
        _out.print()
    references, optimum = story.train_references(tables)
    scores = [*references[:-1], joint, references[-1]]
    _out.print(_scores_table(scores))
    if pictures_can_be_drawn():
        picture = draw_demo(story.compare_methods(tables, optimum), scores, output / "convergence.png")
        _out.print(f"The convergence, as a picture: {picture}", highlight=False, soft_wrap=True)
    elif not quiet:
        _out.print("For a picture of the convergence: pip install 'plait[plots]'", markup=False, highlight=False)
    if not quiet:
        _out.print(f"{time.perf_counter() - began:.1f} seconds in all", highlight=False)


@app.command()
def parity(
    markdown: Annotated[bool, typer.Option("--markdown", help="As a Markdown table, for the README.")] = False,
    quiet: Quiet = False,
) -> None:
    """Train with plait over three parties and with scikit-learn on pooled data, and print how far they differ."""
    from plait.studies import parity as comparison

    rows = []
    for case in comparison.CASES:
        if not quiet and not markdown:
            _err.print(f"{case.name} ...", highlight=False)
        rows.append(comparison.compare(case))
    if markdown:
        typer.echo(comparison.as_markdown(rows))
    else:
        _out.print(_parity_table(rows))


@contextmanager
def _live_rounds() -> Iterator[Observer]:
    """A table on the screen that grows by one line per round."""
    table = _table(("round", "objective", "residual", "sent by parties"), [])
    with Live(table, console=_out, auto_refresh=False) as live:

        def show(r: Round) -> None:
            table.add_row(str(r.round), f"{r.objective:.8f}", f"{r.dual:.0e}", f"{r.bytes_up / 1000:.1f} kB")
            live.refresh()

        yield show


def _scores_table(scores: Sequence["Score"]) -> Table:
    headings = ("model", "log loss", "AUC", "accuracy", "rounds", "numbers sent\nper row")
    table = _table(headings, [], title="On patients not seen in training")
    for s in scores:
        rounds = "-" if s.rounds is None else str(s.rounds)
        figures = (f"{s.log_loss:.4f}", f"{s.auc:.4f}", f"{s.accuracy:.3f}", rounds, s.sent)
        table.add_row(s.model, *figures, style=None if s.rounds is None else "bold green")
    return table


def _parity_table(rows: Sequence["Row"]) -> Table:
    from plait.studies.parity import HEADINGS, TITLE

    problem, reference, *figures = (heading.replace(" ", "\n") for heading in HEADINGS)
    cells = [r.cells() for r in rows]
    return _table(
        (f"{problem}\n[dim]{reference}[/]", *figures),
        [(f"{name}\n[dim]{model}[/]", *others) for name, model, *others in cells],
        TITLE,
    )


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]], title: str | None = None) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold", box=box.SIMPLE_HEAD)
    for i, heading in enumerate(headings):
        table.add_column(heading, justify="left" if i == 0 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def main() -> None:
    """The entry point of the `plait` command."""
    os.umask(0o077)  # whatever a command writes is for its owner alone
    run_commands(app)
