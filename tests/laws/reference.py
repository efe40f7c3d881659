"""The reference arithmetic (docs/reference_arithmetic.md), written again in NumPy and Python.

Nothing here uses kvariates. NumPy only applies single operations to whole arrays, which rounds as
float64 does; sums are loops, in the order that the page gives.
"""

import math
import struct

import numpy as np

TILE = 256  # rows under one partial sum of the potential
SMALLEST = -900  # exponent
FEW, PROPOSALS, FINE_BITS, SMALL = 16, 16, 48, 2**18


# ---- distances and labels ------------------------------------------------------------------------


def dense_distances(X, C):
    """Of every row to every centre, (n, k)."""
    gap = X.astype(np.float64)[:, None, :] - C
    q = gap * gap
    d = X.shape[1]
    whole = d // 16 * 16 if d >= 16 else 0
    total = np.zeros(q.shape[:2])
    if whole:
        part = np.zeros((*q.shape[:2], 16))
        for i in range(0, whole, 16):
            part = part + q[:, :, i : i + 16]
        four = (part[..., 0:4] + part[..., 4:8]) + (part[..., 8:12] + part[..., 12:16])
        total = (four[..., 0] + four[..., 1]) + (four[..., 2] + four[..., 3])
    for i in range(whole, d):
        total = total + q[:, :, i]
    return total


def two_sum(a, b):
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def add_square(total, rest, c):
    """Adds c^2 to a sum in two parts (Dekker's product, Knuth's sum)."""
    far = c * 134217729.0
    high = far - (far - c)
    low, square = c - high, c * c
    lost = ((high * high - square) + 2 * high * low) + low * low
    total, error = two_sum(total, square)
    return total, rest + (error + lost)


def sum_of_squares(c):
    """Of a centre's coordinates, in two parts: eight sums side by side, joined after the others."""
    whole = len(c) // 8 * 8
    lanes, rests = np.zeros(8), np.zeros(8)
    for i in range(0, whole, 8):
        lanes, rests = add_square(lanes, rests, c[i : i + 8])
    total = rest = np.float64(0)
    for value in c[whole:]:
        total, rest = add_square(total, rest, value)
    for lane, more in zip(lanes, rests, strict=True):
        total, error = two_sum(total, lane)
        rest = rest + (error + more)
    return total, rest


def sparse_distance(columns, values, c, norm):
    """Of a row's stored entries to a centre; `norm` is its `sum_of_squares`."""
    stored = seen = np.float64(0)
    for f, x in zip(columns, values.astype(np.float64), strict=True):
        stored = stored + (x - c[f]) * (x - c[f])
        seen = seen + c[f] * c[f]
    distance = stored + (norm[0] - seen)
    if distance * 8 >= norm[0]:
        return distance
    near, rest = np.float64(0), np.float64(0)
    for f in columns:
        near, rest = add_square(near, rest, c[f])
    others = (norm[0] - near) + (norm[1] - rest)
    distance = stored + max(others, np.float64(0))
    if distance > norm[0] * 2.0**-46:
        return distance
    row = np.zeros(len(c))
    row[columns] = values
    total = np.float64(0)
    for x, a in zip(row, c, strict=True):
        total = total + (x - a) * (x - a)
    return total


def sparse_distances(X, C):
    """Of every row of a CSR matrix to every centre, (n, k)."""
    norms = [sum_of_squares(c) for c in C]
    out = np.empty((X.shape[0], len(C)))
    for i in range(X.shape[0]):
        entries = slice(X.indptr[i], X.indptr[i + 1])
        for j, c in enumerate(C):
            out[i, j] = sparse_distance(X.indices[entries], X.data[entries], c, norms[j])
    return out


def distances(X, C):
    return dense_distances(X, C) if isinstance(X, np.ndarray) else sparse_distances(X, C)


def labels(D):
    """Of each row the nearest centre, the first of equally near ones."""
    return D.argmin(axis=1).astype(np.int32)


# ---- exact sums ----------------------------------------------------------------------------------


def exponent_of(largest):
    return max(math.frexp(largest)[1], SMALLEST)


def limbs(term, exponent):
    """The three integers of a term, and what they leave out."""
    out = []
    for bits in (30, 61, 92):
        unit = math.ldexp(1.0, exponent - bits)
        limb = np.rint(term / unit)
        out.append(int(limb))
        term = term - limb * unit
    return out, term


def whole(parts):
    return (parts[0] << 62) + (parts[1] << 31) + parts[2]


def rounded(total, exponent):
    """The float64 nearest to an integer number of units of 2^(exponent - 92)."""
    return math.ldexp(float(total), exponent - 92)


def exact_sum(terms, exponent, levels=1):
    """Of each level the sum of the terms, in its own units."""
    totals = [0] * levels
    for term in terms:
        for level in range(levels):
            parts, term = limbs(term, exponent - 92 * level)
            totals[level] += whole(parts)
    return totals


def value_of(totals, exponent):
    """The sum of the levels' float64 values, the finest first."""
    value = 0.0
    for level in range(len(totals) - 1, -1, -1):
        value = value + rounded(totals[level], exponent - 92 * level)
    return value


