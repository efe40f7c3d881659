"""Checks of the input of k-median: X for each metric, the demand, and given medoids."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_array

from kvariates.data.graph import Graph
from kvariates.data.metric_spaces import CallableMetric, DistanceMatrix, Ints, MetricSpace
from kvariates.data.metrics import (
    DISTANCES,
    EDGES,
    OBJECTS,
    SPARSE_ROWS,
    Metric,
    Vectors,
    metric_entry,
)
from kvariates.data.rows import F64, check_sparse
from kvariates.estimators import input_errors, validation
from kvariates.estimators.array_input import host_array
from kvariates.guarantees import LOST

TOLERANCE = 1e-6  # times the largest distance: how much equal distances may differ
TRIANGLES = 5e6  # about so many are checked; of up to 270 points, all
PAIRS = 16  # pairs for which a callable is called in both orders
LARGEST, SMALLEST = 1e300, 1e-290  # of weights times distances


@dataclass(frozen=True)
class TriangleCheck:
    """What is known about the triangle inequality."""

    lost: str | None = None  # it does not hold, so there is no guarantee
    assumed: str | None = None  # it was not checked in full
    error: float = 0.0  # by which it may be broken


@dataclass(frozen=True)
class ValidatedPoints:
    X: Any
    space: MetricSpace
    weight: F64 | None
    triangles: TriangleCheck


def validated_points(
    X: Any,
    metric: Metric,
    k: int | None = None,
    demand: Any = None,
    sample_weight: Any = None,
    check: Callable[..., Any] = check_array,
) -> ValidatedPoints:
    """X, its space and the weights, checked; with k, also whether k medoids are possible.

    `check`: a validator of scikit-learn, for rows.
    """
    entry = metric_entry(metric)
    X = _checked(X, metric, check)
    space, triangles = entry.run(X, None), TriangleCheck(lost=entry.lost)
    if isinstance(space, CallableMetric):
        _check_callable(space)
        triangles = TriangleCheck(entry.lost, NOT_CHECKED)
    elif isinstance(space, Vectors):
        _check_range(space)
    elif isinstance(space, DistanceMatrix):
        triangles = check_triangles(space, "X", TriangleCheck(entry.lost))
    if k is not None:
        validation.enough_rows(space.n, k)
    weight = _weights(demand, sample_weight, space.n)
    _check_costs(space, weight)
    if k is not None and isinstance(space, Graph):
        _check_components(space, weight, k)
    return ValidatedPoints(X, space, weight, triangles)


def _checked(X: Any, metric: Metric, check: Callable[..., Any]) -> Any:
    needs = metric_entry(metric).needs
    if needs == OBJECTS:
        return objects(X)
    if needs == EDGES:
        return _edges(X)
    if sparse.issparse(X) and metric not in SPARSE_ROWS:
        raise ValueError(
            f"X is sparse, and metric={metric!r} takes a dense array: X.toarray(). A sparse matrix "
            "of edge lengths is metric='graph'."
        )
    X = checked_rows(X, check, sparse_allowed=metric in SPARSE_ROWS)
    if needs == DISTANCES and X.shape[0] != X.shape[1]:
        raise ValueError(
            f"metric={metric!r} needs a square matrix of distances; X has shape {X.shape}."
        )
    return X


def checked_rows(X: Any, check: Callable[..., Any], *, sparse_allowed: bool) -> Any:
    """X as a dense array, or CSR if that is allowed; `check` is a validator of scikit-learn."""
    check_sparse(X)
    with input_errors.one_line(X) as X:
        options = {**validation.row_options(X), "accept_sparse": "csr" if sparse_allowed else False}
        X = check(X, **options)
    return validation.canonical(X)


def objects(X: Any) -> Any:
    """A list of things that only the callable understands; numbers are checked as usual."""
    if sparse.issparse(X):
        raise ValueError("X is sparse, and a callable metric takes rows; use X.toarray().")
    X = host_array(X)
    if not hasattr(X, "shape"):
        return list(X)
    array = np.asarray(X)
    if array.dtype.kind not in "fiub":
        return list(array)
    return check_array(array, dtype=None, order="C", ensure_2d=False, allow_nd=True)


def _check_range(space: Vectors) -> None:
    """ValueError if distances, or their squares, leave the range of X's type."""
    X, power = space.X, {"euclidean": 2, "manhattan": 1}.get(space.metric)
    if power is None:
        return
    with np.errstate(over="ignore"):
        span = float((X.max(axis=0).astype(np.float64) - X.min(axis=0)).max())
    limits = np.finfo(X.dtype)
    low = (float(limits.tiny) * 1e6) ** (1 / power)
    high = (float(limits.max) / (1e3 * X.shape[1])) ** (1 / power)
    if 0 < span < low or not span < high:
        raise ValueError(
            f"X spreads over {span:.3g}: {space.metric} distances would leave the range of "
            f"{X.dtype}; rescale the features, e.g. with StandardScaler."
        )


