"""Kernels that run on the processor give what a card gives, and their mistakes are noticed.

The reference kernels (kernels/reference.cuh) have the bits of laws/reference.py.
"""

import math
import time

import numpy as np
import pytest
from cuda.on_host import HostCard, KernelError
from laws import reference

REFERENCE = '#include "reference.cuh"\n'


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def run(card, text, *args, grid=1, block=64, **more):
    card.run_text(REFERENCE + text, text.split("(")[0].split()[-1], grid, block, *args, **more)


# ---- reference arithmetic ------------------------------------------------------------------------

BY_LANES = """KERNEL by_lanes(const REAL* x, const double* c, index_t n, index_t d, double* out) {
    for (index_t i = thread_index() / LANES; i < (n + 1) / 2 * 2; i += thread_count() / LANES) {
        const index_t row = i < n ? i : n - 1;
        const double sum = distance_by_lanes(x + row * d, c, d);
        if (i < n && threadIdx.x % LANES == 0) out[i] = sum;
    }
}"""
ALONE = """KERNEL alone(const REAL* x, const double* c, index_t n, index_t d, double* out) {
    for (index_t i = thread_index(); i < n; i += thread_count()) out[i] = distance(x + i * d, c, d);
}"""
TYPES = {"float": np.float32, "double": np.float64, "half_t": np.float16}


@pytest.mark.parametrize("d", [*range(1, 41), 784])
def test_distances_have_the_bits_of_the_reference(card, rng, d):
    for real, dtype in TYPES.items():
        X, c = rng.normal(size=(21, d)).astype(dtype), rng.normal(size=d)
        expected = reference.dense_distances(X, c[None])[:, 0]
        for text in (BY_LANES, ALONE):
            out = card.empty(21, np.float64)
            run(card, text, card.put(X), card.put(c), 21, d, out, grid=2, defines={"REAL": real})
            np.testing.assert_array_equal(out.get(), expected)


MASS = """KERNEL masses(const double* terms, index_t n, index_t e, word_t* out) {
    Mass mass;
    for (index_t i = threadIdx.x; i < n; i += blockDim.x)
        mass.add_term(terms[i], static_cast<int>(e));
    store_exact(out + 2 * threadIdx.x, mass.whole());
}"""


def integers(words):
    """Signed integers of 128 bits, from their two words."""
    return [int(low) + (int(high.astype(np.int64)) << 64) for low, high in words.reshape(-1, 2)]


def test_a_mass_is_that_of_the_reference(card, rng):
    terms = rng.normal(size=500) * 2.0 ** rng.integers(-110, 20, 500)
    e = reference.exponent_of(np.abs(terms).max())
    out = card.empty((64, 2), np.uint64)
    run(card, MASS, card.put(terms), 500, e, out)
    expected = [reference.limbs(t, e)[0] for t in terms]
    assert sum(integers(out.get())) == sum(reference.whole(parts) for parts in expected)


ROUNDED = """KERNEL rounding(const word_t* words, const long long* e, index_t n, double* out) {
    for (index_t i = thread_index(); i < n; i += thread_count())
        out[i] = rounded(load_exact(words + 2 * i), static_cast<int>(e[i]));
}"""
TIES = [(2**53 + 1, 0), (2**53 + 3, 0), (2**100 + 2**47, 0), (2**100 + 2**47 + 1, 0)]
EDGES = [(0, 0), (1, -1074), (2**100, 0), (2**100, 900), (2**126 - 1, -92), (2**127 - 1, 5)]
SUBNORMAL = [(3, -1074), (2**52 - 1, -1074), (2**90, -1164), (1, -1022), (5 * 2**40, -1100)]


def test_integers_become_the_nearest_floats(card, rng):
    large = [int(rng.integers(1, 2**62)) << int(rng.integers(0, 64)) for _ in range(200)]
    cases = [*TIES, *EDGES, *SUBNORMAL, *((v + 1, int(rng.integers(-200, 200))) for v in large)]
    cases += [(-v, e) for v, e in cases]
    words = [[v & (2**64 - 1), v >> 64 & (2**64 - 1)] for v, _ in cases]
    out, exponents = card.empty(len(cases), np.float64), np.array([e for _, e in cases])
    run(card, ROUNDED, card.put(np.array(words, np.uint64)), card.put(exponents), len(cases), out)
    expected = [math.ldexp(float(v), e) for v, e in cases]  # no more digits are lost below 2**-1022
    np.testing.assert_array_equal(out.get(), expected)


# ---- what CUDA gives to kernels ------------------------------------------------------------------


