"""Checks of what a user gives to `client_app` and `server_app`."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kvariates.data.rows import F64
from kvariates.estimators.private_input import missing_as_nan
from kvariates.peers.bounds import PublicBounds


class PeerData(NamedTuple):
    X: NDArray[np.floating[Any]]
    weight: F64 | None


def checked_bounds(
    bounds: tuple[ArrayLike, ArrayLike], max_rows: float | None = None
) -> PublicBounds:
    """Bounds of every feature. ValueError if they are not finite numbers with low < high."""
    try:
        low, high = (np.array(side, dtype=np.float64) for side in bounds)
    except (TypeError, ValueError):
        raise ValueError("bounds must be (low, high), one number for each feature.") from None
    if low.ndim != 1 or low.shape != high.shape or not len(low):
        raise ValueError(
            f"bounds must be (low, high), one number for each feature; their shapes are "
            f"{low.shape} and {high.shape}."
        )
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
        raise ValueError("bounds must be finite, and low below high for each feature.")
    most = math.inf if max_rows is None else float(max_rows)
    if not most >= 1:
        raise ValueError(f"max_rows must be at least 1; got {max_rows!r}.")
    return PublicBounds(low, high, most)


def checked_data(loaded: Any, least: int = 1, *, finite: bool = True) -> PeerData:
    """X, of at least so many rows, and its weights, or None. ValueError if it is another thing.

    `finite`: whether NaN and infinity are errors.
    """
    X, weight = loaded if isinstance(loaded, tuple) and len(loaded) == 2 else (loaded, None)
    rows = np.asarray(X if finite else missing_as_nan(X))
    if rows.dtype != np.float32:
        rows = rows.astype(np.float64)
    if rows.ndim != 2 or len(rows) < least or not rows.shape[1]:
        raise ValueError(f"load_data must return rows of shape (n, d); got {rows.shape}.")
    if finite and not np.isfinite(rows).all():
        raise ValueError("load_data returned NaN or infinity; remove or replace these values.")
    rows = np.ascontiguousarray(rows)
    if weight is None:
        return PeerData(rows, None)
    by = np.ascontiguousarray(weight, dtype=np.float64)
    if by.shape != (len(rows),) or not np.isfinite(by).all() or by.min() < 0 or not by.any():
        raise ValueError("sample_weight must be one finite number >= 0 for each row, not all 0.")
    return PeerData(rows, by)


def clipped(data: PeerData, bounds: PublicBounds, *, clip: bool) -> PeerData:
    """Rows inside the bounds. ValueError if some are outside and `clip` is False."""
    if data.X.shape[1] != len(bounds.low):
        raise ValueError(
            f"Rows have {data.X.shape[1]} features, the bounds have {len(bounds.low)}."
        )
    # Rounding to float32 may move a bound outwards.
    inside = np.clip(data.X.astype(np.float64, copy=False), bounds.low, bounds.high)
    outside = int((inside != data.X).any(axis=1).sum())
    if outside and not clip:
        raise ValueError(
            f"{outside} rows are outside the public bounds; remove them, or use clip=True."
        )
    if not outside:
        return data
    return PeerData(inside, data.weight)
