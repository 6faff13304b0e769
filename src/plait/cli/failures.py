"""How every command reports failure: one line and exit code 1; an interruption ends with exit code 130."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperGroup

from plait._names import plain
from plait.errors import PlaitError

_LONGEST = 8000  # characters of an error: more than any of ours
INTERRUPTED = 130  # exit code: 128 + SIGINT (2), as shells have it


@contextmanager
def interruptible() -> Iterator[None]:
    """Turn Ctrl-C into one line on standard error and exit code 130."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("Interrupted. A run that was saved resumes where it stopped: type the same command again.", err=True)
        raise typer.Exit(INTERRUPTED) from None


class Commands(TyperGroup):
    """A group whose commands can be interrupted."""

    def invoke(self, ctx: Any) -> Any:
        with interruptible():
            return super().invoke(ctx)


def run(app: typer.Typer) -> None:
    """Run a command line: exit code 0, 1 after an error of plait's, 2 after wrong usage, 130 after an interruption."""
    try:
        app()
    except PlaitError as error:
        typer.secho("Error: ", fg=typer.colors.RED, bold=True, nl=False, err=True)
        typer.echo(plain(str(error), _LONGEST), err=True)
        sys.exit(1)
    except (OSError, MemoryError) as error:  # a full disk, a path that is a folder, a file that is too large
        typer.secho("Error: ", fg=typer.colors.RED, bold=True, nl=False, err=True)
        found = plain(f"the machine must do what is asked of it. Found: {str(error) or 'no memory left'}.")
        typer.echo(f"{found} Make room, or correct it, and type the same command again.", err=True)
        sys.exit(1)
