"""Settings that all tests share.

Helpers are in the folders of the tests that use them and are imported by folder
(`from laws.brute import lloyd`). Hypothesis draws the same examples in every run;
`--hypothesis-profile=deep` draws many others. Waiting threads sleep: on a busy machine, thousands
of small fits whose threads wait actively would take ten times as long.
"""

import os
import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # read when the first OpenMP library loads
TESTS = Path(__file__).resolve().parent
sys.path[:0] = [str(TESTS), str(TESTS.parent)]  # the latter for benchmarks/ and experiments/
sys.path.append(str(TESTS.parent / "docs"))  # for choice_tables

settings.register_profile(
    "steady",
    deadline=None,
    derandomize=True,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
settings.register_profile(
    "deep", settings.get_profile("steady"), derandomize=False, max_examples=2000
)
settings.load_profile("steady")
