"""a9a (LIBSVM): 32,561 x 123, binary, sparse.  Two parties as in the paper (66 + 57 columns), or ten of 13 columns."""

import scipy.sparse as sp

import plait
from benchmarks.datasets import split

WIDTHS = {2: [66, 57], 10: [13] * 9 + [6]}


def a9a(parties: int):
    data = plait.datasets.load("a9a")
    return split(sp.hstack(list(data.parts.values()), format="csr"), WIDTHS[parties]), data.y
