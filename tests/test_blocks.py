"""Blocks of a source: the rows are those that were written, however they are stored and cut."""

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from api import assembling_module as assembling
from pyarrow import feather, ipc, parquet
from scipy import sparse

from kvariates.sources import blocks, read

NAMES = ("a", "b", "c")
SINGLE, DOUBLE = np.float32, np.float64


def matrix(n=1000, dtype=DOUBLE, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 3)).astype(dtype)


def arrow(X, names=NAMES):
    return pa.table(dict(zip(names, X.T, strict=True)))


def joined(source):
    """All rows, and their weights if there are any."""
    parts = list(source)
    stack = sparse.vstack if sparse.issparse(parts[0].X) else np.concatenate
    X = stack([block.X for block in parts])
    firsts = np.cumsum([0] + [block.X.shape[0] for block in parts])[:-1]
    assert [block.first for block in parts] == firsts.tolist()
    if parts[0].weight is None:
        return X
    return X, np.concatenate([block.weight for block in parts])


def parquet_file(path, X):
    parquet.write_table(arrow(X), path, row_group_size=170)
    return path


def parquet_folder(path, X):
    (path / "deeper").mkdir(parents=True)
    parquet_file(path / "1.parquet", X[:300])
    parquet_file(path / "2.parquet", X[300:301])
    parquet_file(path / "deeper" / "3.parquet", X[301:])
    (path / "_SUCCESS").touch()
    return path


def csv_file(path, X):
    pd.DataFrame(X, columns=NAMES).to_csv(path, index=False)
    return path


def stream_file(path, X):
    table = arrow(X)
    with ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=170)
    return path


def feather_file(path, X):
    feather.write_feather(arrow(X), path, chunksize=170)
    return path


def npy_file(path, X):
    np.save(path, X)
    return path


def relation(X):
    return duckdb.connect().from_arrow(arrow(X))


# name: (makes the source of a matrix in a folder, whether its columns have names)
SOURCES = {
    "parquet": (lambda at, X: parquet_file(at / "x.parquet", X), True),
    "folder": (lambda at, X: parquet_folder(at / "folder", X), True),
    "csv": (lambda at, X: csv_file(at / "x.csv", X), True),
    "csv.gz": (lambda at, X: csv_file(at / "x.csv.gz", X), True),
    "feather": (lambda at, X: feather_file(at / "x.feather", X), True),
    "ipc stream": (lambda at, X: stream_file(at / "x.arrow", X), True),
    "npy": (lambda at, X: npy_file(at / "x.npy", X), False),
    "npy, columns first": (lambda at, X: npy_file(at / "x.npy", np.asfortranarray(X)), False),
    "duckdb": (lambda at, X: relation(X), True),
    "pandas": (lambda at, X: pd.DataFrame(X, columns=NAMES, index=np.arange(len(X)) * 2), True),
    "polars": (lambda at, X: pl.DataFrame(X, schema=list(NAMES)), True),
    "lazy": (lambda at, X: pl.LazyFrame(X, schema=list(NAMES)), True),
    "arrow": (lambda at, X: arrow(X), True),
    "matrix": (lambda at, X: X, False),
    "matrix, columns first": (lambda at, X: np.asfortranarray(X), False),
    "list": (lambda at, X: [X[:7], X[7:7], X[7:600], X[600:]], False),
    "function": (lambda at, X: lambda: iter([X[:7], X[7:]]), False),
    "frames": (lambda at, X: [pd.DataFrame(x, columns=NAMES) for x in (X[:9], X[9:])], None),
    "csr": (lambda at, X: sparse.csr_matrix(X), False),
    "csr arrays": (lambda at, X: [sparse.csr_array(X[:9]), sparse.csc_array(X[9:])], False),
}


def dense(X):
    return X.toarray() if sparse.issparse(X) else X


