"""Rows on a GPU: which card a call runs on, the checks of arrays there, and how results are given.

| `device` | X in host memory | X on a GPU |
|---|---|---|
| "auto" | processors | its card |
| "cpu" | processors | refused |
| "cuda" | card 0, to which X is copied | its card |
| "cuda:1" | card 1, to which X is copied | refused, unless it is on card 1 |

Blocks are in host memory: they pass through the card.

Everything follows X: results about an array of CuPy or PyTorch are arrays of that library on the
same card. Rows are checked and converted by kernels and by their library, on the card: none but the
first one that holds NaN or infinity is read in host memory. Weights and first centres are.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kvariates.cuda.card import CardArray, card_of
from kvariates.cuda.rows import CardRows
from kvariates.data.block_data import BlockData
from kvariates.data.blocks import SourceBlocks
from kvariates.data.host_data import Offers
from kvariates.data.rows import F64, OVERFLOW, Floats, Labels, Numbers, Rows
from kvariates.estimators.array_input import (
    check_no_gradient,
    copied,
    dtype_name,
    gpu_of,
    row_type_name,
)
from kvariates.estimators.input_errors import FILL, refuse_kind, wrong_shape
from kvariates.estimators.validation import weights
from kvariates.objectives.objective import Objective, SquaredEuclidean

ROW_TYPES = ("float16", "float32", "float64")  # that kernels read
SAFE = 1e100  # squares of smaller values can be added up in float64
ON_CPU = "On the CPU it works: device='cpu', with X in host memory."


def card_for(device: str, X: Any) -> Any:
    """The card on which a call about X runs, opened; None: the processors."""
    if type(X) is np.ndarray and device in ("auto", "cpu"):
        return None
    number, kind = gpu_of(X), type(X).__name__
    if number is None and device in ("auto", "cpu"):
        return None
    if device == "cpu":
        raise TypeError(
            f"X is a {kind} in the memory of a GPU; {copied('X')}, or set device='auto'."
        )
    if sparse.issparse(X):
        raise TypeError(
            f"X is a sparse {kind}, and kernels for a GPU read dense rows. Set device='cpu', or "
            "give X.toarray()."
        )
    asked = int(device.removeprefix("cuda:")) if ":" in device else None
    if number is None:
        return card_of(asked or 0)
    library_of(X)
    if asked not in (None, number):
        raise ValueError(
            f"X is on cuda:{number}, but device={device!r}. Set device='auto', or move X."
        )
    return card_of(number)


# ---- Libraries of arrays -------------------------------------------------------------------------


class Library(Protocol):
    """A library of arrays on GPUs. Types have the names that NumPy gives them."""

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        """An array in C order of any values, beside the one for which the library was found."""

    def converted(self, X: Any, dtype: str) -> Any: ...
    def in_c_order(self, X: Any) -> Any: ...
    def on_host(self, X: Any) -> NDArray[Any]: ...


@dataclass(frozen=True, eq=False)
class PyTorch:
    torch: Any
    device: Any

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        return self.torch.empty(shape, dtype=getattr(self.torch, dtype), device=self.device)

    def converted(self, X: Any, dtype: str) -> Any:
        return X.to(getattr(self.torch, dtype))

    def in_c_order(self, X: Any) -> Any:
        return X.contiguous()

    def on_host(self, X: Any) -> NDArray[Any]:
        widened = X.float() if dtype_name(X) == "bfloat16" else X
        return np.asarray(widened.cpu().numpy())


@dataclass(frozen=True, eq=False)
class CuPy:
    cupy: Any
    device: Any

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        with self.device:
            return self.cupy.empty(shape, dtype)

    def converted(self, X: Any, dtype: str) -> Any:
        with self.device:
            return X.astype(dtype)

    def in_c_order(self, X: Any) -> Any:
        with self.device:
            return self.cupy.ascontiguousarray(X)

    def on_host(self, X: Any) -> NDArray[Any]:
        return np.asarray(X.get())


@dataclass(frozen=True, eq=False)
class ArrayApi:
    """Any library with the array API, of which the order of values in memory is not known."""

    xp: Any
    device: Any

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        return self.xp.empty(shape, dtype=getattr(self.xp, dtype), device=self.device)

    def converted(self, X: Any, dtype: str) -> Any:
        return self.xp.astype(X, getattr(self.xp, dtype))

    def in_c_order(self, X: Any) -> Any:
        return self.xp.reshape(self.xp.reshape(X, (-1,), copy=True), X.shape)

    def on_host(self, X: Any) -> NDArray[Any]:
        return np.from_dlpack(X, device="cpu")


def library_of(X: Any) -> Library:
    """The library of an array on a GPU; TypeError if results cannot be made as its arrays."""
    name = type(X).__module__.split(".", maxsplit=1)[0]
    if name == "torch" and str(X.layout) == "torch.strided":
        return PyTorch(sys.modules["torch"], X.device)
    if name == "cupy":
        return CuPy(sys.modules["cupy"], X.device)
    # Arrays of JAX cannot be written, so no kernel can write results into one.
    if name not in ("torch", "jax", "jaxlib") and hasattr(X, "__array_namespace__"):
        return ArrayApi(X.__array_namespace__(), X.device)
    raise TypeError(
        f"X is a {type(X).__name__} on a GPU; give a dense array of CuPy or PyTorch, e.g. "
        "cupy.from_dlpack(X) or torch.from_dlpack(X)."
    )


def host_copy(values: Any, name: str = "X") -> Any:
    """A NumPy array, if `values` are on a GPU; anything else as it is. `name`: for messages."""
    if gpu_of(values) is None:
        return values
    check_no_gradient(values, name)
    return library_of(values).on_host(values)


# ---- Rows ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class UserRows:
    """The rows that the user gave, checked and on a card.

    X: as it is handed to functions of the user, converted. library: None if X is in host memory.
    """

    X: Any
    rows: CardRows
    library: Library | None

    @classmethod
    def of_host(cls, X: NDArray[Any], card: Any) -> UserRows:
        """A copy of rows that scikit-learn's validators have seen."""
        readable = X.dtype.name in ROW_TYPES  # not int8, uint8 and bfloat16
        return cls(X, CardRows(card, card.put(X if readable else X.astype(np.float32))), None)

    @classmethod
    def of_card(cls, X: Any, card: Any, *, small: bool) -> UserRows:
        """Of an array on this card, after `check_table`. `small`: float16 may stay as it is.

        ValueError for NaN or infinity.
        """
        library, given = library_of(X), dtype_name(X)
        wanted = given if small and given == "float16" else row_type_name(given)
        if given != wanted:
            X = library.converted(X, wanted)
        X = library.in_c_order(X)
        rows = CardRows(card, card.view(X))
        if rows.bad_row is not None:
            raise ValueError(_not_finite(rows.X, rows.bad_row))
        return cls(X, rows, library)

    @property
    def n(self) -> int:
        return self.rows.n

    def weights(self, sample_weight: Any) -> F64 | None:
        """As `validation.weights`, also of an array on this card; ValueError if on another."""
        number, own = gpu_of(sample_weight), self.rows.card.number
        if number not in (None, own):
            raise ValueError(
                f"sample_weight is on cuda:{number}, but X is on cuda:{own}. Move one of them."
            )
        # Only the number of rows is asked for: zeros of this shape take no memory.
        stand_in = np.broadcast_to(0.0, (self.n, 1))
        return weights(host_copy(sample_weight, "sample_weight"), stand_in)

    def data(self, objective: Objective, weight: F64 | None) -> Any:
        """As data of a fit, in the objective's coordinates."""
        from kvariates.cuda.data import CudaData  # most fits are on no card

        return CudaData.of(self.coordinates(objective), weight)

    def coordinates(self, objective: Objective) -> CardRows:
        """The rows in the objective's coordinates; ValueError for a row without a direction."""
        if not objective.unit:
            return self.rows
        scaled, zeros = self.rows.unit()
        if zeros is not None:
            raise ValueError(
                f"metric='cosine' needs rows that are not all zeros; row {zeros} is. Drop such "
                "rows."
            )
        return scaled

    def results(self, values: CardArray | NDArray[Any], *, on_host: bool = False) -> Any:
        """As an array of X's library, on X's card; `on_host`: as a NumPy array."""
        if self.library is None or on_host:
            return values if isinstance(values, np.ndarray) else values.get()
        card, out = self.rows.card, self.library.empty(values.shape, values.dtype.name)
        view = card.view(out)
        if isinstance(values, np.ndarray):
            view.put(values)
        else:
            card.copy(values, view)
        card.wait()  # the library has a stream of its own
        return out


