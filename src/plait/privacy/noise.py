"""Discrete Gaussian noise on a fixed grid, drawn exactly from a keyed AES-256-CTR keystream.

Floating-point Gaussian noise leaks through the low bits of its values (Mironov 2012). Here the value is
rounded to a grid gamma Z and integer noise is added, P(k) ~ exp(-k^2 / (2 S^2)), sampled in integer
arithmetic only (Canonne, Kamath and Steinke 2020). S is an integer, so that every acceptance probability is a
quotient of integers below 2^63.

The continuous account holds up to a tiny factor. The rounded continuous law, a function of the continuous
one and so exactly as private, has r_k = p_k Z c E[cosh(k u / S^2) exp(-u^2 / (2 S^2))] with p_k the discrete
law, u uniform on [-1/2, 1/2], c = 1 / (S sqrt(2 pi)), and Z c in [1, 1 + 3 exp(-2 pi^2 S^2)] by Poisson
summation. So r_k >= p_k (1 - 1/(24 S^2)), and r_k <= p_k exp(200 / S^2) for |k| <= 40 S, beyond which either
law has less than e^-799. With S at least 2^25 releasing n numbers thus adds at most eta = 201 n / S^2 to
epsilon and multiplies delta by at most e^eta.

Batches are drawn whole and the number of passes depends on the random words alone, never on the value. The
time of a draw still varies: a sender that must hide it sends on a fixed schedule.
"""

import hashlib
import hmac
import math
import secrets
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from plait._checks import need_type
from plait.errors import PrivacyError, SettingError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

STEPS_PER_SIGMA = 2**25
"""sigma spans at least this many steps of the grid, and at most twice as many."""
LARGEST_SCALE = 2**26  # steps: twice STEPS_PER_SIGMA; squares of 32 times as much fit into 64-bit integers
FARTHEST = 32
"""Candidates beyond this many scales are dropped: squares overflow int64, and few are accepted (below e^-450)."""
FEWEST_WORDS = 1 << 8  # 64-bit words of keystream made first: 2 KiB, enough for a short release
MOST_WORDS = 1 << 16  # words made at once at most: half a megabyte, which stays in the cache


@dataclass(frozen=True)
class Grid:
    """The noise N_Z(0, scale^2) on the grid 2^exponent Z: sigma = scale * 2^exponent."""

    scale: int
    exponent: int

    def __post_init__(self) -> None:
        if not 1 <= self.scale <= LARGEST_SCALE:
            raise SettingError(f"`scale` of a noise grid must lie in 1..{LARGEST_SCALE}. Found {self.scale}.")

    @classmethod
    def for_sigma(cls, sigma: float) -> "Grid":
        """The grid that plait uses for noise `sigma`: a power of two, sigma rounded up by less than 2^-25."""
        if not (math.isfinite(sigma) and sigma > 0):
            raise SettingError(f"`sigma` must be positive and finite. Found {sigma}.")
        exponent = math.frexp(sigma)[1] - STEPS_PER_SIGMA.bit_length()
        return cls(math.ceil(math.ldexp(sigma, -exponent)), exponent)

    @property
    def gamma(self) -> float:
        return math.ldexp(1.0, self.exponent)

    @property
    def sigma(self) -> float:
        return self.scale * self.gamma

    def rounding(self, dimension: int) -> float:
        """How much rounding to the grid can add to an l2 sensitivity: gamma sqrt(dimension)."""
        return self.gamma * math.sqrt(dimension)

    def slack(self, dimension: int) -> float:
        """eta = 201 dimension / scale^2: what the discrete law adds to epsilon over the continuous one."""
        return 201 * dimension / self.scale**2

    def round(self, value: Floats) -> Ints:
        """The nearest grid points of `value`, as integers."""
        if not np.all(np.isfinite(value)):
            raise PrivacyError("A value to be released must be finite. Found NaN or infinity; nothing was sent.")
        steps = np.rint(np.ldexp(value, -self.exponent))
        if np.any(np.abs(steps) >= 2.0**61):
            raise PrivacyError(
                f"A value to be released must be below 2^61 grid steps of {self.gamma:g}. Found "
                f"{np.max(np.abs(value)):g}; nothing was released. Clip the value or use more noise."
            )
        return steps.astype(np.int64)

    def noisy(self, value: Floats, stream: "Keystream") -> Floats:
        """`value` rounded to the grid plus discrete Gaussian noise."""
        steps = self.round(value) + discrete_gaussian(self.scale, value.size, stream).reshape(value.shape)
        return np.ldexp(steps.astype(np.float64), self.exponent)


