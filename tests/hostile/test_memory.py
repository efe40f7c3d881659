"""Where memory runs out, a call raises MemoryError, and later calls are not affected."""

import shutil
import subprocess
import sys

import pytest
from hostile.child import run

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of Linux")

JOBS = """
_native.set_work_per_thread(1)  # every loop uses all threads
rng = np.random.default_rng(0)
X = rng.normal(size=(6000, 6))
S = sparse.random_array((3000, 40), density=0.2, rng=rng, format="csr")
D = np.abs(X[:400, :1] - X[:400, 0])
n = np.arange(400)
ring = sparse.csr_array((1 + rng.random(400), (n, (n + 1) % 400)), (400, 400))
ring = sparse.csr_array(ring + ring.T)

def kmeans(algorithm, data=X, init="k-means++"):
    return lambda: KMeans(
        20, algorithm=algorithm, init=init, max_iter=4, random_state=0).fit(data).inertia_

def kmedian(metric, data, init="auto"):
    return lambda: KMedian(5, metric=metric, random_state=0).fit(data).inertia_

JOBS = {
    **{name: kmeans(name) for name in ("lloyd", "elkan", "hamerly", "yinyang", "hartigan")},
    **{init: kmeans("auto", init=init) for init in ("d2", "k-means||", "hst", "ls++", "global")},
    "CSR": kmeans("hamerly", S),
    "precomputed": kmedian("precomputed", D),
    "manhattan": kmedian("manhattan", X[:400]),
    "graph": kmedian("graph", ring),
}
expected = {name: job() for name, job in JOBS.items()}
"""

# Each job runs in a thread of its own, since OpenMP starts new threads for every thread that
# calls it, under a limit that leaves some memory, or none.
LIMITED = """
import resource, threading
from pathlib import Path
ENDLESS = resource.getrlimit(resource.RLIMIT_AS)

def limited(job, more, out):
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + more, ENDLESS[1]))
    try:
        out.append(job())
    except MemoryError:
        out.append("MemoryError")
    finally:
        resource.setrlimit(resource.RLIMIT_AS, ENDLESS)

failures = 0
for more in LEFT:
    for name, job in JOBS.items():
        out = []
        thread = threading.Thread(target=limited, args=(job, more, out))
        thread.start()
        thread.join()
        assert out in ([expected[name]], ["MemoryError"]), (name, more, out)
        failures += out == ["MemoryError"]
assert {name: job() for name, job in JOBS.items()} == expected
print("failures", failures > 0, flush=True)
"""


def limited(left, seconds):
    """Run all jobs with so many bytes left. Only small blocks come from memory that was in use."""
    code = JOBS + LIMITED.replace("LEFT", repr(left))
    malloc = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "16384", "MALLOC_TOP_PAD_": "0"}
    return run(code, seconds, OMP_NUM_THREADS="3", MALLOC_TRIM_THRESHOLD_="0", **malloc)


@LINUX
@pytest.mark.slow
def test_a_limit_of_the_address_space_gives_memory_errors():
    assert limited([2**16, 2**22], 60) == ["failures True"]


@LINUX
@pytest.mark.hostile
def test_many_limits_of_the_address_space_give_memory_errors():
    left = [2**i + j for i in range(10, 26) for j in (0, 2**i // 2)]
    assert limited(left, 1800) == ["failures True"]


# Replaces the operators new of the process by ones that fail once, when so many were called.
FAILING_NEW = r"""
#include <atomic>
#include <cstdlib>
#include <new>
static std::atomic<long> left{-1};
extern "C" void fail_after(long calls) { left = calls; }
extern "C" long calls_left() { return left; }
static void* get(std::size_t size, std::size_t align) {
    if (left >= 0 && left.fetch_sub(1) == 0) throw std::bad_alloc();
    void* p = align ? std::aligned_alloc(align, (size + align) / align * align) : std::malloc(size);
    if (!p) throw std::bad_alloc();
    return p;
}
void* operator new(std::size_t size) { return get(size ? size : 1, 0); }
void* operator new[](std::size_t size) { return get(size ? size : 1, 0); }
void* operator new(std::size_t size, std::align_val_t a) { return get(size, std::size_t(a)); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
"""

INJECT = """
import ctypes
# The binding library ends the process if its table of objects cannot grow: so it grows before.
[_native.Changes() for _ in range(10**4)]
new = ctypes.CDLL(LIBRARY)
for name, job in JOBS.items():
    new.fail_after(10**6)
    job()
    calls = 10**6 - new.calls_left()
    assert calls > 0, f"{name} did not call operator new"
    failures = 0
    for at in sorted({int(i) for i in np.linspace(0, calls - 1, TRIES)}):
        new.fail_after(at)
        try:
            found = job()
        except MemoryError:
            found, failures = "MemoryError", failures + 1
        new.fail_after(-1)
        assert found in ("MemoryError", expected[name]), (name, at, found)
    assert failures > 0, name
    assert job() == expected[name], name
print("usable")
"""


@pytest.fixture(scope="module")
def failing_new(tmp_path_factory):
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("there is no C++ compiler to build the allocation-failure injector")
    folder = tmp_path_factory.mktemp("new")
    source, library = folder / "new.cpp", folder / "libnew.so"
    source.write_text(FAILING_NEW)
    flags = ["-shared", "-fPIC", "-std=c++17", "-O1"]
    subprocess.run([compiler, *flags, str(source), "-o", str(library)], check=True)
    return str(library)


def inject(library, tries, seconds):
    code = JOBS + INJECT.replace("LIBRARY", repr(library)).replace("TRIES", str(tries))
    return run(code, seconds, LD_PRELOAD=library, OMP_NUM_THREADS="2")


@LINUX
@pytest.mark.slow
def test_a_failed_allocation_is_a_memory_error(failing_new):
    assert inject(failing_new, 5, 120) == ["usable"]


@LINUX
@pytest.mark.hostile
def test_every_failed_allocation_is_a_memory_error(failing_new):
    assert inject(failing_new, 1500, 1800) == ["usable"]
