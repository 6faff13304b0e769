"""`plait.fit(privacy=...)`: what is protected, what is said about it, and what it costs."""

import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

import plait
from plait import L1, L2, Cauchy, Hinge, Huber, Jacobi, Pinball, Poisson, Squared, SquaredHinge, Stopping, fit
from plait.errors import BudgetError, PrivacyError, SettingError
from plait.messages import Broadcast
from plait.methods.base import Block
from plait.methods.private.pass_messages import Step, say
from plait.methods.private.pass_parties import Protected
from plait.privacy import (
    Budget,
    ClippedRows,
    InsecureTestNoise,
    LedgerFolder,
    MechanismA,
    NoGuaranteeWarning,
    NoisyLabel,
    NoPrivacy,
    PaperMechanism,
    PaperNoise,
    Policy,
    PublicRanges,
    RandomisedResponse,
    Recommended,
)
from plait.privacy.ledger.budget import Unlimited
from plait.privacy.ledger.ledger import Ledger
from plait.privacy.ledger.release_gate import Book
from plait.problem.features import Features

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]


def data(n: int = 3000, seed: int = 0) -> Arrays:
    rng = np.random.default_rng(seed)
    own, other = rng.uniform(-1, 1, (n, 4)), rng.uniform(-1, 1, (n, 5)) / np.sqrt(5)
    z = own @ [2, -1, 0, 1] + other @ [6, -6, 4, 0, 2]
    return own, other, (rng.random(n) < 1 / (1 + np.exp(-z))).astype(float)


def log_loss(z: np.ndarray, t: np.ndarray) -> float:
    return float(np.mean(np.logaddexp(0, z) - t * z))


def private(epsilon: float, **settings: object) -> Policy:
    noise = settings.pop("noise", InsecureTestNoise(0))
    return Policy([NoPrivacy(), Recommended(epsilon)], noise=noise, **settings)  # type: ignore[arg-type]


def test_a_private_fit_says_its_guarantee_in_words() -> None:
    own, other, t = data(600)
    model = fit(
        {"shop": own, "bank": other}, t, privacy={"shop": NoPrivacy(), "bank": Recommended(1.0)}, fit_intercept=False
    )
    assert model.guarantee.splitlines() == [
        "party shop: features: not protected, guarantee: none (no privacy mechanism); labels: not protected",
        "party bank: every customer's features are protected with epsilon = 1.00, delta = 1e-5 (replace one row); "
        "labels: not protected",
    ]
    assert model.converged
    assert np.isnan(model.objective), "a training loss is a number about the data that nobody released"


def test_running_without_privacy_is_explicit_and_changes_nothing() -> None:
    own, other, t = data(300)
    plain, explicit = (
        fit([own, other], t, fit_intercept=False),
        fit([own, other], t, privacy=NoPrivacy(), fit_intercept=False),
    )
    assert np.array_equal(plain.weights[1], explicit.weights[1])
    assert "not protected" in plain.guarantee


def test_with_a_large_budget_the_pass_comes_close_to_pooled_training() -> None:
    own, other, t = data(6000)
    model = fit([own[:4000], other[:4000]], t[:4000], privacy=private(20.0), fit_intercept=True)
    both = np.hstack([own, other])
    pooled = LogisticRegression(C=1.0).fit(both[:4000], t[:4000]).decision_function(both[4000:])
    alone = LogisticRegression(C=1.0).fit(own[:4000], t[:4000]).decision_function(own[4000:])
    reference, local = log_loss(pooled, t[4000:]), log_loss(alone, t[4000:])
    assert log_loss(model.scores([own[4000:], other[4000:]]), t[4000:]) < reference + 0.25 * (local - reference)


def test_a_sparse_table_gives_the_same_private_model() -> None:
    own, other, t = data(2000)
    other[np.abs(other) < 0.2] = 0.0
    # Their noise differs, because its key covers the table as it is stored; among 2,000 rows it moves weights by .02.
    fine = [
        fit([own, table], t, privacy=private(200.0), fit_intercept=False).weights[1]
        for table in (other, sp.csr_matrix(other))
    ]
    assert np.allclose(*fine, atol=0.05)
    assert np.abs(fine[0]).max() > 1


