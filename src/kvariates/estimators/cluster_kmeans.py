"""k-means over the partitions of a cluster: what all engines share.

`ClusterKMeans` validates, lets the engine hold the rows, calls `fit_peers` and stores the result.
An engine (`kvariates.dask`, `kvariates.ray`) says how rows are held on its workers and how they are
asked: five methods and a transport.
"""

from __future__ import annotations

import copy
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from kvariates.estimators import validation
from kvariates.estimators.callbacks import CallbackSupportMixin, task_done
from kvariates.estimators.file_shares import FileShare, fitted_to
from kvariates.estimators.fit_record import FitRecord
from kvariates.estimators.fitted_centers import FittedCenters, set_features
from kvariates.estimators.partitions import ClusterPlan, FittedModel
from kvariates.estimators.validation import Auto, GivenCenters, KMeansMetric, PeerInit, RandomState
from kvariates.fitting import FitOptions, Watch
from kvariates.guarantees import Guarantee
from kvariates.objectives.objective import OBJECTIVES, Objective, objective_for
from kvariates.peers.coordinator import Coordinator
from kvariates.peers.peers_data import PeersData, PeersResult, fit_peers, guarantee_of
from kvariates.peers.transport import Transport
from kvariates.refining.lloyd import Step, StopRule
from kvariates.seeding.seedings import PEER_SEEDINGS
from kvariates.tables import documented

E = TypeVar("E", bound="type[ClusterKMeans]")


@dataclass(frozen=True, eq=False)
class HeldRows:
    """Rows that the workers hold for one fit: how they are asked, and what they have in common.

    `show`: told of every iteration of Lloyd, for an engine that shows them.
    """

    transport: Transport
    plan: ClusterPlan
    show: Callable[[Step], None] = lambda _: None


@dataclass(frozen=True, eq=False)
class CalledBack(Watch):
    """A function is called once an iteration."""

    callback: Callable[[Step], bool]

    def run(self, stop: StopRule) -> AbstractContextManager[StopRule]:
        return nullcontext(replace(stop, callback=self.callback))


