"""kvariates in river: a clusterer that collects rows into batches for `partial_fit`."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from kvariates.data.rows import F64, nearest_centers
from kvariates.estimators.online_kmeans import OnlineKMeans
from kvariates.extras import needed

needed("river", "river")

from river import base  # noqa: E402


class RiverClusterer(base.Clusterer):
    """An estimator of kvariates as a clusterer of river.

    Rows are collected, and every `batch_size` of them the model learns them by `partial_fit`.
    Predictions use the centres of the batches so far; before the first batch, every row is in
    cluster 0.

    Parameters
    ----------
    model
        An estimator with `partial_fit` and `cluster_centers_`, of which a copy is used. None:
        `OnlineKMeans()`.
    batch_size
        How many rows make a batch.

    Attributes
    ----------
    learned
        The copy of `model` that has learned the batches so far.

    Examples
    --------
    >>> from kvariates import OnlineKMeans
    >>> from kvariates.river import RiverClusterer
    >>> model = RiverClusterer(OnlineKMeans(2, random_state=0), batch_size=3)
    >>> for a, b in [(1, 2), (9, 4), (1, 4), (9, 0), (1, 0), (9, 2)]:
    ...     model.learn_one({"a": a, "b": b})
    >>> model.predict_one({"b": 1, "a": 0}) != model.predict_one({"a": 10, "b": 3})
    True
    """

    def __init__(self, model: Any = None, batch_size: int = 100) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1; it is {batch_size}.")
        self.model = model
        self.batch_size = batch_size
        self._names: tuple[Any, ...] = ()
        self._rows: list[list[float]] = []
        self.learned: Any = OnlineKMeans() if model is None else copy.deepcopy(model)
        if not hasattr(self.learned, "partial_fit"):
            raise TypeError(f"model needs partial_fit; {type(model).__name__} has none.")
        self._known: F64 | None = None  # the centres, if they were asked for since the last batch

    @property
    def centers(self) -> dict[int, dict[Any, float]]:
        """The centres so far, as river's clusterers give them."""
        centers = self._centers
        if centers is None:
            return {}
        rows = centers.tolist()
        return {i: dict(zip(self._names, row, strict=True)) for i, row in enumerate(rows)}

    def learn_one(self, x: dict[Any, Any]) -> None:
        """Add a row; the model learns when there are `batch_size` of them."""
        drops = getattr(self.learned, "missing", "error") == "drop"
        # Sorted, so that the order of the features in a row does not matter.
        names = self._names or tuple(sorted(x, key=str))
        self._rows.append(_values(x, names, nan=drops))
        self._names = names
        if len(self._rows) >= self.batch_size:
            batch, self._rows = np.array(self._rows), []
            self.learned.partial_fit(batch)
            self._known = None

    @property
    def _centers(self) -> F64 | None:
        """The centres so far; None if there are none."""
        if self._known is None and hasattr(self.learned, "cluster_centers_"):
            centers = self.learned.cluster_centers_
            self._known = np.ascontiguousarray(centers, dtype=np.float64)
        return self._known

    def predict_one(self, x: dict[Any, Any]) -> int:
        """The number of the nearest centre."""
        centers = self._centers
        if centers is None:
            return 0
        row = np.array([_values(x, self._names)])
        return int(nearest_centers(row, centers)[0])

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"model": OnlineKMeans(3, random_state=0), "batch_size": 10}


def _values(x: dict[Any, Any], names: tuple[Any, ...], *, nan: bool = False) -> list[float]:
    """The numbers of a row in the order of `names`. nan: whether they may be NaN."""
    if len(x) != len(names) or any(name not in x for name in names):
        missing = [name for name in names if name not in x]
        added = [name for name in x if name not in names]
        raise ValueError(
            f"The features must be those of the first row; missing: {missing}, new: {added}. "
            "Fill in missing ones and select features in the pipeline."
        )
    values = [float(x[name]) for name in names]
    for name, value in zip(names, values, strict=True):
        if not math.isfinite(value) and not (nan and math.isnan(value)):
            kind = "NaN" if math.isnan(value) else "infinite"
            raise ValueError(f"The feature {name!r} is {kind}; fill it in or leave the row out.")
    return values
