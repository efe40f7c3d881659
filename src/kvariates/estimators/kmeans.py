"""KMeans: scikit-learn's estimator on our loops."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import _is_arraylike_not_scalar

from kvariates import guarantees
from kvariates.certificates.certificate import Certificate
from kvariates.certificates.kmeans_certificate import certify_kmeans
from kvariates.data.block_data import BlockData
from kvariates.data.blocks import BlockTotals, SourceBlocks
from kvariates.data.host_data import Data, HostData
from kvariates.data.rows import F64
from kvariates.estimators import validation
from kvariates.estimators.callbacks import RunReport
from kvariates.estimators.device_input import (
    ON_CPU,
    OnCard,
    blocks_on_card,
    card_for,
    host_copy,
    inspected,
    offers_of_card,
)
from kvariates.estimators.fit_record import FitRecord
from kvariates.estimators.fitted_centers import (
    BlockLabels,
    CentersOfRows,
    CoordinateBlocks,
    FittedColumns,
    set_features,
)
from kvariates.estimators.validation import (
    Algorithm,
    Auto,
    DistortionName,
    GivenCenters,
    Init,
    KMeansMetric,
    MakeCenters,
    RandomState,
)
from kvariates.fitting import BY_ROUNDS, FitOptions, fit_kmeans, open_blocks
from kvariates.objectives.distortion import Distortion
from kvariates.objectives.distortions import DISTORTIONS
from kvariates.objectives.objective import OBJECTIVES, Objective, objective_for
from kvariates.progress import Report
from kvariates.refining.lloyd import LloydResult
from kvariates.refining.refinements import REFINEMENTS
from kvariates.refining.size_limits import SizeLimits
from kvariates.seeding.seedings import HOST_SEEDINGS, SEEDINGS
from kvariates.tables import documented


@documented(
    SEEDINGS=HOST_SEEDINGS, REFINEMENTS=REFINEMENTS, OBJECTIVES=OBJECTIVES, DISTORTIONS=DISTORTIONS
)
@dataclass(eq=False, repr=False)
class KMeans(CentersOfRows):
    """k-means clustering behind scikit-learn's interface.

    Results are identical on any number of threads and for every instruction set. All algorithms
    except "hartigan", "swap" and "minibatch" give the same result.

    Parameters
    ----------
    n_clusters : int, default=8
        The number of clusters.
    init : {<names of SEEDINGS>}, callable or array-like of shape (n_clusters, n_features), \
