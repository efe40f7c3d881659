"""Plants mistakes in the library, one at a time, and shows which test catches each.

    python -m experiments.mutants             all of them (minutes)
    python -m experiments.mutants LLOYD TIES  those with one of these words in their name

A mutant is a piece of source that is replaced when its module is imported; no file is changed. It
is caught if a test fails that passes without it. The exit code is 1 if one is not caught.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CHOSEN = "KVARIATES_MUTANT"  # the environment variable that names the mutant to plant


@dataclass(frozen=True)
class Mutant:
    name: str
    module: str  # below kvariates
    before: str  # occurs once in the module
    after: str
    tests: str  # below tests/, separated by spaces

    @property
    def path(self) -> Path:
        return ROOT / "src" / "kvariates" / (self.module.replace(".", "/") + ".py")

    def plant(self, source: str) -> str:
        if source.count(self.before) != 1:
            raise ValueError(f"{self.name}: {self.before!r} is not in {self.path} once.")
        return source.replace(self.before, self.after)


MUTANTS = [
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
        "the first peer is drawn uniformly", "peers.peer_seeding",
        "self._values |= self._coordinator.ask(asked)",
        "self._values |= self._coordinator.ask(asked)\n"
        "            if not self._known:\n"
        "                self._values = dict.fromkeys(self._values, 1.0)",
        "peers/test_peers_distribution.py",
    ),
    Mutant(
        "a lost state is computed without its last question", "peers.peer",
        "for question in envelope.log or ():",
        "for question in (envelope.log or ())[:-1]:",
        "peers/test_peers_laws.py",
    ),
    Mutant(
        "a policy does not cover the log", "peers.peer",
        "for question in (*(envelope.log or ()), envelope.question):",
        "for question in (envelope.question,):",
        "peers/test_failing_peers.py",
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
    Mutant(
        "a replaced row moves one count only", "privacy.query",
        'return 1 if adjacency == "add-remove" else self.replaced',
        "return 1",
        "privacy/test_mechanism_audits.py",
    ),
    Mutant(
        "a charge is not recorded", "privacy.mechanisms",
        "self.charges.append(made.charge)",
        "pass",
        "privacy/test_every_method.py",
    ),
    Mutant(
        "noisy Lloyd makes one step that is not paid for", "private_methods.noisy_lloyd",
        "return step.iteration + 1 == len(self.costs)",
        "return step.iteration + 1 == len(self.costs) + 1",
        "privacy/test_noisy_lloyd.py privacy/test_every_method.py",
    ),
    Mutant(
        "noise is drawn in any copy of a process", "privacy.noise_source",
        "        GUARD.check()\n",
        "",
        "privacy/test_fork_guard.py",
    ),
    Mutant(
        "a ledger adds charges for other neighbours", "privacy.ledger",
        "if charge.adjacency != self.adjacency:",
        "if False:",
        "privacy/test_ledger.py",
    ),
    Mutant(
        "a budget adds losses for other neighbours", "privacy.budget",
        "if line.adjacency != self.adjacency:",
        "if False:",
        "privacy/test_budget.py",
    ),
    Mutant(
        "the length of a secret can be read", "privacy.secret",
        "    __len__ = __iter__ = ",
        "    __len__ = lambda self: len(self._Secret__value)\n    __iter__ = ",
        "privacy/test_secret.py",
    ),
    Mutant(
        "a secret can be pickled", "privacy.secret",
        "    __reduce_ex__ = __reduce__ = __getstate__ = __setstate__ = _refuse\n",
        "",
        "privacy/test_secret.py",
    ),
    Mutant(
        "an error shows private rows", "privacy.secret",
        "except Exception as error:",
        "except ZeroDivisionError as error:",
        "privacy/test_secret.py",
    ),
    Mutant(
        "the noisy spread is paid for and the exact one used", "private_methods.principal_axes",
        "left = float(squares.value[0, 0]) / n",
        'left = float(added.reveal("no reason")[0, 0]) / n',
        "privacy/test_replay.py",
    ),
    Mutant(
        "a draw has no floor", "private_methods.noisy_kvariates",
        "each = np.ceil(part * UNIT).astype(np.int64) + self.floor",
        "each = np.ceil(part * UNIT).astype(np.int64)",
        "privacy/test_replay.py",
    ),
    Mutant(
        "secure sums: a round can be asked twice", "peers.masked_peer",
        "after = replace(kept, last_round=round, asked=asked)",
        "after = replace(kept, asked=asked)",
        "peers/test_masked_peers.py",
    ),
    Mutant(
        "secure sums: masks do not depend on the questions", "peers.masked_peer",
        "question.masked(answer, keys, round, asked)",
        'question.masked(answer, keys, round, b"")',
        "peers/test_masked_peers.py",
    ),
    Mutant(
        "secure sums: a peer joins any number of groups", "peers.masked_peer",
        "groups=kept.groups + 1",
        "groups=kept.groups",
        "federated/test_secure_sums.py",
    ),
    Mutant(
        "secure sums: a peer is missing in the sum", "peers.masked_group",
        "if len(answers) < len(calls):",
        "if not answers:",
        "federated/test_secure_sums.py",
    ),
    Mutant(
        "what a client keeps is read and written by two threads", "federated.client",
        "with _one_at_a_time:",
        "if True:",
        "federated/test_fits.py",
    ),
    Mutant(
        "vertical: masks do not cancel", "peers.masks",
        "mask[part] -= numbers",
        "mask[part] += numbers",
        "peers/test_masks.py",
    ),
    Mutant(
        "vertical: masks are the same in every round", "peers.masks",
        'round_number.to_bytes(8, "little")',
        "bytes(8)",
        "peers/test_hidden_values.py",
    ),
    Mutant(
        "vertical: a round can be asked twice", "peers.masks",
        "if round_number <= self._last_round:",
        "if round_number < self._last_round:",
        "peers/test_masks.py",
    ),
    Mutant(
        "masks: a key does not name its pair", "peers.masks",
        "purpose + _pair(index, j, public_keys)",
        "purpose",
        "peers/test_masks.py peers/test_masked_peers.py",
    ),
    Mutant(
        "vertical: keys do not depend on the list of public keys", "peers.masks",
        'salt = hashlib.sha256(b"".join(public_keys)).digest()',
        "salt = bytes(32)",
        "peers/test_masks.py",
    ),
    Mutant(
        "vertical: masks and messages have the same key", "peers.masks",
        'b"kvariates " + purpose',
        'b"kvariates "',
        "peers/test_masks.py",
    ),
    Mutant(
        "vertical: a key pair serves two sessions", "peers.vertical_party",
        "self._key_pair = None  # keys that are used twice would repeat masks",
        "pass",
        "contracts/test_vertical_contract.py",
    ),
    Mutant(
        "vertical over Flower: a new process forgets the last round", "peers.vertical_party",
        'PairwiseKeys(own, state["index"], public_keys, state["last_round"])',
        'PairwiseKeys(own, state["index"], public_keys)',
        "federated/test_vertical_messages.py",
    ),
    Mutant(
        "vertical over Flower: a new process forgets the questions", "peers.vertical_party",
        'state["message"], state["secret"], state["asked"],',
        'state["message"], state["secret"], b"",',
        "federated/test_vertical_messages.py",
    ),
    Mutant(
        "vertical over Flower: a message is answered twice", "federated.vertical_client",
        'if number <= kept["number"]:',
        'if number < kept["number"]:',
        "federated/test_vertical_messages.py",
    ),
    Mutant(
        "vertical over Flower: columns may change in a session", "federated.vertical_client",
        'if kept["columns"] != loaded.columns:',
        "if False:",
        "federated/test_vertical_messages.py",
    ),
    Mutant(
        "vertical: the hash of ids has no secret", "peers.vertical_party",
        'self._secret = hashlib.sha256(b"".join(m[:SHARE] for m in messages)).digest()',
        "self._secret = bytes(32)",
        "contracts/test_vertical_contract.py",
    ),
    Mutant(
        "vertical: ids are hashed without their lengths", "peers.vertical_party",
        'return len(value).to_bytes(8, "little") + value',
        "return value",
        "contracts/test_vertical_contract.py",
    ),
    Mutant(
        "vertical: variances are sent without masks", "peers.vertical_party",
        "values + keys.mask(2, round, self._asked)",
        "values + 0 * keys.mask(2, round)",
        "peers/test_hidden_values.py",
    ),
    Mutant(
        "vertical: distances are cut, not rounded", "peers.fixed_point",
        "np.rint(scaled, out=scaled)",
        "np.floor(scaled, out=scaled)",
        "peers/test_fixed_point.py",
    ),
    Mutant(
        "vertical: the bound forgets the rounding of means", "peers.fixed_point",
        "high - low + 4 * last_place",
        "high - low + 0 * last_place",
        "peers/test_fixed_point.py",
    ),
    Mutant(
        "vertical: rows are drawn by the last centre alone", "peers.vertical",
        "np.minimum(self._costs[block], sums.min(axis=1), out=self._costs[block])",
        "self._costs[block] = sums.min(axis=1)",
        "peers/test_vertical_seeding.py",
    ),
    Mutant(
        "vertical: a draw is off by one row", "peers.fixed_point",
        'goal & int(LOW), side="right"',
        'goal & int(LOW), side="left"',
        "peers/test_fixed_point.py",
    ),
    Mutant(
        "vertical: ties go to the highest index", "peers.vertical",
        "sums.argmin(axis=1)",
        "(self.k - 1 - sums[:, ::-1].argmin(axis=1))",
        "peers/test_vertical_kmeans.py",
    ),
    Mutant(
        "vertical: labels are those before the last update", "peers.vertical",
        "if not end.converged:",
        "if False:",
        "peers/test_vertical_kmeans.py",
    ),
    Mutant(
        "vertical: empty clusters stay empty", "peers.vertical",
        "labels[far] = empty[: len(far)]",
        "pass",
        "peers/test_vertical_kmeans.py",
    ),
    Mutant(
        "vertical: the centres of the last run are kept", "peers.vertical_party",
        "labels.astype(np.int32), self._best",
        "labels.astype(np.int32), self.centers",
        "peers/test_vertical_kmeans.py",
    ),
    Mutant(
        "vertical: the tolerance is that of all columns together", "peers.vertical",
        "session.unit.decode_total(int(variance)) / int(columns)",
        "session.unit.decode_total(int(variance))",
        "peers/test_vertical_kmeans.py",
    ),
]  # fmt: skip
BY_NAME = {mutant.name: mutant for mutant in MUTANTS}


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, mutant: Mutant, name: str) -> None:
        super().__init__(name, str(mutant.path))
        self._mutant = mutant

    def get_code(self, fullname: str) -> CodeType:
        source = self._mutant.path.read_text(encoding="utf-8")
        return compile(self._mutant.plant(source), self.path, "exec")


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the module of a mutant before anybody else does."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        if fullname != f"kvariates.{self._mutant.module}":
            return None
        loader = _Loader(self._mutant, fullname)
        return importlib.machinery.ModuleSpec(fullname, loader, origin=str(self._mutant.path))


def pytest_configure() -> None:
    """Plant the chosen mutant: this module is also a plugin of pytest."""
    if os.environ.get(CHOSEN):
        sys.meta_path.insert(0, _Finder(BY_NAME[os.environ[CHOSEN]]))


def failing_tests(tests: list[str], mutant: str = "") -> list[str]:
    """The tests that fail, or the first one if there is a mutant."""
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p",
         "experiments.mutants", *(["-x"] if mutant else []), *(f"tests/{test}" for test in tests)],
        cwd=ROOT, env={**os.environ, CHOSEN: mutant}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = re.findall(r"^(?:FAILED|ERROR) tests/(\S+::.*?)(?: - .*)?$", done.stdout, re.MULTILINE)
    if done.returncode and not found:
        raise RuntimeError(done.stdout + done.stderr)
    return found


def main() -> int:
    """Run all mutants whose name has one of the given words; return 1 if one is not caught."""
    words = [word.lower() for word in sys.argv[1:]]
    chosen = [m for m in MUTANTS if not words or any(word in m.name.lower() for word in words)]
    caught: dict[str, str] = {}
    for mutant in chosen:
        begin = time.perf_counter()
        for found in failing_tests(mutant.tests.split(), mutant.name):
            caught[mutant.name] = found
        seconds = time.perf_counter() - begin
        print(
            f"{mutant.name}: {caught.get(mutant.name, 'NOT CAUGHT')} ({seconds:.0f} s)", flush=True
        )
    wrong = failing_tests(sorted(set(caught.values()))) if caught else []
    print(*(f"fails without a mutant too: {test}" for test in wrong), sep="\n")
    print(f"{len(chosen)} mutants, {len(chosen) - len(caught)} not caught")
    return int(len(caught) < len(chosen) or bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
