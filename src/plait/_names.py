"""The one place that says which texts may become a file name, a run, a key, or a line that people read.

Names of parties stand in certificates, file names and job files.  Names of runs are folders.  Both also come from
peers, so few characters are allowed: none of them can leave the folder that it is used in.
"""

import re
from collections.abc import Sequence

from plait.errors import ConfigError, ProtocolError

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_RUN = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{6}")
_RUN_START = re.compile(r"[0-9a-f-]{1,64}")
_HEX = re.compile(r"[0-9a-f]*")
_OWN = {"ca": "the authority", "coordinator": "the coordinator's folder in a run", "job": "the job file"}
"""Names of files and folders of plait: those of parties lie beside them."""
_NAMES_SHOWN = 400  # characters: the names of some 40 columns
LONGEST_TEXT = 2000  # characters of a reason that a peer gives: enough for any of our own errors


def check_name(name: str, what: str = "a party's name") -> str:
    """The name itself; ConfigError unless it is lower-case letters, digits and inner hyphens, at most 63."""
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{what} must be 1 to 63 lower-case letters, digits and inner hyphens. Found {name[:80]!r}. Rename it."
        )
    return name


def check_party(name: str) -> str:
    """A party's name itself; ConfigError unless its files cannot be mistaken for others."""
    if check_name(name) in _OWN:
        raise ConfigError(f"a party's name must be its own. Found {name!r}, as {_OWN[name]} is called. Rename it.")
    return name


def is_run(text: str) -> bool:
    """Whether this is the name of a run: a date, a time and six hexadecimal digits, as in 20260101-120000-0a1b2c."""
    return _RUN.fullmatch(text) is not None


def check_run(text: str) -> str:
    """The name of a run itself; ProtocolError for everything else: it becomes a folder."""
    if not is_run(text):
        raise ProtocolError(
            f"a run must be named by date, time and six hexadecimal digits, as in 20260101-120000-0a1b2c. Found "
            f"{text[:40]!r}. The coordinator is faulty, or not honest."
        )
    return text


def check_run_start(text: str) -> str:
    """The name of a run, or its beginning, as people type it; ConfigError unless it is digits, a to f and hyphens."""
    if not _RUN_START.fullmatch(text):
        raise ConfigError(
            f"a run's name must be 1 to 64 digits, letters a to f and hyphens. Found {text[:64]!r}. See `plait runs`."
        )
    return text


def is_hex(text: str, size: int) -> bool:
    """Whether this is the hexadecimal form of so many bytes, in lower case."""
    return len(text) == 2 * size and _HEX.fullmatch(text) is not None


def some_of(names: Sequence[str]) -> str:
    """Names of a table's columns in a line for people: of thousands, the first few hundred characters."""
    return plain(", ".join(names), _NAMES_SHOWN)


def plain(text: str, longest: int = LONGEST_TEXT) -> str:
    """A text of somebody else, safe to print: control characters, and those that turn the writing around, become '?'.

    White space becomes a blank; what is longer than `longest` is cut.
    """
    cut = text if len(text) <= longest else text[: longest - 3] + "..."
    if cut.isprintable():
        return cut
    return "".join(c if c.isprintable() else " " if c in "\n\t\r" else "?" for c in cut)