def test_the_same_noise_gives_the_same_model_and_other_noise_another() -> None:
    own, other, t = data(500)

    def weights(seed: int) -> np.ndarray:
        return fit([own, other], t, privacy=private(1.0, noise=InsecureTestNoise(seed)), fit_intercept=False).weights[1]

    assert np.array_equal(weights(0), weights(0))
    assert not np.array_equal(weights(0), weights(1))


def test_identical_helpers_share_one_signal() -> None:
    own, other, t = data(6000)
    policy = Policy([NoPrivacy(), *[Recommended(8.0)] * 2], noise=InsecureTestNoise(0))
    model = fit([own, other, other], t, privacy=policy, fit_intercept=False)
    single = fit([own, other], t, privacy=private(8.0), fit_intercept=False)
    ratio = np.linalg.norm(model.weights[1] + model.weights[2]) / np.linalg.norm(single.weights[1])
    assert 0.8 < ratio < 1.25


def test_parties_that_all_protect_their_features_need_no_label_holder_with_features() -> None:
    own, other, t = data(6000)
    model = fit([own / 2, other], t, privacy=Policy(Recommended(8.0), noise=InsecureTestNoise(0)), fit_intercept=True)
    assert log_loss(model.scores([own / 2, other]), t) < 0.9 * log_loss(np.zeros(t.size), t)


def test_without_an_offset_a_helper_sees_nothing_of_the_own_features() -> None:
    own, other, t = data(800)

    def helper(rows: np.ndarray) -> np.ndarray:
        return fit([rows, other], t, privacy=private(1.0, offset=False), fit_intercept=False).weights[1]

    assert np.array_equal(helper(own), helper(own[::-1]))


@pytest.mark.parametrize(
    "loss", [Hinge(), SquaredHinge(), Huber(), Squared(), Pinball(), Cauchy(), Poisson()], ids=repr
)
def test_every_loss_learns_from_a_private_party(loss: plait.Loss) -> None:
    own, other, t = data(4000)
    y = np.round(own @ [1, 0, 0, 0] + other @ [3, -3, 2, 0, 1]) if not loss.classifies else t
    y = np.abs(y) if isinstance(loss, Poisson) else y
    stop = Stopping(tol=1e-4 if loss.smooth else 3e-2)
    model = fit([own, other], y, loss=loss, privacy=private(20.0), penalty=L2(1e-3), stopping=stop, fit_intercept=False)
    alone = fit([own], y, loss=loss, penalty=L2(1e-3), stopping=stop, fit_intercept=False)
    labels = loss.labels(y)
    reached = loss.value(model.scores([own, other]), labels).mean()
    # |other| has no mean effect on the absolute value that Poisson sees: there it is enough to do no harm.
    assert reached < loss.value(alone.scores([own]), labels).mean() * (1.02 if isinstance(loss, Poisson) else 0.98)


def test_a_private_party_may_have_any_penalty() -> None:
    own, other, t = data(4000)
    model = fit([own, other], t, privacy=private(20.0), penalty=[L2(1e-4), L1(0.03)], fit_intercept=False)
    assert model.weights[1][3] == 0.0
    assert abs(model.weights[1][0]) > 1


def test_released_scores_are_an_option_that_is_paid_for() -> None:
    own, other, t = data(2000)
    policy = Policy([NoPrivacy(), Recommended(8.0, score_share=0.3)], noise=InsecureTestNoise(0))
    model = fit({"own": own, "bank": other}, t, privacy=policy, fit_intercept=False)
    assert model.released["bank"].shape == (2000,)
    noise = model.released["bank"] - np.clip(other @ model.weights["bank"], -2, 2)
    assert noise.std() == pytest.approx(4 / (1.666 * np.sqrt(0.3)), rel=0.1)


def test_label_privacy_goes_with_every_mode() -> None:
    own, other, t = data(6000)
    for features in (NoPrivacy(), [NoPrivacy(), Recommended(8.0)]):
        policy = Policy(features, labels=RandomisedResponse(2.0), noise=InsecureTestNoise(0))
        model = fit([own, other], t, privacy=policy, fit_intercept=False)
        assert "labels: protected with epsilon = 2.00" in model.guarantee
        assert log_loss(model.scores([own, other]), t) < 0.9 * log_loss(np.zeros(t.size), t)
    noisy = Policy(labels=NoisyLabel(4.0, -2.0, 2.0), noise=InsecureTestNoise(0))
    assert fit([own, other], 2 * t - 1, loss=Squared(), privacy=noisy, fit_intercept=False).converged


