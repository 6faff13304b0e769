"""The privacy ledger of one party and one table: what was released about its people, what it cost, and what is left.

The account belongs to the people in the table, not to the bytes of a file: any rows, columns, order, number type or
version of the table is charged to it.

Order of a release: reserve in the ledger, compute, store the exact bytes, send. A release that would exceed
the budget is refused before anything is computed. After a crash the stored bytes are sent again; a reserved
release without bytes is computed again with the same key, and is the same release. The same round with other
inputs is a new release and pays again; within one plan it is refused. Lost, damaged or old ledgers count as spent.
"""

import hashlib
import hmac
import re
from collections.abc import Callable
from pathlib import Path

from plait._checks import need_path, need_type
from plait._files import write_atomically
from plait.errors import BudgetError, PrivacyError, SettingError
from plait.privacy.accounting import Cost
from plait.privacy.ledger.announced import ANNOUNCED, announcement, is_announced, need_announced
from plait.privacy.ledger.budget import Budget, Unlimited
from plait.privacy.ledger.charge import Charge, decode_charge, encode_charge
from plait.privacy.ledger.hash_chain import Body, ChainEntry, HashChain, is_unkeyed
from plait.privacy.ledger.keys import chain_key, open_chain
from plait.privacy.ledger.witness import WITNESS, Witness
from plait.privacy.noise import Noise, Release

_TABLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,63}")