class TestSources:
    @pytest.mark.parametrize("block_bytes", [1, 7000, 2**26])
    @pytest.mark.parametrize("name", SOURCES)
    def test_all_rows_twice(self, tmp_path, name, block_bytes):
        X = matrix(40 if block_bytes == 1 else 1000)
        make, named = SOURCES[name]
        source = blocks(make(tmp_path, X), block_bytes=block_bytes)
        assert source.repeatable
        assert source.names == (NAMES if named else None)
        assert source.n_rows in (None, len(X))
        for _ in range(2):
            np.testing.assert_array_equal(dense(joined(source)), X)
        sizes = [block.X.shape[0] for block in source]
        if "csr" not in name:
            size = max(1, block_bytes // 24)
            assert set(sizes[:-1]) <= {size}
            assert 0 < sizes[-1] <= size

    @pytest.mark.parametrize("name", [name for name in SOURCES if "csv" not in name])
    def test_float32_stays_and_dtype_converts(self, tmp_path, name):
        X = matrix(dtype=SINGLE)
        source = SOURCES[name][0](tmp_path, X)
        for asked, given in [(None, SINGLE), ("float32", SINGLE), (DOUBLE, DOUBLE)]:
            found = joined(blocks(source, dtype=asked, block_bytes=5000))
            assert found.dtype == given
            np.testing.assert_array_equal(dense(found), X)

    @pytest.mark.parametrize("name", SOURCES)
    @pytest.mark.parametrize("block_bytes", [400, 2**26])
    def test_columns_and_weights(self, tmp_path, name, block_bytes):
        X = abs(matrix())
        make, named = SOURCES[name]
        a, b, c = ("x0", "x1", "x2") if named is False else NAMES
        source = make(tmp_path, X)
        found, weight = joined(blocks(source, columns=[c, a], weights=b, block_bytes=block_bytes))
        np.testing.assert_array_equal(dense(found), X[:, [2, 0]])
        np.testing.assert_array_equal(weight, X[:, 1])
        found, weight = joined(blocks(source, weights=a))
        np.testing.assert_array_equal(dense(found), X[:, 1:])
        assert weight.dtype == DOUBLE

    @pytest.mark.parametrize("block_bytes", [100, 2**26])
    @pytest.mark.parametrize("name", ["matrix", "csr", "parquet", "npy"])
    def test_weights_in_an_array(self, tmp_path, name, block_bytes):
        X, weight = matrix(), np.arange(1000)
        X[5, 1] = np.nan
        source = SOURCES[name][0](tmp_path, X)
        found = blocks(source, weights=weight, missing="drop", block_bytes=block_bytes)
        np.testing.assert_array_equal(joined(found)[1], np.delete(weight, 5))

    @pytest.mark.parametrize("block_bytes", [1, 50, 700, 2**26])
    @pytest.mark.parametrize("name", SOURCES)
    def test_incomplete_rows_are_dropped_and_counted(self, tmp_path, name, block_bytes):
        X = matrix(200)
        X[[0, 7, 8, 120, 199], [0, 1, 2, 0, 1]] = np.nan
        X[50, 2] = np.inf
        source = blocks(SOURCES[name][0](tmp_path, X), missing="drop", block_bytes=block_bytes)
        for _ in range(2):
            complete = X[np.isfinite(X).all(axis=1)]
            np.testing.assert_array_equal(dense(joined(source)), complete)
            assert source.rows_dropped == 6

    @pytest.mark.parametrize("name", SOURCES)
    def test_huge_values_are_not_missing(self, tmp_path, name):
        X = np.full((50, 3), 1e308)
        np.testing.assert_array_equal(dense(joined(blocks(SOURCES[name][0](tmp_path, X)))), X)

    def test_the_columns_are_those_of_read(self, tmp_path):
        columns = {
            "t": ["1", "2"],
            "yes": [True, False],
            "i": [1, 2],
            "h": np.array([1, 2], np.float16),
            "d": pa.array(["1.25", "-2"]).cast(pa.decimal128(9, 2)),
            "u": np.array([2**53 + 1, 2**64 - 1], np.uint64),
        }
        path = tmp_path / "t.parquet"
        parquet.write_table(pa.table(columns), path)
        source = blocks(path)
        assert source.names == read(path).names == ("yes", "i", "h", "d", "u")
        np.testing.assert_array_equal(joined(source), read(path).X)
        named = ["yes", "t", "h"]
        np.testing.assert_array_equal(joined(blocks(path, columns=named)), read(path, named).X)

    @pytest.mark.parametrize("dtype", [SINGLE, DOUBLE])
    @pytest.mark.parametrize("d", [1, 7, 16, 33])
    def test_narrow_and_wide_rows_in_several_chunks(self, monkeypatch, d, dtype):
        """Rows of a cache line or more are copied in another way than shorter rows."""
        monkeypatch.setattr(assembling, "CHUNK_BYTES", 5000)
        X = np.random.default_rng(d).normal(size=(2000, d)).astype(dtype)
        X[:, ::2] = np.round(99 * X[:, ::2])
        X[[3, 1500], 0] = np.nan
        names = [f"c{j}" for j in range(d)]
        columns = [x if j % 2 else pa.array(x, pa.int64(), from_pandas=True, safe=False)
                   for j, x in enumerate(X.T)]  # fmt: skip
        table = pa.table(columns, names)
        found = joined(blocks(table, missing="drop", dtype=dtype, block_bytes=30000))
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, np.delete(X, [3, 1500], axis=0))

    def test_nullable_columns_of_frames(self):
        frame = pd.DataFrame({"i": [1, None, 3], "b": [True, False, None]}).convert_dtypes()
        source = blocks(frame, columns=["i", "b"], missing="drop")
        np.testing.assert_array_equal(joined(source), [[1, 1]])
        assert source.rows_dropped == 2
        source = blocks(pl.from_pandas(frame), columns=["b", "i"], missing="drop")
        np.testing.assert_array_equal(joined(source), [[1, 1]])

    def test_csv_integers_with_later_decimals(self, tmp_path):
        lines = ["a,b", *(f"{i},{i}" for i in range(10**6)), "0.5,1"]
        (tmp_path / "a.csv").write_text("\n".join(lines))
        last = list(blocks(tmp_path / "a.csv"))[-1].X[-1]
        np.testing.assert_array_equal(last, [0.5, 1])

    def test_no_copy_of_a_clean_matrix(self, tmp_path):
        X = matrix()
        assert all(np.shares_memory(block.X, X) for block in blocks(X, block_bytes=2400))
        weighted = blocks(X, block_bytes=2400, weights=np.ones(1000))
        assert all(np.shares_memory(block.X, X) for block in weighted)
        np.save(tmp_path / "x.npy", X)
        for block in blocks(tmp_path / "x.npy", block_bytes=2400):
            assert not block.X.flags.owndata

    def test_the_files_of_a_folder_in_other_orders_and_integer_types(self, tmp_path):
        parquet.write_table(pa.table({"a": [1], "b": [2.0]}), tmp_path / "1.parquet")
        small = pa.array([4], pa.int8())
        parquet.write_table(pa.table({"b": [3.0], "a": small}), tmp_path / "2.parquet")
        np.testing.assert_array_equal(joined(blocks(tmp_path)), [[1, 2], [4, 3]])


