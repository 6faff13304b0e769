"""Data sets: each file has one function that returns the parties' tables and the labels -1/+1."""

Parts = tuple[object, ...]


def split(table, widths):
    """Consecutive columns, as many as each party has."""
    ends = [sum(widths[: i + 1]) for i in range(len(widths))]
    return tuple(table[:, end - width : end] for width, end in zip(widths, ends, strict=True))


def standardised(table):
    """Mean 0 and standard deviation 1 in every column that varies."""
    deviation = table.std(axis=0)
    deviation[deviation == 0] = 1.0
    return (table - table.mean(axis=0)) / deviation
