"""The fixed sizes of the lattice scheme.  A set of parameters is chosen by name and is never tuned to a data set.

R       the ring Z_q[X] / (X^2048 + 1);  secrets have k elements of it, n = 2048 k numbers
Q       bits of the modulus q = 2^Q
nu      every encoded column E_j has ||E_j||_2 < 2^nu
gamma   every encoded gradient G has  ||G||_2   < 2^gamma,  so |<E_j, G>| < 2^(nu + gamma)
h       low bits that a hint leaves out; the part that is rounded off, r_j, is uniform
B       bound of the noise <E_j, e> + <u_j, e> + <e'_j + r_j, s>
f       the flood is uniform in [-2^f, 2^f) with 2^f >= 2^40 B
t       low bits that a round's message leaves out; dropping them changes a sum by less than 2^(f - 2)
delta   the message is multiplied by 2^delta;  delta >= f + 2  and  nu + gamma + 1 + delta <= Q
"""

import math
from dataclasses import dataclass

from plait.errors import SettingError

RING_DEGREE = 2048  # numbers in a ring element; a secret has three or four elements, see docs/protection.md
BINOMIAL_HALF = 21  # an error is the difference of two sums of 21 bits: standard deviation sqrt(21 / 2) = 3.24
FLOOD_RATIO_BITS = 40  # the flood is 2^40 times the noise bound: statistical distance below 2^-40 a number
DROPPED_BITS = 40  # t: low bits of b, p_t and k that are not sent, whole bytes
TAIL = 9.5  # standard deviations within which the noise lies except with probability 2 exp(-9.5^2 / 2) = 2^-64
MAX_ROWS = 1 << 24  # the spectra of the public elements of so many rows take 1.6 GB


@dataclass(frozen=True)
class Parameters:
    """One named set; see the module's docstring for the letters."""

    name: str
    code: int  # the byte that stands for this set in messages
    security_bits: int  # classical core-SVP estimate of both lattice problems is at least this
    rank: int  # k
    modulus_bits: int  # Q
    column_bits: int  # nu
    gradient_bits: int  # gamma
    flood_bits: int  # f
    scale_bits: int  # delta
    hint_dropped_bits: int  # h
    hint_limb_bits: int  # bits of a public element that one FFT takes when hints are made
    columns_per_key: int  # most hints under one round secret: were all malformed, 128 bits would still be left

    def __post_init__(self) -> None:
        if self.column_bits + self.gradient_bits + 1 + self.scale_bits > self.modulus_bits:
            raise SettingError(f"{self.name}: nu + gamma + 1 + delta must be at most Q. Use a larger modulus.")
        if self.flood_bits < FLOOD_RATIO_BITS + math.log2(self.noise_bound()):
            raise SettingError(f"{self.name}: the flood must be 2^{FLOOD_RATIO_BITS} times the noise. Raise it.")
        if self.dropping_bound() + self.noise_bound() > 2.0 ** (self.flood_bits - 2):
            raise SettingError(f"{self.name}: dropped bits must cost less than 2^(f - 2). Send more bits.")
        if self.scale_bits < self.flood_bits + 2 or self.modulus_bits % 8 or self.hint_dropped_bits % 8:
            raise SettingError(f"{self.name}: delta must be at least f + 2; Q and h whole bytes. Change the set.")

    @property
    def dimension(self) -> int:
        """n: numbers of a secret, of a hint and of p_t."""
        return self.rank * RING_DEGREE

    def noise_bound(self) -> float:
        """B = 9.5 sqrt(3.24^2 (4^nu + 2 n) + n 4^h / 12): a sub-Gaussian tail, exceeded once in 2^63 times at most."""
        errors = BINOMIAL_HALF / 2 * (4.0**self.column_bits + 2 * self.dimension)
        rounded = self.dimension * 4.0**self.hint_dropped_bits / 12 if self.hint_dropped_bits else 0.0
        return TAIL * math.sqrt(errors + rounded)

    def dropping_bound(self) -> float:
        """How much dropping t bits of b, p_t and k may change a sum: exceeded with probability below 2^-64 (Hoeffding).

        b and p_t are uniform, so the part that is rounded off is uniform, too: 2^t (<E_j, r> + <u_j, r'> + r'').
        """
        squares = 4.0**self.column_bits + self.dimension + 1
        return 2.0**DROPPED_BITS * math.sqrt(65 * math.log(2) / 2 * squares)

    @property
    def modulus_bytes(self) -> int:
        """Bytes of one coefficient of a public element."""
        return self.modulus_bits // 8

    @property
    def hint_bytes(self) -> int:
        """Bytes of one coefficient of a hint: the low h bits are left out."""
        return (self.modulus_bits - self.hint_dropped_bits) // 8

    @property
    def sent_bytes(self) -> int:
        """Bytes of one coefficient of a round's message: the low DROPPED_BITS are left out."""
        return (self.modulus_bits - DROPPED_BITS) // 8


COUNTS = Parameters("mlwe-128-counts", 1, 128, 3, 96, 10, 28, 55, 57, 0, 32, 96)
"""For columns that are small whole numbers times one factor (0/1 columns): 7 bytes a row and round."""

REALS = Parameters("mlwe-128-reals", 2, 128, 4, 120, 22, 28, 67, 69, 16, 24, 110)
"""For any columns, rounded to 2^-22 of their norm: 10 bytes a row and round."""

SETS = (COUNTS, REALS)


def named(name: str) -> Parameters:
    """The set of this name."""
    for parameters in SETS:
        if parameters.name == name:
            return parameters
    raise SettingError(f"parameters must be one of {', '.join(p.name for p in SETS)}. Found {name!r}. Use one.")


def chunks_of(rows: int) -> int:
    """C: how many ring elements a vector of so many rows fills."""
    return -(-rows // RING_DEGREE)
