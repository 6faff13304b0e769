import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from plait.errors import InputError, SettingError
from plait.privacy.clipping import Adjacency, ClippedRows, exact_bits
from plait.privacy.mechanisms.releases import NoisyGradient, NoisyGram, NoisyScores, NoisySketch
from plait.privacy.noise import InsecureTestNoise, Keystream, Release

N, D = 12, 4


def stream(seed: int = 0) -> Keystream:
    return InsecureTestNoise(seed).stream(Release("r", "p", 0, "n", ""))


def neighbours(seed: int, adjacency: Adjacency) -> tuple[ClippedRows, ClippedRows]:
    """Two matrices that differ in row 0, mostly in a hard way: long rows, opposite or orthogonal."""
    rng = np.random.default_rng(seed)
    first = rng.standard_normal((N, D)) * rng.choice([0.1, 1.0, 100.0])
    second = first.copy()
    if adjacency is Adjacency.ZERO_OUT:
        second[0] = 0.0
    else:
        second[0] = rng.choice([-1.0, 0.0, 1.0]) * first[0] + rng.choice([0.0, 1.0]) * rng.standard_normal(D) * 100
    return ClippedRows.of(first), ClippedRows.of(second)


@pytest.mark.parametrize("adjacency", list(Adjacency))
@settings(deadline=None, max_examples=100)
@given(st.integers(0, 10**9))
def test_no_neighbour_moves_a_release_by_more_than_its_sensitivity(adjacency: Adjacency, seed: int) -> None:
    one, two = neighbours(seed, adjacency)
    rng = np.random.default_rng(seed + 1)
    weights = rng.uniform(0, 0.25, N)
    gram = NoisyGram.for_mu(0.5, D, 0.25, adjacency)
    moved = gram.value(one, weights) - gram.value(two, weights)
    assert np.linalg.norm(gram.full(moved)) <= gram.sensitivity
    row, column = np.triu_indices(D)
    noise = np.where(row == column, gram.grid.sigma, gram.beside.sigma)
    assert np.linalg.norm(moved / noise) <= gram.cost.mu, "in units of the noise that is added"

    gradient = NoisyGradient.for_mu(0.5, D, 1.5, adjacency)
    q, q_changed = rng.standard_normal(N) * 3, rng.standard_normal(N) * 3
    q_changed[1:] = q[1:]
    moved = gradient.value(one, q) - gradient.value(two, q_changed)
    assert np.linalg.norm(moved) <= gradient.sensitivity

    scores = NoisyScores.for_mu(0.5, N, 2.0, adjacency)
    x = rng.standard_normal(D) * 5
    assert np.linalg.norm(scores.value(one, x) - scores.value(two, x)) <= scores.sensitivity

    sketch = NoisySketch.for_mu(0.5, 3, 0.7, adjacency)
    bucket, sign = rng.integers(0, 3, N), rng.choice([-1.0, 1.0], N)
    s_one, s_two = one.matrix @ x, two.matrix @ x
    moved = sketch.value(s_one, bucket, sign, one.bits) - sketch.value(s_two, bucket, sign, two.bits)
    assert np.linalg.norm(moved) <= sketch.sensitivity


def pair(a: list[float], b: list[float]) -> tuple[ClippedRows, ClippedRows]:
    rest = [[0.3, 0.4], [0.0, 0.5]]
    return ClippedRows.of([a, *rest]), ClippedRows.of([b, *rest])


@pytest.mark.parametrize(
    ("adjacency", "other", "expected"),
    [(Adjacency.REPLACE, [0.0, 1.0], math.sqrt(2)), (Adjacency.ZERO_OUT, [0.0, 0.0], 1.0)],
)
def test_the_gram_sensitivity_is_attained(adjacency: Adjacency, other: list[float], expected: float) -> None:
    one, two = pair([1.0, 0.0], other)
    gram = NoisyGram.for_mu(1.0, 2, 1.0, adjacency)
    moved = np.linalg.norm(gram.value(one, np.ones(3)) - gram.value(two, np.ones(3)))
    assert moved == pytest.approx(expected, rel=1e-4)
    assert gram.sensitivity == pytest.approx(expected)


@pytest.mark.parametrize(
    ("adjacency", "other", "expected"),
    [(Adjacency.REPLACE, [-1.0, 0.0], 2.0), (Adjacency.ZERO_OUT, [0.0, 0.0], 1.0)],
)
def test_the_gradient_sensitivity_is_attained(adjacency: Adjacency, other: list[float], expected: float) -> None:
    one, two = pair([1.0, 0.0], other)
    gradient = NoisyGradient.for_mu(1.0, 2, 3.0, adjacency)
    q = np.array([7.0, 0.1, 0.2])
    moved = np.linalg.norm(gradient.value(one, q) - gradient.value(two, q))
    assert moved == pytest.approx(expected, rel=1e-4)
    assert gradient.sensitivity == expected


