"""Vectors from files: .fvecs, .bvecs and .ivecs, small types in .npy, and columns of vectors.

The same numbers are read into memory and in blocks.
"""

import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cli.test_fit import failure, run
from pyarrow import feather

from kvariates.sources import blocks, read

N, D = 50, 5
FLOATS = np.random.default_rng(0).normal(size=(N, D)).astype(np.float32)
BYTES = np.random.default_rng(1).integers(0, 256, (N, D), dtype=np.uint8)
SINGLE = pa.float32()
FEATURES = tuple(f"embedding_{j}" for j in range(D))


def vectors(path, X):
    head = np.full((len(X), 1), X.shape[1], "<i4").view(np.uint8)
    path.write_bytes(np.hstack([head, X.view(np.uint8).reshape(len(X), -1)]).tobytes())
    return path


def fixed(X):
    return pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), X.shape[1])


def lists(X, kind=SINGLE):
    return pa.array([None if row is None else list(row) for row in X], pa.list_(kind))


def table(column):
    names = pa.array([f"row {i}" for i in range(len(column))])
    return pa.table({"name": names, "embedding": column})


def both(path, dtype=np.float32, columns=None, **options):
    """The matrix of a file, which is the same in memory and in blocks."""
    whole = read(path, columns, **options)
    found = blocks(path, columns=columns, block_bytes=80, **options)
    parts = [block.X for block in found]
    assert len(parts) > 1
    np.testing.assert_array_equal(np.concatenate(parts), whole.X)
    assert whole.X.dtype == parts[0].dtype == dtype
    assert found.names in (None, whole.names)
    return whole


@pytest.mark.parametrize(
    ("name", "X", "dtype"),
    [
        ("a.fvecs", FLOATS, np.float32),
        ("a.bvecs", BYTES, np.float32),
        ("a.ivecs", BYTES.astype(np.int32) * 2**20 + 1, np.float64),
    ],
)
def test_files_of_benchmarks(tmp_path, name, X, dtype):
    np.testing.assert_array_equal(both(vectors(tmp_path / name, X), dtype).X, X)


@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.uint8])
def test_small_types_of_numpy_are_float32(tmp_path, dtype):
    X = BYTES.astype(dtype)
    np.save(tmp_path / "a.npy", X)
    np.testing.assert_array_equal(both(tmp_path / "a.npy").X, X)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda b: b[:-3], "is cut off, or its rows have different lengths: after 49 rows"),
        (lambda b: b[:96] + b"\x07" + b[97:], "row 5 says that it has 7 values, but those before"),
        (lambda _: b"", "the file is empty"),
        (lambda _: b"\x05\0", "is cut off: it has 2 bytes"),
        (lambda _: b"\0\0\0\0", "is no .fvecs file: its first row says that it has 0 values"),
        (lambda _: b"hello world", "is no .fvecs file"),
    ],
)
def test_damaged_vectors(tmp_path, damage, words):
    path = vectors(tmp_path / "a.fvecs", FLOATS)
    path.write_bytes(damage(path.read_bytes()))
    for reading in (lambda: read(path), lambda: list(blocks(path, block_bytes=80))):
        with pytest.raises(ValueError, match=words) as caught:
            reading()
        assert str(caught.value).startswith(str(path))
        assert "\n" not in str(caught.value)


COLUMNS = {
    "fixed": (fixed(FLOATS), FLOATS),
    "half": (fixed(FLOATS.astype(np.float16)), FLOATS.astype(np.float16)),
    "int8": (fixed(BYTES.view(np.int8)), BYTES.view(np.int8)),
    "lists": (lists(FLOATS), FLOATS),
    "double": (lists(FLOATS, pa.float64()), FLOATS),
    "large": (lists(FLOATS).cast(pa.large_list(pa.float32())), FLOATS),
}


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("suffix", ["parquet", "feather"])
def test_a_column_of_vectors(tmp_path, name, suffix):
    column, X = COLUMNS[name]
    path, made = tmp_path / f"a.{suffix}", table(column)
    if suffix == "parquet":
        pq.write_table(made, path, row_group_size=7)
    else:
        feather.write_feather(made, path, chunksize=7)
    dtype = np.float64 if name == "double" else np.float32
    whole = both(path, dtype)
    np.testing.assert_array_equal(whole.X, X)
    assert whole.names == FEATURES
    assert whole.left_out == ("name",)
    np.testing.assert_array_equal(both(path, dtype, ["embedding"]).X, X)
    some = both(path, dtype, ["embedding_3", "embedding_1"])
    np.testing.assert_array_equal(some.X, X[:, [3, 1]])


