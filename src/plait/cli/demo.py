"""`plait demo` and `plait parity`: what plait does, shown on data that come with scikit-learn."""

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

from plait.training.history import Round
from plait.training.loop import Observer

if TYPE_CHECKING:
    from plait.studies.demo import Score
    from plait.studies.parity import Row

_out, _err = Console(), Console(stderr=True)

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only the result, no progress.")]


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
