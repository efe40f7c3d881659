"""Arguments that would make the native module read or write outside arrays are ValueErrors."""

from hostile.child import outcomes

SETUP = """
n, d, k = 2000, 3, 4
rng = np.random.default_rng(0)
X = rng.normal(size=(n, d))
view = _native.dense(X)
centers = X[:k].copy()
none = np.empty((0, d))
f32 = lambda *shape: np.zeros(shape, dtype=np.float32)
u16 = lambda *shape: np.zeros(shape, dtype=np.uint16)
i32 = lambda *shape: np.zeros(shape, dtype=np.int32)
i64 = lambda *values: np.array(values, dtype=np.int64)
f64 = lambda *shape: np.zeros(shape)
column = lambda *values: np.array(values, dtype=np.int32)
good, low, high = i32(n), i32(n), i32(n)
low[7], high[n - 1] = -1, k
changes = _native.Changes()
two = _native.dense(X[:1500])
Y, cost, passed = rng.normal(size=(n, 6)), np.zeros(n), _native.PassedPairs()
cost[-1] = 1e9
u64 = lambda *shape: np.zeros(shape, dtype=np.uint64)
_native.gain_bounds(
    _native.dense(Y), None, Y[-1:], None, cost, good, None, u64(8, 2), 30, f64(2), passed)
fewer = _native.dense(Y[:1500])
lower = lambda pairs: _native.lower_costs_of_passed(
    fewer, None, Y[:1], 0, 0, f64(1500), good[:1500], None, u64(6, 2), 30, pairs)
other = lambda candidate: _native.lower_costs_of_passed(
    _native.dense(Y), None, Y[:1], candidate, 0, cost, good, None, u64(8, 2), 30, passed)
other_changes = _native.Changes()
_native.assign(view, centers, i32(n), other_changes)
wide = _native.Changes()
_native.assign(_native.dense(X), centers, i32(n) + 9, wide)
csr = _native.csr(np.ones(2), column(0, 2), i64(0, 1, 2), d)
ring = _native.graph_view(i64(0, 1, 2), column(1, 0), np.ones(2))

def sums(clusters, features=d):
    limbs = np.zeros((clusters, 3, features), dtype=np.int64)
    return limbs, limbs[:, :, 0].copy(), np.zeros(clusters, dtype=np.int64), 3, 1

def levels(clusters, features=d):
    limbs, *rest = sums(clusters, features)
    return limbs[None], *rest

def csr_of(columns, indptr, features=d):
    return _native.csr(np.ones(len(columns)), column(*columns), i64(*indptr), features)
"""

