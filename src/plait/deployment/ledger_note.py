"""Which ledger folder keeps the account of a party's table; noted in NAME.ledger.json, beside the party file.

Another folder, or a new one in the place of one that is gone, would be a second budget for the same people.
"""

import hashlib
import hmac
from pathlib import Path

from plait._files import read_json, write_json
from plait.deployment.job_file import PartyFile
from plait.errors import PrivacyError
from plait.privacy.ledger.keys import chain_key, has_key


def note_ledger(file: PartyFile) -> None:
    """Note the party's ledger folder, where none was noted for its table before."""
    need_same_ledger(file)
    noted = _noted(file)
    if file.privacy.table not in noted:
        write_json(_path(file), {"format": 1, "ledgers": {**noted, file.privacy.table: _mark(file)}})


def need_same_ledger(file: PartyFile) -> None:
    """PrivacyError where the party file names another ledger folder for its table than the one of before."""
    options, noted = file.privacy, _noted(file).get(file.privacy.table)
    root = file.path(options.ledger)
    if noted is not None and not (has_key(root) and _mark(file) == noted):
        raise PrivacyError(
            f"{file.name}.toml must name the ledger folder that has the account of table {options.table!r}. Found "
            f"{root}, which is another one, or a new one. Nothing is released. Set privacy.ledger to the folder of "
            "before, or restore it. For other people name their table: privacy.table."
        )


def _mark(file: PartyFile) -> str:
    """A digest by which a ledger folder is known wherever it lies."""
    return hmac.new(chain_key(file.path(file.privacy.ledger)), b"mark of the folder", hashlib.sha256).hexdigest()[:32]


def _noted(file: PartyFile) -> dict[str, str]:
    path = _path(file)
    return dict(read_json(path, "the note of the ledger", {"ledgers": {...: str}})["ledgers"]) if path.exists() else {}


def _path(file: PartyFile) -> Path:
    return file.path(f"{file.name}.ledger.json")