class Keystream:
    """Uniform 63-bit words from AES-256 in counter mode under one key; never reused for another release."""

    def __init__(self, key: bytes) -> None:
        self._encryptor = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
        self._words: Ints = np.empty(0, dtype=np.int64)
        self._used = 0
        self._block = FEWEST_WORDS

    def words(self, count: int) -> Ints:
        """`count` independent uniform integers in [0, 2^63)."""
        if self._words.size - self._used < count:
            fresh = max(count, self._block)
            self._block = min(2 * self._block, MOST_WORDS)
            raw = np.frombuffer(self._encryptor.update(bytes(8 * fresh)), dtype="<u8")
            self._words = np.concatenate([self._words[self._used :], (raw >> np.uint64(1)).astype(np.int64)])
            self._used = 0
        start, self._used = self._used, self._used + count
        return self._words[start : self._used]

    def below(self, bound: Ints | int, count: int) -> Ints:
        """`count` independent uniform integers, the i-th exactly uniform on 0..bound_i - 1."""
        bounds = np.broadcast_to(np.asarray(bound, dtype=np.int64), (count,))
        words = self.words(count)
        result = words % bounds
        # The last words below 2^63, which are fewer than `bound`, would make some results more likely: draw again.
        uneven = np.flatnonzero(words - result > np.int64(2**63 - 1) - bounds + 1)
        if uneven.size:
            result[uneven] = self.below(bounds[uneven], uneven.size)
        return result


@dataclass(frozen=True)
class Release:
    """Which release a noise key is for; `digest` covers every input, private or public, and the scale.

    `plan` names the plan of releases that it is a part of, each of which is made once; the digest covers it.
    """

    run: str
    party: str
    round: int
    name: str
    digest: str
    plan: str = ""

    def encode(self) -> bytes:
        parts = [self.run, self.party, str(self.round), self.name, self.digest]
        return b"".join(len(p.encode()).to_bytes(8, "big") + p.encode() for p in parts)


class Noise(Protocol):
    """Where a release gets its randomness from; `name` goes into the ledger."""

    @property
    def name(self) -> str: ...

    def stream(self, release: Release) -> Keystream: ...

    def key_id(self, release: Release) -> str: ...


@dataclass(frozen=True)
class KeyedNoise:
    """Noise under the key HMAC-SHA256(secret, run | party | round | name | digest of all inputs).

    The same release gives the same bytes again.  Any other input gives independent noise.

    Parameters
    ----------
    secret : bytes, default=fresh random bytes
        The party's secret.  Whoever knows it can remove the noise.
    """

    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    name: str = field(default="aes-256-ctr", init=False)

    def __post_init__(self) -> None:
        need_type("`secret` of the noise", self.secret, bytes)
        if len(self.secret) < 32:
            raise SettingError(
                f"`secret` of the noise must have at least 32 bytes. Found {len(self.secret)}. Use "
                "secrets.token_bytes(32)."
            )

    def stream(self, release: Release) -> Keystream:
        """The random words of one release."""
        return Keystream(_derive(self.secret, release))

    def key_id(self, release: Release) -> str:
        """A name of the key that does not reveal it."""
        return hashlib.sha256(b"plait noise key id" + _derive(self.secret, release)).hexdigest()


