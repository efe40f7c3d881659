"""A choice that is added to a table is found everywhere, without another edit."""

import importlib.util
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from choice_tables import CHOICE_TABLES, restructured_text
from contracts.added_entries import COPIED, HELP, LOST, NAME, entry
from contracts.choices import positive_rows
from sklearn.base import clone
from typer.testing import CliRunner

from kvariates import (
    AntiClustering,
    KMeans,
    KMedian,
    PrivateKMeans,
    PrivateKMedian,
    StreamingKMeans,
    cli,
)

X = positive_rows()
ESTIMATORS = {
    "SEEDINGS": KMeans(3, random_state=0),
    "REFINEMENTS": KMeans(3, random_state=0),
    "OBJECTIVES": KMeans(3, random_state=0),
    "DISTORTIONS": KMeans(3, random_state=0),
    "METRICS": KMedian(3, random_state=0),
    "MEDOID_SEEDINGS": KMedian(3, random_state=0),
    "PRIVATE_METHODS": PrivateKMeans(3, epsilon=5.0, bounds=(0.0, 20.0)),
    "PRIVATE_KMEDIAN_METHODS": PrivateKMedian(3, epsilon=5.0),
    "SYNOPSES": StreamingKMeans(3, n_synopses=20, random_state=0),
    "GROUP_OBJECTIVES": AntiClustering(3, random_state=0),
}


@pytest.fixture(params=COPIED)
def key(request, monkeypatch):
    """The name of a table that has one more entry during the test."""
    monkeypatch.setitem(COPIED[request.param][0], NAME, entry(request.param))
    return request.param


def fitted(key, name):
    given = {"demand": np.arange(len(X))} if key == "PRIVATE_KMEDIAN_METHODS" else {}
    return clone(ESTIMATORS[key]).set_params(**{COPIED[key][0].parameter: name}).fit(X, **given)


def docstring_now(estimator, monkeypatch):
    """The docstring that the class would have if its module were imported now."""
    module = inspect.getmodule(estimator)
    name = f"{module.__package__}.imported_again"
    spec = importlib.util.spec_from_file_location(name, module.__file__)
    again = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, again)
    spec.loader.exec_module(again)
    return getattr(again, estimator.__name__).__doc__


def test_every_table_is_tested_here():
    ours = {id(table) for table, _ in COPIED.values()}
    parts = (getattr(table, "table", table) for table in CHOICE_TABLES.values())
    assert ours == {id(table) for table in parts}


def test_a_fit_uses_the_entry(key):
    """It gives what the entry gives that was copied."""
    one, other = fitted(key, NAME), fitted(key, COPIED[key][1])
    if key.startswith("PRIVATE"):  # its results are random; its charges are not
        assert str(one.ledger_) == str(other.ledger_)
    elif key == "GROUP_OBJECTIVES":
        assert np.array_equal(one.labels_, other.labels_)
        assert one.objective_ == other.objective_
    elif key == "SYNOPSES":  # it keeps no labels
        assert one.inertia_ == other.inertia_
    else:
        assert np.array_equal(one.labels_, other.labels_)
        assert one.inertia_ == other.inertia_
        assert np.array_equal(one.predict(X), one.labels_)


def test_the_error_for_a_wrong_name_lists_the_entry(key):
    with pytest.raises(ValueError, match=f"'{NAME}'"):
        fitted(key, "wrong")


@pytest.mark.parametrize("key", ["SEEDINGS", "REFINEMENTS"])
def test_an_entry_is_refused_where_its_needs_are_not_offered(key, monkeypatch):
    table, _ = COPIED[key]
    option = table.parameter
    monkeypatch.setitem(table, NAME, entry(key, needs=frozenset({"what nobody offers"})))
    words = f"{option}='{NAME}' does not work with metric='euclidean'; use one of ["
    with pytest.raises(ValueError, match=re.escape(words)):
        fitted(key, NAME)
    monkeypatch.setitem(table, NAME, entry(key, needs=frozenset()))
    refused = next(name for name, e in table.items() if "free centers" in e.needs)
    with pytest.raises(ValueError, match=rf"use one of \[.*'{NAME}'"):
        KMeans(3, distortion="kl", **{option: refused}).fit(X)


@pytest.mark.parametrize("key", ["SEEDINGS", "OBJECTIVES", "DISTORTIONS", "METRICS"])
def test_the_entry_says_why_there_is_no_guarantee(key, monkeypatch):
    monkeypatch.setitem(COPIED[key][0], NAME, entry(key))
    if key in ("OBJECTIVES", "DISTORTIONS"):
        ESTIMATORS[key].set_params(init="d2")  # which has a guarantee
    assert fitted(key, NAME).guarantee_lost_ == LOST


def test_the_documentation_has_the_entry(key, monkeypatch):
    assert HELP in restructured_text()
    text = docstring_now(type(ESTIMATORS[key]), monkeypatch)
    assert f'- "{NAME}": {HELP}' in text
    assert " of " + key not in text


COMMANDS = {
    **dict.fromkeys(("SEEDINGS", "REFINEMENTS", "OBJECTIVES"), ("fit", "-k")),
    **dict.fromkeys(("METRICS", "MEDOID_SEEDINGS"), ("fit", "--objective", "median", "-k")),
    "GROUP_OBJECTIVES": ("anticluster", "-g"),
}


@pytest.mark.parametrize("key", COMMANDS)
def test_the_command_line_has_the_entry(key, tmp_path, monkeypatch):
    table, command = COPIED[key][0], COMMANDS[key]
    monkeypatch.setitem(table, NAME, entry(key))
    np.save(tmp_path / "X.npy", X)
    words = [*command, 3, tmp_path / "X.npy", "--force", f"--{table.parameter}"]
    words = [*words[:-1], "-o", tmp_path / "out", words[-1]]

    def run(*words):
        result = CliRunner().invoke(cli.app, [str(word) for word in words])
        return result.exit_code, re.sub(r"[\s│]+", " ", result.output)

    assert run(*words, NAME)[0] == 0
    assert f'"{NAME}"' in run(*words, "wrong")[1]
    assert HELP in run(command[0], "--help")[1]


def test_the_contract_tests_cover_the_entries_and_pass():
    """In a fresh process in which every table has one more entry."""
    tests = Path(__file__).parent
    told = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "contracts.added_entries",
         "-k", NAME, "-v", "tests/contracts", "tests/sklearn/test_estimator_checks.py"],
        check=False, capture_output=True, text=True, cwd=tests.parent,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tests), *sys.path])},
    ).stdout  # fmt: skip
    for table, _ in [COPIED[key] for key in ESTIMATORS if type(ESTIMATORS[key]) is KMeans]:
        assert f"test_methods_agree[{table.parameter}={NAME}] PASSED" in told, told
    for words in (
        f"test_predict_and_transform[{NAME}]",
        f"demand_is_weights_and_repeats[{NAME}-hst]",
        f"demand_is_weights_and_repeats[euclidean-{NAME}]",
        f"test_all_checks[KMeans(init='{NAME}')]",
        f"test_all_checks[AntiClustering(objective='{NAME}')]",
        f"epsilon=1.0, method='{NAME}', n_clusters=3)]",
    ):
        assert f"{words} PASSED" in told, told
    assert "failed" not in told.splitlines()[-1], told
