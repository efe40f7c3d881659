"""The types of the compiled module; tests/test_native_stub.py compares them with it.

All arrays are C-contiguous. Only sizes and indices that could crash are checked: callers validate.
Arrays named `out`, and those that a comment names, are written.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Float = NDArray[Any]  # float32 or float64
F64 = NDArray[np.float64]
F32 = NDArray[np.float32]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
U64 = NDArray[np.uint64]
U16 = NDArray[np.uint16]
Labels = NDArray[np.int32]
Nodes = tuple[I64, I64, I64, I64, float]  # of a tree: parent, height, center, leaf, unit
Lists = tuple[I64, I32, F64]  # start, node, distance; list i is start[i] to start[i + 1]

MAX_PARTIAL: int  # every thread has a table of sums of its own if that is at most this large
DRAW_TILE: int  # rows under one of the partial `sums` of a potential

class RowsView:
    @property
    def n(self) -> int: ...
    @property
    def d(self) -> int: ...

class RowFilter:
    """What excludes pairs of row and candidate (see native/row_filter.hpp)."""

class ByteRows:
    """Rows with one byte per value (see native/byte_rows.hpp)."""

class Changes:
    """The rows that got a new label; `overflowed` if there were too many to list."""

    def __init__(self) -> None: ...
    @property
    def overflowed(self) -> bool: ...

class PassedPairs:
    """Pairs of row and candidate that lower the row's cost; `wasted`: computed ones that do not."""

    def __init__(self) -> None: ...
    @property
    def wasted(self) -> int: ...

def tasks_of_other_threads() -> int:
    """How many tasks threads other than the calling one have run so far; for tests."""

def set_work_per_thread(work: float) -> float:
    """Set how many multiply-adds are worth another thread; return the number before. For tests."""

def instruction_sets() -> list[str]: ...
def byte_kernels() -> list[str]:
    """Those that multiply bytes on this machine. KVARIATES_ISA takes their names too, for tests."""

def instruction_set() -> str: ...
def dense(x: Float) -> RowsView: ...
def small(x: NDArray[Any]) -> RowsView: ...  # float16, int8, uint8, or bfloat16 as uint16
def csr(data: Float, indices: I32, indptr: I64, n_features: int) -> RowsView: ...

# Assignments write `labels`, the bounds and `changes`. `moved` holds how far each centre moved
# since the last call; None starts anew. Those with bounds return how many labels changed, rows that
# the filter read, pairs of row and centre that it compared, and distances computed exactly.
def assign(
    rows: RowsView, centers: F64, labels: Labels, changes: Changes | None = None, step: float = 0.0
) -> tuple[int, int, int, float]:
    """Return counts and a share of rows.

    How many labels changed, how many pairs were compared, how many rows needed exact distances, and
    which share stays if all centres move by `step`.
    """

def assign_hamerly(
    rows: RowsView,
    centers: F64,
    moved: F32 | None,
    labels: Labels,
    upper: F32,
    lower: F32,
    tighten: bool,
    apart: bool,  # whether to use distances between centres
    changes: Changes | None,
) -> tuple[int, int, int, int, int, int]:
    """Return two counts more.

    Rows with candidates chosen by distances between centres, and pairs that these distances spared.
    """

def fast_bytes() -> bool:
    """Whether this machine multiplies bytes faster than float32."""

def bytes_pay(rows: RowsView, k: int) -> bool:
    """Whether a fit takes less time with a first pass over bytes."""

def byte_bounds(k: int, size: int) -> int:
    """How many lower bounds a row keeps, for groups of so many of k centres."""

def byte_rows(rows: RowsView) -> ByteRows | None:
    """None if bytes cannot hold the rows."""