def _check_callable(space: CallableMetric) -> None:
    rng = np.random.default_rng(0)
    pairs = rng.integers(space.n, size=(PAIRS, 2)) if space.n else np.empty((0, 2), int)
    pairs[::4, 1] = pairs[::4, 0]  # some points with themselves
    for pair in pairs:
        i, j = pair.tolist()
        there, back = (float(space.distances(a[:1], a[1:])[0, 0]) for a in (pair, pair[::-1]))
        if abs(there - back) > TOLERANCE * max(there, back):
            raise ValueError(
                f"metric is not symmetric: {there:.6g} from row {i} to row {j}, {back:.6g} back."
            )
        if i == j and there > 0:
            raise ValueError(f"metric returned {there:.6g} for row {i} and itself; it must be 0.")


NOT_CHECKED = (
    "that the metric obeys the triangle inequality, which was not checked: a callable is only "
    "called for the distances that are needed."
)


def check_triangles(matrix: DistanceMatrix, name: str, known: TriangleCheck) -> TriangleCheck:
    """Warn if some triangle breaks the triangle inequality; raise at any other flaw.

    `name`: of the parameter that the distances come from. `known`: before this check.
    """
    D, flaw = matrix.D, matrix.flaw(TOLERANCE, TRIANGLES)
    checked, of = matrix.n_checked(TRIANGLES), matrix.n**3
    if flaw is None:
        part = f"{checked:,} of {of:,} triangles were checked, and none breaks it."
        if checked < of:
            return replace(known, assumed=f"that {name} obeys the triangle inequality: {part}")
        return replace(known, assumed=None, error=TOLERANCE * float(D.max(initial=0.0)))
    i, j, via = flaw.i, flaw.j, flaw.via
    errors = {
        "negative": f"X[{i}, {j}] = {D[i, j]:.6g} is a negative distance.",
        "diagonal": f"X[{i}, {i}] = {D[i, i]:.6g}; a point's distance to itself must be 0.",
        "symmetry": "X is not symmetric: "
        f"X[{i}, {j}] = {D[i, j]:.6g}, X[{j}, {i}] = {D[j, i]:.6g}.",
    }
    if flaw.law in errors:
        raise ValueError(errors[flaw.law])
    validation.warn(
        f"{name} breaks the triangle inequality: {i} and {j} are {D[i, j]:.6g} apart, but "
        f"{D[i, via] + D[via, j]:.6g} by way of {via}. Medoids are found all the same, but without "
        "the guarantees of metrics."
    )
    return TriangleCheck(lost=LOST["not a metric"])


def _check_costs(space: MetricSpace, weight: F64 | None) -> None:
    """ValueError if sums of weight * distance leave the range of float64."""
    far, total = space.distance_bound(), float(space.n if weight is None else weight.sum())
    heaviest = 1.0 if weight is None else float(weight.max())
    if not far * total <= LARGEST or 0 < far * heaviest < SMALLEST:
        weights = "" if weight is None else f" and weights up to {heaviest:.3g}"
        raise ValueError(
            f"Distances up to {far:.3g}{weights} give costs outside the range of float64; rescale "
            f"{'X' if weight is None else 'X or the weights'}."
        )


def _edges(X: Any) -> Any:
    if not sparse.issparse(X):
        raise ValueError(
            f"metric='graph' needs a scipy.sparse matrix of edge lengths; got {type(X).__name__}."
        )
    if X.ndim != 2 or X.shape[0] != X.shape[1]:
        raise ValueError(f"metric='graph' needs a square matrix; X has shape {X.shape}.")
    check_sparse(X)
    A = _merged(X)
    if A.shape[0] == 0:
        raise ValueError("Found array with 0 sample(s): the graph has no nodes.")
    B = _transposed(A)
    _check_edges(A, B)
    # An edge has the same bits in both directions, even if rounding made a difference.
    if np.array_equal(A.data, B.data):
        return A
    return sparse.csr_array((np.minimum(A.data, B.data), A.indices, A.indptr), shape=A.shape)


def _merged(X: Any) -> Any:
    """X as CSR; of an edge stored several times, the shortest is kept."""
    if X.format == "csr" and X.has_canonical_format:
        return sparse.csr_array(X).astype(np.float64, copy=False)
    coo = X.tocoo()
    data, (row, column) = coo.data.astype(np.float64), (coo.row, coo.col)
    order = np.lexsort((data, column, row))
    row, column, data = row[order], column[order], data[order]
    first = np.ones(len(data), dtype=bool)
    first[1:] = (np.diff(row) != 0) | (np.diff(column) != 0)
    return sparse.csr_array((data[first], (row[first], column[first])), shape=X.shape)


