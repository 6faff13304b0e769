"""How much a party is willing to spend on the people in one table."""

from dataclasses import dataclass

from plait.privacy.accounting import Cost, check_delta, check_epsilon
from plait.privacy.ledger.hash_chain import Body


@dataclass(frozen=True)
class Budget:
    """What a party is willing to spend on the people in one table, over all runs and trials.

    Parameters
    ----------
    epsilon : float
        The total epsilon.
    delta : float, default=1e-5
        The total delta; it should be far below one divided by the number of rows.
    """

    epsilon: float
    delta: float = 1e-5

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_delta(self.delta)

    def covers(self, cost: Cost) -> bool:
        """Whether the whole cost stays within this budget."""
        return cost.delta(self.epsilon) <= self.delta

    def encode(self) -> Body:
        """The budget as the ledger's file has it."""
        return {"epsilon": self.epsilon, "delta": self.delta}


@dataclass(frozen=True)
class Unlimited:
    """No limit: releases without a guarantee are recorded and allowed."""

    def covers(self, cost: Cost) -> bool:
        """Always."""
        return True

    def encode(self) -> Body:
        """The missing limit as the ledger's file has it."""
        return {"epsilon": None, "delta": None}