@dataclass(frozen=True, eq=False)
class OnCard:
    """An objective about blocks of rows in host memory, for which a card works, and host results.

    Pre: it has kernels.
    """

    objective: Any
    card: Any

    def rows(self, X: Any, numbers: Numbers = 0) -> Rows:
        if sparse.issparse(X):
            raise TypeError(f"the rows are sparse, and kernels for a GPU read dense rows. {ON_CPU}")
        rows: Rows = self.objective.rows(X, numbers)
        return rows

    def nearest(self, rows: Rows, centers: Floats) -> Labels:
        labels: Labels = nearest_on_card(self._put(rows), _in_float64(centers)).get()
        return labels

    def costs(self, rows: Rows, centers: F64, labels: Labels) -> F64:
        card = self.card
        cost: F64 = self._put(rows).costs(card.put(_in_float64(centers)), card.put(labels)).get()
        return cost / 2 if self.objective.unit else cost

    def distances(self, rows: Rows, centers: Floats) -> Floats:
        unit, given = self.objective.unit, self.card.put(_in_float64(centers))
        found: Floats = self._put(rows).distances(given, squared=unit).get()
        return found / 2 if unit else found

    def _put(self, rows: Rows) -> CardRows:
        return CardRows(self.card, self.card.put(rows.X))


