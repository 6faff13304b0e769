"""A trained model says who it is, and comes back from its file as it was."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import plait
from plait.errors import StorageError

RNG = np.random.default_rng(0)
BANK = pd.DataFrame(RNG.normal(size=(60, 2)), columns=["age", "debt"])
SHOP = RNG.normal(size=(60, 3))
Y = (BANK["age"] + SHOP[:, 1] + RNG.logistic(size=60) > 0).astype(int).to_numpy()


@pytest.fixture(scope="module")
def model() -> plait.Fit:
    return plait.fit({"bank": BANK, "shop": SHOP}, Y, loss=plait.SquaredHinge(), alpha=1e-2)


def test_coefficients_name_party_and_column(model: plait.Fit) -> None:
    table = pd.DataFrame(model.coefficients())
    assert list(table["party"]) == ["bank"] * 2 + ["shop"] * 3
    assert list(table["column"]) == ["age", "debt", "0", "1", "2"]
    scores = BANK.to_numpy() @ table["weight"][:2] + SHOP @ table["weight"][2:] + model.intercept
    np.testing.assert_allclose(model.scores({"bank": BANK, "shop": SHOP}), scores)


def test_a_fit_prints_what_it_is(model: plait.Fit) -> None:
    text = repr(model)
    for word in ("SquaredHinge", "Subspace", "bank: 2 columns", "shop: 3 columns", "converged after", "objective"):
        assert word in text
    assert len(text) < 400


@pytest.mark.parametrize("listed", [False, True])
def test_a_fit_is_the_same_after_saving_and_loading(tmp_path: Path, listed: bool) -> None:
    parts: Any = [BANK, SHOP] if listed else {"bank": BANK, "shop": SHOP}
    before = plait.fit(parts, Y, loss=plait.Huber(2.0), method=plait.Proximal(rho=1.0))
    before.save(tmp_path / "model.json")
    after = plait.Fit.load(tmp_path / "model.json")
    np.testing.assert_array_equal(after.scores(parts), before.scores(parts))
    assert repr(after) == repr(before)
    assert (after.loss, after.method, after.columns) == (before.loss, before.method, before.columns)
    assert after.coefficients() == before.coefficients()
    pd.testing.assert_frame_equal(after.history.to_pandas(), before.history.to_pandas())
    json.loads((tmp_path / "model.json").read_text(), parse_constant=lambda word: pytest.fail(f"not JSON: {word}"))


def test_damaged_and_foreign_files_are_refused(tmp_path: Path, model: plait.Fit) -> None:
    path = tmp_path / "model.json"
    with pytest.raises(StorageError, match="Found no such file"):
        plait.Fit.load(path)
    model.save(path)
    content = json.loads(path.read_text())
    for change in ({"format": 2}, {"fit": {}}, {"more": 1}):
        path.write_text(json.dumps({**content, **change}))
        with pytest.raises(StorageError, match="a saved fit must"):
            plait.Fit.load(path)
    for field, value in (("loss", {"loss": {"name": "evil"}}), ("method", {"os": {}}), ("weights", {"array": ["x"]})):
        path.write_text(json.dumps({**content, "fit": {**content["fit"], field: value}}))
        with pytest.raises(StorageError, match="damaged"):
            plait.Fit.load(path)
    path.write_text(path.read_text()[:100])
    with pytest.raises(StorageError, match="readable JSON"):
        plait.Fit.load(path)


def test_estimators_name_their_coefficients() -> None:
    table = pd.DataFrame(np.hstack([BANK, SHOP]), columns=["age", "debt", "orders", "visits", "spent"])
    parties = {"shop": ["orders", "visits", "spent"], "bank": ["age", "debt"]}
    model = plait.VerticalLogisticRegression(parties).fit(table, Y)
    assert [(c.party, c.column) for c in model.coefficients()] == [
        (party, column) for column in table for party in parties if column in parties[party]
    ]
    np.testing.assert_array_equal([c.weight for c in model.coefficients()], model.coef_[0])
    np.testing.assert_array_equal(model.party_coef_["bank"], model.coef_[:, :2])
    assert model.n_features_in_ == 5
    three = plait.VerticalLogisticRegression(2).fit(SHOP, np.array(["a", "b", "c"])[RNG.integers(3, size=60)])
    assert [c.label for c in three.coefficients()] == ["a"] * 3 + ["b"] * 3 + ["c"] * 3