@settings(deadline=None, max_examples=100)
@given(st.floats(1e-3, 10.0), st.integers(1, 200), st.sampled_from(list(Adjacency)))
def test_a_release_costs_at_most_the_mu_it_was_built_for(mu: float, width: int, adjacency: Adjacency) -> None:
    for release in (
        NoisyGram.for_mu(mu, width, 0.25, adjacency),
        NoisyGradient.for_mu(mu, width, 1.0, adjacency),
        NoisyScores.for_mu(mu, width, 2.0, adjacency),
        NoisySketch.for_mu(mu, width, 2.0, adjacency),
    ):
        assert release.cost.mu <= mu * (1 + 1e-15)
        # Judged without the code's own formula: the noise that is added against the true sensitivity.
        assert release.cost.mu >= release.sensitivity * release.unit / release.sigma
        assert release.cost.mu == pytest.approx(mu, rel=0.02)


def test_the_noise_has_the_stated_scale() -> None:
    rows = ClippedRows.of(np.zeros((5, 400)))
    gradient = NoisyGradient.for_mu(0.1, 400, 3.0, Adjacency.REPLACE)
    drawn = np.concatenate([gradient.release(rows, np.zeros(5), stream(k)) for k in range(25)])
    assert gradient.sigma == pytest.approx(60.0, rel=1e-3)
    assert drawn.std() == pytest.approx(60.0, rel=5 / math.sqrt(2 * drawn.size))

    gram = NoisyGram.for_mu(0.1, 100, 0.25, Adjacency.REPLACE)
    noise = gram.release(ClippedRows.of(np.zeros((5, 100))), np.zeros(5), stream())
    assert np.array_equal(gram.full(noise), gram.full(noise).T)
    row, column = np.triu_indices(100)
    assert noise[row == column].std() == pytest.approx(math.sqrt(2) * 0.25 / 0.1, rel=5 / math.sqrt(200))
    assert noise[row < column].std() == pytest.approx(0.25 / 0.1, rel=5 / math.sqrt(2 * 4950))


def test_clipped_rows_have_norm_at_most_one_in_exact_arithmetic() -> None:
    rng = np.random.default_rng(3)
    rows = ClippedRows.of(rng.standard_normal((50, 30)) * 10.0 ** rng.integers(-3, 5, (50, 1)))
    for row in rows.matrix:
        assert sum(Fraction(float(v)) ** 2 for v in row) <= 1


def test_sums_over_records_are_exact() -> None:
    rng = np.random.default_rng(4)
    rows = ClippedRows.of(rng.standard_normal((200, 3)))
    gram = NoisyGram.for_mu(1.0, 3, 1.0, Adjacency.REPLACE)
    weights = np.ones(200)
    exact = [
        sum(Fraction(float(r[i])) * Fraction(float(r[j])) for r in rows.matrix) for i in range(3) for j in range(i, 3)
    ]
    assert [Fraction(float(v)) for v in gram.value(rows, weights)] == exact
    shuffled = ClippedRows(rows.matrix[rng.permutation(200)], rows.bits)
    assert np.array_equal(gram.value(rows, weights), gram.value(shuffled, weights))


@pytest.mark.parametrize("records", [1, 2, 1000, 32561, 10**6, 10**9])
def test_enough_bits_are_left_for_the_sum(records: int) -> None:
    assert records * 2 ** (2 * exact_bits(records)) <= 2**53


def test_a_row_depends_on_nothing_but_itself() -> None:
    rng = np.random.default_rng(5)
    first = rng.standard_normal((20, 4)) * 3
    second = first.copy()
    second[7] = 1000.0
    one, two = ClippedRows.of(first).matrix, ClippedRows.of(second).matrix
    assert np.array_equal(np.delete(one, 7, 0), np.delete(two, 7, 0))


def test_unusable_features_are_refused() -> None:
    with pytest.raises(InputError, match="shape"):
        ClippedRows.of(np.zeros((0, 3)))
    with pytest.raises(InputError, match="radius"):
        ClippedRows.of([[1.0]], radius=0.0)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300, -1e-320])
@pytest.mark.parametrize("sparse", [False, True])
def test_no_row_stops_the_clip(value: float, sparse: bool) -> None:
    rows = np.array([[1.0, 2.0], [value, 0.5]])
    clipped = ClippedRows.of(sp.csr_matrix(rows) if sparse else rows)
    found = clipped.matrix.toarray() if sparse else clipped.matrix
    assert np.isfinite(found).all()
    assert np.linalg.norm(found, axis=1).max() <= 1
    assert np.array_equal(found[0], ClippedRows.of([[1.0, 2.0], [0.0, 0.0]]).matrix[0]), "other rows do not notice"


def test_a_budget_that_rounding_alone_would_take_is_refused() -> None:
    with pytest.raises(SettingError, match="rounding"):
        NoisyGradient.for_mu(1e-9, 100, 1.0, Adjacency.REPLACE)
