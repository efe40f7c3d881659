"""A random projection into a unit ball of few dimensions, row by row.

Rows are on a lattice of 22 bits and the matrix has 12 bits after the point, so products and their
sums are exact in float64: a row's projection depends on that row alone, dense or sparse.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kvariates.data.lattice_distances import on_unit_lattice
from kvariates.private_methods.principal_axes import coarse
from kvariates.private_methods.task import F64

BLOCK = 1 << 22  # values


@dataclass(frozen=True, eq=False)
class Projection:
    """x -> G'x / radius, clipped to the unit ball. Public. None: the rows themselves."""

    matrix: F64 | None  # (d, p)
    radius: float

    @classmethod
    def draw(cls, d: int, p: int, radius: float, rng: np.random.Generator) -> Projection:
        """A Gaussian matrix that keeps squared lengths on average."""
        if p == d:
            return cls(None, radius)
        return cls(coarse(rng.normal(size=(d, p)) / np.sqrt(p)), radius)

    def __call__(self, rows: Any) -> F64:
        """The projected rows on the unit lattice. `rows` may be CSR."""
        n, d = rows.shape
        p = d if self.matrix is None else self.matrix.shape[1]
        out, step = np.empty((n, p)), max(1, BLOCK // d)
        if not isinstance(rows, np.ndarray):
            step = max(1, n)
        for start in range(0, n, step):
            part = rows[start : start + step]
            if self.matrix is not None:
                part = part @ self.matrix
            dense = part if isinstance(part, np.ndarray) else part.toarray()
            out[start : start + step] = on_unit_lattice(dense / self.radius)
        return out

    def lift(self, points: F64, mean: F64) -> F64:
        """The rows nearest to `mean` that have these projections, before clipping."""
        if self.matrix is None:
            return points * self.radius
        back = np.linalg.pinv(self.matrix.T)
        return np.asarray(mean + (points * self.radius - mean @ self.matrix) @ back.T)
