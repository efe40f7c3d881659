"""The internals that tests use, by one name each: `from api import Rows`.

Tests import what is not public from here only. So if a module is renamed, merged or divided, this
table changes and the tests stay. Names with another one in the sources are written `name=source`.
"""

from __future__ import annotations

import importlib
from typing import Any

_PLACES = """
__main__: main
balancing.anticlusters: evenly_packed
balancing.feasible_groups: dealt FirstGroups
balancing.group_balance: differences group_balance random_deviation
balancing.group_objectives: centred GROUP_OBJECTIVES
balancing.group_problem: Categories group_problem InfeasibleError Links NO_LINKS
certificates.certificate: Certificate smallest_mean
certificates.kmeans_certificate: capped_bound certify_kmeans KnownClusters lower_bound SamplePlan
    solve WeightedDistances
certificates.kmedian_certificate: certify
cli.app: app tables
cli.fit_command: FitRequest
cli.fit_private: parse_bounds
cli.reading: ReadRequest
cli.saved_model: load_model
cli: main_of_command=main
cuda.card: card_of CardArray LockedMemory source_of source_with
cuda.costs: CANDIDATE_GROUPS=GROUPS
cuda.filter: Changes Filter frame_of is_small KEPT Shape shape_for
cuda.row_stream: InspectedBlocks RowStream
cuda.rows: defines_of
dask.partitions: moves TOLERATED
dask.transport: threads_of_task
data.assigners: FarRows InMemoryAssigner Labelled squared_moves upper_bounds
data.block_data: BlockAssigner BlockData read_weights
data.blocks: Block CountedBlocks SourceBlocks take_rows
data.cluster_sums: ClusterSums FloatStatistics SumsByLabel SumScale
data.distance_tables: DistanceLists DistanceTable StreamedDistances
data.exact_sums: exact_total ExactSums exponent_of from_float LIMBS NarrowSums
    to_float unscaled whole
data.exchanges: exchange_distances exchange_rows ExchangeOptions
data.graph: Graph NeighborLists
data.host_data: HostData
data.hst_tree: grow hst_seed HstTree seed_on_tree
data.lattice_rows: Balls CappedDistances farthest largest_values Lattice lattice_sums NORMS
    on_unit_lattice outside_radius quantize quantize_sparse sparse_sums squared_distances
    SquaredDistances
data.metric_spaces: CallableMetric DistanceMatrix
data.metrics: DISTANCES EDGES METRICS NATIVE_METRICS PLACES ROWS SparseCosine Vectors
data.row_costs: RowCosts ShardedCosts stay_limit
data.rows: joint_cost Rows SMALL spread_around total_cost unit_rows
data.scans: SCANS
data.transport_plan: Prices transport UnitLimits
demo.cities: load_cities name_regions
demo.town: folds_section FoldTrials load_town straight_choice
estimators.callbacks: CallbackSupportMixin FitCallbacks torn_down_after
estimators.fit_record: fit_record_of FitRecord
estimators.group_input: GROUP_METRICS
estimators.online_kmeans: OnlineKMeans
estimators.file_shares: find_files fitted_to
estimators.partitions: FilePartition Partition
estimators.private_input: LARGEST SMALLEST without_missing
estimators.private_kmedian: checked_demand
estimators.validation: all_or_nothing
extras: MissingPackageError needed
federated.client: checked_bounds FEDERATED
federated.flower_transport: content_of FlowerTransport MESSAGE_TYPE record_of run_apps
    wait_for_nodes
federated.private_fit: ledger_of SummingPeer
federated.private_peer: PrivatePeer Refused Releases UNIT
federated.server: fit server_app server_options=ServerOptions simulate
federated.vertical: SESSION simulate_vertical STATE
file_writing: write_aside
fitting: fit_kmeans FitOptions
guarantees: LOST theorem_4
k_selection: elbow_of guess silhouette_of suggest Suggestion
k_selection.confirmation: Confirmation FALSE_ALARM
k_selection.search: DivisionTest settled
numerics.elementary: arcsine exp2 expm1 log1p sine_cosine
numerics.draws: draw_proportional priority_sample
numerics.valleys: deepest_valley pooled_p_value RoundedColumns Valley ValleyCounts
objectives.distortion: KullbackLeibler mean_row MIX
objectives.distortions: DISTORTIONS Mahalanobis
objectives.objective: DivergenceObjective filled in_dtype objective_for OBJECTIVES
    SquaredEuclidean
palette: FAINT INK lighter looks MARKERS PALETTE spread_colors
peers.bounds: PublicBounds
peers.coordinator: call Coordinator PeerLost
peers.encoding: decode decode_envelope decode_reply encode encode_envelope encode_reply MAX_BYTES
    VERTICAL_DTYPES
peers.masked_group: SummedPeersData
peers.masked_peer: MaskedPeer SUMMED SummedQuestion
peers.masks: bound_exponent exact_sum fingerprint FixedPoint KeyPair PairwiseKeys PART row_at
    stream
peers.peers_data: dk_means_plusplus fit_peers guarantee_of PeersData PeersPotential
peers.questions: Envelope LogNeeded Peer Policy Question QUESTIONS TRUSTING
peers.transport: Dropped Failure reply_of Transcript
peers.vertical: Aggregator InProcessParties MaskedAssigner MaskedPotential VerticalSession
peers.vertical_party: VerticalParty
privacy.auditing: Approximate audit Concentrated high low near
privacy.budget: Budget BudgetError Cost Loss
privacy.empty_cells: Passing sample_passing
privacy.ledger: Charge FitFacts Ledger
privacy.mechanisms: Accountant charge_of loss noisy_rows NoisyRows release Share shrink
privacy.noise_source: Calibrated calibrated CHOICES ForkGuard GUARD measurement
privacy.price: price price_of_squared_distances=squared_distances
privacy.query: CappedSum CellCounts count_query Histogram histogram_query score_query Scores
    sum_query total_query
privacy.rounding: as_written at_most down epsilon_of rho_for root_up split up
privacy.secret: PublicError Secret
privacy.testers: gather Statistic TESTERS
private_methods.candidate_trials: Projection RemainingCost
private_methods.candidates: Candidates KMeansTrials
private_methods.demand_candidates: Cell DemandCandidates projected recover_medoids
private_methods.demand_counts: DemandCells DemandHst level_costs LeveledTree nearest_counts
    noisy_tree
private_methods.domain: Domain
private_methods.methods: AutoMethod ENOUGH_FEW PRIVATE_KMEDIAN_METHODS PRIVATE_METHODS
private_methods.noisy_centers: CHANCE NoisyCounts PassedCells RATE
private_methods.noisy_grid: clear_centers GridMethod make_grid
private_methods.noisy_kvariates: Conditional Floored FlooredPotential NoisyForgy resize
    WithLaplace
private_methods.noisy_lloyd: NoisyAssigner NoisyLloyd StepCosts
private_methods.noisy_tree: Axes locate NoisyMoments RowsLocation TreeMethod worthwhile
private_methods.private_swaps: DemandLocalSearch draw_swaps private_search PrivateChooser
    public_candidates
private_methods.recovery: Recovery
private_methods.sample_aggregate: Gupt SampleAggregate
private_methods.task: DemandTask PrivateMethod PrivateResult PrivateTask RowCount
    run_method Traits
ray.kmeans: RayActors=_Actors
refining.lloyd: lloyd LloydResult MeanUpdate refine RefineProblem StopRule
refining.refinements: batches hartigan lloyd_with_swaps minibatch REFINEMENTS swapped
refining.size_limits: LimitedScan refine_within SizeLimits
refining.swaps: AllCandidates MedoidProblem MedoidState search swap_medoids SwapSearch
report.clusters: contrast in_words
report.figures: AxisScale Bar bars Line lines share_bar tick_words
report.fit_page: cost_change fit_html write_fit
report.pictures: BRIGHTER draw_map picture rgb_of STYLE to_degrees WorldMap
report.page: as_options DARK LIGHT MINUS number number_within page_html Section table text visible
report.plane: city_near coordinates known_cities plane robust_limits shown_rows
report.run: FitRun FittedTable ShownRows
report.figures: Scatter scatter
report.sections: choice_section release_costs times_as_likely
report.pictures: _top
seeding.densities: EveryPoint UniformOver
seeding.global_kmeans: draw_candidates global_kmeans
seeding.medoid_seedings: kmedian_plusplus MEDOID_SEEDINGS PointIndex
seeding.sampler: Dirac euclidean_potential EuclideanPotential greedy_trials sample sample_rows
    SeedingProblem
seeding.seedings: HOST_SEEDINGS kmeans_parallel local_search LocalSearchState
    OVERSAMPLING PEER_SEEDINGS ROUNDS=N_ROUNDS search_steps SEEDINGS
sources.assembling: BlockMemory
sources.graph_files: read_places
sources.private_text: demand_numbers
sources.scaling: scale_for SCALINGS standardize
sources.text_format: HINT
sources.text_lines: TextCheck
sources.text_sniffing: SAMPLE_BYTES
summaries.candidate_tree: candidate_tree CubeRows Shifted SIDE
summaries.merge_reduce: MergeReduce Reservoir rounded_to_integers summarize SYNOPSES
summaries.partition: Chosen depth level_shares Members Moments root rules
summaries.stream_state: next_center StreamState
summaries.weighted_points: coreset kmeans_sharp lightweight SummaryOptions WeightedPoints
tables: Entry Table
"""

