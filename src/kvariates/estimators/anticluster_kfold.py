"""AntiClusterKFold: folds of cross-validation that are as alike as possible."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.multiclass import type_of_target

from kvariates.balancing.anticlusters import SearchOptions, grouped_folds
from kvariates.balancing.group_objectives import GROUP_OBJECTIVES, ROWS, standardised, with_squares
from kvariates.data.rows import F64, Labels
from kvariates.estimators import group_input, input_errors, validation
from kvariates.estimators.anticlustering import AntiClustering
from kvariates.estimators.names import GroupObjectiveName, RandomState
from kvariates.tables import documented

GROUP_RESTARTS, GROUP_SWEEPS = 5, 20


@dataclass(frozen=True, eq=False)
class FoldTarget:
    """y as classes (a category each), or as columns of numbers; both None without y."""

    classes: Any = None
    columns: F64 | None = None


@documented(GROUP_OBJECTIVES=GROUP_OBJECTIVES)
class AntiClusterKFold(BaseCrossValidator):
    """Folds of cross-validation that are as alike as possible.

    It replaces KFold, StratifiedKFold and GroupKFold. Rows of X are put into folds by
    anti-clustering of the standardised features. Classes of y are distributed evenly, as by
    StratifiedKFold; numbers in y, and their squared deviations, are two more features. With
    `groups`, rows of one group stay in one fold, and folds have sizes like those of GroupKFold.

    Parameters
    ----------
    n_splits : int, default=5
        The number of folds.
    objective : {<names of GROUP_OBJECTIVES>}, default="variance"
        What is maximised, on standardised columns.

        <list of GROUP_OBJECTIVES>
    random_state : int, RandomState, Generator or None, default=None
        Where the randomness comes from. An integer gives the same folds in every call.

    Notes
    -----
    Folds are more alike than random ones: a mean score varies less between repeats, but the spread
    over the folds of one repeat says less about new data, and the mean itself can be a little
    better than that of random folds, because training rows resemble test rows.

    A y of numbers counts as classes if scikit-learn takes it for classes and most of them have at
    least `n_splits` rows. With `groups`, classes are features too: exact shares would leave no
    groups to exchange.

    With scikit-learn's metadata routing, `groups` are requested as by GroupKFold;
    `set_split_request(groups=False)` turns this off.
    """

    __metadata_request__split = {"groups": True}  # noqa: RUF012  scikit-learn reads this name

    def __init__(
        self,
        n_splits: int = 5,
        *,
        objective: GroupObjectiveName = "variance",
        random_state: RandomState = None,
    ) -> None:
        self.n_splits = _checked_splits(n_splits)
        if str(objective) not in GROUP_OBJECTIVES:
            raise ValueError(
                f"objective should be one of {list(GROUP_OBJECTIVES)}; got {objective!r}."
            )
        self.objective = objective
        self.random_state = random_state

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """The number of folds."""
        return self.n_splits

    def split(
        self, X: Any, y: Any = None, groups: Any = None
    ) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Yield the rows for training and for testing, once for each fold.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), default=None
        groups : array-like of shape (n_samples,), default=None
            Rows of one group are in one fold.

        Yields
        ------
        train, test : ndarray
        """
        input_errors.refuse_kind(X)
        yield from super().split(X, y, groups)

    def _iter_test_masks(self, X: Any = None, y: Any = None, groups: Any = None) -> Any:
        labels = self._folds(X, y, groups)
        for fold in range(self.n_splits):
            yield labels == fold

    def _folds(self, X: Any, y: Any, groups: Any) -> Labels:
        with input_errors.one_line(X):
            X = check_array(X, dtype=np.float64)
        check_consistent_length(X, y, groups)
        if len(X) < self.n_splits:
            raise ValueError(f"n_samples={len(X)} should be >= n_splits={self.n_splits}.")
        group_input.check_range(X)
        target = self._target(y)
        columns = [standardised(X)]
        if target.columns is not None:
            columns.append(with_squares(target.columns))
        if groups is not None:
            return self._group_folds(columns, target, groups)
        model = AntiClustering(
            self.n_splits, objective=self.objective, random_state=self.random_state
        )
        labels: Labels = model.fit_predict(np.hstack(columns), categories=target.classes)
        return labels

    def _target(self, y: Any) -> FoldTarget:
        if y is None:
            return FoldTarget()
        kind = type_of_target(y, input_name="y")
        y = np.asarray(y)
        if kind in ("binary", "multiclass"):
            y = y.ravel()
            count = np.unique(y, return_counts=True)[1]
            if y.dtype.kind not in "iuf" or np.median(count) >= self.n_splits:
                return FoldTarget(classes=y)
        if y.dtype.kind not in "iufb":
            raise ValueError(
                "y should be classes or numbers without missing values; scikit-learn takes it for "
                f"a target of type {kind!r}."
            )
        y = check_array(y.reshape(len(y), -1), dtype=np.float64, input_name="y")
        return FoldTarget(columns=y)

    def _group_folds(self, columns: list[F64], target: FoldTarget, groups: Any) -> Labels:
        n = len(columns[0])
        if target.classes is not None:
            number = group_input.categories_of(target.classes, n).number
            columns.append(standardised(np.eye(int(number.max()) + 1)[number]))
        group = group_input.categories_of(groups, n, "groups").number
        count = int(group.max()) + 1
        if count < self.n_splits:
            raise ValueError(f"{count} groups should be >= n_splits={self.n_splits}.")
        entry, data = GROUP_OBJECTIVES[self.objective], np.hstack(columns)
        if entry.needs != ROWS:
            data = group_input.distances_of(data, "euclidean")
        options = SearchOptions(GROUP_RESTARTS, GROUP_SWEEPS, even=True)
        rng = validation.generator(self.random_state)
        return grouped_folds(data, entry.run, group, self.n_splits, options, rng).labels


def _checked_splits(n_splits: Any) -> int:
    if not isinstance(n_splits, Integral) or int(n_splits) < 2:
        raise ValueError(f"n_splits should be an integer of at least 2; got {n_splits!r}.")
    return int(n_splits)
