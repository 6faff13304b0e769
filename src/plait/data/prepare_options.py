"""The section [prepare] of a party file: how columns become numbers."""

from dataclasses import dataclass, field
from typing import Any, Literal

from plait.data.dates import DateFormat
from plait.errors import ConfigError


@dataclass(frozen=True)
class PrepareOptions:
    """How columns become numbers, fitted on this party's own rows.

    Parameters
    ----------
    impute : str, default="none"
        What replaces missing numbers: "mean", "median" or "zero"; "none" refuses them.
    scale : str, default="none"
        "standard" (mean 0, deviation 1), "minmax", "maxabs" (keeps sparse data sparse), "ranges" or "none".
    one_hot : list of str, default=()
        Columns that become one 0/1 column per value.
    transformer : str, default=""
        A scikit-learn transformer of a fixed list, "package.module:Class", applied to number columns after scaling.
    options : table, default={}
        Its options.
    ranges : table, default={}
        For "ranges": each column's [low, high], known without the data; rows then have norm at most 1.
    categories : table, default={}
        For one_hot columns whose values are known without the data: the values; others are all zeros.
    transform : list of str, default=()
        The number columns that the transformer is applied to; empty for all.
    dates : table, default={}
        Columns of dates -> how they are written, such as "YYYY-MM-DD" or "DD.MM.YYYY". Each becomes one number: years
        of 365.25 days since 2000-01-01, negative before. A time of day is left out. Scaling and ranges apply to it.
    """

    impute: Literal["none", "mean", "median", "zero"] = "none"
    scale: Literal["none", "standard", "minmax", "maxabs", "ranges"] = "none"
    one_hot: tuple[str, ...] = ()
    transformer: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    ranges: dict[str, Any] = field(default_factory=dict)
    categories: dict[str, Any] = field(default_factory=dict)
    transform: tuple[str, ...] = ()
    dates: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, written in self.dates.items():
            DateFormat(str(written))
            if name in self.one_hot:
                raise ConfigError(f"column {name!r} must be a date or a category. Found it in dates and in one_hot.")
