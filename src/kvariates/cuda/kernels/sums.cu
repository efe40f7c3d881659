// Exact sums of the rows of each cluster, moved by the rows whose labels changed, and the centres made of them.
// Macros: REAL, the type of the rows.
#include "reference.cuh"

// The layout is that of `ExactSums`: limbs[level][cluster][3][d].
DEVICE void add_term(double term, int e, index_t levels, index_t k, index_t j, index_t d, index_t f, bool less,
                     word_t* limbs) {
    for (index_t level = 0; level < levels; ++level)
        for (int l = 0; l < 3; ++l) {
            const int unit = e - 92 * static_cast<int>(level) - (l == 0 ? 30 : l == 1 ? 61 : 92);
            const long long units = cut(term, unit);
            if (units) atomicAdd(limbs + ((level * k + j) * 3 + l) * d + f, static_cast<word_t>(less ? -units : units));
        }
}

// Adds rows to the clusters of their labels and takes them from those before (-1: none). `rows`: which; null: all.
// count: how many. scale: the exponents of the sums and of the weights, and the levels.
KERNEL move_rows(const REAL* x, index_t d, const double* weight, const label_t* labels, const int* rows,
                 const label_t* before, const index_t* count, index_t k, const index_t* scale, word_t* limbs,
                 word_t* weights, word_t* counts) {
    const int e = static_cast<int>(scale[0]), lane = threadIdx.x % 32;
    const index_t levels = scale[2], m = *count;
    for (index_t at = thread_index() / 32; at < m; at += thread_count() / 32) {
        const index_t i = rows ? rows[at] : at;
        const label_t to = labels[i], from = rows ? before[at] : -1;
        const double w = weight ? weight[i] : 1.0;
        for (index_t f = lane; f < d; f += 32) {
            const double value = to_double(x[i * d + f]), term = weight ? mul(w, value) : value;
            add_term(term, e, levels, k, to, d, f, false, limbs);
            if (from >= 0) add_term(term, e, levels, k, from, d, f, true, limbs);
        }
        if (lane < 2 && (lane == 0 || from >= 0)) {
            const label_t j = lane == 0 ? to : from;
            add_term(w, static_cast<int>(scale[1]), 1, k, j, 1, 0, lane == 1, weights);
            if (w > 0) atomicAdd(counts + j, lane == 0 ? 1ull : ~0ull);
        }
    }
}

DEVICE double value_of(const word_t* limbs, int e, index_t levels, index_t k, index_t j, index_t d, index_t f) {
    double value = 0;
    for (index_t level = levels - 1; level >= 0; --level) {
        const word_t* of = limbs + (level * k + j) * 3 * d + f;
        exact_t whole = static_cast<exact_t>(static_cast<long long>(of[0])) * (static_cast<exact_t>(1) << 62);
        whole += static_cast<exact_t>(static_cast<long long>(of[d])) * (static_cast<exact_t>(1) << 31);
        whole += static_cast<long long>(of[2 * d]);
        const double part = rounded(whole, e - 92 - 92 * static_cast<int>(level));
        value = level == levels - 1 ? part : add(value, part);
    }
    return value;
}

// The next centres, by a warp each: means, or (unit) sums of length one. A cluster without rows keeps its centre, and
// empty[0] counts it. moves[j]: how far each moved, squared.
KERNEL means(const double* c, index_t k, index_t d, const index_t* scale, const word_t* limbs, const word_t* weights,
             const word_t* counts, index_t unit, double* out, double* moves, word_t* empty) {
    const int lane = threadIdx.x % 32;
    for (index_t j = thread_index() / 32; j < k; j += thread_count() / 32) {
        const double* before = c + j * d;
        double* after = out + j * d;
        for (index_t f = lane; f < d; f += 32)
            after[f] = value_of(limbs, static_cast<int>(scale[0]), scale[2], k, j, d, f);
        __syncwarp();
        double by = value_of(weights, static_cast<int>(scale[1]), 1, k, j, 1, 0);
        if (unit) {
            const index_t whole = d / LANES * LANES;
            const int own = lane % LANES, rest = static_cast<int>(d - whole);
            double part = 0;
            for (index_t f = own; f < whole; f += LANES) part = add(part, squared_gap(after[f], 0));
            const double sum = whole ? joined(part) : 0.0;
            const double term = own < rest ? squared_gap(after[whole + own], 0) : 0.0;
            by = root(with_rest(sum, term, rest));
        }
        const bool full = counts[j] > 0 && by > 0;
        for (index_t f = lane; f < d; f += 32) after[f] = full ? quotient(after[f], by) : before[f];
        if (counts[j] == 0 && lane == 0) atomicAdd(empty, 1ull);
        __syncwarp();
        const double moved = distance_by_lanes(before, after, d);
        if (lane == 0) moves[j] = moved;
        __syncwarp();
    }
}
