"""AntiClustering and AntiClusterKFold: groups and folds that are as alike as possible."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import validate_data

from kvariates.balancing.anticlusters import (
    SearchOptions,
    exact,
    exchanged,
    grouped_folds,
    partners,
)
from kvariates.balancing.group_balance import group_balance
from kvariates.balancing.group_objectives import GROUP_OBJECTIVES, ROWS, standardised, with_squares
from kvariates.balancing.group_problem import GroupProblem, group_problem
from kvariates.data.rows import F64, Labels
from kvariates.estimators import group_input, input_errors, validation
from kvariates.estimators.callbacks import CallbackSupportMixin, FitReport
from kvariates.estimators.fit_record import FitRecord, FittedHtml
from kvariates.estimators.group_input import GROUP_METRICS
from kvariates.estimators.validation import (
    Auto,
    GroupMetric,
    GroupObjectiveName,
    Integers,
    RandomState,
)
from kvariates.progress import Report
from kvariates.tables import documented

SAMPLED_SWEEPS, ALL_SWEEPS = 5, 1000
MOST_RESTARTS, UNITS_TIMES_RESTARTS = 20, 5_000
GROUP_RESTARTS, GROUP_SWEEPS = 5, 20


@documented(GROUP_OBJECTIVES=GROUP_OBJECTIVES)
@dataclass(eq=False, repr=False)
class AntiClustering(CallbackSupportMixin, FittedHtml, BaseEstimator):
    """Groups of given sizes that are as alike as possible.

    The opposite of clustering: rows of one group are as different as possible, so that every group
    looks like the whole. Groups are found by exchanges: two rows of different groups change places
    if that raises the objective.

    Parameters
    ----------
    n_groups : int, default=2
        The number of groups.
    objective : {<names of GROUP_OBJECTIVES>}, default="variance"
        What is maximised.

        <list of GROUP_OBJECTIVES>
    metric : {"euclidean", "manhattan", "cosine", "precomputed"}, default="euclidean"
        The distance, for "diversity" and "dispersion". With "precomputed", X is a square matrix of
        distances.
    group_sizes : array-like of shape (n_groups,), default=None
        The rows of each group. None: sizes differ by at most one.
    method : {"exchange", "exact"}, default="exchange"
        "exact" finds the optimum, for few rows: it lists all groups, or solves an integer program
        (about 18 rows in 3 groups; more for "dispersion"). It gives up after a minute.
    n_restarts : "auto" or int, default="auto"
        Searches from different first groups, of which the best is kept. "auto": 20 for up to 250
        rows, fewer for more, 1 from 5,000 rows on.
    max_sweeps : "auto" or int, default="auto"
        The most sweeps over all rows. A sweep tries 4 million exchanges, or 32 for each row if that
        is more. "auto": until no exchange helps, if these are all exchanges (up to 2,000 rows);
        otherwise 5.
    verbose : int, default=0
        Print a line for every phase: the exchanges (or the exact search), and the balance; and one
        for every sweep, if sweeps try all exchanges, or for every second of an integer program.
    random_state : int, RandomState, Generator or None, default=None
        Where the randomness comes from.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        The group of each row, 0 to n_groups - 1.
    objective_ : float
        The objective, which was maximised.
    n_sweeps_ : int
        Sweeps of the best search (for "dispersion", of all its steps); 0 for "exact".
    converged_ : bool
        Whether the last sweep found no exchange. With more than 2,000 rows of a category it has not
        tried all of them.
    balance_ : GroupBalance
        How far each group's means, spreads and shares of categories are from those of all rows.
        ``print(balance_)`` is a table, ``balance_.frame()`` a data frame, ``balance_.plot()`` a
        picture.
    n_features_in_ : int
    feature_names_in_ : ndarray
        Only if X is a data frame.

    Notes
    -----
    Categories and links belong to rows, so `fit` takes them, as it takes weights in scikit-learn.
    This is no clusterer by scikit-learn's tags, because labels are no clusters.
    """

    n_groups: int = 2
    _: KW_ONLY
    objective: GroupObjectiveName = "variance"
    metric: GroupMetric = "euclidean"
    group_sizes: Integers | None = None
    method: Literal["exchange", "exact"] = "exchange"
    n_restarts: int | Auto = "auto"
    max_sweeps: int | Auto = "auto"
    verbose: int = 0
    random_state: RandomState = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_groups": [Interval(Integral, 1, None, closed="left")],
        "objective": [StrOptions(GROUP_OBJECTIVES.keys())],
        "metric": [StrOptions(set(GROUP_METRICS))],
        "group_sizes": ["array-like", None],
        "method": [StrOptions({"exchange", "exact"})],
        "n_restarts": [Interval(Integral, 1, 10**6, closed="both"), StrOptions({"auto"})],
        "max_sweeps": [Interval(Integral, 0, 10**9, closed="both"), StrOptions({"auto"})],
        "verbose": ["verbose"],
        "random_state": ["random_state", np.random.Generator],
    }

    @validation.all_or_nothing
    @validation.checked_fit
    def fit(
        self, X: Any, y: Any = None, *, categories: Any = None, must_link: Any = None,
        cannot_link: Any = None,
    ) -> Self:  # fmt: skip
        """Find the groups.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or distances
            The rows; a square matrix of distances with ``metric="precomputed"``.
        y : ignored
        categories : array-like of shape (n_samples,) or (n_samples, n_columns), default=None
            Values of any type. Every group gets the same number of rows of each category, or one
            more or less; with `group_sizes` its share, rounded up or down. Of several columns,
            every combination is a category.
        must_link : array-like of shape (n_pairs, 2) or (n_samples,), default=None
            Pairs of rows that must be in one group; or a number for each row, where rows of the
            same number stay together and -1 is for rows without links.
        cannot_link : array-like of shape (n_pairs, 2), default=None
            Pairs of rows that must be in different groups.

        Returns
        -------
        self : AntiClustering
        """
        dtype = [np.float64, np.float32] if self._uses_distances() else np.float64
        with input_errors.one_line(X) as X:
            X = validate_data(self, X, dtype=dtype, order="C")
        n, G = len(X), int(self.n_groups)
        validation.enough_rows(n, G, "n_groups")
        group_input.check_range(X)
        named = group_input.categories_of(categories, n)
        links = group_input.links_of(must_link, cannot_link, n)
        problem = group_problem(
            named.number, links, G, group_input.sizes_of(self.group_sizes, n, G)
        )
        report = FitReport(self, 2)
        with report.phase("exchanges" if self.method == "exchange" else "exact search") as steps:
            self._search(X, problem, steps)
        report.say(f"objective {self.objective_:.6g} after {self.n_sweeps_} sweeps")
        with report.phase("balance"):
            precomputed = self.metric == "precomputed"
            columns = np.empty((n, 0)) if precomputed else X.astype(np.float64)
            features = getattr(self, "feature_names_in_", [f"x{j}" for j in range(X.shape[1])])
            features = () if precomputed else tuple(features)
            self.balance_ = group_balance(self.labels_, G, columns, features, named)
        report.end()
        return self

    def fit_predict(self, X: Any, y: Any = None, **constraints: Any) -> Labels:
        """Find the groups and return ``labels_``. The parameters are those of `fit`."""
        labels: Labels = self.fit(X, y, **constraints).labels_
        return labels

    def _uses_distances(self) -> bool:
        return GROUP_OBJECTIVES[self.objective].needs != ROWS

    def _search(self, X: Any, problem: GroupProblem, report: Report | None) -> None:
        rng, data = validation.generator(self.random_state), X
        # In these, similar rows can be found.
        rows = None if self.metric == "precomputed" else X.astype(np.float64, copy=False)
        if self._uses_distances():
            data = group_input.distances_of(X, self.metric)
        elif self.metric != "euclidean":
            others = [name for name, e in GROUP_OBJECTIVES.items() if e.needs != ROWS]
            raise ValueError(
                f"objective={self.objective!r} uses squared Euclidean distances; with "
                f"metric={self.metric!r} use one of {others}."
            )
        objective = GROUP_OBJECTIVES[self.objective].run(data, problem.units)
        if self.method == "exact":
            found = exact(problem, objective, report)
        else:
            found = exchanged(problem, objective, rows, self._options(problem, report), rng)
        self.labels_, self.n_sweeps_ = found.labels, found.n_sweeps
        self.converged_ = found.converged
        self.objective_ = objective.value(found.labels)

    def _fit_record(self) -> FitRecord:
        raise TypeError(
            f"{type(self).__name__} has groups and no centres; plot.balance(model.balance_) draws "
            "them"
        )

    def _fitted_lines(self) -> list[str]:
        groups = f"{self.n_groups} groups, objective {self.objective_:.6g}"
        sweeps = f"{self.n_sweeps_} sweeps{'' if self.converged_ else '; not converged'}"
        return [f"{type(self).__name__}: {groups}", sweeps]

    def _options(self, problem: GroupProblem, report: Report | None) -> SearchOptions:
        restarts, sweeps = self.n_restarts, self.max_sweeps
        if restarts == "auto":
            restarts = min(MOST_RESTARTS, max(1, UNITS_TIMES_RESTARTS // problem.units.n))
        if sweeps == "auto":
            all_tried = np.bincount(problem.units.kind).max() <= partners(problem.units.n)
            sweeps = ALL_SWEEPS if all_tried else SAMPLED_SWEEPS
        return SearchOptions(int(restarts), int(sweeps), report)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.metric == "precomputed"
        return tags


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
        splits: Any = n_splits  # whatever it is declared to be
        if not isinstance(splits, Integral) or int(splits) < 2:
            raise ValueError(f"n_splits should be an integer of at least 2; got {splits!r}.")
        self.n_splits = int(splits)
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
        with input_errors.one_line(X) as X:
            X = check_array(X, dtype=np.float64)
        check_consistent_length(X, y, groups)
        if len(X) < self.n_splits:
            raise ValueError(f"n_samples={len(X)} should be >= n_splits={self.n_splits}.")
        group_input.check_range(X)
        classes, numbers = self._target(y)
        columns = [standardised(X)]
        if numbers is not None:
            columns.append(with_squares(numbers))
        if groups is not None:
            return self._group_folds(columns, classes, groups)
        model = AntiClustering(
            self.n_splits, objective=self.objective, random_state=self.random_state
        )
        labels: Labels = model.fit_predict(np.hstack(columns), categories=classes)
        return labels

    def _target(self, y: Any) -> tuple[Any, F64 | None]:
        """Y as classes, or as columns of numbers; both None without y."""
        if y is None:
            return None, None
        kind = type_of_target(y, input_name="y")
        y = np.asarray(y)
        if kind in ("binary", "multiclass"):
            y = y.ravel()
            count = np.unique(y, return_counts=True)[1]
            if y.dtype.kind not in "iuf" or np.median(count) >= self.n_splits:
                return y, None
        if y.dtype.kind not in "iufb":
            raise ValueError(
                "y should be classes or numbers without missing values; scikit-learn takes it for "
                f"a target of type {kind!r}."
            )
        return None, check_array(y.reshape(len(y), -1), dtype=np.float64, input_name="y")

    def _group_folds(self, columns: list[F64], classes: Any, groups: Any) -> Labels:
        n = len(columns[0])
        if classes is not None:
            number = group_input.categories_of(classes, n).number
            columns.append(standardised(np.eye(int(number.max()) + 1)[number]))
        group = group_input.categories_of(groups, n, "groups").number
        count = int(group.max()) + 1
        if count < self.n_splits:
            raise ValueError(f"{count} groups should be >= n_splits={self.n_splits}.")
        entry, data = GROUP_OBJECTIVES[self.objective], np.hstack(columns)
        if entry.needs != ROWS:
            data = group_input.distances_of(data, "euclidean")
        options = SearchOptions(GROUP_RESTARTS, GROUP_SWEEPS)
        rng = validation.generator(self.random_state)
        return grouped_folds(data, entry.run, group, self.n_splits, options, rng).labels
