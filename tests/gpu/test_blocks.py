"""Blocks that pass through a card: the bits of the CPU, from locked and from pinned memory."""

import gc

import numpy as np
import pytest
from api import card_of
from gpu.compared import first_difference, fit

from kvariates import KMeans
from kvariates.sources import blocks

N, D = 300_000, 16


def made(dtype="float32", seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, D)) + 6 * rng.integers(6, size=(N, 1))
    return X.astype(dtype)


def cut(X):
    """A function of arrays, which are copied."""
    return lambda: (X[first : first + 7_000] for first in range(0, len(X), 7_000))


SOURCES = {"array": blocks, "copies": lambda X: blocks(cut(X))}


@pytest.fixture(params=[2**26, 2**20], ids=["one part", "many parts"], autouse=True)
def part_bytes(request, monkeypatch):
    monkeypatch.setattr("kvariates.cuda.row_stream.PART_BYTES", request.param)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("k", [7, 300])
def test_the_bits_of_the_cpu(source, dtype, metric, k):
    X = made(dtype)
    options = {"init": X[:k], "metric": metric, "max_iter": 6}
    cpu, card = (fit(SOURCES[source](X), k, device=device, **options) for device in ("cpu", "cuda"))
    assert first_difference(cpu, card) is None


@pytest.mark.parametrize("init", ["k-means++", "k-means||"])
def test_seedings(init):
    X, weight = made(), np.random.default_rng(1).uniform(0, 2, N)
    cpu, card = (
        fit(SOURCES["array"](X, weights=weight), 40, device=device, init=init, max_iter=5)
        for device in ("cpu", "cuda")
    )
    assert first_difference(cpu, card) is None


@pytest.mark.filterwarnings("ignore:Number of distinct clusters")
def test_empty_clusters():
    X = made()
    init = X[:9].copy()
    init[3:6] = 1e12
    for source in SOURCES.values():
        cpu, card = (
            fit(source(X), 9, device=device, init=init, max_iter=5) for device in ("cpu", "cuda")
        )
        assert first_difference(cpu, card) is None


def test_memory_is_unlocked_and_given_back():
    """The same array is locked by each of two fits; memory that a user cannot write, too."""
    X = made()
    X.flags.writeable = False
    KMeans(7, init=X[:7], max_iter=2, device="cuda").fit(blocks(X))
    gc.collect()
    card = card_of(0)
    card.wait()
    before = card.free()[0]
    for _ in range(5):
        for source in SOURCES.values():
            KMeans(7, init=X[:7], max_iter=2, device="cuda").fit(source(X))
    gc.collect()
    card.wait()
    assert card.free()[0] >= before - 2**28
    (status,) = card._driver.cuMemHostUnregister(X.ctypes.data)
    assert int(status) != 0, "it was still locked"


def test_an_array_that_is_locked_already():
    torch = pytest.importorskip("torch")
    X = torch.as_tensor(made()).pin_memory().numpy()
    options = {"init": X[:7].copy(), "max_iter": 3}
    cpu, card = (fit(blocks(X), 7, device=device, **options) for device in ("cpu", "cuda"))
    assert first_difference(cpu, card) is None


def test_an_interrupted_source():
    X, model = made(), KMeans(7, init=made()[:7], max_iter=5, device="cuda")
    passes = []

    def arrays():
        passes.append(1)
        for first in range(0, N, 7_000):
            if len(passes) == 4 and first > N // 2:
                raise KeyboardInterrupt
            yield X[first : first + 7_000]

    before = dict(vars(model))
    with pytest.raises(KeyboardInterrupt):
        model.fit(blocks(arrays))
    assert vars(model) == before
    cpu, card = (fit(blocks(X), 7, device=d, init=X[:7], max_iter=5) for d in ("cpu", "cuda"))
    assert first_difference(cpu, card) is None
