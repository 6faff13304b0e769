"""Secure sums: the coordinator learns the sum of the parties' vectors and nothing else of them.  Semi-honest.

    share_m = fixed(v_m) + sum_{k > m} mask_mk - sum_{k < m} mask_mk   in Z_2^64,   fixed(v) = rint(2^40 v)

mask_mk is the key stream of AES-256-CTR under HKDF(X25519(m, k); job, run, both names, exchange, what).  Masks cancel
in the sum, so that it equals the sum of the fixed-point vectors exactly.  A mask is used once: a second, different
vector under the same exchange is refused, because the difference of two shares is the difference of the vectors.
"""

import hashlib
import itertools
import struct
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from plait._types import Array
from plait.errors import InputError, PrivacyError, ProtocolError, SettingError
from plait.protection.randomness import KEY_BYTES, Stream

Words = npt.NDArray[np.uint64]
Sign = Callable[[bytes], bytes]
"""Signs bytes with the key of this party's certificate."""
Verify = Callable[[str, bytes, bytes], bool]
"""Called with (name, bytes, signature): whether the certificate of `name` has signed these bytes."""

FRACTION_BITS = 40  # of a fixed-point number: a rounding error of 2^-41 = 5e-13
WHOLE_BITS = 23  # left for sign and size of the sum: sums must stay below 2^23 = 8 million
_WIDE_BITS = (-8, 32, 72, 112)  # fraction bits of a scalar's four words: from 2^62 down to 2^-112 without loss
WIDE = len(_WIDE_BITS)  # words of a scalar
_LARGEST = 2.0**62  # largest scalar: only the curvature at a sharp kink comes near it, and a larger one is cut to it
_MOST_PARTIES = 128  # most parties: their first words, of at most 2^54 each, add up below 2^63
LEAST_GROUP = 3  # parties whose sum is shown: with two, each would learn the other's vector from the sum
LEAST_OUTSIDE = 2  # parties outside the label party's organisation: it knows the rest of the sum, so one is not hidden
VERSION = 1  # version of the announcement's format
_HEAD = struct.Struct(">4sBHHH32sH")
_MARK = b"PLpk"
ANNOUNCEMENT_BYTES = 4096  # bytes of an announced key, padded with zeros: room for names, certificate and signature
_LONGEST = 2048  # bytes of a name or a signature


@dataclass(frozen=True)
class Run:
    """The job and the run to which masks are bound, besides the pair of parties, the exchange and what is summed."""

    job: str
    run: str


@dataclass(frozen=True)
class Announcement:
    """A party's public key for one run, signed with its certificate."""

    run: Run
    name: str
    public_key: bytes
    signature: bytes

    def signed_bytes(self) -> bytes:
        return announced_bytes(self.run, self.name, self.public_key)

    def encode(self) -> bytes:
        texts = [text.encode() for text in (self.run.job, self.run.run, self.name)]
        head = _HEAD.pack(_MARK, VERSION, *(len(text) for text in texts), self.public_key, len(self.signature))
        data = b"".join([head, *texts, self.signature])
        if len(data) > ANNOUNCEMENT_BYTES:
            raise ProtocolError(f"an announced key must fit into {ANNOUNCEMENT_BYTES} bytes. Found {len(data)}.")
        return data + bytes(ANNOUNCEMENT_BYTES - len(data))

    @staticmethod
    def decode(data: bytes) -> "Announcement":
        if len(data) != ANNOUNCEMENT_BYTES:
            raise ProtocolError(f"an announced key must have {ANNOUNCEMENT_BYTES} bytes. Found {len(data)}.")
        mark, version, *lengths, key, signed = _HEAD.unpack_from(data)
        sizes = [*lengths, signed]
        rest = data[_HEAD.size + sum(sizes) :]
        if (mark, version) != (_MARK, VERSION) or max(sizes) > _LONGEST or not rest or any(rest):
            raise ProtocolError("an announced key must have the form of this version. It has not. Use the same plait.")
        parts, at = [], _HEAD.size
        for size in sizes:
            parts.append(data[at : at + size])
            at += size
        try:
            job, run, name = (part.decode() for part in parts[:3])
        except UnicodeDecodeError as error:
            raise ProtocolError("names in an announced key must be UTF-8. They are not. Use the same plait.") from error
        return Announcement(Run(job, run), name, key, parts[3])


