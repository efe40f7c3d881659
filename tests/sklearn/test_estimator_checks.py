"""All of scikit-learn's checks of an estimator, for every choice of the tables."""

import warnings

import pytest
from api import (
    EDGES,
    GROUP_OBJECTIVES,
    MEDOID_SEEDINGS,
    METRICS,
    OBJECTIVES,
    PLACES,
    PRIVATE_METHODS,
    SYNOPSES,
    CallbackSupportMixin,
    FitCallbacks,
    OnlineKMeans,
)
from contracts.choices import CHOICES
from laws.cases import ALGORITHMS
from sklearn.utils.estimator_checks import check_estimator

from kvariates import AntiClustering, KMeans, KMedian, PrivateKMeans, StreamingKMeans

FEWER_CHECKS = CallbackSupportMixin is FitCallbacks  # scikit-learn before 1.9
BOX = {"n_clusters": 3, "epsilon": 1.0, "bounds": (-10.0, 10.0)}
BALL = {"n_clusters": 3, "epsilon": 1.0, "delta": 1e-6, "radius": 20.0}
# The checks use negative rows, which most distortions do not take.
ESTIMATORS = [
    KMeans(n_clusters=1),
    KMeans(n_clusters=3, size_min=2, size_max=200),
    *(KMeans(**choice) for choice in CHOICES if "distortion" not in choice),
    *(KMedian(metric=name) for name, e in METRICS.items() if e.needs not in (EDGES, PLACES)),
    *(KMedian(init=name) for name in MEDOID_SEEDINGS),
    *(PrivateKMeans(method=name, **BOX) for name, e in PRIVATE_METHODS.items() if not e.lost),
    PrivateKMeans(method="lloyd", adjacency="replace-one", **BALL),
    OnlineKMeans(n_clusters=3),
    OnlineKMeans(n_clusters=3, update=False),
    *(StreamingKMeans(n_clusters=3, n_synopses=100, synopsis=name) for name in SYNOPSES),
    *(AntiClustering(objective=name) for name in GROUP_OBJECTIVES),
]

# Checks that fail for a reason.
SHUFFLED = dict.fromkeys(
    [
        "check_sample_weight_equivalence_on_dense_data",
        "check_sample_weight_equivalence_on_sparse_data",
    ],
    "compares fits of shuffled rows, which are equal in law but not draw for draw; "
    "scikit-learn expects this of its own KMeans too",
)
NO_DIRECTION = dict.fromkeys(
    [
        "check_estimators_dtypes",
        "check_estimator_sparse_tag",
        "check_estimator_sparse_array",
        "check_estimator_sparse_matrix",
    ],
    "uses rows that are all zeros, which have no direction",
)
NOT_SQUARE = dict.fromkeys(
    ["check_positive_only_tag_during_fit", "check_clustering"],
    "uses rows of features, and metric='precomputed' takes distances",
)
PRIVATE = {
    "check_clustering": "labels_ would tell the cluster of every row",
    "check_estimators_nan_inf": "a fit that fails at NaN would disclose a row; predict does fail",
}
# Two fits with much noise may be clipped to the same corners. That noise cannot be repeated is
# tested in privacy/test_method_audits.py.
NOISE = {"check_fit_idempotent": "noise that can be repeated does not protect anybody"}
STREAM = {
    "check_clustering": "a stream keeps no labels",
    "check_dict_unchanged": "centres are computed when they are asked for, and kept",
}
SECRET_COUNT = {
    "check_estimators_empty_data_messages": "under add-remove, the number of rows is secret",
}


def possible_failures(estimator):
    """The checks that fail or pass, by the order of small data or by chance."""
    exact = isinstance(estimator, KMeans) and estimator.algorithm in ALGORITHMS
    noise = NOISE if isinstance(estimator, PrivateKMeans) else {}
    return noise if exact and estimator.init == "k-means++" else SHUFFLED | noise


def expected_failures(estimator):
    if isinstance(estimator, PrivateKMeans):
        return {**PRIVATE, **(SECRET_COUNT if estimator.adjacency == "add-remove" else {})}
    if isinstance(estimator, OnlineKMeans | AntiClustering):
        return {}
    if isinstance(estimator, StreamingKMeans):
        return STREAM
    if estimator.metric == "precomputed":
        return NOT_SQUARE
    if isinstance(estimator, KMedian):
        return NO_DIRECTION if estimator.metric == "cosine" else {}
    return NO_DIRECTION if OBJECTIVES[estimator.metric].run().unit else {}


@pytest.mark.parametrize("estimator", {repr(e): e for e in ESTIMATORS}.values(), ids=repr)
def test_all_checks(estimator):
    expected = expected_failures(estimator)
    perhaps = possible_failures(estimator)
    with warnings.catch_warnings():
        # Some checks ask for more clusters than distinct rows, or for one cluster from Elkan.
        warnings.filterwarnings("ignore", "Number of distinct clusters")
        # Of few rows, by the noise of their number (in about one of some thousand fits).
        warnings.filterwarnings("ignore", "The budget may be too small for the partition")
        warnings.filterwarnings("ignore", ".* may be only noise")
        warnings.filterwarnings("ignore", "algorithm='elkan' doesn't make sense", RuntimeWarning)
        results = check_estimator(
            estimator, expected_failed_checks={**perhaps, **expected}, on_skip=None, on_fail=None
        )
    wrong = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert not wrong
    failed = {r["check_name"] for r in results if r["status"] == "xfail"} - perhaps.keys()
    if FEWER_CHECKS:
        assert len(results) >= 40
        assert failed <= expected.keys()
    else:
        assert len(results) > 40
        assert failed == expected.keys(), "a check that is expected to fail passes"
