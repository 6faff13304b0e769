"""A party's end of a protected run: what it sends before round 1, how it opens gradients and masks its shares.

    offer   coordinator -> party, round 0   the party answers with its hints, and in "sums" with its masking key
    keys    coordinator -> party, round 0   in "sums": the masking keys of the party's group; answered by nothing

What has been agreed is part of the party's state.  Everything else follows from it and from the party's secret of this
run, so that a party that was killed sends the same bytes again.
"""

import secrets
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from plait._types import Array
from plait.errors import InputError, ProtocolError
from plait.messages import Broadcast, Form, Share
from plait.problem.features import Features
from plait.problem.row_blocks import elsewhere
from plait.protection.fixed_point import encode_columns
from plait.protection.inner_product import GradientDecryptor
from plait.protection.leverage import Leverage, check_rows, check_width, leverages
from plait.protection.messages import Offer, gradient_size, hints_size, offer_size
from plait.protection.modes import Protection
from plait.protection.randomness import KEY_BYTES, derive
from plait.protection.secure_sums import ANNOUNCEMENT_BYTES, Announcement, MaskingParty, Run, Sign, Verify
from plait.training.protected import GRADIENTS, Masker, Opener, from_words, summed_groups, to_words, words_of

SIMULATED = Run("simulated", "simulated")


@dataclass(frozen=True)
class PartyKeys:
    """What a party keeps to itself in one protected run.

    secret         32 random bytes, durable before anything is sent, and never used in another run
    run            what masks are bound to
    sign, verify   with certificates; in a simulation there are none
    used           the digest of everything that was masked: durable where a program may be restarted
    """

    secret: bytes
    run: Run = SIMULATED
    sign: Sign = lambda data: b""
    verify: Verify = lambda name, data, signature: signature == b""
    used: MutableMapping[str, bytes] = field(default_factory=dict)


def simulated_keys() -> PartyKeys:
    """Keys for one run in which nobody is restarted and nothing is signed."""
    return PartyKeys(secrets.token_bytes(KEY_BYTES))


@dataclass(frozen=True)
class Agreed:
    """What a party has been told before round 1, as it came: the offer, and in "sums" the keys of its group."""

    offer: Array | None = None
    keys: Array | None = None


class PartyShield:
    """Makes and keeps a party's ends, for a table (N, d) that it has checked."""

    def __init__(
        self,
        protection: Protection,
        name: str,
        parties: tuple[str, ...],
        matrix: Any,
        keys: Callable[[], PartyKeys],
    ) -> None:
        """`keys` is asked once, and only after the table has passed every check."""
        self._sums = protection.mode == "sums"
        self._name, self._ask_keys = name, keys
        self._group = next(group for group in summed_groups(protection, parties) if name in group)
        if elsewhere(matrix):
            raise InputError(
                "a protected table must fit into memory. Found one on disk or on other machines. Give the party more "
                "memory (data.memory), or use fewer rows."
            )
        rows, columns = matrix.shape
        self.warning = check_width(rows, columns)
        self.leverage: Leverage = leverages(matrix)
        check_rows(self.leverage, protection.max_leverage)
        self._columns = encode_columns(self._table(matrix))
        self._opener: tuple[Array, GradientDecryptor] | None = None
        self._masker: tuple[Array, Masker] | None = None
        self._last: tuple[Broadcast, Broadcast] | None = None

    def _table(self, matrix: Any) -> Any:
        """What is encrypted."""
        return matrix

    def split(self, weights: Array) -> tuple[Array, float]:
        """The weights of the party's own columns, and what it knows of the intercept."""
        return weights, 0.0

    def features(self, table: Features) -> Features:
        """The table that D^T g is about: as it was encoded, where that rounds it."""
        return table if self._columns.exact.all() else Features(self._columns.decoded())

    @cached_property
    def _keys(self) -> PartyKeys:
        return self._ask_keys()

    @property
    def lines(self) -> list[str]:
        """What this party shows, in words and numbers."""
        size = hints_size(self._columns.shape[1], self._columns.parameters)
        hints = f"its columns, encrypted under a key that it keeps, once: {size / 1e6:.1f} MB"
        return [str(self.leverage), *([] if self.warning is None else [self.warning]), hints]

    @property
    def form(self) -> Form:
        """What may come before round 1 and in every round."""
        keys = {len(self._group) * words_of(ANNOUNCEMENT_BYTES)} if self._sums else set()
        return Form(words=frozenset({words_of(offer_size()), *self._gradient_words, *keys}))

    @property
    def _gradient_words(self) -> set[int]:
        """How many words a gradient may have."""
        size = words_of(gradient_size(*self._columns.shape, self._columns.parameters))
        return {count * size for count in GRADIENTS}

    @property
    def exchanges_before(self) -> int:
        """How many exchanges come before round 1."""
        return 2 if self._sums else 1

    def ready(self, agreed: Agreed) -> bool:
        """Whether everything has been agreed that round 1 needs."""
        return agreed.offer is not None and (agreed.keys is not None or not self._sums)

    def agree(self, agreed: Agreed, broadcast: Broadcast) -> tuple[Agreed, Share]:
        """Take an offer, or the keys of the group; ProtocolError where something else must come."""
        words = broadcast.vector
        if words is None or broadcast.round or broadcast.closing or broadcast.scalars.size:
            raise ProtocolError("a protected run must begin with an offer and keys. Found another message. End it.")
        if agreed.offer is None:
            decryptor = self._decryptor(words)
            parts = [decryptor.hints.encode()]
            if self._sums:
                parts.append(self._party().announce(self._keys.sign).encode())
            return replace(agreed, offer=words), Share(0, to_words(*parts))
        self._met(words)
        return replace(agreed, keys=words), Share(0)

    def open(self, agreed: Agreed, broadcast: Broadcast) -> Broadcast:
        """The broadcast with D_m^T g as its vector; what is opened twice in a row is computed once."""
        if self._last is None or self._last[0] is not broadcast:
            words = self._opened_with(agreed)
            assert words is not None
            self._last = broadcast, Opener(self._decryptor(words)).open(broadcast)
        return self._last[1]

    def _opened_with(self, agreed: Agreed) -> Array | None:
        return agreed.offer

    def mask(self, agreed: Agreed, share: Share, exchange: int) -> Share:
        """The share as it leaves: in "sums" masked, under masks of this exchange only."""
        if not self._sums:
            return share
        assert agreed.keys is not None
        return self._met(agreed.keys).mask(share, exchange)

    def _decryptor(self, words: Array) -> GradientDecryptor:
        if self._opener is None or self._opener[0] is not words:
            (offer,) = from_words(words, 1)
            nonce = derive(self._keys.secret, "nonce", offer)
            decryptor = GradientDecryptor(self._columns, Offer.decode(offer), self._keys.secret, nonce)
            self._opener = words, decryptor
        return self._opener[1]

    def _party(self) -> MaskingParty:
        private = derive(self._keys.secret, "masking key")
        return MaskingParty(self._keys.run, self._name, private, self._keys.used)

    def _met(self, words: Array) -> Masker:
        if self._masker is None or self._masker[0] is not words:
            found = [Announcement.decode(part) for part in from_words(words, len(self._group))]
            if {each.name for each in found} != set(self._group):
                raise ProtocolError(f"the keys must be those of {', '.join(self._group)}. Found others. End the run.")
            party = self._party()
            party.meet(found, self._keys.verify)
            self._masker = words, Masker(party, len(self._group))
        return self._masker[1]