def announced_bytes(run: Run, name: str, public_key: bytes) -> bytes:
    """The bytes that a party signs: its key, for this job and run only."""
    return b"plait mask key 1" + _framed(run.job, run.run, name) + public_key


class MaskingParty:
    """One party of a secure sum: its private key, the secrets that it shares with each other party, and its shares."""

    def __init__(self, run: Run, name: str, private_key: bytes, used: MutableMapping[str, bytes] | None = None) -> None:
        """`used` records the digest of each masked vector; give a durable one where a program may be restarted."""
        self.run, self.name = run, name
        self._private = X25519PrivateKey.from_private_bytes(private_key)
        self._shared: dict[str, bytes] = {}
        self._used = {} if used is None else used

    @property
    def public_key(self) -> bytes:
        return self._private.public_key().public_bytes_raw()

    def announce(self, sign: Sign) -> Announcement:
        """This party's public key, signed."""
        public = self.public_key
        return Announcement(self.run, self.name, public, sign(announced_bytes(self.run, self.name, public)))

    def meet(self, announced: Iterable[Announcement], verify: Verify) -> None:
        """Agree on a secret with each other party; every key must be signed, for this run."""
        shared: dict[str, bytes] = {}
        for other in announced:
            if other.name == self.name:
                continue
            if other.run != self.run or other.name in shared:
                raise ProtocolError(f"{other.name} must announce one key for this run. Found another. Start a new run.")
            if not verify(other.name, other.signed_bytes(), other.signature):
                raise ProtocolError(
                    f"the key of {other.name} must be signed by its certificate. It is not. End the run."
                )
            shared[other.name] = self._agree(other)
        if not shared:
            raise ProtocolError("a secure sum must have another party. Found none. Use another protection.")
        self._shared = shared

    def _agree(self, other: Announcement) -> bytes:
        try:
            return self._private.exchange(X25519PublicKey.from_public_bytes(other.public_key))
        except ValueError as error:  # a point of small order, with which every secret would be zero
            why = f"the key of {other.name} must be a point of full order. It is not. End the run."
            raise ProtocolError(why) from error

    def share(self, vector: Array, exchange: int, what: str) -> Words:
        """The masked fixed-point vector (N,) for one exchange."""
        return self.mask(to_fixed(vector, len(self._shared) + 1), exchange, what)

    def mask(self, plain: Words, exchange: int, what: str) -> Words:
        """`plain` (n,) in Z_2^64 plus this party's masks for one exchange."""
        if not self._shared:
            raise ProtocolError("keys must be exchanged before a share is made. Call meet() first.")
        self._use_once(f"{exchange}/{what}", plain)
        for other, secret in self._shared.items():
            mask = Stream(self._mask_key(other, secret, exchange, what)).words(plain.size)
            plain = plain + mask if self.name < other else plain - mask
        return plain

    def nothing(self, exchange: int, count: int) -> Words:
        """Random words (count,) in the place of numbers that are not given: any sum with them is random, too."""
        own = self._private.private_bytes_raw()
        info = b"plait no number 1" + _framed(self.run.job, self.run.run, self.name) + exchange.to_bytes(8, "big")
        key = HKDF(algorithm=hashes.SHA256(), length=KEY_BYTES, salt=None, info=info).derive(own)
        return Stream(key).words(count)

    def _use_once(self, place: str, plain: Words) -> None:
        digest = hashlib.sha256(plain.tobytes()).digest()
        if self._used.setdefault(place, digest) != digest:
            raise PrivacyError(
                f"a mask must hide one vector. Found a second one for exchange {place}. Start afresh, with new keys."
            )

    def pair_secret(self, other: str, what: str) -> bytes:
        """32 bytes that this party and another one know, and nobody else."""
        return self._mask_key(other, self._shared[other], 0, f"secret {what}")

    def _mask_key(self, other: str, secret: bytes, exchange: int, what: str) -> bytes:
        first, second = sorted([self.name, other])
        info = b"plait mask 1" + _framed(self.run.job, self.run.run, first, second, what) + exchange.to_bytes(8, "big")
        return HKDF(algorithm=hashes.SHA256(), length=KEY_BYTES, salt=None, info=info).derive(secret)


