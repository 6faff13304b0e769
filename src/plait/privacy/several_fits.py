"""What several fits cost together: the folds of a cross-validation, or a grid.

Folds share rows, so every fit is charged to the same people.  mu^2 adds up; the epsilons of labels add up.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from plait.errors import BudgetError
from plait.privacy.accounting import Cost, mu_of
from plait.privacy.ledger.known_tables import LABEL_HOLDER
from plait.privacy.ledger.ledger import Ledger
from plait.privacy.mechanisms.base import GuaranteedMechanism, LabelMechanism, Mechanism

_SLACK = 1e-7
"""Part of epsilon that each further fit may cost for its discrete noise: tables of usual size need far less."""
_MOST = 1000  # fits: a search says so many where the budget covers more


@dataclass(frozen=True)
class SeveralFits:
    """The accounts that several fits charge, with the cost of one fit in each.

    mechanisms   party -> its mechanism
    labels       how labels are protected, None where they are not
    named        whether rows have ids: then their labels are reported once for all fits
    """

    mechanisms: Mapping[str, Mechanism]
    labels: LabelMechanism | None
    named: bool

    def costs(self, fits: int) -> dict[str, Cost]:
        """Account -> what so many fits cost it, at most."""
        found = {}
        for name, m in self.mechanisms.items():
            if isinstance(m, GuaranteedMechanism):
                slack = (fits - 1) * _SLACK * m.epsilon
                found[name] = Cost(mu=mu_of(m.epsilon, m.delta)).times(fits) + Cost(slack=slack)
        if self.labels is not None:
            found[LABEL_HOLDER] = self.labels.cost.times(1 if self.named else fits)
        return found

    def quote(self, fits: int) -> dict[str, float]:
        """Account -> the epsilon of so many fits, at the mechanism's delta; at most this."""
        deltas = {name: m.delta for name, m in self.mechanisms.items() if isinstance(m, GuaranteedMechanism)}
        costs = self.costs(fits).items()
        return {name: cost.epsilon(deltas[name]) if name in deltas else cost.pure for name, cost in costs}

    def require(self, ledger: Callable[[str], Ledger], run: str, fits: int) -> None:
        """BudgetError where a budget does not cover so many fits; what the run has spent counts as part of them."""
        for name, cost in self.costs(fits).items():
            account = ledger(name)
            left = _left(cost, account) if name == LABEL_HOLDER else cost
            account.check(left, f"{fits} fits of {run}", "none of these")

    def announce(self, ledger: Callable[[str], Ledger], run: str, fits: int) -> None:
        """Note in every account that the run makes so many fits; BudgetError, and no note, where one is too small."""
        accounts = {name: (ledger(name), cost) for name, cost in self.costs(fits).items()}
        if self.labels is not None and self.named:  # the labels of these ids may have been reported before
            account, cost = accounts[LABEL_HOLDER]
            accounts[LABEL_HOLDER] = account, _left(cost, account)
        for account, cost in accounts.values():
            account.need_room(cost, run, fits)
        for account, cost in accounts.values():
            account.announce(cost, run, fits)

    def refusal(self, ledger: Callable[[str], Ledger]) -> BudgetError:
        """What is said to a cross-validation that has not said how many fits it makes."""
        one, ten = self.quote(1), self.quote(10)
        lines = [
            f"For {name!r} one fit costs epsilon = {one[name]:.4g}, ten cost {ten[name]:.4g}, and the budget covers "
            f"{self._covered(name, ledger(name))}."
            for name in one
        ]
        return BudgetError(
            "A cross-validation or a grid search is paid fit by fit, and the budget must cover all of them before the "
            "first. Found a copy of an estimator, as a search makes one for every fit, and not how many there will be. "
            "Say it: Policy(fits=...), folds times settings, and one more where the search trains the best again. "
            + " ".join([*lines, "Nothing was trained."])
        )

    def _covered(self, name: str, account: Ledger) -> str:
        spent, fits = account.spent(), 0
        while fits < _MOST and account.budget.covers(spent + self.costs(fits + 1)[name]):
            fits += 1
        return f"{fits} more" if fits < _MOST else "any number"


def _left(cost: Cost, account: Ledger) -> Cost:
    """What is left to pay of the cost of labels, where all that the account has spent is part of it."""
    return Cost(pure=max(0.0, cost.pure - account.spent().pure))
