import math

import numpy as np
import pytest
import scipy.sparse as sp

import plait
from plait.privacy import ClippedRows, InsecureTestNoise, NoPrivacy, Policy, Recommended
from plait.privacy.clipping import Adjacency
from plait.privacy.ledger.release_gate import Book
from plait.privacy.mechanisms.helper_fit import Helper, Lesson, frame_rows
from plait.privacy.mechanisms.row_frame import FramedRows, FramePlan
from plait.problem.losses import Logistic
from plait.problem.penalties import L2, NonNegative


def close_rows(rng: np.random.Generator, count: int) -> np.ndarray:
    """Rows of norm below 1 that lie close together, far from 0."""
    return np.array([0.5, -0.4, 0.3]) + 0.1 * rng.uniform(-1, 1, (count, 3))


@pytest.mark.parametrize("far", [0.0, 1e-3, 1.0, 1e9])
def test_replacing_any_row_moves_both_releases_by_no_more_than_is_charged(far: float) -> None:
    rng = np.random.default_rng(0)
    plan = FramePlan.for_mu(1.0, 6, 3)
    moved, spread = [], []
    for _ in range(500):
        rows = rng.standard_normal((6, 3))
        other = rows.copy()
        other[2] = far * rng.standard_normal(3) if far else -rows[2]
        one, two = ClippedRows.of(rows), ClippedRows.of(other)
        moved.append(np.linalg.norm(plan.mean.value(one) - plan.mean.value(two)))
        centre = rng.uniform(-1, 1, 3)
        sums = [plan.spread.value(np.sum((r.matrix - centre) ** 2, axis=1), r.bits) for r in (one, two)]
        spread.append(np.linalg.norm(sums[0] - sums[1]))
    assert max(moved) <= plan.mean.sensitivity == 2
    assert max(spread) <= plan.spread.sensitivity == math.sqrt(2)
    sigma = plan.mean.sigma, plan.spread.sigma
    assert math.hypot(2 / sigma[0], math.sqrt(2) / sigma[1]) <= plan.cost.mu <= 1 + 1e-12


def test_a_spread_of_opposite_ends_attains_its_sensitivity() -> None:
    query = FramePlan.for_mu(1.0, 2, 1).spread
    ends = [query.value(np.array([0.3, v]), 20) for v in (0.0, 1.0)]
    assert np.linalg.norm(ends[1] - ends[0]) == pytest.approx(math.sqrt(2))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
def test_no_value_of_a_row_stops_or_dominates_a_frame(value: float) -> None:
    table = np.vstack([close_rows(np.random.default_rng(1), 400), [[value, 0.0, 0.0]]])
    lesson = Lesson(Logistic(), np.ones(401), np.zeros(401), np.ones(401), shifts=True)
    rows = ClippedRows.of(table)
    helper = Helper.of(rows, L2(0.1), Recommended(4.0), lesson, Book("run", "shop"), sketch=False)
    framed = frame_rows(helper)
    assert framed.constant
    assert np.linalg.norm(framed.rows.matrix, axis=1).max() <= 1
    assert np.isfinite(framed.rows.matrix).all()


def test_a_frame_finds_the_centre_and_the_radius_of_many_rows() -> None:
    rng = np.random.default_rng(2)
    table = close_rows(rng, 20_000)
    lesson = Lesson(Logistic(), np.ones(20_000), np.zeros(20_000), np.ones(20_000), shifts=True)
    helper = Helper.of(ClippedRows.of(table), L2(0.1), Recommended(4.0), lesson, Book("run", "shop"), sketch=False)
    framed = frame_rows(helper)
    apart = np.linalg.norm(table - table.mean(axis=0), axis=1)
    assert np.linalg.norm(framed.centre - table.mean(axis=0)) < 0.005
    assert np.quantile(apart, 0.5) < framed.radius < 1.3 * apart.max()


def test_sparse_rows_have_the_same_frame() -> None:
    table = np.abs(np.random.default_rng(3).standard_normal((50, 4)))
    framed = [FramedRows.of(ClippedRows.of(t), np.full(4, 0.1), 0.5) for t in (table, sp.csr_matrix(table))]
    assert np.array_equal(framed[0].rows.matrix, framed[1].rows.matrix)


def test_scores_of_framed_weights_are_those_of_the_own_columns_and_a_shift() -> None:
    rng = np.random.default_rng(4)
    rows = ClippedRows.of(close_rows(rng, 30))
    framed = FramedRows.of(rows, np.array([0.5, -0.4, 0.3]), 0.9)  # nothing is clipped
    weights = rng.standard_normal(4)
    own, shift = framed.parted(weights)
    assert framed.forward(weights) == pytest.approx(rows.forward(own) + shift, abs=1e-5)
    assert framed.joined(own, shift) == pytest.approx(weights)


@pytest.mark.parametrize(
    ("mechanism", "rows", "shifts", "expected"),
    [
        (Recommended(4.0), 1000, True, True),
        (Recommended(4.0), 1000, False, False),
        (Recommended(4.0, frame_share=0.0), 1000, True, False),
        (Recommended(4.0, adjacency=Adjacency.ZERO_OUT), 1000, True, False),
        (Recommended(0.1), 200, True, False),
    ],
)
def test_a_frame_is_released_where_it_can_be_known(
    mechanism: Recommended, rows: int, shifts: bool, expected: bool
) -> None:
    plan = mechanism.plan(rows, 5, 0.25, 1.0, sketch=False, shifts=shifts)
    assert (plan.frame is not None) is expected
    assert plan.gram.width == 5 + expected


@pytest.mark.parametrize("intercept", [True, False])
def test_columns_that_lie_far_from_zero_are_learned_with_their_intercept(intercept: bool) -> None:
    rng = np.random.default_rng(5)
    own, other = rng.uniform(-1, 1, (4000, 2)) / 2, close_rows(rng, 4000)
    labels = rng.random(4000) < 1 / (1 + np.exp(-20 * (other[:, 0] - 0.5) - 1))
    policy = Policy([NoPrivacy(), Recommended(2.0)], noise=InsecureTestNoise(1))
    model = plait.fit([own, other], labels, privacy=policy, fit_intercept=intercept)
    if not intercept:
        assert model.intercept == 0.0
        return
    assert np.mean((np.asarray(model.scores([own, other])) > 0) == labels) > 0.7
    scores = np.asarray(model.scores([own, other]))
    assert np.mean(1 / (1 + np.exp(-scores))) == pytest.approx(labels.mean(), abs=0.03)


def test_a_constraint_on_weights_holds_for_framed_rows() -> None:
    rng = np.random.default_rng(6)
    own, other = rng.uniform(-1, 1, (4000, 2)) / 2, close_rows(rng, 4000)
    labels = rng.random(4000) < 1 / (1 + np.exp(-20 * (other[:, 0] - other[:, 1] - 0.9)))
    policy = Policy([NoPrivacy(), Recommended(4.0)], noise=InsecureTestNoise(1))
    penalties = [L2(1e-3), L2(1e-3) + NonNegative()]
    model = plait.fit([own, other], labels, penalty=penalties, privacy=policy)
    assert min(model.weights[1]) >= 0
    assert model.weights[1][0] > 5
