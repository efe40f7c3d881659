"""KMeans on a card: results follow X, have the bits of the CPU, and nothing is done silently.

The card is a HostCard. Arrays "on a GPU" are those of array-api-strict, whose "device1" refuses to
become a NumPy array, and `GpuArray`, which also has other types, strides and numbers of cards.
"""

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path

import array_api_strict as strict
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import sklearn
from laws.cases import rows, same_bits
from sklearn.base import clone

from kvariates import (
    KMeans,
    KMedian,
    OnlineKMeans,
    PrivateKMeans,
    PrivateKMedian,
    StreamingKMeans,
)
from kvariates.privacy import Budget

X = rows(90, 6, seed=3).astype(np.float32)
NEW = rows(40, 6, seed=4).astype(np.float32)
WEIGHT = np.random.default_rng(5).uniform(0.5, 2, size=90)
DISPATCH = os.environ.get("KVARIATES_TEST_DISPATCH") == "1"


@pytest.fixture(autouse=True)
def array_api_dispatch():
    with sklearn.config_context(array_api_dispatch=DISPATCH):
        yield


@pytest.fixture(autouse=True)
def device1_is_a_gpu(monkeypatch):
    monkeypatch.setattr(
        type(strict.asarray(0)), "__dlpack_device__",
        lambda array: (2 if array.device == DEVICE1 else 1, 0),
    )  # fmt: skip


DEVICE1 = strict.Device("device1")


def strict_array(values):
    return strict.asarray(values, device=DEVICE1)


class GpuArray:
    """An array that says to be on a GPU; its memory is the processor's."""

    exported = 0  # values that were copied to host memory

    def __init__(self, values, number=0, **more):
        self.values, self.number = values, number
        self.shape, self.ndim, self.device = values.shape, values.ndim, f"gpu:{number}"
        vars(self).update(more)

    @property
    def dtype(self):
        return f"tensors.{self.values.dtype}"

    def __dlpack_device__(self):
        return (2, self.number)

    def __dlpack__(self, *, dl_device=None, **options):
        if dl_device is not None:
            assert dl_device == (1, 0)
            GpuArray.exported += self.values.size
        return self.values.__dlpack__()

    def __array__(self, dtype=None, copy=None):
        raise AssertionError("an array on a GPU is copied to host memory by its library only")

    def __array_namespace__(self, api_version=None):
        return GpuLibrary

    def __itruediv__(self, other):
        self.values /= other
        return self


class GpuLibrary:
    """As much of the array API as kvariates asks for."""

    int32, float32, float64 = np.int32, np.float32, np.float64

    @staticmethod
    def empty(shape, *, dtype, device):
        return GpuArray(np.full(shape, 77, dtype), int(device[4:]))

    @staticmethod
    def astype(array, dtype):
        return GpuArray(array.values.astype(dtype, order="K"), array.number)

    @staticmethod
    def reshape(array, shape, *, copy=None):
        values = array.values.reshape(shape)
        return GpuArray(values.copy() if copy else values, array.number)


LIBRARIES = {"array-api-strict": strict_array, "GpuArray": GpuArray}


def plain(values):
    """A NumPy array with the values of any array."""
    if isinstance(values, GpuArray):
        return values.values
    return np.from_dlpack(values)


def fitted(given, weight=None, **options):
    return KMeans(4, random_state=0, **options).fit(given, sample_weight=weight)


def same_as_on_cpu(model, cpu):
    assert np.array_equal(plain(model.labels_), cpu.labels_)
    assert plain(model.labels_).dtype == cpu.labels_.dtype
    assert plain(model.cluster_centers_).tobytes() == cpu.cluster_centers_.tobytes()
    assert (model.inertia_, model.n_iter_) == (cpu.inertia_, cpu.n_iter_)
    assert isinstance(model.inertia_, float)
    assert isinstance(model.n_iter_, int)


# ---- Everything follows X ------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("make", LIBRARIES.values(), ids=LIBRARIES.keys())
def test_results_follow_x(card, make, dtype, metric):
    given, new = make(X.astype(dtype)), make(NEW.astype(dtype))
    cpu, model = fitted(X.astype(dtype), metric=metric), fitted(given, metric=metric)
    same_as_on_cpu(model, cpu)
    results = {
        "predict": model.predict(new),
        "transform": model.transform(new),
        "fit_predict": clone(model).fit_predict(given),
        "fit_transform": clone(model).fit_transform(given),
    }
    for found in (*results.values(), model.labels_, model.cluster_centers_):
        assert type(found) is type(given)
        assert found.device == given.device
    for method, found in results.items():
        asked = X if method.startswith("fit") else NEW
        expected = getattr(clone(cpu) if asked is X else cpu, method)(asked.astype(dtype))
        assert plain(found).dtype == expected.dtype
        assert plain(found).tobytes() == expected.tobytes(), method
    assert model.score(new) == cpu.score(NEW.astype(dtype))
    assert isinstance(model.score(new), float)


