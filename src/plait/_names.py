"""Names of parties and runs: they stand in certificates, file names and job files, so few characters are allowed."""

import re

from plait.errors import ConfigError

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_RUN = re.compile(r"[0-9a-f-]{1,64}")  # what `new_run` makes: a date, a time and some hexadecimal digits


def check_name(name: str) -> str:
    """The name itself; ConfigError unless it is lower-case letters, digits and inner hyphens, at most 63."""
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"a party's name must be 1 to 63 lower-case letters, digits and inner hyphens. Found {name!r}. Rename it."
        )
    return name


def check_run(name: str) -> str:
    """The name of a run, or its beginning; ConfigError unless it is hexadecimal digits and hyphens: never a path."""
    if not _RUN.fullmatch(name):
        raise ConfigError(
            f"a run's name must be 1 to 64 digits, letters a to f and hyphens. Found {name!r}. See `plait runs JOB`."
        )
    return name
