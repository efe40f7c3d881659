"""Testers: what an attacker might look at.

An event is "a statistic of the output is at least t". A tester learns statistics from runs on two
data sets; whoever audits chooses t on other runs and certifies on others again, so a tester may
look at its own runs as greedily as it likes.

| tester | statistics | finds |
|---|---|---|
| coordinates | one number of the output | too little noise on a number |
| summaries | sum, least, greatest, range, norm, how many numbers | noise of the wrong size |
| linear | along the difference of means; over variances; over covariance | noise that is shared |
| odds | log-odds added over coordinates: histograms, Laplace | a little overspent everywhere |
| labels | the whole output: log-odds, and equal to one value | choices; noise that repeats |
| atoms | one number equal to one value | cells without noise; exact values |
| contains | some number equal to one value | rows, bounds or costs of the data in the output |
| bits | the last bit that is set | noise added in floating point |
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST = 32  # statistics of one kind: more would only cost time, and hide the good ones
BINS = 12
FREQUENT = 0.01  # a value that this share of the runs gives is an atom


@dataclass(frozen=True, eq=False)
class Outputs:
    """What a mechanism said, run by run.

    numbers: (runs, m), NaN where a run said fewer; labels: (runs,), equal where and only where the
    whole outputs are equal; names: an output
    for each label.
    """

    numbers: F64
    labels: Ints
    names: Sequence[Any]

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, part: slice) -> Outputs:
        return Outputs(self.numbers[part], self.labels[part], self.names)


@dataclass(frozen=True, eq=False)
class Statistic:
    """A number for every output."""

    name: str
    of: Callable[[Outputs], F64]


Tester = Callable[[Outputs, Outputs], Iterator[Statistic]]


# --- from whatever a mechanism returns to numbers and labels ---------------------------------


def gather(first: Sequence[Any], second: Sequence[Any]) -> tuple[Outputs, Outputs]:
    """The runs on two data sets, with labels in common.

    Numbers are read from numbers, arrays, and lists, tuples and dicts of them; anything else that
    can be hashed counts by equality.
    """
    outputs = [*first, *second]
    rows = [_flat(output) for output in outputs]
    width = max((len(numbers) for numbers, _ in rows), default=0)
    numbers = np.full((len(rows), width), np.nan)
    labels = np.empty(len(rows), dtype=np.int64)
    book: dict[Hashable, int] = {}
    names: list[Any] = []
    for i, (row, label) in enumerate(rows):
        numbers[i, : len(row)] = row
        labels[i] = book.setdefault(label, len(book))
        if len(book) > len(names):
            names.append(outputs[i])
    both = Outputs(numbers, labels, names)
    return both[: len(first)], both[len(first) :]


def _flat(output: Any) -> tuple[F64, Hashable]:
    if isinstance(output, (bool, int, float, np.number, np.bool_, np.ndarray)):
        array = np.asarray(output)
        if array.dtype.kind in "biuf":
            label = (array.dtype.kind, array.shape, array.tobytes())
            return array.astype(np.float64).ravel(), label
        output = array.tolist()
    if isinstance(output, dict):
        output = sorted(output.items(), key=lambda item: repr(item[0]))
    if isinstance(output, (list, tuple)):
        parts = [_flat(part) for part in output]
        numbers = [row for row, _ in parts]
        return np.concatenate([np.empty(0), *numbers]), tuple(label for _, label in parts)
    if isinstance(output, (set, frozenset)):
        return _flat(sorted(output, key=repr))
    hashing: Any = type(output).__hash__
    if output is not None and hashing in (object.__hash__, None):
        raise TypeError(
            f"an audit cannot compare outputs of type {type(output).__name__}: "
            "give view=, a function from an output to numbers, arrays or text."
        )
    return np.empty(0), output


# --- the testers -----------------------------------------------------------------------------


def coordinates(a: Outputs, b: Outputs) -> Iterator[Statistic]:
    """One number of the output."""
    for j in _telling(a, b, MOST):
        yield Statistic(f"number {j}", partial(_number, j))


def summaries(a: Outputs, _: Outputs) -> Iterator[Statistic]:
    """Numbers that say something about all numbers."""
    if a.numbers.shape[1] > 1:
        for name, of in SUMMARIES.items():
            yield Statistic(name, partial(_summary, of))


def linear(a: Outputs, b: Outputs) -> Iterator[Statistic]:
    """Along the difference of means, weighted as if the noise were Gaussian (Fisher 1936)."""
    m = a.numbers.shape[1]
    if m < 2:
        return
    x, y = _finite(a.numbers), _finite(b.numbers)
    low, high = np.quantile(np.concatenate([x, y]), [0.005, 0.995], axis=0)
    near_x, near_y = x.clip(low, high), y.clip(low, high)  # a mean, not of outliers
    apart = near_x.mean(axis=0) - near_y.mean(axis=0)
    spread = near_x.var(axis=0) + near_y.var(axis=0)
    yield _along("difference of means", apart)
    yield _along("difference of means over variances", apart / (spread + _little(spread)))
    if 4 * m <= len(a):
        # Not clipped: it would hide noise that coordinates share. Medians, for the same reason.
        covariance = np.cov(x.T) + np.cov(y.T)
        ridge = np.diag(np.full(m, _little(np.diag(covariance))))
        apart = np.median(x, axis=0) - np.median(y, axis=0)
        weights = np.linalg.solve(covariance + ridge, apart)
        yield _along("difference of medians over covariance", weights)


def odds(a: Outputs, b: Outputs) -> Iterator[Statistic]:
    """The likelihood ratio, if coordinates were independent: Neyman and Pearson's best."""
    telling = _telling(a, b, 4 * MOST)
    tables = [(j, *_histogram(a.numbers[:, j], b.numbers[:, j])) for j in telling]
    if not tables:
        return
    yield Statistic("log-odds of all numbers", partial(_added, tables))
    x, y = _finite(a.numbers), _finite(b.numbers)
    here, there = np.median(x, axis=0), np.median(y, axis=0)
    spread = np.median(np.abs(x - here), axis=0) + np.median(np.abs(y - there), axis=0)
    known = partial(_laplace, here, there, spread + _little(spread))
    yield Statistic("log-odds, were it Laplace noise", known)


