"""Lower bounds on the cost of any k centres, from the dual of a semidefinite relaxation.

Let D_ij be squared distances and w_i weights. Give every point i a price a_i, and let

    A_ij = sqrt(w_i w_j) (a_i + a_j - D_ij) / 2.

**Theorem.** For any prices a and any symmetric matrix H with H_ij >= A_ij for all i and j, no k
centres cost less than

    L(a, H) = sum_i w_i a_i - (sum of the k largest eigenvalues of H, negative ones left out).

*Proof.* The best centres are the means of a partition into at most k clusters. For a cluster S of
weight w(S) let u_S be the vector with entries sqrt(w_i / w(S)) on S and 0 elsewhere. The cost of S
is sum_{i,j in S} w_i w_j D_ij / (2 w(S)), so u_S' A u_S = (sum_{i in S} w_i a_i) - cost(S). As
u_S >= 0, u_S' H u_S is not smaller. The u_S are orthonormal, so their u_S' H u_S sum up to at most
the k largest eigenvalues (Ky Fan). Hence the sum of all cost(S) is at least L(a, H).

If every point may also be left out for a price r_i >= a_i, the theorem holds as well: a point that
is left out costs r_i, which is at least the a_i that the sum of prices counts for it.

The largest L(a, H) is the value of the relaxation of Peng and Wei (2007). A solver that stops early
(`certificates.kmeans_relaxation`) gives a weaker bound, never a wrong one: `lower_bound` computes
L(a, H) from distances and eigenvalues and subtracts a bound on all rounding errors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from kvariates.data.rows import F64, Rows

ROUNDING = 2.0**-53


@dataclass(frozen=True, eq=False)
class WeightedDistances:
    """A small set of points: weights and squared distances between all pairs."""

    weight: F64
    D: F64  # no entry is larger than the exact squared distance

    @classmethod
    def of(cls, X: Any, weight: F64) -> WeightedDistances:
        """The points are the rows of a dense float64 array.

        A squared distance is a sum of d squares of rounded differences, so its relative error is at
        most (d + 2) roundings; lowering it by more than that makes it too small, which is safe.
        """
        rows = Rows.of(np.ascontiguousarray(X, dtype=np.float64))
        D = rows.distances(rows.X, squared=True)
        return cls(weight, D * (1 - 2 * (rows.d + 4) * ROUNDING))

    @property
    def root(self) -> F64:
        return np.sqrt(self.weight)


def lower_bound(points: WeightedDistances, k: int, price: F64, H: F64) -> float:
    """L(price, H) minus a bound on its rounding error; entries of H that are too small are raised.

    The eigenvalues of a symmetric solver are those of a matrix within a small multiple of n
    roundings of H; 16 n is far more than LAPACK needs.
    """
    n, root = len(price), points.root
    pairs = np.multiply.outer(root, root)
    sizes = np.abs(price)[:, None] + np.abs(price) + points.D
    least = pairs * (0.5 * (price[:, None] + price - points.D) + 8 * ROUNDING * sizes)
    raised = np.maximum(0.5 * (H + H.T), least)
    top = np.linalg.eigvalsh(raised)[max(0, n - k) :]
    offered = points.weight * price
    largest = float(np.abs(raised).max()) or 1.0
    norm = largest * float(np.linalg.norm(raised / largest))  # squares may overflow
    error = ROUNDING * (16.0 * n * len(top) * norm + 8 * math.fsum(np.abs(offered)))
    return math.fsum(offered) - math.fsum(np.maximum(top, 0.0)) - error
