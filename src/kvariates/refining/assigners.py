"""Who finds the nearest centres: all of them give the same labels, bit for bit.

| name    | keeps a row          | pays when                                   |
|---------|----------------------|---------------------------------------------|
| lloyd   | nothing              | one step, or bounds never hold              |
| hamerly | one bound            | almost always                               |
| elkan   | a bound a centre     | distances are dear and n*k is small beside X |
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kvariates import _native
from kvariates.geometry.euclidean import Floats, Labels, Space


class Assigner(Protocol):
    def assign(
        self, centers: Floats, moved: NDArray[np.float32] | None, labels: Labels
    ) -> int:
        """Bring `labels` up to date; how many changed. `moved`: how far each centre went since
        the last call (None on the first)."""


class Lloyd:
    def __init__(self, space: Space, k: int) -> None:
        self._rows = space.rows

    def assign(self, centers: Floats, moved: NDArray[np.float32] | None, labels: Labels) -> int:
        changed, _ = _native.assign(self._rows, centers, labels)
        return changed


class Hamerly:
    def __init__(self, space: Space, k: int) -> None:
        self._rows = space.rows
        self._upper = np.empty(space.n, dtype=np.float32)
        self._lower = np.empty(space.n, dtype=np.float32)
        self._tighten = True

    def assign(self, centers: Floats, moved: NDArray[np.float32] | None, labels: Labels) -> int:
        changed, scanned = _native.assign_hamerly(
            self._rows, centers, moved, labels, self._upper, self._lower, self._tighten
        )
        # A tightened bound costs one distance a row: worth it only while it saves rows.
        self._tighten = scanned < 0.7 * len(labels)
        return changed


class Elkan:
    def __init__(self, space: Space, k: int) -> None:
        self._rows = space.rows
        self._upper = np.empty(space.n, dtype=np.float32)
        self._lower = np.empty(space.n * k, dtype=np.float32)
        self._drift = np.zeros(k, dtype=np.float32)

    def assign(self, centers: Floats, moved: NDArray[np.float32] | None, labels: Labels) -> int:
        changed, _ = _native.assign_elkan(
            self._rows, centers, moved, self._drift, labels, self._upper, self._lower
        )
        return changed


ASSIGNERS: dict[str, type[Lloyd] | type[Hamerly] | type[Elkan]] = {
    "lloyd": Lloyd,
    "hamerly": Hamerly,
    "elkan": Elkan,
}


def choose(space: Space, k: int) -> str:
    """The assigner for this shape; the measurements behind it are in benchmarks/."""
    if k == 1:
        return "lloyd"
    bounds = 4 * space.n * k
    size = space.n * space.d * space.dtype.itemsize
    if space.d >= 100 and not hasattr(space.X, "indptr") and bounds <= 0.2 * size + 32 * space.n:
        return "elkan"
    return "hamerly"