def test_clipped_rows_are_clipped_in_scoring_too() -> None:
    own, other, t = data(600)
    model = fit([own, 50 * other], t, privacy=Policy([NoPrivacy(), Recommended(5.0, clip=1.0)]), fit_intercept=False)
    assert np.allclose(model.scores([own, 50 * other]), model.scores([own, 5000 * other]), atol=1e-9)


def test_every_release_is_charged_stored_and_sent_again(tmp_path: Path) -> None:
    own, other, t = data(400)
    folder = LedgerFolder(tmp_path, Budget(1.0))

    def train(run: str) -> np.ndarray:
        policy = Policy([NoPrivacy(), Recommended(1.0)], ledger=folder, run=run)
        return fit({"own": own, "bank": other}, t, privacy=policy, fit_intercept=False).weights["bank"]

    first = train("first")
    ledger = folder.ledger("bank")
    assert [c.release.name for c in ledger.charges()] == ["Gram", *["gradient"] * 12]
    assert ledger.spent().epsilon(1e-5) == pytest.approx(1.0, rel=1e-3)
    assert ledger.spent().delta(1.0) <= 1e-5
    assert len(list(ledger.path.parent.glob("releases/*.bin"))) == 13
    assert np.array_equal(first, train("first")), "the same run sends the same bytes"
    assert len(ledger.charges()) == 13
    secret = next(tmp_path.glob("*.secret"))
    assert secret.stat().st_mode & 0o077 == 0
    with pytest.raises(BudgetError, match="Nothing was released"):
        train("second")
    assert len(ledger.charges()) == 13


def test_other_inputs_under_the_same_name_pay_again(tmp_path: Path) -> None:
    own, other, t = data(400)
    folder = LedgerFolder(tmp_path, Budget(5.0))
    for penalty in (1e-4, 1e-2):
        fit(
            [own, other],
            t,
            penalty=L2(penalty),
            privacy=Policy([NoPrivacy(), Recommended(1.0)], ledger=folder),
            fit_intercept=False,
        )
    ledger = folder.ledger("party 1")
    assert len(ledger.charges()) == 26


def test_noisy_labels_are_drawn_once_per_data_version(tmp_path: Path) -> None:
    own, other, t = data(400)
    policy = Policy(labels=RandomisedResponse(1.0), ledger=LedgerFolder(tmp_path, Budget(1.0)))
    one, two = (fit([own, other], t, privacy=policy, fit_intercept=False) for _ in range(2))
    assert np.array_equal(one.weights[0], two.weights[0])
    assert len(LedgerFolder(tmp_path, Budget(1.0)).ledger("label holder").charges()) == 1


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1)[:, None]


def test_the_papers_noise_runs_inside_jacobi_and_warns_once() -> None:
    own, other, t = data(800)
    seen: list[float] = []

    def watch(number: int, weights: dict[str, np.ndarray]) -> None:
        seen.append(log_loss(own @ weights["party 0"] + other @ weights["party 1"], t))

    with pytest.warns(NoGuaranteeWarning) as caught:
        model = fit([own, other], t, privacy=Policy(PaperNoise(sigma=1.0), noise=InsecureTestNoise(0)),
                    stopping=Stopping(max_rounds=12), trace=watch, fit_intercept=False)  # fmt: skip
    assert len(caught) == 1
    assert isinstance(model.method, Jacobi)
    assert len(seen) == model.rounds == 12
    assert "guarantee: none" in model.guarantee


