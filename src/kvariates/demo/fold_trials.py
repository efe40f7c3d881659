"""Folds of cross-validation by anti-clustering, beside folds drawn at random.

The rows are the small areas of a city, and a regression predicts the jobs of an area from its
people, schools, health centres and place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kvariates.demo.cities import Array
from kvariates.demo.facilities import Town, in_metres
from kvariates.estimators.anticluster_kfold import AntiClusterKFold

FOLDS = 5
REPEATS = 20
COLUMNS = ("east", "north", "people", "schools", "health centres", "jobs")


@dataclass(frozen=True, eq=False)
class FoldTrials:
    """Folds of both kinds, made REPEATS times; a row for each time.

    `difference`: the largest difference of a fold's mean from the mean of all rows, for each
    column, in standard deviations. `errors`: the mean squared error of the regression over its
    folds, as a part of the variance.
    """

    rows: int
    columns: tuple[str, ...]
    difference: Array  # (repeats, columns), by anti-clustering
    random_difference: Array  # at random
    errors: Array  # (repeats,)
    random_errors: Array


def compare_folds(town: Town) -> FoldTrials:
    """Make folds of both kinds and measure them."""
    table = town.table
    logs = [np.log1p(table[name]) for name in ("population", "schools", "healthcare", "jobs")]
    X = np.column_stack([in_metres(town.areas), *logs])
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    alike = [_measure(X, labels) for labels in _alike(X)]
    drawn = [_measure(X, labels) for labels in _drawn(len(X))]
    return FoldTrials(
        len(X),
        COLUMNS,
        np.array([found[0] for found in alike]),
        np.array([found[0] for found in drawn]),
        np.array([found[1] for found in alike]),
        np.array([found[1] for found in drawn]),
    )


def _alike(X: Array) -> Iterator[Array]:
    for seed in range(REPEATS):
        labels = np.empty(len(X), dtype=np.intp)
        folds = AntiClusterKFold(FOLDS, random_state=seed).split(X[:, :-1], X[:, -1])
        for fold, (_, test) in enumerate(folds):
            labels[test] = fold
        yield labels


def _drawn(n: int) -> Iterator[Array]:
    for seed in range(REPEATS):
        yield np.random.default_rng(seed).permutation(n) % FOLDS


def _measure(X: Array, labels: Array) -> tuple[Array, float]:
    """The largest differences of means, and the error of the regression."""
    means = np.array([X[labels == fold].mean(axis=0) for fold in range(FOLDS)])
    design, y = np.column_stack([X[:, :-1], np.ones(len(X))]), X[:, -1]
    error = 0.0
    for fold in range(FOLDS):
        test = labels == fold
        weights = np.linalg.lstsq(design[~test], y[~test], rcond=None)[0]
        error += float(np.mean((design[test] @ weights - y[test]) ** 2)) / FOLDS
    return np.abs(means).max(axis=0), error
