"""What stands between the two sides of a protected run: g becomes bytes, bytes become D^T g; shares become sums.

    coordinator   Sealer: g (N,) -> an encrypted gradient for one party;   SumReader: masked shares -> their sum
    party         Opener: these bytes -> D_m^T g (d,);                     Masker: a share -> a masked one

Bytes travel as 64-bit words in the vector of a message: first their number, then they themselves, filled up with zeros.
`plait.training.party_shield` and `plait.training.coordinator_shield` make these ends before round 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import numpy.typing as npt

from plait._types import Array
from plait.errors import ProtocolError, SettingError
from plait.messages import Broadcast, Form, Share
from plait.methods.base import Method
from plait.methods.protected.method import ProtectedSubspace
from plait.methods.subspace.augmented import Augmented
from plait.methods.subspace.method import Subspace
from plait.protection.fixed_point import encode_gradient
from plait.protection.inner_product import GradientDecryptor, GradientEncryptor
from plait.protection.messages import EncryptedGradient
from plait.protection.modes import Protection
from plait.protection.secure_sums import (
    LEAST_GROUP,
    WIDE,
    MaskingParty,
    from_fixed,
    from_wide,
    groups_of,
    to_fixed,
    to_wide,
    total,
)

_WORD = 8  # bytes
GRADIENTS = (1, 2)  # encrypted vectors of a message: of a fine gradient two


class Sealer:
    """The coordinator's end for one party."""

    def __init__(self, encryptor: GradientEncryptor) -> None:
        self._encryptor = encryptor

    def seal(self, request: Broadcast, inward: bool) -> tuple[Broadcast, Array | None]:
        """The same request with an encrypted gradient as its vector, and the gradient (N,) that it holds, rounded.

        A fine one is followed by what rounding has left of it, encrypted in the same way under another secret.
        inward: towards zero, for a loss with kinks; see `encode_gradient`.
        """
        if request.vector is None:
            return request, None
        # Of the sum, not the mean: then rounding is the same for both labels of a row, and shows nothing of them.
        left = request.vector * self._encryptor.rows
        held, parts = np.zeros_like(left), []
        for _ in range(1 + bool(request.fine)):
            whole, exponent = encode_gradient(left, self._encryptor.parameters, inward)
            parts.append(self._encryptor.encrypt(whole, exponent, request.round).encode())
            rounded = np.ldexp(whole.astype(np.float64), exponent)
            held, left = held + rounded, left - rounded
        return replace(request, vector=to_words(*parts)), held / self._encryptor.rows


class Opener:
    """A party's end."""

    def __init__(self, decryptor: GradientDecryptor) -> None:
        self._decryptor = decryptor

    def open(self, broadcast: Broadcast) -> Broadcast:
        """The same broadcast with D_m^T g (d,) as its vector; ProtocolError where it cannot be opened."""
        if broadcast.vector is None:
            return broadcast  # a question
        parts = from_words(broadcast.vector, *GRADIENTS)
        gradient = sum((self._part(data, broadcast.round) for data in parts), start=np.zeros(1))
        return replace(broadcast, vector=gradient / self._decryptor.columns.shape[0])

    def _part(self, data: bytes, number: int) -> Array:
        """The product (d,) with one encrypted vector, which must be of this round."""
        message = EncryptedGradient.decode(data)
        if message.round != number:
            raise ProtocolError(f"the gradient must be of round {number}. Found {message.round}. End the run.")
        return self._decryptor.columns.decode(self._decryptor.decrypt(message), message.exponent)