class Ledger:
    """The account of one party and one table: every charge, and the bytes that were released for it.

    Parameters
    ----------
    root : Path
        The folder in which the ledgers lie.
    party : str
        Whose account it is.
    table : str
        The name of the table.
    budget : Budget or Unlimited
        What may be spent.
    witness : Path, default=None
        A second folder that remembers how many entries the ledger has; None is the user's own state folder.
    """

    def __init__(
        self, root: Path, party: str, table: str, budget: Budget | Unlimited, witness: Path | None = None
    ) -> None:
        root = need_path("Ledger(root)", root)
        witness = None if witness is None else need_path("Ledger(witness)", witness)
        need_type("Ledger(party)", party, str)
        need_type("Ledger(table)", table, str)
        need_type("Ledger(budget)", budget, Budget | Unlimited)
        if not _TABLE.fullmatch(table):
            raise SettingError(
                "A table's name must have 1 to 64 letters, digits, blanks, dots, hyphens or underscores. Found "
                f"{table!r}."
            )
        self.party = party
        self.table = table
        self.budget = budget
        self._key = chain_key(root)
        self._journal = open_chain(root, self.folder(root, party, table).name, witness)
        self._witness = None if witness is None else Witness(witness, "").mark
        with self._journal.locked() as entries:
            self._opened(entries)

    @staticmethod
    def folder(root: Path, party: str, table: str) -> Path:
        """Where the account of a party and a table lies."""
        return root / hashlib.sha256(f"{party}\0{table}".encode()).hexdigest()[:24]

    @property
    def path(self) -> Path:
        """The ledger's file."""
        return self._journal.path

    @property
    def chain(self) -> HashChain:
        """The chain of the ledger's entries, in which notes that cost nothing may be added."""
        return self._journal

    def charges(self) -> list[Charge]:
        """Every charge so far, in order."""
        with self._journal.locked() as entries:
            return _charges(entries)

    def spent(self) -> Cost:
        """The composed cost of every charge, released or not."""
        return sum((charge.cost for charge in self.charges()), Cost())

    def check(self, cost: Cost, run: str, plan: str = "") -> None:
        """Refuse a plan that the budget cannot cover to its end; what it has already spent is part of `cost`.

        Without `plan`, for a check before the plan is known, what this run has spent counts as part of `cost`.
        """
        with self._journal.locked() as entries:
            known = _charges(entries)
        if plan:
            need_announced(entries, known, run, plan)
        charges = [c for c in known if (c.release.plan != plan if plan else c.release.run != run)]
        self._need_room(Release(run, self.party, 0, f"the whole run {run!r}", ""), charges, cost)

    def need_room(self, cost: Cost, run: str, fits: int) -> None:
        """BudgetError where the budget does not cover so many fits of a run, unless it has announced them before."""
        with self._journal.locked() as entries:
            if not is_announced(entries, run, fits):
                self._need_room(Release(run, self.party, 0, f"all {fits} fits of {run!r}", ""), _charges(entries), cost)

    def announce(self, cost: Cost, run: str, fits: int) -> None:
        """Note, once, that a run makes so many fits of this cost in all; it makes no more than these."""
        self.need_room(cost, run, fits)
        with self._journal.locked() as entries:
            if not is_announced(entries, run, fits):
                self._journal.append(entries, ANNOUNCED, announcement(_charges(entries), run, fits))

    def reserve(self, release: Release, cost: Cost, mechanism: str, noise: Noise) -> Charge:
        """Charge a release before it is computed, once for the same inputs; BudgetError beyond the budget."""
        if release.party != self.party:
            raise PrivacyError(
                f"A release must be charged to its own party's ledger. Found party {release.party!r} at "
                f"the ledger of {self.party!r}."
            )
        charge = Charge(release, cost, mechanism, noise.name, noise.key_id(release))
        with self._journal.locked() as entries:
            entries = self._opened(entries)
            charges = _charges(entries)
            for known in charges:
                if known == charge:
                    return known
                if known.key_id == charge.key_id:
                    raise PrivacyError(
                        "One noise key may serve one release only, or two noise scales reveal the value. "
                        f"Found the key of {release.name!r}, round {release.round}, with another cost or "
                        "mechanism. Put the noise scale into the digest of the release."
                    )
            _need_once(charges, release)
            self._need_room(release, charges, cost)
            self._journal.append(entries, "reserve", encode_charge(charge))
        return charge

    def release(
        self, release: Release, cost: Cost, mechanism: str, noise: Noise, compute: Callable[[], bytes]
    ) -> bytes:
        """Reserve, compute, store and return the bytes to send; where bytes are stored, return these."""
        charge = self.reserve(release, cost, mechanism, noise)
        stored = self.stored(charge)
        if stored is not None:
            return stored
        content = compute()
        write_atomically(self._file(charge), content)
        with self._journal.locked() as entries:
            done = {e.body["key_id"] for e in entries if e.kind == "released"}
            if charge.key_id not in done:
                body = {"key_id": charge.key_id, "sha256": hashlib.sha256(content).hexdigest()}
                self._journal.append(entries, "released", body)
        return content

    def stored(self, charge: Charge) -> bytes | None:
        """The bytes stored for a charge, checked against the ledger, or None before there are any."""
        with self._journal.locked() as entries:
            for entry in entries:
                if entry.kind == "released" and entry.body["key_id"] == charge.key_id:
                    return self._checked(charge, entry.body["sha256"])
        return None

    def carry(self, charges: list[Body]) -> None:
        """Take over charges of older ledgers of the same people, once."""
        with self._journal.locked() as entries:
            known = {e.body["key_id"] for e in entries if e.kind == "reserve"}
            for body in charges:
                if body["key_id"] not in known:
                    entries = self._journal.append(entries, "reserve", body)

    def receipt(self, plan: str) -> int:
        """A number for a peer to keep: a keyed digest of this ledger's length when a plan began, 0 before that."""
        with self._journal.locked() as entries:
            begun = [e.seq for e in entries if e.kind == "reserve" and e.body.get("plan") == plan]
        return self._receipt(begun[0]) if begun else 0

    def check_receipt(self, receipt: int) -> None:
        """PrivacyError where a peer has seen this ledger with more entries than now; 0 is a peer that has seen none."""
        with self._journal.locked() as entries:
            known = {self._receipt(e.seq) for e in entries}
        if receipt and receipt not in known and receipt not in self._receipts_of_other_tables():
            raise PrivacyError(
                f"A ledger must be the newest one. Found {self.path} with {len(known)} entries, and a receipt of a "
                "later state at a peer: an old copy was put back. Nothing is released. Restore the newest copy."
            )

    def _receipts_of_other_tables(self) -> set[int]:
        """What this party's other accounts in this folder have given: a peer keeps one receipt for each party."""
        found = set()
        for path in self._journal.folder.parent.glob("*/journal.jsonl"):
            if path != self.path and not is_unkeyed(path):
                with HashChain(path.parent, self._key).locked() as entries:
                    table = entries[0].body["table"] if entries and entries[0].body.get("party") == self.party else ""
                    found |= {self._receipt(e.seq, table) for e in entries if table}
        return found

    def _receipt(self, seq: int, table: str = "") -> int:
        """A keyed digest of `seq`: 48 bits, which a float in a message holds exactly."""
        content = f"receipt {self.party} {table or self.table} {seq}".encode()
        return int.from_bytes(hmac.new(self._key, content, hashlib.sha256).digest()[:6], "big") | 1

    def _checked(self, charge: Charge, expected: str) -> bytes:
        path = self._file(charge)
        content = path.read_bytes() if path.exists() else b""
        if hashlib.sha256(content).hexdigest() != expected:
            raise PrivacyError(
                f"A stored release must be sent again byte for byte. Found {path} missing or changed. "
                "Restore it, or make the release again in a new run, which pays again."
            )
        return content

    def _file(self, charge: Charge) -> Path:
        return self._journal.folder / "releases" / f"{charge.key_id}.bin"

    def _opened(self, entries: list[ChainEntry]) -> list[ChainEntry]:
        """The entries, with the opening and the witness noted; PrivacyError for another budget than the first."""
        body = {"party": self.party, "table": self.table, "budget": self.budget.encode()}
        if not entries:
            entries = self._journal.append(entries, "open", body)
        if {k: entries[0].body.get(k) for k in body} != body:
            raise PrivacyError(
                f"A ledger keeps the budget that it was opened with. Found {entries[0].body.get('budget')} "
                f"in {self.path} and {self.budget.encode()} here. Use the first."
            )
        known = {e.body["folder"] for e in entries if e.kind == WITNESS}
        if self._witness is not None and self._witness not in known:
            entries = self._journal.append(entries, WITNESS, {"folder": self._witness})
        return entries

    def _need_room(self, release: Release, charges: list[Charge], cost: Cost) -> None:
        """BudgetError where the budget does not cover these charges and this cost."""
        total = sum((c.cost for c in charges), Cost()) + cost
        if not self.budget.covers(total):
            raise BudgetError(self._refusal(release, charges, total))

    def _refusal(self, release: Release, charges: list[Charge], total: Cost) -> str:
        limits = self.budget.encode()
        delta = limits["delta"]
        spent = sum((c.cost for c in charges), Cost()).epsilon(delta)
        repeated = any(
            (c.release.run, c.release.round, c.release.name) == (release.run, release.round, release.name)
            for c in charges
        )
        other = (
            " This round was released before with other inputs, and would have to be paid again." if repeated else ""
        )
        return (
            f"Spending must stay within epsilon = {limits['epsilon']:g} at delta = {delta:g}. Found "
            f"epsilon = {spent:.4g} spent and {total.epsilon(delta):.4g} with this release "
            f"({release.name}, round {release.round}).{other} Nothing was released. Ask for less, or stop."
        )


def _charges(entries: list[ChainEntry]) -> list[Charge]:
    return [decode_charge(e.body) for e in entries if e.kind == "reserve"]


def _need_once(charges: list[Charge], release: Release) -> None:
    """Each release of a plan is made once: the same one with other inputs is not a part of the plan."""
    if release.plan and any(
        (c.release.plan, c.release.round, c.release.name) == (release.plan, release.round, release.name)
        for c in charges
    ):
        raise PrivacyError(
            f"Each release of a run is made once. Found {release.name!r}, round {release.round}, asked for again with "
            "other inputs. Nothing was released."
        )
