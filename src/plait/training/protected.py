"""What stands between the two sides of a protected run: g becomes bytes, bytes become D^T g; shares become sums.

    coordinator   Sealer: g (N,) -> an encrypted gradient for one party;   SumReader: masked shares -> their sum
    party         Opener: these bytes -> D_m^T g (d,);                     Masker: a share -> a masked one

Bytes travel as 64-bit words in the vector of a message: first their number, then they themselves, filled up with zeros.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from plait._types import Array
from plait.errors import ProtocolError, SettingError
from plait.messages import Broadcast, Share
from plait.methods.base import Method
from plait.methods.protected.method import ProtectedSubspace
from plait.methods.subspace.method import Subspace
from plait.protection.fixed_point import encode_columns, encode_gradient
from plait.protection.inner_product import GradientDecryptor, GradientEncryptor
from plait.protection.leverage import check_rows, check_width, leverages
from plait.protection.messages import EncryptedGradient, Hints, Offer
from plait.protection.modes import Protection
from plait.protection.randomness import KEY_BYTES
from plait.protection.secure_sums import (
    LEAST_GROUP,
    MaskingParty,
    Run,
    from_fixed,
    from_wide,
    groups_of,
    to_fixed,
    to_wide,
    total,
)

_WORD = 8  # bytes


class Sealer:
    """The coordinator's end for one party."""

    def __init__(self, encryptor: GradientEncryptor) -> None:
        self._encryptor = encryptor

    def seal(self, request: Broadcast) -> Broadcast:
        """The same request with an encrypted gradient as its vector."""
        assert request.vector is not None
        # Of the sum, not the mean: then rounding is the same for both labels of a row, and shows nothing of them.
        summed = request.vector * self._encryptor.rows
        whole, exponent = encode_gradient(summed, self._encryptor.parameters)
        data = self._encryptor.encrypt(whole, exponent, request.round).encode()
        return replace(request, vector=_words(data))


class Opener:
    """A party's end."""

    def __init__(self, decryptor: GradientDecryptor) -> None:
        self._decryptor = decryptor

    def open(self, broadcast: Broadcast) -> Broadcast:
        """The same broadcast with D_m^T g (d,) as its vector; ProtocolError where it cannot be opened."""
        if broadcast.vector is None:
            raise ProtocolError("a protected broadcast must hold an encrypted gradient. Found none. End the run.")
        message = EncryptedGradient.decode(_bytes(broadcast.vector))
        if message.round != broadcast.round:
            raise ProtocolError(f"the gradient must be of round {broadcast.round}. Found {message.round}. End the run.")
        gradient = self._decryptor.columns.decode(self._decryptor.decrypt(message), message.exponent)
        return replace(broadcast, vector=gradient / message.rows)


class Masker:
    """A party's end of a secure sum."""

    def __init__(self, party: MaskingParty, parties: int) -> None:
        self._party, self._parties = party, parties

    def mask(self, share: Share, closing: bool) -> Share:
        """The share with image and report masked, all in its vector: N words, then three for each scalar."""
        vector = np.empty(0) if share.vector is None else share.vector
        plain = np.concatenate([to_fixed(vector, self._parties), to_wide(share.scalars, self._parties)])
        masked = self._party.mask(plain, share.round, "closing" if closing else "round")
        return Share(share.round, cast(Array, masked))


@dataclass(frozen=True)
class SumReader:
    """The coordinator's end of secure sums, one for each group of parties."""

    rows: int
    groups: tuple[tuple[str, ...], ...]

    def read(self, shares: Mapping[str, Share], closing: bool) -> dict[str, Share]:
        """Shares that add up to each group's sum: it stands at the first party's place, zeros at the others'."""
        found: dict[str, Share] = {}
        for group in self.groups:
            found |= self._sum({name: shares[name] for name in group}, closing)
        return found

    def _sum(self, shares: Mapping[str, Share], closing: bool) -> dict[str, Share]:
        words = [cast(npt.NDArray[np.uint64], share.vector) for share in shares.values()]
        first = next(iter(shares.values()))
        together = total(words)
        rows = 0 if closing else self.rows
        image = None if closing else from_fixed(together[:rows])
        scalars = from_wide(together[rows:])
        zero = Share(first.round, None if image is None else np.zeros(rows), np.zeros(scalars.size))
        return {name: Share(first.round, image, scalars) if i == 0 else zero for i, name in enumerate(shares)}


