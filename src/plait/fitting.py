"""`plait.fit`: the whole protocol in one call, all parties in this process."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from plait.coordinator import Coordinator
from plait.data.parts import Part, read_labels, read_parts, read_weights
from plait.errors import InputError, SettingError
from plait.history import History
from plait.losses import Logistic, Loss
from plait.matrix import Features
from plait.methods.base import Block, Method, Task
from plait.methods.proximal import Proximal
from plait.party import Party
from plait.penalties import L2, Penalty
from plait.protocol import Observer, run
from plait.stopping import Stopping
from plait.transports.inprocess import InProcess
from plait.types import Array


class ConvergenceWarning(UserWarning):
    """A run ended by its limit on rounds or time, before its tolerance was reached."""


@dataclass(frozen=True)
class Fit:
    """A trained model: each party's weights, the intercept, and how the run went."""

    weights: list[Array] | dict[str, Array]
    intercept: float
    objective: float
    rounds: int
    converged: bool
    reason: str
    history: History
    method: Method
    loss: Loss

    def scores(self, parts: Any) -> Array:
        """z = sum_m D_m x_m + b for new rows (N,); parts as in `plait.fit`."""
        read = read_parts(parts)
        named = isinstance(self.weights, dict)
        weights = (
            self.weights if isinstance(self.weights, dict) else dict(zip(_names(read), self.weights, strict=False))
        )
        if len(read) != len(self.weights) or (named and set(_names(read)) != set(weights)):
            expected = list(weights) if named else f"{len(self.weights)} parties, in the order of training"
            raise InputError(f"parts must come from {expected}. Found {list(_names(read))}.")
        total = np.full(read[0].matrix.shape[0], self.intercept)
        for part in read:
            if part.matrix.shape[1] != weights[part.name].size:
                raise InputError(
                    f"party {part.name!r} must bring the {weights[part.name].size} columns it was trained on. "
                    f"Found {part.matrix.shape[1]}."
                )
            total += part.matrix @ weights[part.name]
        return total


def fit(
    parts: Sequence[Any] | Mapping[str, Any],
    y: Any,
    *,
    loss: Loss | None = None,
    penalty: Penalty | Sequence[Penalty] | Mapping[str, Penalty] | None = None,
    method: Method | None = None,
    stopping: Stopping | None = None,
    fit_intercept: bool = False,
    sample_weight: Any = None,
    callbacks: Sequence[Observer] = (),
    seed: int = 0,
) -> Fit:
    """Train one linear model over the columns of all parties.

        minimise   mean_i loss(z_i; y_i) + sum_m penalty_m(x_m),     z = sum_m D_m x_m + b

    parts          a list of matrices (N, d_m), or a dict name -> matrix: NumPy, SciPy sparse, pandas or polars
    y              labels (N,)
    penalty        one for all parties, or one per party (list or dict like parts)
    callbacks      each is called with the record of every round, as it happens
    seed           makes methods that draw random numbers repeat
    """
    read = read_parts(parts)
    loss = Logistic() if loss is None else loss
    method = Proximal() if method is None else method
    stopping = Stopping() if stopping is None else stopping
    rows = read[0].matrix.shape[0]
    labels = loss.labels(read_labels(y, rows))
    weights = read_weights(sample_weight, rows)
    penalties = _penalties(penalty, read)
    method.check(loss, penalties)
    parties = {p.name: Party(p.name, Block(Features(p.matrix), penalties[p.name], loss, weights), method) for p in read}
    coordinator = Coordinator(Task(loss, labels, weights, _names(read), fit_intercept), method)
    outcome = run(coordinator, InProcess({n: p.handle for n, p in parties.items()}), stopping, callbacks)
    if not outcome.reason.converged:
        warnings.warn(
            f"the run ended before its tolerance was reached: {outcome.reason.text}. "
            "Allow more rounds, or loosen Stopping(tol).",
            ConvergenceWarning,
            stacklevel=2,
        )
    trained = {name: party.weights for name, party in parties.items()}
    return Fit(
        weights=trained if isinstance(parts, Mapping) else list(trained.values()),
        intercept=coordinator.intercept,
        objective=outcome.history[-1].objective,
        rounds=len(outcome.history),
        converged=outcome.reason.converged,
        reason=outcome.reason.text,
        history=outcome.history,
        method=method,
        loss=loss,
    )


def _names(parts: Sequence[Part]) -> tuple[str, ...]:
    return tuple(part.name for part in parts)


def _penalties(given: Any, parts: Sequence[Part]) -> dict[str, Penalty]:
    """One penalty per party, each checked against the party's width."""
    names = _names(parts)
    if given is None:
        given = L2(1e-4)
    if isinstance(given, Penalty):
        chosen = dict.fromkeys(names, given)
    elif isinstance(given, Mapping):
        if set(given) != set(names):
            raise SettingError(f"penalty must name exactly the parties {list(names)}. Found {list(given)}.")
        chosen = {name: given[name] for name in names}
    else:
        listed = list(given)
        if len(listed) != len(names):
            raise SettingError(f"there must be one penalty, or one per party ({len(names)}). Found {len(listed)}.")
        chosen = dict(zip(names, listed, strict=True))
    for part in parts:
        if not isinstance(chosen[part.name], Penalty):
            raise SettingError(f"the penalty of party {part.name!r} must be a penalty. Found {chosen[part.name]!r}.")
        try:
            chosen[part.name].check(part.matrix.shape[1])
        except InputError as error:
            raise InputError(f"party {part.name!r}: {error}") from None
    return chosen
