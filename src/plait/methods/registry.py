"""Methods by name: the only table of these names, for Python calls and job files alike."""

from collections.abc import Mapping
from typing import Any

from plait.errors import SettingError
from plait.methods.admm.gauss_seidel import GaussSeidel
from plait.methods.admm.jacobi import Jacobi
from plait.methods.admm.proximal import Proximal
from plait.methods.base import Method
from plait.methods.sgd import Sgd
from plait.methods.subspace.augmented import Augmented
from plait.methods.subspace.method import Subspace
from plait.problem.registry import find

METHODS: Mapping[str, type[Method]] = {
    "subspace": Subspace,
    "augmented": Augmented,
    "proximal": Proximal,
    "jacobi": Jacobi,
    "gauss-seidel": GaussSeidel,
    "sgd": Sgd,
}
AUTO = "auto"
"""Stands for the method that needs the fewest rounds for the loss, the penalties and the policy of a run."""


def method_of(given: Any) -> Method | None:
    """A method from its name, or the method itself; None for "auto"."""
    if isinstance(given, Method):
        return given
    if isinstance(given, str):
        if given == AUTO:
            return None
        found = find(METHODS, given)
        if found is not None:
            return found()
    raise SettingError(
        f"method must be {AUTO!r}, {', '.join(map(repr, METHODS))}, or a plait method such as plait.Subspace(). "
        f"Found {given!r}."
    )
