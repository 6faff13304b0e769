"""Every section of a job file, as a frozen dataclass; docs/reference/settings.md comes from here.

Sections that configure an object of plait are that object: `[stopping]` is `plait.Stopping`, `[alignment]` is
`AlignmentOptions`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from plait._names import check_party
from plait.alignment.ids import AlignmentOptions
from plait.errors import ConfigError
from plait.problem.registry import DEFAULT_LOSS, DEFAULT_PENALTY
from plait.training.fit import FIT_INTERCEPT
from plait.training.precision import DEFAULT_PRECISION, need_precision
from plait.training.stopping import Stopping


def check_address(address: str, what: str) -> None:
    """ConfigError unless this is host:port."""
    host, _, port = address.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or not 0 < int(port[:6]) < _PORTS:
        raise ConfigError(f"{what} must be host:port. Found {address!r}.")


_PORTS = 65_536  # ports of a machine: their numbers have 16 bits
_A_YEAR = 31_536_000.0  # seconds, the longest wait: system calls take no infinite one
_MOST_THREADS = 1024  # threads: more than a machine has cores


@dataclass(frozen=True)
class CoordinatorSpec:
    """Who holds the labels and where the parties dial.

    Parameters
    ----------
    name : str
        The label party: its certificate must carry this name.
    address : str, default="127.0.0.1:7443"
        host:port that every party can reach.
    patience : float, default=600.0
        Seconds that a party may be missing before the run ends.
    """

    name: str
    address: str = "127.0.0.1:7443"
    patience: float = 600.0

    def __post_init__(self) -> None:
        check_party(self.name)
        check_address(self.address, "coordinator.address")
        if not 0 < self.patience <= _A_YEAR:
            raise ConfigError(f"coordinator.patience must be positive, a year at most. Found {self.patience}.")


@dataclass(frozen=True)
class BlindOptions:
    """With protection = "blind": the coordinator is a third machine, which works for two parties.

    Parameters
    ----------
    label_party : str
        Which of the two parties holds the labels.
    rows : int
        How many rows both parties hold, in the same order.
    """

    label_party: str
    rows: int

    def __post_init__(self) -> None:
        check_party(self.label_party)
        if self.rows < 1:
            raise ConfigError(f"blind.rows must be 1 or more. Found {self.rows}.")


@dataclass(frozen=True)
class ModelOptions:
    """What is minimised; the names are those of `plait.fit`.

    Parameters
    ----------
    loss : str or table, default="logistic"
        A loss, by its name or as a table of name and options.
    penalty : str, table or list, default="l2"
        The penalty of every party, by its name or as a table of name and options; a list adds them.  So "l1" and a
        "group-lasso" make the sparse group lasso.
    penalties : table, default={}
        Party name -> another penalty for this party.
    fit_intercept : bool, default=True
        Add a constant that is not penalised.
    weighted : bool, default=False
        Whether rows have weights: the label party's file names the column, and every party is told them.
    """

    loss: Any = DEFAULT_LOSS
    penalty: Any = DEFAULT_PENALTY
    penalties: Mapping[str, Any] = field(default_factory=dict)
    fit_intercept: bool = FIT_INTERCEPT
    weighted: bool = False


@dataclass(frozen=True)
class PolicyOptions:
    """Who protects what.

    Parameters
    ----------
    parties : table, default={}
        Party name -> mechanism, by its name or as a table of name and options; parties not named protect nothing.
    labels : str or table, default=None
        How labels are protected; without it they are not.
    offset : bool, default=True
        Whether helpers get the unprotected parties' score of each row; if not, labels only.
    disjoint : bool, default=False
        No two helpers hold the same signal, which saves a release.
    """

    parties: Mapping[str, Any] = field(default_factory=dict)
    labels: Any = None
    offset: bool = True
    disjoint: bool = False


@dataclass(frozen=True)
class RunOptions:
    """How every process runs.

    Parameters
    ----------
    threads : int, default=1
        BLAS threads per process; the same everywhere, so that the numbers repeat.
    precision : str, default="float64"
        How the numbers of a vector are sent: "float64", "float32" in half the bytes, or "int16" in a quarter, as long
        as that gains something: then in "float32".
    """

    threads: int = 1
    precision: str = DEFAULT_PRECISION

    def __post_init__(self) -> None:
        if not 1 <= self.threads <= _MOST_THREADS:
            raise ConfigError(f"run.threads must be 1 to {_MOST_THREADS}. Found {self.threads}.")
        need_precision(self.precision)


@dataclass(frozen=True)
class ScoringOptions:
    """How new rows are found at all parties, and what happens to those that a party lacks.

    Parameters
    ----------
    join : str, default=""
        "private" aligns the new rows first; "list" shows the label party's ids to all parties; empty for "private"
        where there is a section [alignment].
    missing : str, default="refuse"
        Where a party lacks a row: "refuse" to score any, take the party's "mean" part, or "leave out" its score.
    address : str, default=""
        host:port of the label party, where the coordinator is a blind machine, which scores nothing.
    """

    join: Literal["", "list", "private"] = ""
    missing: Literal["refuse", "mean", "leave out"] = "refuse"
    address: str = ""


@dataclass(frozen=True)
class ReportOptions:
    """What is measured for the label party's report besides the model itself.

    Parameters
    ----------
    partners : bool, default=False
        Also train the label party with each partner alone, one run after another, when the run has ended: the report
        then says what each partner brings. Its rounds count as those of any run. Not with protection = "sums" or
        "blind", nor with [privacy]: it would show what these hide.
    """

    partners: bool = False


JOB_SECTIONS: Mapping[str, Any] = {
    "coordinator": CoordinatorSpec,
    "blind": BlindOptions,
    "model": ModelOptions,
    "stopping": Stopping,
    "privacy": PolicyOptions,
    "alignment": AlignmentOptions,
    "scoring": ScoringOptions,
    "report": ReportOptions,
    "run": RunOptions,
}
"""The sections of a job file, besides [method], whose options depend on its name."""
RENAMED: Mapping[str, Mapping[str, str]] = {"run": {"wire": "precision"}, "model": {"intercept": "fit_intercept"}}
"""Settings that had another name: their old one is refused with the new one in the message."""
