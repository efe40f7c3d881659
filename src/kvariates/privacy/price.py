"""What a budget buys: the quality of private fits on public or synthetic data.

Epsilon must be chosen before it is spent on the real data. So try it on similar data that are not
secret: as many rows and columns, scaled into the same bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kvariates.data.rows import Rows
from kvariates.extras import pandas_for
from kvariates.notebook_html import boxed, few
from kvariates.numerics.draws import F64


@dataclass(frozen=True, eq=False)
class Price:
    """The cost of private fits divided by the non-private cost, for each epsilon.

    Attributes
    ----------
    epsilons : tuple of float
        The budgets.
    ratios : ndarray of shape (n_epsilons, runs)
        Costs divided by `against`.
    against : float
        The non-private cost.
    """

    epsilons: tuple[float, ...]
    ratios: F64
    against: float

    @property
    def mean(self) -> F64:
        """The mean ratio for each epsilon."""
        return np.asarray(self.ratios.mean(axis=1))

    @property
    def quartiles(self) -> F64:
        """Lower quartile, median and upper quartile for each epsilon: shape (n_epsilons, 3)."""
        return np.asarray(np.quantile(self.ratios, [0.25, 0.5, 0.75], axis=1).T)

    def cheapest(self, ratio: float) -> float | None:
        """The smallest epsilon whose mean ratio is at most `ratio`; None if there is none."""
        good = [e for e, mean in zip(self.epsilons, self.mean, strict=True) if mean <= ratio]
        return min(good, default=None)

    def frame(self) -> Any:
        """The table as a pandas DataFrame, a row for each epsilon. Needs pandas."""
        pd = pandas_for("Price.frame")
        return pd.DataFrame(self._columns())

    def __str__(self) -> str:
        columns = self._columns()
        lines = ["".join(f"{name:>12}" for name in columns)]
        for epsilon, *rest in zip(*columns.values(), strict=True):
            lines.append(f"{epsilon:12g}" + "".join(f"{value:12.4g}" for value in rest))
        return "\n".join(lines)

    def __repr__(self) -> str:
        mean = few(self.mean.tolist())
        return f"Price(epsilons={few(self.epsilons)}, mean={mean}, runs={self.ratios.shape[1]})"

    def _repr_html_(self) -> str:
        columns = self._columns()
        rows = [[f"{value:.4g}" for value in row] for row in zip(*columns.values(), strict=True)]
        runs = self.ratios.shape[1]
        lines = [f"Costs of {runs} private fits each, divided by {self.against:.6g}."]
        return boxed("The price of privacy", lines, list(columns), rows)

    def _columns(self) -> dict[str, Any]:
        lower, median, upper = self.quartiles.T
        return {
            "epsilon": np.array(self.epsilons),
            "mean": self.mean,
            "quartile 1": lower,
            "median": median,
            "quartile 3": upper,
        }


def squared_distances(model: Any, X: F64) -> float:
    """The sum of squared distances of rows to their nearest of `model.cluster_centers_`."""
    centers = np.asarray(model.cluster_centers_, dtype=np.float64)
    rows = Rows.of(np.ascontiguousarray(X, dtype=np.float64))
    return float(rows.costs(centers, rows.nearest(centers)).sum())


def price(
    make: Callable[[float], Any],
    X: Any,
    epsilons: Sequence[float],
    *,
    against: Any = 1.0,
    runs: int = 5,
    cost: Callable[[Any, F64], float] = squared_distances,
) -> Price:
    """The loss of quality for each epsilon, on data that are not secret.

    Parameters
    ----------
    make : callable
        From epsilon to an estimator, not fitted: ``lambda e: PrivateKMeans(8, epsilon=e, ...)``.
    X : array-like of shape (n_samples, n_features)
        Public or synthetic data. On real data every fit would spend its epsilon.
    epsilons : sequence of float
        The budgets to try.
    against : estimator or float
        The non-private estimator, fitted here once (``KMeans(8)``), or its cost. With 1 the table
        holds plain costs.
    runs : int
        Fits for each epsilon.
    cost : callable
        From a fitted estimator and X to its cost; by default the sum of squared distances.

    Returns
    -------
    Price
        Mean and quartiles for each epsilon.
    """
    X = np.asarray(X, dtype=np.float64)
    if X.ndim != 2 or not len(X):
        raise ValueError(f"X must have rows and columns, got shape {X.shape}.")
    if runs < 1 or not len(epsilons):
        raise ValueError("price needs at least one epsilon and one run.")
    base = float(cost(against.fit(X), X) if hasattr(against, "fit") else against)
    if not base > 0:
        raise ValueError(f"the non-private cost must be above 0 to compare with, got {base}.")
    ratios = [[cost(make(e).fit(X), X) / base for _ in range(runs)] for e in epsilons]
    return Price(tuple(float(e) for e in epsilons), np.array(ratios), base)
