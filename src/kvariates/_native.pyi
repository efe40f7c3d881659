"""What native/bind.cpp offers. Arrays are C-contiguous; lengths are checked, meaning is not."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Float = NDArray[Any]  # float32 or float64
F64 = NDArray[np.float64]
F32 = NDArray[np.float32]
I64 = NDArray[np.int64]
Labels = NDArray[np.int32]

DRAW: int

class Rows:
    @property
    def n(self) -> int: ...
    @property
    def d(self) -> int: ...

class Shadow: ...

class Changes:
    def __init__(self) -> None: ...
    @property
    def lost(self) -> bool: ...

class Hits:
    def __init__(self) -> None: ...
    @property
    def vain(self) -> int: ...

def instruction_sets() -> list[str]: ...
def instruction_set() -> str: ...
def dense(x: Float) -> Rows: ...
def csr(data: Float, indices: NDArray[np.int32], indptr: I64, n_features: int) -> Rows: ...
def assign(
    rows: Rows, centers: F64, labels: Labels, changes: Changes | None = None, step: float = 0.0
) -> tuple[int, float]:
    """How many labels changed, and the share that would stay if all centres moved by `step`."""

def assign_hamerly(
    rows: Rows,
    centers: F64,
    moved: F32 | None,
    labels: Labels,
    upper: F32,
    lower: F32,
    tighten: bool,
    changes: Changes | None,
) -> tuple[int, int]: ...
def assign_elkan(
    rows: Rows,
    centers: F64,
    moved: F32 | None,
    drift: F32,
    labels: Labels,
    upper: F32,
    lower: F32,
    changes: Changes | None,
) -> tuple[int, int]: ...
def two_nearest(
    rows: Rows, centers: F64, labels: Labels, second: Labels, cost: F64, second_cost: F64
) -> None: ...
def hartigan(
    rows: Rows,
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
    rows: Rows,
    centers: F64,
    group: NDArray[np.int32],  # (k,): which of sixteen groups each centre is in
    moved: F32 | None,
    labels: Labels,
    upper: F32,
    lower: F32,  # (n, 16): one for each group
    changes: Changes | None,
) -> tuple[int, int]: ...
def update(
    rows: Rows,
    weight: F64 | None,
    labels: Labels,
    changes: Changes | None,
    sum: F64,  # (2, k, d): sums, and what rounding took from them
    total: F64,  # (2, k): weights, likewise
    count: I64,
) -> None: ...
def own_cost(rows: Rows, centers: F64, labels: Labels, cost: F64) -> None: ...
def distances(rows: Rows, centers: F64, squared: bool, out: Float) -> None: ...
def spread(rows: Rows) -> float: ...
def absorb(
    rows: Rows,
    fresh: F64,
    first: int,
    limit: F64 | None,
    cost: F64,
    nearest: Labels,
    weight: F64 | None,
    sums: F64,
) -> None: ...
def shadow(rows: Rows, cost: F64) -> Shadow | None: ...
def gains(
    rows: Rows,
    shadow: Shadow | None,
    candidates: F64,
    limit: F64 | None,
    cost: F64,
    nearest: Labels,
    weight: F64 | None,
    sums: F64,
    gain: F64,
    hits: Hits,
) -> None: ...
def adopt(
    rows: Rows,
    shadow: Shadow | None,
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
    rows: Rows,
    pending: F64,
    first: int,
    cost: F64,
    nearest: Labels,
    weight: F64 | None,
    sums: F64,
    uniforms: F64,
) -> tuple[int, int]: ...
