// The state of D^2 sampling: the cost of every row, its nearest centre, and exact sums of costs from which rows are
// drawn. Macros: REAL, the type of the rows; M, the number of candidates compared at once (1, 2, 4 or 8); D, the number
// of features if it is below 16, otherwise 0.
#include "reference.cuh"

constexpr int TILE = 256;  // rows under one sum; sums under one sum of the next level

DEVICE double weighted(const double* cost, const double* weight, index_t i) {
    return weight ? mul(weight[i], cost[i]) : cost[i];
}

// ---- candidates ---------------------------------------------------------------------------------------------------

// A sum of masses in four pieces of 32 bits, to which anyone may add.
DEVICE void add_whole(exact_t whole, word_t* pieces) {
    for (int p = 0; p < 4; ++p) {
        const word_t piece = static_cast<word_t>(whole >> (32 * p)) & 0xffffffffull;
        if (piece) atomicAdd(pieces + p, piece);
    }
}

// What a row gains by a candidate at this distance, if it does. No sum is kept without `pieces`.
DEVICE void add_gain(double distance, index_t i, const double* cost, const double* weight, int e, Mass& gain, int bit,
                     const word_t* pieces, unsigned* passed) {
    const double less = sub(cost[i], distance);
    if (!(less > 0)) return;
    if (pieces) gain.add_term(weight ? mul(weight[i], less) : less, e);
    atomicOr(passed + i, 1u << bit);
}

#ifdef M
#if D > 0
// gains[4 j + p]: the pieces of how much candidate j lowers the total. Bit first + j of passed[i]: whether it lowers
// the cost of row i. Pre: both are zero; pieces may be null. A thread has one row at a time.
KERNEL gains(const REAL* x, index_t n, index_t d, const double* c, const double* cost, const double* weight,
             index_t exponent, index_t first, word_t* pieces, unsigned* passed) {
    Mass gain[M];
    for (index_t i = thread_index(); i < n; i += thread_count()) {
        double row[D];
#pragma unroll
        for (int f = 0; f < D; ++f) row[f] = to_double(x[i * D + f]);
#pragma unroll
        for (int j = 0; j < M; ++j) {
            double sum = 0;
#pragma unroll
            for (int f = 0; f < D; ++f) sum = add(sum, squared_gap(row[f], c[j * D + f]));
            add_gain(sum, i, cost, weight, static_cast<int>(exponent), gain[j], static_cast<int>(first) + j, pieces,
                     passed);
        }
    }
#pragma unroll
    for (int j = 0; pieces && j < M; ++j) add_whole(gain[j].whole(), pieces + 4 * j);
}
#else
constexpr int ROWS = 4, VALUES = ROWS * M;  // a group of sixteen threads has four rows and all candidates

// One step of adding up VALUES sums over sixteen threads: a thread keeps half of them and gives the other half to its
// partner, so that in the end each thread holds few sums. `at` is the number of its first one.
template <int COUNT>
DEVICE void halve(double* value, int partner, int& at) {
    const bool upper = (threadIdx.x & partner) != 0;
#pragma unroll
    for (int t = 0; t < COUNT / 2; ++t) {
        const double keep = upper ? value[t + COUNT / 2] : value[t], give = upper ? value[t] : value[t + COUNT / 2];
        value[t] = add(keep, __shfl_xor_sync(ALL, give, partner, LANES));
    }
    if (upper) at += COUNT / 2;
}
template <int COUNT>
DEVICE void add_up(double* value, int partner, int& at) {
    if constexpr (COUNT > 1)
        halve<COUNT>(value, partner, at);
    else
        value[0] = add(value[0], __shfl_xor_sync(ALL, value[0], partner, LANES));
}
#define AT_LEAST_ONE(v) ((v) > 0 ? (v) : 1)
constexpr int HELD = AT_LEAST_ONE(VALUES / LANES);  // sums of a thread in the end

// Two blocks a processor: one alone would wait for memory.
#define BOUNDED __launch_bounds__(256, 2)

