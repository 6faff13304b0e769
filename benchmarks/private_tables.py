"""Tables of two parties for the study of private accuracy: the label party's columns, a helper's columns, labels 0/1.

Columns are scaled by constants that are published with the data, never by statistics of the training rows.
"""

import io
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn import datasets as toy

from plait import datasets
from plait.data.datasets import CREDIT, GISETTE
from plait.data.files import read_public
from plait.privacy import PublicRanges

Split = tuple[list[np.ndarray], np.ndarray, list[np.ndarray], np.ndarray]
"""Training tables of all parties, their labels (N,), test tables, their labels."""


def a9a(cuts: tuple[int, ...] = (66,)) -> Split:
    data = datasets.load("a9a")
    split = []
    for parts, labels in ((data.parts, data.y), (data.test_parts, data.y_test)):
        features = np.hstack([part.toarray() for part in parts.values()])
        split += [np.split(features, cuts, axis=1), (labels > 0).astype(float)]
    return tuple(split)


def gisette() -> Split:
    data = np.load(io.BytesIO(read_public(GISETTE)))
    parts = []
    for name in ("train", "test"):
        features = data[f"X_{name}"].astype(float) / 999
        parts += [np.split(features, (2000, 4000), axis=1), (data[f"y_{name}"] > 0).astype(float)]
    return tuple(parts)


def credit() -> Split:
    """Bank: limit, PAY_*, BILL_*; partner: demographics and PAY_AMT*. Scales are public constants."""
    table = np.genfromtxt(io.BytesIO(read_public(CREDIT)), delimiter=",", names=True)
    money = {n: np.sign(table[n]) * np.log1p(np.abs(table[n])) / np.log1p(1e6) for n in table.dtype.names}
    delays = [n for n in table.dtype.names if n.startswith("PAY_") and "AMT" not in n]
    bank = [money["LIMIT_BAL"], *(money[n] for n in table.dtype.names if n.startswith("BILL_"))]
    for n in delays:
        bank += [table[n] / 8, (table[n] > 0).astype(float), (table[n] > 1).astype(float)]
    partner = [money[n] for n in table.dtype.names if n.startswith("PAY_AMT")]
    partner += [(table["AGE"] - 45) / 30]
    partner += [(table[n] == v).astype(float) for n in ("SEX", "EDUCATION", "MARRIAGE") for v in (1, 2, 3)]
    return _split([np.column_stack(bank), np.column_stack(partner)], table["defaultpaymentnextmonth"], 0, 0.8)


def digits(seed: int) -> Split:
    """Upper and lower half of the picture; is the digit 5 or above?  Pixels are 0 to 16."""
    data = toy.load_digits()
    pixels = data.data / 16 / np.sqrt(32)
    return _split([pixels[:, :32], pixels[:, 32:]], data.target >= 5, seed)


def breast(seed: int) -> Split:
    data = toy.load_breast_cancer()
    return _split(_ranged(data.data, 15), data.target == 1, seed)


def wine(seed: int) -> Split:
    """The first two of the three classes."""
    data = toy.load_wine()
    kept = data.target < 2
    return _split(_ranged(data.data[kept], 6), data.target[kept] == 1, seed)


def terrain(seed: int) -> Split:
    """Like covertype: ten correlated numbers, one of 4 areas, one of 30 soils; labels by a rule with an interaction."""
    rng, fixed = np.random.default_rng(1000 + seed), np.random.default_rng(7)
    rows, hidden = 12_000, rng.standard_normal((12_000, 4))
    numbers = np.tanh(hidden @ fixed.standard_normal((4, 10)) / 2 + rng.standard_normal((rows, 10)) / 2)
    area = np.argmax(0.7 * hidden[:, :1] * np.arange(4) + rng.gumbel(size=(rows, 4)), axis=1)
    often = np.linspace(1.5, -1.5, 30)
    soil = np.argmax(hidden[:, 1:2] * np.linspace(-1, 1, 30) + often + rng.gumbel(size=(rows, 30)), axis=1)
    areas, soils = np.eye(4)[area], np.eye(30)[soil]
    score = numbers @ fixed.standard_normal(10) + areas @ fixed.standard_normal(4) + soils @ fixed.standard_normal(30)
    labels = rng.random(rows) < 1 / (1 + np.exp(-score - numbers[:, 0] * numbers[:, 1] / 2))
    own, other = np.hstack([numbers[:, :5], areas]), np.hstack([numbers[:, 5:], soils])
    return _split([own / np.sqrt(6), other / np.sqrt(6)], labels, seed)


@dataclass(frozen=True)
class Table:
    """A data set of the study: how it is split by a seed, how many seeds, and how many draws of noise for each."""

    split: Callable[[int], Split]
    splits: int
    draws: int


TABLES = {
    "wine": Table(wine, 10, 20),
    "breast cancer": Table(breast, 10, 16),
    "digits": Table(digits, 6, 16),
    "terrain": Table(terrain, 4, 8),
    "credit": Table(lambda seed: credit(), 1, 24),
    "a9a": Table(lambda seed: a9a(), 1, 12),
}


def _ranged(columns: np.ndarray, cut: int) -> list[np.ndarray]:
    """Two parties' columns, scaled by the ranges that the data set's description publishes."""
    parts = np.split(columns, [cut], axis=1)
    return [PublicRanges(p.min(axis=0).tolist(), p.max(axis=0).tolist()).apply(p) for p in parts]


def _split(parts: list[np.ndarray], labels: np.ndarray, seed: int, part: float = 0.7) -> Split:
    order = np.random.default_rng(seed).permutation(labels.size)
    train, test = np.split(order, [int(part * labels.size)])
    truth = labels.astype(float)
    return [p[train] for p in parts], truth[train], [p[test] for p in parts], truth[test]