def labels(a: Outputs, b: Outputs) -> Iterator[Statistic]:
    """The whole output: how likely, and whether it is a certain one."""
    values, x, y = _counts(a.labels, b.labels)
    if len(values):
        log_odds = np.zeros(len(a.names))
        log_odds[values] = np.log((x + 0.5) / (y + 0.5))
        yield Statistic("log-odds of the output", partial(_looked_up, log_odds))
    for i in _farthest(x, y):
        code = int(values[i])
        yield Statistic(f"output is {str(a.names[code])[:40]}", partial(_labelled, code))


def atoms(a: Outputs, b: Outputs) -> Iterator[Statistic]:
    """A number that is exactly this."""
    found = []
    for j in range(a.numbers.shape[1]):
        values, x, y = _counts(a.numbers[:, j], b.numbers[:, j])
        found += [(abs(int(x[i] - y[i])), j, float(values[i])) for i in _farthest(x, y)]
    for _, j, value in sorted(found, reverse=True)[:MOST]:
        yield Statistic(f"number {j} is {value:.6g}", partial(_equal, value, j))


def contains(a: Outputs, b: Outputs) -> Iterator[Statistic]:
    """Some number that is exactly this, wherever it stands."""
    if a.numbers.shape[1] < 2:
        return
    once = (_distinct(a.numbers).ravel(), _distinct(b.numbers).ravel())
    values, x, y = _counts(*once, runs=len(a))
    for i in _farthest(x, y):
        value = float(values[i])
        yield Statistic(f"some number is {value:.6g}", partial(_equal, value, slice(None)))


def bits(a: Outputs, b: Outputs) -> Iterator[Statistic]:
    """The last bit that is set: floats near 0 have finer ones than floats near 1 (Mironov 2012)."""
    for j in _telling(a, b, MOST):
        yield Statistic(f"last bit of number {j}", partial(_last_bit, j))
    if a.numbers.shape[1] > 1:
        yield Statistic("last bit of all numbers", partial(_last_bit, slice(None)))


TESTERS: dict[str, Tester] = {
    "coordinates": coordinates,
    "summaries": summaries,
    "linear": linear,
    "odds": odds,
    "labels": labels,
    "atoms": atoms,
    "contains": contains,
    "bits": bits,
}


# --- the statistics, as functions of the output ----------------------------------------------


def _number(j: int, out: Outputs) -> F64:
    return out.numbers[:, j]


def _summary(of: Callable[[F64], F64], out: Outputs) -> F64:
    return of(out.numbers)


def _greatest(rows: F64) -> F64:
    return np.asarray(np.where(np.isnan(rows), -np.inf, rows).max(axis=1))


SUMMARIES: dict[str, Callable[[F64], F64]] = {
    "sum": lambda rows: np.asarray(_finite(rows).sum(axis=1)),
    "least": lambda rows: -_greatest(-rows),
    "greatest": _greatest,
    "range": lambda rows: _finite(_greatest(rows)) + _finite(_greatest(-rows)),
    "norm": lambda rows: np.linalg.norm(_finite(rows), axis=1),
    "how many numbers": lambda rows: (~np.isnan(rows)).sum(axis=1).astype(np.float64),
}


