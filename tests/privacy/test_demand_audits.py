"""Every private method of k-median keeps its claim under audit; a planted mistake breaks it.

As in `test_method_audits.py`, the attacker sees the result and every released value. A claim that
holds fails with probability at most 1e-6.
"""

import numpy as np
import pytest
from privacy.demands import task_of
from privacy.exact_noise import both_adjacencies
from privacy.method_cases import QUICK_RUNS, watch_releases
from privacy.test_replay_mistakes import planted

from kvariates.data.metric_spaces import Vectors
from kvariates.privacy.auditing import audit
from kvariates.private_methods.demand_candidates import DemandCandidates
from kvariates.private_methods.demand_methods import (
    PRIVATE_KMEDIAN_METHODS,
    DemandHst,
    DemandLocalSearch,
)
from kvariates.private_methods.demand_recovery import recover_medoids
from kvariates.private_methods.demand_task import run_demand_method

LINE = Vectors(np.arange(12.0)[:, None] ** 2, "euclidean")
# With fewer swaps each of them has a larger part of the budget, so that a mistake in it is seen.
METHODS = {name: entry.run for name, entry in PRIVATE_KMEDIAN_METHODS.items() if name != "auto"}
METHODS |= {"hst": DemandHst(n_swaps=2), "local-search": DemandLocalSearch(2)}
METHODS["candidates, all parts"] = DemandCandidates(swaps=1, trials=2, levels=1)


def attack(method, adjacency):
    """An audit of a demand of one far point, against no demand or another point."""

    def observe(demand):
        values = {}
        with watch_releases(values):
            result = run_demand_method(method, task_of(LINE, demand, 2, adjacency))
        charges = {charge.label: [charge.scale, charge.cost] for charge in result.charges}
        return {"medoids": np.sort(result.medoids), "counts": result.counts, "released": values,
                "charges": charges, "warning": str(result.warning)}  # fmt: skip

    second = [] if adjacency == "add-remove" else [0]
    return audit(observe, ([11], second), epsilon=1.0, runs=QUICK_RUNS)


@pytest.mark.parametrize("name", METHODS)
@both_adjacencies
def test_a_method_keeps_its_claim(name, adjacency):
    found = attack(METHODS[name], adjacency)
    assert found.passed, str(found)


def test_a_medoid_without_noise_is_caught():
    wrong = "[accountant.release(query, cost), int(np.argmax(query._Secret__value.values))][1]"
    with planted(recover_medoids, "accountant.release(query, cost).value", wrong):
        found = attack(METHODS["candidates"], "add-remove")
    assert not found.passed, str(found)
