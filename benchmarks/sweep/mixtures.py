"""Penalties by name, one `Terms` per party; mixtures give every party another one."""

import zlib
from collections.abc import Callable, Sequence
from itertools import cycle

import numpy as np

from benchmarks.sweep.problems import Terms

Mixture = Callable[[Sequence[int], float], tuple[Terms, ...]]
"""From the parties' widths, and the largest slope of any column, to one `Terms` per party."""


def same(**strengths: float) -> Mixture:
    """The same penalty at every party."""
    return lambda widths, top: tuple(Terms(**strengths) for _ in widths)


def share_of_top(share: float) -> Mixture:
    """L1 at a share of the strength from which on all weights are 0."""
    return lambda widths, top: tuple(Terms(l1=share * top) for _ in widths)


def grouped(width: int, size: int = 3, **strengths: float) -> Terms:
    """Groups of consecutive columns."""
    return Terms(groups=tuple(int(k) for k in np.arange(width) // size), **strengths)


def groups(size: int = 3, **strengths: float) -> Mixture:
    return lambda widths, top: tuple(grouped(width, size, **strengths) for width in widths)


def mixed(*terms: Callable[[int], Terms]) -> Mixture:
    """Parties take these in turn."""
    return lambda widths, top: tuple(term(width) for term, width in zip(cycle(terms), widths, strict=False))


def last(plain: Terms, other: Terms) -> Mixture:
    """One party unlike the others: the last."""
    return lambda widths, top: (*(plain for _ in widths[1:]), other)


def _of(**strengths: float) -> Callable[[int], Terms]:
    return lambda width: Terms(**strengths)


def _groups_of(**strengths: float) -> Callable[[int], Terms]:
    return lambda width: grouped(width, **strengths)


PENALTIES: dict[str, Mixture] = {
    "none": same(),
    "l2(1e-2)": same(ridge=1e-2),
    "l2(1e-4)": same(ridge=1e-4),
    "l2(1e-6)": same(ridge=1e-6),
    "l1(1e-2)": same(l1=1e-2),
    "l1(1e-3)": same(l1=1e-3),
    "l1(1e-4)": same(l1=1e-4),
    "l1(1e-6)": same(l1=1e-6),
    "l1(top/3)": share_of_top(1 / 3),
    "l1(top/30)": share_of_top(1 / 30),
    "enet(1e-2)": same(l1=5e-3, ridge=5e-3),
    "enet(1e-4)": same(l1=5e-5, ridge=5e-5),
    "group(1e-2)": groups(group=1e-2),
    "group(1e-4)": groups(group=1e-4),
    "l1+group(1e-3)": groups(l1=1e-3, group=1e-3),
}

CONSTRAINTS: dict[str, Mixture] = {
    "nonneg": same(lower=0.0),
    "l2+nonneg": same(ridge=1e-3, lower=0.0),
    "l1+nonneg": same(l1=1e-3, lower=0.0),
    "box": same(lower=-0.1, upper=0.2),
    "l1+box": same(l1=1e-3, lower=-0.3, upper=0.3),
    "l2+box": same(ridge=1e-3, lower=-1.0, upper=0.05),
    "ball": same(radius=0.5),
    "l1+ball": same(l1=1e-3, radius=0.5),
    "l2+loose ball": same(ridge=1e-3, radius=1e3),
    "nonneg ball": same(lower=0.0, radius=0.5),
    "group+nonneg": groups(group=1e-3, lower=0.0),
    "group+ball": groups(group=1e-3, radius=0.5),
    "l1+group+nonneg": groups(l1=1e-3, group=1e-3, lower=0.0),
}

MIXTURES: dict[str, Mixture] = {
    "one nonneg": last(Terms(ridge=1e-3), Terms(ridge=1e-3, lower=0.0)),
    "one box": last(Terms(ridge=1e-3), Terms(ridge=1e-3, lower=-0.05, upper=0.05)),
    "one ball": last(Terms(ridge=1e-3), Terms(ridge=1e-3, radius=0.2)),
    "one loose ball": last(Terms(ridge=1e-3), Terms(ridge=1e-3, radius=1e3)),
    "one l1": last(Terms(ridge=1e-3), Terms(l1=1e-2)),
    "all but one nonneg": mixed(_of(ridge=1e-3), _of(ridge=1e-3, lower=0.0), _of(ridge=1e-3, lower=0.0)),
    "l2, l1, group": mixed(_of(ridge=1e-3), _of(l1=1e-3), _groups_of(group=1e-3)),
    "none, group": mixed(_of(), _groups_of(group=1e-3)),
    "l1, nonneg, ball": mixed(_of(l1=1e-3), _of(lower=0.0), _of(radius=0.3)),
    "l1 of two strengths": mixed(_of(l1=1e-2), _of(l1=1e-5)),
    "enet, box, none": mixed(_of(l1=1e-3, ridge=1e-3), _of(lower=-0.1, upper=0.1), _of(ridge=1e-5)),
}

ALL = PENALTIES | CONSTRAINTS | MIXTURES


def pick(name: str, options: Sequence[str | int], seed: int) -> str | int:
    """One of the options, always the same for the same name and seed."""
    return options[zlib.crc32(f"{seed} {name}".encode()) % len(options)]
