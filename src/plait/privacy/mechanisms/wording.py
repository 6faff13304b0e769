"""Guarantees in words."""

from plait.privacy.clipping import Adjacency


def protected(epsilon: float, delta: float, adjacency: Adjacency) -> str:
    """What a row-level guarantee says to the people in the data."""
    return (
        f"every customer's features are protected with epsilon = {epsilon:.2f}, delta = {short(delta)} "
        f"({adjacency.value})"
    )


def labels_protected(epsilon: float) -> str:
    """What a guarantee for labels says to the people in the data."""
    return f"labels: protected with epsilon = {epsilon:.2f}"


def short(number: float) -> str:
    """1e-5 rather than 1e-05."""
    return f"{number:g}".replace("e-0", "e-")
