"""The tasks of the benchmark; every section runs on every workload.

| section | task |
|---|---|
| plain | k-means++ seeding with one trial per centre |
| greedy | k-means++ seeding with scikit-learn's number of trials |
| lloyd | 20 Lloyd iterations from the same centres |
| converge | a fit from the same centres to convergence, at the default tolerance |
| csr-lloyd, csr-converge | the same two on sparse rows |
| raw-lloyd, raw-converge | the same two on raw tables; our steps on the standardised table, too |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from benchmarks.contestants import OURS, Contestant, Fit
from benchmarks.machine import Machine
from benchmarks.timing import Patience, Timing, race
from benchmarks.workloads import Array, Data, Workload, bytes_of, inertia, standardised

STEPS = 20
TOL, MOST_STEPS = 1e-4, 300
SCALED = "kvariates, standardised"


@dataclass(frozen=True)
class Cell:
    """One section on one workload: time, iterations and cost of each library."""

    section: str
    workload: str
    dtype: str
    timings: dict[str, Timing]
    costs: dict[str, float]
    steps: dict[str, int]
    share: dict[str, float]  # of the speed of the machine: nominal work / time

    def ratio(self, peer: str) -> float | None:
        """Their time divided by ours; above one, we are faster."""
        if peer not in self.timings or OURS not in self.timings:
            return None
        return self.timings[peer].median / self.timings[OURS].median

    def excess(self, peer: str) -> float | None:
        """Our cost divided by theirs, minus one."""
        if peer not in self.costs or OURS not in self.costs:
            return None
        return self.costs[OURS] / self.costs[peer] - 1


@dataclass(frozen=True)
class Section:
    name: str
    title: str
    takes_part: Callable[[Contestant], bool]
    task: Callable[[Contestant, Workload, Data, Array], Callable[[int], Fit]]
    peak: Callable[[Workload, Data, int, Machine], float]  # seconds of nominal work at full speed


def _seeding(trials: int | None) -> Callable[..., Callable[[int], Fit]]:
    def task(who: Contestant, work: Workload, X: Data, start: Array) -> Callable[[int], Fit]:
        return lambda turn: Fit(who.seed(X, work.k, trials, turn), work.k)

    return task


def _lloyd(most: int, tol: float) -> Callable[..., Callable[[int], Fit]]:
    def task(who: Contestant, work: Workload, X: Data, start: Array) -> Callable[[int], Fit]:
        return lambda turn: who.refine(X, start.copy(), most, tol)

    return task


def _reading(work: Workload, X: Data, steps: int, machine: Machine) -> float:
    """k passes over X at the measured bytes/s."""
    return bytes_of(X) * steps / machine.bytes


def _multiplying(work: Workload, X: Data, steps: int, machine: Machine) -> float:
    """2·nnz·k operations per iteration, and a last pass for the labels, at the measured FLOP/s."""
    entries = X.nnz if work.is_sparse else work.n * work.d
    return 2.0 * entries * work.k * (steps + 1) / machine.flops[work.dtype]


def _raw_steps(who: Contestant, work: Workload, X: Data, start: Array) -> Callable[[int], Fit]:
    """The contestant named `SCALED` is ours on the same table, standardised."""
    if who.name != SCALED:
        return _lloyd(STEPS, 0.0)(who, work, X, start)
    Z = standardised(X)
    return _lloyd(STEPS, 0.0)(who, work, Z, work.start(Z))


def _converges(who: Contestant) -> bool:
    return who.converges


SECTIONS = {
    section.name: section
    for section in (
        Section("plain", "Seeding, plain", lambda _: True, _seeding(1), _reading),
        Section("greedy", "Seeding, greedy", lambda who: who.greedy, _seeding(None), _reading),
        Section("lloyd", "20 Lloyd steps", lambda _: True, _lloyd(STEPS, 0.0), _multiplying),
        Section("converge", "To convergence", _converges, _lloyd(MOST_STEPS, TOL), _multiplying),
        Section("csr-lloyd", "CSR, 20 steps", lambda _: True, _lloyd(STEPS, 0.0), _multiplying),
        Section(
            "csr-converge", "CSR, to convergence", _converges, _lloyd(MOST_STEPS, TOL), _multiplying
        ),
        Section("raw-lloyd", "Raw, 20 steps", lambda _: True, _raw_steps, _multiplying),
        Section(
            "raw-converge", "Raw, to convergence", _converges, _lloyd(MOST_STEPS, TOL), _multiplying
        ),
    )
}


def applies(section: str, work: Workload) -> bool:
    """Whether the section runs on this workload."""
    if section == "memory":
        return not work.is_raw
    kind = section.split("-", maxsplit=1)[0]
    return (kind == "csr") == work.is_sparse and (kind == "raw") == work.is_raw


def run_cell(
    section: Section,
    work: Workload,
    X: Data,
    contestants: list[Contestant],
    machine: Machine,
    patience: Patience,
) -> Cell:
    start = work.start(X)
    there = [who for who in contestants if who.takes(work) and section.takes_part(who)]
    if section.name == "raw-lloyd":
        there += [replace(who, name=SCALED) for who in there if who.name == OURS]
    outcome = race({who.name: section.task(who, work, X, start) for who in there}, patience)
    fits = outcome.results
    return Cell(
        section.name,
        work.name,
        work.dtype,
        outcome.timings,
        {name: inertia(X, fit.centres) for name, fit in fits.items()},
        {name: fit.steps for name, fit in fits.items()},
        {
            name: section.peak(work, X, fit.steps, machine) / outcome.timings[name].median
            for name, fit in fits.items()
        },
    )


def warm_up(contestants: list[Contestant], work: Workload, X: Data) -> None:
    """Load libraries and start threads before anything is timed."""
    few = X[: min(2_000, work.n)]
    for who in contestants:
        if who.takes(work):
            who.refine(few, who.seed(few, 8, 1, 0), 2, 0.0)
