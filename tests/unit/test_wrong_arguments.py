"""Whatever is given as an argument: it works, or a PlaitError says what must hold."""

import contextlib
import inspect
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import plait
from plait import privacy, tracking

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 4))
Y = (X[:, 0] + RNG.normal(size=30) > 0).astype(float)
WRONG: dict[str, Any] = {
    "text": "junk",
    "a number as text": "1e-4",
    "an object": object(),
    "nothing": None,
    "minus one": -1,
    "a fraction": 3.5,
    "NaN": float("nan"),
    "infinity": float("inf"),
    "a number beyond every float": 10**400,
    "true": True,
    "an empty list": [],
    "a list": [1, "two"],
    "an empty dict": {},
    "a dict": {"a": 1},
    "bytes": b"junk",
    "an array": np.ones(3),
    "text in an array": np.array(["a", "b"]),
    "dates": np.array(["2026-01-01"], dtype="datetime64[D]"),
}
FIT = list(inspect.signature(plait.fit).parameters)
ESTIMATORS = [plait.VerticalLogisticRegression, plait.VerticalRegression, plait.VerticalSVC]
REQUIRED: dict[Any, dict[str, Any]] = {
    plait.GroupLasso: {"alpha": 0.1, "groups": [0, 0, 1]},
    privacy.Recommended: {"epsilon": 1.0},
    privacy.MechanismA: {"epsilon": 1.0},
    privacy.PaperMechanism: {"epsilon": 0.5},
    privacy.PaperNoise: {"sigma": 1.0},
    privacy.RandomisedResponse: {"epsilon": 1.0},
    privacy.NoisyLabel: {"epsilon": 1.0, "low": 0.0, "high": 1.0},
    privacy.PublicRanges: {"low": [0.0], "high": [1.0]},
}
OPTIONS = [
    *(plait.Huber, plait.Pinball, plait.Cauchy),
    *(plait.L1, plait.L2, plait.ElasticNet, plait.LogPenalty, plait.Box, plait.Ball),
    *(plait.Subspace, plait.Augmented, plait.Proximal, plait.Jacobi, plait.GaussSeidel, plait.Sgd),
    plait.Stopping,
    *REQUIRED,
]


PRIVACY: dict[Any, dict[str, Any]] = {
    privacy.Budget: {"epsilon": 1.0},
    privacy.Cost: {},
    privacy.KeyedNoise: {},
    privacy.Ledger: {"root": Path("ledgers"), "party": "a", "table": "people", "budget": privacy.Unlimited()},
    privacy.LedgerFolder: {"root": "ledgers", "budget": privacy.Unlimited()},
    privacy.calibrate: {"accountant": privacy.ExactAccountant(), "epsilon": 1.0, "delta": 1e-5, "rounds": 2},
    privacy.delta_of: {"epsilon": 1.0, "mu": 1.0},
    privacy.epsilon_of: {"mu": 1.0, "delta": 1e-5},
    privacy.mu_of: {"epsilon": 1.0, "delta": 1e-5},
    privacy.noise_multiplier: {"epsilon": 1.0, "delta": 1e-5},
}
TRACKERS = [tracking.CsvFile, tracking.EventFile, tracking.JsonLinesFile, tracking.PrometheusFile]


