"""Names of parties: they stand in certificates, file names and job files, so few characters are allowed."""

import re

from plait.errors import ConfigError

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def check_name(name: str) -> str:
    """The name itself; ConfigError unless it is lower-case letters, digits and inner hyphens, at most 63."""
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"a party's name must be 1 to 63 lower-case letters, digits and inner hyphens. Found {name!r}. Rename it."
        )
    return name
