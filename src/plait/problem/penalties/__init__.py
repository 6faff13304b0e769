"""Penalties and feasible sets: what a party's own weights cost, and where they may lie.

Every penalty is  ridge/2 ||x||^2 + shape(x) + indicator of feasible(x),  each part optional.  Penalties add with `+`
and take factors: `L1(1e-3) + 2 * L2(1e-4) + NonNegative()`.  What has no closed proximal map is refused when it is
written, not when it is used.
"""

from plait.problem.penalties.base import DEFAULT_ALPHA, Combined, FeasibleSet, Penalty, Shape, Step
from plait.problem.penalties.forms import Groups, Parabola
from plait.problem.penalties.groups import GroupLasso, SparseGroupLasso
from plait.problem.penalties.log import LogPenalty
from plait.problem.penalties.norms import L1, L2, ElasticNet, NoPenalty
from plait.problem.penalties.sets import Ball, Box, NonNegative

__all__ = [
    "DEFAULT_ALPHA",
    "L1",
    "L2",
    "Ball",
    "Box",
    "Combined",
    "ElasticNet",
    "FeasibleSet",
    "GroupLasso",
    "Groups",
    "LogPenalty",
    "NoPenalty",
    "NonNegative",
    "Parabola",
    "Penalty",
    "Shape",
    "SparseGroupLasso",
    "Step",
]
