"""Losses and penalties by name: the only table of these names, for Python calls and job files alike.

The canonical form is lower case with hyphens, "squared-hinge".  `find` also accepts other ways to write it:
"squared_hinge", "elasticnet", "L2".
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from plait._checks import need_type
from plait.errors import SettingError
from plait.problem.losses import Cauchy, Hinge, Huber, Logistic, Loss, Pinball, Poisson, Squared, SquaredHinge
from plait.problem.penalties import (
    L1,
    L2,
    Ball,
    Box,
    ElasticNet,
    GroupLasso,
    LogPenalty,
    NonNegative,
    NoPenalty,
    Penalty,
)

T = TypeVar("T")

LOSSES: Mapping[str, type[Loss]] = {
    "logistic": Logistic,
    "squared": Squared,
    "squared-hinge": SquaredHinge,
    "hinge": Hinge,
    "huber": Huber,
    "poisson": Poisson,
    "pinball": Pinball,
    "cauchy": Cauchy,
}
PENALTIES: Mapping[str, Any] = {
    "l2": L2,
    "l1": L1,
    "none": NoPenalty,
    "elastic-net": ElasticNet,
    "group-lasso": GroupLasso,
    "log": LogPenalty,
    "box": Box,
    "ball": Ball,
    "non-negative": NonNegative,
}
WITH_ALPHA = ("l2", "l1", "elastic-net", "log")
"""The penalties whose strength is `alpha` and that need no other option."""
CONSTRAINTS = ("box", "ball", "non-negative")
"""Those that keep weights within bounds."""
DEFAULT_LOSS = "logistic"
DEFAULT_PENALTY = "l2"


def find(known: Mapping[str, T], name: str) -> T | None:
    """What `name` stands for in a table of canonical names; None where it stands for nothing."""
    plain = {_plain(key): value for key, value in known.items()}
    return plain.get(_plain(name))


def canonical(known: Mapping[str, Any], name: str) -> str | None:
    """The canonical form of a name."""
    return find({key: key for key in known}, name)


def loss_of(given: Any, known: Mapping[str, type[Loss]] = LOSSES) -> Loss:
    """A loss from its name, or the loss itself."""
    if isinstance(given, Loss):
        return given
    found = find(known, given) if isinstance(given, str) else None
    if found is None:
        raise SettingError(f"loss must be one of {', '.join(map(repr, known))}, or a loss object. Found {given!r}.")
    return found()


def penalty_of(
    given: Any, alpha: float | None = None, where: str = "penalty", l1_ratio: float | None = None
) -> Penalty:
    """A penalty from its name and strength, or the penalty itself, which has its own strength."""
    if isinstance(given, str):
        return _named_penalty(given, alpha, where, l1_ratio)
    if not isinstance(given, Penalty):
        raise SettingError(
            f"{where} must be {_penalty_names()} or a penalty object, say plait.L2(0.1). Found {given!r}."
        )
    for name, value in (("alpha", alpha), ("l1_ratio", l1_ratio)):
        if value is not None:
            raise SettingError(f"{name} goes with a penalty that is named; {given!r} has its own. Leave out {name}.")
    return given


def takes_alpha(given: Any) -> bool:
    """Whether some of the penalties are given by name and have a strength."""
    return any(isinstance(each, str) and canonical(PENALTIES, each) in WITH_ALPHA for each in _listed(given))


def keeps_bounds(given: Any) -> bool:
    """Whether some of the penalties, by name or not, keep weights within bounds."""
    return any(
        canonical(PENALTIES, each) in CONSTRAINTS
        if isinstance(each, str)
        else getattr(each, "feasible", None) is not None
        for each in _listed(given)
    )


def _listed(given: Any) -> list[Any]:
    """A penalty, or a list or dict of them, one by one."""
    if isinstance(given, Mapping):
        return list(given.values())
    return list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given]


def _named_penalty(name: str, alpha: float | None, where: str, l1_ratio: float | None) -> Penalty:
    found = canonical(PENALTIES, name)
    if found is None or found == "group-lasso":
        hint = " Write plait.GroupLasso(alpha, groups)." if found else ""
        raise SettingError(f"{where} must be {_penalty_names()} or a penalty object. Found {name!r}.{hint}")
    options = {}
    if alpha is not None:
        if found not in WITH_ALPHA:
            raise SettingError(f"{where} {found!r} takes no alpha. Found alpha={alpha!r}. Leave out alpha.")
        need_type("alpha", alpha, float)
        options["alpha"] = alpha
    if l1_ratio is not None:
        if found != "elastic-net":
            raise SettingError(
                f"l1_ratio goes with the penalty 'elastic-net'. Found {found!r}. Leave out l1_ratio, or name that one."
            )
        need_type("l1_ratio", l1_ratio, float)
        options["l1_ratio"] = l1_ratio
    return PENALTIES[found](**options)


def _penalty_names() -> str:
    return ", ".join(repr(name) for name in PENALTIES if name != "group-lasso")


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "").replace(" ", "")
