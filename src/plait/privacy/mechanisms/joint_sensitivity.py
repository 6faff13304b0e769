"""What a Gram matrix and gradients of the same rows cost together: less than the sum, as no row moves both the most.

Later gradients are taken nearer to the optimum, so they get more of the budget: the part of gradient k grows as
k^GROWTH.  `noisy_newton` weights each gradient by its part, so that nothing of the budget is lost.

Replacing the row a by a' moves the Gram matrix most when a and a' are orthogonal, and a gradient most when they are
opposite, where the Gram matrix does not move at all.  In units of the noise, with A the sum of B^2 / sigma^2 over the
gradients, C = W^2 / sigma^2 of the Gram matrix and y = |a . a'| in [0, 1],

    shift^2  <=  A (|a|^2 + |a'|^2 + 2 y) + C (|a|^4 + |a'|^4 - 2 y^2)  <=  2 A + 2 C + max over y of (2 A y - 2 C y^2),

which is 4 A for A >= 2 C: then the Gram matrix costs nothing.  Setting a row to zeros moves both: A + C.  The rows of
the Gram matrix are cut to their grid once more, which changes a . a' by at most 2 sqrt(d) 2^-bits, and the bound by 4 C
times that.  Releases that follow from earlier ones compose by the sum of their squared shifts (docs/privacy/proofs.md).
"""

import math
from dataclasses import dataclass
from itertools import pairwise

from plait.privacy.accounting import Cost
from plait.privacy.clipping import Adjacency, exact_bits
from plait.privacy.mechanisms.releases import NoisyGradient, NoisyGram

MOST_FREE = 1 / 3
"""The largest C / (A + C) for which A >= 2 C, so that the Gram matrix costs nothing."""
GROWTH = 2.0
"""The power by which gradients' parts of the budget grow: 1, 4, 9, ...  With 0 all parts would be equal."""


@dataclass(frozen=True)
class Joint:
    """One Gram matrix and then gradients of `records` rows: A and C are their `precision`."""

    gram: NoisyGram
    gradients: tuple[NoisyGradient, ...]
    records: int

    @classmethod
    def for_mu(
        cls, mu: float, gram_fraction: float, gradients: int, gram: tuple[int, float], bound: float,
        adjacency: Adjacency, records: int
    ) -> "Joint":  # fmt: skip
        """Releases that cost mu together; `gram_fraction` is C / (A + C), and `gram` the Gram matrix's width and W."""
        whole = mu**2 / 4 if adjacency is Adjacency.REPLACE else (1 - gram_fraction) * mu**2
        part = whole * gram_fraction / (1 - gram_fraction)
        factor = adjacency.factor
        width, weight_bound = gram
        growing = [k**GROWTH for k in range(1, gradients + 1)]
        parts = [whole * g / sum(growing) for g in growing]
        return cls(
            NoisyGram.for_mu(math.sqrt(factor * part), width, weight_bound, adjacency),
            tuple(NoisyGradient.for_mu(factor * math.sqrt(p), width, bound, adjacency) for p in parts),
            records,
        )

    @property
    def charges(self) -> tuple[Cost, ...]:
        """What each release adds to the cost of those before it, the Gram matrix first."""
        square = [self._shift_square(k) for k in range(len(self.gradients) + 1)]
        rounding = math.hypot(self.gram.rounding, *(g.rounding for g in self.gradients))
        # Rounding adds at most `rounding` to a shift; relative to the shift that is the most after the first release.
        factor = 1 + rounding / math.sqrt(square[0])
        steps = [square[0], *(after - before for before, after in pairwise(square))]
        slack = [self.gram.slack, *(g.slack for g in self.gradients)]
        return tuple(Cost(mu=factor * math.sqrt(s), slack=e) for s, e in zip(steps, slack, strict=True))

    def _shift_square(self, count: int) -> float:
        """The largest shift^2, in units of noise, of the Gram matrix and the first `count` gradients by one row."""
        a, c = sum(g.precision for g in self.gradients[:count]), self.gram.precision
        if self.gram.adjacency is Adjacency.ZERO_OUT:
            return a + c
        y = min(1.0, a / (2 * c))
        cut = 8 * math.sqrt(self.gram.width) * 2.0 ** -exact_bits(self.records)
        return 2 * a + 2 * c + 2 * a * y - 2 * c * y**2 + cut * c
