"""The last receipt that each helper's ledger gave the label party, over all runs; kept in NAME.receipts.json.

The coordinator sends a helper this receipt in its next private run.  An older copy of the helper's ledger, put back,
does not know it.
"""

from collections.abc import Mapping
from pathlib import Path

from plait._files import read_json, write_json
from plait.deployment.job_file import PartyFile


def read_receipts(file: PartyFile) -> dict[str, int]:
    """Helper -> its last receipt."""
    path = _path(file)
    if not path.exists():
        return {}
    return dict(read_json(path, "receipts", {"receipts": {...: int}})["receipts"])


def add_receipts(file: PartyFile, receipts: Mapping[str, int]) -> None:
    """Keep these; 0 stands for a party that gave none."""
    new = {name: receipt for name, receipt in receipts.items() if receipt}
    if new:
        write_json(_path(file), {"format": 1, "receipts": {**read_receipts(file), **new}})


def _path(file: PartyFile) -> Path:
    return file.path(f"{file.name}.receipts.json")
