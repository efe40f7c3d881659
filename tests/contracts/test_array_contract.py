"""Arrays of other libraries are taken as the NumPy arrays that they hold."""

from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest

import kvariates
from kvariates import (
    AntiClustering,
    KMeans,
    KMedian,
    OnlineKMeans,
    PrivateKMeans,
    StreamingKMeans,
)

X = np.random.default_rng(7).normal(size=(80, 6)).astype(np.float32)
CPU, PINNED, GPU = (1, 0), (3, 0), (2, 0)


class Tensor:
    """As those of PyTorch."""

    def __init__(self, values, device=CPU, *, requires_grad=False):
        self.values, self.device, self.requires_grad = values, device, requires_grad
        self.shape, self.dtype = values.shape, f"torch.{values.dtype}"

    def __dlpack__(self, **options):
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.device

    def __array__(self, dtype=None, copy=None):
        raise AssertionError("a tensor is exported without a copy")


class Holder:
    """What only NumPy can read."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return self.values if dtype is None else self.values.astype(dtype)


def learned(model):
    return np.asarray(model.predict(X)), model.cluster_centers_


FITS = {
    "KMeans": partial(KMeans, 3, random_state=0),
    "cosine": partial(KMeans, 3, metric="cosine", random_state=0),
    "KMedian": partial(KMedian, 3, random_state=0),
    "KMedian cosine": partial(KMedian, 3, metric="cosine", random_state=0),
    "StreamingKMeans": partial(StreamingKMeans, 3, random_state=0),
    "OnlineKMeans": partial(OnlineKMeans, 3, random_state=0),
}


@pytest.mark.parametrize("make", [Tensor, Holder, partial(Tensor, device=PINNED)])
@pytest.mark.parametrize("name", FITS)
def test_fits_see_the_same_rows(make, name):
    given, plain = FITS[name]().fit(make(X)), FITS[name]().fit(X)
    for one, other in zip(learned(given), learned(plain), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(given.predict(make(X)), plain.predict(X))
    np.testing.assert_array_equal(given.transform(make(X)), plain.transform(X))


@pytest.mark.filterwarnings("ignore:.*may be only noise")
@pytest.mark.parametrize("make", [Tensor, Holder])
def test_other_ways_in(make):
    given, plain = (
        (
            KMeans(3, random_state=0).fit(X).score(rows),
            repr(kvariates.choose_k(rows, range(2, 5), random_state=0)),
            kvariates.kmeans_plusplus(rows, 3, random_state=0)[1].tolist(),
            AntiClustering(4, random_state=0).fit(rows).labels_.tolist(),
            StreamingKMeans(3, random_state=0).partial_fit(rows).predict(X).tolist(),
            PrivateKMeans(2, bounds=(-9, 9), epsilon=3, delta=1e-6).fit(rows).n_features_in_,
        )
        for rows in (make(X), X)
    )
    assert given == plain


@pytest.mark.parametrize(
    ("tensor", "words"),
    [
        (Tensor(X, GPU), r"in the memory of a GPU; give a copy in host memory, X.cpu\(\)"),
        (Tensor(X, requires_grad=True), r"requires a gradient; give X.detach\(\)"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(tensor, words):
    fitted = KMeans(3, random_state=0, device="cpu").fit(X)
    for use in (
        KMeans(3, device="cpu").fit, KMedian(3).fit, StreamingKMeans(3).fit,
        OnlineKMeans(3).partial_fit, fitted.predict, fitted.transform, fitted.score,
        kvariates.choose_k,
        PrivateKMeans(3, bounds=(-9, 9), epsilon=1, delta=1e-6).fit,
    ):  # fmt: skip
        with pytest.raises(TypeError, match=words) as caught:
            use(tensor)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"e": list(X)}), pd.DataFrame({"e": X.tolist()}),
        pl.DataFrame({"e": X}), pl.DataFrame({"e": X.tolist()}),
    ],
)  # fmt: skip
def test_a_frame_with_vectors_is_told_what_to_give(frame):
    with pytest.raises(ValueError, match=r"column 'e' holds vectors; give .* np\.stack") as caught:
        KMeans(3).fit(frame)
    assert "\n" not in str(caught.value)
    given = np.stack(list(frame["e"]))
    np.testing.assert_array_equal(given, X)


def test_bfloat16():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    half = X.astype(ml_dtypes.bfloat16)
    for make in FITS.values():
        given, plain = make().fit(half), make().fit(half.astype(np.float32))
        assert given.cluster_centers_.dtype == np.float32
        for one, other in zip(learned(given), learned(plain), strict=True):
            np.testing.assert_array_equal(one, other)
    half[3, 4] = np.nan
    with pytest.raises(ValueError, match="contains NaN: 1 value in 1 of 80 rows, first in row 3"):
        KMeans(3).fit(half)
