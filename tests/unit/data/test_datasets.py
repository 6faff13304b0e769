"""The public data sets: where they are looked for, what is refused, and the figures known of them."""

import functools
import hashlib
import http.server
import lzma
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import plait
from plait.data.datasets import A9A_TRAIN, CREDIT, GISETTE
from plait.data.files import PublicFile, cache_folder, read_public
from plait.errors import DatasetError

CONTENT = b"+1 1:1\n-1 2:1\n"


def _here(file: PublicFile) -> bool:
    folders = [Path(os.environ["PLAIT_DATA"])] if os.environ.get("PLAIT_DATA") else []
    return any((f / (file.path + end)).is_file() for f in [*folders, cache_folder()] for end in ("", ".xz"))


needs_a9a = pytest.mark.skipif(not _here(A9A_TRAIN), reason="a9a is not here: set PLAIT_DATA")
needs_gisette = pytest.mark.skipif(not _here(GISETTE), reason="gisette is not here: set PLAIT_DATA")
needs_credit = pytest.mark.skipif(not _here(CREDIT), reason="default_credit is not here: set PLAIT_DATA")


def _file(url: str | None = None, content: bytes = CONTENT) -> PublicFile:
    return PublicFile("toy/toy", hashlib.sha256(content).hexdigest(), url)


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with no data and no cache."""
    monkeypatch.delenv("PLAIT_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("sys.platform", "linux")
    return tmp_path


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """A real HTTP server that offers CONTENT as /toy."""
    (tmp_path / "www").mkdir()
    (tmp_path / "www" / "toy").write_bytes(CONTENT)

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(tmp_path / "www"))
    ) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()


def test_the_named_folder_comes_first(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (empty / "data" / "toy").mkdir(parents=True)
    (empty / "data" / "toy" / "toy.xz").write_bytes(lzma.compress(CONTENT))
    monkeypatch.setenv("PLAIT_DATA", str(empty / "data"))
    assert read_public(_file("http://127.0.0.1:1/never-asked")) == CONTENT


def test_a_download_is_kept_and_not_repeated(empty: Path, server: str) -> None:
    assert read_public(_file(f"{server}/toy")) == CONTENT
    kept = empty / "cache" / "plait" / "toy"
    assert [p.name for p in kept.iterdir()] == ["toy"]
    assert read_public(_file("http://127.0.0.1:1/gone")) == CONTENT


def test_a_download_with_another_checksum_is_refused_and_not_kept(empty: Path, server: str) -> None:
    with pytest.raises(DatasetError, match=r"must have the SHA-256 .* Found .*PLAIT_DATA"):
        read_public(_file(f"{server}/toy", content=b"something else"))
    assert not (empty / "cache").exists()


def test_a_damaged_local_file_is_refused(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (empty / "toy").mkdir()
    (empty / "toy" / "toy").write_bytes(CONTENT[:-1])
    monkeypatch.setenv("PLAIT_DATA", str(empty))
    with pytest.raises(DatasetError, match="damaged or another version"):
        read_public(_file())


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/toy", "http://no-such-host.invalid/toy"])
def test_without_a_network_the_message_says_what_to_do(empty: Path, url: str) -> None:
    with pytest.raises(DatasetError, match=r"could not be downloaded from .*Put the file .* PLAIT_DATA"):
        read_public(_file(url))


def test_a_missing_page_is_reported(empty: Path, server: str) -> None:
    with pytest.raises(DatasetError, match=r"(?i)not found"):
        read_public(_file(f"{server}/missing"))


def test_a_file_without_a_source_says_where_to_put_it(empty: Path) -> None:
    with pytest.raises(DatasetError, match=r"no public source.*toy/toy"):
        read_public(_file())


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(plait.SettingError, match=r"\['a9a', 'gisette', 'credit'\]"):
        plait.datasets.load("mnist")


@needs_a9a
def test_a9a_reaches_its_known_optimum() -> None:
    data = plait.datasets.load("a9a")
    assert {k: (v.shape, v.format) for k, v in data.parts.items()} == {
        "A": ((32561, 66), "csr"),
        "B": ((32561, 57), "csr"),
    }
    assert {k: v.shape for k, v in data.test_parts.items()} == {"A": (16281, 66), "B": (16281, 57)}
    fit = plait.fit(data.parts, data.y, penalty=plait.L2(1e-4), method=plait.Subspace(), fit_intercept=False)
    assert fit.objective == pytest.approx(0.324506924713757, rel=1e-6)
    losses = np.logaddexp(0, -data.y_test * fit.scores(data.test_parts))
    assert losses.mean() == pytest.approx(0.32383, abs=1e-5)


@needs_gisette
def test_gisette_is_scaled_by_its_training_rows() -> None:
    data = plait.datasets.load("gisette")
    assert [v.shape for v in data.parts.values()] == [(6000, 2000), (6000, 2000), (6000, 1000)]
    x, x_test = np.hstack(list(data.parts.values())), np.hstack(list(data.test_parts.values()))
    constant = np.ptp(x, axis=0) == 0
    assert constant.any()
    np.testing.assert_array_equal(x.min(axis=0), -1)
    np.testing.assert_allclose(x[:, ~constant].max(axis=0), 1, atol=1e-15)
    np.testing.assert_array_equal(x_test[:, constant], -1)
    assert "REBUILD" in data.description


@needs_gisette
@pytest.mark.slow
def test_gisette_reaches_its_known_optimum() -> None:
    data = plait.datasets.load("gisette")
    x, x_test = np.hstack(list(data.parts.values())), np.hstack(list(data.test_parts.values()))
    pooled = LogisticRegression(C=1e3 / 6000, fit_intercept=False, tol=1e-7, max_iter=5000).fit(x, data.y)
    losses = np.logaddexp(0, -data.y * (x @ pooled.coef_[0]))
    assert losses.mean() + 5e-4 * (pooled.coef_**2).sum() == pytest.approx(0.01341489, rel=1e-6)
    assert np.logaddexp(0, -data.y_test * (x_test @ pooled.coef_[0])).mean() == pytest.approx(0.0690, abs=1e-4)


@needs_credit
def test_credit_has_a_bank_and_a_partner() -> None:
    data = plait.datasets.load("credit")
    assert {k: v.shape for k, v in data.parts.items()} == {"bank": (24000, 13), "partner": (24000, 10)}
    assert {k: v.shape for k, v in data.test_parts.items()} == {"bank": (6000, 13), "partner": (6000, 10)}
    assert (np.concatenate([data.y, data.y_test]) > 0).mean() == pytest.approx(0.2212)
    for part in data.parts.values():
        np.testing.assert_allclose(part.mean(axis=0), 0, atol=1e-12)
        np.testing.assert_allclose(part.std(axis=0), 1)


@needs_gisette
def test_the_origin_of_every_gisette_column_is_known() -> None:
    origins = plait.datasets.gisette_origins()
    assert np.bincount(origins).tolist() == [1000, 1867, 1899, 234]
    assert not origins[:1000].any()
