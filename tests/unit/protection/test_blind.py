"""The blind machine's arithmetic: the same gradient, from labels and scores that are coin flips to it."""

import numpy as np
import pytest
import scipy.stats

from plait.errors import InputError
from plait.problem.losses import Huber, Logistic, Loss, Poisson, Squared, SquaredHinge
from plait.protection.blind import Disguise
from plait.protection.secure_sums import from_fixed, to_fixed, total

ROWS = 5000
DISGUISE = Disguise(bytes(range(32)), "run 1", ROWS)


def test_disguises_are_undone() -> None:
    v = np.random.default_rng(0).standard_normal(ROWS)
    np.testing.assert_array_equal(DISGUISE.reveal(DISGUISE.hide(v)), v)
    assert sorted(DISGUISE.order) == list(range(ROWS))
    assert not np.array_equal(Disguise(DISGUISE.secret, "run 2", ROWS).hide(v), DISGUISE.hide(v))
    with pytest.raises(InputError, match="5000 numbers"):
        DISGUISE.hide(v[1:])


@pytest.mark.parametrize("loss", [Logistic(), SquaredHinge(), Squared(), Huber(0.5)], ids=lambda x: type(x).__name__)
def test_the_gradient_of_disguised_numbers_is_the_disguised_gradient(loss: Loss) -> None:
    rng = np.random.default_rng(1)
    y, z_a, z_b = np.sign(rng.standard_normal(ROWS)), rng.standard_normal(ROWS), rng.standard_normal(ROWS)
    hidden = from_fixed(total([to_fixed(DISGUISE.hide(z), 2) for z in (z_a, z_b)]))
    seen = loss.gradient(hidden, DISGUISE.hide(y))
    np.testing.assert_allclose(DISGUISE.reveal(seen), loss.gradient(z_a + z_b, y), atol=1e-11)


def test_a_loss_that_is_not_symmetric_cannot_be_disguised() -> None:
    y, z = np.ones(ROWS), np.full(ROWS, 0.3)
    seen = Poisson().gradient(DISGUISE.hide(z), DISGUISE.hide(y))
    assert np.abs(DISGUISE.reveal(seen) - Poisson().gradient(z, y)).max() > 0.5


def test_disguised_labels_are_coin_flips_that_tell_nothing_of_the_row() -> None:
    y = np.where(np.arange(ROWS) < 100, 1.0, -1.0)  # 2 % positive, in the first rows
    seen = DISGUISE.hide(y)
    assert scipy.stats.binomtest(int((seen > 0).sum()), ROWS).pvalue > 1e-3
    assert scipy.stats.binomtest(int((seen[:100] > 0).sum()), 100).pvalue > 1e-3
    unsigned = y[DISGUISE.order]  # a shuffle alone would show how many labels are positive
    assert scipy.stats.binomtest(int((unsigned > 0).sum()), ROWS).pvalue < 1e-3
