"""Every private method of k-median keeps its claim under audit, and planted mistakes break it.

A claim that holds fails with probability at most 1e-6. `method_cases.py` explains the runs, and
`make audit` has more of them.
"""

import pytest
from api import audit
from privacy.demand_cases import MISTAKES, QUICK
from privacy.method_cases import QUICK_RUNS

pytestmark = pytest.mark.slow


def attack(case, runs):
    return audit(case, case.neighbours, view=case.view, runs=runs, **case.claim)


@pytest.mark.parametrize("name", QUICK)
def test_a_method_keeps_its_claim(name):
    found = attack(QUICK[name], QUICK_RUNS)
    assert found.passed, str(found)


QUICKLY_SEEN = [name for name, mistake in MISTAKES.items() if mistake.runs <= 1000]


@pytest.mark.parametrize("name", QUICKLY_SEEN)
def test_a_mistake_is_caught(name):
    mistake = MISTAKES[name]
    with mistake.planted():
        found = attack(mistake.case, mistake.runs)
    assert not found.passed, str(found)
