"""What native/bind.cpp offers. Arrays are C-contiguous; lengths are checked, meaning is not."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Float = NDArray[Any]  # float32 or float64
F64 = NDArray[np.float64]
F32 = NDArray[np.float32]
I64 = NDArray[np.int64]
Labels = NDArray[np.int32]

DRAW_TILE: int

class RowsView:
    @property
    def n(self) -> int: ...
    @property
    def d(self) -> int: ...

class QuantizedRows: ...

class Changes:
    def __init__(self) -> None: ...
    @property
    def overflowed(self) -> bool: ...

class Hits:
    def __init__(self) -> None: ...
    @property
    def wasted(self) -> int: ...

def instruction_sets() -> list[str]: ...
def instruction_set() -> str: ...
def dense(x: Float) -> RowsView: ...
def csr(data: Float, indices: NDArray[np.int32], indptr: I64, n_features: int) -> RowsView: ...
def assign(
    rows: RowsView, centers: F64, labels: Labels, changes: Changes | None = None, step: float = 0.0
) -> tuple[int, float]:
    """How many labels changed, and the share that would stay if all centres moved by `step`."""

def assign_hamerly(
    rows: RowsView,
    centers: F64,
    moved: F32 | None,
    labels: Labels,
    upper: F32,
    lower: F32,
    tighten: bool,
    changes: Changes | None,
) -> tuple[int, int]: ...
def assign_elkan(
    rows: RowsView,
    centers: F64,
    moved: F32 | None,
    drift: F32,
    labels: Labels,
    upper: F32,
    lower: F32,
    changes: Changes | None,
) -> tuple[int, int]: ...
def two_nearest(
    rows: RowsView, centers: F64, labels: Labels, second: Labels, cost: F64, second_cost: F64
) -> None: ...
def hartigan(
    rows: RowsView,
    weight: F64 | None,
    moved: F32,  # how far each centre went since the last pass,
    shrink: float,  # and the root of the largest loss of weight
    centers: F64,  # changed, like all that follows
    labels: Labels,
    upper: F32,
    lower: F32,
    sum: F64,  # as in update
    total: F64,
    count: I64,
) -> int: ...
def assign_yinyang(
    rows: RowsView,
    centers: F64,
    group: NDArray[np.int32],  # (k,): which of sixteen groups each centre is in
    moved: F32 | None,
    labels: Labels,
    upper: F32,
    lower: F32,  # (n, 16): one for each group
    changes: Changes | None,
) -> tuple[int, int]: ...
def update(
    rows: RowsView,
    weight: F64 | None,
    labels: Labels,
    changes: Changes | None,
    sum: F64,  # (2, k, d): sums, and what rounding took from them
    total: F64,  # (2, k): weights, likewise
    count: I64,
) -> None: ...
def costs(rows: RowsView, centers: F64, labels: Labels, cost: F64) -> None: ...
def distances(rows: RowsView, centers: F64, squared: bool, out: Float) -> None: ...
def mean_variance(rows: RowsView) -> float: ...
def lower_costs(
    rows: RowsView,
    fresh: F64,
    first: int,
    limit: F64 | None,
    cost: F64,
    nearest: Labels,
    weight: F64 | None,
    sums: F64,
) -> None: ...
def quantize(rows: RowsView, cost: F64) -> QuantizedRows | None: ...
def gains(
    rows: RowsView,
    quantized: QuantizedRows | None,
    candidates: F64,
    limit: F64 | None,
    cost: F64,
    nearest: Labels,
    weight: F64 | None,
    sums: F64,
    gain: F64,
    hits: Hits,
) -> None: ...
def lower_costs_by_hits(
    rows: RowsView,
    quantized: QuantizedRows | None,
    fresh: F64,
    candidate: int,
    name: int,
    limit: F64 | None,
    cost: F64,
    nearest: Labels,
    weight: F64 | None,
    sums: F64,
    hits: Hits,
) -> None: ...
def draw(
    rows: RowsView,
    pending: F64,
    first: int,
    cost: F64,
    nearest: Labels,
    weight: F64 | None,
    sums: F64,
    uniforms: F64,
) -> tuple[int, int]: ...

# Shortest paths on a graph (bind_graph.cpp). The two nearest medoids are slot, second, cost and
# second_cost; lists are (start, point, distance).
I32 = NDArray[np.int32]

class GraphView:
    @property
    def n(self) -> int: ...

def graph_view(indptr: I64, indices: I32, data: F64) -> GraphView: ...
def graph_distances(graph: GraphView, points: I64, out: F64) -> None: ...
def graph_among(graph: GraphView, point: int, others: I64, out: F64) -> None: ...
def graph_ball(graph: GraphView, points: I64, radii: F64) -> tuple[I64, I32, F64]: ...
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
def graph_least_elements(graph: GraphView, order: I64) -> tuple[I64, I32, F64]: ...

# ---- any metric (bind_metric.cpp) ----

def check_distances(D: Float, close: float, triangles: float) -> tuple[int, int, int, int]:
    """The first flaw of a matrix of distances (0: none), its pair, and a point between them."""

def to_float32(D: F64, out: F32) -> bool:
    """D as float32; False, and `out` unfinished, if that would change a value."""

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
    """How many rows, listed in `unknown`, have to look for their two nearest again."""

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
    """Swaps made, the cost, and whether no swap is left that helps."""

# ---- the 2-HST (bind_tree.cpp) ----

Nodes = tuple[I64, I64, I64, I64, float]  # parent, height, center, leaf, unit

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
def table_gains(distance: Float, some: I64 | None, price: F64, weight: F64, gain: F64) -> None:
    """What each candidate (a row, or those in `some`) earns: weight * max(price - distance, 0)."""

def table_cover(distance: Float, some: I64 | None, price: F64, cover: F64) -> None:
    """How many of the candidates are closer to a point than its price."""

def list_gains(
    start: I64,
    point: Labels,
    distance: F64,
    some: I64 | None,
    price: F64,
    weight: F64,
    gain: F64,
) -> None: ...
def list_cover(
    start: I64, point: Labels, distance: F64, some: I64 | None, price: F64, cover: F64
) -> None: ...

# ---- rows in a ball on a grid (bind_fixed.cpp); norm: 0 (max), 1 or 2 ----

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
    """Sums of (x - center) / radius by label, exact; a negative label's rows are passed over."""

def outside_radius(
    rows: F64, labels: Labels, centers: F64, radii: F64, out: NDArray[np.uint8]
) -> None: ...
