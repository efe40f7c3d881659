"""The door of k-median: what a metric needs of X, and the space it makes of it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_array

from kvariates import _native
from kvariates.data.graph import Graph
from kvariates.data.metric_spaces import CallableMetric, DistanceMatrix, Ints, MetricSpace, Vectors
from kvariates.data.rows import F64, Floats, unit_rows

VECTORS = ("euclidean", "manhattan", "cosine")
NAMES = (*VECTORS, "precomputed", "graph")
CLOSE = 1e-6  # times the largest distance: what two that should be equal may differ by
TRIANGLES = 3e5  # looked at
NEGATIVE, DIAGONAL, ASYMMETRIC, TRIANGLE = 1, 2, 3, 4  # flaws, as the native core counts them
PAIRS = 16  # that a callable is called for both ways


def space_of(X: Any, metric: str | Callable[[Any, Any], float]) -> MetricSpace:
    """Pre: X has passed `validated_points`."""
    if callable(metric):
        return CallableMetric(X, metric)
    if metric == "precomputed":
        return DistanceMatrix(X)
    if metric == "graph":
        return Graph.of(X)
    return Vectors(unit_rows(X) if metric == "cosine" else X, metric)


@dataclass(frozen=True)
class ValidatedPoints:
    """X as the space wants it. `proper`: nothing seen breaks the triangle inequality."""

    X: Any
    proper: bool = True


def validated_points(X: Any, metric: str | Callable[[Any, Any], float]) -> ValidatedPoints:
    """X, checked; or one line about what is wrong with it."""
    if callable(metric):
        objects = rows(X)
        _check_callable(objects, metric)
        return ValidatedPoints(objects)
    if metric == "graph":
        return ValidatedPoints(_graph(X))
    if sparse.issparse(X):
        raise ValueError(
            f"X is sparse, and metric={metric!r} takes a dense array: X.toarray(). A sparse matrix "
            "of edge lengths is metric='graph'."
        )
    X = check_array(X, dtype=[np.float64, np.float32], order="C")
    if metric == "precomputed":
        return ValidatedPoints(X, _check_matrix(X))
    check_range(X, metric)
    return ValidatedPoints(X, metric != "cosine")


def rows(X: Any) -> Any:
    """A sequence of things that only the callable understands; arrays are checked as usual."""
    if sparse.issparse(X):
        raise ValueError("X is sparse, and a callable metric takes rows; use X.toarray().")
    if not hasattr(X, "shape"):
        return list(X)
    array = np.asarray(X)
    if array.dtype.kind not in "fiub":
        return list(array)
    return check_array(array, dtype=None, order="C", ensure_2d=False, allow_nd=True)


def check_range(X: Floats, metric: str) -> None:
    """ValueError if distances, or their squares, leave the range of X's type."""
    if metric == "cosine":
        return
    with np.errstate(over="ignore"):
        span = float((X.max(axis=0).astype(np.float64) - X.min(axis=0)).max())
    limits, power = np.finfo(X.dtype), 2 if metric == "euclidean" else 1
    low = (float(limits.tiny) * 1e6) ** (1 / power)
    high = (float(limits.max) / (1e3 * X.shape[1])) ** (1 / power)
    if 0 < span < low or not span < high:
        raise ValueError(
            f"X spreads over {span:.3g}: {metric} distances would leave the range of {X.dtype}; "
            "rescale the features, e.g. with StandardScaler."
        )


def _check_callable(rows: Any, metric: Callable[[Any, Any], float]) -> None:
    space = CallableMetric(rows, metric)
    rng = np.random.default_rng(0)
    pairs = rng.integers(len(rows), size=(PAIRS, 2)) if len(rows) else np.empty((0, 2), int)
    pairs[::4, 1] = pairs[::4, 0]  # some with themselves
    for i, j in pairs.tolist():
        there, back = (float(space.among(a, np.array([b]))[0]) for a, b in ((i, j), (j, i)))
        if abs(there - back) > CLOSE * max(there, back):
            raise ValueError(
                f"metric is not symmetric: {there:.6g} from row {i} to row {j}, {back:.6g} back."
            )
        if i == j and there > 0:
            raise ValueError(f"metric returned {there:.6g} for row {i} and itself; it must be 0.")


def _check_matrix(D: Floats) -> bool:
    """Is it a metric, as far as one can see? Warns if not; raises if it is not even symmetric."""
    if D.shape[0] != D.shape[1]:
        raise ValueError(
            f"metric='precomputed' needs a square matrix of distances; X has shape {D.shape}."
        )
    flaw, i, j, z = _native.check_distances(D, CLOSE, TRIANGLES)
    if flaw == NEGATIVE:
        raise ValueError(f"X[{i}, {j}] = {D[i, j]:.6g} is a negative distance.")
    if flaw == DIAGONAL:
        raise ValueError(f"X[{i}, {i}] = {D[i, i]:.6g}; a point's distance to itself must be 0.")
    if flaw == ASYMMETRIC:
        raise ValueError(
            f"X is not symmetric: X[{i}, {j}] = {D[i, j]:.6g}, X[{j}, {i}] = {D[j, i]:.6g}."
        )
    if flaw == TRIANGLE:
        warnings.warn(
            f"X breaks the triangle inequality: {i} and {j} are {D[i, j]:.6g} apart, but "
            f"{D[i, z] + D[z, j]:.6g} by way of {z}. Medoids are found all the same; what rests on "
            "it (trees, guarantees) is not what it promises.",
            UserWarning,
            stacklevel=5,
        )
    return flaw != TRIANGLE


