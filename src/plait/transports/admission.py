"""Who may join a run: what the coordinator demands of a party, and why it turns one away."""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field

from plait._names import plain
from plait._version import __version__
from plait.messages import Form
from plait.transports import handshake
from plait.transports.handshake import Hello, Ready, Refused, Welcome
from plait.transports.mailbox import Mailbox
from plait.transports.queries import SILENCE
from plait.transports.tls import bare

CHECK, CHECKED = "check", "identity, versions and job agree"
"""The purpose of a party that only wants to know whether it would be let in, and the answer if so."""


@dataclass(frozen=True)
class Terms:
    """What the coordinator demands of every party."""

    parties: tuple[str, ...]
    job: str
    purpose: str
    run: str
    key: str
    rows: int
    ids: str
    patience: float
    kept: int = 2
    lengths: frozenset[int] = frozenset()
    """How many numbers a share may have; as many as there are rows where nothing else is said."""
    phase: str = ""
    precision: str = "float64"
    """The number format of a share's vector."""
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    """The fingerprints that the job pins, by name."""
    alignment: str = ""
    """The alignment whose rows are used; empty where the files hold the same rows."""
    by_id: bool = False
    """Whether parties are asked for scores by id, many queries at once, instead of one exchange after another."""
    waiting: tuple[str, ...] = ()
    """Parties of the job that are not asked now: one that dials in tries again until its turn comes."""
    silence: float = SILENCE
    """Seconds after which a party that is asked by id and gives no sign of life counts as away."""

    @property
    def form(self) -> Form:
        """What a share may be where its request says nothing else."""
        return Form(self.lengths or frozenset({self.rows}))

    @property
    def aligned(self) -> bool:
        """Whether all parties must hold the same rows; a service asks for rows by id instead."""
        return bool(self.ids)

    @property
    def welcome(self) -> Welcome:
        """What every party is told first."""
        return Welcome(self.run, self.key, self.phase or self.purpose, self.alignment)

    def need_known(self, name: str) -> None:
        """Refuse whoever is not in the job, and for now those whose turn has not come."""
        if name in self.waiting:
            others = ", ".join(self.parties)
            raise Refusal(f"the coordinator is busy with {others}. {name!r} waits.", retry=True, expected="early")
        if name not in self.parties:
            raise Refusal(f"the job names the parties {', '.join(self.parties)}. Found {plain(name, 80)!r}.")

    def check_hello(self, hello: Hello, certified: str | None, fingerprint: str = "") -> None:
        """Refuse a party whose certificate, version, job file or purpose is another one."""
        name = hello.party
        if certified is not None and certified != name:
            raise Refusal(f"the certificate of {certified!r} cannot speak for {name!r}.")
        self.need_known(name)
        pinned = self.fingerprints.get(name, "")
        if pinned and bare(fingerprint) != bare(pinned):
            raise Refusal(
                f"the key of {name!r} must have the fingerprint {pinned}, which the job file pins. Found "
                f"{fingerprint or 'no certificate'}. Compare it with its owner."
            )
        if hello.protocol != handshake.PROTOCOL or hello.package != __version__:
            raise Refusal(
                f"all parties must run the same plait. Found {__version__} (protocol {handshake.PROTOCOL}) at the "
                f"coordinator and {hello.package} (protocol {hello.protocol}) at {name!r}. Install the same version."
            )
        if not hmac.compare_digest(hello.job, self.job):
            raise Refusal(f"all parties must have the same job file. Found another at {name!r}. Send it again.")
        if hello.purpose == CHECK:
            raise Refusal(CHECKED, retry=True, expected="checked")
        if hello.purpose != self.purpose:
            raise Refusal(
                f"the coordinator is here to {self.purpose}. Found {name!r} ready to {hello.purpose}.", retry=True
            )

    def check_free(self, mailbox: Mailbox) -> None:
        """Refuse, for now, a party that is here already, or that is early for the phase that follows.

        A party that has owed an answer for long may be the same program, whose connection broke unnoticed: it gets its
        place back.  A second program never gets so far, because the run folder of the first one is locked.
        """
        if mailbox.connected and not mailbox.lost:
            raise Refusal(f"party {mailbox.name!r} is here already. Found a second one under its name.", retry=True)
        if mailbox.told and self.phase:
            raise Refusal(
                f"the phase {self.phase!r} is about to end. {mailbox.name!r} joins the next one.",
                retry=True,
                expected="early",
            )

    def check_rows(self, name: str, ready: Ready) -> None:
        """Refuse a party that holds other rows, or the same ones in another order."""
        if not self.aligned:
            return
        if ready.rows != self.rows:
            raise Refusal(
                f"all parties must hold the same rows. Found {self.rows} at the coordinator and {ready.rows} "
                f"at {name!r}. Add [alignment] to the job file, or align the files first."
            )
        if not hmac.compare_digest(ready.ids, self.ids):
            raise Refusal(
                f"all parties must hold the same rows in the same order. Found other ids, or another order, at "
                f"{name!r}. Add [alignment] to the job file, or sort the files by id and keep only common ones."
            )


class Refusal(Exception):
    """A party is turned away: for good, or until it tries again.

    `expected` names what is noted where this is part of a normal run; it is empty where something is wrong.
    """

    def __init__(self, reason: str, retry: bool = False, expected: str = "") -> None:
        super().__init__(reason)
        self.answer = Refused(reason, retry)
        self.expected = expected
