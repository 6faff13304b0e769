"""`plait.fit(protection=...)`: the same optimum, from messages that hide labels or shares."""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.stats
from sklearn.datasets import load_breast_cancer, load_digits, make_classification
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge

import plait
from plait.data.parts import read_parts
from plait.errors import PrivacyError, ProtocolError, SettingError
from plait.messages import Broadcast, Share, Transport
from plait.privacy.policy import Policy
from plait.problem.features import Features
from plait.problem.losses import Loss
from plait.protection.leverage import label_exposure, leverages
from plait.protection.messages import hints_size
from plait.protection.modes import Protection
from plait.protection.parameters import SETS
from plait.training.assembly import RunSpec
from plait.training.coordinator_shield import agree, hint_sizes
from plait.training.in_process import InProcess
from plait.training.party_shield import Agreed, PartyKeys, PartyShield
from plait.training.protected import Opener, protected_form, words_of
from plait.training.session import Session

ROWS = 2000
STRICT = plait.Stopping(tol=1e-9, max_rounds=100)


def data(columns: int = 9, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Columns, +-1 labels and counts that depend on them."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((ROWS, columns))
    score = x @ rng.standard_normal(columns) / 2
    return x, np.where(rng.random(ROWS) < 1 / (1 + np.exp(-score)), 1.0, -1.0), rng.poisson(np.exp(score / 3)) * 1.0


def thirds(x: Any) -> dict[str, Any]:
    return {"a": x[:, :3], "b": x[:, 3:6], "c": x[:, 6:]}


@pytest.mark.parametrize("mode", ["labels", "sums"])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix], ids=["dense", "csr"])
def test_weights_are_those_of_scikit_learn(mode: str, kind: type) -> None:
    x, y, _ = data()
    found = plait.fit(thirds(kind(x)), y, penalty=plait.L2(1e-2), fit_intercept=True, stopping=STRICT, protection=mode)
    pooled = LogisticRegression(C=1 / (1e-2 * ROWS), tol=1e-12, max_iter=1000).fit(x, y)
    np.testing.assert_allclose(np.concatenate(list(found.weights.values())), pooled.coef_[0], atol=1e-6)
    assert found.intercept == pytest.approx(pooled.intercept_[0], abs=1e-6)


def test_other_losses_and_weights_reach_their_optimum() -> None:
    x, _, counts = data()
    weight = np.random.default_rng(1).random(ROWS) + 0.5
    options: dict[str, Any] = {
        "stopping": STRICT,
        "fit_intercept": True,
        "protection": "labels",
        "sample_weight": weight,
    }
    ridge = plait.fit(thirds(x), counts, loss=plait.Squared(), penalty=plait.L2(0.1), **options)
    pooled = Ridge(alpha=0.1 * weight.sum(), tol=1e-12).fit(x, counts, weight)
    np.testing.assert_allclose(np.concatenate(list(ridge.weights.values())), pooled.coef_, atol=1e-6)
    poisson = plait.fit(thirds(x), counts, loss=plait.Poisson(), penalty=plait.L2(0.1), **options)
    pooled = PoissonRegressor(alpha=0.1, tol=1e-12, max_iter=1000).fit(x, counts, weight)
    np.testing.assert_allclose(np.concatenate(list(poisson.weights.values())), pooled.coef_, atol=1e-5)


def pooled_objective(fit: plait.Fit, x: np.ndarray, y: np.ndarray, penalty: plait.Penalty) -> float:
    """The objective of the model on the table itself."""
    weights = np.concatenate(list(fit.weights.values()))
    return float(np.logaddexp(0, -y * (x @ weights + fit.intercept)).mean()) + penalty.value(weights)


@pytest.mark.parametrize("mode", ["labels", "sums"])
@pytest.mark.parametrize("penalty", [plait.L1(0.01), plait.ElasticNet(0.01, 0.5), plait.NonNegative()], ids=repr)
def test_penalties_with_kinks_reach_the_plain_objective(mode: str, penalty: plait.Penalty) -> None:
    x, y, _ = data()
    plain = plait.fit(thirds(x), y, penalty=penalty, stopping=STRICT)
    found = plait.fit(thirds(x), y, penalty=penalty, stopping=STRICT, protection=mode)
    # The columns are rounded to 2^-22 of their norms, and the model is proved to be the best one for these.
    assert pooled_objective(found, x, y, penalty) == pytest.approx(plain.objective, rel=1e-9)
    assert found.objective == pytest.approx(plain.objective, rel=1e-6)
    # Beside bounds that are open above and no other penalty, slopes of rounding alone decide whether there is a proof.
    assert found.certified or penalty == plait.NonNegative()