def test_a_block_takes_no_more_memory_than_its_source():
    for source in (np.ones((1000, 6)), pd.DataFrame(np.ones((1000, 6)))):
        assert [block.X.shape for block in blocks(source, block_bytes=2**44)] == [(1000, 6)]


def test_a_block_takes_no_more_memory_than_a_source_of_unknown_length(tmp_path):
    X = np.random.default_rng(0).normal(size=(1000, 6))
    path = tmp_path / "rows.csv"
    pd.DataFrame(X, columns=list("abcdef")).to_csv(path, index=False)
    for source in ([X], path, duckdb.read_csv(str(path))):
        np.testing.assert_array_equal(joined(blocks(source, block_bytes=2**50)), X)


@pytest.mark.parametrize("missing", ["error", "drop"])
def test_large_blocks_hold_the_same_rows(missing, monkeypatch):
    monkeypatch.setattr(assembling, "FIRST_BYTES", 1)
    monkeypatch.setattr(assembling, "CHUNK_BYTES", 960)
    X = np.random.default_rng(0).normal(size=(1000, 6))
    if missing == "drop":
        X[::7, 1] = np.nan
    kept = np.flatnonzero(np.isfinite(X).all(axis=1))
    frame = pd.DataFrame(X).rename(columns=str).assign(w=np.arange(1000.0))
    for size in (2400, 30_000, 2**50):
        parts = [frame[:300], frame[300:]]
        source = blocks(parts, weights="w", missing=missing, block_bytes=size)
        rows, weights = joined(source)
        np.testing.assert_array_equal(rows, X[kept])
        np.testing.assert_array_equal(weights, kept)
        if missing == "drop":
            numbers = np.concatenate([block.numbers for block in source])
            np.testing.assert_array_equal(numbers, kept)


def test_the_representation_tells_the_columns_left_out(tmp_path):
    path = tmp_path / "rows.parquet"
    parquet.write_table(pa.table({"a": [1.0], "name": ["x"], "b": [2]}), path)
    assert repr(blocks(path)) == f"Blocks({path}: 2 columns, left out: name)"
    assert repr(blocks(path, columns=["a"])) == f"Blocks({path}: 1 column)"
