"""Mistakes in rooms that know neither privacy nor peers."""

from experiments.mutant import Mutant

CLUSTERING = [
    Mutant(
        "a worse assignment within limits is taken", "refining.size_limits",
        "if best is None or kept <= cost:",
        "if best is None:",
        "laws/test_size_limit_laws.py",
    ),
    Mutant(
        "size_max is rounded up to whole rows", "refining.size_limits",
        "high = min(units, math.floor(limits.high",
        "high = min(units, math.ceil(limits.high",
        "laws/test_size_limit_laws.py",
    ),
    Mutant(
        "split rows are not part of the gap", "refining.size_limits",
        "own[parts.rows] = 0.0",
        "pass",
        "laws/test_size_limit_laws.py",
    ),
    Mutant(
        "repairs look at the upper limit only", "refining.size_repair",
        "return np.maximum(sizes - limits.high, 0) + np.maximum(limits.low - sizes, 0)",
        "return np.maximum(sizes - limits.high, 0)",
        "laws/test_size_limit_laws.py",
    ),
    Mutant(
        "prices of a sample are not used", "data.transport_plan",
        "return FirstPrices(plan.prices.expecting(0.5), SAMPLED * plan.far)",
        "return FirstPrices(Prices.zero(rows, centers))",
        "laws/test_transport_laws.py",
    ),
    Mutant(
        "draws are off by one", "numerics.draws",
        "drawn: I64 = np.searchsorted(",
        "drawn: I64 = -1 + np.searchsorted(",
        "sampling/test_kmedian_distribution.py",
    ),
    Mutant(
        "the last row is never drawn first", "data.exact_sums",
        "return int(u * 2**53) * total >> 53",
        "return int(u * 2**53) * (total - 1) >> 53",
        "sampling/test_small_distribution.py",
    ),
    Mutant(
        "proposed rows are off by one", "seeding.euclidean_potential",
        "return found.row",
        "return max(0, found.row - 1)",
        "sampling/test_small_distribution.py",
    ),
    Mutant(
        "new centres do not lower the potential", "seeding.euclidean_potential",
        "self._costs.lower(fresh, self._flushed,",
        "self._costs.lower(fresh[:1], self._flushed,",
        "sampling/test_small_distribution.py laws/test_skipping_laws.py",
    ),
    Mutant(
        "greedy seeding keeps the worst candidate", "seeding.euclidean_potential",
        "largest = [i for i, (_, high) in enumerate(bounds) if not high < least]",
        "largest = [min(range(len(bounds)), key=lambda i: bounds[i][1])]",
        "sampling/test_small_distribution.py",
    ),
    Mutant(
        "k-means|| reclusters without weights", "seeding.kmeans_parallel",
        "points.subset(candidates), mass,",
        "points.subset(candidates), None,",
        "laws/test_parallel_laws.py sampling/test_parallel_distribution.py",
    ),
    Mutant(
        "LS++ makes swaps that do not help", "seeding.local_search",
        "if swap.cost < state.total * (1 - p.rows.n * EPS):",
        "if swap.cost < state.total * 1.5:",
        "laws/test_local_search_laws.py",
    ),
    Mutant(
        "canonical order is not applied", "seeding.seeding_problem",
        "order = self.rows.canonical_order()",
        "order = None",
        "laws/test_symmetry_laws.py",
    ),
    Mutant(
        "a draw in a shard starts at the total of all", "data.row_costs",
        "propose(goal - ends[s] + totals[s], pending, first)",
        "propose(goal, pending, first)",
        "sampling/test_sharded_distribution.py",
    ),
    Mutant(
        "a shard's gains are forgotten", "data.row_costs",
        "return [sum(gains) for gains in zip(*parts, strict=True)]",
        "return [gains[0] for gains in zip(*parts, strict=True)]",
        "sampling/test_sharded_distribution.py",
    ),
    Mutant(
        "shards choose scales of their own", "refining.assigners",
        "list(self._map(lambda s: s.set_scale(scale), self._shards))",
        "pass",
        "laws/test_shard_laws.py",
    ),
    Mutant(
        "a mean is divided by the count", "refining.lloyd",
        "if unit else weights",
        "if unit else statistics.counts",
        "laws/test_lloyd_laws.py",
    ),
    Mutant(
        "centres leave the unit sphere", "refining.lloyd",
        "if unit else weights",
        "if False else weights",
        "laws/test_lloyd_laws.py",
    ),
    Mutant(
        "empty clusters stay empty", "refining.lloyd",
        "and not statistics.counts.all():",
        "and False:",
        "laws/test_empty_cluster_laws.py",
    ),
    Mutant(
        "labels are not those of rounded centres", "refining.lloyd",
        "labelled = end.converged and np.array_equal(end.centers, rounded)",
        "labelled = end.converged",
        "laws/test_assignment_laws.py laws/test_lloyd_laws.py",
    ),
    Mutant(
        "ties go to the highest index", "data.rows",
        "        _native.assign(self.view, centers, labels)\n        return labels",
        "        _native.assign(self.view, np.ascontiguousarray(centers[::-1]), labels)\n"
        "        return (len(centers) - 1 - labels).astype(np.int32)",
        "laws/test_assignment_laws.py",
    ),
    Mutant(
        "bounds move by half of the way", "refining.assigners",
        "roots = np.sqrt(squares)",
        "roots = 0.5 * np.sqrt(squares)",
        "laws/test_lloyd_laws.py",
    ),
    Mutant(
        "the last shard is dropped", "refining.assigners",
        "return reduce(operator.add, parts)",
        "return reduce(operator.add, list(parts)[:-1])",
        "laws/test_shard_laws.py",
    ),
    Mutant(
        "a block is assigned with a scale of its own", "refining.block_assigner",
        'self._k, "lloyd", self.scale)',
        'self._k, "lloyd", None)',
        "laws/test_block_laws.py contracts/test_kmeans_blocks.py",
    ),
    Mutant(
        "drawn rows keep their own weights", "summaries.coreset",
        "weights=drawn.weights)",
        "weights=points.weights[drawn.rows])",
        "laws/test_summary_laws.py sampling/test_summary_distribution.py",
    ),
    Mutant(
        "the memory of a leaf is used again at once", "summaries.merge_reduce",
        "self._empty_leaf(), None, leaf",
        "leaf.emptied(), None, leaf",
        "contracts/test_streaming_kmeans.py",
    ),
    Mutant(
        "coresets always take the same draws", "data.cells",
        "seed = int(rng.integers(2**64, dtype=np.uint64))",
        "seed = 0",
        "sampling/test_summary_distribution.py",
    ),
    Mutant(
        "a failed batch stays in the stream", "streaming.stream_state",
        "            self.__dict__ = before\n",
        "",
        "contracts/test_streaming_kmeans.py",
    ),
    Mutant(
        "a half-life is twice as long", "streaming.stream_state",
        "growth = np.exp2(rows / self.half_life - self._halvings)",
        "growth = np.exp2(rows / self.half_life / 2 - self._halvings)",
        "laws/test_stream_state_laws.py",
    ),
    Mutant(
        "a centre of an on-line step ignores the centres before", "streaming.online",
        "made.add(centers)",
        "pass",
        "sampling/test_online_distribution.py laws/test_online_laws.py",
    ),
    Mutant(
        "the cost of an assignment ignores weights", "refining.assigners",
        "return exact_total(self._costs(), self._weight)",
        "return exact_total(self._costs(), None)",
        "laws/test_shard_laws.py laws/test_lloyd_laws.py",
    ),
    Mutant(
        "Hartigan moves rows to the nearest mean", "data.cluster_sums",
        "        return _native.hartigan(",
        "        old = labels.copy()\n"
        "        labels[:] = self._rows.nearest(centers)\n"
        "        return int(np.count_nonzero(labels != old))\n"
        "        return _native.hartigan(",
        "laws/test_hartigan_laws.py",
    ),
    Mutant(
        "mini-batches forget the batches before", "refining.minibatch",
        "self.counts += count",
        "self.counts = count.copy()",
        "laws/test_minibatch_laws.py",
    ),
    Mutant(
        "a Kullback-Leibler centre is the unweighted mean", "objectives.divergence_objective",
        "sum_rows(self._X[own], None if self._weight is None else weight)",
        "sum_rows(self._X[own], None) / max(len(own), 1) * weight.sum()",
        "laws/test_distortion_fit_laws.py",
    ),
    Mutant(
        "a certificate is not rounded down", "certificates.dual",
        "offered - gained - 2.0 * error",
        "offered - gained + 2.0 * error",
        "laws/test_certificate_laws.py",
    ),
    Mutant(
        "a certificate leaves out the best candidate", "certificates.dual",
        "gained = math.fsum(gain[largest(gain, k)])",
        "gained = math.fsum(gain[largest(gain, k - 1)])",
        "laws/test_certificate_laws.py",
    ),
    Mutant(
        "a certificate ignores the rounding of distances", "certificates.dual",
        "bound = bound * (1 - error.relative)",
        "bound = bound",
        "laws/test_certificate_laws.py",
    ),
    Mutant(
        "a sample forgets heavy weights", "numerics.draws",
        "unit * np.maximum(mass[taken] / unit, threshold)",
        "np.full(size, unit * threshold)",
        "sampling/test_priority_sample.py",
    ),
    Mutant(
        "a failed fit is not undone", "estimators.validation",
        "            vars(model).clear()\n            vars(model).update(before)\n",
        "",
        "contracts/test_failed_refit.py",
    ),
    Mutant(
        "triangles that were not checked are taken for granted", "estimators.metric_input",
        "if checked < of:",
        "if False:",
        "laws/test_local_optimum_laws.py",
    ),
    Mutant(
        "a k-means certificate leaves out the largest eigenvalue", "certificates.kmeans_dual",
        "np.linalg.eigvalsh(raised)[max(0, n - k) :]",
        "np.linalg.eigvalsh(raised)[max(0, n - k) : -1]",
        "laws/test_kmeans_certificate_laws.py",
    ),
    Mutant(
        "samples claim their mean", "certificates.kmeans_certificate",
        "return total * smallest_mean(mean, self.draws, 1 - self.confidence)",
        "return total * mean",
        "laws/test_kmeans_certificate_laws.py",
    ),
    Mutant(
        "a guarantee is claimed for greedy seeding", "estimators.kmeans",
        "return SEEDINGS[self.init].lost or objective.lost",
        "return objective.lost",
        "laws/test_guarantee_laws.py",
    ),
    Mutant(
        "a sum has half of its sensitivity", "numerics.lattice",
        'return most if adjacency == "add-remove" else 4 * most',
        'return most // 4 if adjacency == "add-remove" else most',
        "privacy/test_lattice.py privacy/test_ledger.py",
    ),
]  # fmt: skip
