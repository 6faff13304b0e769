"""What a sequence of Gaussian releases costs: exact Gaussian differential privacy in closed form.

A release with sensitivity Delta and noise sigma is mu-GDP with mu = Delta / sigma (Dong, Roth and Su 2022),
adaptive releases compose as mu^2 = sum_i mu_i^2, and mu-GDP is (epsilon, delta)-DP exactly for

    delta(epsilon, mu) = Phi(-epsilon/mu + mu/2) - e^epsilon Phi(-epsilon/mu - mu/2).

Every function that returns a bound returns a number for which the bound was evaluated and holds.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from scipy.special import erfcx, log_ndtr

from plait._checks import need_type
from plait.errors import PrivacyError, SettingError

LARGEST_EPSILON = 200.0
"""Beyond this e^epsilon is so large that a guarantee says nothing; asking for it is a mistake."""
_MOST_ROUNDS = 10**15  # releases: whole numbers up to it are exact floats, and no run has so many


def log_delta(epsilon: float, mu: float) -> float:
    """log delta(epsilon, mu), accurate far into the tail; -inf for mu = 0."""
    if mu == 0.0:
        return -math.inf
    if math.isinf(mu):
        return 0.0
    t = epsilon / mu
    if t >= mu / 2:
        # e^epsilon Phi(-t - mu/2) and Phi(-t + mu/2) share the factor exp(-(t - mu/2)^2 / 2).
        u, v = (t - mu / 2) / math.sqrt(2), (t + mu / 2) / math.sqrt(2)
        gap = float(erfcx(u) - erfcx(v)) / 2
        return -u * u + math.log(gap) if gap > 0 else -math.inf
    first = float(log_ndtr(-t + mu / 2))
    second = epsilon + float(log_ndtr(-t - mu / 2))
    return first + math.log(-math.expm1(second - first)) if second < first else -math.inf


def delta_of(epsilon: float, mu: float) -> float:
    """The smallest delta for which every mu-GDP mechanism is (epsilon, delta)-DP.

    Parameters
    ----------
    epsilon : float
        The epsilon of the guarantee, zero or positive.
    mu : float
        What the releases cost, in Gaussian differential privacy.

    Returns
    -------
    float
        Phi(-epsilon/mu + mu/2) - e^epsilon Phi(-epsilon/mu - mu/2).
    """
    _need_cost("epsilon", epsilon)
    _need_cost("mu", mu)
    return math.exp(log_delta(epsilon, mu))


def epsilon_of(mu: float, delta: float) -> float:
    """The smallest epsilon for which every mu-GDP mechanism is (epsilon, delta)-DP.

    Parameters
    ----------
    mu : float
        What the releases cost, in Gaussian differential privacy.
    delta : float
        The delta of the guarantee, between 0 and 1.

    Returns
    -------
    float
        Epsilon, rounded up; inf where mu is infinite.
    """
    check_delta(delta)
    _need_cost("mu", mu)
    if math.isinf(mu):
        return math.inf
    target = math.log(delta)
    if log_delta(0.0, mu) <= target:
        return 0.0
    # At this point -epsilon/mu + mu/2 = -sqrt(2 ln 1/delta), and Phi of that is at most delta.
    enough = mu * mu / 2 + mu * math.sqrt(-2 * target)
    return frontier(lambda e: log_delta(e, mu) <= target, holds_at=enough, fails_at=0.0)


def mu_of(epsilon: float, delta: float) -> float:
    """The largest mu for which every mu-GDP mechanism is (epsilon, delta)-DP.

    Parameters
    ----------
    epsilon : float
        The epsilon of the guarantee, positive.
    delta : float
        The delta of the guarantee, between 0 and 1.

    Returns
    -------
    float
        mu, rounded down.
    """
    check_epsilon(epsilon)
    check_delta(delta)
    target = math.log(delta)
    low = high = 1.0
    while log_delta(epsilon, low) > target:
        low /= 2
    while log_delta(epsilon, high) <= target:
        high *= 2
    return frontier(lambda mu: log_delta(epsilon, mu) <= target, holds_at=low, fails_at=high)


def compose(mus: Iterable[float]) -> float:
    """mu of adaptively composed mu_i-GDP releases: sqrt(sum_i mu_i^2)."""
    return math.hypot(*mus)


def noise_multiplier(epsilon: float, delta: float, rounds: int = 1) -> float:
    """The least noise that makes a number of releases (epsilon, delta)-DP together.

    Parameters
    ----------
    epsilon : float
        The epsilon of all releases together.
    delta : float
        The delta of all releases together.
    rounds : int, default=1
        How many releases there are; each may depend on those before it.

    Returns
    -------
    float
        sigma / Delta: the noise in units of the sensitivity, rounded up.
    """
    check_rounds(rounds)
    multiplier = math.sqrt(rounds) / mu_of(epsilon, delta)
    while delta_of(epsilon, math.sqrt(rounds) / multiplier) > delta:
        multiplier = math.nextafter(multiplier, math.inf)
    return multiplier


@dataclass(frozen=True)
class Cost:
    """What releases cost.  Costs add up: `a + b` is the cost of both.

    Releases of this cost are (epsilon, e^slack delta(epsilon - pure - slack, mu))-DP for every epsilon that is at
    least pure + slack.

    Parameters
    ----------
    mu : float, default=0.0
        The part of Gaussian noise, in Gaussian differential privacy; inf where nothing is guaranteed.
    pure : float, default=0.0
        The part of randomised response: an epsilon without a delta.
    slack : float, default=0.0
        What discrete noise adds to epsilon over continuous noise.
    """

    mu: float = 0.0
    pure: float = 0.0
    slack: float = 0.0

    def __post_init__(self) -> None:
        for name in ("mu", "pure", "slack"):
            _need_cost(name, getattr(self, name))

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(compose([self.mu, other.mu]), self.pure + other.pure, self.slack + other.slack)

    def times(self, count: int) -> "Cost":
        """The cost of `count` such releases."""
        if count == 0:
            return Cost()
        return Cost(self.mu * math.sqrt(count), self.pure * count, self.slack * count)

    def delta(self, epsilon: float) -> float:
        """A delta for which a transcript of this cost is (epsilon, delta)-DP; 1 where nothing holds."""
        rest = epsilon - self.pure - self.slack
        # The margin covers rounding errors of added costs.
        if rest < -1e-12 * epsilon or math.isinf(self.mu) or math.isinf(self.pure):
            return 1.0
        return min(1.0, math.exp(self.slack) * delta_of(max(rest, 0.0), self.mu))

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon, rounded up, for which a transcript of this cost is (epsilon, delta)-DP."""
        check_delta(delta)
        if math.isinf(self.mu) or math.isinf(self.pure):
            return math.inf
        return self.pure + self.slack + epsilon_of(self.mu, delta * math.exp(-self.slack))


