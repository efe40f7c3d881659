"""The card gives the CPU's bits: centres, labels, cost, iterations, and numbers drawn."""

from itertools import product

import numpy as np
import pytest
from gpu.compared import compare, unequal
from gpu.hard_rows import CENTERS, FAMILIES, centers, rows
from gpu.libraries import LIBRARIES, placed
from hypothesis import given, settings
from hypothesis import strategies as st

from kvariates import KMeans

DTYPES = "float16", "float32", "float64"
INITS = "k-means++", "d2", "k-means||", "array"
METRICS = "euclidean", "cosine"
WEIGHTS = "no weights", "weights", "weights with zeros"
SHAPES = (  # n, d, k; the first five have at most 2**18 values, whose order is canonical
    (1_000, 1, 3), (5_000, 2, 7), (2_000, 17, 33), (600, 400, 8), (3_000, 64, 100),
    (20_000, 16, 64), (30_000, 31, 257), (4_097, 128, 129), (70_000, 4, 500), (9_999, 33, 2),
    (300, 1_030, 5), (16_000, 65, 64), (40_000, 8, 1_000),
)  # fmt: skip
MOST = (300, 6, 40)  # iterations
CHOSEN = "seed", "dtype", "init", "metric", "weight", "shape", "family", "library", "most"


def weights(kind, n, rng):
    if kind == "no weights":
        return None
    weight = rng.uniform(0.1, 3, n)
    if kind == "weights with zeros":
        weight[rng.random(n) < 0.3] = 0
    return weight


def fits():
    """216 fits: every choice three times, with other shapes, seeds and rows."""
    choices = product(range(3), DTYPES, INITS, METRICS, WEIGHTS)
    for number, (turn, dtype, init, metric, weight) in enumerate(choices):
        shape = SHAPES[(5 * number + turn) % len(SHAPES)]
        family = ("normal", "clusters", "lattice", "far")[(number + turn) % 4]
        library, most = LIBRARIES[(number + turn) % 3], MOST[number % 3]
        name = f"{number}-{dtype}-{init}-{metric}-{weight}-{family}-{library}-{shape}"
        values = (number, dtype, init, metric, weight, shape, family, library, most)
        yield pytest.param(*values, id=name.replace(" ", "_"))


@pytest.mark.parametrize(CHOSEN, list(fits()))
def test_a_fit(seed, dtype, init, metric, weight, shape, family, library, most):
    n, d, k = shape
    rng = np.random.default_rng(seed)
    X = rows(family, n, d, dtype, rng)
    options = {"metric": metric, "max_iter": most, "seed": seed}
    options["init"] = centers("rows", X, k, rng) if init == "array" else init
    if init == "array":
        options["n_init"] = 1
    fresh = rows(family, 500, d, dtype, rng)
    compare(X, k, library, fresh, weight=weights(weight, n, rng), **options)


@pytest.mark.parametrize("init", ["k-means++", "d2"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("family", FAMILIES[2:])
def test_hard_rows(family, dtype, init):
    rng = np.random.default_rng(1)
    X = rows(family, 3_000, 20, dtype, rng)
    compare(X, 60, fresh=rows(family, 300, 20, dtype, rng), init=init)


@pytest.mark.parametrize("kind", CENTERS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_hard_starts(kind, dtype):
    """Equal centres leave clusters empty, which are then filled."""
    rng = np.random.default_rng(2)
    X = rows("clusters", 4_000, 48, dtype, rng)
    compare(X, 50, init=centers(kind, X, 50, rng), n_init=1, tol=0.0)


FEATURES = (
    1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 96, 100, 127, 128, 129, 255,
    256, 257, 511, 512, 513, 768, 1_000, 1_024, 1_536, 2_047, 2_048, 3_072, 4_095, 4_096,
)  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", FEATURES)
def test_any_number_of_features(d, dtype):
    rng = np.random.default_rng(d)
    X = rows("clusters", 700, d, dtype, rng)
    compare(X, 40, init=centers("rows", X, 40, rng), n_init=1, max_iter=15)


CLUSTERS = (
    1, 2, 3, 7, 8, 9, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 1_000, 1_023, 1_024,
    1_025, 4_096, 10_000, 32_768, 65_535, 65_536,
)  # fmt: skip


@pytest.mark.parametrize("k", CLUSTERS)
@pytest.mark.parametrize("d", [3, 40])
def test_any_number_of_clusters(k, d):
    rng = np.random.default_rng(k)
    X = rows("normal", max(2_000, k + 500), d, "float32", rng)
    few = 3 if k > 2_000 else 15
    start = X[rng.permutation(len(X))[:k]]
    compare(X, k, init=start, n_init=1, max_iter=few)


@pytest.mark.parametrize("init", ["k-means++", "d2", "k-means||"])
def test_more_clusters_than_different_rows(init):
    X = np.repeat(np.random.default_rng(0).normal(size=(20, 6)), 30, axis=0)
    compare(X, 50, init=init)


@pytest.mark.parametrize(("n", "k"), [(1, 1), (2, 2), (31, 31), (33, 1), (1_000, 1_000)])
def test_few_rows(n, k):
    X = np.random.default_rng(n).normal(size=(n, 5)).astype(np.float32)
    compare(X, k, fresh=X)


def test_equal_rows():
    compare(np.full((500, 7), 0.1, dtype=np.float32), 3)


@pytest.mark.parametrize("power", [10, 30, 100])
def test_weights_of_very_different_sizes(power):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(3_000, 10))
    compare(X, 20, weight=10.0 ** rng.uniform(-power, power, 3_000))


def test_many_rows():
    """More rows than blocks of threads run at once, and than 16 bits count."""
    rng = np.random.default_rng(4)
    compare(rows("normal", 3_000_000, 6, "float32", rng), 30, "torch", max_iter=10)


def test_several_runs_keep_the_best_one():
    X = np.random.default_rng(5).normal(size=(5_000, 12)).astype(np.float32)
    compare(X, 15, init="d2", n_init=4)


# ---- labels alone --------------------------------------------------------------------------------

SIZES = (  # n, d, k
    (400, 1, 7), (300, 2, 64), (257, 3, 65), (200, 4, 1_000), (129, 7, 33), (128, 8, 128),
    (100, 15, 16), (100, 16, 17), (90, 17, 257), (64, 33, 100), (200, 64, 300), (77, 100, 50),
    (60, 127, 129), (50, 128, 512), (40, 300, 33), (30, 1_000, 20), (20, 2_049, 9), (16, 4_096, 12),
    (65, 3, 65_536), (33, 8, 20_000),
)  # fmt: skip


@given(
    st.sampled_from(SIZES), st.sampled_from(DTYPES), st.sampled_from(FAMILIES),
    st.sampled_from(CENTERS), st.sampled_from(LIBRARIES), st.integers(0, 2**32 - 1),
)  # fmt: skip
@settings(max_examples=300, derandomize=True, deadline=None)
def test_labels_of_given_centers(size, dtype, family, kind, library, seed):
    """Law: the label of a row is the CPU's, for any rows and centres."""
    (n, d, k), rng = size, np.random.default_rng(seed)
    X = rows(family, n, d, dtype, rng)
    model = KMeans(1, device="cpu").fit(rng.standard_normal((2, d)).astype(dtype))
    model.cluster_centers_ = centers(kind, X, k, rng)
    cpu = model.predict(X)
    card = model.set_params(device="cuda").predict(placed(X, library))
    assert unequal("labels", cpu, card) is None
