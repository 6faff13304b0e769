"""One charge: a release, what it costs, and how it stands in the ledger's file."""

import math
from dataclasses import dataclass

from plait.privacy.accounting import Cost
from plait.privacy.ledger.hash_chain import Body
from plait.privacy.noise import Release


@dataclass(frozen=True)
class Charge:
    """One reserved release: what it costs, by which mechanism, and with which noise key."""

    release: Release
    cost: Cost
    mechanism: str
    noise: str
    key_id: str

    @property
    def guarantee(self) -> str:
        return "none" if math.isinf(self.cost.mu) or math.isinf(self.cost.pure) else "differential privacy"


def _number(value: float) -> float | None:
    return None if math.isinf(value) else value


def encode_charge(charge: Charge) -> Body:
    """The charge as the ledger's file has it."""
    r, c = charge.release, charge.cost
    return {
        "run": r.run,
        "party": r.party,
        "round": r.round,
        "name": r.name,
        "digest": r.digest,
        "plan": r.plan,
        "mu": _number(c.mu),
        "pure": _number(c.pure),
        "slack": c.slack,
        "guarantee": charge.guarantee,
        "mechanism": charge.mechanism,
        "noise": charge.noise,
        "key_id": charge.key_id,
    }


def decode_charge(body: Body) -> Charge:
    """The charge that an entry of the ledger's file holds."""

    def unbounded(value: float | None) -> float:
        return math.inf if value is None else float(value)

    return Charge(
        Release(body["run"], body["party"], body["round"], body["name"], body["digest"], body.get("plan", "")),
        Cost(unbounded(body["mu"]), unbounded(body["pure"]), body["slack"]),
        body["mechanism"],
        body["noise"],
        body["key_id"],
    )
