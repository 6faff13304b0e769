"""The command line: every command, in groups by what its user is doing."""

import os
from typing import Annotated

import typer

from plait._version import __version__
from plait.cli import cert, predict, privacy, run, runs, serve
from plait.cli.align import align
from plait.cli.demo import demo, parity
from plait.cli.doctor import doctor
from plait.cli.failures import Commands
from plait.cli.failures import run as run_commands
from plait.cli.init import init

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode="markdown",  # paragraphs are wrapped by the terminal, and [sections] stay as they are
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_TRY = "Try plait"
_PREPARE = "Prepare a job"
_TRAIN = "Train"
_LOOK = "Look at runs"
_USE = "Use a model"
_PROTECT = "Protect rows and labels"

app.command(rich_help_panel=_TRY)(demo)
app.command(rich_help_panel=_TRY)(parity)
app.command(rich_help_panel=_PREPARE)(init)
app.add_typer(cert.app, name="cert", rich_help_panel=_PREPARE)
app.command(rich_help_panel=_PREPARE)(doctor)
app.command(rich_help_panel=_PREPARE)(align)
app.command(rich_help_panel=_TRAIN)(run.fit)
app.command(rich_help_panel=_TRAIN)(run.coordinator)
app.command(rich_help_panel=_TRAIN)(run.party)
app.command(rich_help_panel=_TRAIN)(run.blind)
app.command(rich_help_panel=_LOOK)(runs.runs)
app.command(rich_help_panel=_LOOK)(runs.show)
app.command("forget", rich_help_panel=_LOOK)(runs.forget_run)
app.command(rich_help_panel=_USE)(predict.predict)
app.command(rich_help_panel=_USE)(predict.evaluate)
app.add_typer(serve.app, name="serve", rich_help_panel=_USE)
app.add_typer(privacy.app, name="privacy", rich_help_panel=_PROTECT)


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


@app.command(hidden=True)
def version() -> None:
    """Print the version."""
    _print_version(True)


def main() -> None:
    """The entry point of the `plait` command."""
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # others reserve gigabytes, and give little back
    os.umask(0o077)  # whatever a command writes is for its owner alone
    run_commands(app)
