// What is asked of all rows once a fit: magnitudes, unit length, sums of the features, and copies of some rows.
// Macros: REAL, the type of the rows.
#include "reference.cuh"

#ifdef SMALL_REAL
typedef float out_t;  // of results for rows of float16
#else
typedef REAL out_t;
#endif

DEVICE word_t bits_of_size(double v) { return static_cast<word_t>(__double_as_longlong(v)) << 1 >> 1; }

// found[0]: the bits of the largest absolute value; found[1]: of the smallest that is not zero; found[2]: the first row
// with a value that is not finite. Pre: they are 0, ~0, n.
KERNEL inspect(const REAL* x, index_t n, index_t d, word_t* found) {
    const word_t infinite = 0x7ffull << 52;
    word_t most = 0, least = ~0ull;
    for (index_t i = thread_index(); i < n * d; i += thread_count()) {
        const word_t size = bits_of_size(to_double(x[i]));
        if (size >= infinite)
            atomicMin(found + 2, static_cast<word_t>(i / d));
        else if (size > 0) {
            most = size > most ? size : most;
            least = size < least ? size : least;
        }
    }
    for (int other = 16; other > 0; other /= 2) {
        const word_t a = __shfl_xor_sync(ALL, most, other), b = __shfl_xor_sync(ALL, least, other);
        most = a > most ? a : most;
        least = b < least ? b : least;
    }
    if (threadIdx.x % 32 == 0) {
        atomicMax(found, most);
        atomicMin(found + 1, least);
    }
}

// out[i] = row index[i], as float64.
KERNEL take(const REAL* x, index_t d, const index_t* index, index_t m, double* out) {
    for (index_t i = thread_index(); i < m * d; i += thread_count()) out[i] = to_double(x[index[i / d] * d + i % d]);
}

// The same in the type of the rows.
KERNEL subset(const REAL* x, index_t d, const index_t* index, index_t m, REAL* out) {
    for (index_t i = thread_index(); i < m * d; i += thread_count()) out[i] = x[index[i / d] * d + i % d];
}

#ifndef SMALL_REAL
// Rows of length one, by a warp for each two rows. zero[0]: the first row of zeros. Pre: it is n.
KERNEL unit_rows(const REAL* x, index_t n, index_t d, REAL* out, word_t* zero) {
    const int lane = threadIdx.x % LANES;
    for (index_t pair = thread_index() / 32; 2 * pair < n; pair += thread_count() / 32) {
        const index_t own = 2 * pair + threadIdx.x % 32 / LANES, i = own < n ? own : n - 1;
        const REAL* row = x + i * d;
        double largest = 0;
        for (index_t j = lane; j < d; j += LANES) {
            const double size = fabs(to_double(row[j]));
            largest = size > largest ? size : largest;
        }
        for (int other = LANES / 2; other > 0; other /= 2) {
            const double size = __shfl_xor_sync(ALL, largest, other, LANES);
            largest = size > largest ? size : largest;
        }
        if (largest == 0) {
            if (lane == 0) atomicMin(zero, static_cast<word_t>(i));
            largest = 1;
        }
        // The norm of the scaled row in the order of the reference.
        const index_t whole = d / LANES * LANES;
        double part = 0;
        for (index_t j = lane; j < whole; j += LANES)
            part = add(part, squared_gap(quotient(to_double(row[j]), largest), 0));
        const double sum = whole ? joined(part) : 0.0;
        const int rest = static_cast<int>(d - whole);
        const double term = lane < rest ? squared_gap(quotient(to_double(row[whole + lane]), largest), 0) : 0.0;
        const double norm = root(with_rest(sum, term, rest));
        if (own < n)
            for (index_t j = lane; j < d; j += LANES)
                out[i * d + j] = static_cast<REAL>(quotient(quotient(to_double(row[j]), largest), norm));
    }
}
#endif

