"""The same bits on any number of threads and with any instruction set; and good manners in both."""

import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from laws.cases import ALGORITHMS, DTYPES, LAYOUTS, METRICS, fit, rows, same_bits, start
from threadpoolctl import threadpool_info, threadpool_limits

from kvariates import KMeans, _native, kmeans_plusplus

TESTS = Path(__file__).parent
linux_only = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


def python(code_or_path, **environment):
    """Run Python in a fresh process and return what it prints."""
    environment = {"PYTHONPATH": str(TESTS), "OPENBLAS_NUM_THREADS": "1", **environment}
    given = [str(code_or_path)] if isinstance(code_or_path, Path) else ["-c", code_or_path]
    done = subprocess.run(
        [sys.executable, *given],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def one_thread():
    return json.loads(python(TESTS / "laws/digest.py", OMP_NUM_THREADS="1"))


def differences(a, b):
    assert a.keys() == b.keys()
    return [name for name in a if a[name] != b[name]]


def test_algorithms_have_one_fingerprint(one_thread):
    for name, print_ in one_thread.items():
        for other in ("elkan", "hamerly"):
            assert "lloyd" not in name or one_thread[name.replace("lloyd", other)] == print_
    assert len(set(one_thread.values())) > len(one_thread) / 4, "fingerprints that never differ"


@pytest.mark.parametrize("threads", ["2", "4"])
def test_threads_from_the_environment(threads, one_thread):
    many = json.loads(python(TESTS / "laws/digest.py", OMP_NUM_THREADS=threads))
    assert differences(one_thread, many) == []


@pytest.mark.parametrize("level", ["v2", "v3", "v4"])
def test_instruction_sets(level, one_thread):
    if level not in _native.instruction_sets():
        pytest.skip(f"this machine cannot run {level}")
    used = python(
        "from kvariates import _native; print(_native.instruction_set())", KVARIATES_ISA=level
    )
    assert used.strip() == level
    forced = json.loads(python(TESTS / "laws/digest.py", OMP_NUM_THREADS="1", KVARIATES_ISA=level))
    assert differences(one_thread, forced) == []


def test_an_unknown_instruction_set_is_no_crash():
    """Either refused in one line, or the best one is used; never an illegal instruction."""
    code = "import kvariates; print(kvariates.KMeans(2, random_state=0).fit([[0],[1],[9]]).labels_)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "KVARIATES_ISA": "v9"},
    )
    assert done.returncode >= 0
    if done.returncode:
        assert "KVARIATES_ISA" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_threads_limited_by_threadpoolctl(dtype, layout, algorithm, metric):
    X = LAYOUTS[layout](rows(12345, 5, dtype, seed=61, sparsity=0.2))
    fits = []
    for threads in (1, 2, 4):
        with threadpool_limits(threads, user_api="openmp"):
            options = {"algorithm": algorithm, "metric": metric, "max_iter": 8}
            fits.append(fit(X, start(X, 10), **options))
    assert same_bits(fits[0], fits[1])
    assert same_bits(fits[0], fits[2])


@pytest.mark.parametrize("trials", [1, None], ids=["plain", "greedy"])
def test_draws_do_not_see_threads(trials):
    X = rows(30011, 7, np.float32, seed=62)
    found = []
    for threads in (1, 2, 4):
        with threadpool_limits(threads, user_api="openmp"):
            found.append(kmeans_plusplus(X, 60, n_local_trials=trials, random_state=0)[1])
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


def test_threadpoolctl_sees_our_threads():
    KMeans(2, random_state=0).fit(np.eye(5))
    assert any(pool["user_api"] == "openmp" for pool in threadpool_info())


COUNT_THREADS = """
import os, numpy as np
from kvariates import KMeans, kmeans_plusplus
X = np.random.default_rng(0).normal(size=(200_000, 8))
kmeans_plusplus(X, 20, random_state=0)
KMeans(20, random_state=0, max_iter=2, algorithm="{algorithm}").fit(X)
print(len(os.listdir("/proc/self/task")))
"""


@linux_only
@pytest.mark.parametrize("algorithm", ["lloyd", "hamerly"])
def test_as_many_threads_run_as_asked_for(algorithm):
    code = COUNT_THREADS.format(algorithm=algorithm)
    alone = int(python(code, OMP_NUM_THREADS="1"))
    three = int(python(code, OMP_NUM_THREADS="3"))
    assert three == alone + 2


def test_fits_in_python_threads_do_not_disturb_each_other():
    X = rows(3000, 6, seed=63)

    def job(seed):
        return KMeans(8, random_state=seed, algorithm=ALGORITHMS[seed % 4], max_iter=30).fit(X)

    alone = [job(seed) for seed in range(12)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(job, range(12)))
    assert all(same_bits(a, b) for a, b in zip(alone, together, strict=True))


def test_other_python_threads_run_during_a_fit():
    """The lock of the interpreter is released: a clock in another thread goes on ticking."""
    X = rows(150_000, 16, np.float32, seed=64)
    ticks, stop = [], threading.Event()

    def clock():
        while not stop.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.002)

    thread = threading.Thread(target=clock)
    thread.start()
    before = time.perf_counter()
    # One iteration, lloyd: few and long calls of native code.
    KMeans(6000, init=start(X, 6000), n_init=1, max_iter=1, algorithm="lloyd").fit(X)
    after = time.perf_counter()
    stop.set()
    thread.join()
    during = [t for t in ticks if before < t < after]
    assert after - before > 0.1, "too quick to tell"
    # Held, the lock would stop the clock for as long as the longest call, nearly half of the fit.
    longest = max(b - a for a, b in pairwise([before, *during, after]))
    assert longest < 0.25 * (after - before)
