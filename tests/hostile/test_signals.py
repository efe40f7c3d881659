"""Signals reach a call soon, from whichever threads other calls run, and in every long loop."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from hostile.child import HELPERS, run

pytestmark = pytest.mark.skipif(os.name == "nt", reason="POSIX signals")

# The other threads ask for signals every few microseconds, the main thread once in each of six
# blocks of rows, about once a second.
STARVED = """
import os, signal, threading
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job inherits SIG_IGN
small = np.random.default_rng(0).normal(size=(60_000, 2)).astype(np.float32)
large = np.random.default_rng(0).random((6 * 1024, 2048), dtype=np.float32)
rows = _native.dense(small)

def busy():
    labels, centers = np.zeros(60_000, dtype=np.int32), small[:3].astype(np.float64)
    while True:
        _native.assign(rows, centers, labels)

for _ in range(3):
    threading.Thread(target=busy, daemon=True).start()
view, out = _native.dense(large), np.full((len(large), 3000), np.nan, dtype=np.float32)
centers = large[:3000].astype(np.float64)
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    _native.distances(view, centers, True, out)
except KeyboardInterrupt:
    done = np.mean(~np.isnan(out[:, 0]))
    print("early" if done < 0.5 else f"after {done:.0%} of the rows", flush=True)
"""


@pytest.mark.slow
def test_another_thread_does_not_hold_back_an_interrupt():
    assert run(STARVED, 150, OMP_NUM_THREADS="1") == ["early"]


DAEMON = """
import threading, time
X = np.random.default_rng(0).normal(size=(100_000, 8))
distance = lambda a, b: float(abs(a - b).sum())
FITS = {
    "vectors": lambda: KMeans(50, random_state=0).fit(X),
    "a callable": lambda: kvariates.hst_tree(X[:2000], metric=distance),
}
def fit_forever():
    while True:
        FITS[NAME]()
threading.Thread(target=fit_forever, daemon=True).start()
time.sleep(SECONDS)
"""


@pytest.mark.parametrize("name", ["vectors", "a callable"])
def test_a_process_ends_quietly_while_a_daemon_thread_fits(name):
    for seconds in (0.3, 0.45, 0.6):
        code = f"{HELPERS}\nNAME, SECONDS = {name!r}, {seconds}\n{DAEMON}"
        call = [sys.executable, "-c", code]
        done = subprocess.run(call, check=False, capture_output=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, b""), done.stderr.decode()


LONG = (
    HELPERS
    + """
import signal
import sys
class Terminated(BaseException):
    pass
def terminate(*_):
    raise Terminated
signal.signal(signal.SIGTERM, terminate)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job inherits SIG_IGN
def lost(unraisable):  # Python ignores what a handler raises inside of a finalizer of OpenDP
    number = signal.SIGTERM if unraisable.exc_type is Terminated else signal.SIGINT
    signal.raise_signal(number)
sys.unraisablehook = lost
rng = np.random.default_rng(0)
X = rng.random((30_000, 8)) + 0.1
A = sparse.random_array((20_000, 500), density=0.02, rng=rng, format="csr")
n = np.arange(40_000)
graph = sparse.csr_array((rng.random(40_000), (n, rng.permutation(n))), (40_000, 40_000))
graph = graph + sparse.csr_array((np.ones(40_000), (n, (n + 1) % 40_000)), graph.shape)
graph = sparse.csr_array(graph + graph.T)
from kvariates import choose_k, global_kmeans, PrivateKMeans
KMeans(2, random_state=0).fit(X[:100])
JOBS = {
    "CSR": lambda: KMeans(200, init=A[:200].toarray(), max_iter=10**6, tol=0, n_init=1).fit(A),
    "manhattan": lambda: KMedian(300, metric="manhattan", random_state=0).fit(X),
    "callable": lambda: KMedian(20, metric=lambda a, b: float(abs(a - b).sum())).fit(X[:2000]),
    "precomputed": lambda: KMedian(500, metric="manhattan", random_state=0).fit(X[:8000]),
    "graph": lambda: KMedian(200, metric="graph", random_state=0).fit(graph),
    "global_kmeans": lambda: global_kmeans(X, 200, random_state=0),
    "choose_k": lambda: choose_k(X, (2, 60), random_state=0),
    "private": lambda: PrivateKMeans(20, epsilon=1.0, bounds=(0, 2)).fit(X),
    "kl": lambda: KMeans(100, distortion="kl", max_iter=10**6, tol=0, init=X[:100]).fit(X),
    "total-jensen": lambda: KMeans(50, distortion="total-jensen", init=X[:50]).fit(X),
}
for name, job in JOBS.items():
    for stops in (KeyboardInterrupt, Terminated):
        try:
            print("ready", name, flush=True)
            while True:
                job()
        except stops:
            print("stopped", flush=True)
print("usable", KMeans(2, random_state=0).fit([[0.0], [1.0], [9.0]]).inertia_, flush=True)
"""
)


EXACT = (
    HELPERS
    + """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job inherits SIG_IGN
X = np.random.default_rng(0).normal(size=(24, 3))
try:
    kvariates.AntiClustering(3, method="exact", verbose=1).fit(X)
except KeyboardInterrupt:
    print("stopped", flush=True)
"""
)


def test_an_exact_search_tells_its_progress_and_stops_soon():
    """The solver holds its interpreter for a minute, and no script guards its main part."""
    call, pipe = [sys.executable, "-c", EXACT], subprocess.PIPE
    with subprocess.Popen(call, stdout=pipe, stderr=pipe, text=True) as child:
        limit = threading.Timer(50, child.kill)
        limit.start()
        try:
            while "exact search: seconds 1" not in (line := child.stdout.readline()):
                assert line, child.stderr.read()
            child.send_signal(signal.SIGINT)
            begin = time.perf_counter()
            assert child.stdout.readlines()[-1:] == ["stopped\n"]
            assert time.perf_counter() - begin < 10  # not the minute of the solver
            assert child.stderr.read() == ""
        finally:
            limit.cancel()
            child.kill()


@pytest.mark.hostile
@pytest.mark.parametrize("wait", [0.05, 0.4, 1.5])
def test_every_long_loop_stops_soon(wait):
    """Also where signals come while a call is being set up."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", LONG], stdout=pipe, text=True) as child:
        limit = threading.Timer(300, child.kill)
        limit.start()
        try:
            while (line := child.stdout.readline().strip()).startswith("ready"):
                for number in (signal.SIGINT, signal.SIGTERM):
                    time.sleep(wait)
                    child.send_signal(number)
                    begin = time.perf_counter()
                    assert child.stdout.readline().strip() == "stopped", line
                    assert time.perf_counter() - begin < 3, line
                    if number == signal.SIGINT:
                        assert child.stdout.readline().strip() == line
            assert line == "usable 0.5"
        finally:
            limit.cancel()
            child.kill()
