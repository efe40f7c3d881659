"""k-means over the partitions of a Dask collection, behind scikit-learn's interface."""

from __future__ import annotations

import copy
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from kvariates.dask.clients import FitProgress, HasClient, client_for
from kvariates.dask.dask_transport import DaskTransport
from kvariates.dask.delayed_blocks import blocks_of, is_collection
from kvariates.dask.partitions import HeldPartitions, hold_partitions
from kvariates.dask.prediction import FittedModel, cost_of_blocks, lazy_distances, lazy_labels
from kvariates.estimators import validation
from kvariates.estimators.callbacks import CallbackSupportMixin, reported_fit, task_done
from kvariates.estimators.fitted_centers import FittedCenters
from kvariates.estimators.kmeans_runs import given_centers
from kvariates.estimators.names import GivenCenters, PeerInit, RandomState
from kvariates.guarantees import Guarantee
from kvariates.objectives.objective import SquaredEuclidean
from kvariates.peers.coordinator import Coordinator
from kvariates.peers.fitting import PeersProblem, PeersResult, fit_peers, guarantee_of
from kvariates.peers.peer_seeding import PEER_SEEDINGS
from kvariates.refining.lloyd import Step
from kvariates.tables import documented


@documented(PEER_SEEDINGS=PEER_SEEDINGS)
class KMeans(CallbackSupportMixin, HasClient, FittedCenters):
    """k-means on a Dask cluster.

    Every partition is kept in the memory of a worker and answers questions about its rows. The
    client gets sums, counts and costs, and a few rows: those that become centres, and with
    init="k-means++" and "k-means||" all candidates. The result does not depend on the number of
    workers, and not on the partitions either, except for init="dk-means++".

    Parameters
    ----------
    n_clusters : int, default=8
        The number of clusters.
    init : {<names of PEER_SEEDINGS>} or array-like of shape (n_clusters, n_features), default="d2"
        Where the first centres come from.

        <list of PEER_SEEDINGS>
    max_iter : int, default=300
        The most iterations of Lloyd.
    tol : float, default=1e-4
        Lloyd stops when the centres' squared shift is at most `tol` times the mean variance of the
        features.
    random_state : int, RandomState, Generator or None, default=None
        Where the randomness comes from.
    client : distributed.Client or None, default=None
        None: the current client; if there is none, threads of this process.
    verbose : int, default=0
        Show a progress bar. Iterations are tasks in Dask's dashboard in any case.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
    labels_ : as ``predict(X)``, lazy
        Not saved or copied with the model.
    inertia_ : float
        Weighted sum of squared distances to the nearest centre.
    n_iter_ : int
    transcript_ : Transcript
        Rounds, messages, bytes, and how many rows the client has seen.
    guarantee_ : Guarantee or None
        The theorem that holds for this fit.
    guarantee_lost_ : str or None
        Why none does.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        When X has column names that are all strings.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from kvariates.dask import KMeans
    >>> X = da.random.default_rng(0).normal(size=(10_000, 4), chunks=(2_500, 4))
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     model = KMeans(n_clusters=5, random_state=0).fit(X)
    ...     labels = model.predict(X).compute()
    >>> labels.shape, model.transcript_.points_revealed
    ((10000,), 5)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "init": [StrOptions(PEER_SEEDINGS.keys()), "array-like"],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state", np.random.Generator],
        "client": "no_validation",  # type: ignore[dict-item]
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: PeerInit | GivenCenters = "d2",
        max_iter: int = 300,
        tol: float = 1e-4,
        random_state: RandomState = None,
        client: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.client = client
        self.verbose = verbose

    @reported_fit
    @validation.all_or_nothing
    @validation.checked_parameters
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find the centres.

        Parameters
        ----------
        X : Dask array, Dask DataFrame, or list of delayed blocks
            Of shape (n_samples, n_features). It must fit into the memory of the workers.
        y : ignored
        sample_weight : Dask array, Dask Series, list of delayed blocks or array-like, default=None
            In the partitions of X. A row of weight w counts as w rows.

        Returns
        -------
        self
        """
        blocks, k = blocks_of(X, sample_weight), int(self.n_clusters)
        task = self._init_callback_context(max_subtasks=None)
        task.call_on_fit_task_begin(estimator=self)
        with (
            client_for(self.client) as client,
            FitProgress(client, self.max_iter, bool(self.verbose)) as progress,
        ):
            progress.phase(f"reading {len(blocks.rows)} partitions")
            # The draws of Dk-means++ depend on the peers.
            by_peer = isinstance(self.init, str) and self.init == "dk-means++"
            held = hold_partitions(client, blocks, k, join=not by_peer)
            progress.phase("seeding")
            result = self._fitted(client, held, lambda step: self._iteration(step, progress, task))
        self._store(held, result)
        self.labels_ = self.predict(X)
        task.call_on_fit_task_end(estimator=self)
        return self

    def _iteration(self, step: Step, progress: FitProgress, task: Any) -> bool:
        progress.iteration(step)
        return task_done(self, task, "iteration")

    def _fitted(
        self, client: Any, held: HeldPartitions, callback: Callable[[Step], bool]
    ) -> PeersResult:
        transport = DaskTransport(client, held.futures)
        try:
            k, init, rng = int(self.n_clusters), self.init, validation.generator(self.random_state)
            if not isinstance(init, str):
                init = given_centers(init, k, SquaredEuclidean(), held.dtype, held.d)
            problem = PeersProblem(k, init, self.max_iter, self.tol, callback=callback)
            # Of a copy: then the draws are those of kvariates.KMeans with the same random_state.
            number = int(copy.deepcopy(rng).integers(2**62))
            return fit_peers(Coordinator(transport, number), problem, rng)
        finally:  # a traceback that is kept must not keep the rows
            transport.end()
            held.futures.clear()

    def _store(self, held: HeldPartitions, result: PeersResult) -> None:
        self.cluster_centers_, self.inertia_ = result.centers, result.inertia
        self.n_iter_, self.transcript_ = result.n_iter, result.transcript
        known = guarantee_of(self.init, int(self.n_clusters), result)
        self.guarantee_ = known if isinstance(known, Guarantee) else None
        self.guarantee_lost_ = None if isinstance(known, Guarantee) else known
        self.n_features_in_ = held.d
        if held.names is not None:
            self.feature_names_in_ = np.array(held.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):  # of an earlier fit
            del self.feature_names_in_
        distinct = len(np.unique(result.centers, axis=0))
        validation.warn_of_few_clusters(distinct, self.n_clusters)

    def predict(self, X: Any) -> Any:
        """The nearest centre of every row, in the partitions of X and computed when asked for.

        A Dask array for an array, a Dask Series for a DataFrame, a list of delayed arrays for a
        list; an ndarray for rows in memory.
        """
        check_is_fitted(self)
        if not is_collection(X):
            return super().predict(X)
        return lazy_labels(X, FittedModel.of(self))

    def transform(self, X: Any) -> Any:
        """Distances of every row to all centres, in the partitions of X, lazy as `predict`."""
        check_is_fitted(self)
        if not is_collection(X):
            return super().transform(X)
        return lazy_distances(X, FittedModel.of(self), self.get_feature_names_out().tolist())

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """``fit(X).labels_``, lazy."""
        return self.fit(X, sample_weight=sample_weight).labels_

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Minus the weighted cost of the rows of X at their nearest centres, computed now."""
        check_is_fitted(self)
        if not is_collection(X):
            return super().score(X, sample_weight=sample_weight)
        return -cost_of_blocks(blocks_of(X, sample_weight), FittedModel.of(self), self.client)