def to_fixed(vector: Array, parties: int) -> Words:
    """rint(2^40 v) in Z_2^64; every |v_i| must stay below 2^23 / parties, so that the sum fits."""
    limit = 2.0**WHOLE_BITS / parties
    if not np.all(np.abs(vector) < limit):  # also refuses nan
        raise InputError(f"numbers in a secure sum must be below {limit:.6g}. Found larger ones. Scale the columns.")
    return np.rint(np.ldexp(vector, FRACTION_BITS)).astype(np.int64).view(np.uint64)


def to_wide(scalars: Array, parties: int) -> Words:
    """Finite scalars (k,) as words (WIDE k,), in units of 2^8, 2^-32, 2^-72 and 2^-112; no sum overflows."""
    rest = np.clip(scalars, -_LARGEST, _LARGEST)
    if parties > _MOST_PARTIES or not np.all(np.isfinite(rest)):
        raise InputError(f"scalars in a secure sum must be numbers, of at most {_MOST_PARTIES} parties. Found others.")
    words = []
    for bits in _WIDE_BITS:
        word = np.rint(np.ldexp(rest, bits))
        rest = rest - np.ldexp(word, -bits)  # exact: a double minus its own leading bits
        words.append(word.astype(np.int64))
    return np.concatenate(words).view(np.uint64)


def from_wide(words: Words) -> Array:
    """The scalars (k,) that summed words (WIDE k,) stand for."""
    if words.size % WIDE:
        raise ProtocolError(f"summed scalars must have {WIDE} words each. Found another number. End the run.")
    parts = words.view(np.int64).reshape(WIDE, -1)
    found = np.zeros(parts.shape[1])
    for part, bits in zip(reversed(parts), reversed(_WIDE_BITS), strict=True):  # the smallest first
        found = found + np.ldexp(part.astype(np.float64), -bits)
    return found


def in_range(words: Words, parties: int) -> bool:
    """Whether words (WIDE, k) can be the sum of so many parties' scalars: random words are in range once in 2^60."""
    rest = words.view(np.int64)[1:]  # each word of a scalar is at most half a unit of the word before it
    largest = np.array([2.0 ** (b - a - 1) for a, b in itertools.pairwise(_WIDE_BITS)])[:, None] * parties
    return bool((np.abs(rest.astype(np.float64)) <= largest).all())


def total(shares: Sequence[Words]) -> Words:
    """The sum in Z_2^64 (N,), in which all masks cancel."""
    if len({share.shape for share in shares}) != 1:
        raise ProtocolError("shares of one sum must have one length. Found several. End the run.")
    words = shares[0].copy()
    for share in shares[1:]:
        words += share
    return words


def from_fixed(words: Words) -> Array:
    """The vector (N,) that summed fixed-point numbers stand for."""
    return np.ldexp(words.view(np.int64).astype(np.float64), -FRACTION_BITS)


def groups_of(names: Sequence[str], least: int = LEAST_GROUP) -> list[tuple[str, ...]]:
    """As many groups of at least `least` parties as there can be; each is summed alone.

    Names go to the groups in turn.  Parties next to each other often hold similar columns, and such parties converge
    faster where each has its own step.
    """
    if least < LEAST_GROUP:
        raise SettingError(f"a summed group must have at least {LEAST_GROUP} parties. Found {least}. Raise it.")
    count = max(len(names) // least, 1)
    return [tuple(names[i::count]) for i in range(count)]


def check_outside(organisations: Mapping[str, str], label_organisation: str) -> None:
    """Refuse a sum in which fewer than two parties stand outside the label party's organisation."""
    outside = sorted(name for name, owner in organisations.items() if owner != label_organisation)
    if len(outside) < LEAST_OUTSIDE:
        raise SettingError(
            f"a secure sum must have {LEAST_OUTSIDE} parties outside the label party's organisation to hide anything."
            f" Found {', '.join(outside) or 'none'}. Use protection = 'labels', or a blind machine."
        )


def _framed(*texts: str) -> bytes:
    return b"".join(len(text.encode()).to_bytes(8, "big") + text.encode() for text in texts)
