"""Every section of a party file, as a frozen dataclass; docs/reference/settings.md comes from here.

The section `[prepare]` is `PrepareOptions`, the object that it configures.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from plait.alignment.ids import Missing, Repeated
from plait.data.csv_format import CsvFormat
from plait.data.memory import amount
from plait.data.prepare_options import PrepareOptions
from plait.errors import ConfigError
from plait.privacy.clipping import Adjacency
from plait.privacy.ledger.release_gate import DEFAULT_TABLE
from plait.protection.leverage import MAX_LEVERAGE


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
        A folder for tables and vectors that do not fit into memory; empty for the folder of the runs.
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


_MOST_DECIMALS = 15  # digits after the point: a double has no more
_COUNTS = (
    "max_rounds",
    "max_directions",
    "max_alignments",
    "max_queries",
    "max_scores",
    "scores_per_id",
    "score_decimals",
)


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
    max_directions : int, default=0
        Vectors of its scores that others can read, on its data, over all jobs and runs; 0 for no limit. As many as it
        has columns show the space of its columns. Masked ones do not count.
    max_alignments : int, default=20
        Alignments that this party takes part in with its ids, over all runs; 0 for no limit.
    max_queries : int, default=1000
        Scores that this party gives per minute; 0 for no limit. A batch (`plait predict`, `plait evaluate`), which its
        owner starts, is scored to its end when its first 500 rows fit, and uses up the minute.
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
    max_leverage : float, default=0.5
        The largest leverage of a row in a protected run: above it the row's label could be read from D^T g.
    accept_labels_shown : bool, default=False
        Start runs in which other parties learn every label (label party).
    accept_scores_shown : bool, default=False
        Start runs in which the label party learns this party's score of every row.
    accept_other_sums : bool, default=False
        Take part in a sum that together with earlier ones on these data shows the share of a single party.
    accept_other_rows : bool, default=False
        Start a protected run whose rows differ from those of earlier ones by so few that other parties learn their
        labels from the difference (label party).
    """

    min_columns: int = 2
    max_rounds: int = 1000
    max_directions: int = 0
    max_alignments: int = 20
    max_queries: int = 1000
    max_scores: int = 100_000
    scores_per_id: int = 10
    score_decimals: int = 3
    score_training_rows: bool = False
    record: bool = False
    max_leverage: float = MAX_LEVERAGE
    accept_labels_shown: bool = False
    accept_scores_shown: bool = False
    accept_other_sums: bool = False
    accept_other_rows: bool = False

    def __post_init__(self) -> None:
        for name in _COUNTS:
            if getattr(self, name) < 0:
                raise ConfigError(f"trust.{name} must be 0 or more. Found {getattr(self, name)}.")
        if self.score_decimals > _MOST_DECIMALS:
            raise ConfigError(f"trust.score_decimals must be at most {_MOST_DECIMALS}. Found {self.score_decimals}.")
        if not 0 < self.max_leverage <= 1:
            raise ConfigError(f"trust.max_leverage must lie above 0 and at most at 1. Found {self.max_leverage}.")


@dataclass(frozen=True)
class PrivacyOptions:
    """What this party is willing to spend, where the job protects its features or its labels.

    Parameters
    ----------
    epsilon : float, default=None
        Its budget for the people in one table, over all jobs and runs.
    delta : float, default=1e-5
        The delta of that budget.
    adjacency : str, default="replace"
        What the budget counts: what changes when one row is replaced, or with "zero-out" when it is set to zeros. A job
        that counts less than this is refused.
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
    adjacency: Adjacency = Adjacency.REPLACE
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


PARTY_SECTIONS: Mapping[str, Any] = {
    "data": DataOptions,
    "prepare": PrepareOptions,
    "trust": TrustOptions,
    "privacy": PrivacyOptions,
    "network": NetworkOptions,
    "cluster": ClusterOptions,
}
"""The sections of a party file, besides `runs`, the folder of its runs."""