def _transposed(A: Any) -> Any:
    B = sparse.csr_array(A.T)
    B.sort_indices()
    return B


def _check_edges(A: Any, B: Any) -> None:
    bad = ~np.isfinite(A.data) | (A.data < 0)
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        i = int(np.searchsorted(A.indptr, at, side="right")) - 1
        what = "negative" if A.data[at] < 0 else "not a finite number"
        raise ValueError(f"The edge from {i} to {A.indices[at]} has length {A.data[at]}: {what}.")
    # A stored zero is an edge too, so the places are compared as well as the lengths.
    stored = sparse.csr_array((np.ones(len(A.data)), A.indices, A.indptr), A.shape)
    longer = abs(A - B) > TOLERANCE * A.data.max(initial=0.0)
    for difference in ((stored != _transposed(stored)).tocoo(), longer.tocoo()):
        if difference.nnz:
            i, j = int(difference.coords[0][0]), int(difference.coords[1][0])
            raise ValueError(
                f"The graph is not symmetric: {A[i, j]:.6g} from {i} to {j}, {A[j, i]:.6g} back; "
                "store every edge both ways, e.g. X.maximum(X.T)."
            )


def _check_components(graph: Graph, weight: F64 | None, k: int) -> None:
    """ValueError if there are more than k components with demand: each needs a medoid."""
    component = graph.components()
    needed = np.unique(component if weight is None else component[weight > 0])
    if len(needed) > k:
        sizes = np.bincount(component)
        with_demand = "" if weight is None else " with demand"
        left = needed[np.argsort(-sizes[needed], kind="stable")][k]
        raise ValueError(
            f"The graph has {len(needed)} separate parts{with_demand}, but n_clusters={k}. For "
            f"example, the part with node {int(np.argmax(component == left))} ({sizes[left]} "
            f"{'node' if sizes[left] == 1 else 'nodes'}) would have no medoid. "
            f"Use n_clusters >= {len(needed)}."
        )


def _weights(demand: Any, sample_weight: Any, n: int) -> F64 | None:
    """A weight for every point from numbers of points (ints), a mask, or weights (floats)."""
    if demand is None and sample_weight is None:
        return None
    if demand is not None and sample_weight is not None:
        raise ValueError("demand and sample_weight say the same thing; give one of them.")
    name, given = ("demand", demand) if sample_weight is None else ("sample_weight", sample_weight)
    values = np.asarray(given)
    if demand is not None and values.dtype.kind in "iu":
        return _counts(values, n)
    if values.ndim == 0:
        values = np.full(n, values)
    if values.shape != (n,):
        raise ValueError(f"{name}.shape == {values.shape}, expected {(n,)}: one weight per point.")
    weight = check_array(values, dtype=np.float64, ensure_2d=False, input_name=name)
    if weight.min() < 0:
        raise ValueError(f"Negative values in data passed to `{name}`.")
    if not weight.any():
        raise ValueError(f"{name} is zero for every point; at least one must be positive.")
    if weight.max() > np.finfo(np.float64).max / (2 * n) or weight.max() < 1e-300:
        raise ValueError(f"{name} goes up to {weight.max():.3g}; divide the weights by their mean.")
    out: F64 = np.ascontiguousarray(weight)
    return out


def _counts(numbers: Ints, n: int) -> F64:
    if numbers.ndim != 1 or not numbers.size or numbers.min() < 0 or numbers.max() >= n:
        raise ValueError(f"demand should be numbers of points, 0 to {n - 1}, in one dimension.")
    counts = np.bincount(numbers, minlength=n).astype(np.float64)
    if len(numbers) == n and counts.max() > 1:
        raise ValueError(
            f"demand has {n} integers, as many as there are points. It is not clear whether they "
            "are weights or point indices. For weights use sample_weight=... or "
            "demand.astype(float)."
        )
    return counts


def given_medoids(init: Any, n: int, k: int) -> Ints:
    """Numbers of points to start from."""
    chosen = np.asarray(init)
    if chosen.dtype.kind not in "iu" or chosen.shape != (k,):
        raise ValueError(
            f"init should be the numbers of {k} points; got {chosen.dtype} of shape {chosen.shape}."
        )
    if len(np.unique(chosen)) < k or chosen.min() < 0 or chosen.max() >= n:
        raise ValueError(f"init should be {k} different numbers of points, 0 to {n - 1}.")
    return chosen.astype(np.int64)
