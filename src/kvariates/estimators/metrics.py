"""The door of k-median: what a metric needs of X, and the space it makes of it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_array

from kvariates import _native
from kvariates.geometry.euclidean import F64, Floats, unit_rows
from kvariates.geometry.graph import Graph
from kvariates.geometry.metric import Called, Ints, Matrix, MetricSpace, Vectors

VECTORS = ("euclidean", "manhattan", "cosine")
NAMES = (*VECTORS, "precomputed", "graph")
CLOSE = 1e-6  # times the largest distance: what two that should be equal may differ by
TRIANGLES = 3e5  # looked at
NEGATIVE, DIAGONAL, ASYMMETRIC, TRIANGLE = 1, 2, 3, 4  # flaws, as the native core counts them
PAIRS = 16  # that a callable is called for both ways


def space_of(X: Any, metric: str | Callable[[Any, Any], float]) -> MetricSpace:
    """Pre: X has passed `array`."""
    if callable(metric):
        return Called(X, metric)
    if metric == "precomputed":
        return Matrix(X)
    if metric == "graph":
        return Graph.of(X)
    return Vectors(unit_rows(X) if metric == "cosine" else X, metric)


def array(X: Any, metric: str | Callable[[Any, Any], float]) -> Any:
    """X as the metric's space wants it, or one line about what is wrong with it."""
    if callable(metric):
        objects = rows(X)
        _check_callable(objects, metric)
        return objects
    if metric == "graph":
        return _graph(X)
    if sparse.issparse(X):
        raise ValueError(
            f"X is sparse, and metric={metric!r} takes dense rows; for a graph say metric='graph', "
            "otherwise X.toarray() or metric='precomputed'."
        )
    X = check_array(X, dtype=[np.float64, np.float32], order="C")
    if metric == "precomputed":
        _check_matrix(X)
    return X


def rows(X: Any) -> Any:
    """A sequence of things that only the callable understands; arrays are checked as usual."""
    if sparse.issparse(X):
        raise ValueError("X is sparse, and a callable metric takes rows; use X.toarray().")
    try:
        array = np.asarray(X)
    except ValueError:  # rows of several lengths
        return list(X)
    if array.dtype.kind not in "fiub":
        return list(X)
    kinds = [np.float64, np.float32]
    return check_array(array, dtype=kinds, order="C", ensure_2d=False, allow_nd=True)


def _check_callable(rows: Any, metric: Callable[[Any, Any], float]) -> None:
    space = Called(rows, metric)
    rng = np.random.default_rng(0)
    for i, j in rng.integers(len(rows), size=(PAIRS, 2)).tolist():
        there, back = (float(space.among(a, np.array([b]))[0]) for a, b in ((i, j), (j, i)))
        if abs(there - back) > CLOSE * max(there, back):
            raise ValueError(
                f"metric is not symmetric: {there:.6g} from row {i} to row {j}, {back:.6g} back."
            )
        if i == j and there > 0:
            raise ValueError(f"metric returned {there:.6g} for row {i} and itself; it must be 0.")


def _check_matrix(D: Floats) -> None:
    if D.shape[0] != D.shape[1]:
        raise ValueError(
            f"metric='precomputed' needs a square matrix of distances; X has shape {D.shape}."
        )
    flaw, i, j, z = _native.inspect(D, CLOSE, TRIANGLES)
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


def _graph(X: Any) -> Any:
    if not sparse.issparse(X):
        raise ValueError(
            f"metric='graph' needs a scipy.sparse matrix of edge lengths; got {type(X).__name__}."
        )
    A = sparse.csr_array(X).astype(np.float64, copy=False)
    if not A.has_canonical_format:
        A = A.copy()
        A.sum_duplicates()
    if A.shape[0] != A.shape[1]:
        raise ValueError(f"metric='graph' needs a square matrix; X has shape {A.shape}.")
    if A.shape[0] == 0:
        raise ValueError("Found array with 0 sample(s): the graph has no nodes.")
    _check_edges(A)
    return A


def _check_edges(A: Any) -> None:
    bad = ~np.isfinite(A.data) | (A.data < 0)
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        i = int(np.searchsorted(A.indptr, at, side="right")) - 1
        what = "negative" if A.data[at] < 0 else "not a finite number"
        raise ValueError(f"The edge from {i} to {A.indices[at]} has length {A.data[at]}: {what}.")
    B = sparse.csr_array(A.T)
    B.sort_indices()
    same = np.array_equal(A.indptr, B.indptr) and np.array_equal(A.indices, B.indices)
    if same and np.array_equal(A.data, B.data):
        return
    i, j = (int(ends[0]) for ends in (A != B).nonzero())
    raise ValueError(
        f"The graph is not symmetric: {A[i, j]:.6g} from {i} to {j}, {B[i, j]:.6g} back; "
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


def demand(given: Any, sample_weight: Any, n: int) -> F64 | None:
    """A weight for every point from numbers of points (ints), a mask, or weights (floats)."""
    if given is None and sample_weight is None:
        return None
    if given is not None and sample_weight is not None:
        raise ValueError("demand and sample_weight say the same thing; give one of them.")
    values = np.asarray(sample_weight if given is None else given)
    if given is not None and values.dtype.kind in "iu":
        if values.ndim != 1 or not values.size or values.min() < 0 or values.max() >= n:
            raise ValueError(f"demand should be numbers of points, 0 to {n - 1}, in one dimension.")
        return np.bincount(values, minlength=n).astype(np.float64)
    name = "sample_weight" if given is None else "demand"
    if values.ndim == 0:
        values = np.full(n, values)
    if values.shape != (n,):
        raise ValueError(f"{name}.shape == {values.shape}, expected {(n,)}: a weight a point.")
    weight = check_array(values, dtype=np.float64, ensure_2d=False, input_name=name)
    if weight.min() < 0:
        raise ValueError(f"Negative values in data passed to `{name}`.")
    if not weight.any():
        raise ValueError(f"{name} is zero for every point; at least one must be positive.")
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