class Masker:
    """A party's end of a secure sum."""

    def __init__(self, party: MaskingParty, parties: int) -> None:
        self._party, self._parties = party, parties

    def mask(self, share: Share, exchange: int) -> Share:
        """The share with image and report masked, all in its vector: N words, then WIDE for each scalar.

        exchange: how many shares this party has sent before.  Where a scalar is infinite, its words are random.
        """
        vector = np.empty(0) if share.vector is None else share.vector
        endless = np.isinf(share.scalars)
        wide = to_wide(np.where(endless, 0.0, share.scalars), self._parties).reshape(WIDE, -1)
        wide[:, endless] = self._party.nothing(exchange, WIDE * int(endless.sum())).reshape(WIDE, -1)
        plain = np.concatenate([to_fixed(vector, self._parties), wide.reshape(-1)])
        return Share(share.round, cast(Array, self._party.mask(plain, exchange, "share")))


@dataclass(frozen=True)
class SumReader:
    """The coordinator's end of secure sums, one for each group of parties."""

    rows: int
    groups: tuple[tuple[str, ...], ...]

    def read(self, shares: Mapping[str, Share], vector: bool) -> dict[str, Share]:
        """Each group's sum at its first party's place; `vector` says whether the shares have one beside the scalars."""
        rows = self.rows if vector else 0
        found = {}
        for group in self.groups:
            if group[0] in shares:
                words = total([cast(npt.NDArray[np.uint64], shares[name].vector) for name in group])
                image = from_fixed(words[:rows]) if vector else None
                found[group[0]] = Share(shares[group[0]].round, image, from_wide(words[rows:]))
        return found


def masked_form(form: Form) -> Form:
    """What a share of this form becomes: its numbers as words, and WIDE words for each scalar."""
    scalars = {0} if form.scalars is None else form.scalars
    return Form(words=frozenset(n + WIDE * s for n in form.lengths or {0} for s in scalars), vector=True)


def protected_form(
    method: Method, protection: Protection, names: tuple[str, ...], weighted: bool = False
) -> ProtectedSubspace:
    """The protected form of a method, or SettingError; `weighted`: whether rows have weights, which stay hidden."""
    if not isinstance(method, Subspace | Augmented):
        raise SettingError(
            f"protection needs plait.Subspace(), or plait.Augmented() for losses with kinks. Found"
            f" {type(method).__name__}. Use one of these, or no protection."
        )
    if protection.mode == "labels":
        return ProtectedSubspace(method, weighted=weighted)
    if protection.mode == "blind":
        return ProtectedSubspace(method, (names,), disguised=True)
    if len(names) < LEAST_GROUP:
        raise SettingError(
            f'protection="sums" needs at least {LEAST_GROUP} parties: of two, each knows the other. Found {len(names)}.'
            ' Use protection="labels".'
        )
    return ProtectedSubspace(method, summed_groups(protection, names), weighted=weighted)


def summed_groups(protection: Protection, names: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Whose shares are added up."""
    return tuple(groups_of(names)) if protection.groups else (names,)


def words_of(size: int) -> int:
    """How many words a part of so many bytes takes."""
    return 1 + -(-size // _WORD)


def to_words(*parts: bytes) -> Array:
    """Bytes as 64-bit words: of each part its size, then the bytes themselves, filled up with zeros."""
    filled = [len(part).to_bytes(_WORD, "little") + part + bytes(-len(part) % _WORD) for part in parts]
    return cast(Array, np.frombuffer(b"".join(filled), dtype="<u8"))


def from_words(words: Array, *counts: int) -> list[bytes]:
    """The parts that words hold; ProtocolError unless their number is one of these, and nothing else is there."""
    parts, at = [], 0
    data = np.ascontiguousarray(words).view(np.uint8)
    while words.dtype == np.uint64 and at < data.size:
        size = int.from_bytes(data[at : at + _WORD].tobytes(), "little")
        if size > data.size - at - _WORD:
            break
        parts.append(data[at + _WORD : at + _WORD + size].tobytes())
        at += _WORD * words_of(size)
    if at != data.size or len(parts) not in counts:
        count = " or ".join(map(str, counts))
        raise ProtocolError(f"a protected message must state the sizes of its {count} parts. It does not. End the run.")
    return parts
