// What the centres are made of: weighted sums of their rows; and what a clustering costs.
//
// Sums have one order, whatever the number of threads: either threads share out clusters and
// coordinates, never one sum, or rows are cut into SLICES, a fixed number, summed apart and merged.
#pragma once

#include "exact.hpp"
#include "kernels.hpp"

namespace kv::KV_ISA {

constexpr index_t SLICES = 32;
constexpr index_t SLICED = 4096;   // values of all centres up to which every slice has its own sums

// Rows to move, in row order: all of them (into their cluster), or those that changed.
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
    // visit(row, cluster, sign) for the blocks [from, to)
    template <class Visit>
    void each(index_t from, index_t to, Visit visit) const {
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
inline void move(const Rows& rows, const double* weight, index_t i, label_t j, int sign, const Sums& sums,
                 index_t from, index_t to, bool counts) {
    const double w = sign * (weight ? weight[i] : 1.0);
    add_row(rows, i, w, sums.sum + j * rows.d, sums.rest + j * rows.d, from, to);
    if (!counts) return;
    add(sums.weight[j], sums.weight_rest[j], w);
    if (w != 0) sums.count[j] += sign;
}

template <class Rows>
void update_slices(const Rows& rows, const double* weight, const Moves& moves, index_t k, const Sums& sums) {
    struct Part {
        std::vector<double> sum, rest, weight, weight_rest;
        std::vector<index_t> count;
    };
    std::vector<Part> parts(SLICES);
    const index_t blocks = blocks_of(rows.n);
    parallel(SLICES, threads_for(static_cast<double>(moves.count()) * (rows.d + 4) * 4), [&](index_t slice) {
        Part& part = parts[slice];
        part = {std::vector<double>(k * rows.d), std::vector<double>(k * rows.d), std::vector<double>(k),
                std::vector<double>(k), std::vector<index_t>(k)};
        const Sums mine{part.sum.data(), part.rest.data(), part.weight.data(), part.weight_rest.data(), part.count.data()};
        moves.each(blocks * slice / SLICES, blocks * (slice + 1) / SLICES, [&](index_t i, label_t j, int sign) {
            move(rows, weight, i, j, sign, mine, 0, rows.d, true);
        });
    });
    for (const Part& part : parts) {
        for (index_t i = 0; i < k * rows.d; ++i) add(sums.sum[i], sums.rest[i], part.sum[i]), sums.rest[i] += part.rest[i];
        for (index_t j = 0; j < k; ++j) {
            add(sums.weight[j], sums.weight_rest[j], part.weight[j]);
            sums.weight_rest[j] += part.weight_rest[j];
            sums.count[j] += part.count[j];
        }
    }
}

template <class Rows>
void update_shares(const Rows& rows, const double* weight, const Moves& moves, index_t k, const Sums& sums, bool sparse) {
    const index_t threads = threads_for(static_cast<double>(moves.count()) * rows.d * 4);
    const index_t slabs = sparse ? 1 : std::max<index_t>(1, std::min(rows.d / 64, threads));
    const index_t parts = std::min(k, (threads + slabs - 1) / slabs);
    parallel(parts * slabs, static_cast<int>(threads), [&](index_t task) {
        const index_t part = task / slabs, slab = task % slabs;
        const index_t from = rows.d * slab / slabs, to = rows.d * (slab + 1) / slabs;
        moves.each(0, blocks_of(rows.n), [&](index_t i, label_t j, int sign) {
            if (j * parts / k == part) move(rows, weight, i, j, sign, sums, from, to, slab == 0);
        });
    });
}

// Without changes the sums are made afresh from `labels`.
template <class Rows>
void update(const Rows& rows, const double* weight, const label_t* labels, const Changes* changes, index_t k,
            const Sums& sums, bool sparse) {
    const Moves moves{rows.n, labels, changes};
    if (!changes) {
        for (double* p : {sums.sum, sums.rest}) std::fill(p, p + k * rows.d, 0.0);
        for (double* p : {sums.weight, sums.weight_rest}) std::fill(p, p + k, 0.0);
        std::fill(sums.count, sums.count + k, 0);
    }
    if (!sparse && k * rows.d <= SLICED && moves.count() >= 64 * k)
        update_slices(rows, weight, moves, k, sums);
    else
        update_shares(rows, weight, moves, k, sums, sparse);
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