# Modules whose attributes tests replace.
_MODULES = """
balancing.anticlusters balancing.feasible_groups balancing.group_balance
certificates.kmeans_certificate certificates.kmedian_certificate
cli.app cli.fit_dask cli.fit_means cli.measuring cli.options cli.screen
data.cluster_sums data.distance_tables data.lattice_rows
data.scans data.transport_plan demo demo.cities estimators.metric_input estimators.validation
federated.client federated.private_peer peers.masks peers.vertical privacy.empty_cells
privacy.mechanisms privacy.noise_source privacy.query privacy.secret private_methods.demand_counts
private_methods.domain private_methods.noisy_grid private_methods.noisy_kvariates
private_methods.noisy_lloyd private_methods.noisy_tree private_methods.private_swaps
private_methods.sample_aggregate private_methods.task refining.medoid_search
refining.refinements refining.swaps report.clusters seeding.global_kmeans
seeding.seedings sources.assembling sources.input_file
sources.opened_table sources.private_text sources.scaling estimators.saving file_writing
summaries.merge_reduce
summaries.partition
"""


def _places() -> dict[str, tuple[str, str]]:
    """For each name of `_PLACES` the module below kvariates and the name there."""
    places: dict[str, tuple[str, str]] = {}
    module = ""
    for word in _PLACES.split():
        if word.endswith(":"):
            module = word[:-1]
            continue
        name, _, source = word.partition("=")
        if name in places:
            raise ValueError(f"{name} is in tests/api.py twice.")
        places[name] = module, source or name
    return places


_KNOWN = _places()
_KNOWN_MODULES = {f"{module.rpartition('.')[2]}_module": module for module in _MODULES.split()}


def __getattr__(name: str) -> Any:
    """Import a name when a test asks for it: a test needs no packages of other tests."""
    if name in _KNOWN_MODULES:
        return importlib.import_module(f"kvariates.{_KNOWN_MODULES[name]}")
    if name not in _KNOWN:
        raise AttributeError(f"{name} is not in tests/api.py.")
    module, source = _KNOWN[name]
    return getattr(importlib.import_module(f"kvariates.{module}"), source)
