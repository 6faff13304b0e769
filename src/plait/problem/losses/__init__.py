"""Losses: what one row costs, as a function of its score z and its label y.

Every method is elementwise over arrays of one shape.  Row weights are applied by the caller, so that a loss
is a function of one score and one label and nothing else.
"""

from plait.problem.losses.base import Loss, Seen
from plait.problem.losses.classification import Hinge, Logistic, SquaredHinge
from plait.problem.losses.envelope import Envelope
from plait.problem.losses.poisson import Poisson
from plait.problem.losses.regression import Cauchy, Huber, Pinball, Squared

__all__ = [
    "Cauchy",
    "Envelope",
    "Hinge",
    "Huber",
    "Logistic",
    "Loss",
    "Pinball",
    "Poisson",
    "Seen",
    "Squared",
    "SquaredHinge",
]
