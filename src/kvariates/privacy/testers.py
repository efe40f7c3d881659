"""Testers: the statistics of outputs that an audit tries.

A tester learns statistics from runs on two data sets. Thresholds are chosen on other runs and
certified on others again, so a tester may overfit its own runs without harm.

| tester | statistics | finds |
|---|---|---|
| coordinates | one number of the output | too little noise on a number |
| summaries | sum, least, greatest, range, norm, how many numbers | noise of the wrong size |
| linear | along the difference of means; over variances; over covariance | noise that is shared |
| odds | log-odds added over coordinates: histograms, Laplace | a small excess in each number |
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

from kvariates.numerics.draws import F64, I64

MOST = 32  # statistics of one kind
BINS = 12
FREQUENT = 0.01  # the share of the runs from which on a value is an atom


@dataclass(frozen=True, eq=False)
class Outputs:
    """The outputs of a mechanism, run by run.

    numbers: (runs, m), NaN if a run has fewer. labels: (runs,), equal if and only if the whole
    outputs are equal. names: an output for each label.
    """

    numbers: F64
    labels: I64
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


# --- from any output to numbers and labels ---------------------------------------------------


def gather(first: Sequence[Any], second: Sequence[Any]) -> tuple[Outputs, Outputs]:
    """The outputs of the runs on two data sets, with common labels.

    Numbers are read from numbers, arrays, and lists, tuples and dicts of them. They are aligned: a
    column is the same place of every output, for example the third number of the array at a key
    of a dict. Where an output has fewer numbers it is filled up with NaN. Any other hashable output
    is only compared.
    """
    outputs = [*first, *second]
    labels = np.empty(len(outputs), dtype=np.int64)
    codes: dict[Hashable, int] = {}
    names: list[Any] = []
    for i, output in enumerate(outputs):
        labels[i] = codes.setdefault(_label(output), len(codes))
        if len(codes) > len(names):
            names.append(output)
    both = Outputs(_columns(outputs), labels, names)
    return both[: len(first)], both[len(first) :]


def _columns(outputs: Sequence[Any]) -> F64:
    """(runs, width): the numbers of every output, aligned."""
    read = [_readable(output) for output in outputs]
    keys = sorted({key for part in read if isinstance(part, dict) for key in part}, key=repr)
    most = max((len(part) for part in read if isinstance(part, list)), default=0)
    parts = [_padded([part if isinstance(part, np.ndarray) else EMPTY for part in read])]
    parts += [
        _columns([part.get(key) if isinstance(part, dict) else None for part in read])
        for key in keys
    ]
    for i in range(most):
        at = [part[i] if isinstance(part, list) and i < len(part) else None for part in read]
        parts.append(_columns(at))
    return np.concatenate(parts, axis=1)


EMPTY: F64 = np.empty(0)


def _readable(output: Any) -> F64 | dict[Any, Any] | list[Any] | None:
    """Numbers as an array, or a dict or a list of outputs; None if it has no numbers."""
    output = _plain(output)
    if isinstance(output, dict):
        return output
    if isinstance(output, np.ndarray):
        return output.astype(np.float64).ravel()
    if not isinstance(output, (list, tuple)):
        return None
    if all(type(part) in (int, float) for part in output):
        return np.array(output, dtype=np.float64)
    return list(output)


def _plain(output: Any) -> Any:
    """Numbers as an array; other arrays, and sets, as lists."""
    if isinstance(output, (set, frozenset)):
        return sorted(output, key=repr)
    if isinstance(output, (bool, int, float, np.number, np.bool_, np.ndarray)):
        array = np.asarray(output)
        return array if array.dtype.kind in "biuf" else array.tolist()
    return output


def _padded(arrays: Sequence[F64]) -> F64:
    out = np.full((len(arrays), max(map(len, arrays), default=0)), np.nan)
    for row, array in zip(out, arrays, strict=True):
        row[: len(array)] = array
    return out


def _label(output: Any) -> Hashable:
    """Equal for two outputs if and only if they are equal."""
    output = _plain(output)
    if isinstance(output, np.ndarray):
        return (output.dtype.kind, output.shape, output.tobytes())
    if isinstance(output, dict):
        output = sorted(output.items(), key=lambda item: repr(item[0]))
    if isinstance(output, (list, tuple)):
        return tuple(_label(part) for part in output)
    hashing: Any = type(output).__hash__
    if output is not None and hashing in (object.__hash__, None):
        raise TypeError(
            f"an audit cannot compare outputs of type {type(output).__name__}: "
            "give view=, a function from an output to numbers, arrays or text."
        )
    label: Hashable = output
    return label


# --- the testers -----------------------------------------------------------------------------


def coordinates(a: Outputs, b: Outputs) -> Iterator[Statistic]:
    """One number of the output."""
    for j in _most_different(a, b, MOST):
        yield Statistic(f"number {j}", partial(_number, j))


def summaries(a: Outputs, _: Outputs) -> Iterator[Statistic]:
    """Numbers computed from all numbers of the output."""
    if a.numbers.shape[1] > 1:
        for name, summary in SUMMARIES.items():
            yield Statistic(name, summary)


def linear(a: Outputs, b: Outputs) -> Iterator[Statistic]:
    """Along the difference of means, weighted as if the noise were Gaussian (Fisher 1936)."""
    m = a.numbers.shape[1]
    if m < 2:
        return
    x, y = _finite(a.numbers), _finite(b.numbers)
    low, high = np.quantile(np.concatenate([x, y]), [0.005, 0.995], axis=0)
    near_x, near_y = x.clip(low, high), y.clip(low, high)  # against outliers
    shift = near_x.mean(axis=0) - near_y.mean(axis=0)
    spread = near_x.var(axis=0) + near_y.var(axis=0)
    yield _projection("difference of means", shift)
    yield _projection("difference of means over variances", shift / (spread + _tiny(spread)))
    if 4 * m <= len(a):
        # Values are not clipped, and medians are used: clipping would hide noise that is shared.
        covariance = np.cov(x.T) + np.cov(y.T)
        ridge = np.diag(np.full(m, _tiny(np.diag(covariance))))
        shift = np.median(x, axis=0) - np.median(y, axis=0)
        weights = np.linalg.solve(covariance + ridge, shift)
        yield _projection("difference of medians over covariance", weights)


def odds(a: Outputs, b: Outputs) -> Iterator[Statistic]:
    """The likelihood ratio (Neyman and Pearson), as if coordinates were independent."""
    columns = _most_different(a, b, 4 * MOST)
    tables = [(j, *_histogram(a.numbers[:, j], b.numbers[:, j])) for j in columns]
    if not tables:
        return
    yield Statistic("log-odds of all numbers", partial(_added, tables))
    x, y = _finite(a.numbers), _finite(b.numbers)
    here, there = np.median(x, axis=0), np.median(y, axis=0)
    spread = np.median(np.abs(x - here), axis=0) + np.median(np.abs(y - there), axis=0)
    known = partial(_laplace, here, there, spread + _tiny(spread))
    yield Statistic("log-odds of Laplace noise", known)


def labels(a: Outputs, b: Outputs) -> Iterator[Statistic]:
    """The whole output: its log-odds, and whether it equals a frequent one."""
    values, x, y = _counts(a.labels, b.labels)
    if len(values):
        log_odds = np.zeros(len(a.names))
        log_odds[values] = np.log((x + 0.5) / (y + 0.5))
        yield Statistic("log-odds of the output", lambda out: log_odds[out.labels])
    for i in _most_unequal(x, y):
        code = int(values[i])
        name = f"output is {str(a.names[code])[:40]}"
        yield Statistic(name, partial(_labelled, code))


def atoms(a: Outputs, b: Outputs) -> Iterator[Statistic]:
    """Whether a number equals a frequent value."""
    found = []
    for j in range(a.numbers.shape[1]):
        values, x, y = _counts(a.numbers[:, j], b.numbers[:, j])
        found += [(abs(int(x[i] - y[i])), j, float(values[i])) for i in _most_unequal(x, y)]
    for _, j, value in sorted(found, reverse=True)[:MOST]:
        yield Statistic(f"number {j} is {value:.6g}", partial(_equal, value, j))


def contains(a: Outputs, b: Outputs) -> Iterator[Statistic]:
    """Whether any number equals a frequent value."""
    if a.numbers.shape[1] < 2:
        return
    values, x, y = _counts(_distinct(a.numbers), _distinct(b.numbers), runs=len(a))
    for i in _most_unequal(x, y):
        value = float(values[i])
        yield Statistic(f"some number is {value:.6g}", partial(_equal, value, slice(None)))


def bits(a: Outputs, b: Outputs) -> Iterator[Statistic]:
    """The last bit that is set: floats near 0 have finer ones than floats near 1 (Mironov 2012)."""
    for j in _most_different(a, b, MOST):
        yield Statistic(f"last bit of number {j}", partial(_last_bit, j))
    if a.numbers.shape[1] > 1:
        yield Statistic("last bit of all numbers", partial(_last_bit, slice(None)))


TESTERS: dict[str, Tester] = {
    tester.__name__: tester
    for tester in (coordinates, summaries, linear, odds, labels, atoms, contains, bits)
}


# --- statistics, as functions of the outputs -------------------------------------------------


def _number(j: int, out: Outputs) -> F64:
    return out.numbers[:, j]


def _greatest(rows: F64) -> F64:
    return np.asarray(ordered(rows).max(axis=1))


SUMMARIES: dict[str, Callable[[Outputs], F64]] = {
    "sum": lambda out: np.asarray(_finite(out.numbers).sum(axis=1)),
    "least": lambda out: -_greatest(-out.numbers),
    "greatest": lambda out: _greatest(out.numbers),
    "range": lambda out: _finite(_greatest(out.numbers)) + _finite(_greatest(-out.numbers)),
    "norm": lambda out: np.linalg.norm(_finite(out.numbers), axis=1),
    "how many numbers": lambda out: (~np.isnan(out.numbers)).sum(axis=1).astype(np.float64),
}


def _projection(name: str, weights: NDArray[Any]) -> Statistic:
    unit = weights / (np.abs(weights).max() or 1.0)
    return Statistic(name, lambda out: np.asarray(_finite(out.numbers) @ unit))


def _added(tables: list[tuple[int, F64, F64]], out: Outputs) -> F64:
    total = np.zeros(len(out))
    for j, edges, log_odds in tables:
        total += log_odds[np.searchsorted(edges, ordered(out.numbers[:, j]), side="right")]
    return total


def _laplace(here: F64, there: F64, scale: F64, out: Outputs) -> F64:
    rows = _finite(out.numbers)
    return np.asarray(((np.abs(rows - there) - np.abs(rows - here)) / scale).sum(axis=1))


def _labelled(code: int, out: Outputs) -> F64:
    return np.asarray(out.labels == code, dtype=np.float64)


def _equal(value: float, columns: int | slice, out: Outputs) -> F64:
    same = out.numbers[:, columns] == value
    return np.asarray(same.any(axis=1) if same.ndim == 2 else same, dtype=np.float64)


def _last_bit(columns: int | slice, out: Outputs) -> F64:
    """log2 of the largest power of two that all these numbers are multiples of."""
    mantissa, exponent = np.frexp(_finite(out.numbers[:, columns]))
    whole = np.abs(np.ldexp(mantissa, 53)).astype(np.int64)
    last = np.log2(np.maximum(whole & -whole, 1)) + exponent - 53.0
    last = np.where(whole == 0, np.inf, last)  # 0 is a multiple of all
    return np.asarray(last.min(axis=1) if last.ndim == 2 else last)


# --- helpers ---------------------------------------------------------------------------------


def ordered(values: F64) -> F64:
    """NaN is ordered below all numbers."""
    return np.where(np.isnan(values), -np.inf, values)


def _finite(rows: F64) -> F64:
    return np.nan_to_num(rows, nan=0.0, posinf=1e100, neginf=-1e100)


def _most_different(a: Outputs, b: Outputs, most: int) -> list[int]:
    """The columns whose distributions differ most (Kolmogorov-Smirnov, on a grid)."""
    m = a.numbers.shape[1]
    if m <= most:
        return list(range(m))
    gaps = []
    for j in range(m):
        x, y = (np.sort(ordered(out.numbers[:, j])) for out in (a, b))
        grid = np.concatenate([x[:: 1 + len(x) // 64], y[:: 1 + len(y) // 64]])
        below = [np.searchsorted(z, grid, side="right") / len(z) for z in (x, y)]
        gaps.append(np.abs(below[0] - below[1]).max())
    return sorted(np.argsort(gaps)[::-1][:most].tolist())


def _histogram(x: F64, y: F64) -> tuple[F64, F64]:
    """Inner edges and the log-odds of the bins between them. An atom has its own bin."""
    x, y = ordered(x), ordered(y)
    pooled = np.sort(np.concatenate([x, y]))
    # Order statistics, not quantiles: infinities must not be averaged.
    edges = pooled[(np.arange(1, BINS) * len(pooled)) // BINS]
    values = _counts(x, y)[0]
    if len(values) <= 4 * BINS:
        edges = np.concatenate([edges, values, np.nextafter(values, np.inf)])
    edges = np.unique(edges)
    bins = [np.searchsorted(edges, z, side="right") for z in (x, y)]
    here, there = (np.bincount(z, minlength=len(edges) + 1) for z in bins)
    return edges, np.log((here + 0.5) / (there + 0.5))


def _counts(x: NDArray[Any], y: NDArray[Any], runs: int = 0) -> tuple[NDArray[Any], I64, I64]:
    """The frequent values, and how often each data set gave them."""
    least = max(4.0, FREQUENT * (runs or len(x)))
    values, codes = np.unique(np.concatenate([x, y]), return_inverse=True)
    here, there = (np.bincount(z, minlength=len(values)) for z in np.split(codes, [len(x)]))
    frequent = (np.maximum(here, there) >= least) & (values == values)  # not NaN
    return values[frequent], here[frequent], there[frequent]


def _most_unequal(x: I64, y: I64) -> list[int]:
    """The indices of the counts that differ most."""
    gap = np.abs(np.sqrt(x) - np.sqrt(y))
    return [int(i) for i in np.argsort(gap)[::-1][:MOST] if gap[i] > 0]


def _tiny(spread: F64) -> float:
    return float(1e-9 * spread.mean()) or 1.0


def _distinct(rows: F64) -> F64:
    """All values, with those repeated in a row replaced by NaN."""
    rows = np.sort(rows, axis=1)
    rows[:, 1:][rows[:, 1:] == rows[:, :-1]] = np.nan
    return rows.ravel()
