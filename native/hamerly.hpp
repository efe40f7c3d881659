// Hamerly's assignment: one lower bound a row, for all centres but its own; and for rows it leaves open,
// Newling and Fleuret's ball of the centres that can matter.
#pragma once

#include <optional>

#include "assign.hpp"

namespace kv::KV_ISA {

// Rows of one block whose bounds do not prove their label.
template <class Rows>
void survivors(const Rows& rows, index_t from, index_t stop, const Centres& centres,
               const Between& apart, const Movement& movement, const label_t* labels,
               float* __restrict upper, float* __restrict lower, bool tighten, Scratch& s) {
    const float* moved = movement.moved;
    s.id.resize(BLOCK);
    std::int32_t open[BLOCK];  // apart from the list: this loop is vectors, that one is not
    for (index_t i = from; i < stop; ++i) {
        const label_t a = labels[i];
        const float u = widened(upper[i], moved[a]), l = narrowed(lower[i], a == movement.who ? movement.next : movement.largest);
        const float half = apart.half[a];
        upper[i] = u, lower[i] = l;
        open[i - from] = !(u < l) & !(u < half);
    }
    index_t m = 0;
    for (index_t i = from; i < stop; ++i) {
        s.id[m] = i;
        m += open[i - from];
    }
    if (tighten) {
        index_t kept = 0;
        for (index_t p = 0; p < m; ++p) {
            const index_t i = s.id[p];
            const label_t a = labels[i];
            upper[i] = round_up(std::sqrt(dist2(rows, i, centres, a)));
            s.id[kept] = i;
            kept += !(upper[i] < std::max(lower[i], apart.half[a]));
        }
        m = kept;
    }
    s.id.resize(m);
}

// Neighbours in the list share candidates once the list is sorted by label.
inline void sort_by_label(const label_t* labels, index_t k, Scratch& s) {
    s.bucket.assign(k + 1, 0);
    for (index_t i : s.id) ++s.bucket[labels[i] + 1];
    for (index_t j = 0; j < k; ++j) s.bucket[j + 1] += s.bucket[j];
    s.sorted.resize(s.id.size());
    for (index_t i : s.id) s.sorted[s.bucket[labels[i]]++] = i;
    s.id.swap(s.sorted);
}

// Centres that can be first or second for a row of the tile: those within 2u + s of its own
// centre, with s the distance from that centre to its nearest other. limit[r] bounds the rest.
inline Candidates ball(const index_t* id, int count, index_t k, const Between& apart,
                       const label_t* labels, const float* upper, Scratch& s) {
    s.mark.assign(k, 0);
    for (int r = 0; r < count;) {
        const label_t a = labels[id[r]];
        int end = r;
        float reach = 0;
        for (; end < count && labels[id[end]] == a; ++end) reach = std::max(reach, upper[id[end]]);
        reach = round_up(2 * (reach + apart.half[a]));
        const float* row = apart.distance.data() + a * k;
        for (index_t j = 0; j < k; ++j) s.mark[j] |= row[j] < reach;
        s.mark[a] = 1;
        for (; r < end; ++r) s.limit[r] = round_down(reach - upper[id[r]]);
    }
    s.list.resize(k);
    index_t m = 0;
    for (index_t j = 0; j < k; ++j) {
        s.list[m] = static_cast<label_t>(j);
        m += s.mark[j];
    }
    if (m == k) return {nullptr, k};
    return {s.list.data(), m};
}

// Below so many multiply-adds a row, choosing candidates costs more than it saves.
constexpr index_t BALL = 4096;

template <class Rows>
Assigned assign_hamerly(const Rows& rows, const double* c, index_t k,
                        const float* moved, label_t* labels, float* upper, float* lower, bool tighten,
                        Changes* changes) {
    expect(changes, rows.n);
    const auto centres = exact_centres(rows, c, k);
    const Pack pack = make_pack(rows, c, k);
    const Between apart = between(c, k, rows.d, rows.n);
    const bool few = k * rows.d < BALL || !apart;
    std::optional<Movement> movement;
    if (moved) movement.emplace(moved, k);
    constexpr float infinity = std::numeric_limits<float>::infinity();
    auto scratch = scratches(rows, k);
    parallel(blocks_of(rows.n), scratch, [&](index_t block, Scratch& s) {
        s.begin(changes, block);
        const index_t from = block * BLOCK, stop = std::min(rows.n, from + BLOCK);
        if (moved) {
            survivors(rows, from, stop, centres, apart, *movement, labels, upper, lower, tighten, s);
            if (!few) sort_by_label(labels, k, s);
        } else {
            s.id.resize(stop - from);
            for (index_t i = from; i < stop; ++i) s.id[i - from] = i;
        }
        for (std::size_t at = 0; at < s.id.size(); at += TILE) {
            const index_t* id = s.id.data() + at;
            const int count = static_cast<int>(std::min<std::size_t>(TILE, s.id.size() - at));
            std::fill(s.limit, s.limit + TILE, infinity);
            Candidates among{nullptr, k};
            if (moved && !few) among = ball(id, count, k, apart, labels, upper, s);
            scan(rows, id, count, pack, among, false, s.tile);
            float most[TILE], least[TILE];
            tile_bounds(s.tile, pack, most, least);
            for (int r = 0; r < count; ++r) {
                const index_t i = id[r];
                relabel(labels, i, decide(rows, i, r, pack, centres, among, s), s);
                upper[i] = most[r];
                lower[i] = std::min(least[r], s.limit[r]);
            }
            s.total.scanned += count;
        }
    });
    conclude(changes);
    return total(scratch);
}

}  // namespace kv::KV_ISA
