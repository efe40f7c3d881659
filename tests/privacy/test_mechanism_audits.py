"""The releases of the library keep their claims under audit, and planted mistakes break them.

Noise is fresh in every run of the tests. A claim that holds fails with probability at most 1e-6.
"""

import pytest
from api import audit
from privacy.exact_noise import repeatable
from privacy.mechanism_cases import CASES, MISTAKES


@pytest.mark.parametrize("name", CASES)
def test_a_release_keeps_its_claim(name):
    case = CASES[name]
    found = audit(case.mechanism, case.neighbours, **case.options)
    assert found.passed, str(found)


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_caught(name):
    mistake, case, runs = MISTAKES[name]
    case = CASES[case]
    with mistake():
        found = audit(case.mechanism, case.neighbours, **case.options | {"runs": runs})
    assert not found.passed, str(found)


@pytest.mark.parametrize("name", [name for name in CASES if "add-remove" in name])
def test_noise_cannot_be_seeded(name):
    case = CASES[name]
    mechanism = (lambda X: case.mechanism(X, 1)) if case.batch else case.mechanism
    assert not repeatable(mechanism, case.neighbours.first, runs=32)
