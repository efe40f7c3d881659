"""StreamingKMeans: k-means of a stream in bounded memory, behind scikit-learn's interface."""

from __future__ import annotations

import zlib
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.utils._param_validation import Interval, StrOptions

from kvariates import guarantees
from kvariates.data.blocks import SourceBlocks
from kvariates.data.rows import F64, Floats, Rows
from kvariates.estimators import validation
from kvariates.estimators.batches import LearnsFromBatches, batches_of, keeping_rows_seen
from kvariates.estimators.callbacks import FitReport
from kvariates.estimators.fit_record import FitRecord
from kvariates.estimators.fitted_centers import set_features
from kvariates.estimators.validation import (
    Init,
    KMeansMetric,
    MissingRows,
    RandomState,
    SynopsisName,
)
from kvariates.fitting import FitOptions, fit_kmeans
from kvariates.guarantees import Guarantee
from kvariates.objectives.objective import OBJECTIVES
from kvariates.progress import Report
from kvariates.refining.lloyd import LloydResult
from kvariates.seeding.seedings import HOST_SEEDINGS, SEEDINGS
from kvariates.summaries.merge_reduce import SYNOPSES
from kvariates.summaries.stream_state import SpreadEstimate, StreamState
from kvariates.tables import documented

ROOM = 4  # synopses of a cluster, at least
DIGITS = 3  # of the first direction, in the seed of a stream


class StreamSolution(NamedTuple):
    """k-means on the synopses, and the parameters it was made with."""

    result: LloydResult
    options: tuple[Any, ...]


