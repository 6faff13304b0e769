"""Which protection a run has: `protection=` of `plait.fit`."""

from dataclasses import dataclass

from plait.errors import SettingError
from plait.protection.leverage import MAX_LEVERAGE

MODES = ("labels", "sums", "blind")
DEFAULT_PROTECTION = "plain"


@dataclass(frozen=True)
class Protection:
    """What is hidden, and what a party accepts.

    Parameters
    ----------
    mode : {"labels", "sums", "blind"}
        "labels": parties learn D_m^T g and never g.  "sums": also, the coordinator learns only sums over the parties.
        "blind": two parties, and a third machine that sees shuffled, sign-flipped numbers.
    max_leverage : float, default=0.5
        The largest leverage of a row that a party accepts; above it that row's label could be read.
    groups : bool, default=False
        With "sums": show one sum for each group of at least three parties.  Fewer rounds, and more is shown.
    label_party : str, default=""
        With "blind": the party that holds the labels; empty for the first one.

    Examples
    --------
    >>> import plait
    >>> plait.Protection("sums", groups=True).mode
    'sums'
    """

    mode: str
    max_leverage: float = MAX_LEVERAGE
    groups: bool = False
    label_party: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.mode, str) or self.mode not in MODES:
            raise SettingError(
                f'protection must be "plain", "labels", "sums" or "blind". Found {self.mode!r}. Use one of these.'
            )
        if self.groups and self.mode != "sums":
            raise SettingError('groups goes with protection "sums". Found another mode. Leave it out.')
        if not 0 < self.max_leverage <= 1:
            raise SettingError(f"max_leverage must lie above 0 and at most at 1. Found {self.max_leverage}.")

    @staticmethod
    def of(given: "Protection | str | None") -> "Protection | None":
        """A mode by its name; None and "plain" are no protection."""
        if given is None or isinstance(given, Protection):
            return given
        return None if isinstance(given, str) and given == DEFAULT_PROTECTION else Protection(given)
