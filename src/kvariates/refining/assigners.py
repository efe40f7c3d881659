"""Who finds the nearest centres: all of them give the same labels, bit for bit.

| name    | keeps a row          | pays when                                   |
|---------|----------------------|---------------------------------------------|
| lloyd   | nothing              | one step, or bounds never hold              |
| hamerly | one bound            | almost always                               |
| elkan   | a bound a centre     | distances are dear and n*k is small beside X |
| auto    | what pays just now   | always                                      |
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kvariates import _native
from kvariates.geometry.euclidean import F64, Labels, Space

F32 = NDArray[np.float32]


class Assigner(Protocol):
    def __init__(self, space: Space, k: int) -> None: ...

    def assign(self, centers: F64, moved: F32 | None, labels: Labels) -> tuple[int, float]:
        """Bring `labels` up to date. How many changed, and the share of the work that was done.

        `moved`: how far each centre went since the last call; None if no bound is to be trusted.
        """


class Lloyd:
    def __init__(self, space: Space, k: int) -> None:
        self._rows = space.rows

    def assign(self, centers: F64, moved: F32 | None, labels: Labels) -> tuple[int, float]:
        changed, _ = _native.assign(self._rows, centers, labels)
        return changed, 1.0


class Hamerly:
    def __init__(self, space: Space, k: int) -> None:
        self._rows = space.rows
        self._upper = np.empty(space.n, dtype=np.float32)
        self._lower = np.empty(space.n, dtype=np.float32)
        self._tighten = True

    def assign(self, centers: F64, moved: F32 | None, labels: Labels) -> tuple[int, float]:
        changed, scanned = _native.assign_hamerly(
            self._rows, centers, moved, labels, self._upper, self._lower, self._tighten
        )
        work = scanned / len(labels)
        # A tightened bound costs one distance a row: worth it only while it saves rows.
        self._tighten = moved is None or work < 0.7
        return changed, work


class Elkan:
    def __init__(self, space: Space, k: int) -> None:
        self._rows = space.rows
        self._upper = np.empty(space.n, dtype=np.float32)
        self._lower = np.empty(space.n * k, dtype=np.float32)
        self._drift = np.zeros(k, dtype=np.float32)

    def assign(self, centers: F64, moved: F32 | None, labels: Labels) -> tuple[int, float]:
        changed, scanned = _native.assign_elkan(
            self._rows, centers, moved, self._drift, labels, self._upper, self._lower
        )
        return changed, scanned / (len(labels) * len(centers))


class Auto:
    """Hamerly's bounds where they pay.

    While many rows still change hands, or after bounds have failed to save work, rows are scanned
    plainly; every failure doubles the wait before the next try.
    """

    SETTLED = 0.15  # share of rows that change, below which bounds are tried
    USELESS = 0.75  # share of the work done in spite of bounds, above which they are dropped

    def __init__(self, space: Space, k: int) -> None:
        self._plain = Lloyd(space, k)
        self._bounded = Hamerly(space, k)
        self._trusted = False
        self._wait, self._patience = 0, 1

    def assign(self, centers: F64, moved: F32 | None, labels: Labels) -> tuple[int, float]:
        if self._wait > 0 or moved is None:
            changed, work = self._plain.assign(centers, moved, labels)
            self._wait = self._wait - 1 if changed < self.SETTLED * len(labels) else 1
            return changed, work
        fresh = not self._trusted
        changed, work = self._bounded.assign(centers, None if fresh else moved, labels)
        self._trusted = fresh or work < self.USELESS
        if not self._trusted:
            self._wait = self._patience = 2 * self._patience
        return changed, work


ASSIGNERS: dict[str, type[Assigner]] = {
    "lloyd": Lloyd,
    "hamerly": Hamerly,
    "elkan": Elkan,
    "auto": Auto,
}
