"""The fixed sizes of the ring-LWE scheme.  A set of parameters is chosen by name and is never tuned to a data set.

n       degree of the ring Z_q[X] / (X^n + 1)
Q       bits of the modulus q = 2^Q
nu      every encoded column E_j has ||E_j||_2 < 2^nu
gamma   every encoded gradient G has  ||G||_2   < 2^gamma,  so |<E_j, G>| < 2^(nu + gamma)
B       bound of the noise <E_j, e> + <u_j, e> + <e'_j, s>
f       the flood is uniform in [-2^f, 2^f) with 2^f >= 2^40 B
delta   the message is multiplied by 2^delta;  nu + gamma + 1 + delta <= Q
t       low bits that no message carries: dropping them costs less than 2^(delta - 2)
"""

import math
from dataclasses import dataclass

from plait.errors import SettingError

RING_DEGREE = 8192  # numbers in a ring element; with q <= 2^120 far above 128 bits, see docs/protection.md
BINOMIAL_HALF = 21  # an error is the difference of two sums of 21 bits: standard deviation sqrt(21 / 2) = 3.24
FLOOD_RATIO_BITS = 40  # the flood is 2^40 times the noise bound: statistical distance below 2^-40 a number
DROPPED_BITS = 32  # low bits of b, p_t and k that are not sent: whole bytes, and 2^24 rows still decrypt exactly
TAIL = 9.5  # standard deviations within which the noise lies except with probability 2 exp(-9.5^2 / 2) = 2^-64
MAX_ROWS = 1 << 24  # beyond it the dropped bits could change a rounded result


@dataclass(frozen=True)
class Parameters:
    """One named set; see the module's docstring for the letters."""

    name: str
    code: int  # the byte that stands for this set in messages
    security_bits: int  # classical core-SVP estimate of both ring-LWE problems is at least this
    modulus_bits: int  # Q
    column_bits: int  # nu
    gradient_bits: int  # gamma
    flood_bits: int  # f
    scale_bits: int  # delta
    hint_limb_bits: int  # bits of a public element that one FFT takes when hints are made
    columns_per_key: int  # hints under one round secret: so many malformed ones still leave 128 bits

    def __post_init__(self) -> None:
        if self.column_bits + self.gradient_bits + 1 + self.scale_bits > self.modulus_bits:
            raise SettingError(f"{self.name}: nu + gamma + 1 + delta must be at most Q. Use a larger modulus.")
        if self.flood_bits < FLOOD_RATIO_BITS + math.log2(self.noise_bound()):
            raise SettingError(f"{self.name}: the flood must be 2^{FLOOD_RATIO_BITS} times the noise. Raise it.")
        if self.scale_bits < self.flood_bits + 2 or self.modulus_bits % 8:
            raise SettingError(f"{self.name}: delta must be at least f + 2, and Q whole bytes. Change the set.")

    def noise_bound(self) -> float:
        """B = 9.5 * 3.24 * sqrt(4^nu + 2 n): a sub-Gaussian tail, exceeded with probability below 2^-63."""
        return TAIL * math.sqrt(BINOMIAL_HALF / 2 * (4.0**self.column_bits + 2 * RING_DEGREE))

    @property
    def hint_bytes(self) -> int:
        """Bytes of one coefficient of a hint."""
        return self.modulus_bits // 8

    @property
    def sent_bytes(self) -> int:
        """Bytes of one coefficient of a round's message: the low DROPPED_BITS are left out."""
        return (self.modulus_bits - DROPPED_BITS) // 8


COUNTS = Parameters("rlwe-128-counts", 1, 128, 96, 10, 28, 55, 57, 32, 170)
"""For columns that are small whole numbers times one factor (0/1 columns): 8 bytes a row and round."""

REALS = Parameters("rlwe-128-reals", 2, 128, 120, 22, 28, 67, 69, 24, 110)
"""For any columns, rounded to 2^-22 of their norm: 11 bytes a row and round."""

SETS = (COUNTS, REALS)


def named(name: str) -> Parameters:
    """The set of this name."""
    for parameters in SETS:
        if parameters.name == name:
            return parameters
    raise SettingError(f"parameters must be one of {', '.join(p.name for p in SETS)}. Found {name!r}. Use one.")


def chunks_of(rows: int) -> int:
    """Ring elements that a vector of so many rows fills."""
    return -(-rows // RING_DEGREE)
