"""Which tables and parties a ledger folder keeps accounts of: the owner must open a new account.

The first run in a folder opens the accounts of its table and of the parties that protect something.  After that, a
party or a table that the folder does not know is refused: under another name the same people would get a second budget.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from plait.errors import PrivacyError
from plait.privacy.ledger.hash_chain import Body, ChainEntry, HashChain, is_unkeyed
from plait.privacy.ledger.keys import REGISTER, open_chain

_FIRST = "first run"
LABEL_HOLDER = "label holder"  # stored name of the label party's account of labels; every table may have one


@dataclass(frozen=True)
class Tables:
    """The register of one ledger folder."""

    root: Path
    witness: Path | None = None

    def admit(self, table: str, parties: Sequence[str]) -> None:
        """Let these parties charge this table; PrivacyError unless it is the folder's first or opened by its owner."""
        if LABEL_HOLDER in parties:
            raise PrivacyError(f"a party needs a name of its own. Found {LABEL_HOLDER!r}, the account of the labels.")
        with self._chain.locked() as entries:
            known = _accounts(entries)
            missing = [name for name in parties if (table, name) not in known]
            if missing and known and not _labels_only(known, table):
                raise PrivacyError(_refusal(self.root, known, table, missing[0]))
            if missing:
                self._chain.append(entries, "table", _first(table, parties))

    def admit_labels(self, table: str) -> None:
        """Let the label party charge its labels to this table; PrivacyError for a table unknown to the folder."""
        with self._chain.locked() as entries:
            known = _accounts(entries)
            if known and not any(t == table for t, _ in known):
                raise PrivacyError(_refusal(self.root, known, table, LABEL_HOLDER))
            if (table, LABEL_HOLDER) not in known:
                self._chain.append(entries, "table", _first(table, [LABEL_HOLDER]))

    def keeps(self, table: str, party: str) -> bool:
        """Whether there is an account of this party and table."""
        with self._chain.locked() as entries:
            return (table, party) in _accounts(entries)

    def open(self, table: str, party: str, because: str) -> None:
        """Open an account; `because` is the owner's reason: these are other people, or columns of another party."""
        if not because.strip():
            raise PrivacyError("A new account must say why these people are not those of the others. Found no reason.")
        with self._chain.locked() as entries:
            body = {"table": table, "parties": [party], "by": "owner", "because": because}
            self._chain.append(entries, "table", body)

    def first(self) -> str | None:
        """The name of the table that was opened first."""
        with self._chain.locked() as entries:
            return str(entries[0].body["table"]) if entries else None

    @property
    def _chain(self) -> HashChain:
        return open_chain(self.root, REGISTER, self.witness)


def old_charges(root: Path, party: str) -> list[Body]:
    """The charges in a party's ledgers of version 1, which were one for each version of its data."""
    found: list[Body] = []
    for path in sorted(root.glob("*/journal.jsonl")):
        if is_unkeyed(path):
            with HashChain(path.parent).locked() as entries:
                if entries and entries[0].body.get("party") == party:
                    found += [e.body for e in entries if e.kind == "reserve"]
    return found


def _first(table: str, parties: Sequence[str]) -> Body:
    return {"table": table, "parties": list(parties), "by": _FIRST}


def _accounts(entries: list[ChainEntry]) -> set[tuple[str, str]]:
    return {(e.body["table"], name) for e in entries for name in e.body["parties"]}


def _labels_only(known: set[tuple[str, str]], table: str) -> bool:
    """Whether the folder has this table only, and so far for its labels alone."""
    return known == {(table, LABEL_HOLDER)}


def needed(root: Path, table: str, account: str) -> str:
    """What is said to a run that would show what an account was opened to protect."""
    labels = account == LABEL_HOLDER
    whose = "the labels" if labels else f"the rows of {account!r}"
    how = "labels=plait.privacy.RandomisedResponse(...)" if labels else "a mechanism such as plait.privacy.Recommended"
    return (
        f"{root} keeps a budget for {whose} in table {table!r}. Who has a budget takes part only in runs that "
        f"protect it with a guarantee. Found one that does not. Give {how}, or leave the ledger out of a simulation."
    )


def _refusal(root: Path, known: set[tuple[str, str]], table: str, party: str) -> str:
    listed = ", ".join(f"{name!r} with table {t!r}" for t, name in sorted(known))
    return (
        f"A ledger folder charges the accounts that it has. Found party {party!r} with table {table!r}, and {root} "
        f"keeps {listed}. The same people under another name have the same account: use its names. For other people "
        f"the owner opens an account: plait privacy open {root} --table NAME --party NAME --because TEXT."
    )