def _graph(X: Any) -> Any:
    if not sparse.issparse(X):
        raise ValueError(
            f"metric='graph' needs a scipy.sparse matrix of edge lengths; got {type(X).__name__}."
        )
    if X.ndim != 2 or X.shape[0] != X.shape[1]:
        raise ValueError(f"metric='graph' needs a square matrix; X has shape {X.shape}.")
    A = _shortest(X)
    if A.shape[0] == 0:
        raise ValueError("Found array with 0 sample(s): the graph has no nodes.")
    _check_edges(A)
    return _mirrored(A)


def _shortest(X: Any) -> Any:
    """As CSR; of an edge that is stored several times, the shortest."""
    if sparse.issparse(X) and X.format == "csr" and X.has_canonical_format:
        return sparse.csr_array(X).astype(np.float64, copy=False)
    coo = X.tocoo()
    data, (row, column) = coo.data.astype(np.float64), (coo.row, coo.col)
    order = np.lexsort((data, column, row))
    row, column, data = row[order], column[order], data[order]
    first = np.ones(len(data), dtype=bool)
    first[1:] = (np.diff(row) != 0) | (np.diff(column) != 0)
    return sparse.csr_array((data[first], (row[first], column[first])), shape=X.shape)


def _mirrored(A: Any) -> Any:
    """The same bits both ways, where rounding made a difference."""
    B = sparse.csr_array(A.T)
    B.sort_indices()
    if np.array_equal(A.data, B.data):
        return A
    return sparse.csr_array((np.minimum(A.data, B.data), A.indices, A.indptr), shape=A.shape)


def _check_edges(A: Any) -> None:
    bad = ~np.isfinite(A.data) | (A.data < 0)
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        i = int(np.searchsorted(A.indptr, at, side="right")) - 1
        what = "negative" if A.data[at] < 0 else "not a finite number"
        raise ValueError(f"The edge from {i} to {A.indices[at]} has length {A.data[at]}: {what}.")
    B = sparse.csr_array(A.T)
    B.sort_indices()
    stored = [
        sparse.csr_array((np.ones(len(M.data)), M.indices, M.indptr), M.shape) for M in (A, B)
    ]
    gap = abs(A - B)
    gap.data[gap.data <= CLOSE * max(A.data.max(initial=0.0), 0.0)] = 0.0
    for off in (
        (stored[0] != stored[1]).tocoo(),
        (gap != 0).tocoo(),
    ):  # a stored zero is an edge, too
        if off.nnz:
            i, j = int(off.coords[0][0]), int(off.coords[1][0])
            raise ValueError(
                f"The graph is not symmetric: {A[i, j]:.6g} from {i} to {j}, {A[j, i]:.6g} back; "
                "store every edge both ways, e.g. X.maximum(X.T)."
            )


def check_components(graph: Graph, weight: F64 | None, k: int) -> None:
    """Every component with demand needs a centre of its own."""
    component = graph.components()
    busy = np.unique(component if weight is None else component[weight > 0])
    if len(busy) > k:
        sizes = np.bincount(component)
        left = busy[np.argsort(-sizes[busy], kind="stable")][k]
        raise ValueError(
            f"The graph has {len(busy)} components and n_clusters={k}: that of node "
            f"{int(np.argmax(component == left))} ({sizes[left]} nodes), for one, has no centre. "
            f"Ask for at least {len(busy)} clusters, join them, or fit each alone."
        )


def demand(validated_points: Any, sample_weight: Any, n: int) -> F64 | None:
    """A weight for every point from numbers of points (ints), a mask, or weights (floats)."""
    if validated_points is None and sample_weight is None:
        return None
    if validated_points is not None and sample_weight is not None:
        raise ValueError("demand and sample_weight say the same thing; give one of them.")
    values = np.asarray(sample_weight if validated_points is None else validated_points)
    if validated_points is not None and values.dtype.kind in "iu":
        if values.ndim != 1 or not values.size or values.min() < 0 or values.max() >= n:
            raise ValueError(f"demand should be numbers of points, 0 to {n - 1}, in one dimension.")
        counts = np.bincount(values, minlength=n).astype(np.float64)
        if len(values) == n and counts.max() > 1:
            raise ValueError(
                f"demand has {n} integers, one a point: numbers of points, or weights? Give "
                "weights as floats, e.g. demand.astype(float), or as sample_weight."
            )
        return counts
    name = "sample_weight" if validated_points is None else "demand"
    if values.ndim == 0:
        values = np.full(n, values)
    if values.shape != (n,):
        raise ValueError(f"{name}.shape == {values.shape}, expected {(n,)}: a weight a point.")
    weight = check_array(values, dtype=np.float64, ensure_2d=False, input_name=name)
    if weight.min() < 0:
        raise ValueError(f"Negative values in data passed to `{name}`.")
    if not weight.any():
        raise ValueError(f"{name} is zero for every point; at least one must be positive.")
    if weight.max() > np.finfo(np.float64).max / (2 * n) or weight.max() < 1e-300:
        raise ValueError(f"{name} goes up to {weight.max():.3g}; divide the weights by their mean.")
    out: F64 = np.ascontiguousarray(weight)
    return out


def points(init: Any, n: int, k: int) -> Ints:
    """Numbers of points to start from."""
    chosen = np.asarray(init)
    if chosen.dtype.kind not in "iu" or chosen.shape != (k,):
        raise ValueError(
            f"init should be the numbers of {k} points; got {chosen.dtype} of shape {chosen.shape}."
        )
    if len(np.unique(chosen)) < k or chosen.min() < 0 or chosen.max() >= n:
        raise ValueError(f"init should be {k} different numbers of points, 0 to {n - 1}.")
    return chosen.astype(np.int64)
