"""Batches of rows for the estimators of streams: where they come from, and their checks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import validate_data

from kvariates.data.blocks import Block, SourceBlocks
from kvariates.data.rows import F64, Floats, Numbers, check_sparse
from kvariates.estimators import input_errors, validation
from kvariates.objectives.objective import Objective, objective_for

BATCH = 2**16  # rows of a batch that is cut from an array


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows that were checked. `dropped`: how many were left out; `numbers`: of these rows."""

    X: Floats
    weight: F64 | None
    dropped: int
    numbers: Numbers = 0


def checked_batch(model: Any, X: Any, sample_weight: Any, dtype: Any, missing: str) -> Batch:
    """The batch as float32 or float64, dense or CSR.

    Pre: `dtype` is that of the first batch, or None if this is the first one.
    """
    numbers: Numbers = 0
    if isinstance(X, Block):
        numbers, sample_weight = X.row_numbers, X.weight if sample_weight is None else sample_weight
        X = X.X
    check_sparse(X)
    options: dict[str, Any] = {"ensure_min_samples": 0, "ensure_all_finite": missing == "error"}
    options |= {} if dtype is None else {"dtype": dtype}
    # What float32 cannot hold becomes infinite, and is refused.
    with np.errstate(all="ignore"), input_errors.one_line(X):
        options = {**validation.row_options(X), **options}
        X = validate_data(model, X, reset=dtype is None, **options)
    X = validation.canonical(X)
    if X.shape[0] == 0:
        return Batch(X, None, 0)
    weight = validation.weights(sample_weight, X)
    finite = np.ones(X.shape[0], dtype=bool) if missing == "error" else _finite_rows(X)
    if finite.all():
        return Batch(X, weight, 0, numbers)
    dropped = int(np.count_nonzero(~finite))
    if dropped == X.shape[0]:
        return Batch(X[:0], None, dropped)
    kept = None if weight is None else validation.weights(weight[finite], X[finite])
    left = np.arange(len(finite)) + numbers if isinstance(numbers, int) else numbers
    return Batch(X[finite], kept, dropped, left[finite])


def objective_of(model: Any, *, begun: bool) -> Objective:
    """That of the `metric` of a model; ValueError if it was changed in the middle of a stream."""
    objective = objective_for(model.metric, None, None, None)
    if begun and objective != model._objective:
        raise ValueError(
            f"{objective.name} was set, but the stream began with {model._objective.name}. Set it "
            "back, or begin a new stream with fit."
        )
    return objective


def _finite_rows(X: Any) -> NDArray[np.bool_]:
    if not sparse.issparse(X):
        return np.asarray(np.isfinite(X).all(axis=1))
    finite = np.ones(X.shape[0], dtype=bool)
    row_of = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    finite[row_of[~np.isfinite(X.data)]] = False
    return finite


def batches_of(X: Any, sample_weight: Any) -> Iterator[tuple[Any, Any]]:
    """Pairs of rows and weights, from all that `fit` accepts.

    A matrix or a table is cut into batches. Blocks of a source have their own weights. Anything
    else is an iterable of batches.
    """
    if isinstance(X, str | PathLike) or hasattr(X, "collect_batches"):
        raise TypeError(f"X is a {type(X).__name__}; give kvariates.sources.blocks(X).")
    if X is None or np.isscalar(X) or isinstance(X, dict | set | frozenset):
        input_errors.refuse_kind(X)
    if isinstance(X, SourceBlocks):
        validation.no_weights(sample_weight)
        yield from ((block, None) for block in X)
    elif is_table(X):
        X = X if hasattr(X, "shape") else np.asarray(X)
        if len(X.shape) == 0:
            yield X, None  # is refused as a batch
            return
        if sparse.issparse(X):
            check_sparse(X)
            X = X.tocsr()
        weight = None if X.shape[0] == 0 else validation.weights(sample_weight, X)
        for first in range(0, max(1, X.shape[0]), BATCH):
            part = slice(first, first + BATCH)
            rows = X.iloc[part] if hasattr(X, "iloc") else X[part]
            if weight is None or weight[part].any():
                yield Block(rows, None if weight is None else weight[part], first), None
    else:
        instead = "partial_fit(batch, sample_weight=...) for every batch"
        validation.no_weights(sample_weight, instead)
        yield from ((batch, None) for batch in X)


def is_table(X: Any) -> bool:
    """Whether X is one table of rows, and not an iterable of tables."""
    if isinstance(X, list | tuple):
        return len(X) > 0 and np.ndim(X[0]) <= 1
    if isinstance(X, str | PathLike):
        return False
    # What cannot be iterated is no iterable of tables either; the validators will refuse it.
    return hasattr(X, "shape") or hasattr(X, "__array__") or not isinstance(X, Iterable)


def check_layout(X: Any, is_sparse: bool) -> None:
    """ValueError unless X is sparse or dense as the batches before."""
    kinds = ("dense", "sparse")
    if sparse.issparse(X) != is_sparse:
        raise ValueError(
            f"The batch is {kinds[not is_sparse]}, but those before are {kinds[is_sparse]}; "
            "convert it."
        )


def check_alike(model: Any, other: Any, names: tuple[str, ...]) -> None:
    """ValueError unless these attributes of both models are equal."""
    for name in names:
        here, there = (
            value.tolist() if isinstance(value, np.ndarray) else value
            for value in (getattr(either, name, None) for either in (model, other))
        )
        if here != there:
            raise ValueError(
                f"{name.lstrip('_')} is {here!r} here and {there!r} in the other model; only "
                "models with the same summary can be merged."
            )


@contextmanager
def keeping_rows_seen(model: Any) -> Iterator[None]:
    """If a fit fails in the middle of a stream, the model keeps its rows, and the error says so.

    If there are none, the model is as it was before.
    """
    before = dict(model.__dict__)
    try:
        yield
    except BaseException as error:
        if rows := model._rows_seen:
            error.add_note(f"{rows:,} rows were read before; the model has kept them.")
        else:
            model.__dict__ = before
        raise
