"""A uniform sample of a stream, without replacement.

Every row gets an exponential key of rate weight, and the rows of the smallest keys are kept. Their
order is that of draws by weight without replacement (Efraimidis and Spirakis 2006). A row of weight
w has the smallest key as often as one of w equal rows. The smallest keys of two reservoirs are
those of one reservoir over both streams.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvariates.data.exact_sums import exact_total, from_float, to_float
from kvariates.data.rows import F64
from kvariates.numerics.draws import I64
from kvariates.numerics.elementary import expm1, log1p
from kvariates.summaries.weighted_points import State, SummaryOptions, WeightedPoints

MOST_PARTS = 256


@dataclass(frozen=True, eq=False)
class KeyedRows:
    """Rows, and the key of each."""

    rows: WeightedPoints
    keys: F64

    def smallest(self, count: int) -> KeyedRows:
        """The rows of the `count` smallest keys, in their order. Pre: there are more."""
        chosen = np.sort(np.argpartition(self.keys, count)[:count])
        return self.take(chosen)

    def scaled(self, factor: float) -> KeyedRows:
        """All weights times a factor. Rows whose weight vanishes are dropped."""
        rows = WeightedPoints(self.rows.points, self.rows.weights * factor)
        with np.errstate(over="ignore"):  # an infinite key is the largest one
            keys = self.keys / factor
        return KeyedRows(rows, keys).take(np.flatnonzero(rows.weights))

    def take(self, indices: I64) -> KeyedRows:
        return KeyedRows(self.rows.take(indices), self.keys[indices])


class Reservoir:
    """The `size` rows of the smallest keys. Between `add`s it holds up to twice as many."""

    def __init__(self, options: SummaryOptions) -> None:
        self._size = options.size
        self._parts: list[KeyedRows] = []
        self._held = 0  # rows of the parts
        self._dropped = np.inf  # the smallest key of a row that is not kept
        self._total = 0  # weight of all rows, exactly, in units of 2**-1074
        self._whole = True  # whether all weights are integers

    @property
    def complete(self) -> bool:
        """Whether every row is kept."""
        return not np.isfinite(self._dropped)

    def add(self, rows: WeightedPoints, rng: np.random.Generator) -> None:
        if not rows.n:
            return
        # E / weight is a key, E = -log(1 - u) being exponential. It is computed for few rows only.
        u = rng.random(rows.n)
        lightest, heaviest = rows.weights.min(), rows.weights.max()
        if lightest == heaviest:
            self._whole = self._whole and lightest == np.rint(lightest)
        else:
            self._whole = self._whole and bool((rows.weights == np.rint(rows.weights)).all())
        self._total += exact_total(rows.weights)
        with np.errstate(over="ignore"):
            most = -expm1(-heaviest * self._dropped)
        perhaps = np.flatnonzero(u <= most)
        keys = -log1p(-u[perhaps]) / rows.weights[perhaps]
        small = keys < self._dropped
        self._append(KeyedRows(rows.take(perhaps[small]), keys[small]))

    def merge(self, other: Reservoir, rng: np.random.Generator) -> None:
        self._total += other._total
        self._whole = self._whole and other._whole
        self._dropped = min(self._dropped, other._dropped)
        for part in other._parts:
            self._append(part)

    def points(self, rng: np.random.Generator) -> WeightedPoints:
        """The sample. Its weights add up to that of all rows.

        A row has its weight divided by its chance to be kept. These numbers are then scaled to the
        total, which changes nothing if all rows weigh the same. If all weights are integers, so
        are the new ones.
        """
        self._compact()
        rows = WeightedPoints.joined([part.rows for part in self._parts])
        if self.complete:
            return rows
        weights = rows.weights / -expm1(-rows.weights * self._dropped)
        total = to_float(self._total)
        weights *= total / weights.sum()
        if self._whole:
            weights = rounded_to_integers(weights, total, rng)
        return WeightedPoints(rows.points, weights).positive()

    def copy(self) -> Reservoir:
        copy = object.__new__(Reservoir)
        copy.__dict__.update(self.__dict__)
        copy._parts = list(self._parts)
        return copy

    def rescale(self, factor: float) -> None:
        self._total = from_float(to_float(self._total) * factor)
        self._dropped /= factor
        self._whole = False
        self._parts = [part.scaled(factor) for part in self._parts]

    def to_dict(self) -> State:
        self._compact()
        parts = [{**part.rows.to_dict(), "keys": part.keys} for part in self._parts]
        numbers = {"dropped": self._dropped, "total": self._total, "whole": self._whole}
        return {"parts": parts, **numbers}

    def restore(self, state: State) -> None:
        self._parts = [KeyedRows(WeightedPoints.from_dict(p), p["keys"]) for p in state["parts"]]
        self._dropped, self._total = state["dropped"], state["total"]
        self._whole = state["whole"]
        self._held = sum(len(part.keys) for part in self._parts)

    def _append(self, part: KeyedRows) -> None:
        self._parts.append(part)
        self._held += len(part.keys)
        # Many small parts would take longer to copy than their rows.
        if self._held > 2 * self._size or len(self._parts) > MOST_PARTS:
            self._compact()

    def _compact(self) -> None:
        """Keep the `size` rows of the smallest keys, in one part."""
        if not self._parts:
            return
        keys = np.concatenate([part.keys for part in self._parts])
        all_rows = KeyedRows(WeightedPoints.joined([part.rows for part in self._parts]), keys)
        if len(keys) > self._size:
            least = np.partition(keys, self._size)[self._size]
            self._dropped = min(self._dropped, float(least))
            all_rows = all_rows.smallest(self._size)
        self._parts, self._held = [all_rows], len(all_rows.keys)


def rounded_to_integers(weights: F64, total: float, rng: np.random.Generator) -> F64:
    """Integers that add up to the total, each a neighbour of its weight, and on average equal.

    Pre: the weights add up to the total, an integer.
    """
    ends = np.floor(np.cumsum(weights) + rng.random())
    ends[-1] = total
    return np.diff(ends, prepend=0.0)