def _need_cost(name: str, value: float) -> None:
    need_type(f"`{name}`", value, float)
    if math.isnan(value) or value < 0:
        raise SettingError(f"`{name}` of a cost must be zero or positive. Found {value}.")


def check_epsilon(epsilon: float) -> None:
    need_type("`epsilon`", epsilon, float)
    if not 0 < epsilon <= LARGEST_EPSILON:
        raise SettingError(
            f"`epsilon` must lie in (0, {LARGEST_EPSILON:g}]. Found {epsilon}. Choose 0.1 to 10. To "
            "run without privacy, use NoPrivacy()."
        )


def check_delta(delta: float, records: int | None = None) -> None:
    """Refuse a delta outside (0, 1), or one that showing one row of N in the clear would satisfy."""
    need_type("`delta`", delta, float)
    if not 0 < delta < 1:
        raise SettingError(f"`delta` must lie strictly between 0 and 1. Found {delta}. A common choice is 1e-5.")
    if records is not None and delta >= 1 / records:
        raise PrivacyError(
            f"`delta` must be below 1/N, or showing one row in the clear would count as private. Found "
            f"delta = {delta:g} with N = {records} rows. Choose at most {0.1 / records:.0e}."
        )


def check_rounds(rounds: int) -> None:
    need_type("`rounds`", rounds, int)
    if not 1 <= rounds <= _MOST_ROUNDS:
        raise SettingError(f"`rounds` must lie in [1, {_MOST_ROUNDS:,}]. Found {rounds}.")


def frontier(holds: Callable[[float], bool], holds_at: float, fails_at: float) -> float:
    """The last point before the boundary of a monotone condition at which it was evaluated and holds."""
    while True:
        middle = (holds_at + fails_at) / 2
        if middle in (holds_at, fails_at):
            return holds_at
        if holds(middle):
            holds_at = middle
        else:
            fails_at = middle