def test_numbers_of_half_precision_are_those_of_numpy(card):
    text = """KERNEL halves(const half_t* h, float* wide, const double* x, half_t* near, index_t m)
{
    for (index_t i = thread_index(); i < 65536; i += thread_count()) wide[i] = half_to_float(h[i]);
    for (index_t i = thread_index(); i < m; i += thread_count()) near[i] = {on_host_to_half(x[i])};
}"""
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16)
    finite = np.sort(halves[np.isfinite(halves)].astype(np.float64))
    between = (finite[1:] + finite[:-1]) / 2
    x = np.concatenate(
        [finite, between, np.nextafter(between, 1e9), [65519.9, 65520, 1e300, 1e-300]]
    )
    wide, near = card.empty(2**16, np.float32), card.empty(len(x), np.uint16)
    run(card, text, card.put(halves), wide, card.put(x), near, len(x))
    np.testing.assert_array_equal(wide.get(), halves.astype(np.float32))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(near.get().view(np.float16), x.astype(np.float16))


def test_directed_rounding_encloses_the_exact_result(card, rng):
    text = """KERNEL directed(const float* a, const float* b, float* out, index_t n) {
    for (index_t i = thread_index(); i < n; i += thread_count()) {
        float* to = out + 8 * i;
        to[0] = __fadd_rd(a[i], b[i]), to[1] = __fadd_ru(a[i], b[i]);
        to[2] = __fmul_rd(a[i], b[i]), to[3] = __fmul_ru(a[i], b[i]);
        to[4] = __fsqrt_rd(fabsf(a[i])), to[5] = __fsqrt_ru(fabsf(a[i]));
        to[6] = __double2float_rd(a[i] / 3.0), to[7] = __double2float_ru(a[i] / 3.0);
    }
}"""
    a, b = rng.normal(size=(2, 300)).astype(np.float32)
    out = card.empty((300, 8), np.float32)
    run(card, text, card.put(a), card.put(b), out, 300)
    low, high = np.moveaxis(out.get().astype(np.float64).reshape(300, 4, 2), 2, 0)
    a, b = a.astype(np.float64), b.astype(np.float64)
    exact = np.stack([a + b, a * b, np.sqrt(np.abs(a)), a / 3.0], axis=1)
    assert (low <= exact).all()
    assert (exact <= high).all()
    gap = np.nextafter(low.astype(np.float32), np.float32(np.inf)).astype(np.float64)
    assert (high <= gap).all()
    assert (low < high).mean() > 0.5  # many sums are exact


EXCHANGES = """KERNEL exchanges(int* out) {
    const int t = threadIdx.x, own = 1000 * (t / 32) + t % 32;
    if (t % 32 == 7) return;
    int* to = out + 10 * t;
    to[0] = __shfl_sync(ALL, own, t + 1, 16), to[1] = __shfl_xor_sync(ALL, own, 8);
    to[2] = __shfl_up_sync(ALL, own, 3, 16), to[3] = __shfl_down_sync(ALL, own, 20);
    to[4] = static_cast<int>(__ballot_sync(ALL, t % 3 == 0));
    to[5] = __any_sync(ALL, t == 32), to[6] = __all_sync(ALL, t != 32);
    to[7] = static_cast<int>(__reduce_add_sync(ALL, static_cast<unsigned>(own)));
    to[8] = __reduce_max_sync(ALL, own);
    to[9] = static_cast<int>(__match_any_sync(ALL, t % 4));
}"""