// Sums of the features of all rows, on one level: limbs[l * d + f]. A thread adds one feature of every step-th row.
// units: the exponent of the sums. Pre: the limbs are zero; step is the number of threads / d.
KERNEL column_sums(const REAL* x, index_t n, index_t d, index_t step, index_t exponent, word_t* limbs) {
    const index_t feature = thread_index() % d, first = thread_index() / d;
    if (first >= step) return;
    const int e = static_cast<int>(exponent);
    long long sum[3] = {};
    for (index_t i = first; i < n; i += step) {
        double term = to_double(x[i * d + feature]);
        for (int l = 0; l < 3; ++l) sum[l] += cut(term, e - (l == 0 ? 30 : l == 1 ? 61 : 92));
    }
    for (int l = 0; l < 3; ++l) atomicAdd(limbs + l * d + feature, static_cast<word_t>(sum[l]));
}

// cost[i] = the distance of row i to the centre of its label, by sixteen threads a row, or by one if d < 16.
KERNEL measure(const REAL* x, index_t n, index_t d, const double* c, const label_t* labels, double* cost) {
    if (d < LANES) {
        for (index_t i = thread_index(); i < n; i += thread_count())
            cost[i] = distance(x + i * d, c + (labels ? labels[i] : 0) * d, d);
        return;
    }
    for (index_t pair = thread_index() / 32; 2 * pair < n; pair += thread_count() / 32) {
        const index_t own = 2 * pair + threadIdx.x % 32 / LANES, i = own < n ? own : n - 1;
        const double found = distance_by_lanes(x + i * d, c + (labels ? static_cast<index_t>(labels[i]) : 0) * d, d);
        if (own < n && threadIdx.x % LANES == 0) cost[i] = found;
    }
}

// out[i * k + j] = the distance of row i to centre j, or its root.
KERNEL distances(const REAL* x, index_t n, index_t d, const double* c, index_t k, index_t squared, out_t* out) {
    for (index_t at = thread_index(); at < n * k; at += thread_count()) {
        const double found = distance(x + at / k * d, c + at % k * d, d);
        out[at] = static_cast<out_t>(squared ? found : root(found));
    }
}

// Exact sums of terms: pieces[4 * e + p] counts the 16-bit pieces p of the mantissas with biased exponent e. A block
// adds at most 2^15 terms before it hands its pieces on.
KERNEL exact_bins(const double* term, const double* weight, index_t n, word_t* pieces) {
    SHARED(unsigned, own);
    const index_t span = static_cast<index_t>(1) << 15;
    for (index_t first = blockIdx.x * span; first < n; first += gridDim.x * span) {
        for (int at = threadIdx.x; at < 4 * 2048; at += blockDim.x) own[at] = 0;
        __syncthreads();
        const index_t stop = first + span < n ? first + span : n;
        for (index_t i = first + threadIdx.x; i < stop; i += blockDim.x) {
            const double value = weight ? mul(weight[i], term[i]) : term[i];
            const word_t bits = static_cast<word_t>(__double_as_longlong(value));
            const int e = static_cast<int>(bits >> 52 & 2047);
            const word_t mantissa = (bits & ((1ull << 52) - 1)) | (e ? 1ull << 52 : 0);
            for (int p = 0; p < 4; ++p) {
                const unsigned piece = static_cast<unsigned>(mantissa >> (16 * p) & 0xffff);
                if (piece) atomicAdd(own + 4 * e + p, piece);
            }
        }
        __syncthreads();
        for (int at = threadIdx.x; at < 4 * 2048; at += blockDim.x)
            if (own[at]) atomicAdd(pieces + at, static_cast<word_t>(own[at]));
        __syncthreads();
    }
}

// The rows of each label. A block counts in shared memory, if that has room for k counters (`own`).
KERNEL count_labels(const label_t* labels, index_t n, index_t k, index_t own, word_t* counts) {
    SHARED(unsigned, count);
    if (!own) {
        for (index_t i = thread_index(); i < n; i += thread_count()) atomicAdd(counts + labels[i], 1ull);
        return;
    }
    for (index_t j = threadIdx.x; j < k; j += blockDim.x) count[j] = 0;
    __syncthreads();
    for (index_t i = thread_index(); i < n; i += thread_count()) atomicAdd(count + labels[i], 1u);
    __syncthreads();
    for (index_t j = threadIdx.x; j < k; j += blockDim.x)
        if (count[j]) atomicAdd(counts + j, static_cast<word_t>(count[j]));
}

// No label yet.
KERNEL no_labels(label_t* labels, index_t n) {
    for (index_t i = thread_index(); i < n; i += thread_count()) labels[i] = -1;
}
