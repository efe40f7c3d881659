"""The interface of a distortion, and what the distortions of this room share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cache
from typing import Any, ClassVar

import numpy as np
import scipy
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from kvariates.data.rows import F64, Labels, Rows

MIX = 1e-3  # share of the mean in a centre that is seeded at a row with zeros
CHUNK = 2**17  # values handled at a time, so that they stay in the cache
SMALLEST, LARGEST = 1e-100, 1e100  # quotients and squares of these are in range


class Distortion(ABC):
    """A divergence D(x, c), and the centre that minimises a weighted sum of it.

    `check`, `fitted` and `seed` take rows as the user gave them; the others take prepared rows.
    `prepare` does work that is needed once (whitening, float64); `restore` maps centres back.
    """

    name: ClassVar[str]
    positive: ClassVar[bool] = False  # zeros are not allowed
    takes_csr: ClassVar[bool] = False
    mean_is_best: ClassVar[bool] = False  # the weighted mean is the best centre

    @abstractmethod
    def nearest(self, X: Any, centers: F64) -> tuple[Labels, F64]:
        """The index of the nearest centre (the lowest of equal ones) and D to it."""

    @abstractmethod
    def _divergence(self, X: Any, center: F64) -> F64:
        """`divergence` of a part of the rows."""

    def center(self, X: Any, weight: F64 | None, start: F64 | None = None) -> F64:
        """The centre of least weighted sum of D, never more than at `start`. Pre: sum(w) > 0."""
        return mean_row(X, weight)

    def check(self, X: Any) -> None:
        """ValueError if D is not defined for some row."""
        if not self.takes_csr:
            check_dense(self.name, X)
        values = X.data if scipy.sparse.issparse(X) else X
        sign, hint = (">", "add a small constant") if self.positive else (">=", "shift X")
        wrong = values <= 0 if self.positive else values < 0
        if np.any(wrong):
            raise ValueError(
                f"distortion={self.name!r} needs values {sign} 0, but {first(X, wrong)}; "
                f"drop such rows, {hint}, or use another distortion."
            )
        if X.dtype == np.float32:
            return
        extreme = (values > LARGEST) | ((values < SMALLEST) & (values > 0))
        if np.any(extreme):
            raise ValueError(
                f"distortion={self.name!r} needs positive values from {SMALLEST:g} to {LARGEST:g}, "
                f"or float64 cannot hold their quotients, but {first(X, extreme)}; rescale X."
            )

    def fitted(self, X: Any, weight: F64 | None) -> Distortion:
        """The same distortion with parameters estimated from the data. Pre: `check` has passed."""
        return self

    def seed(self, X: Any, rows: NDArray[np.int64]) -> F64:
        """Picked rows as centres, changed where some row would be infinitely far from them."""
        return Rows.of(X).take(rows)

    def prepare(self, X: Any) -> Any:
        return X.astype(np.float64, copy=False)

    def restore(self, centers: F64) -> F64:
        return centers

    def divergence(self, X: Any, center: F64) -> F64:
        """D of every row to the centre, or to its own one if `center` has as many rows as X."""
        out = np.empty(X.shape[0])
        for part in parts(X.shape):
            out[part] = self._divergence(X[part], center[part] if center.ndim > 1 else center)
        return out


def mean_row(X: Any, weight: F64 | None) -> F64:
    """The weighted mean, in row order. Pre: float64; not all weights are zero."""
    return sum_rows(X, weight) / (float(X.shape[0]) if weight is None else weight.sum())


def sum_rows(X: Any, weight: F64 | None) -> F64:
    """The weighted sum, in row order. Pre: float64."""
    if scipy.sparse.issparse(X):
        return np.asarray(X.T @ (np.ones(X.shape[0]) if weight is None else weight)).ravel()
    return np.asarray((X if weight is None else X * weight[:, None]).sum(axis=0))


def parts(shape: tuple[int, int]) -> Iterator[slice]:
    """Slices of the rows, each about CHUNK values if a row has shape[1]."""
    step = max(1, CHUNK // max(1, shape[1]))
    for begin in range(0, shape[0], step):
        yield slice(begin, begin + step)


@cache
def _pools() -> ThreadpoolController:
    return ThreadpoolController()


def one_thread() -> Any:
    """Run BLAS on one thread, so that results do not depend on its number of threads.

    For thin products this is faster too: starting threads takes longer than the product.
    """
    return _pools().limit(limits=1, user_api="blas")


def check_dense(name: str, X: Any) -> None:
    """ValueError for sparse rows."""
    if scipy.sparse.issparse(X):
        raise ValueError(f"distortion={name!r} takes dense rows only; give X.toarray().")


def first(X: Any, wrong: NDArray[np.bool_]) -> str:
    """The place and the value of the first wrong value, in words."""
    place = int(np.argmax(wrong))
    if scipy.sparse.issparse(X):
        row = int(np.searchsorted(X.indptr, place, side="right")) - 1
        column, value = int(X.indices[place]), X.data[place]
    else:
        row, column = divmod(place, X.shape[1])
        value = X[row, column]
    return f"row {row}, column {column} is {value}"
