"""All of scikit-learn's checks of an estimator, on variants of KMeans, KMedian, PrivateKMeans."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import (
    check_sample_weight_equivalence_on_dense_data,
    check_sample_weight_equivalence_on_sparse_data,
    parametrize_with_checks,
)

from kvariates import KMeans, KMedian, PrivateKMeans

VARIANTS = [
    KMeans(),
    KMeans(algorithm="lloyd"),
    KMeans(algorithm="elkan"),
    KMeans(algorithm="hamerly"),
    KMeans(init="random", n_init=2),
    KMeans(n_clusters=1),
    KMeans(metric="cosine"),
    KMeans(metric="cosine", algorithm="elkan"),
    KMedian(),
    KMedian(metric="manhattan", init="k-median++"),
    KMedian(init="random", n_init=2),
    KMedian(metric="precomputed"),
    PrivateKMeans(3, epsilon=1.0, bounds=(-10.0, 10.0), method="lloyd"),
    PrivateKMeans(3, epsilon=1.0, delta=1e-6, radius=20.0, method="lloyd", adjacency="replace-one"),
]

# Two checks shuffle the rows and then expect the same fit from the same seed. k-means++ draws small
# data in an order of its own, so it passes; "random" is the same in law (tests/odds), not draw for
# draw. scikit-learn expects these failures of its own KMeans, whatever the start.
_SHUFFLED = "rows are shuffled: a random start is the same in law, not draw for draw"
NOT_DRAW_FOR_DRAW = {
    "check_sample_weight_equivalence_on_dense_data": _SHUFFLED,
    "check_sample_weight_equivalence_on_sparse_data": _SHUFFLED,
}
# Four checks feed rows that are all zeros, which the cosine metric refuses by design.
_ZERO = "feeds rows that are all zeros, and those have no direction"
NO_DIRECTION = {
    "check_estimators_dtypes": _ZERO,
    "check_estimator_sparse_tag": _ZERO,
    "check_estimator_sparse_array": _ZERO,
    "check_estimator_sparse_matrix": _ZERO,
}

# Two checks feed rows of features to a metric that takes a square matrix of distances.
_OBLONG = "feeds rows of features, and metric='precomputed' takes distances"
NOT_SQUARE = {
    "check_positive_only_tag_during_fit": _OBLONG,
    "check_clustering": _OBLONG,
}


# What privacy forbids.
FORBIDDEN = {
    "check_clustering": "labels_ would tell every row's cluster; predict is for who holds the rows",
    "check_fit_idempotent": "noise that can be repeated protects nobody",
}
SECRET_NUMBER = {
    "check_estimators_empty_data_messages": "that there are no rows is a secret under add-remove",
}


def expected_failures(estimator):
    if isinstance(estimator, PrivateKMeans):
        return {**FORBIDDEN, **(SECRET_NUMBER if estimator.adjacency == "add-remove" else {})}
    drawn_by_place = estimator.init == "random" or isinstance(estimator, KMedian)
    return {
        **(NOT_DRAW_FOR_DRAW if drawn_by_place and estimator.metric != "precomputed" else {}),
        **(NOT_SQUARE if estimator.metric == "precomputed" else {}),
        **(NO_DIRECTION if estimator.metric == "cosine" else {}),
    }


# The checks themselves ask for more clusters than distinct rows, and for one cluster from Elkan.
@pytest.mark.filterwarnings("ignore:Number of distinct clusters")
@pytest.mark.filterwarnings("ignore:algorithm='elkan' doesn't make sense:RuntimeWarning")
@parametrize_with_checks(VARIANTS, expected_failed_checks=expected_failures, xfail_strict=True)
def test_estimator(estimator, check):
    check(estimator)


def given_start(X, n_clusters, random_state):
    """A start that depends on nothing but the shape: weights, repeats and order cannot touch it."""
    return np.random.default_rng(0).uniform(0.3, 0.7, size=(n_clusters, X.shape[1]))


@pytest.mark.parametrize(
    "check",
    [check_sample_weight_equivalence_on_dense_data, check_sample_weight_equivalence_on_sparse_data],
)
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("algorithm", ["lloyd", "elkan", "hamerly"])
def test_weights_are_repeats_from_a_given_start(algorithm, metric, check):
    check(
        "KMeans",
        KMeans(3, init=given_start, n_init=1, tol=0, algorithm=algorithm, metric=metric),
    )