def assign_bytes(
    rows: RowsView,
    bytes: ByteRows,
    centers: F64,
    order: Labels,  # of the centres: `size` in each group but the last
    size: int,
    moved: F32 | None,
    labels: Labels,
    upper: F32,
    lower: U16,
    changes: Changes | None,
) -> tuple[int, int, int, int]: ...
def assign_elkan(
    rows: RowsView,
    centers: F64,
    moved: F32 | None,
    drift: F32,  # (k,): how far each centre moved in all
    labels: Labels,
    upper: F32,
    lower: F32,
    changes: Changes | None,
) -> tuple[int, int, int, int]: ...
def two_nearest(
    rows: RowsView, centers: F64, labels: Labels, second: Labels, cost: F64, second_cost: F64
) -> None: ...
def hartigan(
    rows: RowsView,
    weight: F64 | None,
    moved: F32,  # how far each centre moved since the last pass
    shrink: float,  # the root of the largest relative loss of weight since then
    centers: F64,  # written, like all that follow
    labels: Labels,
    upper: F32,
    lower: F32,
    sum: I64,  # as in update
    total: I64,
    count: I64,
    exponent: int,
    weight_exponent: int,
) -> int:
    """Return how many rows moved to another cluster."""

def assign_yinyang(
    rows: RowsView,
    centers: F64,
    group: I32,  # (k,): which of 16 groups each centre is in
    moved: F32 | None,
    labels: Labels,
    upper: F32,
    lower: F32,  # (n, 16): one for each group
    changes: Changes | None,
) -> tuple[int, int, int, int]: ...
def update(
    rows: RowsView,
    weight: F64 | None,
    labels: Labels,
    changes: Changes | None,  # None: the sums are computed anew
    sum: I64,  # (k, 3, d): limbs of the sums
    total: I64,  # (k, 3): limbs of the weights
    count: I64,
    exponent: int,
    weight_exponent: int,
    coarser: int,  # how many coarser sums hold parts of the values
    smallest: float,  # no value but zero is smaller
) -> None: ...
def update_narrow(
    rows: RowsView,  # dense, without weights
    labels: Labels,
    changes: Changes | None,
    low: U64,  # (k, d): words of the sums
    high: I32,  # (k, d)
    digits: int,  # of a term
    total: I64,
    count: I64,
    exponent: int,
    weight_exponent: int,
) -> None: ...
def round_narrow(low: U64, high: I32, digits: int, exponent: int, out: F64) -> None: ...
def sums_by_label(
    rows: RowsView,  # sparse
    weight: F64 | None,
    labels: Labels,
    exponent: int,
    smallest: float,  # of the values that are not zero
    out: F64,  # (k, d)
) -> None: ...
def round_limbs(limbs: I64, exponent: int, out: F64) -> None: ...
def exact_bins(terms: F64, weight: F64 | None) -> I64: ...
def magnitudes(rows: RowsView) -> tuple[float, float]: ...
def costs(rows: RowsView, centers: F64, labels: Labels, cost: F64) -> None: ...
def interleave(columns: Sequence[Float], out: Float) -> None:
    """Write columns of the dtype of `out` as its columns."""

def draw_cells(
    labels: Labels, cost: F64, weight: F64 | None, k: int, size: int, seed: int
) -> tuple[I64, F64]:
    """Draw at most `size` rows; return their indices and new weights."""

def distances(rows: RowsView, centers: Float, squared: bool, out: Float) -> None: ...
def nearest(rows: RowsView, centers: Float, labels: Labels) -> None: ...

# A potential is `cost`, `nearest`, `weight` and `sums` (n // DRAW_TILE pairs of words, the low one
# first, in units of 2**(exponent - 92)); all but `weight` are written. `limit`
# holds, for each centre, a cost below which its rows cannot be improved.
def lower_costs(
    rows: RowsView,
    fresh: F64,
    first: int,  # the label of the first new centre
    limit: F64 | None,
    cost: F64,
    nearest: Labels,
    weight: F64 | None,
    sums: U64 | None,
    exponent: int,
) -> None: ...
def quantized_rows(rows: RowsView, cost: F64) -> RowFilter | None: ...
def byte_tiles(rows: RowsView, cost: F64) -> RowFilter | None: ...
def gain_bounds(
    rows: RowsView,
    filter: RowFilter | None,
    candidates: F64,
    limit: F64 | None,
    cost: F64,
    nearest: Labels,
    weight: F64 | None,
    sums: U64 | None,
    exponent: int,
    bounds: F64,  # m times the lower and the upper bound; written, like passed
    passed: PassedPairs,
) -> None: ...
def gains(
    rows: RowsView,
    candidates: F64,
    limit: F64 | None,
    cost: F64,
    nearest: Labels,
    weight: F64 | None,
    sums: U64 | None,
    exponent: int,
    gain: U64,  # (m, 2): words; written
) -> None: ...
def lower_costs_of_passed(
    rows: RowsView,
    filter: RowFilter | None,
    fresh: F64,  # (1, d): the chosen candidate
    candidate: int,  # its place among the candidates
    name: int,  # its label
    cost: F64,
    nearest: Labels,
    weight: F64 | None,
    sums: U64 | None,
    exponent: int,
    passed: PassedPairs,
) -> None: ...
def sum_costs(
    rows: RowsView, cost: F64, nearest: Labels, weight: F64 | None, sums: U64 | None, exponent: int
) -> None: ...
def total_words(sums: U64) -> tuple[int, int]: ...