KERNEL BOUNDED gains(const REAL* x, index_t n, index_t d, const double* c, const double* cost, const double* weight,
                     index_t exponent, index_t first, word_t* pieces, unsigned* passed) {
#ifdef CENTERS_IN_SHARED
    SHARED(double, center);
    for (index_t at = threadIdx.x; at < M * d; at += blockDim.x) center[at] = c[at];
    __syncthreads();
#else
    const double* const center = c;
#endif
    const int lane = threadIdx.x % LANES;
    const index_t whole = d / LANES * LANES, groups = thread_count() / LANES;
    Mass gain[HELD];
    // All threads of a warp make the same number of steps.
    const index_t steps = (n + ROWS * groups - 1) / (ROWS * groups);
    for (index_t step = 0; step < steps; ++step) {
        const index_t row = (step * groups + thread_index() / LANES) * ROWS;
        const REAL* of[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; ++r) of[r] = x + (row + r < n ? row + r : n - 1) * d;
        double value[VALUES] = {};
#pragma unroll 2
        for (index_t f = lane; f < whole; f += LANES) {
            double own[ROWS];
#pragma unroll
            for (int r = 0; r < ROWS; ++r) own[r] = to_double(of[r][f]);
#pragma unroll
            for (int j = 0; j < M; ++j) {
                const double other = center[j * d + f];
#pragma unroll
                for (int r = 0; r < ROWS; ++r)
                    value[j * ROWS + r] = add(value[j * ROWS + r], squared_gap(own[r], other));
            }
        }
        int at = 0;
        add_up<VALUES>(value, 4, at);
        add_up<AT_LEAST_ONE(VALUES / 2)>(value, 8, at);
        add_up<AT_LEAST_ONE(VALUES / 4)>(value, 1, at);
        add_up<AT_LEAST_ONE(VALUES / 8)>(value, 2, at);
        // Of several threads with the same sum, one counts it.
        const bool counts = VALUES >= LANES || (lane & (VALUES == 4 ? 3 : 2)) == 0;
#pragma unroll
        for (int t = 0; t < HELD; ++t) {
            const int j = (at + t) / ROWS, r = (at + t) % ROWS;
            const index_t i = row + r;
            if (i >= n || !counts) continue;
            double sum = value[t];
            for (index_t f = whole; f < d; ++f) sum = add(sum, squared_gap(to_double(x[i * d + f]), center[j * d + f]));
            add_gain(sum, i, cost, weight, static_cast<int>(exponent), gain[t], static_cast<int>(first) + j, pieces,
                     passed);
        }
    }
    // `at` is the same in every step.
    int at = 0;
    int count = VALUES;
    for (int s = 0; s < 4; ++s) {
        const int partner = s == 0 ? 4 : s == 1 ? 8 : s == 2 ? 1 : 2;
        if (count > 1) {
            count /= 2;
            at += lane & partner ? count : 0;
        }
    }
#pragma unroll
    for (int t = 0; pieces && t < HELD; ++t) add_whole(gain[t].whole(), pieces + 4 * ((at + t) / ROWS));
}
#endif
#endif

// Compares every row with the candidates whose bits it has, in order, and keeps what is strictly nearer. `only`: one
// candidate, of which c is the centre and `first` the name; or -1 for all: candidate j is centre c + j d, named first +
// j.
KERNEL lower_passed(const REAL* x, index_t n, index_t d, const double* c, index_t first, index_t only,
                    const unsigned* passed, double* cost, label_t* nearest) {
    const int half = threadIdx.x % 32 / LANES;
    const index_t warps = thread_count() / 32;
    for (index_t base = thread_index() / 32 * 32; base < n; base += warps * 32) {
        const index_t mine = base + threadIdx.x % 32;
        unsigned bits = mine < n ? passed[mine] : 0;
        if (only >= 0) bits &= 1u << only;
        unsigned rows = __ballot_sync(ALL, bits != 0);
        while (rows) {  // two rows at a time
            const int a = __ffs(rows) - 1;
            rows &= rows - 1;
            const int b = rows ? __ffs(rows) - 1 : a;
            rows &= rows - 1;
            const int from = half ? b : a;
            const index_t i = base + from;
            unsigned left = __shfl_sync(ALL, bits, from);
            double best = cost[i];
            label_t name = nearest[i];
            while (__any_sync(ALL, left != 0)) {
                const int j = left ? __ffs(left) - 1 : 0;
                const double found = distance_by_lanes(x + i * d, c + (only >= 0 ? 0 : j) * d, d);
                if (left && found < best) best = found, name = static_cast<label_t>(only >= 0 ? first : first + j);
                left &= left - 1;
            }
            if (threadIdx.x % LANES == 0) cost[i] = best, nearest[i] = name;
            __syncwarp();
        }
    }
}

