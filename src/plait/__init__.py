"""plait trains one model over columns that never leave their owners."""

from typing import TYPE_CHECKING, Any

from plait._version import __version__
from plait.data import datasets
from plait.errors import DivergedError, InputError, PlaitError, ProtocolError, SettingError
from plait.methods.admm.gauss_seidel import GaussSeidel
from plait.methods.admm.jacobi import Jacobi
from plait.methods.admm.proximal import Proximal
from plait.methods.base import Method
from plait.methods.certified.method import Certified
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
from plait.training.fit import fit
from plait.training.fit_result import Fit
from plait.training.history import History, Round
from plait.training.session import ConvergenceWarning
from plait.training.stopping import Stopping

if TYPE_CHECKING:
    from plait.estimators import VerticalLogisticRegression, VerticalRegression, VerticalSVC

__all__ = [
    "L1",
    "L2",
    "Augmented",
    "Ball",
    "Box",
    "Cauchy",
    "Certified",
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
]


def __dir__() -> list[str]:
    """The public names, those that are loaded later among them."""
    return sorted([*__all__, "privacy"])


def __getattr__(name: str) -> Any:
    """Estimators are loaded when they are asked for: with scikit-learn they take longer than all the rest."""
    if name.startswith("Vertical") and name in __all__:
        from plait import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module 'plait' has no attribute {name!r}")
