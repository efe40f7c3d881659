// What the centres are made of: weighted sums of their rows; and what a clustering costs.
//
// Every sum over rows runs in row order within a cluster (threads share out clusters and
// coordinates, never one sum), so any number of threads gives the same bits.
#pragma once

#include "exact.hpp"
#include "kernels.hpp"

namespace kv::KV_ISA {

// One thread's share: the clusters it owns, the coordinates [from, to).
template <class Rows>
struct Share {
    const Rows& rows;
    const double* weight;
    const label_t *before, *labels;
    const char* mine;  // per cluster
    index_t from, to;
    bool counts;       // this share also keeps weights and counts
    Sums sums;

    void move(index_t i, label_t j, double sign) const {
        const double w = weight ? weight[i] : 1.0;
        add_row(rows, i, sign * w, sums.sum + j * rows.d, sums.rest + j * rows.d, from, to);
        if (!counts) return;
        add(sums.weight[j], sums.weight_rest[j], sign * w);
        if (w > 0) sums.count[j] += sign > 0 ? 1 : -1;
    }
    void add_all() const {
        index_t list[BLOCK];
        for (index_t at = 0; at < rows.n; at += BLOCK) {
            const index_t stop = std::min(rows.n, at + BLOCK);
            index_t m = 0;
            for (index_t i = at; i < stop; ++i) {  // compact first: no mispredicted branches
                list[m] = i;
                m += mine[labels[i]];
            }
            for (index_t p = 0; p < m; ++p) move(list[p], labels[list[p]], 1);
        }
    }
    void move_changed(const std::vector<std::vector<index_t>>& changed) const {
        for (const auto& block : changed)
            for (index_t i : block) {
                if (mine[before[i]]) move(i, before[i], -1);
                if (mine[labels[i]]) move(i, labels[i], 1);
            }
    }
};

// The rows with a new label, block by block.
inline std::vector<std::vector<index_t>> changed_rows(index_t n, const label_t* before, const label_t* labels) {
    std::vector<std::vector<index_t>> changed(blocks_of(n));
    parallel(blocks_of(n), threads_for(4.0 * static_cast<double>(n)), [&](index_t block) {
        index_t list[BLOCK];
        const index_t stop = std::min(n, (block + 1) * BLOCK);
        index_t m = 0;
        for (index_t i = block * BLOCK; i < stop; ++i) {
            list[m] = i;
            m += labels[i] != before[i];
        }
        changed[block].assign(list, list + m);
    });
    return changed;
}

// afresh: sums are made anew from `labels`; otherwise only rows whose label changed are moved.
template <class Rows>
void update(const Rows& rows, const double* weight, const label_t* before, const label_t* labels,
            index_t k, bool afresh, const Sums& sums, bool sparse) {
    std::vector<std::vector<index_t>> changed;
    if (afresh) {
        for (double* p : {sums.sum, sums.rest}) std::fill(p, p + k * rows.d, 0.0);
        for (double* p : {sums.weight, sums.weight_rest}) std::fill(p, p + k, 0.0);
        std::fill(sums.count, sums.count + k, 0);
    } else {
        changed = changed_rows(rows.n, before, labels);
    }
    const index_t threads = threads_for(static_cast<double>(rows.n) * rows.d * 4);
    const index_t slabs = sparse ? 1 : std::max<index_t>(1, std::min(rows.d / 64, threads));
    const index_t parts = std::min(k, (threads + slabs - 1) / slabs);
    std::vector<char> owner(parts * k, 0);
    for (index_t j = 0; j < k; ++j) owner[j * parts / k * k + j] = 1;  // neighbours share cache lines
    parallel(parts * slabs, static_cast<int>(threads), [&](index_t task) {
        const index_t part = task / slabs, slab = task % slabs;
        const Share<Rows> share{rows, weight, before, labels, owner.data() + part * k,
                                rows.d * slab / slabs, rows.d * (slab + 1) / slabs, slab == 0, sums};
        afresh ? share.add_all() : share.move_changed(changed);
    });
}

template <class Rows>
void own_cost(const Rows& rows, const double* c, index_t k, const label_t* labels,
              double* cost) {
    const auto centres = exact_centres(rows, c, k);
    parallel(blocks_of(rows.n), threads_for(static_cast<double>(rows.n) * rows.d), [&](index_t block) {
        const index_t stop = std::min(rows.n, (block + 1) * BLOCK);
        for (index_t i = block * BLOCK; i < stop; ++i) cost[i] = dist2(rows, i, centres, labels[i]);
    });
}

template <class Rows>
void distances(const Rows& rows, const double* c, index_t k, bool squared,
               typename Rows::value_type* out) {
    const auto centres = exact_centres(rows, c, k);
    parallel(blocks_of(rows.n), threads_for(static_cast<double>(rows.n) * rows.d * k), [&](index_t block) {
        const index_t stop = std::min(rows.n, (block + 1) * BLOCK);
        for (index_t i = block * BLOCK; i < stop; ++i)
            for (index_t j = 0; j < k; ++j) {
                const double v = dist2(rows, i, centres, j);
                out[i * k + j] = static_cast<typename Rows::value_type>(squared ? v : std::sqrt(v));
            }
    });
}

// Mean over the coordinates of their variance: the scale of scikit-learn's tolerance. One pass:
// measured from the first row, which is as near the mean as the data are, squares do not cancel.
// Slices of rows are fixed in number, so that the sums have one order.
constexpr index_t SLICES = 32;

template <class T>
double spread(const Dense<T>& rows) {
    const index_t d = rows.d, together = (32 + d - 1) / d, width = together * d;  // rows a stride
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
        total += variance < 0 ? 0 : variance;  // an overflow stays visible
    }
    return total / static_cast<double>(d);
}

template <class T>
double spread(const Csr<T>& rows) {
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
