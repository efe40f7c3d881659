"""KMedian refuses bad input, with an error that says what is wrong."""

import warnings

import numpy as np
import pytest
from contracts.medians import SQUARE, X, broken, components, ring
from scipy import sparse
from sklearn.exceptions import NotFittedError

from kvariates import KMedian, PrivateKMedian


def graph_with(value, i=0, j=1, both=True):
    A = ring(20).tolil()
    A[i, j] = value
    if both:
        A[j, i] = value
    return A.tocsr()


def one_way_zero():
    A = ring(20).tocoo()
    row, column = np.r_[A.row, 0], np.r_[A.col, 9]
    return sparse.csr_array((np.r_[A.data, 0.0], (row, column)), shape=A.shape)


BAD = {
    "not square": (SQUARE[:, :5], "precomputed", r"square matrix.*\(90, 5\)"),
    "asymmetric": (broken(3, 7, 99.0, False), "precomputed", r"not symmetric.*(7, 3|3, 7)"),
    "negative": (broken(3, 7, -1.0), "precomputed", r"X\[3, 7\] = -1"),
    "diagonal": (broken(4, 4, 2.0), "precomputed", r"X\[4, 4\] = 2"),
    "nan in a matrix": (broken(3, 7, np.nan), "precomputed", "NaN"),
    "infinite in a matrix": (broken(3, 7, np.inf), "precomputed", "infinity"),
    "nan in rows": (np.where(np.arange(3) == 1, np.nan, X), "euclidean", "NaN"),
    "zero row": (np.zeros((9, 2)), "cosine", "row 0"),
    "sparse rows": (sparse.csr_array(X), "euclidean", "metric='graph'"),
    "dense graph": (ring().toarray(), "graph", "scipy.sparse"),
    "negative edge": (graph_with(-2.0), "graph", "from 0 to 1 .* negative"),
    "nan edge": (graph_with(np.nan), "graph", "from 0 to 1 .* not a finite"),
    "one-way edge": (graph_with(5.0, 0, 9, False), "graph", "not symmetric.*both ways"),
    "one-way edge of length 0": (one_way_zero(), "graph", "not symmetric.*both ways"),
    "float32 that overflows": (X.astype(np.float32) * 1e30, "euclidean", "float32; rescale"),
    "float32 that vanishes": (X.astype(np.float32) * 1e-30, "euclidean", "float32; rescale"),
    "float64 that overflows": (X * 1e300, "euclidean", "float64; rescale"),
    "oblong graph": (ring(20)[:, :9], "graph", "square"),
    "three components": (
        components(ring(9), ring(12), ring(7)),
        "graph",
        r"3 separate parts, but n_clusters=2.*with node 21 \(7 nodes\)",
    ),
    "callable: text": (X, lambda a, b: "far", "metric returned 'far'"),
    "callable: negative": (X, lambda a, b: -1.0, "metric returned -1"),
    "callable: nan": (X, lambda a, b: np.nan, "metric returned nan"),
    "callable: array": (X, lambda a, b: np.ones(2), "metric returned array"),
    "callable: none": (X, lambda a, b: None, "metric returned None"),
    "callable: one way": (X, lambda a, b: max(0.0, float((a - b)[0])), "not symmetric"),
    "matrix that overflows": (SQUARE * 1e305, "precomputed", "outside the range .* rescale X"),
    "graph that overflows": (ring(20) * 1e307, "graph", "outside the range .* rescale X"),
    "callable: huge": (X, lambda a, b: 1e250 * (a is not b), "metric returned 1e"),
    "too few": (X[:1], "euclidean", "n_samples=1 should be >= n_clusters=2"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_in_one_line(name):
    data, metric, words = BAD[name]
    with pytest.raises(ValueError, match=words) as caught:
        KMedian(2, metric=metric).fit(data)
    if "NaN" not in words and "infinity" not in words:  # those errors are scikit-learn's
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("scale", [1e303, 1e-280])
@pytest.mark.parametrize("metric", ["euclidean", "precomputed", "graph"])
def test_costs_outside_the_range_of_float64_are_refused_in_words_of_the_input(metric, scale):
    """Not as "Probabilities contain NaN", a node that nothing reaches, or a cost of 0."""
    factor = 1e10 if scale > 1 else 1e-20
    data = {"euclidean": X, "precomputed": SQUARE, "graph": ring(90)}[metric] * factor
    weight = np.linspace(0.5, 1, 90) * scale
    with pytest.raises(ValueError, match=r"weights up to .* rescale X or the weights"):
        KMedian(2, metric=metric, random_state=0).fit(data, sample_weight=weight)


def test_a_broken_triangle_inequality_is_a_warning():
    with pytest.warns(UserWarning, match="triangle inequality: (2 and 6|6 and 2) are 500 apart"):
        KMedian(2, metric="precomputed").fit(broken(2, 6, 500.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KMedian(2, metric="precomputed").fit(SQUARE)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"demand": [0, 90]}, "0 to 89"),
        ({"demand": [-1]}, "0 to 89"),
        ({"demand": np.ones(3)}, "expected \\(90,\\)"),
        ({"demand": np.zeros(90)}, "zero for every point"),
        ({"demand": -np.ones(90)}, "Negative values"),
        ({"demand": np.ones(90), "sample_weight": np.ones(90)}, "give one of them"),
        ({"demand": np.ones(90, dtype=int)}, "not clear whether they are weights or point indices"),
        ({"demand": np.full(90, 1e308)}, "divide the weights"),
        ({"demand": np.full(90, 5e-324)}, "divide the weights"),
    ],
)
def test_bad_demand_is_refused(options, words):
    with pytest.raises(ValueError, match=words):
        KMedian(2).fit(X, **options)


@pytest.mark.parametrize(
    ("init", "words"),
    [([0, 0], "2 different"), ([0, 400], "0 to 89"), ([0.0, 1.0], "numbers of 2"), ([1], "of 2")],
)
def test_bad_init_is_refused(init, words):
    with pytest.raises(ValueError, match=words):
        KMedian(2, init=init).fit(X)


def test_bad_nodes_are_refused_by_predict():
    with pytest.raises(NotFittedError):
        KMedian().predict(X)
    model = KMedian(3, metric="graph", random_state=0).fit(ring())
    for nodes, words in (([-1], "from 0 to 59"), ([60], "from 0 to 59"), ([0.5], "integers")):
        with pytest.raises(ValueError, match=words):
            model.predict(nodes)


def test_a_component_without_a_medoid_is_named():
    two = components(ring(20, 1), ring(30, 2))
    with pytest.raises(ValueError, match="No medoid reaches node 20"):
        KMedian(2, metric="graph", init=[0, 1], max_swaps=0).fit(two)


@pytest.mark.parametrize("model", [KMedian(2), PrivateKMedian(2, epsilon=1.0)])
def test_other_names_of_metrics_are_translated(model):
    for name, ours in (("l1", "manhattan"), ("cityblock", "manhattan"), ("l2", "euclidean")):
        with pytest.raises(ValueError, match=f"^metric='{name}' is '{ours}' here.$"):
            model.set_params(metric=name).fit(X)
    with pytest.raises(ValueError, match="The 'metric' parameter"):
        model.set_params(metric="l3").fit(X)
