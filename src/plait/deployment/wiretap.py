"""The wiretap auditor: which charge of the ledger covers each message that a private party sent.

The party's side is run again on a table of zeros.  In the place of every release it uses the bytes that the ledger has
charged and stored.  What it then sends depends only on charged releases and on what it received.  A message of the
real run that differs from this one, in any number, holds something that nobody paid for.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from plait.data.parts import equal_weights
from plait.deployment.job_file import Job, PartyFile
from plait.deployment.party_privacy import guaranteed, policy_at, spec_at
from plait.deployment.transcript import RecordedExchange, Transcript, read_transcript
from plait.errors import PlaitError, PrivacyError
from plait.privacy.accounting import Cost
from plait.privacy.ledger.budget import Unlimited
from plait.privacy.ledger.charge import Charge
from plait.privacy.ledger.ledger import Ledger
from plait.privacy.noise import KeyedNoise, Noise, Release
from plait.problem.features import Features
from plait.training.assembly import assemble_party


@dataclass(frozen=True)
class Verdict:
    """One message that the party sent: its size, what covers it, and whether all of it is covered."""

    seq: int
    numbers: int
    covered_by: tuple[str, ...]
    covered: bool


class _Stored:
    """An account that releases nothing new: it gives what was charged and stored under one plan."""

    def __init__(self, ledger: Ledger, plan: str) -> None:
        self._ledger = ledger
        self._charges = [c for c in ledger.charges() if c.release.plan == plan]
        self.used: list[Charge] = []
        self.given = 0

    def receipt(self, plan: str) -> int:
        return self.given

    def check_receipt(self, receipt: int) -> None:
        """Nothing is spent here."""

    def allow(self, sent: float) -> None:
        """Give the ledger's own receipt where that is what was sent: it says nothing about the table."""
        own = self._charges and self._ledger.receipt(self._charges[0].release.plan)
        self.given = int(own) if own and own == sent else 0

    def check(self, cost: Cost, run: str, plan: str = "") -> None:
        """Nothing is spent here."""

    def release(
        self, release: Release, cost: Cost, mechanism: str, noise: Noise, compute: Callable[[], bytes]
    ) -> bytes:
        for charge in self._charges:
            if (charge.release.round, charge.release.name) == (release.round, release.name) and charge.cost == cost:
                content = self._ledger.stored(charge)
                if content is not None:
                    if charge not in self.used:  # a message is listed with the charges that are new in it
                        self.used.append(charge)
                    return content
        raise PrivacyError(f"no charge for {release.name!r}, round {release.round}.")


@dataclass(frozen=True)
class _Folder:
    """In the place of a ledger folder: the stored releases of one plan."""

    account: _Stored
    budget: Unlimited = field(default_factory=Unlimited)

    def admit(self, parties: object) -> None:
        """Nobody is charged."""

    def ledger(self, party: str, guaranteed: bool = True) -> _Stored:
        return self.account

    def noise(self, party: str) -> KeyedNoise:
        return KeyedNoise()


def examine(job: Job, file: PartyFile, folder: Path) -> list[Verdict]:
    """A verdict on every message of the transcript in a run folder."""
    if not guaranteed(job, file.name):
        raise PrivacyError(
            f"only what a mechanism with a guarantee sends has charges. Found {file.name!r} without one in this job."
        )
    transcript = read_transcript(folder)
    policy = policy_at(job, file)
    assert policy.ledger is not None
    ledger = policy.ledger.ledger(file.name)
    plans = list(dict.fromkeys(c.release.plan for c in ledger.charges() if c.release.run == policy.run))
    tried = [_against(job, file, transcript, _Stored(ledger, plan)) for plan in plans or [""]]
    return max(tried, key=lambda verdicts: sum(v.covered for v in verdicts))


def _against(job: Job, file: PartyFile, transcript: Transcript, account: _Stored) -> list[Verdict]:
    """Run the party again with the releases of one plan, and compare."""
    count, width = transcript.shape
    policy = replace(policy_at(job, file), ledger=_Folder(account), noise=None)  # type: ignore[arg-type]
    spec = replace(spec_at(job, file), policy=policy)
    party = assemble_party(spec, file.name, Features(np.zeros((count, width))), equal_weights(count))
    verdicts = []
    for exchange in transcript.exchanges:
        before = len(account.used)
        if exchange.sent.scalars.size:
            account.allow(float(exchange.sent.scalars[-1]))
        try:
            same = party.handle(exchange.received).digest == exchange.sent.digest
        except PlaitError:
            same = exchange.sent.numbers == 0
        verdicts.append(_verdict(exchange, same, account.used[before:]))
    return verdicts


def _verdict(exchange: RecordedExchange, same: bool, used: list[Charge]) -> Verdict:
    names = tuple(f"{c.release.name}, round {c.release.round} (mu {c.cost.mu:.3g})" for c in used)
    return Verdict(exchange.seq, exchange.sent.numbers, names, same)