@pytest.mark.parametrize("make", LIBRARIES.values(), ids=LIBRARIES.keys())
@pytest.mark.parametrize("where", ["host", "gpu"])
def test_weights_may_be_anywhere(card, make, where):
    weight = WEIGHT if where == "host" else make(WEIGHT.astype(np.float32).astype(np.float64))
    expected = WEIGHT if where == "host" else plain(weight)
    cpu, model = fitted(X, expected), fitted(make(X), weight)
    same_as_on_cpu(model, cpu)
    assert model.score(make(X), sample_weight=weight) == cpu.score(X, sample_weight=expected)
    copied = fitted(X, weight, device="cuda")  # X in host memory
    assert same_bits(copied, cpu)


@pytest.mark.parametrize("device", ["cuda", "cuda:0"])
@pytest.mark.parametrize("convert", [np.asarray, np.ndarray.tolist, pd.DataFrame])
def test_numpy_in_numpy_out(card, convert, device):
    given, new = convert(X.astype(np.float64)), convert(NEW.astype(np.float64))
    cpu, model = fitted(given), fitted(given, device=device)
    assert card.launches
    assert same_bits(model, cpu)
    for method in ("predict", "transform", "fit_predict", "fit_transform"):
        found, expected = getattr(model, method)(new), getattr(cpu, method)(new)
        assert type(found) is np.ndarray
        assert np.array_equal(found, expected)
    assert model.score(new) == cpu.score(new)


TYPES = ["float16", "int8", "uint8", "int32", "int64", "uint16", "bool", "bfloat16"]


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("name", TYPES)
def test_types_are_converted_as_on_the_cpu(card, name, metric):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    values = X > 0 if name == "bool" else X * 9 + 20
    values = values.astype(getattr(ml_dtypes, name) if name == "bfloat16" else name)
    values[:, 0] = True  # no row of zeros
    cpu = fitted(values, metric=metric)
    assert same_bits(fitted(values, metric=metric, device="cuda"), cpu)
    given = GpuArray(values)
    model = fitted(given, metric=metric)
    same_as_on_cpu(model, cpu)
    assert plain(model.transform(given)).tobytes() == cpu.transform(values).tobytes()
    assert np.array_equal(plain(model.predict(given)), cpu.labels_)


@pytest.mark.parametrize("make", [np.asfortranarray, lambda x: np.repeat(x, 2, axis=1)[:, ::2]])
def test_any_order_in_memory(card, make):
    given = GpuArray(make(X))
    assert not given.values.flags.c_contiguous
    same_as_on_cpu(fitted(given), fitted(X))


def test_rows_stay_on_the_card(card, monkeypatch):
    monkeypatch.setattr(GpuArray, "exported", 0)
    model = fitted(GpuArray(X), GpuArray(WEIGHT))
    model.predict(GpuArray(NEW))
    model.transform(GpuArray(NEW))
    assert GpuArray.exported <= len(WEIGHT) + 2 * model.cluster_centers_.values.size


def test_results_are_on_the_card_of_x(card):
    model = fitted(GpuArray(X, 1))
    assert model.labels_.number == model.cluster_centers_.number == 1
    assert model.predict(GpuArray(NEW, 2)).number == 2
    assert fitted(GpuArray(X, 1), device="cuda").labels_.number == 1
    assert fitted(GpuArray(X, 1), device="cuda:1").labels_.number == 1


@pytest.mark.parametrize("make", LIBRARIES.values(), ids=LIBRARIES.keys())
def test_a_model_answers_about_rows_anywhere(card, make):
    """Where it was fitted does not matter, and "auto" follows the X of each call."""
    on_card, cpu = fitted(make(X)), fitted(X)
    card.launches.clear()
    found = on_card.predict(NEW)
    assert type(found) is np.ndarray
    assert np.array_equal(found, cpu.predict(NEW))
    assert on_card.transform(NEW).tobytes() == cpu.transform(NEW).tobytes()
    assert on_card.score(NEW) == cpu.score(NEW)
    assert card.launches == []
    assert np.array_equal(plain(cpu.predict(make(NEW))), found)
    assert card.launches != []


