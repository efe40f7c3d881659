// Hartigan's method: one row at a time goes where the cost falls most, and the two means follow at
// once. A row of weight w leaves cluster a (weight W_a, mean c_a) for b when
//     joining = W_b / (W_b + w) ||x - c_b||^2  <  leaving = W_a / (W_a - w) ||x - c_a||^2,
// which is what the move adds to b's cost and takes from a's, over w.
//
// A pass has two halves. In parallel, rows that would gain from a move under the means as they are:
// bounds and the filter rule most of them out, exact arithmetic decides. Then, in row order, each
// of these is looked at again under the means as they have become, and moved.
//
// Bounds are Hamerly's: upper >= ||x - c_a|| and lower <= min over b of the root of joining. Since
// W'/(W' + w) >= W'/W * W/(W + w) for W' <= W, a pass shrinks lower by the root of the largest loss
// of weight, and both by the means' movements.
#pragma once

#include "assign.hpp"
#include "update.hpp"

namespace kv::KV_ISA {

constexpr double WORTH = 1 - 1e-12;  // of `leaving`: what a move must fall below

struct Leaver {
    double weight, ratio;  // ratio: W / (W - w); 0 for a row that may not leave
};

template <class Rows>
struct Hartigan {
    const Rows& rows;
    const double* weight;
    const Partition p;
    Centres centres;
    const Pack pack;
    std::vector<double> share;  // 1 / W

    double mass(index_t j) const { return p.sums.weight[j] + p.sums.weight_rest[j]; }

    // A row that is alone in its cluster, or counts for nothing, stays.
    Leaver leaver(index_t i) const {
        const label_t a = p.labels[i];
        const double w = weight ? weight[i] : 1.0;
        const double without = (p.sums.weight[a] - w) + p.sums.weight_rest[a];
        return {w, w > 0 && p.sums.count[a] > 1 && without > 0 ? mass(a) / without : 0};
    }
    double joining(index_t i, double w, index_t b) const {
        return p.sums.count[b] ? mass(b) / (mass(b) + w) * dist2(rows, i, centres, b) : 0;
    }

    // Rows of [from, stop) whose bounds do not prove that they stay.
    void survivors(index_t from, index_t stop, const Drifts& drifts, Scratch& s) const {
        s.id.clear();
        for (index_t i = from; i < stop; ++i) {
            const label_t a = p.labels[i];
            const float u = widened(p.upper[i], drifts.moved[a]);
            const float l = narrowed(p.lower[i] * drifts.shrink, drifts.most);
            p.upper[i] = u, p.lower[i] = l;
            if (!(leaver(i).ratio * u * u * (1 + 1e-9) <= static_cast<double>(l) * l)) s.id.push_back(i);
        }
    }

    // Appends to `found` those of up to TILE rows that would gain from a move; renews their bounds.
    void look(const index_t* id, int count, Scratch& s, std::vector<index_t>& found) const {
        constexpr float infinity = std::numeric_limits<float>::infinity();
        double base[TILE] = {}, w[TILE] = {}, least[TILE];
        std::fill(least, least + TILE, static_cast<double>(infinity));
        scan(rows, id, count, pack, {nullptr, pack.k}, true, s.tile);
        for (int r = 0; r < count; ++r) {
            s.tile.values[p.labels[id[r]] * TILE + r] = infinity;
            w[r] = weight ? weight[id[r]] : 1.0;
            base[r] = s.tile.finite(r) ? s.tile.norm2[r] * (1 - s.tile.norm_error) - 2.0 * s.tile.slack[r] : -infinity;
        }
        const auto bound = [&](index_t b, int r) {
            return (2.0 * s.tile.values[b * TILE + r] + base[r]) / (1 + w[r] * share[b]);
        };
        for (index_t b = 0; b < pack.k; ++b)
            for (int r = 0; r < TILE; ++r) least[r] = std::min(least[r], bound(b, r));
        const double square = pack.scale * pack.scale;
        for (int r = 0; r < count; ++r) {
            const index_t i = id[r];
            const double own = dist2(rows, i, centres, p.labels[i]), leaving = leaver(i).ratio * own;
            p.upper[i] = round_up(std::sqrt(own));
            p.lower[i] = round_down(std::sqrt(std::max(least[r], 0.0)) / pack.scale);
            for (index_t b = 0; least[r] <= leaving * square && b < pack.k; ++b)
                if (!(bound(b, r) > leaving * square) && joining(i, w[r], b) < leaving * WORTH) {
                    found.push_back(i);
                    break;
                }
        }
    }

    void follow(label_t j) {
        double norm2 = 0;
        for (index_t t = j * rows.d; t < (j + 1) * rows.d; ++t) {
            p.centres[t] = (p.sums.sum[t] + p.sums.rest[t]) / mass(j);
            norm2 += p.centres[t] * p.centres[t];
        }
        if (!centres.norm2.empty()) centres.norm2[j] = norm2;
    }
    bool move_to_best(index_t i) {
        const label_t a = p.labels[i];
        const Leaver x = leaver(i);
        Nearest best;
        for (index_t b = 0; b < centres.k; ++b)
            if (b != a) best.meet(static_cast<label_t>(b), joining(i, x.weight, b));
        if (!(best.cost < x.ratio * dist2(rows, i, centres, a) * WORTH)) return false;
        move(rows, weight, i, a, -1, p.sums, 0, rows.d, true);
        move(rows, weight, i, best.arg, 1, p.sums, 0, rows.d, true);
        p.labels[i] = best.arg;
        p.upper[i] = std::numeric_limits<float>::infinity();  // of another centre now
        follow(a), follow(best.arg);
        return true;
    }
};

// How many rows moved.
template <class Rows>
index_t hartigan(const Rows& rows, const double* weight, index_t k, const Drifts& drifts, const Partition& p) {
    Hartigan<Rows> h{rows, weight, p, exact_centres(rows, p.centres, k), make_pack(rows, p.centres, k),
                     std::vector<double>(k)};
    for (index_t j = 0; j < k; ++j) h.share[j] = 1 / h.mass(j);
    std::vector<std::vector<index_t>> found(blocks_of(rows.n));
    auto scratch = scratches(rows, k);
    parallel(blocks_of(rows.n), scratch, [&](index_t block, Scratch& s) {
        h.survivors(block * BLOCK, std::min(rows.n, (block + 1) * BLOCK), drifts, s);
        for (std::size_t at = 0; at < s.id.size(); at += TILE)
            h.look(s.id.data() + at, static_cast<int>(std::min<std::size_t>(TILE, s.id.size() - at)), s, found[block]);
    });
    index_t moved = 0;
    for (const auto& block : found) {
        for (index_t i : block) moved += h.move_to_best(i);
        if (user_wants_to_stop && user_wants_to_stop()) throw Interrupted{};
    }
    return moved;
}

}  // namespace kv::KV_ISA
