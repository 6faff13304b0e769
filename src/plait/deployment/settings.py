"""Every section of a job file and of a party file, as a frozen dataclass; docs/reference/settings.md comes from here.

Sections that configure an object of plait are that object: `[stopping]` is `plait.Stopping`, `[alignment]` is
`AlignmentOptions`, `[prepare]` is `PrepareOptions`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from plait._names import check_name
from plait.alignment.ids import AlignmentOptions, Missing, Repeated
from plait.data.csv_format import CsvFormat
from plait.data.memory import amount
from plait.data.preparation import PrepareOptions
from plait.errors import ConfigError
from plait.privacy.ledger.release_gate import DEFAULT_TABLE
from plait.problem.registry import DEFAULT_LOSS, DEFAULT_PENALTY
from plait.training.fit import FIT_INTERCEPT
from plait.training.precision import DEFAULT_PRECISION, need_precision
from plait.training.stopping import Stopping


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
        check_name(self.name)
        host, _, port = self.address.rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise ConfigError(f"coordinator.address must be host:port. Found {self.address!r}.")
        if not self.patience > 0:
            raise ConfigError(f"coordinator.patience must be positive. Found {self.patience}.")


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
        How the numbers of a vector are sent: "float64", "float32" in half the bytes, or "int16" in a quarter.
    """

    threads: int = 1
    precision: str = DEFAULT_PRECISION

    def __post_init__(self) -> None:
        if self.threads < 1:
            raise ConfigError(f"run.threads must be 1 or more. Found {self.threads}.")
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
    """

    join: Literal["", "list", "private"] = ""
    missing: Literal["refuse", "mean", "leave out"] = "refuse"


@dataclass(frozen=True)
class DataOptions:
    """Where a party's rows lie.

    Parameters
    ----------
    file : str, default=""
        CSV, Parquet or a folder of it, LIBSVM (.svm, .libsvm) or NumPy (.npy, .npz), relative to the party file.
    source : str, default=""
        Instead of a file: an SQL query, "select ... from ...", that DuckDB runs in the folder of the party file.
    id : str or list of str, default=()
        The column that names the rows, or a list of columns; empty for files without one.
    label : str, default=""
        The label column (coordinator only).
    weight : str, default=""
        A column of row weights (coordinator only, with model.weighted in the job).
    columns : list of str, default=()
        The columns to use; empty for all others.
    drop : list of str, default=()
        Columns to leave out.
    score : str, default=""
        New rows for `plait predict` and `plait evaluate`.
    repeated_ids : str, default="refuse"
        Before an alignment: "refuse"; "first" keeps the first row of each id; "drop" drops them all.
    missing_ids : str, default="refuse"
        Before an alignment: "refuse", or "drop" the rows.
    positive : str, default=""
        The label that counts as 1, where labels are two texts or true and false (coordinator only).
    separator : str, default=","
        What stands between the fields of a CSV file.
    decimal : str, default="."
        Its decimal mark: "." or ",".
    thousands : str, default=""
        Its mark between groups of three digits; empty for none.
    quote : str, default='"'
        What stands around fields that hold separators.
    encoding : str, default="utf-8"
        Its text encoding.
    memory : str, default=""
        What this party's process may take in all, such as "1.5 GB"; empty for what is free. Larger tables lie on disk.
    numbers : str, default="float64"
        How the prepared table is stored: "float64", or "float32" in half the space. Arithmetic is in float64.
    spool : str, default=""
        A folder for tables that do not fit into memory; empty for the folder of the runs.
    """

    file: str = ""
    source: str = ""
    id: tuple[str, ...] = ()
    label: str = ""
    weight: str = ""
    columns: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    score: str = ""
    repeated_ids: Repeated = "refuse"
    missing_ids: Missing = "refuse"
    positive: str = ""
    separator: str = CsvFormat.separator
    decimal: str = CsvFormat.decimal
    thousands: str = CsvFormat.thousands
    quote: str = CsvFormat.quote
    encoding: str = CsvFormat.encoding
    memory: str = ""
    numbers: Literal["float64", "float32"] = "float64"
    spool: str = ""

    def __post_init__(self) -> None:
        self.csv_format  # noqa: B018  (impossible values are refused before any file is opened)
        amount(self.memory)
        if bool(self.file) == bool(self.source):
            found = "both" if self.file else "neither"
            raise ConfigError(f"[data] must name a file, or a source: a query. Found {found}.")

    @property
    def csv_format(self) -> CsvFormat:
        """How this party's CSV files are written."""
        return CsvFormat(self.separator, self.decimal, self.thousands, self.quote, self.encoding)