def attempt(call: Any, *given: Any, **options: Any) -> None:
    """Call it; a PlaitError is an answer, any other exception is a failure of the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with contextlib.suppress(plait.PlaitError):
            call(*given, **options)


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("argument", FIT)
def test_fit_answers_every_argument(argument: str, wrong: str) -> None:
    options = {"parts": {"a": X[:, :2], "b": X[:, 2:]}, "y": Y, "stopping": plait.Stopping(max_rounds=2)}
    attempt(plait.fit, **{**options, argument: WRONG[wrong]})


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_estimators_answer_every_argument(estimator: Any, wrong: str) -> None:
    for argument in inspect.signature(estimator).parameters:
        attempt(estimator(**{"max_rounds": 2, argument: WRONG[wrong]}).fit, X, Y)
    for argument in ("X", "y", "sample_weight"):
        attempt(estimator(max_rounds=2).fit, **{"X": X, "y": Y, argument: WRONG[wrong]})


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("kind", OPTIONS, ids=lambda kind: kind.__name__)
def test_constructors_answer_every_argument(kind: Any, wrong: str) -> None:
    for argument in inspect.signature(kind).parameters:
        attempt(kind, **{**REQUIRED.get(kind, {}), argument: WRONG[wrong]})


@pytest.mark.parametrize("wrong", WRONG)
def test_a_trained_model_answers_every_argument(wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a text is a path
    model, value = plait.fit({"a": X[:, :2], "b": X[:, 2:]}, Y), WRONG[wrong]
    for given in (value, [value, value], {"a": value, "b": X[:, 2:]}, {"a": X[:, :2]}):
        attempt(model.scores, given)
    for call in (model.save, plait.Fit.load, plait.datasets.load):
        attempt(call, value)
    attempt(plait.History, value, [])
    attempt(plait.History, model.history.start, value)
    for kind in ESTIMATORS:
        trained = kind().fit(X, Y)
        for call in ("predict", "predict_proba", "decision_function"):
            if hasattr(trained, call):
                attempt(getattr(trained, call), value)
        attempt(trained.score, value, Y)
        attempt(trained.score, X, value)


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("call", PRIVACY, ids=lambda call: call.__name__)
def test_privacy_answers_every_argument(call: Any, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for argument in inspect.signature(call).parameters:
        attempt(call, **{**PRIVACY[call], argument: WRONG[wrong]})


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("kind", TRACKERS, ids=lambda kind: kind.__name__)
def test_trackers_answer_every_path(kind: Any, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    attempt(kind, WRONG[wrong])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "logit"}, r"loss must be one of 'logistic'.*Found 'logit'"),
        ({"penalty": "ridge"}, r"penalty must be 'l2', 'l1'.*Found 'ridge'"),
        ({"alpha": "1e-4"}, r"alpha must be a number. Found '1e-4'"),
        ({"method": "newton"}, r"method must be 'auto', 'subspace'.*Found 'newton'"),
        ({"stopping": 20}, r"stopping must be a Stopping. Found 20"),
        ({"fit_intercept": "yes"}, r"fit_intercept must be True or False. Found 'yes'"),
        ({"callbacks": print}, r"callbacks must be a list of functions"),
        ({"penalty": {"a": plait.L2(), "b": plait.L1()}, "alpha": 0.1}, r"Leave out alpha"),
    ],
)
def test_messages_say_what_must_hold(options: dict[str, Any], message: str) -> None:
    with pytest.raises(plait.SettingError, match=message):
        plait.fit({"a": X[:, :2], "b": X[:, 2:]}, Y, **options)


def test_names_stand_for_objects() -> None:
    parts = {"a": X[:, :2], "b": X[:, 2:]}
    named = plait.fit(
        parts, Y, loss="squared_hinge", penalty={"a": "l2", "b": plait.L1(0.01)}, alpha=0.1, method="subspace"
    )
    built = plait.fit(
        parts, Y, loss=plait.SquaredHinge(), penalty={"a": plait.L2(0.1), "b": plait.L1(0.01)}, method=plait.Subspace()
    )
    assert named.loss == built.loss
    for name in parts:
        np.testing.assert_array_equal(named.weights[name], built.weights[name])


def test_rows_of_another_index_are_refused() -> None:
    bank = pd.DataFrame(X[:, :2], columns=["age", "debt"])
    shop = pd.DataFrame(X[:, 2:], columns=["orders", "visits"])
    shuffled = shop.sample(frac=1.0, random_state=0)
    with pytest.raises(plait.InputError, match=r"same rows in the same order.*'bank'.*'shop'.*reset_index"):
        plait.fit({"bank": bank, "shop": shuffled}, Y)
    with pytest.raises(plait.InputError, match="same rows in the same order"):
        plait.fit({"bank": bank, "shop": shop}, pd.Series(Y).sample(frac=1.0, random_state=0))
    model = plait.fit({"bank": bank, "shop": shop}, pd.Series(Y))
    with pytest.raises(plait.InputError, match="same rows in the same order"):
        model.scores({"bank": bank, "shop": shuffled})


def test_scores_go_by_the_names_of_columns() -> None:
    bank = pd.DataFrame(X, columns=["age", "debt", "income", "years"])
    model = plait.fit({"bank": bank}, Y)
    expected = model.scores({"bank": bank})
    reordered = model.scores({"bank": bank[["years", "age", "income", "debt"]]})
    np.testing.assert_allclose(reordered, expected, rtol=1e-12)  # a copy of the table is added up in another order
    np.testing.assert_allclose(model.scores({"bank": X}), expected, rtol=1e-12)
    with pytest.raises(plait.InputError, match=r"'bank' must bring the columns it was trained on: age.*Found 'wealth'"):
        model.scores({"bank": bank.rename(columns={"debt": "wealth"})})


@pytest.mark.parametrize("mixed", [False, True])
def test_dates_are_no_numbers(mixed: bool) -> None:
    table = pd.DataFrame({"age": X[:, 0], "since": pd.date_range("2020-01-01", periods=30)})
    with pytest.raises(plait.InputError, match=r"'bank' must bring numbers. Column 'since' holds dates"):
        plait.fit({"bank": table if mixed else table[["since"]]}, Y)
    with pytest.raises(plait.InputError, match="labels must be numbers"):
        plait.fit({"bank": X}, table["since"])