@dataclass(frozen=True)
class InsecureTestNoise:
    """Noise that a test can repeat.  It protects nothing: whoever knows the seed can remove it.

    Parameters
    ----------
    seed : int
        The seed.
    """

    seed: int
    name: str = field(default="INSECURE test noise", init=False)

    def stream(self, release: Release) -> Keystream:
        """The random words of one release."""
        return self._keyed().stream(release)

    def key_id(self, release: Release) -> str:
        """A name of the key."""
        return self._keyed().key_id(release)

    def _keyed(self) -> KeyedNoise:
        return KeyedNoise(hashlib.sha256(b"plait insecure test noise %d" % self.seed).digest())


def discrete_gaussian(scale: int, count: int, stream: Keystream) -> Ints:
    """`count` exact samples of P(k) ~ exp(-k^2 / (2 scale^2)), by rejection from the discrete Laplace law."""
    Grid(scale, 0)
    found: list[Ints] = []
    missing = count
    while missing:
        # About 3 of 4 candidates are accepted, and a few more make a second pass rare.
        candidates = discrete_laplace(scale, int(missing * 1.35) + 16, stream)
        candidates = candidates[np.abs(candidates) < FARTHEST * scale]
        # With t = scale the acceptance exponent is (|Y| - scale)^2 / (2 scale^2).
        excess = (np.abs(candidates) - scale) ** 2
        kept = candidates[_bernoulli_exp(excess, 2 * scale * scale, stream)][:missing]
        found.append(kept)
        missing -= kept.size
    return np.concatenate(found) if found else np.empty(0, dtype=np.int64)


def discrete_laplace(scale: int, count: int, stream: Keystream) -> Ints:
    """`count` exact samples of P(k) ~ exp(-|k| / scale)."""
    found: list[Ints] = []
    missing = count
    while missing:
        # A number takes e / (e - 1) = 1.58 candidates, and a few more make a second pass rare.
        batch = int(missing * 1.65) + 16
        offset = stream.below(scale, batch)
        offset = offset[_bernoulli_exp(offset, scale, stream)]
        size = offset + scale * _geometric(offset.size, stream)
        sign = 1 - 2 * (stream.words(size.size) & 1)
        # Zero would be drawn with both signs: half of its draws are dropped.
        kept = (sign * size)[(size != 0) | (sign == 1)][:missing]
        found.append(kept)
        missing -= kept.size
    return np.concatenate(found)


def _geometric(count: int, stream: Keystream) -> Ints:
    """`count` exact samples of P(k) ~ e^-k, k = 0, 1, ..."""
    result = np.zeros(count, dtype=np.int64)
    alive = np.arange(count)
    while alive.size:
        alive = alive[_bernoulli_exp(np.ones(alive.size, dtype=np.int64), 1, stream)]
        result[alive] += 1
    return result


def _bernoulli_exp(numerator: Ints, denominator: int, stream: Keystream) -> NDArray[np.bool_]:
    """Independent coins, the i-th true with probability exp(-numerator_i / denominator) exactly."""
    whole, part = np.divmod(numerator, denominator)
    result = _bernoulli_exp_fraction(part, denominator, stream)
    pending = np.flatnonzero(result & (whole > 0))
    while pending.size:
        one = np.ones(pending.size, dtype=np.int64)
        survived = _bernoulli_exp_fraction(one, 1, stream)
        result[pending[~survived]] = False
        whole[pending] -= 1
        pending = pending[survived & (whole[pending] > 0)]
    return result


def _bernoulli_exp_fraction(numerator: Ints, denominator: int, stream: Keystream) -> NDArray[np.bool_]:
    """As above for 0 <= numerator <= denominator: the parity of the first failure of coins n / (k d)."""
    result = np.ones(numerator.size, dtype=np.bool_)
    alive = np.arange(numerator.size)
    heads = numerator
    k = 1
    while alive.size:
        won = stream.below(denominator * k, alive.size) < heads
        alive, heads = alive[won], heads[won]
        # The coin k has been won: the first failure is now later, and its parity turns.
        result[alive] = k % 2 == 0
        k += 1
    return result


def _derive(secret: bytes, release: Release) -> bytes:
    return hmac.new(secret, b"plait noise v1" + release.encode(), hashlib.sha256).digest()
