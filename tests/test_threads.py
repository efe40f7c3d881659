"""The same bits on any number of threads; fits and other threads do not disturb each other."""

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
from api import objective_for
from contracts.choices import CHOICES, OF_OBJECTIVE, positive_rows
from laws.cases import ALGORITHMS, LAYOUTS, METRICS, rows, same_bits, start
from laws.threads import on_threads
from sklearn.base import clone
from slow_cases import mark_slow
from threadpoolctl import threadpool_info

from kvariates import KMeans

X = positive_rows(7500, 64)  # eight blocks of rows, for seven threads
K = 64  # so that a batch of 1024 rows is large enough for two threads too


def uses_threads(choice):
    """Not divergences: numpy computes them, on one thread."""
    given = {"metric": "euclidean", "distortion": None}
    given |= choice if choice in OF_OBJECTIVE else {}
    return "squared distances" in objective_for(**given, X=X, weight=None).offers


SLOW = [{"init": "global"}]


@pytest.mark.parametrize("choice", mark_slow(filter(uses_threads, CHOICES), SLOW), ids=str)
def test_every_choice_is_the_same_on_any_number_of_threads(choice):
    model = KMeans(K, random_state=0, n_init=1, max_iter=4, tol=0, **choice)
    first, *others = on_threads(lambda: clone(model).fit(X))
    assert all(same_bits(first, other) for other in others)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_scan_is_the_same_on_any_number_of_threads(algorithm, metric, layout):
    data = LAYOUTS[layout](rows(15011, 13, np.float32, seed=61, sparsity=0.2))
    options = {"algorithm": algorithm, "metric": metric, "max_iter": 8}
    first, *others = on_threads(
        lambda: KMeans(30, init=start(data, 30), n_init=1, **options).fit(data)
    )
    assert all(same_bits(first, other) for other in others)


def test_threadpoolctl_sees_our_threads():
    KMeans(2, random_state=0).fit(np.eye(5))
    assert any(pool["user_api"] == "openmp" for pool in threadpool_info())


COUNT_THREADS = """
import os, numpy as np
from kvariates import KMeans
X = np.random.default_rng(0).normal(size=(200_000, 8))
KMeans(20, random_state=0, max_iter=2).fit(X)
print(len(os.listdir("/proc/self/task")))
"""


def python(code, *, check=True, **environment):
    """Run code in a fresh process."""
    return subprocess.run(
        [sys.executable, "-c", code],
        check=check, capture_output=True, text=True, env={**os.environ, **environment},
    )  # fmt: skip


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_as_many_threads_run_as_asked_for():
    counts = [
        int(python(COUNT_THREADS, OMP_NUM_THREADS=threads, OPENBLAS_NUM_THREADS="1").stdout)
        for threads in ("1", "7")
    ]
    assert counts[1] == counts[0] + 6


def test_an_unknown_instruction_set_is_refused():
    done = python("import kvariates", check=False, KVARIATES_ISA="v9")
    assert done.returncode == 1
    assert "KVARIATES_ISA=v9 is not a set of kernels" in done.stderr.splitlines()[-1]


def test_fits_in_python_threads_do_not_disturb_each_other():
    data = rows(3000, 6, seed=63)

    def job(seed):
        algorithm = ALGORITHMS[seed % len(ALGORITHMS)]
        return KMeans(8, random_state=seed, algorithm=algorithm, max_iter=30).fit(data)

    alone = [job(seed) for seed in range(12)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(job, range(12)))
    assert all(same_bits(a, b) for a, b in zip(alone, together, strict=True))


def test_other_python_threads_run_during_a_fit():
    """The lock of the interpreter is released: another thread goes on reading the clock."""
    data = rows(150_000, 16, np.float32, seed=64)
    ticks, stop = [], threading.Event()

    def clock():
        while not stop.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.002)

    thread = threading.Thread(target=clock)
    thread.start()
    before = time.perf_counter()
    # One iteration of "lloyd" makes few and long calls of native code.
    KMeans(6000, init=start(data, 6000), n_init=1, max_iter=1, algorithm="lloyd").fit(data)
    after = time.perf_counter()
    stop.set()
    thread.join()
    during = [t for t in ticks if before < t < after]
    assert after - before > 0.1, "too fast to tell"
    # If the lock were held, the longest gap would be nearly half of the fit.
    longest = max(b - a for a, b in pairwise([before, *during, after]))
    assert longest < 0.25 * (after - before)