def test_without_noise_the_papers_run_is_jacobi() -> None:
    own, other, t = data(300)
    stop = Stopping(max_rounds=8, tol=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        noisy = fit([own, other], t, privacy=PaperNoise(sigma=0.0), stopping=stop, fit_intercept=False)
        clean = fit([own, other], t, method=Jacobi(), stopping=stop, fit_intercept=False)
    assert np.allclose(noisy.weights[0], clean.weights[0])
    assert [r.objective for r in noisy.history] == pytest.approx([r.objective for r in clean.history])


def test_the_papers_mechanism_is_recorded_as_no_guarantee(tmp_path: Path) -> None:
    own, other, t = data(300)
    policy = Policy(PaperMechanism(epsilon=1.0, bound=5.0), ledger=LedgerFolder(tmp_path, Budget(1.0)))
    with pytest.warns(NoGuaranteeWarning):
        fit({"a": unit(own), "b": unit(other)}, t, privacy=policy, stopping=Stopping(max_rounds=3), fit_intercept=False)
    charges = LedgerFolder(tmp_path, Budget(1.0)).ledger("a", guaranteed=False).charges()
    assert [c.guarantee for c in charges] == ["none"] * 3
    assert "rank 4 of 4" in charges[0].release.name


def test_the_papers_mechanism_refuses_rows_that_are_not_of_norm_one() -> None:
    own, other, t = data(300)
    with pytest.raises(PrivacyError, match="norm 1"):
        fit([own, other], t, privacy=PaperMechanism(epsilon=1.0))


def test_mechanism_a_pays_for_its_rounds_and_no_more(tmp_path: Path) -> None:
    own, other, t = data(2000)
    mechanism = MechanismA(50.0, rounds=5)
    folder = LedgerFolder(tmp_path, Budget(50.0))
    model = fit(
        {"own": own, "bank": other},
        t,
        privacy=Policy([NoPrivacy(), mechanism], ledger=folder),
        penalty=L2(0.01),
        fit_intercept=False,
    )
    assert model.rounds == 5
    assert model.guarantee.endswith(
        "party bank: every customer's features are protected with epsilon = 50.00, delta = 1e-5 (replace one row) "
        "in 5 rounds of shares; labels: not protected"
    )
    spent = folder.ledger("bank").spent()
    assert spent.delta(50.0) <= 1e-5
    assert isinstance(model.weights, dict)
    # Only a simulation can do this: its weights are not covered, and so nothing is scored with them.
    scores = model.intercept + own @ model.weights["own"] + other @ model.weights["bank"]
    assert log_loss(scores, t) < log_loss(np.zeros(t.size), t)


@pytest.mark.parametrize(
    "penalty",
    [plait.ElasticNet(0.05, 0.5), plait.GroupLasso(0.02, [0, 0, 1, 1, 1]) + L2(0.02), L2(0.02) + plait.NonNegative()],
    ids=repr,
)
def test_mechanism_a_solves_its_update_with_every_penalty_that_its_proof_covers(penalty: plait.Penalty) -> None:
    _, other, t = data(400)
    rest = plait.problem.penalties.Combined(0.0, penalty.shape, penalty.feasible)
    rows = ClippedRows.of(other)

    def objective(x: np.ndarray) -> float:
        gap = rows.forward(x) - (2 * t - 1)
        return float(gap @ gap / 2 + 3.5 * x @ x + 300 * rest.value(x))

    for radius in (10.0, 0.1):
        mechanism = MechanismA(5.0, kappa=7.0, radius=radius, rest=rest, scale=300.0)
        found = mechanism.solve(rows, 2 * t - 1)
        # An independent search around the answer, within the ball and the penalty's domain.
        rng = np.random.default_rng(0)
        best = objective(found)
        for size in np.geomspace(1e-5, 1.0, 300):
            step = found + size * rng.standard_normal(5)
            step = np.maximum(step, 0) if penalty.feasible is not None else step
            step *= min(1.0, radius / np.linalg.norm(step)) if np.any(step) else 1.0
            assert objective(step) >= best - 1e-9
        assert np.linalg.norm(found) <= radius * (1 + 1e-12)


def test_mechanism_a_trains_with_an_elastic_net() -> None:
    own, other, t = data(2000)
    policy = Policy([NoPrivacy(), MechanismA(50.0, rounds=5)], noise=InsecureTestNoise(0))
    model = fit([own, other], t, privacy=policy, penalty=plait.ElasticNet(0.02, 0.3), fit_intercept=False)
    scores = model.intercept + own @ model.weights[0] + other @ model.weights[1]
    assert log_loss(scores, t) < log_loss(np.zeros(t.size), t)


def test_mechanism_a_needs_a_fixed_rho_and_strong_convexity() -> None:
    own, other, t = data(300)
    for settings in ({"method": plait.Subspace()}, {"method": plait.Proximal()}, {"penalty": L1(0.1)},
                     {"penalty": plait.NoPenalty()}, {"penalty": L2(0.1) + plait.Box(-1, 1)},
                     {"penalty": L2(0.1) + plait.LogPenalty(0.1, 1.0)}):  # fmt: skip
        with pytest.raises(SettingError, match=r"MechanismA|needs"):
            fit([own, other], t, privacy=[NoPrivacy(), MechanismA(1.0)], **settings)  # type: ignore[arg-type]


BAD = [
    (Recommended(1.0, delta=0.5), {}, PrivacyError, "1/N"),
    (Recommended(1.0, clip=9.0), {"standardise": True}, PrivacyError, "public constants"),
    ("yes", {}, SettingError, "Recommended"),
    ([Recommended(1.0)], {}, SettingError, "one per party"),
    ({"x": Recommended(1.0)}, {}, SettingError, "exactly the parties"),
    ([Recommended(1.0), MechanismA(1.0)], {}, SettingError, "one kind"),
    ([NoPrivacy(), 3], {}, SettingError, "must be a mechanism"),
]


@pytest.mark.parametrize(("privacy", "change", "error", "words"), BAD)
def test_bad_settings_are_refused_in_words(
    privacy: object, change: dict[str, float], error: type[Exception], words: str
) -> None:
    own, other, t = data(300)
    other = other * change.get("scale", 1.0)
    if change.get("standardise"):
        own, other = ((x - x.mean(axis=0)) / x.std(axis=0) for x in (own, other))
    else:
        own = own / 2
    with pytest.raises(error, match=words):
        fit([own, other], t, privacy=privacy)


def test_estimators_train_privately_and_say_so() -> None:
    own, other, t = data(2000)
    table = np.hstack([own, 9 * other])
    parties = {"shop": [0, 1, 2, 3], "bank": [4, 5, 6, 7, 8]}
    policy = Policy({"shop": NoPrivacy(), "bank": Recommended(8.0, clip=9.0)}, noise=InsecureTestNoise(0))
    model = plait.VerticalLogisticRegression(parties, privacy=policy).fit(table, t)
    assert "party bank: every customer's features are protected with epsilon = 8.00" in model.guarantee_
    assert model.score(table, t) > plait.VerticalLogisticRegression().fit(own, t).score(own, t) + 0.02
    far = table.copy()
    far[:, 4:] *= 100 / np.linalg.norm(far[:, 4:], axis=1)[:, None]
    further = far.copy()
    further[:, 4:] *= 100
    assert np.allclose(model.decision_function(far), model.decision_function(further))


def three_classes(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    table = rng.uniform(-1, 1, (n, 6)) / np.sqrt(3)
    scores = 6 * table @ rng.standard_normal((6, 3)) + rng.gumbel(size=(n, 3))
    return table, np.array(["a", "b", "c"])[scores.argmax(axis=1)]


def test_labels_of_several_classes_are_noised_once(tmp_path: Path) -> None:
    table, y = three_classes(6000)
    parties = {"shop": [0, 1, 2], "bank": [3, 4, 5]}
    open_model = plait.VerticalLogisticRegression(parties).fit(table, y)
    folder = LedgerFolder(tmp_path, Budget(2.0))
    policy = Policy(labels=RandomisedResponse(2.0, classes=3), ledger=folder)
    model = plait.VerticalLogisticRegression(parties, privacy=policy).fit(table, y)
    assert "labels: protected with epsilon = 2.00" in model.guarantee_
    assert open_model.score(table, y) - 0.03 < model.score(table, y) <= open_model.score(table, y) + 0.01
    assert len(folder.ledger("label holder").charges()) == 1
    with pytest.raises(SettingError, match="classes=3"):
        plait.VerticalLogisticRegression(parties, privacy=Policy(labels=RandomisedResponse(2.0))).fit(table, y)


def test_features_pay_for_all_classes_together(tmp_path: Path) -> None:
    table, y = three_classes(6000)
    folder = LedgerFolder(tmp_path, Budget(8.0))
    policy = Policy({"shop": NoPrivacy(), "bank": Recommended(8.0)}, ledger=folder)
    parties = {"shop": [0, 1, 2], "bank": [3, 4, 5]}
    model = plait.VerticalLogisticRegression(parties, privacy=policy).fit(table, y)
    assert "party bank: every customer's features are protected with epsilon = 8.00" in model.guarantee_
    ledger = folder.ledger("bank")
    assert len(ledger.charges()) == 3 * 15  # mean, spread, Gram matrix, 12 gradients
    assert 7.9 < ledger.spent().epsilon(1e-5) <= 8.0
    alone = plait.VerticalLogisticRegression().fit(table[:, :3], y).score(table[:, :3], y)
    assert model.score(table, y) > alone + 0.02


def test_estimators_never_centre_the_columns_of_a_private_party(tmp_path: Path) -> None:
    own, other, t = data(600)
    folder = LedgerFolder(tmp_path, Budget(1.0))
    policy = Policy({"a": NoPrivacy(), "b": Recommended(1.0)}, ledger=folder)
    rows = np.hstack([own, np.abs(other)])
    plait.VerticalLogisticRegression({"a": range(4), "b": range(4, 9)}, privacy=policy).fit(rows, t)
    # A ledger belongs to the data that was used: this one has charges only if that was the table as it is.
    assert len(folder.ledger("b").charges()) == 15


def test_public_ranges_bound_every_row() -> None:
    rows = np.array([[1e9, 20.0], [-3.0, 65.0]])
    scaled = PublicRanges([0, 18], [1e6, 100]).apply(rows)
    assert np.linalg.norm(scaled, axis=1).max() <= 1
    with pytest.raises(SettingError, match="low < high"):
        PublicRanges([1.0], [0.0])


def test_a_lost_secret_is_noticed(tmp_path: Path) -> None:
    folder = LedgerFolder(tmp_path, Budget(1.0))
    folder.noise("bank")
    next(tmp_path.glob("*.secret")).write_bytes(b"short")
    with pytest.raises(PrivacyError, match="32 bytes"):
        folder.noise("bank")


def test_a_run_that_the_budget_cannot_finish_is_not_begun(tmp_path: Path) -> None:
    own, other, t = data(300)
    with pytest.raises(BudgetError):
        fit(
            [own, other], t, privacy=Policy([NoPrivacy(), Recommended(2.0)], ledger=LedgerFolder(tmp_path, Budget(1.0)))
        )
    assert LedgerFolder(tmp_path, Budget(1.0)).ledger("party 1").charges() == []


def test_the_ledger_of_a_private_party_keeps_its_budget(tmp_path: Path) -> None:
    assert isinstance(LedgerFolder(tmp_path, Budget(1.0)).ledger("p", guaranteed=False).budget, Unlimited)
    assert isinstance(LedgerFolder(tmp_path, Budget(1.0)).ledger("q"), Ledger)


def test_a_helper_refuses_to_train_unprotected() -> None:
    _, other, _ = data(300)
    block = Block(Features(other), L2(1e-3), plait.Logistic(), np.full(300, 1 / 300))
    side = Protected(plait.Subspace(), Recommended(1.0), Book("run", "bank"), sketch=False).party_side(block)
    state = side.start()
    for request in (
        Broadcast(1, np.zeros(300), np.array([0.0, 1.0, 0.0])),
        Broadcast(1, None, np.array([float(Step.SCORES), 1.0])),
    ):
        with pytest.raises(PrivacyError, match="Nothing was released"):
            side.respond(state, request)
    for early in (say(Step.FIT, 0.0), say(Step.SKETCH, 10)):
        with pytest.raises(PrivacyError, match="in order"):
            side.respond(state, early)


def test_unprotected_parties_learn_what_they_would_learn_alone() -> None:
    own, other, t = data(1500)
    shop, mail = own[:, :2], own[:, 2:]
    model = fit({"shop": shop, "mail": mail, "bank": other}, t,
                privacy={"shop": NoPrivacy(), "mail": NoPrivacy(), "bank": Recommended(1.0)},
                fit_intercept=False)  # fmt: skip
    alone = fit({"shop": shop, "mail": mail}, t, fit_intercept=False)
    for name in ("shop", "mail"):
        assert np.array_equal(model.weights[name], alone.weights[name])
