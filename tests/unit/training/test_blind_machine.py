"""`plait.fit(protection="blind")`: the plain optimum, and a machine whose whole transcript tells no label of a row."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.stats
from sklearn.linear_model import LogisticRegression, Ridge

import plait
from plait.data.parts import read_parts
from plait.errors import ProtocolError, SettingError
from plait.messages import Broadcast, Share, Transport
from plait.privacy.policy import Policy
from plait.problem.losses import Loss
from plait.protection.modes import Protection
from plait.protection.secure_sums import from_fixed, total
from plait.training.assembly import RunSpec
from plait.training.protected import from_words, protected_form, to_words
from plait.training.session import Session

from .test_protected import STRICT, data

ROWS = 2000


def halves(x: Any) -> dict[str, Any]:
    return {"bank": x[:, :4], "shop": x[:, 4:]}


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix], ids=["dense", "csr"])
def test_weights_and_intercept_are_those_of_scikit_learn(kind: type) -> None:
    x, y, _ = data(8)
    y[:300] = 1.0  # an intercept
    found = plait.fit(
        halves(kind(x)), y, penalty=plait.L2(1e-2), fit_intercept=True, stopping=STRICT, protection="blind"
    )
    pooled = LogisticRegression(C=1 / (1e-2 * ROWS), tol=1e-12, max_iter=1000).fit(x, y)
    np.testing.assert_allclose(np.concatenate(list(found.weights.values())), pooled.coef_[0], atol=1e-6)
    assert found.intercept == pytest.approx(pooled.intercept_[0], abs=1e-6)
    assert abs(found.intercept) > 0.1


def test_losses_of_a_difference_work_too() -> None:
    x, _, counts = data(8)
    options: dict[str, Any] = {"stopping": STRICT, "fit_intercept": True, "protection": "blind"}
    found = plait.fit(halves(x), counts, loss=plait.Squared(), penalty=plait.L2(0.1), **options)
    pooled = Ridge(alpha=0.1 * ROWS, tol=1e-12).fit(x, counts)
    np.testing.assert_allclose(np.concatenate(list(found.weights.values())), pooled.coef_, atol=1e-6)


@pytest.mark.parametrize(
    "loss", [plait.Logistic(), plait.Hinge(), plait.SquaredHinge(), plait.Squared(), plait.Huber(0.5)]
)
def test_a_loss_that_says_it_is_symmetric_is(loss: Loss) -> None:
    rng = np.random.default_rng(0)
    y, z = np.sign(rng.standard_normal(50)), 3 * rng.standard_normal(50)
    assert loss.symmetric
    np.testing.assert_array_equal(loss.value(z, y), loss.value(-z, -y))
    np.testing.assert_array_equal(loss.gradient(z, y), -loss.gradient(-z, -y))


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"loss": plait.Poisson()}, "the same for -y and -z"),
        ({"penalty": plait.NonNegative()}, "no intercept"),
        ({"sample_weight": np.linspace(1, 2, ROWS)}, "counts all rows alike"),
        ({"start": {"bank": np.zeros(4), "shop": np.zeros(4)}}, "begins at zero"),
    ],
)
def test_what_cannot_be_disguised_is_refused(options: dict[str, Any], found: str) -> None:
    x, y, _ = data(8)
    with pytest.raises(SettingError, match=found):
        plait.fit(halves(x), np.maximum(y, 0.0), fit_intercept=True, protection="blind", **options)
    with pytest.raises(SettingError, match="works for 2 parties"):
        plait.fit({"a": x[:, :2], "b": x[:, 2:4], "c": x[:, 4:]}, y, protection="blind")


@dataclass
class Machine:
    """All that the machine sends and receives, and a hook to change it."""

    inner: Transport | None = None
    sent: list[dict[str, Broadcast]] = field(default_factory=list)
    received: list[dict[str, Share]] = field(default_factory=list)

    def __call__(self, inner: Transport) -> Transport:
        self.inner = inner
        return self

    def exchange(self, requests: Mapping[str, Broadcast]) -> dict[str, Share]:
        assert self.inner is not None
        answers = self.inner.exchange(requests)
        self.sent.append(dict(requests))
        self.received.append(answers)
        return answers


def session(x: np.ndarray, y: np.ndarray, machine: Any) -> Session:
    parts = read_parts(halves(x))
    names = tuple(part.name for part in parts)
    policy, protection = Policy.of(None), Protection("blind", label_party="bank")
    spec = RunSpec(
        dict.fromkeys(names, plait.L2(1e-2)),
        protected_form(plait.Subspace(), protection, names),
        STRICT,
        True,
        policy.protections(names, plait.Logistic()),
        policy,
        protection=protection,
    )
    return Session(spec, parts, y, tap=machine)


def agreement(seen: np.ndarray, truth: np.ndarray) -> float:
    """The p-value of how often signs agree, row by row, if they were coin flips; a tiny step leaves some without."""
    some = seen != 0
    return float(scipy.stats.binomtest(int((np.sign(seen) == np.sign(truth))[some].sum()), int(some.sum())).pvalue)


def images(machine: Machine) -> list[np.ndarray]:
    """The sums of both parties' disguised scores (N,), one a round, that the machine reads."""
    return [
        from_fixed(total([share.vector[:ROWS] for share in shares.values() if share.vector is not None]))  # type: ignore[misc]
        for shares in machine.received[2:]
        if all(share.vector is not None and share.vector.size > ROWS for share in shares.values())
    ]


