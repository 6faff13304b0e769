"""A probe of how a private party reads its file: what one row holds changes no other row, and stops nothing."""

from pathlib import Path

import numpy as np

from plait._types import Array
from plait.deployment.job_file import read_job, read_party
from plait.deployment.local_data import load_rows
from plait.errors import InputError
from plait.studies.privacy_probes import scratch

_JOB = """
format = 1
name = "probe"
parties = ["bank", "shop"]
protection = "plain"
[coordinator]
name = "bank"
address = "127.0.0.1:1"
[model]
loss = "logistic"
penalty = { name = "l2", alpha = 1e-3 }
[privacy.parties]
shop = { name = "recommended", epsilon = 1.0 }
"""
_PARTY = """
[data]
file = "shop.csv"
id = "id"
[prepare]
one_hot = ["kind"]
categories = { kind = ["01", "1", "02", "x"] }
[privacy]
epsilon = 1.0
"""
_CELLS = {
    "amount": [
        "",
        "abc",
        "nan",
        "inf",
        "-1e999",
        "9" * 400,  # digits: beyond the largest double
        "0x10",
        "13/04/2020",
        "1 000",
        '"1,5"',
        "--",
    ],
    "kind": ["", "abc", "NA", "1.0", "01", "2", "inf", "true", "\u00e9", '"a\nb"'],
}


def rows_apart() -> bool:
    """Whatever one row holds, a private party's run begins, and its other rows are read as before."""
    with scratch() as root:
        (root / "job.toml").write_text(_JOB)
        (root / "shop.toml").write_text(_PARTY)
        usual = _read(root, "amount", "2.5")
        kept = np.arange(usual.shape[0]) != 1
        for column, cells in _CELLS.items():
            for cell in cells:
                try:
                    found = _read(root, column, cell)
                except InputError:
                    return False
                if not (found.shape == usual.shape and np.array_equal(found[kept], usual[kept])):
                    return False
        values_found = usual[kept, 3:5].sum(axis=0) > 0  # 1 as it is written, and 2 as the number that 02 is
        return bool(values_found.all() and np.isfinite(found).all())


def _read(root: Path, column: str, cell: str) -> Array:
    """The prepared rows (N, d), where row 1 holds this cell."""
    rows = [{"id": f"p{i}", "amount": f"{i}.5", "more": str(i), "kind": str(i % 3)} for i in range(6)]
    rows[1][column] = cell
    lines = [",".join(rows[0]), *(",".join(row.values()) for row in rows)]
    (root / "shop.csv").write_text("\n".join(lines) + "\n")
    return np.asarray(load_rows(read_job(root / "job.toml"), read_party(root / "job.toml", "shop")).matrix)
