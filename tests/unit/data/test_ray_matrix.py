"""A table that a Ray cluster holds: the same bits as in memory, also when a worker is killed."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from plait.data import preparation, ray_matrix
from plait.data.arrow_tables import ParquetSource
from plait.data.prepare_options import PrepareOptions
from plait.data.ray_matrix import Holder, RayMatrix
from plait.data.recipes import Recipe
from plait.data.sources import Kind
from plait.data.tables import Table, read_table
from plait.errors import ConfigError, InputError
from plait.problem.features import Features
from tests.extras import arrow as pa
from tests.extras import parquet

ray = pytest.importorskip("ray", reason="Ray is an extra: pip install 'plait[ray]'")
ROWS, COLUMNS = 60_000, 40
KINDS: dict[str, Kind] = {**{f"x{j}": "number" for j in range(COLUMNS)}, "town": "category"}
OPTIONS = PrepareOptions(impute="mean", scale="standard", one_hot=("town",))

pytestmark = pytest.mark.filterwarnings("ignore")  # Ray warns of its own matters


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path, rng = tmp_path_factory.mktemp("table"), np.random.default_rng(0)
    columns = {f"x{j}": rng.standard_normal(ROWS) for j in range(COLUMNS)}
    columns["x3"][::17] = np.nan
    table = pa.table({**columns, "town": np.array(["Ulm", "Bonn", "Kiel"])[rng.integers(0, 3, ROWS)]})
    for i in range(3):
        parquet.write_table(table.slice(i * ROWS // 3, ROWS // 3), path / f"{i}.parquet")
    ray_matrix.join("", 2)
    yield path
    ray.shutdown()


def pid_of(matrix: RayMatrix) -> int:
    """The process of the first actor."""
    return int(ray.get(matrix._holders[0].__ray_call__.remote(_process)))


def _process(holder: Holder) -> int:
    return os.getpid()


@pytest.mark.parametrize(
    "order", [pytest.param(None, marks=pytest.mark.slow), np.random.default_rng(1).permutation(ROWS)[: ROWS - 7]]
)
def test_products_have_the_bits_of_those_in_memory_also_after_a_kill(folder: Path, order: object) -> None:
    here = read_table(ParquetSource(folder))
    here = here if order is None else here.pick(order, here.ids.take(order))  # type: ignore[attr-defined]
    count = here.rows
    raw = RayMatrix(Recipe(ParquetSource(folder), KINDS, order), (count, COLUMNS), 2)  # type: ignore[arg-type]
    there = Table(here.ids, raw, here.names, here.texts)
    fitted = [preparation.fit(table, OPTIONS, ()) for table in (here, there)]
    assert fitted[0].shift.tobytes() == fitted[1].shift.tobytes()
    (matrix, names), (held, _) = fitted[0].apply(here), fitted[1].apply(there)
    assert held.shape == (count, len(names))
    rng = np.random.default_rng(2)
    x, v, w = rng.standard_normal(len(names)), rng.standard_normal(count), rng.random(count)
    local, remote = Features(matrix), Features(held)
    for compute in (
        lambda f: f.forward(x),
        lambda f: f.adjoint(v),
        lambda f: f.weighted_gram(w),
        lambda f: f.column_squares,
        lambda f: f.scaled_rows(np.array([5, count - 1, 7]), np.ones(3), np.float64),
    ):
        assert compute(local).tobytes() == compute(remote).tobytes()
    os.kill(pid_of(held), signal.SIGKILL)  # the next product finds a new actor, which loads its rows again
    assert local.forward(x).tobytes() == remote.forward(x).tobytes()
    held.close()


def test_what_an_actor_finds_in_its_source_is_told_as_it_is(folder: Path) -> None:
    recipe = Recipe(ParquetSource(folder), {"town": "number"})
    with pytest.raises(InputError, match=r"0\.parquet, row 1: column 'town' must hold numbers"):
        Features(RayMatrix(recipe, (ROWS, 1), 1)).forward(np.ones(1))
    recipe = Recipe(ParquetSource(folder), {"x1": "number"})
    with pytest.raises(InputError, match="must have the rows that it had when the run began"):
        Features(RayMatrix(recipe, (2 * ROWS, 1), 1)).forward(np.ones(1))


def test_a_cluster_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setenv("RAY_gcs_rpc_server_connect_timeout_s", "1")
    with pytest.raises(ConfigError, match=r"cluster\.address must be that of a running Ray cluster"):
        ray_matrix.join("127.0.0.1:1", 1)
