"""Test log loss of the private one-pass mode, for arguments a9a, credit, gisette (in PLAIT_DATA)."""

import io
import json
import sys
import time

import numpy as np
import scipy
from sklearn.linear_model import LogisticRegression

from plait import datasets, fit
from plait.data.datasets import CREDIT, GISETTE
from plait.data.files import read_public
from plait.privacy import ClippedRows, InsecureTestNoise, NoPrivacy, Policy, RandomisedResponse, Recommended

Split = tuple[list[np.ndarray], np.ndarray, list[np.ndarray], np.ndarray]


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
    labels = table["defaultpaymentnextmonth"]
    order = np.random.default_rng(0).permutation(labels.size)
    train, test = order[:24000], order[24000:]
    parties = [np.column_stack(bank), np.column_stack(partner)]
    return [p[train] for p in parties], labels[train], [p[test] for p in parties], labels[test]


def log_loss(z: np.ndarray, t: np.ndarray) -> float:
    return round(float(np.mean(np.logaddexp(0, z) - t * z)), 5)


def reference(train: list[np.ndarray], t: np.ndarray, test: list[np.ndarray], tt: np.ndarray) -> float:
    """Pooled training without privacy on the same clipped rows."""
    rows, held = (np.hstack([ClippedRows.of(p).matrix for p in parts]) for parts in (train, test))
    model = LogisticRegression(C=1.0, max_iter=2000).fit(rows, t)
    return log_loss(model.decision_function(held), tt)


def private(
    split: Split, epsilon: float, seeds: int, label_epsilon: float | None = None, offset: bool = True
) -> dict[str, object]:
    train, t, test, tt = split
    train, test = ([ClippedRows.of(p[0]).matrix, *p[1:]] for p in (train, test))
    losses, start = [], time.process_time()
    for seed in range(seeds):
        policy = Policy(
            [NoPrivacy(), *[Recommended(epsilon, clip=1.0)] * (len(train) - 1)],
            labels=None if label_epsilon is None else RandomisedResponse(label_epsilon),
            offset=offset,
            noise=InsecureTestNoise(seed),
            run=f"seed {seed}",
        )
        model = fit(train, t, privacy=policy, fit_intercept=True)
        losses.append(log_loss(model.scores(test), tt))
    seconds = round((time.process_time() - start) / seeds, 1)
    return {"epsilon": epsilon, "label epsilon": label_epsilon, "median": float(np.median(losses)),
            "offset": offset, "losses": losses, "seconds each": seconds}  # fmt: skip


def report(name: str, split: Split, runs: list[tuple[float, float | None]], seeds: int) -> None:
    train, t, test, tt = split
    head = {"data": name, "pooled": reference(*split), "local": reference(train[:1], t, test[:1], tt)}
    print(json.dumps({**head, "numpy": np.__version__, "scipy": scipy.__version__}), flush=True)
    for epsilon, label_epsilon in runs:
        print(json.dumps({"data": name, **private(split, epsilon, seeds, label_epsilon)}), flush=True)


if __name__ == "__main__":
    plain = [(0.1, None), (1.0, None), (8.0, None)]
    if "a9a" in sys.argv:
        report("a9a", a9a(), [*plain, (1.0, 1.0)], seeds=5)
        report("a9a, three helpers", a9a((66, 85, 104)), plain, seeds=5)
        one, t, two, tt = a9a()
        report("a9a, helper twice", ([*one, one[1]], t, [*two, two[1]], tt), plain[1:], seeds=5)
    if "credit" in sys.argv:
        report("credit", credit(), plain, seeds=5)
    if "gisette" in sys.argv:
        report("gisette", gisette(), plain[1:], seeds=1)
