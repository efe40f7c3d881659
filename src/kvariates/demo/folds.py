"""Folds of cross-validation by anti-clustering, beside folds drawn at random.

The rows are the small areas of a city, and a regression predicts the jobs of an area from its
people, schools, health centres and place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kvariates.demo.cities import Array
from kvariates.demo.facilities import Town, in_metres
from kvariates.estimators.anticluster_kfold import AntiClusterKFold
from kvariates.report.figures import Bar, Fact, bars, facts
from kvariates.report.page import Section, number, paragraph, preformatted, table

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


def folds_section(found: FoldTrials) -> Section:
    """Both kinds of folds, compared."""
    words = (
        f"The {found.rows:,} small areas of Porto Alegre again: {FOLDS} folds for the "
        "cross-validation of a linear regression that predicts the jobs of an area. Anti-"
        "clustering makes folds that are as alike as possible. The aim is a score that depends "
        "less on how the rows happened to be divided."
    )
    pairs = zip(
        found.columns, found.difference.mean(axis=0), found.random_difference.mean(axis=0),
        strict=True,
    )  # fmt: skip
    listed = table(
        ("column", "folds by anti-clustering", "folds at random", "beside random"),
        (
            (name, f"{a:.4f}", f"{b:.4f}", compared((a, b), "smaller", "larger"))
            for name, a, b in pairs
        ),
    )
    spreads = [float(errors.std(ddof=1)) for errors in (found.errors, found.random_errors)]
    means = [float(errors.mean()) for errors in (found.errors, found.random_errors)]
    far = [float(found.difference.mean()), float(found.random_difference.mean())]
    closer = compared(far, "closer", "farther away")
    names = ("folds by anti-clustering", "folds at random")
    chart = bars([
        Bar(name, spread, f"{spread:.5f}") for name, spread in zip(names, spreads, strict=True)
    ])  # fmt: skip
    measured = (
        f"Measured, {REPEATS} times with other seeds for both kinds: in the table, the largest "
        "difference of a fold's mean from the mean of all rows, in standard deviations (jobs, "
        "people, schools and health centres as logarithms); on average over the columns, the means "
        f"are {closer}. Bars: the standard deviation, over the "
        "repeats, of the cross-validated error (a part of the variance); the mean error is "
        f"{means[0]:.4f} and {means[1]:.4f}. {_verdict(spreads, means)} The spread between the "
        "folds of one repeat says less about new data."
    )
    html = (
        facts([
            Fact("rows", f"{found.rows:,}"),
            Fact("folds", f"{FOLDS}"),
            Fact("means of the folds", closer),
            Fact("spread of the score", compared(spreads, "smaller", "larger")),
        ])
        + paragraph(words)
        + listed
        + "<h3>How much the cross-validated error varies</h3>"
        + chart
        + paragraph(measured, "note")
        + preformatted(
            f"cross_val_score(model, X, y, cv=AntiClusterKFold({FOLDS}, random_state=0))"
        )
    )  # fmt: skip
    return Section("folds", "Folds that are alike", html)


def compared(pair: Sequence[float], less: str, more: str) -> str:
    """The first number beside the second one, such as "3 times smaller"."""
    low, high = sorted(pair)
    if low == high:
        return "the same"
    return f"{number(high / max(low, 1e-300), 2)} times {less if pair[0] == low else more}"


def _verdict(spreads: Sequence[float], means: Sequence[float]) -> str:
    """What folds that are alike did to the score, by its spread and its mean."""
    did = "made" if spreads[0] < spreads[1] else "did not make"
    words = f"Folds that are alike {did} this one number more stable here."
    if means[0] < means[1]:
        words += (
            " They do not make the regression better: its error looks smaller because training "
            "rows resemble test rows."
        )
    return words
