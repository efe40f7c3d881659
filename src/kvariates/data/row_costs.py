"""Each row's squared distance to its nearest centre, kept up to date as centres are added.

Native kernels read and write the arrays. They also keep the sum of weight * cost over each tile of
rows, from which rows are drawn.
"""

from __future__ import annotations

import numpy as np

from kvariates import _native
from kvariates.data.rows import F64, Labels, Rows

WASTE = 8  # the filter is dropped when more than 1/8 of all pairs pass it without lowering a cost


class RowCosts:
    """Costs and nearest centres of all rows. A centre is known by its index.

    Pre: weight is None (all ones) or float64; `cost` and `nearest` belong together.
    """

    def __init__(
        self, rows: Rows, weight: F64 | None, cost: F64 | None = None, nearest: Labels | None = None
    ) -> None:
        self.rows, self.weight = rows, weight
        self.cost = np.full(rows.n, np.inf) if cost is None else cost
        self.nearest = np.full(rows.n, -1, dtype=np.int32) if nearest is None else nearest
        self.rejected = 0  # proposals of `draw` since the last `lower`
        self._sums = np.zeros(-(-rows.n // _native.DRAW_TILE))
        self._hits = _native.Hits()
        self.quantized: _native.QuantizedRows | None = None

    def quantize(self) -> None:
        """Make a copy that filters the pairs which `lower_to_best` measures, if the rows vary."""
        self.quantized = _native.quantize(self.rows.view, self.cost)

    def total(self) -> float:
        """Sum of weight * cost. Pre: a centre was added here."""
        return float(self._sums.sum())

    def lower(self, centers: F64, first: int, limit: F64 | None) -> None:
        """Take in centres, named from `first` on. `limit`: see `stay_limit`."""
        _native.lower_costs(self.rows.view, centers, first, limit, *self._state())
        self.rejected = 0

    def gains(self, candidates: F64, limit: F64 | None) -> F64:
        """How much each candidate would lower the total."""
        gain = np.empty(len(candidates))
        _native.gains(
            self.rows.view, self.quantized, candidates, limit, *self._state(), gain, self._hits
        )
        return gain

    def lower_to_best(self, candidates: F64, name: int, limit: F64 | None) -> int:
        """Take in the candidate of largest gain, named `name`; return its index."""
        best = int(np.argmax(self.gains(candidates, limit)))
        _native.lower_costs_by_hits(
            self.rows.view, self.quantized, candidates[best : best + 1], best, name, limit,
            *self._state(), self._hits,
        )  # fmt: skip
        if self._hits.wasted > len(candidates) * self.rows.n // WASTE:
            self.quantized = None
        return best

    def draw(self, pending: F64, first: int, uniforms: F64) -> int:
        """Propose rows by weight * cost, with two of `uniforms` each; -1 if all are rejected.

        `pending` are centres, named from `first` on, that were not taken in. A proposed row is
        measured to them and accepted with probability (true cost / kept cost).
        """
        row, used = _native.draw(self.rows.view, pending, first, *self._state(), uniforms)
        self.rejected += used // 2 - (row >= 0)
        return row

    def _state(self) -> tuple[F64, Labels, F64 | None, F64]:
        return self.cost, self.nearest, self.weight, self._sums


def stay_limit(centers: F64, fresh: F64) -> F64:
    """For each centre: if a row's cost is at most this limit, no fresh centre is nearer to it.

    If ||c - c(x)|| >= 2 ||x - c(x)|| then x stays with c(x). Rounded down, to be safe.
    """
    limit: F64 = Rows.of(centers).distances(fresh, squared=True).min(axis=1) * (1 - 1e-6) / 4
    return limit