@dataclass(frozen=True)
class ClusterOptions:
    """Who holds the party's table, where one machine is too small.

    Parameters
    ----------
    engine : str, default="none"
        "none": this process and its disk. "ray": actors of a Ray cluster (`plait[ray]`), which read the table.
    address : str, default=""
        The running cluster, such as "ray://head:10001"; empty to start one on this machine.
    workers : int, default=0
        How many actors hold the table; 0 for one per core of the cluster.
    """

    engine: Literal["none", "ray"] = "none"
    address: str = ""
    workers: int = 0

    def __post_init__(self) -> None:
        if self.workers < 0:
            raise ConfigError(f"cluster.workers must be 0 or more. Found {self.workers}.")


@dataclass(frozen=True)
class TrustOptions:
    """What this party insists on.

    Parameters
    ----------
    min_columns : int, default=2
        A party with fewer columns refuses to start, and a share made of fewer is not sent: a vector that is one column
        times a number shows that column.
    max_rounds : int, default=1000
        Rounds that this party answers on its data, over all jobs and runs; 0 for no limit.
    max_alignments : int, default=20
        Alignments that this party takes part in with its ids, over all runs; 0 for no limit.
    max_queries : int, default=1000
        Scores that this party gives per minute, to a service and in batches; 0 for no limit.
    max_scores : int, default=100000
        Scores that it gives of one run, for ever; 0 for no limit.
    scores_per_id : int, default=10
        How often it scores one id by one run, for ever; 0 for no limit.
    score_decimals : int, default=3
        Digits after the point of every score that leaves it.
    score_training_rows : bool, default=False
        Also score rows that it trained on; a party with a guarantee never does.
    record : bool, default=False
        Keep every message of a run in full, for `plait privacy wiretap`.
    accept_labels_shown : bool, default=False
        Start runs in which other parties learn every label (label party).
    accept_scores_shown : bool, default=False
        Start runs in which the label party learns this party's score of every row.
    """

    min_columns: int = 2
    max_rounds: int = 1000
    max_alignments: int = 20
    max_queries: int = 1000
    max_scores: int = 100_000
    scores_per_id: int = 10
    score_decimals: int = 3
    score_training_rows: bool = False
    record: bool = False
    accept_labels_shown: bool = False
    accept_scores_shown: bool = False

    def __post_init__(self) -> None:
        for name in ("max_rounds", "max_alignments", "max_queries", "max_scores", "scores_per_id", "score_decimals"):
            if getattr(self, name) < 0:
                raise ConfigError(f"trust.{name} must be 0 or more. Found {getattr(self, name)}.")


@dataclass(frozen=True)
class PrivacyOptions:
    """What this party is willing to spend, where the job protects its features or its labels.

    Parameters
    ----------
    epsilon : float, default=None
        Its budget for the people in one table, over all jobs and runs.
    delta : float, default=1e-5
        The delta of that budget.
    table : str, default="people"
        The name of the table: all its rows, columns and versions have one account.
    ledger : str, default="ledgers"
        The folder of its ledgers and of the secret of its noise.
    ledger_witness : str, default=""
        A folder, best on another disk, that mirrors how far the ledgers have come; empty for the user's own.
    public_weights : bool, default=False
        Say true where the column data.weight does not depend on the labels: every party is told it.
    test_noise : int, default=None
        A seed, for tests only: whoever knows it can remove the noise; the ledger records it.
    """

    epsilon: float | None = None
    delta: float = 1e-5
    table: str = DEFAULT_TABLE
    ledger: str = "ledgers"
    ledger_witness: str = ""
    public_weights: bool = False
    test_noise: int | None = None


@dataclass(frozen=True)
class NetworkOptions:
    """How this party meets the others.

    Parameters
    ----------
    certificates : str, default="certs"
        The folder with ca.crt, NAME.crt and NAME.key.
    listen : str, default=""
        host:port to listen on (coordinator only); empty for all interfaces, at the job's port.
    """

    certificates: str = "certs"
    listen: str = ""


JOB_SECTIONS: Mapping[str, Any] = {
    "coordinator": CoordinatorSpec,
    "model": ModelOptions,
    "stopping": Stopping,
    "privacy": PolicyOptions,
    "alignment": AlignmentOptions,
    "scoring": ScoringOptions,
    "run": RunOptions,
}
"""The sections of a job file, besides [method], whose options depend on its name."""
PARTY_SECTIONS: Mapping[str, Any] = {
    "data": DataOptions,
    "prepare": PrepareOptions,
    "trust": TrustOptions,
    "privacy": PrivacyOptions,
    "network": NetworkOptions,
    "cluster": ClusterOptions,
}
RENAMED: Mapping[str, Mapping[str, str]] = {"run": {"wire": "precision"}, "model": {"intercept": "fit_intercept"}}
"""Settings that had another name: their old one is refused with the new one in the message."""
