"""How much a party is willing to spend on the people in one table."""

from dataclasses import dataclass

from plait._checks import need_types
from plait.errors import PrivacyError
from plait.privacy.accounting import Cost, check_delta, check_epsilon
from plait.privacy.clipping import Adjacency
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
    adjacency : Adjacency, default=Adjacency.REPLACE
        What the account counts: how much more likely things become when one row is replaced, or set to zeros.
    """

    epsilon: float
    delta: float = 1e-5
    adjacency: Adjacency = Adjacency.REPLACE

    def __post_init__(self) -> None:
        need_types(self)
        check_epsilon(self.epsilon)
        check_delta(self.delta)

    def covers(self, cost: Cost) -> bool:
        """Whether the whole cost stays within this budget."""
        return cost.delta(self.epsilon) <= self.delta

    def check(self, rows: int) -> None:
        """PrivacyError for a delta that showing one of so many rows in the clear would satisfy."""
        check_delta(self.delta, rows)

    def need_adjacency(self, found: Adjacency) -> None:
        """PrivacyError where this account counts REPLACE and the mechanism states its cost for ZERO_OUT.

        The other way round is allowed: a row may be replaced by zeros, so a cost for REPLACE holds for ZERO_OUT.
        """
        if self.adjacency is Adjacency.REPLACE and found is not Adjacency.REPLACE:
            raise PrivacyError(
                f"this budget counts what changes when somebody may {self.adjacency.value}. Found a mechanism that "
                f"counts what changes when one may {found.value}, which is about half of it. Nothing was released. "
                'Ask for adjacency = "replace", or let the owner say Budget(adjacency=Adjacency.ZERO_OUT), or '
                'privacy.adjacency = "zero-out" in the party\'s own file.'
            )

    def encode(self) -> Body:
        """The budget as the ledger's file has it."""
        body: Body = {"epsilon": self.epsilon, "delta": self.delta}
        return body if self.adjacency is Adjacency.REPLACE else {**body, "adjacency": self.adjacency.name}


@dataclass(frozen=True)
class Unlimited:
    """No limit: releases without a guarantee are recorded and allowed."""

    def covers(self, cost: Cost) -> bool:
        """Always."""
        return True

    def check(self, rows: int) -> None:
        """Any: nothing is promised."""

    def need_adjacency(self, found: Adjacency) -> None:
        """Any: nothing is counted."""

    def encode(self) -> Body:
        """The missing limit as the ledger's file has it."""
        return {"epsilon": None, "delta": None}
