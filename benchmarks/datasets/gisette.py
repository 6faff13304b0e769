"""gisette (rebuilt): 6,000 x 5,000, dense, every column scaled to [-1, 1]; three parties as in the paper."""

import numpy as np

import plait


def gisette():
    data = plait.datasets.load("gisette")
    return tuple(np.ascontiguousarray(part) for part in data.parts.values()), data.y