def test_changed_centres_are_used(card):
    model = fitted(GpuArray(X))
    model.cluster_centers_.values[:] = NEW[:4]
    assert np.array_equal(model.predict(NEW[:4]), range(4))
    assert np.array_equal(plain(model.predict(GpuArray(NEW[:4]))), range(4))


@pytest.mark.parametrize("make", [np.asarray, GpuArray, strict_array])
@pytest.mark.parametrize("X_of", [np.asarray, GpuArray])
def test_first_centres_may_be_anywhere(card, make, X_of):
    cpu, start = fitted(X, init=X[:4]), make(X[:4].copy())
    same_as_on_cpu(fitted(X_of(X), init=start, device="cuda"), cpu)
    same_as_on_cpu(fitted(X, init=start), cpu)
    assert np.array_equal(plain(start), X[:4])


def test_a_callable_gets_the_rows_as_they_were_given(card):
    seen = []

    def first(given, k, random_state):
        seen.append(type(given))
        return GpuArray(plain(given)[:k]) if len(seen) % 2 else plain(given)[:k]

    cpu = fitted(X, init=X[:4])
    for _ in range(2):
        same_as_on_cpu(fitted(GpuArray(X), init=first, n_init=1), cpu)
    assert seen == [GpuArray, GpuArray]


@pytest.mark.parametrize("init", ["k-means++", "d2", "k-means||"])
def test_seedings_of_the_card(card, init):
    same_as_on_cpu(fitted(GpuArray(X), init=init), fitted(X, init=init))


def test_names_of_columns_and_their_number(card):
    frame = pd.DataFrame(X, columns=list("abcdef"))
    model = fitted(frame, device="cuda")
    assert list(model.feature_names_in_) == list("abcdef")
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={"a": "z"}))
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        model.set_params(device="auto").predict(GpuArray(NEW))
    model = fitted(GpuArray(X))
    assert model.n_features_in_ == 6
    with pytest.raises(ValueError, match="X has 5 features, but KMeans is expecting 6"):
        model.predict(GpuArray(NEW[:, :5]))


def test_a_data_frame_of_distances_is_in_host_memory(card):
    model, cpu = fitted(GpuArray(X), metric="cosine"), fitted(X, metric="cosine")
    out = model.set_output(transform="pandas").transform(GpuArray(NEW))
    pd.testing.assert_frame_equal(out, cpu.set_output(transform="pandas").transform(NEW))


def test_callbacks_and_verbose_lines(card, capsys):
    lines = []
    for given in (X, GpuArray(X)):
        KMeans(4, random_state=0, verbose=1).fit(given)
        lines.append(capsys.readouterr().out)
    assert lines[0] == lines[1]


# ---- Copies and files ----------------------------------------------------------------------------


def copies(model):
    yield copy.deepcopy(model)
    yield pickle.loads(pickle.dumps(model))


@pytest.mark.parametrize("make", LIBRARIES.values(), ids=LIBRARIES.keys())
def test_copies_hold_numpy_arrays(card, make):
    model, cpu = fitted(make(X)), fitted(X)
    for other in copies(model):
        assert same_bits(other, cpu)
        assert type(other.labels_) is np.ndarray
        assert np.array_equal(other.predict(NEW), cpu.predict(NEW))
        assert np.array_equal(plain(other.predict(make(NEW))), cpu.predict(NEW))


def test_a_saved_model_needs_no_gpu(card, tmp_path):
    pytest.importorskip("skops")
    for given, device in ((GpuArray(X), "auto"), (GpuArray(X), "cuda"), (X, "cuda")):
        model, path = fitted(given, device=device), tmp_path / "model"
        model.save(path)
        assert model.device == device
        read = KMeans.load(path)
        assert read.device == "auto"
        assert same_bits(read, fitted(X))
        card.launches.clear()
        assert np.array_equal(read.predict(NEW), fitted(X).predict(NEW))
        assert card.launches == []


def test_parameters_and_reports(card):
    model = fitted(GpuArray(X), device="cuda:0")
    assert clone(model).get_params()["device"] == "cuda:0"
    assert "device='cuda:0'" in repr(model)
    html = model._repr_mimebundle_()["text/html"]
    assert "4 clusters" in html
    assert list(model.get_feature_names_out()) == [f"kmeans{i}" for i in range(4)]


# ---- What is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1.5", None, 0])
def test_names_of_devices(device):
    with pytest.raises(ValueError, match=r"The 'device' parameter of KMeans must be .*'cuda:1'"):
        KMeans(2, device=device).fit(X)


