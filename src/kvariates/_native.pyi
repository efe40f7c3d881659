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

class Hits:
    def __init__(self) -> None: ...

def instruction_sets() -> list[str]: ...
def instruction_set() -> str: ...
def dense(x: Float) -> Rows: ...
def csr(data: Float, indices: NDArray[np.int32], indptr: I64, n_features: int) -> Rows: ...
def assign(rows: Rows, centers: Float, labels: Labels) -> tuple[int, int]: ...
def assign_hamerly(
    rows: Rows,
    centers: Float,
    moved: F32 | None,
    labels: Labels,
    upper: F32,
    lower: F32,
    tighten: bool,
) -> tuple[int, int]: ...
def assign_elkan(
    rows: Rows,
    centers: Float,
    moved: F32 | None,
    drift: F32,
    labels: Labels,
    upper: F32,
    lower: F32,
) -> tuple[int, int]: ...
def update(
    rows: Rows,
    weight: F64 | None,
    before: Labels,
    labels: Labels,
    afresh: bool,
    sum: F64,
    total: F64,
    count: I64,
) -> None: ...
def own_cost(rows: Rows, centers: Float, labels: Labels, cost: F64) -> None: ...
def distances(rows: Rows, centers: Float, squared: bool, out: Float) -> None: ...
def spread(rows: Rows) -> float: ...
def absorb(
    rows: Rows,
    fresh: Float,
    first: int,
    limit: F64 | None,
    cost: F64,
    nearest: Labels,
    weight: F64 | None,
    sums: F64,
) -> None: ...
def gains(
    rows: Rows,
    candidates: Float,
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
    fresh: Float,
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
    pending: Float,
    first: int,
    cost: F64,
    nearest: Labels,
    weight: F64 | None,
    sums: F64,
    uniforms: F64,
) -> tuple[int, int]: ...
