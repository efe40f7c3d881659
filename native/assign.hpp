// Assignment of rows to their nearest centres without bounds (Lloyd), and what the assignments with bounds share.
// Those keep a lower bound per row (hamerly.hpp), per row and group of centres (yinyang.hpp), or per row and centre
// (elkan.hpp). All return the labels
//     argmin_j dist2(x, c_j) in exact arithmetic, ties to the lowest j,
// because bounds are rounded outwards and exact arithmetic decides where the filter cannot.
#pragma once

#include <algorithm>
#include <bit>

#include "packed_centers.hpp"
#include "row_bounds.hpp"

namespace kv::KV_ISA {

constexpr index_t SINGLE = 8;  // a pair takes so much longer if one row is filtered by itself

struct Scratch {
    Tile tile, single;  // for many rows, and for one
    DoubleTile doubles;
    std::vector<index_t> open;  // rows that the filter could not decide, see OpenRows
    std::vector<index_t> id, sorted;
    std::vector<label_t> list;
    std::vector<char> mark;
    std::vector<index_t> bucket;
    float limit[TILE] = {};
    AssignResult total;
    Changes* changes = nullptr;

    // For a task of these rows.
    void start_rows(Changes* c, index_t from, index_t stop) {
        changes = c;
        if (!c) return;
        for (index_t l = from >> c->bits; l << c->bits < stop; ++l) c->list[l].clear(), c->overflow[l] = 0;
    }
};

// Returns the nearest of `among` by exact arithmetic. The filter's values leave few centres to compute.
template <class Rows>
label_t nearest_by_values(const Rows& rows, index_t i, const Tile& tile, int at, int stride, const Centers& centers,
                          const Candidates& among) {
    float least = std::numeric_limits<float>::infinity();
    for (index_t p = 0; p < among.count; ++p) least = std::min(least, tile.values[p * stride + at]);
    const float limit = least + 2 * tile.slack[at];
    const bool finite = tile.finite(at);
    Nearest best;
    for (index_t p = 0; p < among.count; ++p)
        if (!finite || !(tile.values[p * stride + at] > limit))
            best.offer(among.at(p), dist2(rows, i, centers, among.at(p)));
    return best.arg;
}

// Returns the nearest of `among` for row r, which the filter could not decide. If the values of the tile were not kept,
// the row is filtered again by itself.
template <class Rows>
[[gnu::noinline]] label_t nearest_of_uncertain(const Rows& rows, index_t i, int r, const PackedCenters& packed,
                                               const Centers& centers, const Candidates& among, Scratch& s) {
    if (s.tile.has_values) return nearest_by_values(rows, i, s.tile, r, TILE, centers, among);
    filter_row(rows, i, packed, among, s.single);
    return nearest_by_values(rows, i, s.single, 0, 1, centers, among);
}

// Returns the nearest of `among` for row r of the filtered tile.
template <class Rows>
inline label_t nearest_label(const Rows& rows, index_t i, int r, const PackedCenters& packed, const Centers& centers,
                             const Candidates& among, Scratch& s) {
    return s.tile.uncertain[r] ? nearest_of_uncertain(rows, i, r, packed, centers, among, s) : s.tile.arg[r];
}

// Lists the rows of a tile whose value is within its limit, and returns how many. Flags are computed in vectors first,
// so that only the rows that are set are visited.
inline int rows_within(const float* values, const float* limit, int count, int* list) {
    std::uint8_t flag[TILE];
    for (int r = 0; r < TILE; ++r) flag[r] = !(values[r] > limit[r]);
    int m = 0;
    for (int r = 0; r < count; r += 8) {
        std::uint64_t bytes;
        std::memcpy(&bytes, flag + r, 8);
        for (; bytes; bytes &= bytes - 1) {
            list[m] = r + __builtin_ctzll(bytes) / 8;
            m += list[m] < count;
        }
    }
    return m;
}

// Calls visit(id, count) for the tiles of rows [from, stop).
template <class Visit>
inline void for_tiles(index_t from, index_t stop, Visit&& visit) {
    for (index_t at = from; at < stop; at += TILE) {
        index_t id[TILE];
        const int count = static_cast<int>(std::min<index_t>(TILE, stop - at));
        for (int r = 0; r < count; ++r) id[r] = at + r;
        visit(id, count);
    }
}
// Likewise for listed rows.
template <class Visit>
inline void for_tiles(const std::vector<index_t>& id, Visit&& visit) {
    for (std::size_t at = 0; at < id.size(); at += TILE)
        visit(id.data() + at, static_cast<int>(std::min<std::size_t>(TILE, id.size() - at)));
}

// Scratch for as many threads as n rows against k centres are worth.
template <class Rows>
std::vector<Scratch> make_scratch(const Rows& rows, index_t k) {
    return std::vector<Scratch>(threads_for(static_cast<double>(rows.n) * rows.d * k));
}

template <class S>
AssignResult total(const std::vector<S>& all) {
    AssignResult sum;
    for (const S& s : all) {
        sum.changed += s.total.changed, sum.scanned += s.total.scanned;
        sum.pairs += s.total.pairs, sum.exact += s.total.exact, sum.undecided += s.total.undecided;
        sum.probed += s.total.probed, sum.stable += s.total.stable;
        sum.chosen += s.total.chosen, sum.spared += s.total.spared;
    }
    return sum;
}

// Rows of a task: a block, or part of it if threads would have less than eight tasks each, since all wait for the last.
inline index_t rows_of_task(index_t n, std::size_t threads, index_t most = BLOCK) {
    index_t rows = most;
    while (rows > most / 8 && n < 8 * static_cast<index_t>(threads) * rows) rows /= 2;
    return rows;
}

constexpr std::size_t MAX_CHANGES = BLOCK / 4;

// Pre: tasks are of so many rows, a power of two.
inline void start_changes(Changes* changes, index_t n, index_t rows) {
    if (!changes) return;
    changes->bits = std::countr_zero(static_cast<std::uint64_t>(std::min(rows, BLOCK)));
    const index_t lists = (n + changes->rows_of_list() - 1) >> changes->bits;
    changes->list.resize(lists), changes->overflow.resize(lists);
}
// Sorts the changes by row, since an algorithm may visit rows in another order.
inline void finish_changes(Changes* changes) {
    if (!changes) return;
    changes->overflowed = std::find(changes->overflow.begin(), changes->overflow.end(), 1) != changes->overflow.end();
    const std::size_t per_block = BLOCK >> changes->bits;
    for (std::size_t l = 0, kept = 0; l < changes->list.size(); ++l) {
        auto& list = changes->list[l];
        kept = (l % per_block ? kept : 0) + list.size();
        if (kept > MAX_CHANGES) changes->overflowed = true;
        std::sort(list.begin(), list.end(), [](const Change& a, const Change& b) { return a.row < b.row; });
    }
}

inline void relabel(label_t* labels, index_t i, label_t j, Scratch& s) {
    if (labels[i] == j) return;
    ++s.total.changed;
    if (s.changes) {
        const index_t l = i >> s.changes->bits;
        auto& list = s.changes->list[l];
        if (list.size() < MAX_CHANGES)
            list.push_back({static_cast<std::int32_t>(i - (l << s.changes->bits)), labels[i]});
        else
            s.changes->overflow[l] = 1;
    }
    labels[i] = j;
}

// The rows that the filter leaves uncertain. Each thread collects its own, and decides a tile of them at a time by the
// filter in float64; where that cannot decide either, by exact distances. Labels are therefore written late.
template <class Rows>
struct OpenRows {
    const Rows& rows;
    const Centers& centers;
    const PackedCenters& packed;
    label_t* labels;
    mutable LazyDoubles<typename Rows::value_type> doubles;