def _in_float64(centers: Floats) -> F64:
    return np.ascontiguousarray(centers, dtype=np.float64)


def nearest_on_card(rows: CardRows, centers: F64) -> CardArray:
    """The nearest centre of every row."""
    from kvariates.cuda.data import labels_of

    return labels_of(rows, centers)


def check_squares(rows: CardRows) -> None:
    """As `Rows.check_squares`."""
    if rows.magnitudes[0] < SAFE:
        return
    origin = rows.card.zeros((1, rows.d), np.float64)
    if not np.isfinite(rows.total_cost(rows.costs(origin, None), None)):
        raise ValueError(OVERFLOW)


def blocks_on_card(card: Any, data: BlockData, blocks: Any, objective: Objective) -> BlockData:
    """The same data, on a card. `blocks`: the `InspectedBlocks` that were read for it."""
    from kvariates.cuda.block_data import CardBlockData

    return CardBlockData.of(card, data, blocks, unit=objective.unit)


def inspected(source: SourceBlocks) -> SourceBlocks:
    """Blocks for `blocks_on_card`."""
    from kvariates.cuda.row_stream import InspectedBlocks

    return InspectedBlocks(source)


def offers_of_card() -> Offers:
    """What rows on a card offer to seedings."""
    from kvariates.cuda.data import CudaData

    return CudaData.offers


def has_kernels(objective: Objective) -> bool:
    """Whether a card can work under this objective."""
    return isinstance(objective, SquaredEuclidean) and objective.whitened is None


def check_table(X: Any, name: str) -> None:
    """TypeError or ValueError unless an array on a GPU is a table of real numbers.

    The words are those of scikit-learn's validators, which would copy it to host memory. `name`: of
    the estimator.
    """
    refuse_kind(X)
    check_no_gradient(X, "X")
    shape, dtype = tuple(X.shape), dtype_name(X)
    if dtype.startswith("complex"):
        raise ValueError(f"Complex data not supported: X has dtype {dtype}; give real numbers.")
    if row_type_name(dtype) not in ROW_TYPES:
        raise TypeError(f"X has dtype {dtype}; give float16, float32, float64 or integers.")
    if len(shape) != 2:
        raise ValueError(wrong_shape(X))
    for size, what in zip(shape, ("sample", "feature"), strict=True):
        if size == 0:
            raise ValueError(
                f"Found array with 0 {what}(s) (shape={shape}) while a minimum of 1 is required by "
                f"{name}."
            )


def _not_finite(rows: CardArray, bad: int) -> str:
    values = rows.part(bad, bad + 1).get().ravel()
    column = int(np.flatnonzero(~np.isfinite(values))[0])
    what = f"infinity or a value too large for {rows.dtype!r}"
    what = "NaN" if np.isnan(values[column]) else what
    return f"Input X contains {what}, first in row {bad}, column {column}. {FILL}"