def exchanged(t):
    """What a thread gets of its warp, in which thread 7 has returned."""
    lane, warp = t % 32, t // 32
    there = [i for i in range(32) if i != 7]
    value = {i: 1000 * warp + i for i in there}.get
    bits = {i for i in there if (32 * warp + i) % 3 == 0}
    up, down = (lane - 3 if lane % 16 >= 3 else lane), (lane + 20 if lane < 12 else lane)
    return [
        value(lane // 16 * 16 + (lane + 1) % 16), value(lane ^ 8), value(up), value(down),
        sum(1 << i for i in bits), int(warp == 1), int(warp != 1), sum(map(value, there)),
        value(31), sum(1 << i for i in there if i % 4 == lane % 4),
    ]  # fmt: skip


def test_lanes_exchange_values_without_those_that_returned(card):
    out = card.empty((70, 10), np.int32)
    card.run_text(REFERENCE + EXCHANGES, "exchanges", 1, 64, out)
    for t in range(64):
        got, expected = out.get()[t].astype(np.int64), exchanged(t)
        if t % 32 != 7:
            known = [v is not None for v in expected]
            wanted = [np.int64(v).astype(np.int32) for v in expected if v is not None]
            np.testing.assert_array_equal(got[known], wanted)
    assert (out.get()[[7, 39]] == -1).all()


def test_atomics_and_counts_over_a_block(card):
    text = """KERNEL counts(int* low, unsigned long long* sum, double* whole, int* votes) {
    atomicMin(low, static_cast<int>(thread_index())), atomicAdd(sum, 3ull), atomicAdd(whole, 0.5);
    const int odd = __syncthreads_count(threadIdx.x & 1);
    if (threadIdx.x == 0) votes[blockIdx.x] = odd + (__popc(255u) << 8) + (__clzll(1) << 16);
}"""
    low, votes = card.put(np.array([99], np.int32)), card.empty(3, np.int32)
    total, whole = card.zeros(1, np.uint64), card.zeros(1, np.float64)
    run(card, text, low, total, whole, votes, grid=3, block=70)
    assert (low.get()[0], total.get()[0], whole.get()[0]) == (0, 630, 105.0)
    assert votes.get().tolist() == [35 + (8 << 8) + (63 << 16)] * 3


def test_many_threads_wait_quickly(card):
    text = """KERNEL waits(int* out, index_t times) {
    __shared__ int last[256];
    last[threadIdx.x] = 0;
    for (index_t i = 0; i < times; ++i) {
        __syncthreads();
        const int next = last[(threadIdx.x + 1) % 256] + 1;
        __syncthreads();
        last[threadIdx.x] = next;
    }
    out[threadIdx.x] = last[threadIdx.x];
}"""
    out = card.empty(256, np.int32)
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        run(card, text, out, 150, block=256)
        seconds.append(time.perf_counter() - start)
    assert (out.get() == 150).all()
    assert min(seconds[1:]) < 0.1  # 2 ms; a system call at every wait would take ten times as long


# ---- mistakes that are noticed -------------------------------------------------------------------

NEIGHBOUR = """KERNEL neighbours(int* out) {
    __shared__ int known[64];
    const int t = threadIdx.x;
    known[t] = t;
    WAIT;
    out[t] = known[(t + SIDE) % 64];
}"""


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("side", [1, 63])
def test_a_missing_wait_changes_the_result(seed, side):
    card = HostCard(seed=seed)
    expected = (np.arange(64) + side) % 64
    out = card.empty(64, np.int32)
    run(card, NEIGHBOUR, out, defines={"WAIT": "__syncthreads()", "SIDE": side})
    np.testing.assert_array_equal(out.get(), expected)
    run(card, NEIGHBOUR, out, defines={"WAIT": "", "SIDE": side})
    assert (out.get() != expected).any()


def test_memory_is_garbage_before_it_is_written(card):
    text = """KERNEL unwritten(int* fixed, int* dynamic) {
    __shared__ int own[64];
    SHARED(int, more);
    fixed[thread_index()] = own[threadIdx.x], dynamic[thread_index()] = more[threadIdx.x];
    __syncthreads();
    own[threadIdx.x] = more[threadIdx.x] = 0;
}"""
    fixed, dynamic = card.empty(128, np.int32), card.empty(128, np.int32)
    assert (fixed.get() == -1).all()
    assert np.isnan(card.empty(3, np.float32).get()).all()
    run(card, text, fixed, dynamic, grid=2, shared=256)
    assert (dynamic.get().view(np.uint32) == 0xCDCDCDCD).all()
    assert (fixed.get().view(np.uint32) == 0xCDCDCDCD).all()


WRITE = "KERNEL write(double* out, index_t i) { out[i] = 1; }"
READ = "KERNEL read(double* out, index_t i) { out[0] = out[i]; }"
MORE = """KERNEL more(double* out, index_t i) {
    SHARED(double, own);
    own[i] = 1;
    out[0] = own[0];
}"""
OUTSIDE = [
    (WRITE, 5, "write: it writes next to the array of argument 0"),
    (WRITE, -1, "write: it writes next to the array of argument 0"),
    (WRITE, 40, "write: thread 0 of block 0 uses what is 280 bytes behind the end of the array of"),
    (READ, 4 * 10**5, r"read: thread 0 of block 0 uses the address 0x\w+"),
    (MORE, 8, "more: it writes outside of the 64 bytes of dynamic shared memory"),
    (MORE, 10**4, "more: thread 0 uses what is outside of the 64 bytes of dynamic shared memory"),
]


@pytest.mark.parametrize(("text", "index", "message"), OUTSIDE)
def test_what_is_outside_of_memory_is_an_error(card, text, index, message):
    with pytest.raises(KernelError, match=message):
        run(card, text, card.empty(5, np.float64), index, block=1, shared=64)
    out = card.empty(5, np.float64)  # and the next launch is right
    run(card, WRITE, out, 4, block=1)
    assert out.get()[4] == 1


def test_a_freed_array_is_no_memory(card):
    out = card.empty(5, np.float64)
    pointer = out.pointer
    del out
    with pytest.raises(KernelError, match=r"uses (the address|what is)"):
        run(card, WRITE, pointer, 0, block=1)
    assert card.free()[0] == card.free()[1]


WRONG = {
    "no thread can go on: thread 0 is at __syncthreads": """
        if (t < 8) __syncthreads();
        else while (true) on_host_yield();""",
    "no thread can go on: thread 0 is in a collective": """
        if (t < 8) __syncwarp();
        else __syncthreads();""",
    "threads .* of a warp are in different collectives": """
        if (t < 8) __syncwarp();
        else out[t] = __shfl_sync(ALL, t, 0);""",
    "are at __syncthreads of lines": """
        if (t < 40) __syncthreads();
        else __syncthreads();""",
    "is not in the mask": "out[t] = __shfl_sync(0xffff, t, 0);",
    "needs more than 65536 bytes of stack": """
        volatile char large[1 << 17];
        large[t] = 1, large[100000 + t] = 2;""",
    "address is not aligned": "reinterpret_cast<word_t*>(out + 1)[t] = t;",
    "index is outside": "int own[4] = {}; out[t] = own[t];",
    "sum of integers overflows": "out[t] = 2147483647 + t;",
    "divided by zero": "out[t] = 5 / (t - t);",
    "__trap": "__trap();",
}


@pytest.mark.parametrize("message", WRONG)
def test_a_kernel_that_a_card_would_not_finish_is_an_error(card, message):
    body = WRONG[message]
    text = f"KERNEL wrong(int* out) {{\n const int t = threadIdx.x;\n {body}\n}}"
    with pytest.raises(KernelError, match=f"^wrong: .*{message}"):
        run(card, text, card.empty(64, np.int32))


CALLS = [
    (WRITE, ["out"], {}, "2 arguments are expected, 1 were given"),
    (WRITE, ["out", 1.5], {}, "float is no argument of a kernel"),
    (WRITE, [None, 1], {}, "write: thread .* uses a null pointer"),
    (WRITE, ["out", 1], {"block": 2000}, "a block of 2000 threads"),
    (WRITE, ["out", 1], {"shared": 10**6}, "1000000 bytes of shared memory"),
    ("KERNEL scale(double* out, double by) { out[0] = by; }", ["out", 1], {}, "no pointer and no"),
    ("KERNEL add_floats(float* out) { atomicAdd(out, 1.0f); }", ["out"], {}, "does not compile"),
]


@pytest.mark.parametrize(("text", "args", "more", "message"), CALLS)
def test_wrong_calls_are_errors(card, text, args, more, message):
    values = [card.empty(4, np.float64) if value == "out" else value for value in args]
    with pytest.raises(KernelError, match=message):
        run(card, text, *values, **more)


def test_an_unknown_kernel_is_an_error(card):
    with pytest.raises(KernelError, match="has no kernel 'nothing'; it has: write"):
        card.run_text(REFERENCE + WRITE, "nothing", 1, 1)


# ---- arrays --------------------------------------------------------------------------------------


def test_copies_and_parts(card, rng):
    X = rng.random((6, 3))
    array = card.put(X)
    np.testing.assert_array_equal(array.part(2, 5).get(), X[2:5])
    other = card.zeros((6, 3), np.float64)
    card.copy(array, other)
    array.put(X + 1)
    np.testing.assert_array_equal(other.get(), X)
    with pytest.raises(ValueError, match="a copy of 144 bytes"):
        card.copy(array, card.empty(3, np.float64))


class OfAnotherLibrary:
    def __init__(self, X):
        self.X = X
        self.__cuda_array_interface__ = {**X.__array_interface__, "version": 3}


def test_views_share_memory(card, rng):
    X = rng.random((6, 3))
    for same in (X, OfAnotherLibrary(X)):
        view = card.view(same)
        assert (view.shape, view.dtype, view.pointer) == (X.shape, X.dtype, X.ctypes.data)
    with pytest.raises(ValueError, match="C order"):
        card.view(X.T)


def test_a_small_card_is_full():
    card = HostCard(memory=10**6)
    kept = card.empty(10**5, np.float64)
    with pytest.raises(MemoryError, match=r"0\.0 of 0\.0 GB free"):
        card.empty(10**5, np.float64)
    del kept
    card.empty(10**5, np.float64)


def test_nothing_runs_in_an_empty_grid(card):
    run(card, WRITE, card.empty(0, np.float64), 0, grid=0)
    assert card.launches == []