NO_KERNEL = r"has no kernels for a GPU. On the CPU it works: device='cpu', with X in host memory\."
SEEDING = r"does not work with rows on a GPU \(only with device='cpu'\); use one of \['d2', "
OPTIONS = [
    ({"algorithm": "elkan"}, f"algorithm='elkan' {NO_KERNEL}"),
    ({"algorithm": "minibatch"}, f"algorithm='minibatch' {NO_KERNEL}"),
    ({"distortion": "kl"}, f"distortion='kl' {NO_KERNEL}"),
    ({"certify": True}, f"certify=True {NO_KERNEL}"),
    ({"size_min": 3}, f"size_min=3 {NO_KERNEL}"),
    ({"size_max": 60}, f"size_max=60 {NO_KERNEL}"),
    ({"init": "ls++"}, f"init='ls\\+\\+' {SEEDING}"),
    ({"init": "random"}, f"init='random' {SEEDING}"),
    ({"init": "ls++", "metric": "cosine"}, r"init='ls\+\+' does not work with metric='cosine'"),
]


@pytest.mark.parametrize(("options", "words"), OPTIONS)
def test_what_has_no_kernel_says_so(card, options, words):
    for given, device in ((GpuArray(X), "auto"), (X, "cuda")):
        refused(ValueError, words, fitted, given, device=device, **options)


def test_a_divergence_is_not_measured_on_a_card(card):
    model = fitted(np.abs(X), distortion="mahalanobis")
    for ask in (model.predict, model.transform, model.score):
        refused(ValueError, "distortion='mahalanobis' has no kernels", ask, GpuArray(X))


def refused(kind, words, call, *args, **options):
    with pytest.raises(kind, match=words) as caught:
        call(*args, **options)
    assert "\n" not in str(caught.value)


BAD = np.where(np.arange(540).reshape(90, 6) == 27, np.nan, X)
HUGE = np.where(np.arange(540).reshape(90, 6) == 100, -np.inf, X).astype(np.float64)
ZERO = np.where(np.arange(90)[:, None] == 17, 0, X)
INPUTS = [
    (BAD.astype(np.float32), ValueError,
     r"Input X contains NaN, first in row 4, column 3\. Leave such rows out, or fill them in"),
    (HUGE, ValueError,
     r"Input X contains infinity or a value too large for dtype\('float64'\), first in row 16, "),
    (X.ravel(), ValueError, r"Expected 2D array, got 1D array instead: X has shape \(540,"),
    (X[:0], ValueError, r"Found array with 0 sample\(s\) \(shape=\(0, 6\)\) while a"),
    (X[:, :0], ValueError, r"Found array with 0 feature\(s\) \(shape=\(90, 0\)\) while a"),
    (X.astype(np.complex64), ValueError, "Complex data not supported: X has dtype complex"),
    (X[:3], ValueError, "n_samples=3 should be >= n_clusters=4"),
    (X.astype(np.float64) * 1e200, ValueError, "The values of X are too large"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "kind", "words"), INPUTS)
def test_bad_rows_on_a_card(card, given, kind, words):
    refused(kind, words, fitted, GpuArray(given))
    if "n_samples" not in words:
        model = fitted(X)
        for ask in (model.predict, model.transform, model.score):
            refused(kind, words, ask, GpuArray(given))


def test_rows_without_a_direction(card):
    words = "metric='cosine' needs rows that are not all zeros; row 17 is. Drop such rows."
    for given, device in ((ZERO, "cpu"), (ZERO, "cuda"), (GpuArray(ZERO), "auto")):
        refused(ValueError, words, fitted, given, metric="cosine", device=device)


def test_where_arrays_are(card):
    refused(TypeError, "set device='auto'", fitted, GpuArray(X), device="cpu")
    words = "X is on cuda:0, but device='cuda:1'. Set device='auto', or move X"
    refused(ValueError, words, fitted, GpuArray(X), device="cuda:1")
    words = "sample_weight is on cuda:0, but X is on cuda:1. Move one of them"
    refused(ValueError, words, fitted, GpuArray(X, 1), GpuArray(WEIGHT))
    refused(TypeError, "sample_weight is a GpuArray in the", fitted, X, GpuArray(WEIGHT))
    refused(ValueError, "sample_weight", fitted, GpuArray(X), WEIGHT[:9])
    refused(ValueError, "sample_weight", fitted, GpuArray(X), -WEIGHT)
    refused(ValueError, "(?i)sample.weights? .*zero", fitted, GpuArray(X), 0 * WEIGHT)


