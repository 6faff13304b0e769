"""plait trains one model over columns that never leave their owners."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from plait._version import __version__

if TYPE_CHECKING:
    from plait.data import datasets
    from plait.errors import DivergedError, InputError, PlaitError, ProtocolError, SettingError
    from plait.estimators import VerticalLogisticRegression, VerticalRegression, VerticalSVC
    from plait.methods.admm.gauss_seidel import GaussSeidel
    from plait.methods.admm.jacobi import Jacobi
    from plait.methods.admm.proximal import Proximal
    from plait.methods.base import Method
    from plait.methods.sgd import Sgd
    from plait.methods.subspace.augmented import Augmented
    from plait.methods.subspace.method import Subspace
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
    from plait.protection.modes import Protection
    from plait.training import tracking
    from plait.training.convergence import ConvergenceWarning
    from plait.training.fit import fit
    from plait.training.fit_result import Fit
    from plait.training.history import History, Round
    from plait.training.stopping import Stopping

__all__ = [
    "L1",
    "L2",
    "Augmented",
    "Ball",
    "Box",
    "Cauchy",
    "ConvergenceWarning",
    "DivergedError",
    "ElasticNet",
    "Fit",
    "GaussSeidel",
    "GroupLasso",
    "Hinge",
    "History",
    "Huber",
    "InputError",
    "Jacobi",
    "LogPenalty",
    "Logistic",
    "Loss",
    "Method",
    "NoPenalty",
    "NonNegative",
    "Penalty",
    "Pinball",
    "PlaitError",
    "Poisson",
    "Protection",
    "ProtocolError",
    "Proximal",
    "Round",
    "SettingError",
    "Sgd",
    "Squared",
    "SquaredHinge",
    "Stopping",
    "Subspace",
    "VerticalLogisticRegression",
    "VerticalRegression",
    "VerticalSVC",
    "__version__",
    "datasets",
    "fit",
    "tracking",
]

_HOMES = {
    "errors": "DivergedError InputError PlaitError ProtocolError SettingError",
    "estimators": "VerticalLogisticRegression VerticalRegression VerticalSVC",
    "methods.admm.gauss_seidel": "GaussSeidel",
    "methods.admm.jacobi": "Jacobi",
    "methods.admm.proximal": "Proximal",
    "methods.base": "Method",
    "methods.sgd": "Sgd",
    "methods.subspace.augmented": "Augmented",
    "methods.subspace.method": "Subspace",
    "problem.losses": "Cauchy Hinge Huber Logistic Loss Pinball Poisson Squared SquaredHinge",
    "problem.penalties": "L1 L2 Ball Box ElasticNet GroupLasso LogPenalty NonNegative NoPenalty Penalty",
    "protection.modes": "Protection",
    "training.convergence": "ConvergenceWarning",
    "training.fit": "fit",
    "training.fit_result": "Fit",
    "training.history": "History Round",
    "training.stopping": "Stopping",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}
_MODULES = {
    "datasets": "plait.data.datasets",
    "privacy": "plait.privacy",
    "tracking": "plait.training.tracking",
}


def __dir__() -> list[str]:
    """The public names, those that are loaded later among them."""
    return sorted([*__all__, "privacy"])


def __getattr__(name: str) -> Any:
    """Load what is asked for: `import plait` alone waits for neither NumPy, SciPy nor scikit-learn."""
    if name in _MODULES:
        found: Any = import_module(_MODULES[name])
    elif name in _HOME:
        found = getattr(import_module(f"plait.{_HOME[name]}"), name)
    else:
        raise AttributeError(f"module 'plait' has no attribute {name!r}")
    globals()[name] = found
    return found