// found[i]: the cost of row i at the centre of its label, of which the name is first + label.
KERNEL keep_lower(const double* found, const label_t* labels, index_t n, index_t first, double* cost,
                  label_t* nearest) {
    for (index_t i = thread_index(); i < n; i += thread_count())
        if (found[i] < cost[i]) cost[i] = found[i], nearest[i] = static_cast<label_t>(first + labels[i]);
}

// ---- sums and draws -----------------------------------------------------------------------------------------------

// The sum of one value of each thread of a block of TILE threads, for all of them.
DEVICE exact_t block_sum(exact_t own) {
    __shared__ word_t part[2 * TILE / 32];
    for (int other = 16; other > 0; other /= 2) {
        const word_t low = __shfl_xor_sync(ALL, static_cast<word_t>(own), other);
        const word_t high = __shfl_xor_sync(ALL, static_cast<word_t>(static_cast<unsigned __int128>(own) >> 64), other);
        own += static_cast<exact_t>(static_cast<unsigned __int128>(high) << 64 | low);
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) store_exact(part + threadIdx.x / 32 * 2, own);
    __syncthreads();
    exact_t sum = 0;
    for (int w = 0; w < TILE / 32; ++w) sum += load_exact(part + 2 * w);
    return sum;
}

DEVICE exact_t mass_of(const double* cost, const double* weight, index_t i, int e) {
    Mass mass;
    mass.add_term(weighted(cost, weight, i), e);
    return mass.whole();
}

// sums[t]: of the masses of the rows of tile t, a block each.
KERNEL sum_costs(const double* cost, const double* weight, index_t n, index_t exponent, word_t* sums) {
    for (index_t tile = blockIdx.x; tile * TILE < n; tile += gridDim.x) {
        const index_t i = tile * TILE + threadIdx.x;
        const exact_t sum = block_sum(i < n ? mass_of(cost, weight, i, static_cast<int>(exponent)) : 0);
        if (threadIdx.x == 0) store_exact(sums + 2 * tile, sum);
    }
}

// The same of sums.
KERNEL sum_sums(const word_t* sums, index_t n, word_t* out) {
    for (index_t tile = blockIdx.x; tile * TILE < n; tile += gridDim.x) {
        const index_t i = tile * TILE + threadIdx.x;
        const exact_t sum = block_sum(i < n ? load_exact(sums + 2 * i) : 0);
        if (threadIdx.x == 0) store_exact(out + 2 * tile, sum);
    }
}

// The first of up to TILE values whose running sum exceeds the goal, by a block; lowers the goal by those before.
DEVICE int find(exact_t own, exact_t& goal) {
    __shared__ word_t running[2 * TILE];
    __shared__ int place;
    __syncthreads();
    store_exact(running + 2 * threadIdx.x, own);
    if (threadIdx.x == 0) place = TILE - 1;
    __syncthreads();
    exact_t sum = own;
    for (int step = 1; step < TILE; step *= 2) {
        const int before = static_cast<int>(threadIdx.x) - step;
        const exact_t more = before >= 0 ? load_exact(running + 2 * before) : 0;
        __syncthreads();
        sum += more;
        store_exact(running + 2 * threadIdx.x, sum);
        __syncthreads();
    }
    if (sum > goal && sum - own <= goal) place = static_cast<int>(threadIdx.x);
    __syncthreads();
    if (place > 0) goal -= load_exact(running + 2 * (place - 1));
    return place;
}