@dataclass(frozen=True)
class ProtectedExchange:
    """Both ends of a protected run in this process."""

    sealers: Mapping[str, Sealer]
    openers: Mapping[str, Opener]
    maskers: Mapping[str, Masker]
    reader: SumReader | None
    statement: str
    """What is shown, in words and numbers."""


def protected_form(method: Method, protection: Protection, names: tuple[str, ...]) -> ProtectedSubspace:
    """The protected form of a method, or SettingError."""
    if not isinstance(method, Subspace):
        raise SettingError(
            f"protection needs method=plait.Subspace() and a smooth loss. Found {type(method).__name__}."
            " Use another loss, or no protection."
        )
    if protection.mode == "labels":
        return ProtectedSubspace(method)
    if len(names) < LEAST_GROUP:
        raise SettingError(
            f'protection="sums" needs at least {LEAST_GROUP} parties: of two, each knows the other. Found {len(names)}.'
            ' Use protection="labels".'
        )
    groups = _groups(protection, names)
    if len(groups) == 1:
        return ProtectedSubspace(replace(method, sums_only=True))
    return ProtectedSubspace(replace(method, sums_only=False), groups)


def _groups(protection: Protection, names: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Whose shares are added up."""
    return tuple(groups_of(names)) if protection.groups else (names,)


def protect(protection: Protection, tables: Mapping[str, Any], rows: int) -> ProtectedExchange:
    """Check every table, let the parties make their hints and keys, and connect both ends."""
    lines = []
    for name, table in tables.items():
        check_width(rows, table.shape[1])
        leverage = leverages(table)
        check_rows(leverage, protection.max_leverage)
        lines.append(f"{name}: {leverage}")
    sealers, openers = {}, {}
    for name, table in tables.items():
        sealers[name], openers[name], size = _ends(table)
        lines.append(f"{name}: its columns, encrypted under a key that it keeps, once: {size / 1e6:.1f} MB")
    if protection.mode == "labels":
        return ProtectedExchange(sealers, openers, {}, None, "\n".join(lines))
    groups = _groups(protection, tuple(tables))
    maskers = {name: masker for group in groups for name, masker in _maskers(group).items()}
    return ProtectedExchange(sealers, openers, maskers, SumReader(rows, groups), "\n".join(lines))


def _ends(table: Any) -> tuple[Sealer, Opener, int]:
    """Both ends of the encrypted gradient for one table, after offer and hints have travelled as bytes."""
    columns = encode_columns(table)
    offer = Offer(columns.shape[0], secrets.token_bytes(KEY_BYTES))
    decryptor = GradientDecryptor(columns, Offer.decode(offer.encode()), secrets.token_bytes(KEY_BYTES))
    hints = decryptor.hints.encode()
    encryptor = GradientEncryptor(offer, Hints.decode(hints), secrets.token_bytes(KEY_BYTES))
    return Sealer(encryptor), Opener(decryptor), len(hints)


def _maskers(names: tuple[str, ...]) -> dict[str, Masker]:
    """Masks between parties in one process; there are no certificates, so nothing is signed."""
    run = Run("simulated", secrets.token_hex(8))
    parties = {name: MaskingParty(run, name, secrets.token_bytes(KEY_BYTES)) for name in names}
    announced = [party.announce(lambda data: b"") for party in parties.values()]
    for party in parties.values():
        party.meet(announced, lambda name, data, signature: signature == b"")
    return {name: Masker(party, len(names)) for name, party in parties.items()}


def _words(data: bytes) -> Array:
    filled = len(data).to_bytes(_WORD, "little") + data + bytes(-len(data) % _WORD)
    return cast(Array, np.frombuffer(filled, dtype="<u8"))


def _bytes(words: Array) -> bytes:
    data = np.ascontiguousarray(words).view(np.uint8).tobytes()
    size = int.from_bytes(data[:_WORD], "little")
    if words.dtype != np.uint64 or not len(data) - 2 * _WORD < size <= len(data) - _WORD:
        raise ProtocolError("an encrypted gradient must state its size. It states another. End the run.")
    return data[_WORD : _WORD + size]
