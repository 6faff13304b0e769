"""How every command reports failure: one line, exit code 1; an interruption leaves with 130."""

import functools
import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import typer

from plait.errors import PlaitError

P = ParamSpec("P")
R = TypeVar("R")


def reports_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Turn plait's own errors into one line on standard error."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except PlaitError as error:
            typer.secho("Error: ", fg=typer.colors.RED, bold=True, nl=False, err=True)
            typer.echo(str(error), err=True)
            sys.exit(1)
        except KeyboardInterrupt:
            typer.secho("Interrupted. The same command resumes where it stopped.", err=True)
            sys.exit(130)

    return wrapped
