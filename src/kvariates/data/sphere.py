"""Places on a sphere: latitude and longitude in radians, and great-circle distances."""

from __future__ import annotations

from typing import Any

import numpy as np

from kvariates.data.rows import F64, Floats
from kvariates.numerics.angles import arcsine, sine_cosine

ROUNDED = 1e-6  # by which angles may exceed their range
BLOCK = 2**15  # distances converted at once, which fit into a cache


def unit_points(X: Any) -> F64:
    """Points on the unit sphere: an array of shape (n, 3).

    X has two columns, latitude and longitude. ValueError if they are not in radians.
    """
    if X.ndim != 2 or X.shape[1] != 2:
        raise ValueError(
            "metric='haversine' takes two columns in radians, latitude first, then longitude; X "
            f"has shape {X.shape}."
        )
    latitude, longitude = np.asarray(X, dtype=np.float64).T
    for name, angle, limit, words in (
        ("latitude", latitude, np.pi / 2, "from -pi/2 to pi/2"),
        ("longitude", longitude, 2 * np.pi, "from -2 pi to 2 pi"),
    ):
        outside = np.abs(angle) > limit + ROUNDED
        if outside.any():
            row = int(np.argmax(outside))
            raise ValueError(
                "metric='haversine' takes radians, latitude first, then longitude; row "
                f"{row} has {name} {angle[row]:.6g}, which is not {words}. If X is in degrees, "
                "give np.radians(X)."
            )
    up, along = sine_cosine(latitude), sine_cosine(longitude)
    points = np.stack([up.cosine * along.cosine, up.cosine * along.sine, up.sine], axis=1)
    return np.ascontiguousarray(points)


def arc_lengths(chords: Floats) -> Floats:
    """The great-circle distances for straight ones; the array is reused."""
    flat = chords.reshape(-1)
    for first in range(0, len(flat), BLOCK):
        part = flat[first : first + BLOCK]
        part[:] = 2 * arcsine(np.minimum(0.5 * part, 1.0))
    return chords