@documented(SYNOPSES=SYNOPSES, SEEDINGS=HOST_SEEDINGS, OBJECTIVES=OBJECTIVES)
@dataclass(eq=False, repr=False)
class StreamingKMeans(LearnsFromBatches):
    """k-means of a stream: batches of rows come one after the other, and memory stays bounded.

    The rows are summarized by weighted points, the synopses. The centres are those of k-means on
    the synopses (Sk-means++, Algorithm 2 of the k-variates++ paper, then Lloyd's iterations). They
    are computed when they are asked for, and kept until the next batch. To ask changes nothing in
    the stream.

    Parameters
    ----------
    n_clusters : int, default=8
        The number of clusters.
    n_synopses : int, default=20000
        The most synopses that k-means runs on, at least 4 for each cluster. While the stream goes
        on, a few times as many points are kept.
    synopsis : {<names of SYNOPSES>}, default="coreset"
        How rows are summarized.

        <list of SYNOPSES>
    half_life : float or None, default=None
        For streams that drift: the weight of a row is halved each time that so many rows have
        followed it. None: all rows count alike.
    init : {<names of SEEDINGS>}, default="k-means++"
        Where the first centres come from.

        <list of SEEDINGS>
    n_init : int, default=1
        Runs on the synopses, of which the one of lowest inertia is kept.
    max_iter : int, default=300
        The most iterations of Lloyd. With 0 the centres are the seeds.
    tol : float, default=1e-4
        A run stops when the centres' squared shift is at most `tol` times the mean variance of the
        features.
    metric : {<names of OBJECTIVES>}, default="euclidean"
        The distance between a row and a centre.

        <list of OBJECTIVES>
    missing : {"error", "drop"}, default="error"
        What to do with rows that hold NaN or infinity. "drop" leaves them out and counts them. For
        blocks of a source, use ``blocks(..., missing=...)`` instead.
    verbose : int, default=0
        Print a line for every batch that `fit` takes in.
    random_state : int, RandomState, Generator or None, default=None
        Where the randomness comes from. It is read at the first batch.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        The centres of the rows so far.
    inertia_ : float
        The weighted cost of the synopses at these centres. It estimates the cost of the rows.
    n_iter_ : int
        Iterations of the best run.
    synopses_ : ndarray of shape (n, n_features)
        With metric="cosine" they have length one.
    synopsis_weights_ : ndarray of shape (n,)
        With integer weights they add up to ``weight_seen_`` exactly.
    spread_ : SpreadEstimate
        An estimate of the rows' cost at their nearest synopses, the term of Theorem 5, and its
        standard error.
    n_rows_seen_, n_rows_dropped_ : int
    weight_seen_ : float
        The sum of the rows' weights, after forgetting.
    guarantee_ : Guarantee or None
        What is known about ``inertia_``, for ``init="d2"``. None by default: there is no bound in
        numbers for greedy k-means++.
    guarantee_lost_ : str or None
        Why ``guarantee_`` is None.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        When the first batch has column names that are all strings.

    Examples
    --------
    >>> import numpy as np
    >>> from kvariates import StreamingKMeans
    >>> rng = np.random.default_rng(0)
    >>> model = StreamingKMeans(n_clusters=2, random_state=0)
    >>> for _ in range(5):
    ...     batch = rng.normal(size=(100, 2)) + rng.choice([0.0, 50.0], size=(100, 1))
    ...     model = model.partial_fit(batch)
    >>> model.n_rows_seen_
    500
    >>> sorted(round(float(c)) for c in model.cluster_centers_[:, 0])
    [0, 50]
    """

    n_clusters: int = 8
    _: KW_ONLY
    n_synopses: int = 20_000
    synopsis: SynopsisName = "coreset"
    half_life: float | None = None
    init: Init = "k-means++"
    n_init: int = 1
    max_iter: int = 300
    tol: float = 1e-4
    metric: KMeansMetric = "euclidean"
    missing: MissingRows = "error"
    verbose: int = 0
    random_state: RandomState = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = validation.constraints(
        "n_clusters init n_init tol metric missing verbose random_state",
        n_synopses=[Interval(Integral, 4, None, closed="left")],
        synopsis=[StrOptions(SYNOPSES.keys())],
        half_life=[Interval(Real, 1, 1e15, closed="both"), None],
        max_iter=[Interval(Integral, 0, None, closed="left")],
    )
    _in_words = "k-means of a stream"

    # -- the stream --------------------------------------------------------------------------------

    @validation.checked_fit
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Forget everything, then take in all batches of X.

        If reading a batch fails, the batches before it are kept, and the error says how many rows
        they have.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Blocks, or an iterable of arrays
            A single array is cut into batches. `kvariates.sources.blocks` makes Blocks of files.
        y : ignored
        sample_weight : array-like of shape (n_samples,), default=None
            For a single array. A row of weight w counts as w rows.

        Returns
        -------
        self
        """
        report = FitReport(self, 1)
        with keeping_rows_seen(self), report.phase("batches") as told:
            self._state = self._solution = None
            self.__dict__.pop("n_rows_dropped_", None)
            if isinstance(X, SourceBlocks):
                self._take_in_blocks(X, sample_weight, told)
            else:
                self._take_in_all(batches_of(X, sample_weight), told)
            validation.enough_rows(self._rows_seen, self.n_clusters)
            if not self.weight_seen_:
                raise ValueError(validation.NO_WEIGHT)
        report.end()
        return self

    @validation.all_or_nothing
    def _take_in(self, X: Any, sample_weight: Any) -> None:
        state = self._state
        self._check_unchanged()
        batch = self._checked(X, sample_weight, begun=state is not None)
        if batch.X.shape[0]:
            state = state or self._begin(Rows.of(batch.X))
            if sparse.issparse(batch.X) != self._is_sparse:
                kinds = ("dense", "sparse")
                raise ValueError(
                    f"The batch is {kinds[not self._is_sparse]}, but those before are "
                    f"{kinds[self._is_sparse]}; convert it."
                )
            state.add(batch.X, batch.weight)
            self._solution = None
        if state is not None or batch.dropped:
            self.n_rows_dropped_ = self._rows_dropped + batch.dropped

    def _check_unchanged(self) -> None:
        """ValueError if a parameter of the summary was changed in the middle of the stream."""
        state = self._state
        self._set_objective(begun=state is not None)
        if state is None:
            return
        for name, now, begun in (
            ("n_synopses", self.n_synopses, state.options.size),
            ("synopsis", self.synopsis, state.synopsis),
            ("half_life", self.half_life, state.half_life),
        ):
            if now != begun:
                raise ValueError(
                    f"{name} is {now!r}, but the stream began with {begun!r}. Set it back, or "
                    "begin a new stream with fit."
                )

    def _take_in_blocks(
        self, source: SourceBlocks, sample_weight: Any, report: Report | None
    ) -> None:
        """Blocks were checked when they were read."""
        validation.no_weights(sample_weight)
        for number, block in enumerate(source, 1):
            if not block.X.shape[0]:
                continue
            state = self._state
            self._set_objective(begun=state is not None)
            rows = self._objective.rows(block.X, block.row_numbers)
            if state is None:
                set_features(self, source, rows.d)
                state = self._begin(rows)
            if block.weight is not None and block.weight.any():
                validation.check_weights(block.weight)
            rows.check_squares()
            state.add(rows.X, block.weight)
            self.n_rows_dropped_ = source.rows_dropped
            self._tell(report, "rows after block", number)
        self.n_rows_dropped_ = source.rows_dropped

    def _begin(self, rows: Rows) -> StreamState:
        if self.n_synopses < ROOM * self.n_clusters:
            raise ValueError(
                f"n_synopses={self.n_synopses} should be at least {ROOM} times "
                f"n_clusters={self.n_clusters}."
            )
        # The first row is part of the seed: streams on several machines, all with the same
        # random_state, make other draws, so that they can be merged.
        # Lengths do not count for the cosine, and neither does what they leave in the last digits.
        first = rows.take(np.zeros(1, dtype=np.int64))
        first = first.round(DIGITS) if self._objective.unit else first
        seed = validation.generator(self.random_state).integers(2**32, size=8).tolist()
        rng = np.random.default_rng([*seed, zlib.crc32(first.tobytes())])
        size, k = int(self.n_synopses), int(self.n_clusters)
        state = StreamState(size, k, self.synopsis, self.half_life, rng)
        self._state, self._dtype, self._is_sparse = state, rows.dtype, not rows.dense
        return state

    def merge(self, other: StreamingKMeans) -> Self:
        """Take in the rows that another model has summarized. `other` is not changed.

        Both models need the same features, dtype, n_synopses, synopsis, half_life and metric. A
        model that has seen no rows can be merged as well.
        """
        if not isinstance(other, StreamingKMeans):
            raise TypeError(f"a StreamingKMeans can be merged, not a {type(other).__name__}.")
        mine, theirs = self._state, other._state
        for model in (self, other):
            model._check_unchanged()
        _check_alike(self, other, ("n_synopses", "synopsis", "half_life", "metric"))
        fitted = ("n_features_in_", "feature_names_in_", "_dtype", "_is_sparse", "_objective")
        if theirs is not None and mine is None:
            self._state = StreamState.from_dict(theirs.to_dict())
            self.__dict__ |= {n: v for n, v in other.__dict__.items() if n in fitted}
        elif theirs is not None and mine is not None:
            _check_alike(self, other, fitted)
            mine.merge(theirs)
        self.n_rows_dropped_ = self._rows_dropped + other._rows_dropped
        self._solution = None
        return self

    # -- what is known of the rows so far: centres are computed when they are asked for ------------

    @property
    def cluster_centers_(self) -> Floats:
        return self._solved.centers

    @property
    def inertia_(self) -> float:
        return self._solved.inertia

    @property
    def n_iter_(self) -> int:
        return self._solved.n_iter

    @property
    def guarantee_(self) -> Guarantee | None:
        self._seen()
        return None if self._lost else guarantees.streamed_seeding(int(self.n_clusters))

    @property
    def guarantee_lost_(self) -> str | None:
        self._seen()
        return self._lost

    @property
    def synopses_(self) -> Floats:
        points: Floats = self._seen().synopses().points
        return points

    @property
    def synopsis_weights_(self) -> F64:
        return self._seen().synopses().weights

    @property
    def spread_(self) -> SpreadEstimate:
        spread, cost = self._seen().spread(), self._objective.cost
        return SpreadEstimate(cost(spread.value), cost(spread.standard_error))

    @property
    def n_rows_seen_(self) -> int:
        return self._seen().rows_seen

    @property
    def weight_seen_(self) -> float:
        return self._seen().weight_seen

    def __sklearn_is_fitted__(self) -> bool:
        return self._rows_seen > 0

    @property
    def _rows_seen(self) -> int:
        return 0 if self._state is None else self._state.rows_seen

    @property
    def _lost(self) -> str | None:
        self._validate_params()  # they may have been set since the last batch
        return SEEDINGS[self.init].lost or SYNOPSES[self.synopsis].lost

    def _seen(self) -> StreamState:
        """The state of the stream; NotFittedError before the first row."""
        state: StreamState | None = self._state
        if state is None or not state.rows_seen:
            raise NotFittedError("This StreamingKMeans has seen no rows; call partial_fit first.")
        return state

    @property
    def _solved(self) -> LloydResult:
        options = self.n_clusters, self.init, self.n_init, self.max_iter, self.tol
        known: StreamSolution | None = self._solution
        if known is None or known.options != options:
            self._solution = known = StreamSolution(self._solve(self._seen()), options)
        return known.result

    def _solve(self, state: StreamState) -> LloydResult:
        """k-means on the synopses. The draws are others than those of the stream."""
        self._validate_params()  # they may have been set since the last batch
        synopses, k = state.synopses(), int(self.n_clusters)
        if synopses.n < k:
            raise NotFittedError(
                f"{state.rows_seen} rows were seen so far, summarized by {synopses.n} synopses; "
                f"n_clusters={k} needs at least {k}."
            )
        options = FitOptions(
            k, self.init, n_init=int(self.n_init), max_iter=self.max_iter, tol=self.tol,
            variance=synopses.variance(), looser=1.0,
        )  # fmt: skip
        return fit_kmeans(synopses.data, self._objective, options, state.solving_rng())

    def _labels_of_fit(self, X: Any) -> Any:
        return self.predict(X)

    def _fit_record(self) -> FitRecord:
        return replace(
            super()._fit_record(), inertia=self.inertia_, n_iter=self.n_iter_,
            synopses=self.synopses_, synopsis_weights=self.synopsis_weights_, spread=self.spread_,
        )  # fmt: skip


def _check_alike(model: Any, other: Any, names: tuple[str, ...]) -> None:
    """ValueError unless these attributes of both models are equal."""
    for name in names:
        here, there = (
            value.tolist() if isinstance(value, np.ndarray) else value
            for value in (vars(either).get(name) for either in (model, other))
        )
        if here != there:
            raise ValueError(
                f"{name.lstrip('_')} is {here!r} here and {there!r} in the other model; only "
                "models with the same summary can be merged."
            )