def _along(name: str, weights: NDArray[Any]) -> Statistic:
    unit = weights / (np.abs(weights).max() or 1.0)
    return Statistic(name, lambda out: np.asarray(_finite(out.numbers) @ unit))


def _added(tables: list[tuple[int, F64, F64]], out: Outputs) -> F64:
    total = np.zeros(len(out))
    for j, edges, log_odds in tables:
        total += log_odds[np.searchsorted(edges, _ordered(out.numbers[:, j]), side="right")]
    return total


def _laplace(here: F64, there: F64, scale: F64, out: Outputs) -> F64:
    rows = _finite(out.numbers)
    return np.asarray(((np.abs(rows - there) - np.abs(rows - here)) / scale).sum(axis=1))


def _looked_up(values: F64, out: Outputs) -> F64:
    return values[out.labels]


def _labelled(code: int, out: Outputs) -> F64:
    return np.asarray(out.labels == code, dtype=np.float64)


def _equal(value: float, where: int | slice, out: Outputs) -> F64:
    same = out.numbers[:, where] == value
    return np.asarray(same.any(axis=1) if same.ndim == 2 else same, dtype=np.float64)


def _last_bit(where: int | slice, out: Outputs) -> F64:
    """log2 of the largest power of two that all these numbers are multiples of."""
    mantissa, exponent = np.frexp(_finite(out.numbers[:, where]))
    whole = np.abs(np.ldexp(mantissa, 53)).astype(np.int64)
    last = np.log2(np.maximum(whole & -whole, 1)) + exponent - 53.0
    last = np.where(whole == 0, np.inf, last)  # 0 is a multiple of all
    return np.asarray(last.min(axis=1) if last.ndim == 2 else last)


# --- small sums ------------------------------------------------------------------------------


def _ordered(values: F64) -> F64:
    """NaN has a place in the order: below everything."""
    return np.where(np.isnan(values), -np.inf, values)


def _finite(rows: F64) -> F64:
    return np.nan_to_num(rows, nan=0.0, posinf=1e100, neginf=-1e100)


def _telling(a: Outputs, b: Outputs, most: int) -> list[int]:
    """The columns whose distributions differ most (Kolmogorov-Smirnov, on a grid)."""
    m = a.numbers.shape[1]
    if m <= most:
        return list(range(m))
    gaps = []
    for j in range(m):
        x, y = _ordered(a.numbers[:, j]), _ordered(b.numbers[:, j])
        x.sort()
        y.sort()
        grid = np.concatenate([x[:: 1 + len(x) // 64], y[:: 1 + len(y) // 64]])
        below = [np.searchsorted(z, grid, side="right") / len(z) for z in (x, y)]
        gaps.append(np.abs(below[0] - below[1]).max())
    return sorted(np.argsort(gaps)[::-1][:most].tolist())


def _histogram(x: F64, y: F64) -> tuple[F64, F64]:
    """Inner edges and the log-odds of the bins between them; an atom has a bin of its own."""
    x, y = _ordered(x), _ordered(y)
    pooled = np.sort(np.concatenate([x, y]))
    # An order statistic, not a quantile: infinities are not averaged.
    edges = pooled[(np.arange(1, BINS) * len(pooled)) // BINS]
    values = _counts(x, y)[0]
    if len(values) <= 4 * BINS:
        edges = np.concatenate([edges, values, np.nextafter(values, np.inf)])
    edges = np.unique(edges)
    bins = [np.searchsorted(edges, z, side="right") for z in (x, y)]
    here, there = (np.bincount(z, minlength=len(edges) + 1) for z in bins)
    return edges, np.log((here + 0.5) / (there + 0.5))


def _counts(x: NDArray[Any], y: NDArray[Any], runs: int = 0) -> tuple[NDArray[Any], Ints, Ints]:
    """The values that many runs give, and how many of either data set."""
    least = max(4.0, FREQUENT * (runs or len(x)))
    values, where = np.unique(np.concatenate([x, y]), return_inverse=True)
    here, there = (np.bincount(z, minlength=len(values)) for z in np.split(where, [len(x)]))
    frequent = (np.maximum(here, there) >= least) & (values == values)  # not NaN
    return values[frequent], here[frequent], there[frequent]


def _farthest(x: Ints, y: Ints) -> list[int]:
    """The values whose counts are farthest apart."""
    gap = np.abs(np.sqrt(x) - np.sqrt(y))
    return [int(i) for i in np.argsort(gap)[::-1][:MOST] if gap[i] > 0]


def _little(spread: F64) -> float:
    return float(1e-9 * spread.mean()) or 1.0


def _distinct(rows: F64) -> F64:
    """The rows, sorted, a value's repeats in its row made NaN."""
    rows = np.sort(rows, axis=1)
    rows[:, 1:][rows[:, 1:] == rows[:, :-1]] = np.nan
    return rows
