"""Lloyd's loop under any distortion: label every row, move every centre to its rows' minimiser.

Neither half of a step raises the weighted sum of divergences, so the loop ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kvariates.data.rows import F64, Floats, Labels, total_cost
from kvariates.objectives.distortion import Distortion
from kvariates.refining.lloyd import LloydResult, Step, movement


def refine_distorted(
    X: Any,
    centers: F64,
    weight: F64 | None,
    distortion: Distortion,
    *,
    max_iter: int,
    tol: float,
    on_step: Callable[[Step], bool] | None = None,
) -> LloydResult:
    """Iterate until nothing changes, or not enough, or too often, as `lloyd.refine` does.

    Pre: the distortion has checked X and is fitted; weight is None or float64, not all zero.
    """
    rows, here = distortion.prepare(X), distortion.prepare(centers)
    labels = np.full(X.shape[0], -1, dtype=np.int32)
    converged = False
    for iteration in range(max_iter):
        fresh, cost = distortion.nearest(rows, here)
        changed = int(np.count_nonzero(fresh != labels))
        labels, converged = fresh, changed == 0
        before, shift = distortion.restore(here), 0.0
        if not converged:
            here = moved(rows, here, labels, cost, weight, distortion)
            shift = movement(before, distortion.restore(here))[1]
        stop = on_step is not None and on_step(Step(iteration, before, labels, changed, shift))
        if converged or stop or shift <= tol:
            break
    # The centres are handed out in the rows' dtype, and the labels are those of what is handed out.
    rounded = in_dtype(distortion.restore(here), X.dtype)
    labels, cost = distortion.nearest(rows, distortion.prepare(rounded.astype(np.float64)))
    inertia = total_cost(counted(cost, weight), weight)
    return LloydResult(rounded, labels, inertia, iteration + 1, converged)


def moved(
    rows: Any, here: F64, labels: Labels, cost: F64, weight: F64 | None, distortion: Distortion
) -> F64:
    """The best centres of these labels, clusters without weight filled first."""
    k = len(here)
    labels = filled(labels, counted(cost, weight), weight, k)
    order = np.argsort(labels, kind="stable")
    ends = np.searchsorted(labels[order], np.arange(k + 1))
    out = here.copy()
    for j in range(k):
        own = order[ends[j] : ends[j + 1]]
        own_weight = None if weight is None else weight[own]
        if len(own) and (own_weight is None or own_weight.any()):
            out[j] = distortion.center(rows[own], own_weight, here[j])
    return out


def filled(labels: Labels, cost: F64, weight: F64 | None, k: int) -> Labels:
    """Labels in which an empty cluster has one of the rows of largest weighted divergence.

    A row that is the only one of its cluster stays: moving it would leave another one empty.
    """
    share = cost if weight is None else cost * weight
    rows = np.bincount(labels if weight is None else labels[weight > 0], minlength=k)
    empty = np.flatnonzero(rows == 0)
    if not len(empty):
        return labels
    labels, cluster = labels.copy(), 0
    for row in np.argsort(-share, kind="stable"):
        if cluster == len(empty) or share[row] == 0:
            break  # or only copies of centres are left
        if rows[labels[row]] > 1:
            rows[labels[row]] -= 1
            labels[row] = empty[cluster]
            cluster += 1
    return labels


def counted(cost: F64, weight: F64 | None) -> F64:
    """0 where the weight is: such a row may be infinitely far from all centres."""
    return cost if weight is None else np.where(weight > 0, cost, 0.0)


def in_dtype(centers: F64, dtype: np.dtype[Any]) -> Floats:
    """Rounded, but nothing to zero: a KL centre's zero is infinitely far from mass there."""
    rounded = centers.astype(dtype)
    lost = (rounded == 0) & (centers != 0)
    rounded[lost] = np.copysign(np.finfo(dtype).smallest_subnormal, centers[lost])
    return rounded
