"""Batches of rows: where they come from, their checks, and what estimators of streams share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import validate_data

from kvariates.data.blocks import Block, SourceBlocks
from kvariates.data.rows import F64, Floats, Numbers, check_sparse
from kvariates.estimators import input_errors, validation
from kvariates.estimators.array_input import host_array
from kvariates.estimators.fit_record import FitRecord
from kvariates.estimators.fitted_centers import CentersOfRows
from kvariates.estimators.validation import KMeansMetric, MissingRows
from kvariates.objectives.objective import objective_for
from kvariates.progress import Progress, Report

BATCH = 2**16  # rows of a batch that is cut from an array


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows that were checked. `dropped`: how many were left out."""

    X: Floats
    weight: F64 | None
    dropped: int = 0


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
        X = host_array(X)
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


class LearnsFromBatches(CentersOfRows):
    """An estimator that takes in one batch of rows after the other."""

    metric: KMeansMetric
    missing: MissingRows
    n_rows_dropped_: int
    _state: Any = None  # of the stream; None before the first batch
    _solution: Any = None  # of what was asked since the last batch
    _dtype: np.dtype[Any]  # of all batches
    _is_sparse: bool  # all batches

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Take in one batch of rows. A batch without rows changes nothing.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : ignored
        sample_weight : array-like of shape (n_samples,), default=None
            A row of weight w counts as w rows.

        Returns
        -------
        self
        """
        self._validate_params()
        self._take_in(X, sample_weight)
        return self

    @abstractmethod
    def _take_in(self, X: Any, sample_weight: Any) -> None:
        """One batch, all or nothing."""

    def _take_in_all(self, batches: Iterable[tuple[Any, Any]], report: Report | None) -> None:
        """Batches and their weights."""
        for number, (batch, weight) in enumerate(batches, 1):
            self._take_in(batch, weight)
            self._tell(report, "rows after batch", number)

    def _tell(self, report: Report | None, what: str, number: int) -> None:
        if report is not None:
            report(Progress(what, number, self._rows_seen))

    @property
    @abstractmethod
    def _rows_seen(self) -> int: ...

    @property
    def _rows_dropped(self) -> int:
        """Rows can be dropped before one is kept."""
        return int(vars(self).get("n_rows_dropped_", 0))

    def _checked(self, X: Any, sample_weight: Any, *, begun: bool) -> Batch:
        """Float32 or float64, dense or CSR, in the objective's coordinates.

        `begun`: whether the stream has begun; all batches have the dtype of the first.
        """
        self._set_objective(begun=begun)
        numbers: Numbers = 0
        if isinstance(X, Block):
            weight = X.weight if sample_weight is None else sample_weight
            X, sample_weight, numbers = X.X, weight, X.row_numbers
        check_sparse(X)
        strict = self.missing == "error"
        options: dict[str, Any] = {"ensure_min_samples": 0, "ensure_all_finite": strict}
        # What float32 cannot hold becomes infinite, and is refused.
        with np.errstate(all="ignore"), input_errors.one_line(X) as X:
            options = {**validation.row_options(X), **options}
            options |= {"dtype": self._dtype} if begun else {}
            X = validate_data(self, X, reset=not begun, **options)
        X = validation.canonical(X)
        weight = validation.weights(sample_weight, X) if X.shape[0] else None
        finite = np.ones(X.shape[0], dtype=bool) if strict else _finite_rows(X)
        if not finite.all():
            X = X[finite]
            weight = None if weight is None or not X.shape[0] else weight[finite]
            weight = validation.weights(weight, X)
            numbers = np.arange(len(finite)) + numbers if isinstance(numbers, int) else numbers
            numbers = numbers[finite]
        if X.shape[0]:
            rows = self._objective.rows(X, numbers)
            rows.check_squares()
            X = rows.X
        return Batch(X, weight, int(np.count_nonzero(~finite)))

    def _set_objective(self, *, begun: bool) -> None:
        """That of `metric`; ValueError if it was changed in the middle of a stream."""
        objective = objective_for(self.metric, None, None, None)
        if begun and objective != self._objective:
            raise ValueError(
                f"{objective.name} was set, but the stream began with {self._objective.name}. Set "
                "it back, or begin a new stream with fit."
            )
        self._objective = objective

    def _fit_record(self) -> FitRecord:
        found: Any = self
        return replace(
            super()._fit_record(), metric=self.metric, guarantee=found.guarantee_,
            lost=found.guarantee_lost_, rows_seen=found.n_rows_seen_,
            rows_dropped=self._rows_dropped, in_batches=True,
        )  # fmt: skip


@contextmanager
def keeping_rows_seen(model: LearnsFromBatches) -> Iterator[None]:
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
