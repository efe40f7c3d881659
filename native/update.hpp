// Cluster sums (from which the centres are computed), costs and distances.
//
// Sums are exact integers (exact_sums.hpp), so that any thread may add any row.
#pragma once

#include "exact.hpp"
#include "exact_sums.hpp"
#include "kernels.hpp"

namespace kv::KV_ISA {

constexpr index_t MAX_PARTIAL = 8192;  // every thread has sums of its own if k * d is at most this

// Adds or subtracts w * row, for the features [from, to). Dense rows leave the bits of the scale in the sums.
template <int SIGN, class T>
[[gnu::always_inline]] inline void add_row(const Dense<T>& rows, index_t i, double w, const Scale& scale, limb_t* limbs,
                                           index_t from, index_t to) {
    const T* __restrict x = rows.row(i);
    limb_t* __restrict high = limbs, * __restrict middle = limbs + rows.d, * __restrict low = limbs + 2 * rows.d;
    for (index_t j = from; j < to; ++j)
        scale.cut_biased(w * static_cast<double>(x[j]), [&](int l, word_t v) {
            (l == 0 ? high : l == 1 ? middle : low)[j] += SIGN > 0 ? v : -v;
        });
}

template <int SIGN, class T>
[[gnu::always_inline]] inline void add_row(const Csr<T>& rows, index_t i, double w, const Scale& scale, limb_t* limbs,
                                           index_t, index_t) {
    for (index_t p = rows.start[i]; p < rows.start[i + 1]; ++p)
        scale.cut(w * static_cast<double>(rows.x[p]),
                  [&](int l, limb_t v) { limbs[l * rows.d + rows.column[p]] += SIGN * v; });
}

// Removes the bits that so many additions of dense rows left.
template <class Rows>
void remove_bits(const Rows& rows, const Scale& scale, index_t additions, limb_t* limbs, index_t from, index_t to) {
    if (Rows::sparse || !additions) return;
    auto* words = reinterpret_cast<word_t*>(limbs);
    for (int l = 0; l < LIMBS; ++l)
        for (index_t j = from; j < to; ++j) words[l * rows.d + j] -= static_cast<word_t>(additions) * scale.bits[l];
}

// What is left of a value after coarser sums have taken their parts.
inline double rest_of(double term, const std::vector<double>& coarser) {
    for (const double magic : coarser) term -= (term + magic) - magic;
    return term;
}

// Adds or subtracts what is left of a row.
template <class T>
void add_rest(const Dense<T>& rows, index_t i, double w, int sign, const ClusterSums& sums, limb_t* limbs, index_t from,
              index_t to) {
    for (index_t j = from; j < to; ++j)
        sums.scale.cut(rest_of(w * static_cast<double>(rows.row(i)[j]), sums.coarser),
                       [&](int l, limb_t v) { limbs[l * rows.d + j] += sign * v; });
}
template <class T>
void add_rest(const Csr<T>& rows, index_t i, double w, int sign, const ClusterSums& sums, limb_t* limbs, index_t,
              index_t) {
    for (index_t p = rows.start[i]; p < rows.start[i + 1]; ++p)
        sums.scale.cut(rest_of(w * static_cast<double>(rows.x[p]), sums.coarser),
                       [&](int l, limb_t v) { limbs[l * rows.d + rows.column[p]] += sign * v; });
}

// A row of weight zero adds nothing. Without weights the weight of a cluster is its count: see set_weights.
template <int SIGN, class Rows>
[[gnu::always_inline]] inline void add_to_cluster(const Rows& rows, const double* weight, index_t i, label_t j,
                                                  const ClusterSums& sums, index_t from, index_t to) {
    const double w = weight ? weight[i] : 1.0;
    if (w == 0) return;
    add_row<SIGN>(rows, i, w, sums.scale, sums.sum + j * LIMBS * rows.d, from, to);
    sums.count[j] += SIGN;
    if (weight) sums.weight_scale.cut(w, [&](int l, limb_t v) { sums.weight[j * LIMBS + l] += SIGN * v; });
}

inline void set_weights(index_t k, const ClusterSums& sums) {
    for (index_t j = 0; j < k; ++j)
        sums.weight_scale.cut(1.0, [&](int l, limb_t v) { sums.weight[j * LIMBS + l] = v * sums.count[j]; });
}

// The rows to add to clusters: all of them, or those with a new label, which also leave the old one.
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
    // Calls visit(row, cluster, sign) for the rows of a block; the sign is a compile-time constant.
    template <class Visit>
    [[gnu::always_inline]] void for_each(index_t block, Visit visit) const {
        constexpr std::integral_constant<int, 1> plus;
        constexpr std::integral_constant<int, -1> minus;
        if (!changes) {
            for (index_t i = block * BLOCK; i < std::min(n, (block + 1) * BLOCK); ++i) visit(i, labels[i], plus);
            return;
        }
        for (const Change& change : changes->block[block]) {
            const index_t i = block * BLOCK + change.row;
            visit(i, change.before, minus);
            visit(i, labels[i], plus);
        }
    }
};

// The sums of one thread. Slabs of features have only some columns, and the counts and weights of all.
struct PartialClusterSums {
    std::vector<limb_t> sum, weight;
    std::vector<index_t> count;
    PartialClusterSums(index_t k, index_t sums) : sum(sums), weight(k * LIMBS), count(k) {}
    ClusterSums view(const ClusterSums& like, limb_t* to) {
        return {to, weight.data(), count.data(), like.scale, like.weight_scale};
    }
    void add_counts_to(const ClusterSums& sums) const {
        for (std::size_t i = 0; i < weight.size(); ++i) sums.weight[i] += weight[i];
        for (std::size_t j = 0; j < count.size(); ++j) sums.count[j] += count[j];
    }
};

