"""`plait.fit`: the whole protocol in one call, all parties in this process."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from plait._checks import need_type
from plait._types import Array
from plait.data.memory import Room, amount, lend_no_memory
from plait.data.parts import Part, read_labels, read_parts, read_weights
from plait.data.row_index import check_index
from plait.errors import InputError, PrivacyError, SettingError
from plait.methods.base import Method
from plait.methods.registry import AUTO
from plait.privacy.policy import Policy
from plait.problem.losses import Loss
from plait.problem.penalties import Penalty
from plait.problem.registry import DEFAULT_LOSS, DEFAULT_PENALTY, PENALTIES, canonical, loss_of, penalty_of, takes_alpha
from plait.protection.modes import DEFAULT_PROTECTION, Protection
from plait.training.assembly import RunSpec
from plait.training.blind_shield import check_blind
from plait.training.fit_result import Fit
from plait.training.loop import Observer
from plait.training.precision import DEFAULT_PRECISION, need_precision
from plait.training.protected import protected_form
from plait.training.session import Session, Trace
from plait.training.stopping import Stopping
from plait.training.under_policy import choose

FIT_INTERCEPT = True
"""The default everywhere: an unpenalised constant rarely hurts, and a model without one is rarely meant."""


def fit(
    parts: Sequence[Any] | Mapping[str, Any],
    y: Any,
    *,
    loss: Loss | str = DEFAULT_LOSS,
    penalty: Penalty | str | Sequence[Penalty | str] | Mapping[str, Penalty | str] = DEFAULT_PENALTY,
    alpha: float | None = None,
    l1_ratio: float | None = None,
    method: Method | str = AUTO,
    stopping: Stopping | None = None,
    fit_intercept: bool = FIT_INTERCEPT,
    sample_weight: Any = None,
    callbacks: Sequence[Observer] = (),
    privacy: Any = None,
    trace: Trace | None = None,
    precision: str = DEFAULT_PRECISION,
    protection: Protection | str = DEFAULT_PROTECTION,
    start: Sequence[Any] | Mapping[str, Any] | None = None,
    memory: str | int | None = None,
) -> Fit:
    """Train one linear model over the columns of all parties.

        minimise   mean_i loss(z_i; y_i) + sum_m penalty_m(x_m),     z = sum_m D_m x_m + b

    Parameters
    ----------
    parts : list or dict of tables (N, d_m)
        One table per party: NumPy, SciPy sparse, pandas, polars, anything with the Arrow C stream interface, or the
        path of a CSV, Parquet or Arrow file or of a folder of Parquet files.  A dict names the parties.  All tables
        hold the same rows in the same order.
    y : array-like of shape (N,)
        Labels: -1/+1 or 0/1 for the losses of classifiers, numbers for the others.
    loss : Loss or str, default="logistic"
        A loss such as `plait.Huber(2.0)`, or its name: "logistic", "squared", "squared-hinge", "hinge", "huber",
        "poisson", "pinball" or "cauchy".
    penalty : Penalty or str, or a list or dict of them, default="l2"
        One for all parties, or one per party (a list or dict like `parts`): a penalty such as `plait.L1(0.1)`, or its
        name: "l2", "l1", "none", "elastic-net", "log", "box", "ball" or "non-negative".
    alpha : float, default=None
        The strength of penalties that are given by name; None is 1e-4.
    l1_ratio : float, default=None
        The part of the L1 norm in an elastic net that is given by name, from 0 to 1; None is 0.5.
    method : Method or str, default="auto"
        How to train: a method such as `plait.Proximal(rho=1.0)`, or its name: "subspace", "augmented", "proximal",
        "jacobi", "gauss-seidel" or "sgd".  "auto" takes the one with the fewest rounds; `Fit.choice` says why.
    stopping : Stopping, default=None
        When to stop; None is `plait.Stopping()`.
    fit_intercept : bool, default=True
        Add a constant b that is not penalised.
    sample_weight : array-like of shape (N,), or float, default=None
        How much every row counts; None and one number for all count them alike.
    callbacks : list of callables, default=()
        Each is called with the record (`plait.Round`) of every round, as it happens.
    privacy : mechanism, list or dict of mechanisms, or Policy, default=None
        A mechanism of `plait.privacy` for all parties, one per party, or a policy.  None protects nothing.
        `Fit.guarantee` says in words what is protected.
    trace : callable, default=None
        Called after every round with its number and a dict of all parties' weights, which only a simulation can see.
    precision : str, default="float64"
        How the numbers of a vector are sent: "float64", "float32" in half the bytes, or "int16" in a quarter, as long
        as that gains something: then "float32", too.  The weights become as exact as the tolerance asks.
    protection : str or Protection, default="plain"
        "labels": parties learn D_m^T g and never g, so not the labels.  "sums": also the coordinator learns only sums
        over the parties.  "blind": two parties, the first with the labels, and a third machine that sees both under
        random signs in a random order.  Or a `plait.Protection`.  Experimental: see `Fit.protection`.
    start : list or dict of array-like of shape (d_m,), default=None
        The weights of an earlier model with the same columns, `Fit.weights`: the first step that every party proposes.
        ADMM and runs with helpers begin at zero nevertheless; runs with protected labels refuse it.
    memory : str or int, default=None
        What this process may take in all, such as "1.5 GB"; None for what is free.  Files and Arrow streams that are
        larger than a third of it are held on disk, in row blocks.  The results are the same.

    Returns
    -------
    Fit
        The weights, the intercept, and how the run went.

    Raises
    ------
    InputError
        When tables or labels cannot be used: missing numbers, other rows at another party, text.
    SettingError
        When an option has an impossible value, or two do not go together.
    DivergedError
        When the run moves away from every solution.

    Examples
    --------
    >>> import numpy as np, plait
    >>> rng = np.random.default_rng(0)
    >>> bank, shop = rng.normal(size=(500, 3)), rng.normal(size=(500, 2))
    >>> repaid = bank[:, 0] + shop[:, 1] + rng.logistic(size=500) > 0
    >>> model = plait.fit({"bank": bank, "shop": shop}, repaid, penalty="l2", alpha=1e-3)
    >>> model.converged, [c.party for c in model.coefficients()]
    (True, ['bank', 'bank', 'bank', 'shop', 'shop'])
    """
    need_precision(precision)
    need_type("fit_intercept", fit_intercept, bool)
    observers, trace = _callables("callbacks", callbacks), None if trace is None else _callable("trace", trace)
    stopping = Stopping() if stopping is None else stopping
    need_type("stopping", stopping, Stopping)
    chosen = loss_of(loss)
    room = Room(amount(memory))
    if room.limit:
        lend_no_memory()
    read = read_parts(parts, room)
    rows = read[0].matrix.shape[0]
    check_index(parts, {"y": y, "sample_weight": sample_weight})
    labels = chosen.labels(read_labels(y, rows))
    weights = None if sample_weight is None else read_weights(sample_weight, rows)
    if weights is not None and np.all(weights == weights[0]):
        weights = None  # all rows count alike, and nobody has to be told
    penalties = _penalties(penalty, alpha, l1_ratio, read)
    policy = Policy.of(privacy)
    protections = policy.protections(_names(read), chosen)
    shield = Protection.of(protection)
    choice = choose(method, protections, penalties)
    method_used = choice.method
    if shield is not None:
        if protections.protecting or protections.labels or precision != "float64":
            raise SettingError(
                "protection goes with no privacy mechanism and precision 'float64' so far. Leave one out."
            )
        if shield.mode == "blind":
            check_blind(_names(read), chosen, penalties, weights is not None, bool(fit_intercept))
            if start is not None:
                raise SettingError("a run with a blind machine begins at zero. Found start. Leave it out.")
        method_used = protected_form(choice.method, shield, _names(read), weights is not None)
    spec = RunSpec(
        penalties,
        method_used,
        stopping,
        bool(fit_intercept),
        protections,
        policy,
        precision=precision,
        weighted=weights is not None,
        protection=shield,
    )
    starts = {} if start is None else _starts(start, read, protections.labels)
    session = Session(spec, read, labels, weights, observers, trace, starts=starts, workspace=room.workspace(rows))
    done = session.train()
    return Fit(
        weights=dict(done.model.weights) if isinstance(parts, Mapping) else list(done.model.weights.values()),
        intercept=done.model.intercept,
        objective=done.outcome.history.last.objective,
        rounds=len(done.outcome.history),
        converged=done.outcome.reason.converged,
        gap=done.outcome.history.last.gap,
        certified=bool(done.outcome.history.last.gap <= stopping.tol),
        reason=done.outcome.reason.text,
        history=done.outcome.history,
        method=choice.method,
        choice=choice.reason if shield is None else f"{choice.reason}; {shield.mode} protected",
        loss=protections.loss,
        columns={part.name: part.columns for part in read},
        guarantee=protections.guarantee,
        clip=protections.clip,
        released=done.released,
        uncovered=protections.uncovered,
        protection=done.shown,
    )


def _need_no_start() -> None:
    """PrivacyError: nobody can tell which labels an earlier model was trained on."""
    raise PrivacyError(
        "a run with protected labels begins at zero, for weights of an earlier model may have been trained on the true "
        "labels, and everybody sees where a run begins. Found start, or warm_start. Leave it out."
    )


def _starts(start: Any, parts: Sequence[Part], protected_labels: bool) -> dict[str, Array]:
    """The weights of an earlier model, party by party."""
    if protected_labels:
        _need_no_start()
    try:
        given = dict(start) if isinstance(start, Mapping) else dict(zip(_names(parts), start, strict=True))
        found = {part.name: np.asarray(given[part.name], dtype=np.float64) for part in parts}
        if all(
            np.isfinite(x).all() and x.shape == p.matrix.shape[1:] for x, p in zip(found.values(), parts, strict=True)
        ):
            return found
    except (TypeError, ValueError, KeyError):
        pass
    wanted = ", ".join(f"{part.name!r} {part.matrix.shape[1]}" for part in parts)
    raise SettingError(f"start must have the weights of every party: {wanted}. Found something else. Leave it out.")


def _names(parts: Sequence[Part]) -> tuple[str, ...]:
    return tuple(part.name for part in parts)


def _callables(what: str, given: Any) -> tuple[Observer, ...]:
    if not isinstance(given, Sequence) or isinstance(given, str | bytes):
        raise SettingError(f"{what} must be a list of functions of one plait.Round. Found {given!r}.")
    return tuple(_callable(f"{what}[{i}]", each) for i, each in enumerate(given))


def _callable(what: str, given: Any) -> Any:
    if not callable(given):
        raise SettingError(f"{what} must be a function, or another object that can be called. Found {given!r}.")
    return given


def _penalties(given: Any, alpha: float | None, l1_ratio: float | None, parts: Sequence[Part]) -> dict[str, Penalty]:
    """One penalty per party, each checked against the party's width."""
    each = _one_each(given, alpha, l1_ratio, _names(parts))
    chosen = {part.name: one for part, one in zip(parts, each, strict=True)}
    for part in parts:
        try:
            chosen[part.name].check(part.matrix.shape[1])
        except InputError as error:
            raise InputError(f"party {part.name!r}: {error}") from None
    return chosen


def _one_each(given: Any, alpha: float | None, l1_ratio: float | None, names: tuple[str, ...]) -> list[Penalty]:
    """The penalties in the order of the parties; `alpha` and `l1_ratio` go to those that are given by name."""
    if isinstance(given, Mapping):
        if set(given) != set(names):
            raise SettingError(f"penalty must name exactly the parties {list(names)}. Found {list(given)}.")
        listed = [given[name] for name in names]
    elif isinstance(given, Sequence) and not isinstance(given, str | bytes):
        listed = list(given)
        if len(listed) != len(names):
            raise SettingError(f"there must be one penalty, or one per party ({len(names)}). Found {len(listed)}.")
    else:
        return [penalty_of(given, alpha, l1_ratio=l1_ratio)] * len(names)
    if alpha is not None and not takes_alpha(listed):
        raise SettingError("alpha goes with penalties that are given by name. Found penalty objects. Leave out alpha.")
    found = []
    for name, each in zip(names, listed, strict=True):
        where = f"the penalty of party {name!r}"
        mixed = isinstance(each, str) and canonical(PENALTIES, each) == "elastic-net"
        found.append(penalty_of(each, alpha if takes_alpha(each) else None, where, l1_ratio if mixed else None))
    return found
