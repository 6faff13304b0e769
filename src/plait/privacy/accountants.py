"""Accountants: which epsilon a number of Gaussian releases costs, by plait's exact account and by others beside it."""

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from plait._checks import need_type
from plait.privacy.accounting import check_delta, check_epsilon, check_rounds, epsilon_of, frontier, noise_multiplier


@runtime_checkable
class Accountant(Protocol):
    """Says which epsilon a number of Gaussian releases costs.

    Any object with these two members is an accountant.
    """

    @property
    def name(self) -> str:
        """What tables and pictures call it."""
        ...

    def epsilon(self, multiplier: float, rounds: int, delta: float) -> float:
        """The epsilon at `delta` of `rounds` releases with noise sigma = multiplier times the sensitivity."""
        ...


@dataclass(frozen=True)
class ExactAccountant:
    """Exact Gaussian differential privacy: what plait uses.

    Parameters
    ----------
    name : str, default="exact"
        What tables and pictures call it.
    """

    name: str = "exact"

    def epsilon(self, multiplier: float, rounds: int, delta: float) -> float:
        """The epsilon at `delta` of `rounds` releases with noise sigma = multiplier times the sensitivity."""
        return epsilon_of(math.sqrt(rounds) / multiplier, delta)


@dataclass(frozen=True)
class PaperAccountant:
    """The corollary of the ADMM sharing paper: classical sigma per step, then advanced composition.

    Per step delta_0 = delta / (2T), epsilon_0 = sqrt(2 ln(1.25/delta_0)) / multiplier, and in total
    epsilon' = sqrt(2 T ln(1/delta')) epsilon_0 + T epsilon_0 (e^epsilon_0 - 1) with delta' = delta / 2. One
    release is not composed. The underlying theorem needs epsilon_0 <= 1: see `step_epsilon`.

    Parameters
    ----------
    name : str, default="paper"
        What tables and pictures call it.
    """

    name: str = "paper"

    def step_epsilon(self, multiplier: float, rounds: int, delta: float) -> float:
        """epsilon_0 of one step; the theorem holds where it is at most 1."""
        return classical_sigma(1.0, delta if rounds == 1 else delta / (2 * rounds)) / multiplier

    def epsilon(self, multiplier: float, rounds: int, delta: float) -> float:
        """The epsilon at `delta` of `rounds` releases with noise sigma = multiplier times the sensitivity."""
        step = self.step_epsilon(multiplier, rounds, delta)
        if rounds == 1:
            return step
        if step > 700:  # e^709 is the largest power of e that a double holds
            return math.inf
        return math.sqrt(2 * rounds * math.log(2 / delta)) * step + rounds * step * math.expm1(step)


@dataclass(frozen=True)
class ZcdpAccountant:
    """Concentrated privacy: rho = T / (2 multiplier^2), epsilon = rho + 2 sqrt(rho ln 1/delta).

    Parameters
    ----------
    name : str, default="zcdp"
        What tables and pictures call it.
    """

    name: str = "zcdp"

    def epsilon(self, multiplier: float, rounds: int, delta: float) -> float:
        """The epsilon at `delta` of `rounds` releases with noise sigma = multiplier times the sensitivity."""
        rho = rounds / (2 * multiplier**2)
        return rho + 2 * math.sqrt(rho * math.log(1 / delta))


@dataclass(frozen=True)
class RdpAccountant:
    """Renyi privacy at its best order, converted as Canonne, Kamath and Steinke (2020), proposition 12.

    Parameters
    ----------
    name : str, default="rdp"
        What tables and pictures call it.
    """

    name: str = "rdp"

    def epsilon(self, multiplier: float, rounds: int, delta: float) -> float:
        """The epsilon at `delta` of `rounds` releases with noise sigma = multiplier times the sensitivity."""
        from scipy.optimize import minimize_scalar  # imported only where it is used: it loads slowly

        rho = rounds / (2 * multiplier**2)

        def bound(log_order_less_one: float) -> float:
            a = 1 + math.exp(log_order_less_one)
            return a * rho + math.log1p(-1 / a) - math.log(delta * a) / (a - 1)

        # Orders from 1 + 6e-6 to 7e7: the best one lies between them for every epsilon from 1e-6 to 200.
        best = minimize_scalar(bound, bounds=(-12.0, 18.0), method="bounded", options={"xatol": 1e-9})
        return max(0.0, float(best.fun))


def calibrate(accountant: Accountant, epsilon: float, delta: float, rounds: int) -> float:
    """The least noise that an accountant accepts for (epsilon, delta).

    Parameters
    ----------
    accountant : Accountant
        Who says what releases cost.
    epsilon : float
        The epsilon of all releases together.
    delta : float
        The delta of all releases together.
    rounds : int
        How many releases there are.

    Returns
    -------
    float
        sigma / Delta: the noise in units of the sensitivity, rounded up.
    """
    check_epsilon(epsilon)
    check_delta(delta)
    check_rounds(rounds)
    need_type("`accountant`", accountant, Accountant)

    def enough(multiplier: float) -> bool:
        return accountant.epsilon(multiplier, rounds, delta) <= epsilon

    low = high = noise_multiplier(epsilon, delta, rounds)
    while enough(low):
        low /= 2
    while not enough(high):
        high *= 2
    return frontier(enough, holds_at=high, fails_at=low)


def classical_sigma(epsilon: float, delta: float) -> float:
    """The classical sigma / Delta = sqrt(2 ln(1.25/delta)) / epsilon, proved for epsilon <= 1 only."""
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon
