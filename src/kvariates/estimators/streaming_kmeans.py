"""StreamingKMeans: k-means of a stream in bounded memory, behind scikit-learn's interface."""

from __future__ import annotations

from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from sklearn.base import _fit_context
from sklearn.exceptions import NotFittedError
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import validate_data

from kvariates import guarantees
from kvariates.data.blocks import SourceBlocks
from kvariates.data.rows import F64, Floats, Rows
from kvariates.estimators import validation
from kvariates.estimators.batches import batches_of, checked_batch, note_rows_seen
from kvariates.estimators.block_results import check_no_weights, set_features
from kvariates.estimators.fitted_centers import FittedCenters
from kvariates.guarantees import Guarantee
from kvariates.refining.lloyd import LloydResult, StopRule, evaluated, refine
from kvariates.seeding.seeding_problem import SeedingProblem
from kvariates.seeding.seedings import SEEDINGS
from kvariates.streaming.saving import load_state, save_state
from kvariates.streaming.stream_state import SpreadEstimate, StreamState
from kvariates.summaries.synopses import SYNOPSES
from kvariates.tables import documented


@documented(SYNOPSES=SYNOPSES, SEEDINGS=SEEDINGS)
class StreamingKMeans(FittedCenters):
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
        The most synopses that k-means runs on. While the stream goes on, a few times as many points
        are kept.
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
    missing : {"error", "drop"}, default="error"
        What to do with rows that hold NaN or infinity. "drop" leaves them out and counts them.
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
    synopsis_weights_ : ndarray of shape (n,)
        With integer weights they add up to ``weight_seen_`` exactly.
    spread_ : SpreadEstimate
        An estimate of the rows' squared distances to their nearest synopses, the term of Theorem 5,
        and its standard error.
    n_rows_seen_, n_rows_dropped_ : int
    weight_seen_ : float
        The sum of the rows' weights, after forgetting.
    guarantee_ : Guarantee or None
        What is known about ``inertia_``, for ``init="d2"``.
    guarantee_lost_ : str or None
        Why nothing is.
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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "n_synopses": [Interval(Integral, 4, None, closed="left")],
        "synopsis": [StrOptions(SYNOPSES.keys())],
        "half_life": [Interval(Real, 1, None, closed="left"), None],
        "init": [StrOptions(SEEDINGS.keys())],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "missing": [StrOptions({"error", "drop"})],
        "random_state": ["random_state", np.random.Generator],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        n_synopses: int = 20_000,
        synopsis: str = "coreset",
        half_life: float | None = None,
        init: str = "k-means++",
        n_init: int = 1,
        max_iter: int = 300,
        tol: float = 1e-4,
        missing: str = "error",
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_synopses = n_synopses
        self.synopsis = synopsis
        self.half_life = half_life
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.missing = missing
        self.random_state = random_state

    # -- the stream --------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> StreamingKMeans:
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
        before = dict(self.__dict__)
        self._state = self._solution = None
        try:
            if isinstance(X, SourceBlocks):
                self._take_in_blocks(X, sample_weight)
            else:
                for batch, weight in batches_of(X, sample_weight):
                    self.partial_fit(batch, sample_weight=weight)
            if not self._rows_seen:
                raise ValueError("X has no rows; at least one is needed.")
        except BaseException as error:
            if self._rows_seen:
                note_rows_seen(error, self._rows_seen)
            else:
                self.__dict__ = before
            raise
        return self

    @validation.all_or_nothing
    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> StreamingKMeans:
        """Take in one batch of rows. A batch without rows changes nothing.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored
        sample_weight : array-like of shape (n_samples,), default=None
            A row of weight w counts as w rows.

        Returns
        -------
        self
        """
        state = self._state
        dtype = None if state is None else self._dtype
        batch = checked_batch(self, X, sample_weight, dtype, self.missing, sparse_too=True)
        if state is None:
            state = self._begin(batch.X.dtype)
        if batch.X.shape[0]:
            Rows.of(batch.X).check_squares()
            state.add(batch.X, batch.weight)
            self._solution = None
        self.n_rows_dropped_ += batch.dropped
        return self

    def _take_in_blocks(self, source: SourceBlocks, sample_weight: Any) -> None:
        """Blocks were checked when they were read."""
        self._validate_params()
        check_no_weights(sample_weight)
        for block in source:
            state = self._state
            if state is None:
                set_features(self, source, block.X.shape[1])
                state = self._begin(block.X.dtype)
            if block.weight is not None and block.weight.any():
                weights = block.weight[block.weight > 0]
                validation.weight_range(float(weights.min()), float(weights.max()))
            block.rows.check_squares()
            state.add(block.X, block.weight)
        self.n_rows_dropped_ = getattr(source, "rows_dropped", 0)

    def _begin(self, dtype: np.dtype[Any]) -> StreamState:
        if self.n_synopses < self.n_clusters:
            raise ValueError(
                f"n_synopses={self.n_synopses} should be >= n_clusters={self.n_clusters}."
            )
        rng = validation.generator(self.random_state)
        size, k = int(self.n_synopses), int(self.n_clusters)
        self._state = StreamState(size, k, self.synopsis, self.half_life, rng)
        self._dtype, self.n_rows_dropped_ = dtype, 0
        return self._state

    def merge(self, other: StreamingKMeans) -> StreamingKMeans:
        """Take in the rows that another model has summarized. `other` is not changed.

        Both models need the same features, n_synopses, synopsis and half_life.
        """
        mine, theirs = self._seen(), other._seen()
        for name in ("n_synopses", "synopsis", "half_life", "n_features_in_"):
            if getattr(self, name) != getattr(other, name):
                raise ValueError(
                    f"{name} is {getattr(self, name)!r} here and {getattr(other, name)!r} in the "
                    "other model; only models with the same summary can be merged."
                )
        mine.merge(theirs)
        self.n_rows_dropped_ += other.n_rows_dropped_
        self._solution = None
        return self

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """``fit(X).predict(X)``, for a table of rows or for blocks that can be read again."""
        return self.fit(X, sample_weight=sample_weight).predict(X)

    # -- saving ------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the model to a file, from which `load` goes on with the stream. Needs skops.

        The file is written aside and moved into place: if that fails, an older file stays.
        """
        random_state = None if self._state is not None else self.random_state
        params = {**self.get_params(), "random_state": random_state}
        fitted = {
            name: value
            for name, value in self.__dict__.items()
            if name in ("n_features_in_", "feature_names_in_", "n_rows_dropped_")
        }
        fitted["dtype"] = None if self._state is None else self._dtype.str
        state = None if self._state is None else self._state.to_dict()
        content = {"params": params, "fitted": fitted, "stream": state}
        save_state(path, type(self).__name__, content)

    @classmethod
    def load(cls, path: str | Path) -> StreamingKMeans:
        """The model that `save` wrote. Its stream goes on as if it had not been saved."""
        content = load_state(path, cls.__name__)
        model = cls(**content["params"])
        fitted = content["fitted"]
        dtype = fitted.pop("dtype")
        model.__dict__.update(fitted)
        if content["stream"] is not None:
            model._state, model._dtype = StreamState.from_dict(content["stream"]), np.dtype(dtype)
        return model

    # -- what is known of the rows so far ----------------------------------------------------------

    @property
    def cluster_centers_(self) -> Floats:  # type: ignore[override]
        return self._solved.centers

    @property
    def inertia_(self) -> float:
        return self._solved.inertia

    @property
    def n_iter_(self) -> int:
        return self._solved.n_iter

    @property
    def guarantee_(self) -> Guarantee | None:
        lost = self._lost
        return None if lost else guarantees.streamed_seeding(int(self.n_clusters))

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
        return self._seen().spread()

    @property
    def n_rows_seen_(self) -> int:
        return self._seen().rows_seen

    @property
    def weight_seen_(self) -> float:
        return self._seen().weight_seen

    def __sklearn_is_fitted__(self) -> bool:
        return self._rows_seen > 0

    # -- inside ------------------------------------------------------------------------------------

    _state: StreamState | None = None
    _solution: LloydResult | None = None
    _dtype: np.dtype[Any]  # of all batches

    @property
    def _rows_seen(self) -> int:
        return 0 if self._state is None else self._state.rows_seen

    @property
    def _lost(self) -> str | None:
        return SEEDINGS[self.init].lost or SYNOPSES[self.synopsis].lost

    def _seen(self) -> StreamState:
        """The state of the stream; NotFittedError before the first row."""
        if self._state is None or not self._state.rows_seen:
            raise NotFittedError("This StreamingKMeans has seen no rows; call partial_fit first.")
        return self._state

    @property
    def _solved(self) -> LloydResult:
        if self._solution is None:
            self._solution = self._solve(self._seen())
        return self._solution

    def _solve(self, state: StreamState) -> LloydResult:
        """k-means on the synopses. The draws are others than those of the stream."""
        synopses, k = state.synopses(), int(self.n_clusters)
        rows, weight = Rows.of(synopses.points), synopses.weights
        if rows.n < k:
            raise ValueError(f"{rows.n} rows were seen so far; n_clusters={k} needs at least {k}.")
        rng, tol = state.solving_rng(), self.tol * rows.spread()
        stop = StopRule(max(1, self.max_iter), tol)
        problem = SeedingProblem(
            rows, weight, k, lloyd=lambda part, w, c: refine(part, c, w, stop), rng=rng
        )
        runs = (self._run(problem, stop) for _ in range(self.n_init))
        return min(runs, key=lambda run: run.inertia)

    def _run(self, problem: SeedingProblem, stop: StopRule) -> LloydResult:
        centers = SEEDINGS[self.init].run(problem)
        if self.max_iter == 0:
            return evaluated(problem.rows, centers, problem.weight, 0, False)
        return refine(problem.rows, centers, problem.weight, stop)

    def _fitted_rows(self, X: Any) -> Rows:
        self._seen()
        X = validate_data(self, X, reset=False, **validation.CSR_OR_DENSE)
        rows = Rows.of(validation.canonical(X))
        rows.check_squares()
        return rows