// rows[g]: the row at which the running sum passes goal g, by a block each. sums[level]: the sums of each level, the
// finest first; counts[level]: how many. Pre: the last level has at most TILE sums.
KERNEL rows_at(const double* cost, const double* weight, index_t n, index_t exponent, const word_t* const* sums,
               const index_t* counts, index_t levels, const word_t* goals, index_t* rows) {
    exact_t goal = load_exact(goals + 2 * blockIdx.x);
    index_t tile = 0;
    for (index_t level = levels - 1; level >= 0; --level) {
        const index_t i = tile * TILE + threadIdx.x;
        tile = tile * TILE + find(i < counts[level] ? load_exact(sums[level] + 2 * i) : 0, goal);
    }
    const index_t i = tile * TILE + threadIdx.x;
    const index_t row = tile * TILE + find(i < n ? mass_of(cost, weight, i, static_cast<int>(exponent)) : 0, goal);
    if (threadIdx.x == 0) rows[blockIdx.x] = row;
}

// Compares row rows[0] with m pending centres, lowers its cost and the sums above it, by one block of TILE threads.
// answer: the row, and the bits of its cost before and after.
KERNEL lower_row(const REAL* x, index_t n, index_t d, const double* c, index_t m, index_t first, const index_t* rows,
                 double* cost, label_t* nearest, const double* weight, index_t exponent, word_t* const* sums,
                 index_t levels, word_t* answer) {
    __shared__ double best[TILE / LANES];
    __shared__ label_t of[TILE / LANES];
    const index_t i = rows[0];
    const int group = threadIdx.x / LANES, groups = TILE / LANES;
    const double bound = cost[i];
    double own = bound;
    label_t name = nearest[i];
    for (index_t j = group; j < (m + groups - 1) / groups * groups; j += groups) {
        const double found = distance_by_lanes(x + i * d, c + (j < m ? j : 0) * d, d);
        if (j < m && found < own) own = found, name = static_cast<label_t>(first + j);
    }
    if (threadIdx.x % LANES == 0) best[group] = own, of[group] = name;
    __syncthreads();
    for (int g = 0; g < groups; ++g)  // names from `first` on are larger than those before
        if (best[g] < own || (best[g] == own && of[g] < name)) own = best[g], name = of[g];
    exact_t less = 0;
    if (threadIdx.x == 0) {
        less = mass_of(cost, weight, i, static_cast<int>(exponent));
        cost[i] = own, nearest[i] = name;
        less -= mass_of(cost, weight, i, static_cast<int>(exponent));
        index_t tile = i;
        for (index_t level = 0; level < levels; ++level) {
            tile /= TILE;
            store_exact(sums[level] + 2 * tile, load_exact(sums[level] + 2 * tile) - less);
        }
        answer[0] = static_cast<word_t>(i);
        answer[1] = static_cast<word_t>(__double_as_longlong(bound));
        answer[2] = static_cast<word_t>(__double_as_longlong(own));
    }
}

// The largest weighted cost, as bits; infinite or NaN: the bits of infinity.
KERNEL largest_cost(const double* cost, const double* weight, index_t n, word_t* bits) {
    word_t most = 0;
    for (index_t i = thread_index(); i < n; i += thread_count()) {
        const double value = weighted(cost, weight, i);
        const word_t own = value == value ? static_cast<word_t>(__double_as_longlong(value)) : 0x7ffull << 52;
        most = own > most ? own : most;
    }
    for (int other = 16; other > 0; other /= 2) {
        const word_t a = __shfl_xor_sync(ALL, most, other);
        most = a > most ? a : most;
    }
    if (threadIdx.x % 32 == 0) atomicMax(bits, most);
}

KERNEL fill(double* values, index_t n, const double* value) {
    for (index_t i = thread_index(); i < n; i += thread_count()) values[i] = value[0];
}
