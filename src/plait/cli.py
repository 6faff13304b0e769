"""The command line: parse, build the object, call it, report one error."""

import typer

from plait._version import __version__
from plait.commands import cert, predict, run
from plait.commands.doctor import doctor
from plait.commands.init import init

app = typer.Typer(no_args_is_help=True, help="Train one model over columns that never leave their owners.")
app.command()(init)
app.add_typer(cert.app, name="cert")
app.command()(doctor)
app.command()(run.fit)
app.command()(run.coordinator)
app.command()(run.party)
app.command()(predict.predict)
app.command()(predict.evaluate)
app.command()(predict.serve)


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


if __name__ == "__main__":
    main()