# Goals are integers below the total, as words of 64 bits.
def rows_at(
    rows: RowsView,
    cost: F64,
    nearest: Labels,
    weight: F64 | None,
    sums: U64 | None,
    exponent: int,
    goals: U64,  # (m, 2): the low word first
    out: I64,
) -> None: ...
def propose(
    rows: RowsView,
    pending: F64,
    first: int,
    cost: F64,
    nearest: Labels,
    weight: F64 | None,
    sums: U64 | None,
    exponent: int,
    high: int,
    low: int,
) -> tuple[int, float, float]:
    """Return a row, and its cost before and after it was compared with the pending centres."""

# ---- shortest paths on a graph (bind_graph.cpp) ----

# A slot is a place in `chosen`. `slot`, `second`, `cost` and `second_cost` are the two nearest
# chosen points of every point and their distances; they are written.
class GraphView:
    @property
    def n(self) -> int: ...

def graph_view(indptr: I64, indices: I32, data: F64) -> GraphView: ...
def graph_distances(graph: GraphView, points: I64, out: F64) -> None: ...
def graph_among(graph: GraphView, point: int, others: I64, out: F64) -> None: ...
def graph_ball(graph: GraphView, points: I64, radii: F64) -> Lists: ...
def graph_two_nearest(
    graph: GraphView, chosen: I64, slot: Labels, second: Labels, cost: F64, second_cost: F64
) -> None: ...
def graph_swapped(
    graph: GraphView,
    chosen: I64,
    replaced: int,
    slot: Labels,
    second: Labels,
    cost: F64,
    second_cost: F64,
) -> None: ...
def graph_swap_changes(
    graph: GraphView,
    candidates: I64,
    slot: Labels,
    second: Labels,
    cost: F64,
    second_cost: F64,
    weight: F64 | None,
    out: F64,
) -> None: ...
def graph_least_elements(graph: GraphView, order: I64) -> Lists: ...

# ---- distances and swaps of medoids (bind_metric.cpp); `kind`: 0 (L1), 1 (L2) or 2 (cosine) ----

def check_distances(D: Float, close: float, triangles: float) -> tuple[int, int, int, int]:
    """Return the first flaw of a matrix of distances (0: none), its pair, and a point between."""

def to_float32(D: F64, out: F32) -> bool:
    """Copy D as float32. Stop and return False if that changes a value."""

def metric_rows(x: Float, turned: Float | None, points: Float, kind: int, out: Float) -> None: ...
def metric_square(x: Float, turned: Float | None, kind: int, out: Float) -> None: ...
def two_nearest_rows(
    rows: Float, slot: Labels, second: Labels, cost: Float, second_cost: Float
) -> None: ...
def swap_changes(
    rows: Float,
    slot: Labels,
    second: Labels,
    cost: Float,
    second_cost: Float,
    weight: F64 | None,
    out: F64,
) -> None: ...
def swap_patch(
    row: Float,
    swapped: int,
    slot: Labels,
    second: Labels,
    cost: Float,
    second_cost: Float,
    unknown: I64,
) -> int:
    """Return how many points, listed in `unknown`, need their two nearest medoids anew."""

