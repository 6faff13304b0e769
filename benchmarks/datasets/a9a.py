"""a9a (LIBSVM): 32,561 x 123, binary, sparse.  Two parties as in the paper (66 + 57 columns), or ten of 13 columns."""

import lzma

from sklearn.datasets import load_svmlight_file

from benchmarks.datasets import data_file, split

WIDTHS = {2: [66, 57], 10: [13] * 9 + [6]}


def a9a(parties: int):
    with lzma.open(data_file("a9a/a9a.xz")) as lines:
        table, y = load_svmlight_file(lines, n_features=123)
    return split(table.tocsr(), WIDTHS[parties]), y