class Wiretap:
    """Keeps every message: of the rounds, and the answers of the parties before round 1."""

    def __init__(self) -> None:
        self.before: list[Mapping[str, Share]] = []
        self.told: list[Mapping[str, Broadcast]] = []
        self.down: list[Mapping[str, Broadcast]] = []
        self.up: list[Mapping[str, Share]] = []

    def __call__(self, transport: Transport) -> Transport:
        self._inner = transport
        return self

    def exchange(self, requests: Mapping[str, Broadcast]) -> dict[str, Share]:
        shares = self._inner.exchange(requests)
        if next(iter(requests.values())).round == 0:
            self.before.append(shares)
            self.told.append(requests)
            return shares
        self.down.append(requests)
        self.up.append(shares)
        return shares


def tapped(
    x: Any,
    y: np.ndarray,
    mode: str,
    loss: Loss | None = None,
    rounds: int = 6,
    weights: np.ndarray | None = None,
    penalty: plait.Penalty | None = None,
    tol: float = 0.0,
) -> Wiretap:
    tap, parts = Wiretap(), read_parts(thirds(x))
    loss = plait.Logistic() if loss is None else loss
    names, policy, shield = tuple(part.name for part in parts), Policy.of(None), Protection.of(mode)
    method = plait.Subspace()
    if shield is not None:
        method = protected_form(method, shield, names)  # type: ignore[assignment]
    stopping = plait.Stopping(tol=tol, max_rounds=rounds)
    penalties = dict.fromkeys(names, plait.L2(1e-2) if penalty is None else penalty)
    spec = RunSpec(penalties, method, stopping, False, policy.protections(names, loss), policy, protection=shield)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", plait.ConvergenceWarning)
        Session(spec, parts, loss.labels(y), weights, tap=tap).train()
    return tap


def looks_random(words: np.ndarray) -> bool:
    return bool(scipy.stats.chisquare(np.bincount(words.view(np.uint8), minlength=256)).pvalue > 1e-6)


def test_what_a_party_receives_is_noise_and_what_the_coordinator_receives_is_noise_in_sums() -> None:
    x, y, _ = data()
    labels, sums = tapped(x, y, "labels"), tapped(x, y, "sums")
    for tap in (labels, sums):
        for share in tap.before[0].values():
            assert share.vector is not None
            assert looks_random(share.vector[20:-520])  # between the header and a masking key
        for requests in tap.down:
            for request in requests.values():
                assert request.vector is not None
                assert looks_random(request.vector[20:])  # after the header
    plain = tapped(x, y, "plain")  # and the same test fails on plain messages
    assert not any(looks_random(request.vector) for request in plain.down[0].values())  # type: ignore[arg-type]
    images = [shares for shares in sums.up if shares["a"].vector is not None and shares["a"].vector.size > ROWS]
    assert len(images) == 7  # six rounds and the closing exchange
    for shares in images:
        assert all(looks_random(share.vector) and not share.scalars.size for share in shares.values())  # type: ignore[arg-type]
    assert not looks_random(labels.up[0]["a"].vector)  # type: ignore[arg-type]


def opened(
    x: np.ndarray, y: np.ndarray, loss: Loss, monkey: pytest.MonkeyPatch, mode: str, weights: np.ndarray | None = None
) -> list[np.ndarray]:
    """All that parties compute with: scalars and D^T g of every round; and what they send, where it is not masked."""
    seen: list[np.ndarray] = []
    honest = Opener.open

    def noted(self: Opener, broadcast: Broadcast) -> Broadcast:
        plain = honest(self, broadcast)
        seen.extend([plain.vector, plain.scalars])  # type: ignore[list-item]
        return plain

    monkey.setattr(Opener, "open", noted)
    tap = tapped(x, y, mode, loss, rounds=3, weights=weights)  # later steps are of the size of rounding
    monkey.undo()
    if mode == "sums":
        return seen
    return [*seen, *(share.vector for shares in tap.up for share in shares.values() if share.vector is not None)]


