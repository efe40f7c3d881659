// The sums of sparse rows with the same label, rounded to float64. One cluster is added up at a time, so that no table
// of exact sums is needed: it would take more memory than the centres.
#pragma once

#include <numeric>

#include "dense_sums.hpp"

namespace kv::KV_ISA {

// The rows of each label: those of label j are row[start[j]] to row[start[j + 1] - 1].
struct RowsByLabel {
    std::vector<index_t> start, row;
    RowsByLabel(const label_t* labels, index_t n, index_t k) : start(k + 2), row(n) {
        for (index_t i = 0; i < n; ++i) ++start[labels[i] + 2];
        std::partial_sum(start.begin(), start.end(), start.begin());
        for (index_t i = 0; i < n; ++i) row[start[labels[i] + 1]++] = i;
    }
    index_t size(index_t j) const { return start[j + 1] - start[j]; }
};

typedef limb_t ShortPair __attribute__((vector_size(16)));

// The sums of one thread: of the last rows, and of those before them if a cluster has many. A sum of the last rows is
// two wide limbs, or (N = 1) a single one of 51 bits (see dense_sums.hpp).
template <int N>
struct FeatureSums {
    static constexpr index_t MOST = N == 1 ? 1 << 12 : 1 << 16;  // rows after which a limb might overflow
    Buffer<limb_t> last;                                         // N x d, the limbs of a feature side by side
    std::vector<exact_t> before;

    exact_t take(index_t f) {
        limb_t* limb = last.data() + N * f;
        const exact_t sum = N == 1 ? limb[0] * (exact_t{1} << 41) : limb[0] * WIDE + limb[N - 1];
        std::fill(limb, limb + N, 0);
        return sum;
    }
    void flush(index_t d) {
        ensure_size(before, d);
        for (index_t f = 0; f < d; ++f) before[f] += take(f);
    }
    // Rounds the sums of all features to float64, and sets them to zero.
    void take_rounded(const Scale& scale, bool flushed, index_t d, double* out) {
        constexpr index_t SPAN = 64;
        for (index_t from = 0; from < d; from += SPAN) {
            const index_t to = std::min(d, from + SPAN);
            if (!flushed && round_last(scale.unit, from, to, out)) {
                std::fill(last.begin() + N * from, last.begin() + N * to, 0);
                continue;
            }
            for (index_t f = from; f < to; ++f) {
                out[f] = scale.rounded(take(f) + (flushed ? before[f] : 0));
                if (flushed) before[f] = 0;
            }
        }
    }

private:
    // In a loop that vectorizes. Returns false if a sum is so large that it would be rounded twice.
    bool round_last(double unit, index_t from, index_t to, double* __restrict out) const {
        constexpr limb_t TOP = limb_t{1} << 53, MASK = (limb_t{1} << 47) - 1;
        const limb_t* limb = last.data();
        word_t large = 0;
        for (index_t f = from; f < to; ++f)
            if constexpr (N == 1) {
                out[f] = static_cast<double>(limb[f]) * 0x1p41 * unit;
            } else {
                const limb_t low = limb[2 * f + 1], high = limb[2 * f] + (low >> 47);
                out[f] = (static_cast<double>(high) * 0x1p47 + static_cast<double>(low & MASK)) * unit;
                large |= static_cast<word_t>(high + TOP) >> 54;
            }
        return large == 0;
    }
};

constexpr index_t AT_ONCE = 64;    // terms that are cut at once
constexpr index_t ROWS_AHEAD = 2;  // rows with the same label are anywhere in memory

// Adds up to AT_ONCE values of weight w.
template <int N, class T>
[[gnu::always_inline]] inline void add_terms(const T* x, const std::int32_t* column, index_t count, double w,
                                             const Scale& scale, limb_t* __restrict sum) {
    limb_t cut[N * AT_ONCE];  // first all terms are cut, since that loop vectorizes
    if constexpr (N == 1) {
        const double magic = one_word_magic(scale);
        for (index_t p = 0; p < count; ++p)
            cut[p] = std::bit_cast<limb_t>(static_cast<double>(x[p]) + magic) - std::bit_cast<limb_t>(magic);
        for (index_t p = 0; p < count; ++p) sum[column[p]] += cut[p];
    } else {
        for (index_t p = 0; p < count; ++p)
            scale.cut_wide(w * static_cast<double>(x[p]),
                           [&](limb_t high, limb_t low) { cut[2 * p] = high, cut[2 * p + 1] = low; });
        for (index_t p = 0; p < count; ++p) {
            limb_t* to = sum + 2 * index_t{column[p]};
            write(to, read<ShortPair>(to) + read<ShortPair>(cut + 2 * p));
        }
    }
}

// Adds rows to the sums of one cluster.
template <int N, class T>
void add_rows(const Csr<T>& rows, const double* weight, const index_t* row, index_t count, const Scale& scale,
              FeatureSums<N>& sums) {
    for (index_t r = 0; r < count; ++r) {
        if (r + ROWS_AHEAD < count) prefetch(rows, row[r + ROWS_AHEAD]);
        const double w = weight ? weight[row[r]] : 1.0;
        const index_t stop = rows.start[row[r] + 1];
        for (index_t from = rows.start[row[r]]; from < stop; from += AT_ONCE)
            add_terms<N>(rows.x + from, rows.column + from, std::min(AT_ONCE, stop - from), w, scale, sums.last.data());
    }
}

template <int N, class T>
void sums_in_words(const Csr<T>& rows, const double* weight, const label_t* labels, index_t k, const Scale& scale,
                   double* out) {
    constexpr index_t MOST = FeatureSums<N>::MOST;
    const RowsByLabel of(labels, rows.n, k);
    std::vector<index_t> largest_first(k);
    std::iota(largest_first.begin(), largest_first.end(), 0);
    std::stable_sort(largest_first.begin(), largest_first.end(),
                     [&](index_t a, index_t b) { return of.size(a) > of.size(b); });
    const double work = 4.0 * static_cast<double>(rows.start[rows.n] + k * rows.d);
    std::vector<FeatureSums<N>> scratch(threads_for(work));
    parallel(k, scratch, [&](index_t task, FeatureSums<N>& sums) {
        const index_t j = largest_first[task], end = of.start[j + 1];
        ensure_size(sums.last, N * rows.d);
        for (index_t from = of.start[j]; from < end; from += MOST) {
            const index_t count = std::min(MOST, end - from);
            add_rows(rows, weight, of.row.data() + from, count, scale, sums);
            if (from + count < end) sums.flush(rows.d);
        }
        sums.take_rounded(scale, of.size(j) > MOST, rows.d, out + j * rows.d);
    });
}

// out: k x d. `smallest`: no value but zero is smaller.
template <class T>
void sums_by_label(const Csr<T>& rows, const double* weight, const label_t* labels, index_t k, const Scale& scale,
                   double smallest, double* out) {
    if (!weight && fits_one_word<T>(smallest, scale))
        sums_in_words<1>(rows, weight, labels, k, scale, out);
    else
        sums_in_words<2>(rows, weight, labels, k, scale, out);
}

// Dense rows have a table.
template <class T>
void sums_by_label(const Dense<T>&, const double*, const label_t*, index_t, const Scale&, double, double*) {}

}  // namespace kv::KV_ISA