def test_vectors_beside_numbers_and_weights(tmp_path):
    made = table(fixed(FLOATS)).append_column("x", pa.array(BYTES[:, 0]))
    pq.write_table(made, tmp_path / "a.parquet")
    found = both(tmp_path / "a.parquet", np.float64, ["x", "embedding"])
    np.testing.assert_array_equal(found.X, np.column_stack([BYTES[:, 0], FLOATS]))
    found = blocks(tmp_path / "a.parquet", weights="x")
    (block,) = found
    np.testing.assert_array_equal(block.X, FLOATS)
    np.testing.assert_array_equal(block.weight, BYTES[:, 0])


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"embedding": list(FLOATS)}),
        pl.from_arrow(table(fixed(FLOATS))),
        pl.from_arrow(table(lists(FLOATS))).lazy(),
        [pd.DataFrame({"embedding": list(part)}) for part in (FLOATS[:20], FLOATS[20:])],
    ],
)
def test_frames_with_vectors(frame):
    parts = [block.X for block in blocks(frame, block_bytes=80)]
    np.testing.assert_array_equal(np.concatenate(parts), FLOATS)


@pytest.mark.parametrize("make", [lists, lambda X: lists(X).cast(pa.list_(pa.float32(), D))])
def test_a_missing_vector(tmp_path, make):
    path, rows = tmp_path / "a.parquet", [*FLOATS]
    rows[3] = None
    pq.write_table(table(make(rows)), path, row_group_size=2)
    with pytest.raises(ValueError, match="'embedding_0' has 1 missing value, first in row 4"):
        read(path)
    with pytest.raises(ValueError, match="row group 2, row 4, column 'embedding_0': a missing"):
        list(blocks(path))
    np.testing.assert_array_equal(both(path, missing="drop").X, np.delete(FLOATS, 3, axis=0))


def test_vectors_of_different_lengths(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(table(lists([*FLOATS[:7], [1.0, 2.0]])), path, row_group_size=2)
    words = (
        "row group 4, row 8, column 'embedding': a vector of 2 values, but the vectors before "
        "have 5; give vectors of one length, or name other columns"
    )
    for reading in (lambda: read(path), lambda: list(blocks(path))):
        with pytest.raises(ValueError, match=words) as caught:
            reading()
        assert str(caught.value) == f"{path}: {words}"


def test_lists_of_words_are_left_out(tmp_path):
    """Their integers are read only if they are named."""
    words = pa.array([[1, 2], [3]] * (N // 2))
    pq.write_table(table(fixed(FLOATS)).append_column("words", words), tmp_path / "a.parquet")
    assert both(tmp_path / "a.parquet").left_out == ("name", "words")
    with pytest.raises(ValueError, match="a vector of 1 values, but the vectors before have 2"):
        read(tmp_path / "a.parquet", ["words"])


def test_the_command_fits_and_predicts_vectors(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(table(fixed(FLOATS)).append_column("x", pa.array(BYTES[:, 0])), path)
    run("fit", path, "-k", "3", "--columns", "embedding", "--keep", "-o", tmp_path / "m")
    summary = json.loads((tmp_path / "m" / "summary.json").read_text())
    assert tuple(summary["data"]["columns"]) == FEATURES
    labels = pq.read_table(tmp_path / "m" / "labels.parquet")
    assert labels["embedding"].to_pylist() == FLOATS.tolist()
    run("predict", tmp_path / "m", path, "-o", tmp_path / "labels.csv")
    again = np.loadtxt(tmp_path / "labels.csv", skiprows=1)
    np.testing.assert_array_equal(again, labels["label"])


def test_a_private_fit_does_not_learn_lengths_from_rows(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(table(lists(FLOATS)), path)
    options = ("-k", "2", "--epsilon", "1", "--columns", "embedding", "--bounds=-5,5")
    line = failure("fit", path, *options, "-o", tmp_path / "m")
    assert "not numbers: only rows tell how long these are; write them as a fixed-size" in line
