"""Does AntiClusterKFold lower the variance of a score? `python -m experiments.fold_variance`.

Each repeat makes new folds (another seed) and computes the mean score over 5 folds. The variance of
this mean over the repeats is what the choice of folds adds to a score. The model has no randomness
of its own. 95 % intervals of the ratio of two variances come from 10,000 bootstrap samples of the
repeats.

| set | rows | model, score |
|---|---|---|
| wine | 178 x 13, 3 classes | logistic regression, log loss |
| breast cancer | 569 x 30, 2 classes | logistic regression, log loss |
| diabetes | 442 x 10, numbers | ridge regression, R^2 |
| iris | 150 x 4, 3 classes | logistic regression, log loss |
| digits | 1,797 x 64, 10 classes | logistic regression, log loss |
| Spambase | 4,601 x 57, 2 classes | logistic regression, log loss |
| California Housing | 20,640 x 8, numbers | ridge regression, R^2 |

KFold is shuffled. StratifiedKFold needs classes: numbers are divided at their deciles. The last
three were not used for any choice of AntiClusterKFold; the last two need the data folder.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.workloads import Array, data_folder
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_iris,
    load_wine,
)
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kvariates import AntiClusterKFold

FOLDS, REPEATS, BOOTSTRAP = 5, 100, 10_000
RESULTS = Path(__file__).parent / "results"
OURS = "AntiClusterKFold"


@dataclass(frozen=True, eq=False)
class Task:
    X: Array
    y: Array
    model: Any
    scoring: str
    strata: Array  # for StratifiedKFold


def tasks() -> dict[str, Task]:
    """The sets with their models."""
    uci = data_folder() / "uci"
    numbers = {
        "diabetes": load_diabetes(return_X_y=True),
        "California Housing": _pair(uci / "california_housing.npz"),
    }
    classes = {
        "wine": load_wine(return_X_y=True),
        "iris": load_iris(return_X_y=True),
        "breast cancer": load_breast_cancer(return_X_y=True),
        "digits": load_digits(return_X_y=True),
        "Spambase": _pair(uci / "spambase.npz"),
    }
    ridge = make_pipeline(StandardScaler(), Ridge())
    logistic = make_pipeline(StandardScaler(), LogisticRegression())
    return {
        name: Task(X, y, ridge, "r2", np.searchsorted(np.quantile(y, np.arange(1, 10) / 10), y))
        for name, (X, y) in numbers.items()
    } | {name: Task(X, y, logistic, "neg_log_loss", y) for name, (X, y) in classes.items()}


def _pair(path: Path) -> tuple[Array, Array]:
    with np.load(path) as file:
        return np.asarray(file["X"], dtype=np.float64), file["y"]


Splits = Callable[[Task, int], Any]
SPLITTERS: dict[str, Splits] = {
    "KFold": lambda _, seed: KFold(FOLDS, shuffle=True, random_state=seed),
    "StratifiedKFold": lambda task, seed: list(
        StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(task.X, task.strata)
    ),
    OURS: lambda _, seed: AntiClusterKFold(FOLDS, random_state=seed),
    f"{OURS}, kplus": lambda _, seed: AntiClusterKFold(FOLDS, objective="kplus", random_state=seed),
}


def scores(task: Task, splits: Splits, repeats: int) -> Array:
    """The mean score over the folds, for each repeat."""
    return np.array(
        [
            cross_val_score(
                task.model, task.X, task.y, cv=splits(task, seed), scoring=task.scoring
            ).mean()
            for seed in range(repeats)
        ]
    )


def ratio_interval(a: Array, b: Array, rng: np.random.Generator) -> tuple[float, float, float]:
    """The variance of a over that of b, and a 95 % interval."""
    draws = [
        np.var(values[rng.integers(len(values), size=(BOOTSTRAP, len(values)))], axis=1, ddof=1)
        for values in (a, b)
    ]
    low, high = np.quantile(draws[0] / draws[1], [0.025, 0.975])
    return float(np.var(a, ddof=1) / np.var(b, ddof=1)), float(low), float(high)


def table(results: dict[str, dict[str, Array]]) -> str:
    """One line for each set and splitter."""
    rng = np.random.default_rng(0)
    lines = [
        "| set | splitter | mean score | sd over repeats | variance over ours (95 % interval) |",
        "|---|---|---|---|---|",
    ]
    for name, found in results.items():
        for splitter, values in found.items():
            cell = ""
            if splitter != OURS:
                ratio, low, high = ratio_interval(values, found[OURS], rng)
                cell = f"{ratio:.2f} ({low:.2f} to {high:.2f})"
            lines.append(
                f"| {name} | {splitter} | {values.mean():.5f} | {values.std(ddof=1):.5f} | {cell} |"
            )
    return "\n".join(lines)


def main() -> None:
    """Run all sets and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--sets", nargs="*", help="only these; others are kept as they are")
    options = parser.parse_args()
    repeats, path = options.repeats, RESULTS / "fold_variance.json"
    results: dict[str, dict[str, Array]] = {}
    if options.sets and path.exists():
        stored = json.loads(path.read_text(encoding="utf-8"))
        results = {n: {s: np.array(v) for s, v in f.items()} for n, f in stored.items()}
    RESULTS.mkdir(exist_ok=True)
    for name, task in tasks().items():
        if options.sets and name not in options.sets:
            continue
        results[name] = {s: scores(task, splits, repeats) for s, splits in SPLITTERS.items()}
        print(table({name: results[name]}), flush=True)
        text = f"{repeats} repeats of {FOLDS} folds.\n\n{table(results)}\n"
        (RESULTS / "fold_variance.txt").write_text(text, encoding="utf-8")
        kept = {key: {s: v.tolist() for s, v in found.items()} for key, found in results.items()}
        path.write_text(json.dumps(kept), encoding="utf-8")


if __name__ == "__main__":
    main()
