// Cluster sums (from which the centres are computed) and costs.
//
// Sums are exact integers (exact_sums.hpp), so that any thread may add any row.
#pragma once

#include "dense_sums.hpp"
#include "reference.hpp"

namespace kv::KV_ISA {

// What is left of a value after coarser sums have taken their parts.
inline double rest_of(double term, const std::vector<double>& coarser) {
    for (const double magic : coarser) term -= (term + magic) - magic;
    return term;
}

// Adds or subtracts a row, or what coarser sums left of it.
template <class T>
void add_rest(const Dense<T>& rows, index_t i, double w, int sign, const ClusterSums& sums, limb_t* limbs) {
    for (index_t j = 0; j < rows.d; ++j)
        sums.scale.cut(rest_of(w * static_cast<double>(rows.row(i)[j]), sums.coarser),
                       [&](int l, limb_t v) { limbs[l * rows.d + j] += sign * v; });
}
template <class T>
void add_rest(const Csr<T>& rows, index_t i, double w, int sign, const ClusterSums& sums, limb_t* limbs) {
    for (index_t p = rows.start[i]; p < rows.start[i + 1]; ++p)
        sums.scale.cut(rest_of(w * static_cast<double>(rows.x[p]), sums.coarser),
                       [&](int l, limb_t v) { limbs[l * rows.d + rows.column[p]] += sign * v; });
}
inline void add_rest(const SmallRows& rows, index_t i, double w, int sign, const ClusterSums& sums, limb_t* limbs) {
    with_type_of(rows, [&](auto dense) { add_rest(dense, i, w, sign, sums, limbs); });
}

// Adds or subtracts one row of weight w, with its count and weight.
template <class Rows>
void add_one(const Rows& rows, index_t i, double w, label_t j, int sign, const std::vector<ClusterSums>& levels) {
    for (const ClusterSums& level : levels) add_rest(rows, i, w, sign, level, level.sum + j * LIMBS * rows.d);
    const ClusterSums& sums = levels[0];
    sums.count[j] += sign;
    sums.weight_scale.cut(w, [&](int l, limb_t v) { sums.weight[j * LIMBS + l] += sign * v; });
}

// Without weights the weight of a cluster is its count.
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
        for (const auto& list : changes->list) sum += static_cast<index_t>(list.size());
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
        changes->for_block(block, [&](index_t i, label_t before) {
            visit(i, before, minus);
            visit(i, labels[i], plus);
        });
    }
};

// The sums of some sparse rows: in place, or in limbs of their own.
struct SparseClusterSums : ClusterCounts {
    std::vector<limb_t> own;
    limb_t *shared, *limbs;
    const Scale& scale;

    SparseClusterSums(index_t k, index_t d, const ClusterSums& sums, bool in_place)
        : ClusterCounts(k),
          own(in_place ? 0 : k * LIMBS * d),
          shared(sums.sum),
          limbs(in_place ? shared : own.data()),
          scale(sums.scale) {}
    template <int SIGN, class T>
    [[gnu::always_inline]] void add(const Csr<T>& rows, index_t i, double w, label_t j) {
        limb_t* to = limbs + j * LIMBS * rows.d;
        for (index_t p = rows.start[i]; p < rows.start[i + 1]; ++p)
            scale.cut(w * static_cast<double>(rows.x[p]),
                      [&](int l, limb_t v) { to[l * rows.d + rows.column[p]] += SIGN * v; });
    }
    void flush_all() {
        for (std::size_t i = 0; i < own.size(); ++i) shared[i] += own[i];
    }
};

// Adds the rows of a block that belong to the clusters [first, last). A row of weight zero adds nothing.
template <class Rows, class Part>
void add_block(const Rows& rows, const double* weight, const Moves& moves, index_t block, const ClusterSums& sums,
               index_t first, index_t last, Part& part) {
    // Captured by value, so that the loop keeps them in registers.
    moves.for_each(block, [rows, weight, first, last, &part, &sums](index_t i, label_t j, auto sign) {
        const double w = weight ? weight[i] : 1.0;
        if (w == 0 || j < first || j >= last) return;
        part.template add<sign()>(rows, i, w, j);
        part.count[j] += sign();
        if (weight) sums.weight_scale.cut(w, [&](int l, limb_t v) { part.weight[j * LIMBS + l] += sign() * v; });
    });
}

// Every thread takes some of the rows, if there are few sums.
template <class Rows, class MakePart>
void update_by_rows(const Rows& rows, const double* weight, const Moves& moves, index_t k, const ClusterSums& sums,
                    int threads, MakePart make) {
    std::vector<decltype(make(0, 0, false))> parts;
    for (int t = 0; t < threads; ++t) parts.push_back(make(0, rows.d, false));
    parallel(blocks_of(rows.n), parts,
             [&](index_t block, auto& part) { add_block(rows, weight, moves, block, sums, 0, k, part); });
    for (auto& part : parts) {
        part.flush_all();
        part.add_counts_to(sums);
    }
}

