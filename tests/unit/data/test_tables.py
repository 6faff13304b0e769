"""Readers and local preparation, against scikit-learn."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from plait.data import preparation
from plait.data.prepare_options import PrepareOptions
from plait.data.scaling import scaling
from plait.data.statistics import gather
from plait.data.tables import read_id_columns, read_table
from plait.data.texts import keyed_digest
from plait.errors import ConfigError, InputError
from tests.extras import arrow as pa
from tests.extras import parquet


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    path = tmp_path / "t.csv"
    path.write_text("id,age,region,income\nc1,30,north,1.5\nc2,NA,south,2.5\nc3,50,north,0.1\n")
    return path


def test_csv_gives_numbers_texts_and_ids(csv: Path) -> None:
    table = read_table(csv, "id")
    assert table.ids == ("c1", "c2", "c3")
    assert table.names == ("age", "income")
    np.testing.assert_array_equal(table.numbers, [[30, 1.5], [np.nan, 2.5], [50, 0.1]])
    assert list(table.column("region")) == ["north", "south", "north"]


def test_parquet_reads_as_csv_does(csv: Path, tmp_path: Path) -> None:
    parquet.write_table(
        pa.table(
            {
                "id": ["c1", "c2", "c3"],
                "age": [30, None, 50],
                "region": ["north", "south", "north"],
                "income": [1.5, 2.5, 0.1],
            }
        ),
        tmp_path / "t.parquet",
    )
    first, second = read_table(csv, "id"), read_table(tmp_path / "t.parquet", "id")
    assert (first.ids, first.names) == (second.ids, second.names)
    np.testing.assert_array_equal(first.numbers, second.numbers)


def test_libsvm_and_numpy_keep_their_matrices(tmp_path: Path) -> None:
    x = sp.random_array((20, 6), density=0.3, random_state=0, format="csr")
    y = np.arange(20.0)
    dump_svmlight_file(x, y, str(tmp_path / "t.svm"))
    table = read_table(tmp_path / "t.svm")
    np.testing.assert_allclose(table.numbers.toarray()[:, :-1], x.toarray())
    np.testing.assert_array_equal(table.column("label"), y)
    np.savez(tmp_path / "t.npz", X=x.toarray(), key=[f"k{i}" for i in range(20)], y=y)
    table = read_table(tmp_path / "t.npz", "key")
    assert table.ids[3] == "k3"
    np.testing.assert_array_equal(table.column("y"), y)


def test_bad_files_name_the_place(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    for text, what in [
        ("k,b\n1,2\n3\n", "line 3 must have 2"),
        ("k,b\n", "at least one row"),
        ("a\n1\n", "id column 'k'"),
    ]:
        path.write_text(text)
        with pytest.raises(InputError, match=what):
            read_table(path, "k")
    path.write_text("k,b\n1,2\n1,3\n")
    with pytest.raises(InputError, match=r"must be different\. Found 1 repeated"):
        read_table(path, "k")


def test_preparation_imputes_scales_and_encodes(csv: Path) -> None:
    table = read_table(csv, "id")
    options = PrepareOptions(impute="mean", scale="standard", one_hot=("region",))
    matrix, names = preparation.fit(table, options, ()).apply(table)
    expected = StandardScaler().fit_transform([[30, 1.5], [40, 2.5], [50, 0.1]])
    np.testing.assert_allclose(matrix[:, :2], expected, atol=1e-15)
    np.testing.assert_array_equal(matrix[:, 2:], [[1, 0], [0, 1], [1, 0]])
    assert names == ("age", "income", "region=north", "region=south")


def test_public_ranges_bound_every_row_and_learn_nothing(csv: Path, tmp_path: Path) -> None:
    table = read_table(csv, "id")
    options = PrepareOptions(
        impute="zero",
        scale="ranges",
        ranges={"age": [0, 40], "income": [-1, 3]},
        one_hot=("region",),
        categories={"region": ["south", "east"]},
    )
    fitted = preparation.fit(table, options, ())
    matrix, names = fitted.apply(table)
    assert names == ("age", "income", "region=south", "region=east")
    third = 1 / np.sqrt(3)
    # Ages 30, missing and 50 on [0, 40]; incomes 1.5, 2.5 and 0.1 on [-1, 3]; only one row is from the south.
    expected = [[0.5, 0.25, 0, 0], [-1, 0.75, 1, 0], [1, -0.45, 0, 0]]
    np.testing.assert_allclose(matrix, np.array(expected) * third, atol=1e-12)
    assert np.linalg.norm(matrix, axis=1).max() <= 1
    fitted.save(tmp_path)
    assert preparation.load(tmp_path).apply(table)[0].tobytes() == matrix.tobytes()
    with pytest.raises(ConfigError, match="Found none for income"):
        preparation.fit(table, replace(options, ranges={"age": [0, 1]}), ())
    with pytest.raises(ConfigError, match="low < high"):
        preparation.fit(table, replace(options, ranges={"age": [1, 0], "income": "wide"}), ())


@pytest.mark.parametrize("transformer", ["", "sklearn.preprocessing:QuantileTransformer"])
def test_saved_preparation_gives_the_same_bits(csv: Path, tmp_path: Path, transformer: str) -> None:
    table = read_table(csv, "id")
    options = PrepareOptions("median", "minmax", ("region",), transformer, {"n_quantiles": 3} if transformer else {})
    fitted = preparation.fit(table, options, ())
    fitted.save(tmp_path)
    again = preparation.load(tmp_path)
    assert again.apply(table)[0].tobytes() == fitted.apply(table)[0].tobytes()


def test_minmax_agrees_with_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((30, 3))
    shift, factor = scaling(x, gather(x), "minmax")
    np.testing.assert_allclose((x - shift) * factor, MinMaxScaler().fit_transform(x), atol=1e-12)


def test_missing_numbers_and_texts_say_what_to_do(csv: Path) -> None:
    table = read_table(csv, "id")
    with pytest.raises(InputError, match=r"List it in prepare\.one_hot"):
        preparation.fit(table, PrepareOptions(), ())
    with pytest.raises(InputError, match=r"prepare\.impute"):
        preparation.fit(table, PrepareOptions(one_hot=("region",)), ())
    with pytest.raises(ConfigError, match=r"must be one of sklearn"):
        preparation.fit(table, PrepareOptions(transformer="nowhere:Nothing", impute="zero"), ("region",))


def test_digest_depends_on_order_key_and_boundaries() -> None:
    digest = keyed_digest(["ab", "c"], b"k")
    assert digest == keyed_digest(("ab", "c"), b"k")
    for ids, key in [(["c", "ab"], b"k"), (["a", "bc"], b"k"), (["ab", "c"], b"l"), (["ab"], b"k")]:
        assert keyed_digest(ids, key) != digest


def test_id_columns_are_read_alone_and_alike_from_every_format(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,k,b,n\n1,x,2,7\n3,,4,8\n")
    parquet.write_table(pa.table({"a": [1, 3], "k": ["x", None], "b": [2, 4], "n": ["7", "8"]}), tmp_path / "t.parquet")
    np.savez(tmp_path / "t.npz", X=np.zeros((2, 1)), k=["x", ""], n=["7", "8"])
    for name in ("t.csv", "t.parquet", "t.npz"):
        assert read_id_columns(tmp_path / name, ("n", "k")) == [["7", "8"], ["x", ""]]
        with pytest.raises(InputError, match="must have the id column 'z'"):
            read_id_columns(tmp_path / name, ("k", "z"))
    with pytest.raises(InputError, match="must end in"):
        read_id_columns(tmp_path / "t.svm", ("k",))


def test_ids_of_several_columns_are_lists_and_rows_can_be_picked(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("k,n,x,t\na,1,0.5,u\na,2,1.5,v\na,1,2.5,w\n")
    with pytest.raises(InputError, match=r"must be different\. Found 1 repeated"):
        read_table(tmp_path / "t.csv", ("k", "n"))
    table = read_table(tmp_path / "t.csv", ("k", "n"), distinct=False)
    assert table.ids == ('["a", "1"]', '["a", "2"]', '["a", "1"]')
    picked = table.pick(np.array([2, 0]), ("p", "q"))
    assert picked.ids == ("p", "q")
    np.testing.assert_array_equal(picked.column("x"), [2.5, 0.5])
    assert list(picked.column("t")) == ["w", "u"]