def levels_of(X, weight):
    """How many levels hold all digits of the values."""
    sizes = np.abs(X[X != 0]).astype(np.float64)
    heaviest, lightest = (weight.max(), weight[weight > 0].min()) if weight is not None else (1, 1)
    digits = 24 if X.dtype == np.float32 and weight is None else 53
    top = exponent_of(sizes.max() * heaviest)
    lowest = exponent_of(max(sizes.min() * lightest, 5e-324))
    return max(1, -(-(top - lowest + digits) // 92))


def means(X, weight, label, k):
    """Centres: each an exact sum, divided by the exact weight. Pre: no cluster is empty."""
    w = np.ones(len(X)) if weight is None else weight
    exponent = exponent_of(np.abs(X).max().astype(np.float64) * w.max())
    of_weights, levels = exponent_of(w.max()), levels_of(X, weight)
    out = np.empty((k, X.shape[1]))
    for j in range(k):
        own = (label == j) & (w > 0)
        mass = value_of(exact_sum(w[own], of_weights), of_weights)
        terms = w[own, None] * X[own].astype(np.float64)
        for f in range(X.shape[1]):
            out[j, f] = value_of(exact_sum(terms[:, f], exponent, levels), exponent) / mass
    return out


def inertia(cost, weight):
    """The exact sum of the weighted costs, rounded once."""
    return math.fsum(cost if weight is None else weight * cost)


# ---- the potential, draws and gains --------------------------------------------------------------


def mass(term, exponent):
    coarse, fine = math.ldexp(1.0, exponent - 45), math.ldexp(1.0, exponent - 92)
    high = np.rint(term / coarse)
    low = np.rint((term - high * coarse) / fine)
    return (int(high) << 47) + int(low)


def masses(cost, weight, exponent):
    return [mass(term, exponent) for term in (cost if weight is None else weight * cost)]


def tile_sums(of_rows):
    return [sum(of_rows[i : i + TILE]) for i in range(0, len(of_rows), TILE)]


def row_at(of_rows, goal):
    """The first row whose running sum exceeds the goal."""
    for i, m in enumerate(of_rows):
        if goal < m:
            return i
        goal -= m
    raise ValueError("the goal is not below the total")


def share_of(total, u):
    return math.floor(u * 2**53) * total >> 53


def gains(cost, D, weight, exponent):
    """How much each candidate would lower the total; D: distances (n, m) to the candidates."""
    w = np.ones(len(cost)) if weight is None else weight
    less = np.maximum(cost[:, None] - D, 0.0)
    return [sum(mass(term, exponent) for term in w * column) for column in less.T]


class Seeding:
    """k-means++ by its definition: greedy with `trials` > 1, otherwise with centres put off."""

    def __init__(self, X, weight, rng):
        dense = X if isinstance(X, np.ndarray) else X.toarray()
        self.order = np.arange(len(dense))
        if dense.size <= SMALL:
            keys = [struct.pack(f">{len(row)}d", *(row + 0.0)) for row in dense.astype(np.float64)]
            self.order = np.array(sorted(range(len(keys)), key=keys.__getitem__))
        self.X, self.dense = X[self.order], dense[self.order].astype(np.float64)
        self.weight = None if weight is None else weight[self.order]
        self.rng, self.n = rng, len(dense)
        self.cost = np.full(self.n, np.inf)
        self.picked, self.flushed, self.rejected, self.exponent = [], 0, 0, 0

    def run(self, k, trials):
        for _ in range(k):
            if trials > 1 and self.picked:
                self.flush()
                self.add_best([self.draw() for _ in range(trials)])
            else:
                self.picked.append(self.draw())
        return self.order[self.picked]

    def weighted(self):
        return self.cost if self.weight is None else self.weight * self.cost

    def distances(self, rows):
        return distances(self.X, self.dense[rows])

    def choose_unit(self):
        self.exponent = exponent_of(self.weighted().max())

    def total(self):
        return sum(masses(self.cost, self.weight, self.exponent))

    def refine(self):
        if self.total().bit_length() < FINE_BITS and self.weighted().max() > 0:
            self.choose_unit()

    def flush(self):
        if self.flushed == len(self.picked):
            return
        near = self.distances(self.picked[self.flushed :]).min(axis=1)
        self.cost = np.where(near < self.cost, near, self.cost)
        if self.flushed == 0:
            self.choose_unit()
        self.flushed, self.rejected = len(self.picked), 0
        self.refine()

    def draw_by_weight(self):
        u = self.rng.random()
        if self.weight is None:
            return share_of(self.n, u)
        of_rows = masses(self.weight, None, exponent_of(self.weight.max()))
        return row_at(of_rows, share_of(sum(of_rows), u))

    def draw(self):
        if not self.picked:
            return self.draw_by_weight()
        pending = len(self.picked) - self.flushed
        many = pending >= max(FEW, self.flushed) or self.rejected * pending > self.n // 8
        if many or self.flushed == 0:
            self.flush()
        while True:
            for _ in range(PROPOSALS):
                of_rows = masses(self.cost, self.weight, self.exponent)
                if sum(of_rows) == 0:
                    break
                row = row_at(of_rows, share_of(sum(of_rows), self.rng.random()))
                bound = self.cost[row]
                if pending := self.picked[self.flushed :]:
                    own = distances(self.X[row : row + 1], self.dense[pending]).min()
                    self.cost[row] = min(own, bound)
                if self.rng.random() * bound < self.cost[row]:
                    return row
                self.rejected += 1
            if self.flushed == len(self.picked) and self.total() == 0:
                return self.draw_by_weight()
            self.flush()

    def add_best(self, drawn):
        D = self.distances(drawn)
        gain = gains(self.cost, D, self.weight, self.exponent)
        best = gain.index(max(gain))
        self.cost = np.where(D[:, best] < self.cost, D[:, best], self.cost)
        self.picked.append(drawn[best])
        self.flushed = len(self.picked)
        self.refine()
