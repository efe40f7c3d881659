"""scikit-learn's own tests of k-means, run on our KMeans and kmeans_plusplus.

The installed `test_k_means.py` is read, its import of KMeans, k_means and kmeans_plusplus is left
out and ours are put there instead; none of its text is kept here. Not run are only the tests in
EXCLUDED, each with its reason, and the parametrisations over MiniBatchKMeans. The tests at the
end hold EXCLUDED to its reasons and the number of tests to EXPECTED: nothing shrinks in silence.
"""

import ast
import importlib.util
import inspect
import os
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest
import sklearn
from sklearn.cluster import MiniBatchKMeans

from kvariates import KMeans, kmeans_plusplus

HELPER = "calls a private function of scikit-learn's: "
MINI = "is about MiniBatchKMeans"
EXCLUDED = {
    "test_relocate_empty_clusters": HELPER + "_relocate_empty_clusters_dense, _sparse",
    "test_minibatch_update_consistency": HELPER + "_mini_batch_step",
    "test_minibatch_reassign": HELPER + "_mini_batch_step",
    "test_euclidean_distance": HELPER + "_euclidean_dense_dense_wrapper",
    "test_inertia": HELPER + "_inertia_dense, _inertia_sparse",
    "test_is_same_clustering": HELPER + "_is_same_clustering",
    "test_sample_weight_init": HELPER + "_init_centroids, a method; see tests/odds",
    "test_sample_weight_zero": HELPER + "_init_centroids, a method; see tests/odds",
    "test_minibatch_kmeans_partial_fit_init": MINI,
    "test_minibatch_kmeans_verbose": MINI,
    "test_minibatch_kmeans_warning_init_size": MINI,
    "test_minibatch_sensible_reassign": MINI,
    "test_minibatch_with_many_reassignments": MINI,
    "test_minibatch_kmeans_init_size": MINI,
    "test_minibatch_declared_convergence": MINI,
    "test_minibatch_iter_steps": MINI,
}
# How many tests run with one seed, by version of scikit-learn; other versions: at least the least.
EXPECTED = {"1.9": 175}


def k_means(X, n_clusters, *, sample_weight=None, return_n_iter=False, **options):
    """scikit-learn's function of this name, as its documentation describes it, on our KMeans."""
    model = KMeans(n_clusters, **options).fit(X, sample_weight=sample_weight)
    found = model.cluster_centers_, model.labels_, model.inertia_
    return (*found, model.n_iter_) if return_n_iter else found


TAKES = {"Estimator", "Klass"}  # what the peer's tests call the class they are given
OURS = {"KMeans": KMeans, "k_means": k_means, "kmeans_plusplus": kmeans_plusplus}


class LeaveOut(ast.NodeTransformer):
    """Leave OURS out of the imports; remember them, and the private functions imported."""

    def __init__(self):
        self.left_out, self.private = set(), set()

    def visit_ImportFrom(self, node):
        names = {alias.name for alias in node.names}
        if node.module.startswith("sklearn.cluster._"):
            self.private |= names
        if node.module == "sklearn.cluster":
            self.left_out |= names & OURS.keys()
            node.names = [alias for alias in node.names if alias.name not in OURS]
        return node


def load():
    """Return the peer's tests with our names in them, and the private names they import."""
    path = Path(importlib.util.find_spec("sklearn.cluster.tests.test_k_means").origin)
    imports = LeaveOut()
    tree = imports.visit(ast.parse(path.read_text("utf-8")))
    if imports.left_out != OURS.keys():
        raise ImportError(f"the peer's tests import only {imports.left_out} of {OURS.keys()}")
    module = types.ModuleType("peer_test_k_means")
    module.__file__ = str(path)
    vars(module).update(OURS)
    exec(compile(tree, str(path), "exec"), vars(module))
    if any(getattr(module, name) is not ours for name, ours in OURS.items()):
        raise ImportError("the peer's tests bind our names to something else")
    tests = {name: f for name, f in vars(module).items() if name.startswith("test_")}
    for test in tests.values():
        drop_mini_batches(test)
    return tests, imports.private


def drop_mini_batches(test):
    for mark in getattr(test, "pytestmark", []):
        if mark.name == "parametrize" and any(map(is_mini_batch, mark.args[1])):
            mark.args[1][:] = [value for value in mark.args[1] if not is_mini_batch(value)]


def is_mini_batch(value):
    return value is MiniBatchKMeans or (
        isinstance(value, tuple) and any(part is MiniBatchKMeans for part in value)
    )


PEER_TESTS, PRIVATE = load()
# With seed 65 its data are one point a hundred times, and their own KMeans warns too.
pytest.mark.filterwarnings("ignore:Number of distinct clusters")(
    PEER_TESTS["test_kmeans_elkan_results"]
)
globals().update({name: test for name, test in PEER_TESTS.items() if name not in EXCLUDED})


def words(test):
    """Return every name that the code of a test speaks of, in its inner functions too."""
    found, codes = set(), [inspect.unwrap(test).__code__]
    while codes:
        code = codes.pop()
        found |= set(code.co_names)
        codes += [const for const in code.co_consts if isinstance(const, types.CodeType)]
    return found


def test_the_excluded_tests_are_those_with_a_reason():
    """Excluded if and only if a test calls a private function or makes a MiniBatchKMeans."""
    private = PRIVATE | {"_init_centroids"}
    reasons = {name: words(test) & private for name, test in PEER_TESTS.items()}
    given = {name: inspect.signature(test).parameters.keys() for name, test in PEER_TESTS.items()}
    mini = {
        name
        for name, test in PEER_TESTS.items()
        if "MiniBatchKMeans" in words(test) and not given[name] & TAKES
    }
    assert {name for name, called in reasons.items() if called} | mini == EXCLUDED.keys()
    for name, reason in EXCLUDED.items():
        if reason == MINI:
            assert not reasons[name]
        else:
            assert reasons[name] & set(re.findall(r"\w+", reason)), name


def test_as_many_tests_run_as_expected():
    collect = [sys.executable, "-m", "pytest", "--collect-only", "-q", __file__]
    one_seed = {**os.environ, "KVARIATES_PEER_SEEDS": "42"}
    listed = subprocess.run(collect, capture_output=True, text=True, check=True, env=one_seed)
    lines = [line.rpartition("::")[2] for line in listed.stdout.splitlines() if "::" in line]
    names = {line.partition("[")[0] for line in lines}
    assert names & PEER_TESTS.keys() == PEER_TESTS.keys() - EXCLUDED.keys()
    run = sum(line.partition("[")[0] in PEER_TESTS for line in lines)
    version = ".".join(sklearn.__version__.split(".")[:2])
    assert run == EXPECTED[version] if version in EXPECTED else run >= min(EXPECTED.values())
