"""The command line: parse, build the object, call it, report one error."""

import typer

from plait._version import __version__
from plait.commands import cert

app = typer.Typer(no_args_is_help=True, help="Train one model over columns that never leave their owners.")
app.add_typer(cert.app, name="cert")


@app.callback()
def root() -> None:
    """Train one model over columns that never leave their owners."""


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


def main() -> None:
    """The entry point of the `plait` command."""
    app()