def test_kinds_of_rows(card):
    sparse = scipy.sparse.csr_array(X)
    words = r"X is a sparse csr_array, .* Set device='cpu', or give X.toarray\(\)"
    refused(TypeError, words, fitted, sparse, device="cuda")
    words = r"X is a GpuArray that requires a gradient; give X.detach\(\)"
    refused(TypeError, words, fitted, GpuArray(X, requires_grad=True))
    words = "X has dtype float8_e5m2; give float16, float32, float64 or integers"
    ml_dtypes = pytest.importorskip("ml_dtypes")
    refused(TypeError, words, fitted, GpuArray(X.astype(ml_dtypes.float8_e5m2)))


def test_arrays_that_no_result_can_be_made_of(card):
    class Tensor:
        """Only DLPack is known."""

        dtype, shape, ndim = X.dtype, X.shape, 2

        def __dlpack__(self, **options):
            raise AssertionError("it is refused before it is read")

        def __dlpack_device__(self):
            return (2, 0)

    words = r"X is a Tensor on a GPU; give a dense array of CuPy or PyTorch, e.g. cupy.from_dlpack"
    refused(TypeError, words, fitted, Tensor())


@pytest.mark.parametrize("make", [KMedian, OnlineKMeans, StreamingKMeans])
def test_other_estimators_are_on_the_processors(card, make):
    refused(TypeError, r"give a copy in host memory, X.cpu\(\)", make(3).fit, GpuArray(X))


@pytest.mark.parametrize(
    ("make", "options", "given"),
    [
        (PrivateKMeans, {"bounds": ([0] * 5, [1] * 5)}, {"X": GpuArray(X)}),
        (PrivateKMedian, {}, {"X": GpuArray(X), "demand": np.zeros(9, dtype=np.int64)}),
    ],
)
def test_private_estimators_refuse_a_gpu_before_they_spend(card, make, options, given):
    budget = Budget(1.0, 1e-6)
    model = make(2, epsilon=0.5, delta=1e-7, budget=budget, **options)
    with pytest.raises(TypeError, match="GPU"):
        model.fit(**given)
    assert budget.spent.epsilon == 0


def test_a_fit_that_fails_leaves_the_model(card):
    model = fitted(GpuArray(X))
    before = dict(vars(model))
    refused(ValueError, "NaN", model.fit, GpuArray(BAD))
    assert vars(model) == before


def test_no_package_and_no_driver(monkeypatch):
    """What `Card` says reaches the user as it is, and the model stays."""
    model = KMeans(4, random_state=0, device="cuda")
    before = dict(vars(model))
    monkeypatch.setitem(sys.modules, "cuda.core", None)
    refused(ImportError, r"pip install 'kvariates\[cuda\]'", model.fit, X)
    refused(ImportError, r"pip install 'kvariates\[cuda\]'", fitted, GpuArray(X))
    assert vars(model) == before

    def no_card(number):
        raise RuntimeError("no usable NVIDIA GPU. Otherwise use device='cpu'.")

    monkeypatch.setattr("kvariates.cuda.card.open_card", no_card)
    monkeypatch.setattr("kvariates.cuda.card._cards", {})
    refused(RuntimeError, "^no usable NVIDIA GPU. Otherwise use device='cpu'", model.fit, X)
    assert vars(model) == before


def test_a_full_card(card, monkeypatch):
    monkeypatch.setattr(card, "_memory", 1000)
    refused(MemoryError, "GB more are needed", fitted, X, device="cuda")


# ---- scikit-learn's array API --------------------------------------------------------------------


@pytest.mark.skipif(DISPATCH, reason="is this test's own process")
def test_with_array_api_dispatch():
    """All tests of this file, in a process where scikit-learn's validators know the array API."""
    environment = {**os.environ, "SCIPY_ARRAY_API": "1", "KVARIATES_TEST_DISPATCH": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__],
        capture_output=True, text=True, env=environment, check=False,
        cwd=Path(__file__).resolve().parents[2],
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]


def test_arrays_in_host_memory(card):
    """With or without dispatch they are read as NumPy arrays, and never copied to a card."""
    model, cpu = fitted(strict.asarray(X)), fitted(X)
    assert same_bits(model, cpu)
    assert np.array_equal(model.predict(strict.asarray(NEW)), cpu.predict(NEW))
    assert card.launches == []


def test_a_card_with_little_shared_memory(card, monkeypatch):
    monkeypatch.setattr(type(card), "shared_memory", 99 * 1024)
    X = np.random.default_rng(0).random((60, 3300), dtype=np.float32)
    here, there = (KMeans(9, random_state=0, device=on).fit(X) for on in ("cpu", "cuda"))
    assert here.cluster_centers_.tobytes() == there.cluster_centers_.tobytes()
    assert here.inertia_ == there.inertia_
