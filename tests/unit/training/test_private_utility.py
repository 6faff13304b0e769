"""The figures that the documentation claims for a9a, measured again."""

import numpy as np
import pytest

from plait import fit
from plait.data.datasets import Dataset
from plait.privacy import InsecureTestNoise, NoPrivacy, Policy, RandomisedResponse, Recommended

Data = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


@pytest.fixture(scope="module")
def a9a(a9a_data: Dataset) -> Data:
    x, held = (np.hstack([part.toarray() for part in p.values()]) for p in (a9a_data.parts, a9a_data.test_parts))
    return x, (a9a_data.y > 0).astype(float), held, (a9a_data.y_test > 0).astype(float)


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1)[:, None]


def median_loss(data: Data, cuts: list[slice], epsilon: float, seeds: int = 5, label: float | None = None) -> float:
    x, t, held, truth = data
    losses = []
    for seed in range(seeds):
        policy = Policy(
            [NoPrivacy(), *[Recommended(epsilon, clip=1.0)] * len(cuts)],
            labels=None if label is None else RandomisedResponse(label),
            noise=InsecureTestNoise(seed),
            run=str(seed),
        )
        model = fit([unit(x[:, :66]), *(x[:, c] for c in cuts)], t, privacy=policy, fit_intercept=True)
        z = model.scores([unit(held[:, :66]), *(held[:, c] for c in cuts)])
        losses.append(float(np.mean(np.logaddexp(0, z) - truth * z)))
    return float(np.median(losses))


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "most"), [(0.1, 0.334), (1.0, 0.326), (8.0, 0.3255)])
def test_one_helper_stays_useful_under_privacy(a9a: Data, epsilon: float, most: float) -> None:
    assert median_loss(a9a, [slice(66, 123)], epsilon) <= most


@pytest.mark.slow
def test_three_helpers_stay_useful_under_privacy(a9a: Data) -> None:
    assert median_loss(a9a, [slice(66, 85), slice(85, 104), slice(104, 123)], 1.0) <= 0.327


@pytest.mark.slow
@pytest.mark.parametrize("copies", [2, 3])
def test_identical_helpers_do_no_harm(a9a: Data, copies: int) -> None:
    assert median_loss(a9a, [slice(66, 123)] * copies, 1.0) <= 0.327


@pytest.mark.slow
def test_label_privacy_on_top_stays_useful(a9a: Data) -> None:
    assert median_loss(a9a, [slice(66, 123)], 1.0, label=1.0) <= 0.334


def test_one_helper_is_useful_at_epsilon_one(a9a: Data) -> None:
    assert median_loss(a9a, [slice(66, 123)], 1.0, seeds=1) <= 0.328
