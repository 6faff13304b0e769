"""`plait.fit`: the whole protocol in one call, all parties in this process."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from plait._types import Array
from plait.data.parts import Part, read_labels, read_parts, read_weights
from plait.errors import InputError, SettingError
from plait.methods.base import Method
from plait.privacy.policy import Policy
from plait.problem.features import clip_rows
from plait.problem.losses import Logistic, Loss
from plait.problem.penalties import L2, Penalty
from plait.protection.modes import Protection
from plait.training.history import History
from plait.training.loop import Observer
from plait.training.precision import need_wire
from plait.training.session import ConvergenceWarning, Problem, Session, Trace
from plait.training.stopping import Stopping

__all__ = ["ConvergenceWarning", "Fit", "fit"]


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
    choice: str
    loss: Loss
    guarantee: str = ""
    clip: Mapping[str, float] = field(default_factory=dict)
    """Where rows of private parties are clipped, in training and in scoring."""
    released: Mapping[str, Array] = field(default_factory=dict)
    """Noisy scores of the training rows that a private party released, where it was asked to."""
    protection: str = ""
    """What a protected run has shown, in words and numbers; empty where nothing was protected."""

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
            total += clip_rows(part.matrix, self.clip.get(part.name)) @ weights[part.name]
        return total


def fit(
    parts: Sequence[Any] | Mapping[str, Any],
    y: Any,
    *,
    loss: Loss | None = None,
    penalty: Penalty | Sequence[Penalty] | Mapping[str, Penalty] | None = None,
    method: Method | str = "auto",
    stopping: Stopping | None = None,
    fit_intercept: bool = False,
    sample_weight: Any = None,
    callbacks: Sequence[Observer] = (),
    seed: int = 0,
    privacy: Any = None,
    trace: Trace | None = None,
    wire: str = "float64",
    protection: Protection | str | None = None,
) -> Fit:
    """Train one linear model over the columns of all parties.

        minimise   mean_i loss(z_i; y_i) + sum_m penalty_m(x_m),     z = sum_m D_m x_m + b

    parts          a list of matrices (N, d_m), or a dict name -> matrix: NumPy, SciPy sparse, pandas or polars
    y              labels (N,)
    method         a method, or "auto" for the one that needs the fewest rounds; fit.choice says which and why
    penalty        one for all parties, or one per party (list or dict like parts)
    callbacks      each is called with the record of every round, as it happens
    seed           makes methods that draw random numbers repeat
    privacy        a mechanism for all parties, one per party (list or dict like parts), or a plait.privacy.Policy;
                   fit.guarantee says in words what it protects, and None is plait.privacy.NoPrivacy()
    wire           "float32" sends half the bytes, "int16" a quarter; the weights stay as exact as the tolerance asks
    protection     "labels": parties learn D_m^T g and never g, so not the labels; "sums": also the coordinator learns
                   only sums over the parties; or a plait.protection.modes.Protection.  Experimental
    trace          called after every round with its number and every party's weights, which only a simulation can see
    """
    need_wire(wire)
    shield = Protection.of(protection)
    read = read_parts(parts)
    loss = Logistic() if loss is None else loss
    stopping = Stopping() if stopping is None else stopping
    policy = Policy.of(privacy)
    rows = read[0].matrix.shape[0]
    labels = loss.labels(read_labels(y, rows))
    loss, labels, softness = policy.protect_labels(loss, labels)
    penalties = policy.steadied(_penalties(penalty, read), {p.name: p.matrix for p in read}, softness)
    problem = Problem(read, labels, read_weights(sample_weight, rows), loss, penalties, fit_intercept)
    session = Session(problem, policy, method, stopping, tuple(callbacks), trace, precision=wire, protection=shield)
    done = session.train()
    return Fit(
        weights=dict(done.model.weights) if isinstance(parts, Mapping) else list(done.model.weights.values()),
        intercept=done.model.intercept,
        objective=done.outcome.history.last.objective,
        rounds=len(done.outcome.history),
        converged=done.outcome.reason.converged,
        reason=done.outcome.reason.text,
        history=done.outcome.history,
        method=done.choice.method,
        choice=done.choice.reason,
        loss=loss,
        guarantee=policy.guarantee(problem.names),
        clip=done.clip,
        released=done.released,
        protection=done.protection,
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
    elif not isinstance(given, Sequence):
        raise SettingError(f"penalty must be a penalty, or one per party. Found {given!r}. Write plait.L2(0.1), say.")
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