def test_nothing_that_the_machine_sees_tells_the_label_or_the_score_of_a_row() -> None:
    x, _, _ = data(8, seed=3)
    y = np.where(np.arange(ROWS) < 300, 1.0, -1.0)  # 15 % positive, in the first rows
    x[:300] += 0.5
    machine = Machine()
    trained = session(x, y, machine).train()
    answers = machine.received[1]["bank"].vector
    assert answers is not None
    labels = np.frombuffer(from_words(answers, 2)[1], dtype="<f8")
    assert set(labels) == {-1.0, 1.0}
    assert scipy.stats.binomtest(int((labels > 0).sum()), ROWS).pvalue > 1e-6, "as many of each: signs are random"
    assert agreement(labels, y) > 1e-6
    assert agreement(y[::-1], y) < 1e-6, "the check finds an order that is not hidden well"
    z = np.hstack(list(halves(x).values())) @ np.concatenate(list(trained.model.weights.values()))
    assert len(images(machine)) >= 3
    for image in images(machine):
        assert scipy.stats.pearsonr(image, z).pvalue > 1e-6
        assert scipy.stats.pearsonr(np.abs(image), np.abs(z)).pvalue > 1e-6, "nor by its size"
        assert agreement(image, y) > 1e-6
    for name, shares in ((n, [s[n].vector for s in machine.received[2:]]) for n in ("bank", "shop")):
        for words in shares:
            assert words is not None
            bits = np.unpackbits(np.ascontiguousarray(words[:ROWS]).view(np.uint8))
            assert scipy.stats.binomtest(int(bits.sum()), bits.size).pvalue > 1e-5, f"{name}'s share is masked"


def unflipped(sums: np.ndarray) -> np.ndarray:
    """The signs (N,), up to all at once, of the combination of sums (N, T) that has the most one sign in all rows."""
    away = sums / np.sqrt(np.mean(sums**2, axis=0))
    found = []
    for w in np.eye(away.shape[1]):
        for _ in range(100):  # the mean over what the spread leaves of it, with the signs that this gives, and again
            mean = (away * np.sign(away @ w)[:, None]).mean(axis=0)
            w = np.linalg.solve(away.T @ away / len(away) - np.outer(mean, mean) + 1e-9 * np.eye(len(w)), mean)
        size = np.abs(away @ w)
        found.append((size.mean() / size.std(), np.sign(away @ w)))
    return max(found, key=lambda each: each[0])[1]


def test_where_most_scores_have_one_sign_the_machine_finds_the_signs_but_not_the_order() -> None:
    """What docs/protection.md says: of a blind machine's two disguises the order alone holds."""
    x, _, _ = data(8, seed=3)
    y = np.where(np.arange(ROWS) < 300, 1.0, -1.0)  # 15 % positive, in the first rows
    x[:300] += 0.5
    machine = Machine()
    session(x, y, machine).train()
    answer = machine.received[1]["bank"].vector
    assert answer is not None
    labels = np.frombuffer(from_words(answer, 2)[1], dtype="<f8")
    sums = np.column_stack([each / np.abs(each).max() for each in images(machine)[:5]])
    signs = unflipped(sums)
    positive = max((signs == labels).sum(), (signs == -labels).sum())
    assert abs(positive - (ROWS - 300)) <= 20, "it counts the labels"
    both = [[int(((labels * signs == a) & (y == b)).sum()) for a in (-1, 1)] for b in (-1, 1)]
    assert scipy.stats.fisher_exact(both).pvalue > 1e-6, "and does not know whose they are"


class Swapping(Machine):
    """A machine that hands out another key in the place of the shop's: it would know the disguise."""

    def exchange(self, requests: Mapping[str, Broadcast]) -> dict[str, Share]:
        if len(self.sent) == 1:
            request = requests["bank"]
            assert request.vector is not None
            offer, *keys = from_words(request.vector, 3)
            keys[1] = keys[0]
            requests = {**requests, "bank": Broadcast(0, to_words(offer, *keys), expects=request.expects)}
        return super().exchange(requests)


def test_an_owner_refuses_keys_that_are_not_the_other_owners() -> None:
    x, y, _ = data(8)
    with pytest.raises(ProtocolError, match="keys must be those of bank, shop"):
        session(x, y, Swapping()).train()