// Every cluster and feature belongs to one thread.
template <class Rows, class MakePart>
void update_by_clusters(const Rows& rows, const double* weight, const Moves& moves, index_t k, const ClusterSums& sums,
                        int threads, MakePart make) {
    const index_t slabs = Rows::sparse ? 1 : std::max<index_t>(1, std::min<index_t>(rows.d / 64, threads));
    const index_t groups = std::min<index_t>(k, (threads + slabs - 1) / slabs);
    std::vector<decltype(make(0, 0, true))> parts;
    for (index_t task = 0; task < groups * slabs; ++task)
        parts.push_back(make(rows.d * (task % slabs) / slabs, rows.d * (task % slabs + 1) / slabs, true));
    parallel(groups * slabs, threads, [&](index_t task) {
        const index_t group = task / slabs, first = k * group / groups, last = k * (group + 1) / groups;
        for (index_t block = 0; block < blocks_of(rows.n); ++block)
            add_block(rows, weight, moves, block, sums, first, last, parts[task]);
        parts[task].flush_all();
    });
    for (index_t task = 0; task < groups * slabs; task += slabs) parts[task].add_counts_to(sums);
}

template <class Rows, class MakePart>
void update_parts(const Rows& rows, const double* weight, const Moves& moves, index_t k, const ClusterSums& sums,
                  MakePart make) {
    const index_t count = moves.count();
    const int threads = threads_for(static_cast<double>(count) * (rows.d + 4) * 4);
    if (threads > 1 && k * rows.d <= MAX_PARTIAL && count >= 16 * k)
        update_by_rows(rows, weight, moves, k, sums, threads, make);
    else
        update_by_clusters(rows, weight, moves, k, sums, threads, make);
}

template <class T>
void update_all(const Csr<T>& rows, const double* weight, const Moves& moves, index_t k, const ClusterSums& sums) {
    update_parts(rows, weight, moves, k, sums,
                 [&](index_t, index_t, bool in_place) { return SparseClusterSums(k, rows.d, sums, in_place); });
}

template <class Rows>
    requires(!Rows::sparse)
void update_all(const Rows& rows, const double* weight, const Moves& moves, index_t k, const ClusterSums& sums) {
    if (sums.narrow.low) {
        const double work = static_cast<double>(moves.count()) * (rows.d + 4) * 4;
        return update_by_clusters(rows, weight, moves, k, sums, threads_for(work), [&](index_t from, index_t to, bool) {
            return NarrowClusterSums(k, rows.d, from, to, sums);
        });
    }
    std::mutex flushing;
    const auto with_words = [&](auto words) {
        update_parts(rows, weight, moves, k, sums, [&](index_t from, index_t to, bool) {
            return ShortClusterSums<words()>(k, rows.d, from, to, sums, flushing);
        });
    };
    if (!weight && fits_one_word<typename Rows::value_type>(sums.smallest, sums.scale))
        with_words(std::integral_constant<int, 1>{});
    else
        with_words(std::integral_constant<int, 2>{});
}

// Computes w times the stored values of a row, and returns how many there are.
template <class T>
index_t terms_of(const Dense<T>& rows, index_t i, double w, double* term) {
    for (index_t j = 0; j < rows.d; ++j) term[j] = w * static_cast<double>(rows.row(i)[j]);
    return rows.d;
}
template <class T>
index_t terms_of(const Csr<T>& rows, index_t i, double w, double* term) {
    const index_t first = rows.start[i], count = rows.start[i + 1] - first;
    for (index_t p = 0; p < count; ++p) term[p] = w * static_cast<double>(rows.x[first + p]);
    return count;
}
inline index_t terms_of(const SmallRows& rows, index_t i, double w, double* term) {
    return with_type_of(rows, [&](auto dense) { return terms_of(dense, i, w, term); });
}

// Returns whether coarser sums leave anything of these terms, which are changed.
inline bool any_rest(double* term, index_t count, const std::vector<double>& coarser) {
    for (const double magic : coarser)
        for (index_t j = 0; j < count; ++j) term[j] -= (term[j] + magic) - magic;
    std::uint64_t bits = 0;
    for (index_t j = 0; j < count; ++j) bits |= std::bit_cast<std::uint64_t>(term[j]) << 1;  // without the sign
    return bits != 0;
}

// Sums that are finer than others, on one thread: coarser sums leave nothing of most rows. Counts and weights stay.
template <class Rows>
void update_finer(const Rows& rows, const double* weight, const Moves& moves, const ClusterSums& sums) {
    Buffer<double> term(rows.d);
    for (index_t block = 0; block < blocks_of(rows.n); ++block)
        moves.for_each(block, [&](index_t i, label_t j, auto sign) {
            const double w = weight ? weight[i] : 1.0;
            if (w != 0 && any_rest(term.data(), terms_of(rows, i, w, term.data()), sums.coarser))
                add_rest(rows, i, w, sign(), sums, sums.sum + j * LIMBS * rows.d);
        });
}

inline void clear(const ClusterSums& sums, index_t count) {
    if (sums.sum) std::fill(sums.sum, sums.sum + count * LIMBS, 0);
    if (sums.narrow.low) std::fill(sums.narrow.low, sums.narrow.low + count, 0);
    if (sums.narrow.high) std::fill(sums.narrow.high, sums.narrow.high + count, 0);
}

// Without changes the sums are computed anew from `labels`.
template <class Rows>
void update(const Rows& rows, const double* weight, const label_t* labels, const Changes* changes, index_t k,
            const ClusterSums& sums) {
    const Moves moves{rows.n, labels, changes};
    if (!changes) clear(sums, k * rows.d);
    if (!sums.coarser.empty()) return update_finer(rows, weight, moves, sums);
    if (!changes) {
        std::fill(sums.weight, sums.weight + k * LIMBS, 0);
        std::fill(sums.count, sums.count + k, 0);
    }
    update_all(rows, weight, moves, k, sums);
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

}  // namespace kv::KV_ISA