template <class Rows>
void update_by_threads(const Rows& rows, const double* weight, const Moves& moves, index_t k, const ClusterSums& sums,
                       int threads) {
    const index_t width = LIMBS * rows.d;
    std::vector<PartialClusterSums> parts(threads, PartialClusterSums(k, k * width));
    parallel(blocks_of(rows.n), parts, [&](index_t block, PartialClusterSums& part) {
        // Captured by value, so that the loop keeps them in registers.
        moves.for_each(block, [rows, weight, mine = part.view(sums, part.sum.data())](index_t i, label_t j, auto sign) {
            add_to_cluster<sign()>(rows, weight, i, j, mine, 0, rows.d);
        });
    });
    for (auto& part : parts) {
        for (index_t j = 0; j < k; ++j)
            remove_bits(rows, sums.scale, part.count[j], part.sum.data() + j * width, 0, rows.d);
        for (std::size_t i = 0; i < part.sum.size(); ++i) sums.sum[i] += part.sum[i];
        part.add_counts_to(sums);
    }
}

// Every cluster and feature belongs to one thread.
template <class Rows>
void update_by_clusters(const Rows& rows, const double* weight, const Moves& moves, index_t k, const ClusterSums& sums,
                        int threads) {
    const index_t slabs = Rows::sparse ? 1 : std::max<index_t>(1, std::min<index_t>(rows.d / 64, threads));
    const index_t parts = std::min<index_t>(k, (threads + slabs - 1) / slabs);
    std::vector<PartialClusterSums> partial(parts * slabs, PartialClusterSums(k, 0));
    parallel(parts * slabs, threads, [&](index_t task) {
        const index_t part = task / slabs, slab = task % slabs;
        const index_t from = rows.d * slab / slabs, to = rows.d * (slab + 1) / slabs;
        const ClusterSums mine = partial[task].view(sums, sums.sum);
        for (index_t block = 0; block < blocks_of(rows.n); ++block)
            moves.for_each(block, [rows, weight, mine, part, parts, k, from, to](index_t i, label_t j, auto sign) {
                if (parts == 1 || j * parts / k == part) add_to_cluster<sign()>(rows, weight, i, j, mine, from, to);
            });
        for (index_t j = 0; j < k; ++j)
            remove_bits(rows, sums.scale, mine.count[j], sums.sum + j * LIMBS * rows.d, from, to);
    });
    for (index_t task = 0; task < parts * slabs; task += slabs) partial[task].add_counts_to(sums);
}

// Sums that are finer than others: slower, and on one thread, but hardly ever needed. Counts and weights stay.
template <class Rows>
void update_finer(const Rows& rows, const double* weight, const Moves& moves, const ClusterSums& sums) {
    for (index_t block = 0; block < blocks_of(rows.n); ++block)
        moves.for_each(block, [&](index_t i, label_t j, auto sign) {
            const double w = weight ? weight[i] : 1.0;
            if (w != 0) add_rest(rows, i, w, sign(), sums, sums.sum + j * LIMBS * rows.d, 0, rows.d);
        });
}

// Without changes the sums are computed anew from `labels`.
template <class Rows>
void update(const Rows& rows, const double* weight, const label_t* labels, const Changes* changes, index_t k,
            const ClusterSums& sums) {
    const Moves moves{rows.n, labels, changes};
    if (!changes) std::fill(sums.sum, sums.sum + k * LIMBS * rows.d, 0);
    if (!sums.coarser.empty()) return update_finer(rows, weight, moves, sums);
    if (!changes) {
        std::fill(sums.weight, sums.weight + k * LIMBS, 0);
        std::fill(sums.count, sums.count + k, 0);
    }
    const index_t count = moves.count();
    const int threads = threads_for(static_cast<double>(count) * (rows.d + 4) * 4);
    if (threads > 1 && k * rows.d <= MAX_PARTIAL && count >= 64 * k)
        update_by_threads(rows, weight, moves, k, sums, threads);
    else
        update_by_clusters(rows, weight, moves, k, sums, threads);
    if (!weight) set_weights(k, sums);
}

// Returns the largest absolute value, and the smallest that is not zero (infinity if there is none). The bits of
// positive numbers are in the order of the numbers, and compilers find vectors for integers only.
template <class Rows>
Magnitudes magnitudes(const Rows& rows) {
    using T = typename Rows::value_type;
    using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
    constexpr Bits infinity = std::bit_cast<Bits>(std::numeric_limits<T>::infinity());
    constexpr index_t SPAN = 64 * BLOCK;
    const index_t values = [&] {
        if constexpr (Rows::sparse)
            return rows.start[rows.n];
        else
            return rows.n * rows.d;
    }();
    std::vector<Magnitudes> parts((values + SPAN - 1) / SPAN);
    parallel(static_cast<index_t>(parts.size()), threads_for(static_cast<double>(values)), [&](index_t part) {
        Bits most = 0, least = infinity - 1;  // the latter of bits minus one: those of zero become the largest
        const T* x = rows.x;
        const index_t stop = std::min(values, (part + 1) * SPAN);
        for (index_t i = part * SPAN; i < stop; ++i) {
            const Bits size = std::bit_cast<Bits>(x[i]) << 1 >> 1;
            most = size > most ? size : most;
            least = size - 1 < least ? size - 1 : least;
        }
        parts[part] = {std::bit_cast<T>(most), std::bit_cast<T>(least + 1)};
    });
    Magnitudes all;
    for (const Magnitudes& part : parts)
        all = {std::max(all.largest, part.largest), std::min(all.smallest, part.smallest)};
    return all;
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

}  // namespace kv::KV_ISA
