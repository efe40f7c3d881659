"""PrivateKMedian: k medoids of public points for a private demand, with a ledger.

check the parameters and the points -> spend the budget -> read the demand -> run -> store
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from kvariates.data.lattice_rows import Adjacency
from kvariates.data.metric_spaces import Ints, MetricSpace
from kvariates.data.metrics import METRICS, Vectors
from kvariates.estimators import validation
from kvariates.estimators.callbacks import FitReport
from kvariates.estimators.fitted_medoids import FittedMedoids
from kvariates.estimators.private_input import (
    CONSTRAINTS,
    Missing,
    PrivateEstimator,
    checked_claim,
    spendable,
)
from kvariates.estimators.validation import (
    DemandMethodName,
    DistanceFunction,
    MedianMetric,
    RandomState,
)
from kvariates.privacy.budget import Budget
from kvariates.privacy.secret import Secret, silent
from kvariates.private_methods.methods import PRIVATE_KMEDIAN_METHODS
from kvariates.private_methods.noisy_centers import CenterErrors
from kvariates.private_methods.task import DemandTask, PrivateMethod, PrivateResult, run_method
from kvariates.tables import documented

Function = Callable[[DemandTask], PrivateResult]
MOST = 2**31  # points of the demand
OF_MEDOIDS = CenterErrors(None, "a medoid is one of the public points, and has no noise of its own")


@documented(METRICS=METRICS, PRIVATE_KMEDIAN_METHODS=PRIVATE_KMEDIAN_METHODS)
@dataclass(eq=False, repr=False)
class PrivateKMedian(PrivateEstimator, FittedMedoids):
    """k-median for a private demand: where to put k medoids, without telling who needs them.

    X is public: addresses, crossings, catalogue items. The *demand* is private: the numbers of the
    points of X where people are, one for each person. A fitted model reveals almost nothing about
    any one entry of the demand. Each release it was computed from has a line in ``ledger_``; there
    are no labels of the demand, no inertia and no exact number of people.

    Noise comes from OpenDP and cannot be seeded: two fits differ.

    Parameters
    ----------
    n_clusters : int, default=8
        The number of medoids.
    epsilon : float
        The budget of a fit. There is no default.
    delta : float, default=0.0
        0 is pure epsilon-privacy. Above 0 (well below one over the size of the demand) noise is
        Gaussian.
    metric : {<names of METRICS>} or callable, default="euclidean"
        The distance, as in `KMedian`.

        <list of METRICS>
    method : str or method object, default="auto"
        A name, or an object with other choices, such as ``DemandHst(levels=4)``.

        <list of PRIVATE_KMEDIAN_METHODS>
    adjacency : {"add-remove", "replace-one"}, default="add-remove"
        Which demands are neighbours: those that differ by one entry more, or by one entry replaced;
        then the size of the demand is public.
    n_swaps : int, default=None
        The number of private swaps (T) of "hst" and "local-search". None: 20. A method object has
        its own.
    theory : bool, default=False
        Use the papers' values: for "hst" T = k ln ln n swaps after all levels of the tree, for
        "local-search" T = 6 k ln n swaps (unless `n_swaps` is given), for "candidates" thousands of
        releases. They are worse than the defaults unless the demand is huge.
    diameter : float, default=None
        No distance between points of X counts more; public, from 1e-150 to 1e150. None: computed
        from X, the largest distance or a bound on it. Only "hst" and "local-search" use it, and
        trials of "candidates".
    missing : {"drop", "error"}, default="drop"
        Entries of the demand that are no number of a point of X. "drop": they are left out without
        a message, which would reveal an entry; under replace-one they become point 0. "error":
        the fit fails, which tells that there is one; then the claim has a condition.
    budget : Budget, default=None
        A budget that several fits share. If too little of it is left, ``fit`` raises BudgetError
        before it reads the demand.
    verbose : int, default=0
        Print a line for every phase. The lines say nothing about the demand.
    random_state : int, RandomState, Generator or None, default=None
        For draws that the demand has no part in: trees, cells and starts.

    Attributes
    ----------
    medoid_indices_ : ndarray of shape (n_clusters,)
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        The medoids' rows (a list if X is one); not for "precomputed" and "graph".
    cluster_counts_ : ndarray of shape (n_clusters,)
        Noisy sizes of the demand of each medoid, paid for by the budget.
    ledger_ : Ledger
        Every release with its sensitivity, noise and cost, and the claim. ``ledger_.report()`` is a
        page in words.
    condition_ : str or None
        What the claim assumes about the demand; None if nothing.
    notes_ : tuple of str
        What ``fit`` warned of, such as how many medoids may be only noise; empty if nothing was
        noticed. Computed from releases alone.
    doubtful_ : ndarray of bool of shape (n_clusters,)
        The medoids that may be only noise: noise alone could give their counts.
    center_errors_ : None
        There are no error bars: ``center_errors_about_`` says why.
    center_errors_about_ : str
    n_features_in_ : int
    """

    n_clusters: int = 8
    _: KW_ONLY
    epsilon: float
    delta: float = 0.0
    metric: MedianMetric | DistanceFunction = "euclidean"
    method: DemandMethodName | PrivateMethod[DemandTask] | Function = "auto"
    adjacency: Adjacency = "add-remove"
    n_swaps: int | None = None
    theory: bool = False
    diameter: float | None = None
    missing: Missing = "drop"
    budget: Budget | None = None
    verbose: int = 0
    random_state: RandomState = None

    _complete = (
        "conditional: that all entries of the demand are points of X, since missing='error' "
        "reveals one that is not"
    )
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CONSTRAINTS,
        "metric": [StrOptions(METRICS.keys()), callable],
        "method": [StrOptions(PRIVATE_KMEDIAN_METHODS.keys()), callable],
        "n_swaps": [Interval(Integral, 1, None, closed="left"), None],
        "theory": ["boolean"],
        "diameter": [Interval(Real, 1e-150, 1e150, closed="both"), None],
        "verbose": ["verbose"],
        "random_state": ["random_state", np.random.Generator],
    }

    @validation.checked_fit
    def fit(self, X: Any, y: Any = None, *, demand: Any = None) -> Self:
        """Find medoids for a private demand.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), distances, sparse graph or sequence
            The public points, as the metric wants them; medoids are chosen among all of them.
        y : ignored
        demand : array-like of int of shape (n_demand,)
            Numbers of points of X, one for each person (or whatever is to be protected), with
            repeats. Private. Under add-remove there may be none.

        Returns
        -------
        self : PrivateKMedian
        """
        return self._fit_and_warn(X, demand)

    @validation.all_or_nothing
    def _fit(self, X: Any, demand: Any, report: FitReport) -> None:
        claim = checked_claim(self.epsilon, self.delta)
        check_kind_of_demand(demand)
        with report.phase("read the points"):
            points = self._validate(X)
        space, k = points.space, int(self.n_clusters)
        method = self._method(space.n)
        _check_space(method, space)
        condition = self._pay(method, claim, "medoids", space.n)
        with silent():
            secret = Secret(checked_demand(demand, space.n, self.adjacency, self.missing))
        diameter = None if self.diameter is None else float(self.diameter)
        task = DemandTask(
            space, secret, k, self.adjacency, spendable(claim),
            validation.generator(self.random_state), diameter,
        )  # fmt: skip
        with report.phase("releases"):
            result = replace(run_method(method, task), errors=OF_MEDOIDS)
        words = ", theory" * self.theory
        words += f", n_swaps={self.n_swaps}" * (self.n_swaps is not None)
        metric = self.metric if isinstance(self.metric, str) else "a callable"
        where = f"{space.n} public points, metric {metric}"
        self._store_releases(result, claim, condition, where, "one entry of the demand", words)
        self._nearest = space.two_nearest(result.centers).labels
        self._store_medoids(points, result.centers)

    def _method(self, n: int) -> PrivateMethod[DemandTask]:
        """The method object, with the numbers of this fit."""
        method = self._method_of(PRIVATE_KMEDIAN_METHODS)
        if not isinstance(self.method, str) and (self.n_swaps is not None or self.theory):
            given = "theory=True" if self.n_swaps is None else f"n_swaps={self.n_swaps}"
            raise ValueError(
                f"{given} goes with the name of a method; {type(method).__name__} has numbers of "
                "its own: give them there, or give the name."
            )
        if self.theory:
            printed = method.with_theory(n, int(self.n_clusters))
            if printed is None:
                raise ValueError(f"theory=True needs a method of a paper; method={self.method!r}.")
            method = printed
        if self.n_swaps is None:
            return method
        if not method.traits.swaps:
            raise ValueError(
                f"n_swaps={self.n_swaps} is for 'hst' and 'local-search'; for 'candidates' "
                "give method=DemandCandidates(swaps=...)."
            )
        changed: PrivateMethod[DemandTask] = replace(cast("Any", method), n_swaps=int(self.n_swaps))
        return changed

    @property
    def _labels_of_points(self) -> NDArray[np.int32]:
        return self._nearest  # of all points of X, which are public

    def fit_predict(self, X: Any, y: Any = None, *, demand: Any = None) -> NDArray[np.int32]:
        """Fit, and the number of the nearest medoid of every point of X."""
        return np.array(self.fit(X, demand=demand)._labels_of_points)


NUMBERS = "numbers of points of X (integers), one for each person"


def _check_space(method: PrivateMethod[DemandTask], space: MetricSpace) -> None:
    """ValueError unless the space has what the method needs."""
    if not method.traits.euclidean:
        return
    if not isinstance(space, Vectors) or space.metric != "euclidean":
        raise ValueError(
            f"{type(method).__name__} needs rows and metric='euclidean'; for other metrics use "
            "method='cells'."
        )
    method.check_features(int(space.X.shape[1]))


def check_kind_of_demand(demand: Any) -> None:
    """Raise if the demand cannot be a list of integers, by its type alone: before spending."""
    if demand is None:
        raise ValueError(f"PrivateKMedian needs demand=...: {NUMBERS}. X itself is public.")
    dtype, shape = getattr(demand, "dtype", None), getattr(demand, "shape", None)
    if not hasattr(demand, "__len__") or isinstance(demand, (set, frozenset)):
        raise ValueError(f"demand must be a list or an array of {NUMBERS}, with repeats.")
    if isinstance(demand, (str, bytes, dict)) or getattr(dtype, "kind", "i") not in "iufO":
        kind = type(demand).__name__ if dtype is None else dtype
        raise ValueError(
            f"demand must be {NUMBERS}; got {kind}. Weights and masks do not say what one person "
            "adds; repeat a number instead."
        )
    if shape is not None and len(shape) != 1:
        raise ValueError(f"demand must have one dimension; it has {len(shape)}.")


def checked_demand(demand: Any, n: int, adjacency: Adjacency, missing: Missing) -> Ints:
    """The demand as an array. What is no number of a point is left out, each by itself.

    If the length of the demand is public, such an entry becomes point 0 instead.
    """
    if len(demand) >= MOST:
        raise ValueError("demand must have fewer than 2**31 entries.")
    if not len(demand) and adjacency == "replace-one":
        raise ValueError("demand is empty. That is possible under adjacency='add-remove' only.")
    numbers = _integers(demand)
    inside = (numbers >= 0) & (numbers < n)
    if missing == "error" and not inside.all():
        raise ValueError(
            f"demand has an entry that is no point of X: they have numbers 0 to {n - 1}. Correct "
            "it, or use missing='drop'."
        )
    return numbers[inside] if adjacency == "add-remove" else np.where(inside, numbers, 0)


def _integers(demand: Any) -> Ints:
    """The entries as integers; -1 for those that are none.

    One missing entry makes floats of all others in most columns, so whole floats are integers.
    """
    array = demand if hasattr(demand, "__array__") else _objects(list(demand))
    masked: Any = False
    if isinstance(array, np.ma.MaskedArray):
        masked, array = np.ma.getmaskarray(array), np.ma.getdata(array)
    array = np.asarray(array)
    if array.dtype.kind in "iu":
        # Unsigned numbers above 2^63 become negative, so they are outside.
        numbers = array.astype(np.int64)
    elif array.dtype.kind == "f":
        whole = (np.abs(array) < 2**62) & (array == np.floor(array))
        numbers = np.where(whole, array, -1).astype(np.int64)
    else:
        numbers = np.fromiter(map(_integer, array), np.int64, len(array))
    return np.where(masked, -1, numbers)


def _integer(entry: Any) -> int:
    """The entry, if it is an integer; else -1."""
    if isinstance(entry, (float, np.floating)) and entry.is_integer():
        entry = int(entry)
    if isinstance(entry, bool) or not isinstance(entry, (int, np.integer)):
        return -1
    return int(entry) if abs(int(entry)) < 2**62 else -1


def _objects(entries: list[Any]) -> Any:
    array = np.empty(len(entries), dtype=object)
    array[:] = entries
    return array
