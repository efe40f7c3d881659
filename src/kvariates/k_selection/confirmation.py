"""Confirms a number of clusters on two halves of the rows, or says what speaks against it.

| what is asked | how |
|---|---|
| no cluster divides | tested again, with other halves; a weaker sign of a division is a doubt |
| no more than k | each half is searched alone, with other draws and another highest k |
| the same clusters | nearly all rows have the same cluster by the centres of either half, |
| | which start from its own search or from the centres of all rows: the better one |
| a valley between any two neighbours | centres of one half, counts of the other: see below |

Two clusters are neighbours if one is the second nearest of some row of the other, and if no other
centre lies between them. They are compared in the direction from centre to centre. Rows of the
two clusters alone would show a valley in any data: their cells touch in a face that is narrower
than the cells. So all rows count that lie in a convex region around the two centres, cut off half
way to all other centres. A log-concave density has no valley in such a region.

The p-value is exact if one half counts. Here both do, for each other, and their centres may start
from those of all rows; so the false-alarm rate was also counted (`experiments.choosing_families`).

A ring that is cut in two has a valley in the direction between the two parts, because it bends.
So large clusters are cut in two and compared again, by the parts that are nearest to each other.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kvariates.data.rows import F64, Labels, Rows, count_distinct
from kvariates.numerics.draws import I64
from kvariates.numerics.valleys import BINS, RoundedColumns, Valley, ValleyCounts, pooled_p_value
from kvariates.seeding.sampler import SeedingProblem

from .search import TESTED, DivisionTest, Search, SelectionOptions, two_centers

Pair = tuple[int, int]  # two clusters, or two centres
FALSE_ALARM = 0.01  # the chance that any of the pairs without a valley passes for one with it
DEEP = 0.25  # the rows in a valley are at most this share of those on its lower side
DEEP_PARTS = 0.5  # the same between parts of clusters
ALIKE = 0.95  # of the rows have the same cluster by either half
MAY_DIVIDE = 0.02  # a p-value below MAY_DIVIDE / k is a doubt; one below LEVEL / k shows a division
FEW = 8  # rows of a cluster below which halves of them show nothing
REPEATS = 2  # of the test of all clusters
COPIES = 10  # of every distinct row, from which on each is a cluster
EQUAL = 0.01  # distances that differ by less than this part are equal
FURTHER = 3  # the search of a half goes up to k + FURTHER
SPLIT = 50  # rows of a cluster in one half, from which on it is cut in two
MARGIN = 0.25  # how far beyond two centres rows are counted, in distances of the two


class Confirmation(NamedTuple):
    """What speaks against k clusters, or "": then `pairs` is how many neighbours have a gap."""

    doubt: str = ""
    pairs: int = 0


def confirm(problem: SeedingProblem, search: Search, every_row: bool) -> Confirmation:
    """Whether the clusters of a search hold. Pre: it found more than one."""
    found = search.found[(search.k or 0) - 1]
    labels = found.labels
    sizes = np.bincount(labels)
    large = np.flatnonzero(sizes >= FEW)
    k = len(large)
    if k < len(sizes):  # the few rows apart are clusters that halves of the rows cannot show
        members = np.flatnonzero(sizes[labels] >= FEW)
        problem, labels = _part(problem, members, k), labels[members]
    if k == 1:
        return Confirmation("all but one have only a few rows")
    for _ in range(REPEATS):
        test = DivisionTest(problem, columns=True)
        if any(test.p_value(np.flatnonzero(labels == j)) < MAY_DIVIDE / k for j in large):
            return Confirmation("some of them may divide further")
    rows, rng = problem.rows, problem.rng
    options = SelectionOptions(every_row, every_k=False)
    parts = max(2, math.ceil(2 * rows.n / TESTED))
    part = rng.permutation(rows.n) % parts
    halves = [_part(problem, np.flatnonzero(part == half), k) for half in (0, 1)]
    if min(half.k for half in halves) < k:
        return Confirmation(f"half of the rows are too few to find {k} clusters again")
    centers = []
    for half in halves:
        again = Search.of(half, options)
        if again.k is None or again.k > k:
            return Confirmation(f"half of the rows, searched alone, {_found(again)}")
        from_all = problem.lloyd(half.data, found.centers[large])
        best = min(again.found[k - 1], from_all, key=lambda solution: solution.inertia)
        centers.append(best.centers.astype(np.float64))
    both = rows.subset(np.flatnonzero(part < 2))
    one, two = (both.nearest(each) for each in centers)
    together = np.bincount(one.astype(np.int64) * k + two, minlength=k * k).reshape(k, k)
    match = together.argmax(axis=1)  # for each cluster of one half, that of the other
    alike = float(np.mean(match[one] == two))
    if alike < ALIKE or len(np.unique(match)) < k:
        return Confirmation(
            f"two halves of the rows lead to different clusters for {1 - alike:.0%} of the rows"
        )
    centers[1] = centers[1][match]
    return _without_valley([half.rows for half in halves], centers, both, rng)


def are_copies(rows: Rows, labels: Labels) -> bool:
    """Whether the clusters are the distinct rows, with COPIES of each or more.

    Ratings and counts are repeated too: values at equal distances in every column prove nothing,
    unless there are only two rows.
    """
    sizes = np.bincount(labels)
    m = len(sizes)
    if m == 1 or sizes.min() < COPIES or count_distinct(rows, m + 1) > m:
        return False
    distinct = rows.take(np.unique(labels, return_index=True)[1])
    gaps = (np.diff(np.unique(column)) for column in np.asarray(distinct).T)
    return m == 2 or any(gap.size > 1 and gap.max() > (1 + EQUAL) * gap.min() for gap in gaps)


def _part(problem: SeedingProblem, members: I64, k: int) -> SeedingProblem:
    """The problem for some of the rows, up to a few more than k clusters."""
    part = problem.data.part(members)
    most = count_distinct(part.rows, k + FURTHER)
    return SeedingProblem(part, most, lloyd=problem.lloyd, rng=problem.rng)


def _found(search: Search) -> str:
    return f"divide into more than {len(search.found)}" if search.k is None else f"show {search.k}"


def _without_valley(
    halves: list[Rows], centers: list[F64], both: Rows, rng: np.random.Generator
) -> Confirmation:
    """Whether all neighbours have a valley between them."""
    whole = [(half, np.arange(len(half))) for half in centers]
    split = [_split(*half, rng) for half in zip(halves, centers, strict=True)]
    tests, finer = (
        [PairTest(*each[i], halves[i], halves[1 - i]) for i in (0, 1)] for each in (whole, split)
    )
    rounding = RoundedColumns(both.X)

    def p_value(pair: Pair) -> float:
        """The p-value of "no valley"; 1 if the valley is not deep."""
        counts, parts = (
            [test.counts(pair, rounding, rng) for test in each] for each in (tests, finer)
        )
        deep = _is_below(DEEP, counts) and _is_below(DEEP_PARTS, parts)
        return pooled_p_value(counts) if deep else 1.0

    pairs = neighbours(both, centers[0])
    p_values = [p_value(pair) for pair in pairs]
    if not (joined := _above(p_values)):
        return Confirmation(pairs=len(pairs))
    return Confirmation(
        f"{joined} of {len(pairs)} pairs of neighbours have no certain gap between them"
        f" (false-alarm rate {FALSE_ALARM:g} for all pairs)"
    )


def _split(rows: Rows, centers: F64, rng: np.random.Generator) -> tuple[F64, I64]:
    """Two centres for each large cluster, one for the others; and the cluster of each centre."""
    labels = rows.nearest(centers)
    parts = []
    for j, center in enumerate(centers):
        members = np.flatnonzero(labels == j)
        large = len(members) >= SPLIT
        parts.append(two_centers(rows.subset(members), None, rng) if large else center[None])
    return np.concatenate(parts), np.repeat(np.arange(len(centers)), [len(p) for p in parts])


def _is_below(share: float, counts: list[ValleyCounts]) -> bool:
    middle, side = (sum(of) for of in zip(*counts, strict=True))
    return bool(middle <= share * side)


def _above(p_values: list[float]) -> int:
    """How many p-values show nothing, by the method of Holm (1979)."""
    limits = FALSE_ALARM / np.arange(len(p_values), 0, -1)
    missed = np.flatnonzero(np.sort(p_values) >= limits)
    return len(p_values) - int(missed[0]) if missed.size else 0


def neighbours(rows: Rows, centers: F64) -> list[Pair]:
    """Pairs of clusters with no other centre between them that meet at some row."""
    near = rows.two_nearest(centers)
    met = np.unique(np.sort(np.c_[near.labels, near.second], axis=1), axis=0)
    apart = Rows.of(centers).distances(centers, squared=True)
    around = apart[met[:, 0]] + apart[met[:, 1]]
    np.put_along_axis(around, met.astype(np.int64), np.inf, axis=1)
    free = around.min(axis=1) >= apart[met[:, 0], met[:, 1]]
    return [(int(i), int(j)) for i, j in met[free]]


class PairTest:
    """Tests pairs of clusters: the rows of one half choose a valley, those of the other count.

    A cluster may have several centres: the two that are nearest to each other count for a pair.
    """

    def __init__(self, centers: F64, clusters: I64, chooses: Rows, counts: Rows) -> None:
        self._centers, self._clusters, self._gram = centers, clusters, centers @ centers.T
        self._products = [  # a row for each centre
            np.ascontiguousarray((rows.X @ centers.T).T) for rows in (chooses, counts)
        ]

    def counts(
        self, pair: Pair, rounding: RoundedColumns, rng: np.random.Generator
    ) -> ValleyCounts:
        """Rows in the valley and beside it, between the two clusters of `pair`."""
        i, j = self._nearest(pair)
        direction = self._centers[j] - self._centers[i]
        length = float(direction @ direction)
        start = float(self._centers[i] @ direction)
        edges = np.linspace(-MARGIN, 1 + MARGIN, BINS + 1)
        along = []
        for products in self._products:
            values = products[j] - products[i]
            near = np.flatnonzero(np.abs(values - start - length / 2) <= (0.6 + MARGIN) * length)
            inside = near[self._inside(products[:, near], (i, j), length)]
            along.append((rounding.fill(values[inside], direction, rng) - start) / length)
        valley = Valley.of(along[0], edges)
        return ValleyCounts(0, 0) if valley is None else valley.counts(along[1])

    def _nearest(self, pair: Pair) -> Pair:
        """The centres of the two clusters that are nearest to each other."""
        one, two = (np.flatnonzero(self._clusters == cluster) for cluster in pair)
        square = np.diag(self._gram)
        apart = square[one, None] + square[two] - 2 * self._gram[np.ix_(one, two)]
        i, j = np.unravel_index(apart.argmin(), apart.shape)
        return int(one[i]), int(two[j])

    def _inside(self, products: F64, pair: Pair, length: float) -> NDArray[np.bool_]:
        """Which rows lie in the convex region around the two centres of `pair`."""
        (i, j), gram = pair, self._gram
        others = np.delete(np.arange(len(gram)), [i, j])
        at = np.clip((gram[others, j] - gram[others, i] - gram[i, j] + gram[i, i]) / length, 0, 1)
        foot = (1 - at) ** 2 * gram[i, i] + at**2 * gram[j, j] + 2 * at * (1 - at) * gram[i, j]
        limit = (np.diag(gram)[others] - foot) / 2
        toward = products[others]
        toward -= np.multiply.outer(1 - at, products[i])
        toward -= np.multiply.outer(at, products[j])
        return np.asarray((toward <= limit[:, None]).all(axis=0))