    OpenRows(const Rows& rows_, const Centers& centers_, const PackedCenters& packed_, label_t* labels_)
        : rows(rows_), centers(centers_), packed(packed_), labels(labels_) {}
    void add(index_t i, Scratch& s) const {
        s.open.push_back(i);
        if (s.open.size() == TILE) decide(s);
    }
    // Decides what is left after a parallel loop.
    template <class S>
    void finish(std::vector<S>& all) const {
        parallel(static_cast<index_t>(all.size()), static_cast<int>(all.size()),
                 [&](index_t thread) { decide(all[thread]); });
    }

private:
    static constexpr std::size_t FEW = 4;    // rows for which a tile costs more than filtering each by itself
    static constexpr std::size_t MANY = 16;  // those that are worth to pack the centres in float64

    void decide(Scratch& s) const {
        s.total.pairs += static_cast<index_t>(s.open.size()) * centers.k * 2;
        if (Rows::sparse || s.open.size() <= (doubles.made() ? FEW : MANY))
            for (index_t i : s.open) {
                const Candidates all{nullptr, centers.k};
                filter_row(rows, i, packed, all, s.single);
                relabel(labels, i, nearest_by_values(rows, i, s.single, 0, 1, centers, all), s);
                ++s.total.undecided;
            }
        else if constexpr (!Rows::sparse)
            decide_tile(s);
        s.open.clear();
    }
    void decide_tile(Scratch& s) const {
        const int count = static_cast<int>(s.open.size());
        filter_double(rows, s.open.data(), count, doubles.of(centers, packed), s.doubles);
        label_t first[TILE];
        Nearest best[TILE];
        std::fill(first, first + TILE, -1);
        const std::uint64_t all = count == TILE ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
        for (index_t j = 0; j < centers.k; ++j) {
            const double* values = s.doubles.values.data() + j * TILE;
            for (std::uint64_t near = ~tile_mask_below(s.doubles.limit, values) & all; near; near &= near - 1) {
                const int r = __builtin_ctzll(near);
                const index_t i = s.open[r];
                if (first[r] < 0) {  // mostly the only one
                    first[r] = static_cast<label_t>(j);
                    continue;
                }
                if (best[r].arg < 0) best[r].offer(first[r], dist2(rows, i, centers, first[r]));
                best[r].offer(static_cast<label_t>(j), dist2(rows, i, centers, j));
            }
        }
        for (int r = 0; r < count; ++r) {
            const bool decided = best[r].arg < 0;
            relabel(labels, s.open[r], decided ? first[r] : best[r].arg, s);
            s.total.undecided += !decided;
        }
    }
};

// The value of the nearest centre but one. If the filter does not know which is nearest, it may be either.
inline float second_value(const Tile& tile, int r) { return tile.uncertain[r] ? tile.best[r] : tile.second[r]; }

// Counts the rows of a tile that keep their label if every centre moves by `step`.
inline void count_stable(int count, float step, const PackedCenters& packed, Scratch& s) {
    const RowBounds bounds(s.tile, packed);
    for (int r = 0; r < count; ++r)
        s.total.stable += bounds.lower(r, second_value(s.tile, r)) - bounds.upper(r, s.tile.best[r]) > 2 * step;
    s.total.probed += count;
}

constexpr index_t PROBE_EVERY = 16;  // one of so many tiles is probed

template <class Rows>
AssignResult assign(const Rows& rows, const double* c, index_t k, label_t* labels, Changes* changes, float step) {
    auto scratch = make_scratch(rows, k);
    const index_t task_rows = rows_of_task(rows.n, scratch.size());
    start_changes(changes, rows.n, task_rows);
    const auto centers = exact_centers(rows, c, k);
    const PackedCenters packed = pack_centers(rows, centers);
    const Candidates all{nullptr, k};
    const OpenRows open(rows, centers, packed, labels);
    parallel_rows(rows.n, task_rows, scratch, [&](index_t from, index_t stop, Scratch& s) {
        s.start_rows(changes, from, stop);
        for_tiles(from, stop, [&](const index_t* id, int count) {
            const index_t at = id[0];
            filter_tile(rows, id, count, packed, all, false, s.tile);
            if (step > 0 && at / TILE % PROBE_EVERY == 0) count_stable(count, step, packed, s);
            if (s.tile.any_uncertain)
                for (int r = 0; r < count; ++r) s.tile.arg[r] = s.tile.uncertain[r] ? labels[at + r] : s.tile.arg[r];
            label_t changed = 0;
            for (int r = 0; r < count; ++r) changed |= labels[at + r] ^ s.tile.arg[r];
            if (changed)
                for (int r = 0; r < count; ++r) relabel(labels, at + r, s.tile.arg[r], s);
            if (s.tile.any_uncertain)
                for (int r = 0; r < count; ++r)
                    if (s.tile.uncertain[r]) open.add(at + r, s);
            s.total.scanned += count, s.total.pairs += count * k;
        });
    });
    open.finish(scratch);
    finish_changes(changes);
    return total(scratch);
}

// Lower bounds on the distances between centres. half[a] is half the distance from centre a to the nearest other.
struct CenterDistances {
    std::vector<float> distance;  // k x k, or empty
    std::vector<float> half;
    explicit operator bool() const { return !distance.empty(); }
};

constexpr index_t MOST_KEPT = 2048;  // centres whose distances are kept in a matrix, of 16 MB

// Zero if the distances would take much time beside a scan of the rows: there are k^2 of them, and centres of sparse
// rows have many more features than a row stores. `keep`: all of them, and not only the half of the least.
template <class Rows>
CenterDistances center_distances(const Rows& data, const double* c, index_t k, const PackedCenters& packed,
                                 bool keep = false) {
    CenterDistances out;
    out.half.assign(k, 0);
    if (k < 2 || Rows::sparse || k * k > 4 * data.n) return out;
    const Dense<double> rows{c, k, data.d};
    keep = keep && k <= MOST_KEPT;
    if (keep) out.distance.assign(k * k, 0);
    auto scratch = make_scratch(rows, k);
    parallel((k + TILE - 1) / TILE, scratch, [&](index_t tile, Scratch& s) {
        for_tiles(tile * TILE, std::min(k, (tile + 1) * TILE), [&](const index_t* id, int count) {
            filter_tile(rows, id, count, packed, Candidates{nullptr, k}, true, s.tile);
            const RowBounds bounds(s.tile, packed, count);
            for (int r = 0; r < count; ++r) {
                float nearest = INFINITE;
                for (index_t j = 0; j < k; ++j) {
                    if (j == id[r]) continue;
                    const float v = bounds.lower(r, s.tile.values[j * TILE + r]);
                    if (keep) out.distance[id[r] * k + j] = v;
                    nearest = std::min(nearest, v);
                }
                out.half[id[r]] = nearest / 2;
            }
        });
    });
    return out;
}

// The largest distance that any centre moved, with or without a row's own centre.
struct LargestMoves {
    const float* moved;
    label_t largest_index = 0;
    float largest = 0, next = 0;
    LargestMoves(const float* m, index_t k) : moved(m) {
        for (index_t j = 0; j < k; ++j)
            if (m[j] > largest)
                next = largest, largest = m[j], largest_index = static_cast<label_t>(j);
            else
                next = std::max(next, m[j]);
    }
};

}  // namespace kv::KV_ISA
