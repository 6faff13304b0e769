"""The privacy ledger of one party and one data set: what was released, what it cost, and what is left.

Order of a release: reserve in the ledger, compute, store the exact bytes, send. A release that would exceed
the budget is refused before anything is computed. After a crash the stored bytes are sent again; a reserved
release without bytes is computed again with the same key, and is the same release. The same round with other
inputs is a new release and pays again. Lost or damaged ledgers count as spent.
"""

import hashlib
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from plait._files import write_atomically
from plait.errors import BudgetError, PrivacyError, SettingError
from plait.privacy.accounting import Cost, check_delta, check_epsilon
from plait.privacy.ledger.hash_chain import Body, ChainEntry, HashChain
from plait.privacy.noise import Noise, Release


@dataclass(frozen=True)
class Budget:
    """What a party is willing to spend on one data set, over all runs and trials."""

    epsilon: float
    delta: float = 1e-5

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_delta(self.delta)

    def covers(self, cost: Cost) -> bool:
        return cost.delta(self.epsilon) <= self.delta

    def encode(self) -> Body:
        return {"epsilon": self.epsilon, "delta": self.delta}


@dataclass(frozen=True)
class Unlimited:
    """No limit: releases without a guarantee are recorded and allowed."""

    def covers(self, cost: Cost) -> bool:
        return True

    def encode(self) -> Body:
        return {"epsilon": None, "delta": None}


@dataclass(frozen=True)
class Charge:
    """One reserved release."""

    release: Release
    cost: Cost
    mechanism: str
    noise: str
    key_id: str

    @property
    def guarantee(self) -> str:
        return "none" if math.isinf(self.cost.mu) or math.isinf(self.cost.pure) else "differential privacy"


class Ledger:
    """Charges and stored releases of one (party, data fingerprint) below `root`."""

    def __init__(self, root: Path, party: str, fingerprint: str, budget: Budget | Unlimited) -> None:
        if not re.fullmatch(r"[0-9a-f]{16,64}", fingerprint):
            raise SettingError(
                f"A data fingerprint must be 16 to 64 hexadecimal digits. Found {fingerprint!r}. Use "
                "plait.privacy.fingerprint()."
            )
        self.party = party
        self.fingerprint = fingerprint
        self.budget = budget
        name = hashlib.sha256(f"{party}\0{fingerprint}".encode()).hexdigest()[:24]
        self._journal = HashChain(Path(root) / name)
        with self._journal.locked() as entries:
            self._opened(entries)

    @property
    def path(self) -> Path:
        return self._journal.path

    def charges(self) -> list[Charge]:
        """Every charge so far, in order."""
        with self._journal.locked() as entries:
            return [decode_charge(e.body) for e in entries if e.kind == "reserve"]

    def spent(self) -> Cost:
        """The composed cost of every charge, released or not."""
        return sum((charge.cost for charge in self.charges()), Cost())

    def check(self, cost: Cost, run: str) -> None:
        """Refuse a run that the budget cannot cover to its end; what `run` has already spent is part of `cost`."""
        charges = [c for c in self.charges() if c.release.run != run]
        total = sum((c.cost for c in charges), Cost()) + cost
        if not self.budget.covers(total):
            raise BudgetError(self._refusal(Release(run, self.party, 0, "the whole run", ""), charges, total))

    def reserve(self, release: Release, cost: Cost, mechanism: str, noise: Noise) -> Charge:
        """Charge a release before it is computed, once for the same inputs; refuse beyond the budget."""
        if release.party != self.party:
            raise PrivacyError(
                f"A release must be charged to its own party's ledger. Found party {release.party!r} at "
                f"the ledger of {self.party!r}."
            )
        charge = Charge(release, cost, mechanism, noise.name, noise.key_id(release))
        with self._journal.locked() as entries:
            entries = self._opened(entries)
            charges = [decode_charge(e.body) for e in entries if e.kind == "reserve"]
            for known in charges:
                if known == charge:
                    return known
                if known.key_id == charge.key_id:
                    raise PrivacyError(
                        "One noise key may serve one release only, or two noise scales reveal the value. "
                        f"Found the key of {release.name!r}, round {release.round}, with another cost or "
                        "mechanism. Put the noise scale into the digest of the release."
                    )
            total = sum((c.cost for c in charges), Cost()) + cost
            if not self.budget.covers(total):
                raise BudgetError(self._refusal(release, charges, total))
            self._journal.append(entries, "reserve", _encode(charge))
        return charge

    def release(
        self, release: Release, cost: Cost, mechanism: str, noise: Noise, compute: Callable[[], bytes]
    ) -> bytes:
        """Reserve, compute, store and return the bytes to send; the stored bytes when there are any."""
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
        """The entries with their opening; a ledger keeps the budget that it was opened with."""
        body = {"party": self.party, "fingerprint": self.fingerprint, "budget": self.budget.encode()}
        if not entries:
            return self._journal.append(entries, "open", body)
        if {k: entries[0].body.get(k) for k in body} != body:
            raise PrivacyError(
                f"A ledger keeps the budget that it was opened with. Found {entries[0].body.get('budget')} "
                f"in {self.path} and {self.budget.encode()} here. Use the first, or a new data version."
            )
        return entries

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


def fingerprint(*contents: bytes) -> str:
    """SHA-256 over the bytes of a data set, each part with its length."""
    state = hashlib.sha256()
    for content in contents:
        state.update(len(content).to_bytes(8, "big") + content)
    return state.hexdigest()


def _number(value: float) -> float | None:
    return None if math.isinf(value) else value


def _encode(charge: Charge) -> Body:
    r, c = charge.release, charge.cost
    return {
        "run": r.run,
        "party": r.party,
        "round": r.round,
        "name": r.name,
        "digest": r.digest,
        "mu": _number(c.mu),
        "pure": _number(c.pure),
        "slack": c.slack,
        "guarantee": charge.guarantee,
        "mechanism": charge.mechanism,
        "noise": charge.noise,
        "key_id": charge.key_id,
    }


def decode_charge(body: Body) -> Charge:
    """The charge that a journal entry holds."""

    def unbounded(value: float | None) -> float:
        return math.inf if value is None else float(value)

    return Charge(
        Release(body["run"], body["party"], body["round"], body["name"], body["digest"]),
        Cost(unbounded(body["mu"]), unbounded(body["pure"]), body["slack"]),
        body["mechanism"],
        body["noise"],
        body["key_id"],
    )
