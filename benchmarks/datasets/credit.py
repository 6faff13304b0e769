"""Default of credit card clients: 30,000 x 23, standardised.  A bank (limit, status, bills) and a partner."""

import lzma

import numpy as np

from benchmarks.datasets import data_file, standardised


def credit():
    with lzma.open(data_file("default_credit/UCI_Credit_Card.csv.xz"), "rt") as lines:
        names = [name.strip('"') for name in next(lines).strip().split(",")]
        rows = np.loadtxt(lines, delimiter=",")
    features = names[1:-1]
    bank = [n == "LIMIT_BAL" or n.startswith("BILL_") or (n.startswith("PAY_") and "AMT" not in n) for n in features]
    table = standardised(rows[:, 1:-1])
    return (table[:, bank].copy(), table[:, np.logical_not(bank)].copy()), 2 * rows[:, -1] - 1