NO_CENTERS = "there are no centres; give at least one"
PAIRS = "the passed pairs are those of other rows"
RANGE = "a label is out of range: labels must be from 0 to k - 1"
CSR_START = "indptr of a CSR matrix must rise from 0 to the number of its values"
BYTES = (
    "_native.assign_bytes({0}, _native.byte_rows(view), centers, {1}, {2}, {3}, {4}, "
    "f32(len({4})), "
    "u16(len({4}), {5}), changes)"
)
EXCHANGE = (
    "_native.exchange_rows(X[:4], {}, i64(0, 4), i64(1, 1, 1, 1), i64(2, 2), i64(2, 2), {}, {}, {},"
    " 9, 1, 0)"
)
REFUSED = {
    "exchange: a unit twice": (
        EXCHANGE.format("i64(0, 1, 1, 3)", "i64(0, 0, 0, 0, 0)", "i64()", "i32(1, 4)"),
        "the order must list every unit once"),
    "exchange: a link too far": (
        EXCHANGE.format("i64(0, 1, 2, 3)", "i64(0, 1, 1, 1, 1)", "i64(4)", "i32(1, 4)"),
        "a link is out of range"),
    "exchange: a group too far": (
        EXCHANGE.format("i64(0, 1, 2, 3)", "i64(0, 0, 0, 0, 0)", "i64()", "i32(1, 4) + 2"),
        "a group is out of range"),
    "exchange: NaN": (
        "_native.exchange_order(X * np.nan, i64(0, n), 2, np.arange(n))", "rows must be finite"),
    "csr: column d": ("csr_of([0, 3], [0, 1, 2])", "a column of a CSR matrix is out of range"),
    "csr: column -1": ("csr_of([0, -1], [0, 1, 2])", "a column of a CSR matrix is out of range"),
    "csr: indptr falls": ("csr_of([0, 1], [0, 2, 1, 2])", CSR_START),
    "csr: indptr too far": ("csr_of([0, 1], [0, 1, 99])", CSR_START),
    "csr: indptr below 0": ("csr_of([0, 1], [-5, 1, 2])", CSR_START),
    "csr: no features": ("csr_of([], [0, 0], 0)", "rows must have at least one feature"),
    "dense: no features": ("_native.dense(f64(5, 0))", "rows must have at least one feature"),
    "assign: k = 0": (
        "_native.assign(view, none, good)", NO_CENTERS),
    "hamerly: k = 0": (
        "_native.assign_hamerly(view, none, None, good, f32(n), f32(n), True, True, changes)",
        "there are no centres; give at least one"),
    "hamerly: labels": (
        "_native.assign_hamerly(view, centers, f32(k), high, f32(n), f32(n), True, True, changes)",
        RANGE),
    "elkan: labels": (
        "_native.assign_elkan(view, centers, f32(k), f32(k), low, f32(n), f32(n * k), changes)",
        RANGE),
    "yinyang: labels": (
        "_native.assign_yinyang(view, centers, i32(k), f32(k), high, f32(n), f32(n, 16), changes)",
        RANGE),
    "yinyang: CSR": (
        "_native.assign_yinyang(csr, centers, i32(k), None, i32(2), f32(2), f32(2, 16), changes)",
        "Yinyang's bounds are for dense rows only"),
    "bytes: labels": (BYTES.format("view", "i32(k)", 64, "f32(k)", "high", 8), RANGE),
    "bytes: order": (
        BYTES.format("view", "i32(k) + k", 64, None, "good", 8), "a centre is out of range"),
    "bytes: groups": (
        BYTES.format("view", "i32(k)", 3, None, "good", 8), "the groups do not fit"),
    "bytes: bounds": (
        BYTES.format("view", "i32(k)", 64, None, "good", 7),
        "there must be bounds for all groups"),
    "bytes: other rows": (
        BYTES.format("two", "i32(k)", 64, None, "good[:1500]", 8),
        "the bytes are those of other rows"),
    "costs: labels": ("_native.costs(view, centers, high, f64(n))", RANGE),
    "costs: k = 0": ("_native.costs(view, none, good, f64(n))", RANGE),
    "update: labels": ("_native.update(view, None, low, None, *sums(k), 0, 0.0)", RANGE),
    "update: k = 0": ("_native.update(view, None, good, None, *sums(0), 0, 0.0)", RANGE),
    "update: changes of other rows": (
        "_native.update(two, None, good[:1500], other_changes, *sums(k), 0, 0.0)",
        "the changes are those of other rows or clusters"),
    "update: changes of other clusters": (
        "_native.update(view, None, good, wide, *sums(k), 0, 0.0)",
        "the changes are those of other rows or clusters"),
    "hartigan: labels": (
        "_native.hartigan(view, None, f32(k), 1.0, centers, high, f32(n), f32(n), *levels(k))",
        RANGE),
    "hartigan: levels": (
        "_native.hartigan(view, None, f32(k), 1.0, centers, good, f32(n), f32(n), *levels(k, 2))",
        "sums have the wrong shape"),
    "lower_costs: limits": (
        "_native.lower_costs(view, centers, 4, f64(2), f64(n), high, None, u64(8, 2), 3)",
        "there must be a limit for every centre"),
    "update: coarser sums": (
        "_native.update(view, None, good, None, *sums(k), 2**31 - 1, 0.0)",
        "there are too many coarser sums"),
    "gains: no candidates": (
        "_native.gains(view, none, None, cost, good, None, u64(8, 2), 30, u64(0, 2))", NO_CENTERS),
    "gain_bounds: no candidates": (
        "_native.gain_bounds(view, None, none, None, cost, good, None, None, 30, f64(0), passed)",
        NO_CENTERS),
    "pairs of no rows": ("lower(_native.PassedPairs())", PAIRS),
    "pairs of other rows": ("lower(passed)", PAIRS),
    "pairs of another candidate": ("other(1)", PAIRS),
    "dual: point": (
        "_native.list_gains(i64(0, 1), column(9), f64(1), None, f64(3), f64(3), f64(1))",
        "a point is out of range"),
    "dual: starts": (
        "_native.list_gains(i64(0, 5, 1), column(0), f64(1), None, f64(3), f64(3), f64(2))",
        "the starts of the lists do not fit their entries"),
    "graph: negative length": (
        "_native.graph_view(i64(0, 1, 2), column(1, 0), np.array([-1.0, -1.0]))",
        "the lengths of edges must be finite and not negative"),
    "graph: indptr": (
        "_native.graph_view(i64(0, 3, 2), column(1, 0), np.ones(2))",
        "indptr of a graph must rise from 0 to the number of its edges"),
    "graph: no medoid": (
        "_native.graph_two_nearest(ring, i64(), i32(2), i32(2), f64(2), f64(2))",
        "there are no chosen points"),
    "swaps: slot": (
        "_native.swap_changes(f64(1, 3), column(0, 0, 9), i32(3), f64(3), f64(3), None, f64(1, 2))",
        "a slot is out of range"),
    "transport: k = 0": (
        "_native.transport(view, none, None, 0, n, 1.0, f64(0), i32(n))", NO_CENTERS),
    "transport: limits": (
        "_native.transport(view, centers, None, n, n, 1.0, f64(k), i32(n))",
        "no sizes within these limits add up to the supply"),
    "transport: supply": (
        "_native.transport(view, centers, np.zeros(n, np.int64), 0, n, 1.0, f64(k), i32(n))",
        "the supply of a row must be positive"),
    "transport: large supplies": (
        "_native.transport(view, centers, np.full(n, 2**62), 0, n, 1.0, f64(k), i32(n))",
        "the supplies are too large"),
    "transport: tau": (
        "_native.transport(view, centers, None, 0, n, 0.0, f64(k), i32(n))",
        "tau must be positive"),
    "tree: no leaf": (
        "_native.tree_leaves(i64(-1), i64(0), 0, f64(1), -3, 1, True)",
        "there must be at least one leaf"),
}  # fmt: skip


