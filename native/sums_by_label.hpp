// The sums of sparse rows with the same label, rounded to float64. One cluster is added up at a time, so that no table
// of exact sums is needed: it would take more memory than the centres.
#pragma once

#include <cstring>
#include <numeric>

#include "exact_sums.hpp"

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

// The sum of up to MOST_TERMS terms, in two wide limbs.
typedef limb_t ShortPair __attribute__((vector_size(16)));
constexpr index_t MOST_TERMS = index_t{1} << 16;
constexpr index_t AT_ONCE = 64;  // terms that are cut at once

// The sums of one thread: of the last rows, and of those before them if a cluster has more than MOST_TERMS rows.
struct FeatureSums {
    std::vector<ShortPair> last;
    std::vector<exact_t> before;

    exact_t take(index_t f) {
        const exact_t sum = last[f][0] * WIDE + last[f][1];
        last[f] = ShortPair{};
        return sum;
    }
    void flush() {
        ensure_size(before, static_cast<index_t>(last.size()));
        for (std::size_t f = 0; f < last.size(); ++f) before[f] += take(static_cast<index_t>(f));
    }
};

// Adds rows to the sums of one cluster.
template <class T>
void add_rows(const Csr<T>& rows, const double* weight, const index_t* row, index_t count, const Scale& scale,
              FeatureSums& sums) {
    ShortPair* __restrict sum = sums.last.data();
    for (index_t r = 0; r < count; ++r) {
        const double w = weight ? weight[row[r]] : 1.0;
        const index_t stop = rows.start[row[r] + 1];
        for (index_t from = rows.start[row[r]]; from < stop; from += AT_ONCE) {
            limb_t cut[2 * AT_ONCE];  // first all terms are cut, since that loop vectorizes
            const index_t span = std::min(AT_ONCE, stop - from);
            for (index_t p = 0; p < span; ++p)
                scale.cut_wide(w * static_cast<double>(rows.x[from + p]),
                               [&](limb_t high, limb_t low) { cut[2 * p] = high, cut[2 * p + 1] = low; });
            for (index_t p = 0; p < span; ++p) {
                ShortPair term;
                std::memcpy(&term, cut + 2 * p, sizeof term);
                sum[rows.column[from + p]] += term;
            }
        }
    }
}

// out: k x d.
template <class T>
void sums_by_label(const Csr<T>& rows, const double* weight, const label_t* labels, index_t k, const Scale& scale,
                   double* out) {
    const RowsByLabel of(labels, rows.n, k);
    std::vector<index_t> largest_first(k);
    std::iota(largest_first.begin(), largest_first.end(), 0);
    std::stable_sort(largest_first.begin(), largest_first.end(),
                     [&](index_t a, index_t b) { return of.size(a) > of.size(b); });
    const double work = 4.0 * static_cast<double>(rows.start[rows.n] + k * rows.d);
    std::vector<FeatureSums> scratch(threads_for(work));
    parallel(k, scratch, [&](index_t task, FeatureSums& sums) {
        const index_t j = largest_first[task], end = of.start[j + 1];
        ensure_size(sums.last, rows.d);
        bool flushed = false;
        for (index_t from = of.start[j]; from < end; from += MOST_TERMS) {
            const index_t count = std::min(MOST_TERMS, end - from);
            add_rows(rows, weight, of.row.data() + from, count, scale, sums);
            if (from + count < end) sums.flush(), flushed = true;
        }
        double* to = out + j * rows.d;
        for (index_t f = 0; f < rows.d; ++f) to[f] = scale.rounded(sums.take(f) + (flushed ? sums.before[f] : 0));
        if (flushed) std::fill(sums.before.begin(), sums.before.end(), 0);
    });
}

// Dense rows have a table.
template <class T>
void sums_by_label(const Dense<T>&, const double*, const label_t*, index_t, const Scale&, double*) {}

}  // namespace kv::KV_ISA
