"""Sums of shares that are rounded: what the coordinator makes of their errors."""

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import expit

import plait
from plait.methods.base import Block, Task
from plait.methods.protected.method import ProtectedSubspace
from plait.methods.protected.summed import GRID_BITS
from plait.problem.features import Features

ROWS, NAMES = 6000, ("a", "b", "c")


def answered(sides: dict[str, Any], states: dict[str, Any], parts: dict[str, np.ndarray], requests: Any) -> Any:
    shares = {}
    for name, request in requests.items():
        told = replace(request, vector=parts[name].T @ request.vector)
        states[name], shares[name] = sides[name].respond(states[name], told)
    return shares


def test_errors_that_all_rows_of_a_category_share_are_not_fitted_to_its_labels() -> None:
    """The second sum is nearly the first one again.  What is left is a direction in which the loss is flat, and errors.

    They are half a step of the grid and have the signs of the labels: the steepest direction that there is.
    """
    rng = np.random.default_rng(0)
    parts = {name: rng.standard_normal((ROWS, 3)) for name in NAMES}
    y, w = rng.choice([-1.0, 1.0], size=ROWS), np.full(ROWS, 1 / ROWS)
    method = ProtectedSubspace(plait.Subspace(), groups=(NAMES,))
    coordinator = method.coordinator_side(Task(plait.Logistic(), y, w, NAMES))
    blocks = {name: Block(Features(table), plait.L2(1e-26), plait.Logistic(), w) for name, table in parts.items()}
    sides = {name: method.party_side(block) for name, block in blocks.items()}
    states, state = {name: side.start() for name, side in sides.items()}, coordinator.start()
    first = answered(sides, states, parts, coordinator.requests(state))
    state, _ = coordinator.absorb(state, first)
    before = coordinator.current(state).objective
    shares = answered(sides, states, parts, coordinator.requests(state))
    sums = sum(share.vector for share in first.values())
    errors = y * 2.0**-GRID_BITS / 2
    gradient = -y * expit(-y * coordinator.known_scores(state))
    flat = rng.standard_normal(ROWS)
    flat -= gradient * (flat @ gradient) / (gradient @ gradient)
    shares = {name: replace(share, vector=0 * share.vector) for name, share in shares.items()}
    shares["a"] = replace(shares["a"], vector=1e-6 * sums + 1e-11 * flat + errors)
    state, _ = coordinator.absorb(state, shares)
    assert before - coordinator.current(state).objective < 1e-6