default="k-means++"
        Where the first centres come from; a callable takes X, n_clusters and a random state.

        <list of SEEDINGS>
    n_init : "auto" or int, default="auto"
        Runs, of which the one of lowest inertia is kept. "auto": 10 for "random" or a callable,
        1 otherwise.
    max_iter : int, default=300
        The most iterations of a run.
    tol : float, default=1e-4
        A run stops when the centres' squared shift is at most `tol` times the mean variance of
        the features.
    verbose : int, default=0
        Print one line per iteration.
    random_state : int, RandomState, Generator or None, default=None
        Where the randomness comes from.
    copy_x : bool, default=True
        Accepted for scikit-learn's signature. X is neither copied nor changed in either case,
        unless it must be converted first.
    algorithm : {<names of REFINEMENTS>}, default="auto"
        How centres are refined.

        <list of REFINEMENTS>
    metric : {<names of OBJECTIVES>}, default="euclidean"
        The distance between a row and a centre.

        <list of OBJECTIVES>
    distortion : {<names of DISTORTIONS>} or None, default=None
        A divergence to use instead of squared Euclidean distances (docs/kmeans.md). `inertia_`
        and `transform` are in its terms ("mahalanobis": `transform` gives distances).

        <list of DISTORTIONS>
    certify : bool, default=False
        Compute ``certificate_``, a lower bound on the cost of any k centres, for squared Euclidean
        distances. It often takes 10 to 25 seconds, much longer than the fit. With limits on sizes
        the bound is still valid, but further away.
    size_min, size_max : float or None, default=None
        The least and the largest size of a cluster in ``labels_``: the number of its rows, or
        their weight if there are weights. Each assignment is the best one within these limits if
        the rows have equal weights, and otherwise near to it, see ``assignment_gap_``. `predict`
        ignores limits. Only with algorithm="auto" or "lloyd", without `distortion`.
    device : {"auto", "cpu", "cuda", "cuda:1", ...}, default="auto"
        Where fits and all other methods run. "auto": an array of CuPy or PyTorch on a GPU stays
        there, and everything else is worked on by the processors. "cuda": X is copied to the first
        GPU, if it is in host memory, and blocks pass through it. The results are the same, bit for
        bit (docs/gpu.md).

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        Of an X on a GPU: an array of its library there, as are ``labels_`` and all results. Copies
        of a model, and saved ones, hold NumPy arrays.
    labels_ : ndarray of shape (n_samples,)
        The nearest centre of every row; ties go to the lowest index. Equal to ``predict(X)``,
        unless there are limits on sizes. Of blocks: an iterable with such an array for each block,
        which is computed when it is read; not saved or copied with the model.
    inertia_ : float
        Weighted sum of squared distances to the centres of ``labels_`` (of 1 - cos for "cosine").
    assignment_gap_ : float
        ``labels_`` cost at most so much more than the best labels within the limits. 0.0 if they
        are the best ones (up to rounding), as without limits and for rows of equal weight.
    n_iter_ : int
        Iterations of the best run.
    guarantee_ : Guarantee or None
        The theorem that holds for this fit, and what it says about it.
    guarantee_lost_ : str or None
        Why none does.
    certificate_ : Certificate
        "within x % of optimal", or "no useful bound". Only with ``certify=True``.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        When X has column names that are all strings.

    Examples
    --------
    >>> import numpy as np
    >>> from kvariates import KMeans
    >>> X = np.array([[1, 2], [1, 4], [1, 0], [10, 2], [10, 4], [10, 0]])
    >>> model = KMeans(n_clusters=2, random_state=0).fit(X)
    >>> model.predict([[0, 0], [12, 3]])[0] == model.labels_[0]
    True
    """

    n_clusters: int = 8
    _: KW_ONLY
    init: Init | MakeCenters | GivenCenters = "k-means++"
    n_init: int | Auto = "auto"
    max_iter: int = 300
    tol: float = 1e-4
    verbose: int = 0
    random_state: RandomState = None
    copy_x: bool = True
    algorithm: Algorithm = "auto"
    metric: KMeansMetric = "euclidean"
    distortion: DistortionName | Distortion | None = None
    certify: bool = False
    size_min: float | None = None
    size_max: float | None = None
    device: str = "auto"

    _keep_costs = False  # whether a fit in memory keeps the costs of its best run in `_costs`
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = validation.constraints(
        "n_clusters max_iter tol verbose random_state metric certify device",
        init=[StrOptions(HOST_SEEDINGS.keys()), callable, "array-like"],
        n_init=[StrOptions({"auto"}), *validation.COUNT],
        copy_x=["boolean"],
        algorithm=[StrOptions(REFINEMENTS.keys())],
        distortion=[StrOptions(DISTORTIONS.keys()), HasMethods(["divergence", "nearest"]), None],
        size_min=[Interval(Real, 0, None, closed="left"), None],
        size_max=[Interval(Real, 0, None, closed="right"), None],
    )

    @validation.all_or_nothing
    @validation.checked_fit
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find the centres.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or blocks
            An array on a GPU stays there. Blocks of `kvariates.sources.blocks` are read several
            times, a few in memory at a time. From given centres the result is that of the same rows
            in memory; with init="k-means||" too, for more than 2**18 values (it keeps 12 to 20
            bytes a row). Any other init starts from a weighted sample of the rows, and so does a
            callable.
        y : ignored
        sample_weight : array-like of shape (n_samples,), default=None
            A row of weight w counts as w rows. Blocks have their own weights.

        Returns
        -------
        self
        """
        card, on_card = self._card_for(X), None
        rng = validation.generator(self.random_state)
        data: Any  # a `Data`
        if isinstance(X, SourceBlocks):
            objective = self._objective_for_blocks(X, sample_weight)
            data = self._open_blocks(X, objective, rng, card)
        elif card is not None:
            objective = self._objective_for_card()
            on_card = self._rows_on(card, X, reset=True, small=self._reads_small())
            validation.enough_rows(on_card.n, self.n_clusters)
            X, weight = on_card.X, on_card.weights(sample_weight)
            data = on_card.data(objective, weight)
        else:
            X = self._validated(X, reset=True, small=self._reads_small())
            validation.enough_rows(X.shape[0], self.n_clusters)
            weight = validation.weights(sample_weight, X)
            objective = objective_for(self.metric, self.distortion, X, weight)
            self._check_offers(objective)
            data = HostData(objective.rows(X), weight)
        options = self._options(objective, data, X)

        runs = options.n_init if data.summary is None else 1
        report = RunReport(self, runs + bool(self.certify), objective, X=X, y=y)
        best = fit_kmeans(data, objective, options, rng, report)
        certificate = None
        if self.certify and isinstance(data, HostData):
            with report.part("certify") as told:
                certificate = self._certificate(data, best, rng, told)
        centers, labels = best.centers, best.labels
        if on_card is not None:
            centers, labels = on_card.results(centers), on_card.results(labels)
        elif isinstance(X, SourceBlocks):
            measured = objective if card is None else OnCard(objective, card)
            blocks = CoordinateBlocks(X, measured, FittedColumns.of(self))
            labels = BlockLabels(blocks, best.centers.astype(np.float64))
        self._store(objective, best, centers, labels, certificate)
        report.end()
        return self

    # -- what is fitted ----------------------------------------------------------------------------

    def _objective_for_blocks(self, source: SourceBlocks, sample_weight: Any) -> Objective:
        """ValueError unless these parameters work with these blocks."""
        validation.no_weights(sample_weight)
        if not source.repeatable:
            raise ValueError(
                f"{source.description} can be read only once, and KMeans reads its rows several "
                "times. Use StreamingKMeans, or a source that can be read again, such as a file."
            )
        if (option := self._needs_memory()) is not None:
            raise ValueError(
                f"{option} needs all rows in memory. With blocks use algorithm='auto' or "
                "'lloyd', distortion=None, certify=False, and no limits on sizes."
            )
        objective = objective_for(self.metric, None, None, None)
        self._check_offers(objective)
        return objective

    def _objective_for_card(self) -> Objective:
        """ValueError unless there are kernels for a GPU for all that these parameters ask for."""
        if (option := self._needs_memory()) is not None:
            raise ValueError(f"{option} has no kernels for a GPU. {ON_CPU}")
        objective = objective_for(self.metric, None, None, None)
        self._check_offers(objective)
        if isinstance(self.init, str):
            offers = objective.offers | offers_of_card()
            SEEDINGS.check(self.init, offers, "rows on a GPU (only with device='cpu')")
        return objective

    def _needs_memory(self) -> str | None:
        """The first option, if there is one, for which all rows must be in host memory."""
        options = {
            f"algorithm={self.algorithm!r}": self.algorithm not in ("auto", "lloyd"),
            f"distortion={self.distortion!r}": self.distortion is not None,
            "certify=True": self.certify,
            f"size_min={self.size_min!r}": self.size_min is not None,
            f"size_max={self.size_max!r}": self.size_max is not None,
        }
        return next((option for option, given in options.items() if given), None)

    def _card_for(self, X: Any) -> Any:
        return card_for(self.device, X)

    def _reads_small(self) -> bool:
        """Whether rows of float16, bfloat16, int8 and uint8 stay in their size in a fit."""
        plain = self.metric == "euclidean" and self.distortion is None
        return plain and not self.certify and not callable(self.init)

    def _open_blocks(
        self, source: SourceBlocks, objective: Objective, rng: np.random.Generator, card: Any
    ) -> BlockData:
        k = int(self.n_clusters)

        def check(totals: BlockTotals) -> None:
            if totals.n < k:
                raise ValueError(
                    f"n_samples={totals.n} should be >= n_clusters={k} ({source.description})."
                )
            validation.weight_range(totals.scale.lightest, totals.scale.heaviest)

        read = source if card is None else inspected(source)
        blocks = CoordinateBlocks(read, objective)
        data = open_blocks(blocks, self.init, k, check, rng, keep_costs=bool(self.verbose))
        if data.summary is not None and data.summary.n < k:
            raise ValueError(
                f"{source.description} has {data.summary.n} rows of positive weight, fewer than "
                f"n_clusters={k}. Lower n_clusters."
            )
        set_features(self, source, data.d)
        return data if card is None else blocks_on_card(card, data, read, objective)

    def _check_offers(self, objective: Objective) -> None:
        """ValueError unless `init`, `algorithm` and `certify` work with the objective."""
        offers = objective.offers | HostData.offers
        if isinstance(self.init, str):
            SEEDINGS.check(self.init, offers, objective.name)
        REFINEMENTS.check(self.algorithm, offers, objective.name)
        if self.certify and not self._certifiable():
            raise ValueError(
                f"certify=True needs metric='euclidean' and no distortion; with {objective.name} "
                "there is no lower bound. Set certify=False."
            )

    def _options(self, objective: Objective, data: Any, X: Any) -> FitOptions:
        limits, spread = self._size_limits(data), data.spread()
        self._n_init = self._runs()  # tests of scikit-learn read it
        return FitOptions(
            int(self.n_clusters), self._start(objective, X), self._algorithm(), self._n_init,
            self.max_iter, self.tol, spread, limits, self._keep_costs,
        )  # fmt: skip

    def _start(self, objective: Objective, X: Any) -> Any:
        """`init` for `FitOptions`: a name, or a function that makes centres.

        A callable is given the rows as the user gave them (of blocks, those of the summary), and
        the user's generator, if `random_state` is one; otherwise a RandomState, for which
        scikit-learn's users have written it.
        """
        init, k = self.init, int(self.n_clusters)
        if isinstance(init, str):
            return init
        own = isinstance(self.random_state, np.random.Generator)

        def made(data: Data, rng: np.random.Generator) -> F64:
            given = init
            if callable(init):
                state = rng if own else np.random.RandomState(rng.integers(2**32))
                rows: Any = data
                user_rows = rows.rows.X if isinstance(X, SourceBlocks) else X
                given = init(user_rows, k, random_state=state)
            return validation.given_centers(
                host_copy(given, "init"), k, objective, data.dtype, data.d
            )

        return made

    def _size_limits(self, data: Any) -> SizeLimits | None:
        """None if there are none; ValueError if they cannot hold."""
        if not self._limited:
            return None
        for option, given, wanted in (
            ("algorithm", self.algorithm, ("auto", "lloyd", "swap")),
            ("distortion", self.distortion, (None,)),
        ):
            if given not in wanted:
                names = ", ".join(map(repr, wanted))
                raise ValueError(
                    f"size_min and size_max do not work with {option}={given!r}; use "
                    f"{option}={names}."
                )
        limits = SizeLimits(self.size_min, self.size_max)
        limits.check(data.n, data.weight, int(self.n_clusters))
        return limits

    def _runs(self) -> int:
        given = _is_arraylike_not_scalar(self.init)
        if self.n_init == "auto":
            careful = isinstance(self.init, str) and self.init != "random"
            return 1 if given or careful else 10
        if given and self.n_init != 1:
            validation.warn(
                "Explicit initial center position passed: performing only one init in "
                f"{type(self).__name__} instead of n_init={self.n_init}.",
                RuntimeWarning,
            )
            return 1
        return int(self.n_init)

    def _algorithm(self) -> str:
        if self.algorithm == "elkan" and self.n_clusters == 1:
            validation.warn(
                "algorithm='elkan' doesn't make sense for a single cluster. Using 'lloyd' instead.",
                RuntimeWarning,
            )
            return "lloyd"
        return self.algorithm

    @property
    def _limited(self) -> bool:
        return self.size_min is not None or self.size_max is not None

    # -- what is stored ----------------------------------------------------------------------------

    def _lost(self, objective: Objective) -> str | None:
        """Why no guarantee holds: limits, then the start, then the objective."""
        if self._limited:
            return guarantees.LOST["size limits"]
        if isinstance(self.init, str):
            return SEEDINGS[self.init].lost or objective.lost
        return guarantees.LOST["callable" if callable(self.init) else "array"]

    def _fit_record(self) -> FitRecord:
        return replace(
            super()._fit_record(), metric=self.metric, inertia=self.inertia_, n_iter=self.n_iter_,
            limited=self._limited, gap=self.assignment_gap_,
            certificate=vars(self).get("certificate_"), certifiable=self._certifiable(),
            guarantee=self.guarantee_, lost=self.guarantee_lost_,
        )  # fmt: skip

    def _certifiable(self) -> bool:
        return self.metric == "euclidean" and self.distortion is None

    def _certificate(
        self, data: HostData, best: LloydResult, rng: np.random.Generator, report: Report | None
    ) -> Certificate:
        """A lower bound on the cost of any centres, beside the cost of the best run."""
        centers, limited = best.centers.astype(np.float64), self._limited
        labels = data.rows.nearest(centers) if limited else best.labels
        found = certify_kmeans(data, centers, labels, rng, report=report)
        if not limited:
            return found
        rounding = found.only_rounding and found.cost == best.inertia
        return replace(found, cost=best.inertia, only_rounding=rounding)

    def _store(
        self, objective: Objective, best: LloydResult, centers: Any, labels: Any,
        certificate: Certificate | None,
    ) -> None:  # fmt: skip
        self._objective = objective
        self.cluster_centers_ = centers
        self.labels_ = labels
        self.inertia_ = best.inertia
        self.assignment_gap_ = best.assignment_gap
        self.__dict__.pop("certificate_", None)  # of an earlier fit
        if certificate is not None:
            self.certificate_ = certificate
        self.guarantee_, self.guarantee_lost_ = None, self._lost(objective)
        by_name = isinstance(self.init, str) and self.init != BY_ROUNDS
        if by_name and isinstance(labels, BlockLabels):
            self.guarantee_lost_ = guarantees.LOST["summary"]
        if self.guarantee_lost_ is None:
            self.guarantee_ = guarantees.plain_seeding(
                int(self.n_clusters), certifiable=self._certifiable(), certificate=certificate
            )
        self.n_iter_ = best.n_iter
        if self._keep_costs:
            self._costs = (*best.costs[1:], best.inertia)  # after each iteration
        distinct = self.n_clusters if best.counts is None else int(np.count_nonzero(best.counts))
        validation.warn_of_few_clusters(distinct, self.n_clusters)
