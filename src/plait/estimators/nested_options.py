"""Options of options: `set_params(penalty__alpha=0.1)`, also in a grid of scikit-learn's."""

from collections import defaultdict
from dataclasses import fields, replace
from typing import Any

from sklearn.base import BaseEstimator

from plait.errors import SettingError
from plait.methods.base import Method
from plait.problem.losses import Loss
from plait.problem.penalties import Penalty
from plait.problem.registry import loss_of, penalty_of

_NESTED = (Penalty, Loss, Method)


class NestedOptions(BaseEstimator):  # type: ignore[misc]
    """An estimator some of whose options are objects with options: penalties, losses and methods.

    They do not change.  Setting an option of one replaces it by another.
    """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The options by name; with `deep` also those of the penalty, the loss and the method, say `penalty__alpha`."""
        found: dict[str, Any] = super().get_params(deep)
        nested = {name: value for name, value in found.items() if isinstance(value, _NESTED)} if deep else {}
        return found | {f"{name}__{key}": getattr(value, key) for name, value in nested.items() for key in _keys(value)}

    def set_params(self, **params: Any) -> Any:
        """Set options by name, `penalty__alpha` being the option `alpha` of the penalty."""
        own: dict[str, Any] = {}
        nested: defaultdict[str, dict[str, Any]] = defaultdict(dict)
        for name, value in params.items():
            outer, _, inner = name.partition("__")
            if inner:
                nested[outer][inner] = value
            else:
                own[name] = value
        super().set_params(**own)
        for name, options in nested.items():
            if name not in self.get_params(deep=False):
                super().set_params(**{name: options})  # scikit-learn says which options there are
            setattr(self, name, _changed(name, getattr(self, name), options))
        return self


def _keys(value: Any) -> list[str]:
    return [f.name for f in fields(value) if f.init]


def _changed(name: str, value: Any, options: dict[str, Any]) -> Any:
    if isinstance(value, str) and name in ("penalty", "loss"):
        value = penalty_of(value) if name == "penalty" else loss_of(value)
    known = _keys(value) if isinstance(value, _NESTED) else []
    for key in options:
        if key not in known:
            raise SettingError(
                f"{name} must have the option {key!r} for {name}__{key} to be set. Found {value!r}, with the options "
                f"{', '.join(known) or '(none)'}."
            )
    return replace(value, **options)