def eager_swaps(
    D: Float,
    chosen: I64,
    slot: Labels,
    second: Labels,
    cost: Float,
    second_cost: Float,
    weight: F64 | None,
    order: I64,
    block: int,
    tol: float,
    most: int,
    restarts: int = 0,
    strength: int = 2,
    seed: int = 0,
    point: I64 | None = None,
) -> tuple[int, float, bool]:
    """Return how many swaps were made, the cost, and whether no swap is left that lowers it."""

# ---- the 2-HST (bind_tree.cpp) ----

def tree_over_rows(x: Float, manhattan: bool, seed: int) -> Nodes: ...
def tree_over_csr(
    data: Float, indices: I32, indptr: I64, n_features: int, manhattan: bool, seed: int
) -> Nodes: ...
def tree_over_matrix(D: Float, seed: int) -> Nodes: ...
def tree_over_callable(among: Callable[..., Any], n: int, seed: int) -> Nodes: ...
def tree_over_lists(start: I64, node: I32, distance: F64, seed: int) -> Nodes: ...
def tree_common(parent: I64, height: I64, a: I64, b: I64, out: I64) -> None: ...
def tree_counts(parent: I64, leaf: I64, weight: F64 | None, out: F64) -> None: ...
def tree_leaves(
    parent: I64, height: I64, low: int, counts: F64, k: int, power: int, exact: bool
) -> I64: ...

# ---- gains of candidates (all, or `some`) at given prices (bind_dual.cpp) ----

def table_gains(distance: Float, some: I64 | None, price: F64, weight: F64, gain: F64) -> None:
    """Sum weight * max(price - distance, 0) over the points, for each candidate."""

def table_cover(distance: Float, some: I64 | None, price: F64, cover: F64) -> None:
    """Count, for each point, the candidates that are nearer than its price."""

def list_gains(
    start: I64, point: I32, distance: F64, some: I64 | None, price: F64, weight: F64, gain: F64
) -> None: ...
def list_cover(
    start: I64, point: I32, distance: F64, some: I64 | None, price: F64, cover: F64
) -> None: ...

# ---- rows on a lattice inside a ball (bind_lattice.cpp); `norm`: 0 (max), 1 or 2 ----

def to_lattice(
    rows: Float,
    center: F64 | None,
    half: F64 | None,
    norm: int,
    bound: float,
    step: float,
    out: F64,
) -> None: ...
def lattice_sums(
    rows: F64,
    labels: Labels,
    centers: F64 | None,
    radii: F64 | None,
    norm: int,
    bound: float,
    step: float,
    sums: F64,
    counts: I64,
    squares: F64 | None,
) -> None:
    """Sum (x - center) / radius by label, exactly. Rows with a negative label are skipped."""

def outside_radius(
    rows: F64, labels: Labels, centers: F64, radii: F64, out: NDArray[np.uint8]
) -> None: ...

# ---- assignment to clusters whose sizes have limits (bind_transport.cpp) ----

def transport(
    rows: RowsView,
    centers: F64,
    supply: I64 | None,
    low: int,
    high: int,
    tau: float,
    price: F64,
    labels: Labels,
) -> tuple[I64, I64, I64, float, int, int]:
    """Write `price` (given: where to start) and `labels`.

    Return row, cluster and units of the parts of split rows, by how much the changes of the prices
    differ, passes over the rows, and paths between clusters.
    """

# Exchanges of units between groups. `labels` (runs x units) holds the starts and gets the ends. The
# result of a run: sweeps, whether the last one found nothing, and the values of the objective.
def exchange_order(rows: F64, kind_start: I64, block: int, order: I64) -> None:
    """Reorder the units of each kind so that every `block` of them is alike."""

def exchange_rows(
    rows: F64,
    order: I64,
    kind_start: I64,
    size: I64,
    low: I64,
    high: I64,
    link_start: I64,
    link: I64,
    labels: Labels,
    partners: int,
    max_sweeps: int,
    seed: int,
) -> list[tuple[int, bool, list[float]]]: ...
def exchange_distances(
    distance: Float,
    order: I64,
    kind_start: I64,
    size: I64,
    low: I64,
    high: I64,
    link_start: I64,
    link: I64,
    labels: Labels,
    partners: int,
    max_sweeps: int,
    seed: int,
) -> list[tuple[int, bool, list[float]]]: ...
