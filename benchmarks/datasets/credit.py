"""Default of credit card clients: 30,000 x 23, standardised.  A bank (limit, status, bills) and a partner."""

import io

import numpy as np

from benchmarks.datasets import standardised
from plait.data.datasets import CREDIT
from plait.data.files import read_public


def credit():
    lines = io.StringIO(read_public(CREDIT).decode())
    names = [name.strip('"') for name in next(lines).strip().split(",")]
    rows = np.loadtxt(lines, delimiter=",")
    features = names[1:-1]
    bank = [n == "LIMIT_BAL" or n.startswith("BILL_") or (n.startswith("PAY_") and "AMT" not in n) for n in features]
    table = standardised(rows[:, 1:-1])
    return (table[:, bank].copy(), table[:, np.logical_not(bank)].copy()), 2 * rows[:, -1] - 1
