"""A data set prepared once for many runs: its parts keep their factorisations."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning as PooledConvergenceWarning

from plait._types import Array
from plait.data.datasets import Dataset
from plait.data.parts import Part, read_parts
from plait.methods.base import Method
from plait.methods.sgd import Sgd
from plait.methods.subspace.method import Subspace
from plait.privacy.mechanisms.paper import NoGuaranteeWarning
from plait.privacy.policy import Policy
from plait.problem.penalties import L2
from plait.training.convergence import ConvergenceWarning
from plait.training.fit import fit
from plait.training.stopping import Stopping
from reproduction.records import Trail

Weights = dict[str, Array]


@dataclass(frozen=True)
class Subject:
    """Logistic regression with (1/2N) ||x||^2, which is scikit-learn's default C = 1, and no intercept."""

    data: Dataset
    parts: dict[str, Part]

    @classmethod
    def of(cls, data: Dataset) -> "Subject":
        return cls(data, {part.name: part for part in read_parts(data.parts)})

    @property
    def alpha(self) -> float:
        return 1 / self.data.y.size

    @cached_property
    def pooled(self) -> Any:
        """All training columns side by side."""
        return side_by_side(self.data.parts)

    def run(self, method: Method, epochs: int, setting: str, privacy: Policy | None = None) -> Trail:
        """Train, and look at the model after every epoch."""
        return self.run_with_weights(method, epochs, setting, privacy)[0]

    def run_with_weights(
        self, method: Method, epochs: int, setting: str, privacy: Policy | None = None
    ) -> tuple[Trail, list[Weights]]:
        """The run and the weights at its start and after every epoch; it may go wherever it goes."""
        seen: dict[int, Weights] = {}
        rule = Stopping(max_rounds=epochs, tol=0, guarded=False)
        with quietly():
            done = fit(
                self.parts,
                self.data.y,
                penalty=L2(self.alpha),
                method=method,
                stopping=rule,
                privacy=privacy,
                trace=seen.__setitem__,
                fit_intercept=False,
            )
            assert isinstance(done.weights, dict)
            states = [seen[epoch] for epoch in sorted(seen)]
            if isinstance(method, Subspace):
                states = [*states, done.weights]  # a round's trace shows where the round began
            elif not isinstance(method, Sgd):
                states = [{name: np.zeros_like(x) for name, x in done.weights.items()}, *states]
            history = done.history
            objective = (history.start.objective, *(r.objective for r in history))
            lyapunov = () if isinstance(method, Sgd) else tuple(r.lyapunov for r in history)
            return Trail(setting, objective, tuple(self.test_losses(states)), lyapunov), states

    def test_losses(self, states: Sequence[Weights]) -> list[float]:
        """The test log loss of every state."""
        z = scores(self.data.test_parts, states)
        return [float(self.losses_of(column).mean()) for column in z.T]

    def losses_of(self, z: Array) -> Array:
        """The log loss of every test row, given their scores."""
        return np.logaddexp(0, -self.data.y_test * z)

    def training_scores(self, states: Sequence[Weights]) -> Array:
        """D x for every state, (N, states)."""
        return scores(self.data.parts, states)

    def test_loss_of(self, model: Any, columns: slice = slice(None)) -> float:
        """The test log loss of a scikit-learn model on some of the pooled columns."""
        x = side_by_side(self.data.test_parts)[:, columns]
        return float(self.losses_of(model.decision_function(x)).mean())


def scores(parts: dict[str, Any], states: Sequence[Weights]) -> Array:
    """sum_m D_m x_m for every state, (N, states)."""
    return np.sum([d @ np.stack([s[name] for s in states], axis=1) for name, d in parts.items()], axis=0)


def side_by_side(parts: dict[str, Any]) -> Any:
    """The pooled table, dense or CSR."""
    blocks = list(parts.values())
    return sp.hstack(blocks, format="csr") if sp.issparse(blocks[0]) else np.hstack(blocks)


@contextmanager
def quietly() -> Iterator[None]:
    """Runs here end early or diverge on purpose, and the paper's noise is known to guarantee nothing."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        for kind in (ConvergenceWarning, NoGuaranteeWarning, PooledConvergenceWarning):
            warnings.simplefilter("ignore", kind)
        yield