def test_arguments_that_would_crash_are_refused_in_one_line():
    found = outcomes({name: case for name, (case, _) in REFUSED.items()}, SETUP)
    assert found == {name: f"ValueError: {words}" for name, (_, words) in REFUSED.items()}


MALFORMED = """
X = np.random.default_rng(0).normal(size=(60, 3))
model = KMeans(3, random_state=0).fit(X)
empty = KMeans(3, random_state=0).fit(X)
empty.cluster_centers_ = np.empty((0, 3))
narrow = KMeans(3, random_state=0).fit(X)
narrow.cluster_centers_ = np.ones((3, 2))

def broken(part, at, value, kind=sparse.csr_array):
    A = kind(X)
    getattr(A, part)[at] = value
    return A

def ring(part, at, value):
    n = np.arange(9)
    A = sparse.csr_array((np.ones(18), (np.r_[n, (n + 1) % 9], np.r_[(n + 1) % 9, n])), (9, 9))
    A.sort_indices()
    getattr(A, part)[at] = value
    return A
"""
FROM_ZERO = "X.indptr must have 61 entries that rise from 0, one for each row and one more; build X"
PUBLIC = {
    "fit: column d": ("KMeans(3).fit(broken('indices', 5, 3))", "X.indices holds 3; it must be"),
    "fit: column -1": ("KMeans(3).fit(broken('indices', 5, -1))", "X.indices holds -1; it must"),
    "fit: indptr falls": ("KMeans(3).fit(broken('indptr', 5, 90))", FROM_ZERO),
    "fit: indptr too far": (
        "KMeans(3).fit(broken('indptr', -1, 900))", "X has 180 values and 180 indices, but X.ind"),
    "fit: indptr from 1": ("KMeans(3).fit(broken('indptr', 0, 1))", FROM_ZERO),
    "fit: CSC row n": (
        "KMeans(3).fit(broken('indices', 5, 60, sparse.csc_array))", "X.indices holds 60; it must"),
    "predict: column d": ("model.predict(broken('indices', 5, 3))", "X.indices holds 3; it must"),
    "transform: indptr": ("model.transform(broken('indptr', 5, 90))", FROM_ZERO),
    "kmeans_plusplus: column d": (
        "kvariates.kmeans_plusplus(broken('indices', 5, 3), 3)", "X.indices holds 3; it must be"),
    "graph: node n": ("KMedian(2, metric='graph').fit(ring('indices', 3, 9))", "X.indices holds 9"),
    "graph: indptr": (
        "KMedian(2, metric='graph').fit(ring('indptr', 3, 90))", "X.indptr must have 10 entries"),
    "predict: no centres": ("empty.predict(X)", "there are no centres; give at least one"),
    "score: no centres": ("empty.score(X)", "there are no centres; give at least one"),
    "predict: narrow centres": ("narrow.predict(X)", "centres must have as many features as the"),
}  # fmt: skip


def test_malformed_matrices_and_centres_are_refused_in_one_line():
    found = outcomes({name: case for name, (case, _) in PUBLIC.items()}, MALFORMED)
    for name, (_, words) in PUBLIC.items():
        assert found[name].startswith(f"ValueError: {words}"), name