@documented(PEER_SEEDINGS=PEER_SEEDINGS, OBJECTIVES=OBJECTIVES)
@dataclass(eq=False, repr=False)
class ClusterKMeans(CallbackSupportMixin, FittedCenters, ABC):
    """k-means over the partitions of a cluster.

    Parameters
    ----------
    n_clusters : int, default=8
        The number of clusters.
    init : {<names of PEER_SEEDINGS>} or array-like of shape (n_clusters, n_features), \
default="k-means++"
        Where the first centres come from. With the default of all parameters, the centres are those
        of `kvariates.KMeans` for the same `random_state`.

        <list of PEER_SEEDINGS>
    n_init : "auto" or int, default="auto"
        Runs, of which the one of lowest inertia is kept. "auto": 1.
    max_iter : int, default=300
        The most iterations of Lloyd.
    tol : float, default=1e-4
        Lloyd stops when the centres' squared shift is at most `tol` times the mean variance of the
        features.
    metric : {<names of OBJECTIVES>}, default="euclidean"
        The distance between a row and a centre.

        <list of OBJECTIVES>
    random_state : int, RandomState, Generator or None, default=None
        Where the randomness comes from.
    verbose : int, default=0
        Print what the fit does, and its iterations.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
    labels_ : as ``predict(X)``
        Not saved or copied with the model.
    inertia_ : float
        Weighted sum of squared distances to the nearest centre.
    n_iter_ : int
    transcript_ : Transcript
        Rounds, messages, bytes, and how many rows the coordinator has seen.
    guarantee_ : Guarantee or None
        The theorem that holds for this fit.
    guarantee_lost_ : str or None
        Why none does.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        When X has column names that are all strings.
    """

    n_clusters: int = 8
    _: KW_ONLY
    init: PeerInit | GivenCenters = "k-means++"
    n_init: int | Auto = "auto"
    max_iter: int = 300
    tol: float = 1e-4
    metric: KMeansMetric = "euclidean"
    random_state: RandomState = None
    verbose: int = 0

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = validation.constraints(
        "n_clusters max_iter tol metric random_state verbose",
        init=[StrOptions(PEER_SEEDINGS.keys()), "array-like"],
        n_init=[StrOptions({"auto"}), *validation.COUNT],
    )

    # -- what an engine says -----------------------------------------------------------------------

    @abstractmethod
    def _held(
        self, X: Any, sample_weight: Any, objective: Objective, *, join: bool
    ) -> AbstractContextManager[HeldRows]:
        """Hold the rows of X on the workers, in the coordinates of the objective; then let them go.

        `join`: whether small partitions may become one.
        """

    @abstractmethod
    def _is_partitioned(self, X: Any) -> bool:
        """Whether X is on a cluster, or can be brought there."""

    @abstractmethod
    def _remote_labels(self, X: Any, model: FittedModel) -> Any: ...

    @abstractmethod
    def _remote_distances(self, X: Any, model: FittedModel) -> Any: ...

    @abstractmethod
    def _remote_cost(self, X: Any, sample_weight: Any, model: FittedModel) -> float: ...

    def _say(self, words: str) -> None:
        if self.verbose:
            print(f"{type(self).__module__.rpartition('.')[0]}.KMeans: {words}", file=sys.stderr)

    def _to_read(self, partitions: Sequence[Any], memory: Sequence[float]) -> list[Any]:
        """As workers read them that have so many bytes each: files perhaps in blocks."""
        shares = fitted_to(partitions, memory)
        if not (isinstance(shares[0], FileShare) and shares[0].in_blocks):
            self._say(f"reading {len(shares)} partitions")
            return shares
        size, room = sum(share.n_bytes for share in shares) / 1e9, sum(memory) / 1e9
        self._say(
            f"reading {len(shares)} files in blocks: their rows take {size:.3g} GB, the workers "
            f"have {room:.3g} GB"
        )
        if passes := self._passes_of_seeding():
            validation.warn(
                f"The rows do not fit into the memory of the workers, so init={self.init!r} reads "
                f'the files about {passes} times; init="k-means||" reads them about 15 times.',
                UserWarning,
            )
        return shares

    def _passes_of_seeding(self) -> int:
        """Over rows in blocks, if it asks once for every centre; otherwise 0."""
        if not isinstance(self.init, str) or "passes" not in PEER_SEEDINGS[self.init].needs:
            return 0
        each = 2 if self.init == "k-means++" else 1  # the gains of candidates, then the costs
        return each * int(self.n_clusters) * (1 if self.n_init == "auto" else int(self.n_init))

    # -- scikit-learn's interface ------------------------------------------------------------------

    @validation.all_or_nothing
    @validation.checked_fit
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find the centres.

        Parameters
        ----------
        X : see the class
            Of shape (n_samples, n_features). It must fit into the memory of the workers, unless it
            is a path: then they read the files in blocks if it does not fit.
        y : ignored
        sample_weight : see the class, default=None
            In the partitions of X, or the name of a column of files. A row of weight w counts as w
            rows.

        Returns
        -------
        self
        """
        task = self._init_callback_context(max_subtasks=None)
        task.call_on_fit_task_begin(estimator=self)
        # The draws of Dk-means++ depend on the peers.
        by_peer = isinstance(self.init, str) and self.init == "dk-means++"
        objective = objective_for(self.metric, None, None, None)
        with self._held(X, sample_weight, objective, join=not by_peer) as held:
            self._say("seeding")
            result = self._fitted(held, objective, task)
        self._objective = objective
        self._store(held.plan, result)
        self.labels_ = self.predict(X)
        task.call_on_fit_task_end(estimator=self)
        return self

    def _fitted(self, held: HeldRows, objective: Any, task: Any) -> PeersResult:
        k, init, rng = int(self.n_clusters), self.init, validation.generator(self.random_state)
        if not isinstance(init, str):
            init = validation.given_centers(init, k, objective, held.plan.dtype, held.plan.d)

        def callback(step: Step) -> bool:
            held.show(step)
            self._say(f"Lloyd: iteration {step.iteration + 1}, shift {step.shift:.3g}")
            return task_done(self, task, "iteration")

        n_init = 1 if self.n_init == "auto" or not isinstance(init, str) else int(self.n_init)
        options = FitOptions(k, init, n_init=n_init, max_iter=self.max_iter, tol=self.tol)
        # Of a copy: then the draws are those of kvariates.KMeans with the same random_state.
        number = int(copy.deepcopy(rng).integers(2**62))
        data = PeersData(Coordinator(held.transport, number))
        return fit_peers(data, objective, options, rng, CalledBack(callback))

    def _store(self, plan: ClusterPlan, result: PeersResult) -> None:
        self.cluster_centers_, self.inertia_ = result.centers, result.inertia
        self.n_iter_, self.transcript_ = result.n_iter, result.transcript
        known = guarantee_of(self.init, int(self.n_clusters), result)
        self.guarantee_ = known if isinstance(known, Guarantee) else None
        self.guarantee_lost_ = None if isinstance(known, Guarantee) else known
        set_features(self, plan, plan.d)
        distinct = len(np.unique(result.centers, axis=0))
        validation.warn_of_few_clusters(distinct, self.n_clusters)

    def predict(self, X: Any) -> Any:
        """The nearest centre of every row, in the partitions of X.

        An ndarray for rows in memory.
        """
        check_is_fitted(self)
        if not self._is_partitioned(X):
            return super().predict(X)
        return self._remote_labels(X, FittedModel.of(self))

    def transform(self, X: Any) -> Any:
        """Distances of every row to all centres, in the partitions of X, as `predict`."""
        check_is_fitted(self)
        if not self._is_partitioned(X):
            return super().transform(X)
        return self._remote_distances(X, FittedModel.of(self))

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """``fit(X).labels_``."""
        return self.fit(X, sample_weight=sample_weight).labels_

    def _fit_record(self) -> FitRecord:
        return replace(
            super()._fit_record(), metric=self.metric, inertia=self.inertia_, n_iter=self.n_iter_,
            guarantee=self.guarantee_, lost=self.guarantee_lost_, transcript=self.transcript_,
        )  # fmt: skip

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Minus the weighted cost of the rows of X at their nearest centres, computed now."""
        check_is_fitted(self)
        if not self._is_partitioned(X):
            return super().score(X, sample_weight=sample_weight)
        return -self._remote_cost(X, sample_weight, FittedModel.of(self))


def engine(cls: E) -> E:
    """Put the documentation of `ClusterKMeans` where the engine has <parameters>, <attributes>."""
    _, _, rest = (ClusterKMeans.__doc__ or "").partition("    Parameters\n    ----------\n")
    parameters, _, attributes = rest.partition("    Attributes\n    ----------\n")
    text = (cls.__doc__ or "").replace("    <parameters>\n", parameters.rstrip() + "\n")
    cls.__doc__ = text.replace("    <attributes>\n", attributes.rstrip() + "\n")
    return cls
