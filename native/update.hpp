// Cluster sums (from which the centres are computed), costs and distances.
//
// The order of additions does not depend on the number of threads. Either every cluster and feature belongs to one
// thread, or the rows are cut into a fixed number of slices, which are summed separately and then merged.
#pragma once

#include "exact.hpp"
#include "kernels.hpp"

namespace kv::KV_ISA {

constexpr index_t SLICES = 32;
constexpr index_t MAX_SLICED = 4096;  // slices are used if k * d is at most this

template <class Rows>
[[gnu::always_inline]] inline void add_to_cluster(const Rows& rows, const double* weight, index_t i, label_t j,
                                                  int sign, const ClusterSums& sums, index_t from, index_t to,
                                                  bool counts) {
    const double w = sign * (weight ? weight[i] : 1.0);
    add_row(rows, i, w, sums.sum + j * rows.d, sums.remainder + j * rows.d, from, to);
    if (!counts) return;
    add(sums.weight[j], sums.weight_remainder[j], w);
    if (w != 0) sums.count[j] += sign;
}

// The rows to add to clusters, in row order: all of them, or those with a new label, which also leave the old one.
struct Moves {
    index_t n;
    const label_t* labels;
    const Changes* changes;  // null: all

    index_t count() const {
        if (!changes) return n;
        index_t sum = 0;
        for (const auto& block : changes->block) sum += static_cast<index_t>(block.size());
        return sum;
    }
    // Calls visit(row, cluster, sign) for the blocks [from, to).
    template <class Visit>
    [[gnu::always_inline]] void for_each(index_t from, index_t to, Visit visit) const {
        if (!changes) {
            for (index_t i = from * BLOCK; i < std::min(n, to * BLOCK); ++i) visit(i, labels[i], 1);
            return;
        }
        for (index_t block = from; block < to; ++block)
            for (const Change& change : changes->block[block]) {
                const index_t i = block * BLOCK + change.row;
                visit(i, change.before, -1);
                visit(i, labels[i], 1);
            }
    }
};

template <class Rows>
void update_by_slices(const Rows& rows, const double* weight, const Moves& moves, index_t k, const ClusterSums& sums) {
    struct Part {
        std::vector<double> sum, remainder, weight, weight_remainder;
        std::vector<index_t> count;
    };
    std::vector<Part> parts(SLICES);
    const index_t blocks = blocks_of(rows.n);
    parallel(SLICES, threads_for(static_cast<double>(moves.count()) * (rows.d + 4) * 4), [&](index_t slice) {
        Part& part = parts[slice];
        part = {std::vector<double>(k * rows.d), std::vector<double>(k * rows.d), std::vector<double>(k),
                std::vector<double>(k), std::vector<index_t>(k)};
        const ClusterSums mine{part.sum.data(), part.remainder.data(), part.weight.data(), part.weight_remainder.data(),
                               part.count.data()};
        // Captured by value, so that the loop keeps them in registers.
        moves.for_each(blocks * slice / SLICES, blocks * (slice + 1) / SLICES,
                       [rows, weight, mine](index_t i, label_t j, int sign) {
                           add_to_cluster(rows, weight, i, j, sign, mine, 0, rows.d, true);
                       });
    });
    for (const Part& part : parts) {
        for (index_t i = 0; i < k * rows.d; ++i)
            add(sums.sum[i], sums.remainder[i], part.sum[i]), sums.remainder[i] += part.remainder[i];
        for (index_t j = 0; j < k; ++j) {
            add(sums.weight[j], sums.weight_remainder[j], part.weight[j]);
            sums.weight_remainder[j] += part.weight_remainder[j];
            sums.count[j] += part.count[j];
        }
    }
}

template <class Rows>
void update_by_clusters(const Rows& rows, const double* weight, const Moves& moves, index_t k,
                        const ClusterSums& sums) {
    const index_t threads = threads_for(static_cast<double>(moves.count()) * rows.d * 4);
    const index_t slabs = Rows::sparse ? 1 : std::max<index_t>(1, std::min(rows.d / 64, threads));
    const index_t parts = std::min(k, (threads + slabs - 1) / slabs);
    parallel(parts * slabs, static_cast<int>(threads), [&](index_t task) {
        const index_t part = task / slabs, slab = task % slabs;
        const index_t from = rows.d * slab / slabs, to = rows.d * (slab + 1) / slabs;
        moves.for_each(0, blocks_of(rows.n), [&](index_t i, label_t j, int sign) {
            if (j * parts / k == part) add_to_cluster(rows, weight, i, j, sign, sums, from, to, slab == 0);
        });
    });
}

// Without changes the sums are computed anew from `labels`.
template <class Rows>
void update(const Rows& rows, const double* weight, const label_t* labels, const Changes* changes, index_t k,
            const ClusterSums& sums) {
    const Moves moves{rows.n, labels, changes};
    if (!changes) {
        for (double* p : {sums.sum, sums.remainder}) std::fill(p, p + k * rows.d, 0.0);
        for (double* p : {sums.weight, sums.weight_remainder}) std::fill(p, p + k, 0.0);
        std::fill(sums.count, sums.count + k, 0);
    }
    if (!Rows::sparse && k * rows.d <= MAX_SLICED && moves.count() >= 64 * k)
        update_by_slices(rows, weight, moves, k, sums);
    else
        update_by_clusters(rows, weight, moves, k, sums);
}

template <class Rows>
void costs(const Rows& rows, const double* c, index_t k, const label_t* labels, double* cost) {
    const auto centers = exact_centers(rows, c, k);
    parallel_rows(rows.n, threads_for(static_cast<double>(rows.n) * rows.d), [&](index_t from, index_t stop) {
        for (index_t i = from; i < stop; ++i) cost[i] = dist2(rows, i, centers, labels[i]);
    });
}

template <class Rows>
void distances(const Rows& rows, const double* c, index_t k, bool squared, void* out) {
    using T = typename Rows::value_type;
    const auto centers = exact_centers(rows, c, k);
    parallel_rows(rows.n, threads_for(static_cast<double>(rows.n) * rows.d * k), [&](index_t from, index_t stop) {
        for (index_t i = from; i < stop; ++i)
            for (index_t j = 0; j < k; ++j) {
                const double v = dist2(rows, i, centers, j);
                static_cast<T*>(out)[i * k + j] = static_cast<T>(squared ? v : std::sqrt(v));
            }
    });
}

// Returns the mean of the features' variances, the unit of scikit-learn's `tol`, in one pass. Values are taken relative
// to the first row, so that squares do not cancel digits if the data are far from the origin.
template <class T>
double mean_variance(const Dense<T>& rows) {
    const index_t d = rows.d, together = (32 + d - 1) / d, width = together * d;  // rows added at once
    std::vector<double> pivot(width), part(SLICES * 2 * width, 0);
    for (index_t j = 0; j < width; ++j) pivot[j] = static_cast<double>(rows.x[j % d]);
    parallel(SLICES, threads_for(static_cast<double>(rows.n) * d), [&](index_t slice) {
        double *sum = part.data() + slice * 2 * width, *square = sum + width;
        const index_t stop = rows.n * (slice + 1) / SLICES;
        for (index_t i = rows.n * slice / SLICES; i < stop; i += together) {
            const T* x = rows.row(i);
            const index_t count = std::min(together, stop - i) * d;
            for (index_t j = 0; j < count; ++j) {
                const double v = static_cast<double>(x[j]) - pivot[j];
                sum[j] += v;
                square[j] += v * v;
            }
        }
    });
    const double n = static_cast<double>(rows.n);
    double total = 0;
    for (index_t j = 0; j < d; ++j) {
        double sum = 0, square = 0;
        for (index_t slice = 0; slice < SLICES; ++slice)
            for (index_t i = j; i < width; i += d)
                sum += part[slice * 2 * width + i], square += part[slice * 2 * width + width + i];
        const double variance = square / n - (sum / n) * (sum / n);
        total += variance < 0 ? 0 : variance;  // not std::max, which would hide a NaN
    }
    return total / static_cast<double>(d);
}

template <class T>
double mean_variance(const Csr<T>& rows) {
    std::vector<double> mean(rows.d, 0), square(rows.d, 0);
    std::vector<index_t> stored(rows.d, 0);
    const index_t all = rows.start[rows.n];
    for (index_t p = 0; p < all; ++p) mean[rows.column[p]] += static_cast<double>(rows.x[p]);
    for (double& m : mean) m /= static_cast<double>(rows.n);
    for (index_t p = 0; p < all; ++p) {
        const double v = static_cast<double>(rows.x[p]) - mean[rows.column[p]];
        square[rows.column[p]] += v * v;
        ++stored[rows.column[p]];
    }
    double sum = 0;
    for (index_t j = 0; j < rows.d; ++j)
        sum += (square[j] + static_cast<double>(rows.n - stored[j]) * mean[j] * mean[j]) / static_cast<double>(rows.n);
    return sum / static_cast<double>(rows.d);
}

}  // namespace kv::KV_ISA
