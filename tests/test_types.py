"""Editors and type checkers: names of choices as Literals, and no Any where a type is known."""

import inspect
import sys
import typing
from pathlib import Path

import pytest
from api import (
    DISTORTIONS,
    GROUP_METRICS,
    GROUP_OBJECTIVES,
    HOST_SEEDINGS,
    MEDOID_SEEDINGS,
    METRICS,
    OBJECTIVES,
    PEER_SEEDINGS,
    PRIVATE_KMEDIAN_METHODS,
    PRIVATE_METHODS,
    REFINEMENTS,
    SYNOPSES,
)
from api import validation_module as validation

import kvariates

ROOT = Path(__file__).resolve().parents[1]
LITERALS = {
    "Init": HOST_SEEDINGS,
    "Algorithm": REFINEMENTS,
    "KMeansMetric": OBJECTIVES,
    "DistortionName": DISTORTIONS,
    "MedianMetric": METRICS,
    "MedianInit": MEDOID_SEEDINGS,
    "PrivateMethodName": PRIVATE_METHODS,
    "DemandMethodName": PRIVATE_KMEDIAN_METHODS,
    "SynopsisName": SYNOPSES,
    "GroupObjectiveName": GROUP_OBJECTIVES,
    "GroupMetric": GROUP_METRICS,
    "PeerInit": PEER_SEEDINGS,
}


@pytest.mark.parametrize("name", LITERALS)
def test_a_literal_has_the_names_of_its_table(name):
    assert list(typing.get_args(getattr(validation, name))) == list(LITERALS[name])


PUBLIC = [getattr(kvariates, name) for name in kvariates.__all__]
CLASSES = [value for value in PUBLIC if inspect.isclass(value)]
FUNCTIONS = [value for value in PUBLIC if inspect.isfunction(value)]


def parameters_of(cls):
    return inspect.signature(cls.__init__).parameters


@pytest.mark.parametrize(
    ("cls", "parameter", "literal"),
    [
        (kvariates.KMeans, "init", "Init"),
        (kvariates.KMeans, "algorithm", "Algorithm"),
        (kvariates.KMeans, "metric", "KMeansMetric"),
        (kvariates.KMeans, "distortion", "DistortionName"),
        (kvariates.KMedian, "metric", "MedianMetric"),
        (kvariates.KMedian, "init", "MedianInit"),
        (kvariates.PrivateKMeans, "method", "PrivateMethodName"),
        (kvariates.PrivateKMedian, "method", "DemandMethodName"),
        (kvariates.PrivateKMedian, "metric", "MedianMetric"),
        (kvariates.StreamingKMeans, "init", "Init"),
        (kvariates.StreamingKMeans, "metric", "KMeansMetric"),
        (kvariates.OnlineKMeans, "metric", "KMeansMetric"),
        (kvariates.StreamingKMeans, "synopsis", "SynopsisName"),
        (kvariates.AntiClustering, "objective", "GroupObjectiveName"),
        (kvariates.AntiClustering, "metric", "GroupMetric"),
        (kvariates.AntiClusterKFold, "objective", "GroupObjectiveName"),
    ],
)
def test_a_parameter_of_a_table_has_its_literal(cls, parameter, literal):
    assert literal in parameters_of(cls)[parameter].annotation.split(" | ")


def returned(function):
    """The return types: of all overloads if there are some."""
    functions = typing.get_overloads(inspect.unwrap(function)) or [function]
    return [inspect.signature(one).return_annotation for one in functions]


def test_no_public_function_or_method_returns_any():
    found = {f.__qualname__: returned(f) for f in FUNCTIONS}
    for cls in CLASSES:
        for name, method in inspect.getmembers(cls, inspect.isfunction):
            ours = inspect.unwrap(method).__module__.startswith("kvariates")
            if ours and not name.startswith("_"):
                found[f"{cls.__name__}.{name}"] = returned(method)
    assert len(found) > 50
    empty = inspect.Signature.empty
    assert {name for name, types in found.items() if {"Any", empty} & set(types)} == set()
    fits = {name: types for name, types in found.items() if name.endswith((".fit", "partial_fit"))}
    assert set(map(tuple, fits.values())) == {("Self",)}


SCRIPT = """
import numpy as np
from numpy.typing import NDArray

import kvariates as kv

X: NDArray[np.float64] = np.zeros((9, 2))
model = kv.KMeans(3, init="d2", algorithm="lloyd", metric="cosine", n_init="auto").fit(X)
reveal_type(model)
reveal_type(model.predict(X))
reveal_type(model.fit_predict(X))
reveal_type(model.inertia_)
reveal_type(kv.KMedian(2, metric="graph").fit(X).transform(X))
reveal_type(kv.PrivateKMeans(2, epsilon=1.0, method="tree").fit(X).ledger_)
reveal_type(kv.StreamingKMeans(2).partial_fit(X))
reveal_type(kv.AntiClustering(2, objective="kplus").fit(X).balance_)
reveal_type(kv.choose_k(X))
kv.KMeans(3, init=X[:3], random_state=np.random.default_rng(0))
kv.KMeans(3, init=lambda X, k, random_state: X[:k], distortion="kl")
kv.KMedian(3, metric=lambda a, b: abs(a - b), init=[0, 1, 2])
kv.KMeans(3, init="kmeans++")
kv.KMeans(3, algorithm="full")
kv.KMedian(3, metric="euclid")
kv.PrivateKMeans(3, epsilon=1.0, method="magic")
kv.AntiClustering(2, objective="varianz")
kv.choose_k(X, method="cold")
"""
WRONG = 6  # of the last lines


@pytest.mark.slow
def test_mypy_understands_a_small_script(tmp_path, monkeypatch):
    api = pytest.importorskip("mypy.api")
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("MYPYPATH", str(ROOT / "src"))
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    options = ["--strict", "--no-error-summary", f"--python-executable={sys.executable}"]
    lines = api.run([*options, str(script)])[0].splitlines()
    revealed = [line.split('"')[1] for line in lines if "Revealed type" in line]
    expected = [
        "KMeans", "32", "32", "float", "ndarray", "Ledger", "StreamingKMeans", "GroupBalance",
        "Choice",
    ]  # fmt: skip
    assert len(revealed) == len(expected), lines
    for found, word in zip(revealed, expected, strict=True):
        assert word in found, lines
    errors = [int(line.split(":")[1]) for line in lines if ": error:" in line]
    last = SCRIPT.count("\n")
    assert sorted(set(errors)) == list(range(last - WRONG + 1, last + 1)), lines