@pytest.mark.parametrize("mode", ["labels", "sums"])
def test_labels_that_differ_with_the_same_moments_give_the_same_run(monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    x, y, _ = data()
    x, quarter = np.rint(4 * x), ROWS // 4
    p, q = x[:quarter], x[quarter : 2 * quarter]
    p_and_q, q_and_p = p.copy(), q.copy()
    p_and_q[:, 3:6], q_and_p[:, 3:6] = q[:, 3:6], p[:, 3:6]
    x = np.vstack([p, q, p_and_q, q_and_p, x])  # p + q = p_and_q + q_and_p: labels of these four can change sides
    four = np.repeat([1.0, 1.0, -1.0, -1.0], quarter)
    y, swapped = np.concatenate([four, y]), np.concatenate([-four, y])
    np.testing.assert_array_equal(x.T @ y, x.T @ swapped)
    rng = np.random.default_rng(6)
    weights = np.concatenate([np.tile(rng.random(quarter), 4), rng.random(ROWS)])  # of these four the same
    for each in (None, weights / weights.sum()):
        runs = [opened(x, labels, plait.Logistic(), monkeypatch, mode, each) for labels in (y, swapped)]
        for one, other in zip(*runs, strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)
    hinge = [opened(x, labels, plait.SquaredHinge(), monkeypatch, mode) for labels in (y, swapped)]
    assert max(np.abs(one - other).max() for one, other in zip(*hinge, strict=True)) > 1e-3


def test_a_party_with_the_whole_transcript_reads_labels_no_better_than_the_leverage_rule(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(3)
    x, y = rng.standard_normal((ROWS, 120)), np.where(rng.random(ROWS) < 0.5, 1.0, -1.0)
    parts = {"a": x[:, :60], "b": x[:, 60:]}
    seen: list[np.ndarray] = []
    honest = Opener.open

    def noted(self: Opener, broadcast: Broadcast) -> Broadcast:
        plain = honest(self, broadcast)
        if plain.vector is not None and self._decryptor.columns.column(0)[0] * x[0, 0] > 0:
            seen.append(plain.vector)
        return plain

    monkeypatch.setattr(Opener, "open", noted)
    plait.fit(parts, y, penalty=plait.L2(1e-2), fit_intercept=False, protection=Protection("labels", 1.0))
    first = seen[0]  # at z = 0 the gradient is -y / (2 N): D^T y, exactly
    np.testing.assert_allclose(first, -parts["a"].T @ y / (2 * ROWS), atol=1e-6)
    guessed = parts["a"] @ np.linalg.solve(parts["a"].T @ parts["a"], -first)
    rule = float(label_exposure(leverages(parts["a"], intercept=False).rows).mean())
    read = float(np.mean(np.sign(guessed) == y))
    assert abs(read - rule) < 4 * 0.5 / np.sqrt(ROWS)
    plain = -np.sign(plait.Logistic().gradient(np.zeros(ROWS), y))  # what the plain broadcast shows
    assert np.array_equal(plain, y)


def test_masked_and_plain_sums_take_the_same_steps() -> None:
    x, y, _ = data()
    found = plait.fit(thirds(x), y, penalty=plait.L2(1e-2), stopping=STRICT, protection="sums")
    separate = plait.fit(thirds(x), y, penalty=plait.L2(1e-2), stopping=STRICT, protection="labels")
    assert found.objective == pytest.approx(separate.objective, rel=1e-9)
    assert "encrypted under a key that it keeps" in found.protection
    assert "sums protected" in found.choice


def test_sums_of_groups_take_fewer_rounds_than_one_sum() -> None:
    x, y, _ = data(columns=27, seed=2)
    x = x @ (np.eye(27) + 0.3)  # columns that overlap
    parts = {f"p{i}": x[:, 3 * i : 3 * i + 3] for i in range(9)}
    runs = [
        plait.fit(parts, y, penalty=plait.L2(1e-3), stopping=STRICT, protection=Protection("sums", groups=groups))
        for groups in (False, True)
    ]
    assert runs[0].objective == pytest.approx(runs[1].objective, rel=1e-8)
    assert runs[1].rounds < runs[0].rounds


def rounds_to(fit: plait.Fit, objective: float) -> int:
    return next(row.round for row in fit.history if row.objective <= objective)


@pytest.mark.parametrize("mode", ["labels", "sums"])
@pytest.mark.parametrize("load", [load_digits, load_breast_cancer], ids=["digits", "breast cancer"])
def test_protection_takes_at_most_1_6_times_the_plain_rounds(mode: str, load: Any) -> None:
    x, y = load(return_X_y=True)
    x = (x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-12)
    y = np.where(y >= 5, 1.0, -1.0) if y.max() > 1 else 2.0 * y - 1
    x = x[:, x.std(axis=0) > 0.5]
    parts = {name: x[:, at] for name, at in zip("abc", np.array_split(np.arange(x.shape[1]), 3), strict=True)}
    options: dict[str, Any] = {"penalty": plait.L2(1e-4), "fit_intercept": False, "stopping": STRICT}
    plain = plait.fit(parts, y, method=plait.Subspace(sums_only=mode == "sums"), **options)
    found = plait.fit(parts, y, protection=Protection(mode, max_leverage=1.0), **options)  # type: ignore[arg-type]
    close = plain.objective * (1 + 1e-4)
    assert rounds_to(found, close) <= 1.6 * rounds_to(plain, close)


def test_the_squared_loss_whose_curvature_is_known_takes_about_the_plain_rounds_in_sums() -> None:
    """Columns of one party are nearly combinations of the others': what it does not see of their moves is small."""
    x, y = make_classification(1200, 18, n_informative=5, n_redundant=9, random_state=12, flip_y=0.02, class_sep=1.5)
    x, y = (x - x.mean(axis=0)) / x.std(axis=0), 2.0 * y - 1 + 0.3 * np.random.default_rng(0).standard_normal(1200)
    parts = {name: x[:, at] for name, at in zip("abc", np.array_split(np.arange(18), 3), strict=True)}
    options: dict[str, Any] = {"loss": "squared", "penalty": plait.L2(1e-4), "stopping": STRICT}
    plain = plait.fit(parts, y, method=plait.Subspace(sums_only=True), **options)
    found = plait.fit(parts, y, protection=Protection("sums", max_leverage=1.0), **options)
    close = plain.objective * (1 + 1e-4)
    assert rounds_to(found, close) <= 1.6 * rounds_to(plain, close)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"protection": "secret"}, SettingError, '"plain", "labels", "sums" or "blind"'),
        ({"protection": "labels", "method": plait.Jacobi()}, SettingError, "needs plait.Subspace"),
        ({"protection": "labels", "precision": "float32"}, SettingError, "precision 'float64'"),
        ({"protection": Protection("labels", 1e-3)}, PrivacyError, "leverage of at most 0.001"),
    ],
)
def test_what_cannot_be_protected_is_refused_before_round_1(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    x, y, _ = data()
    rounds: list[Any] = []
    with pytest.raises(error, match=message):
        plait.fit(thirds(x), y, callbacks=[rounds.append], **options)
    assert not rounds


def test_wide_tables_rows_that_stand_alone_and_sums_of_two_are_refused() -> None:
    x, y, _ = data(columns=30)
    with pytest.raises(PrivacyError, match="at most 10%"):
        plait.fit({"a": x[:200, :25], "b": x[:200, 25:]}, y[:200], protection="labels")
    alone = x.copy()
    alone[:, 0] = np.eye(1, ROWS, 5)[0]
    with pytest.raises(PrivacyError, match="rows 5;"):
        plait.fit({"a": alone[:, :4], "b": x[:, 4:]}, y, protection="labels")
    with pytest.raises(SettingError, match="at least 3 parties"):
        plait.fit({"a": x[:, :4], "b": x[:, 4:]}, y, protection="sums")


def test_messages_of_another_round_or_form_are_refused() -> None:
    x, _, _ = data()
    party = PartyShield(Protection("labels"), "a", ("a",), x, lambda: PartyKeys(bytes(32)))
    agreed = Agreed()

    def answer(request: Broadcast) -> Share:
        nonlocal agreed
        agreed, share = party.agree(agreed, request)
        return share

    shield = agree(Protection("labels"), ("a",), ROWS, InProcess({"a": answer}, None), bytes(range(32)))
    sealed = shield.seal({"a": Broadcast(3, np.ones(ROWS))}, inward=False)[0]["a"]
    assert sealed.vector is not None
    np.testing.assert_allclose(party.open(agreed, sealed).vector, x.sum(axis=0), atol=1e-2)  # type: ignore[arg-type]
    fine, held = shield.seal({"a": Broadcast(3, np.full(ROWS, np.pi), fine=True)}, inward=False)
    assert held is not None
    np.testing.assert_allclose(held, np.pi, rtol=2e-14)
    table = party.features(Features(x)).matrix
    np.testing.assert_allclose(party.open(agreed, fine["a"]).vector, table.T @ held, rtol=0, atol=1e-11)  # type: ignore[arg-type]
    coarse = shield.seal({"a": Broadcast(3, np.full(ROWS, np.pi))}, inward=False)[1]
    assert np.abs(coarse - np.pi).max() > 1e-9  # type: ignore[operator]
    later = shield.seal({"a": Broadcast(4, np.ones(ROWS))}, inward=False)[0]["a"].vector
    assert later is not None
    for bad in (
        Broadcast(3, np.concatenate([sealed.vector, later])),
        Broadcast(3, np.concatenate([sealed.vector] * 3)),
        Broadcast(4, sealed.vector),
        Broadcast(3, np.ones(ROWS)),
        Broadcast(3, sealed.vector[:-1]),
        Broadcast(3, np.concatenate([sealed.vector, sealed.vector[:1]])),
    ):
        with pytest.raises(ProtocolError):
            party.open(agreed, bad)


@pytest.mark.parametrize("rows", [1, 10, 29, 4000])
def test_hints_may_have_the_size_of_every_allowed_number_of_columns(rows: int) -> None:
    columns = range(1, max(rows // 10, 1) + 1)
    assert hint_sizes(rows) == {words_of(hints_size(count, each)) for count in columns for each in SETS}


@pytest.mark.parametrize("mode", ["labels", "sums"])
def test_row_weights_which_may_tell_the_labels_are_told_to_nobody(mode: str) -> None:
    """With class_weight="balanced" a row's weight is its label."""
    x, y, _ = data()
    y[: ROWS // 3] = 1.0
    balanced = np.where(y > 0, 1 / np.count_nonzero(y > 0), 1 / np.count_nonzero(y < 0))
    tap = tapped(x, y, mode, weights=balanced / balanced.sum())
    told = [request.vector for requests in tap.told for request in requests.values()]
    assert all(vector is not None and vector.dtype == np.uint64 for vector in told)  # offers and keys, no weights
    for requests in tap.down:
        for request in requests.values():
            assert request.vector is None or looks_random(request.vector[20:])
    found = plait.fit(thirds(x), y, penalty=plait.L2(1e-2), sample_weight=balanced, protection=mode, stopping=STRICT)
    pooled = LogisticRegression(C=1 / (1e-2 * ROWS), class_weight="balanced", tol=1e-12, max_iter=1000).fit(x, y)
    np.testing.assert_allclose(np.concatenate(list(found.weights.values())), pooled.coef_[0], atol=1e-6)
    assert found.certified


@pytest.mark.parametrize("mode", ["labels", "sums"])
def test_a_loss_with_kinks_and_row_weights_is_proved(mode: str) -> None:
    """A gradient at the edge of what hinge can have stays within it when it is rounded, else the proof ends at 1e-6."""
    rng = np.random.default_rng(3)
    parts = {name: rng.normal(size=(900, 4)) for name in "abc"}
    y = np.where(sum(table[:, 0] for table in parts.values()) + rng.logistic(size=900) > 0, 1, -1)
    weights = rng.integers(1, 4, 900).astype(float)
    stopping = plait.Stopping(tol=1e-7, max_rounds=60)
    fit = plait.fit(
        parts, y, loss="hinge", penalty=plait.L2(1e-2), protection=mode, sample_weight=weights, stopping=stopping
    )
    assert fit.certified
    assert fit.gap <= 1e-7


@pytest.mark.parametrize("mode", ["labels", "sums"])
def test_a_run_that_ends_where_it_begins_is_protected_too(mode: str) -> None:
    """A penalty under which all weights are 0: the run closes in round 0, with a gradient and with shares."""
    x, y, _ = data()
    penalty = plait.L1(1.0)
    plain = plait.fit(thirds(x), y, penalty=penalty, stopping=STRICT)
    tap = tapped(x, y, mode, penalty=penalty, tol=1e-9)
    before = 2 if mode == "sums" else 1  # offers, and keys
    (closing,), (shares,) = tap.told[before:], tap.before[before:]
    for name, request in closing.items():
        assert request.vector is not None
        assert looks_random(request.vector[20:])
        words = shares[name].vector
        assert mode == "labels" or (words is not None and looks_random(words))
    found = plait.fit(thirds(x), y, penalty=penalty, stopping=STRICT, protection=mode)
    assert plain.rounds == found.rounds == 0
    assert found.certified
    assert not any(weights.any() for weights in found.weights.values())
    assert found.objective == plain.objective
