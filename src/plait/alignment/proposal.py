"""What a party is asked before it learns which rows are common."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Proposal:
    """What a party is asked to agree to: the sizes of all sets, and the number of common rows."""

    party: str
    sizes: Mapping[str, int]
    common: int


Consent = Callable[[Proposal], bool]


def agree(proposal: Proposal) -> bool:
    """The consent of a party that has agreed before the alignment."""
    return True
