// Hartigan's method: moves one row at a time to the cluster that lowers the cost most, and updates both means at once.
// A row of weight w moves from cluster a (weight W_a, mean c_a) to b if
//     joining = W_b / (W_b + w) ||x - c_b||^2  <  leaving = W_a / (W_a - w) ||x - c_a||^2.
// Times w, the move adds `joining` to the cost of b and subtracts `leaving` from that of a.
//
// A pass has two steps. The first finds, in parallel, the rows that would gain from a move under the present means;
// bounds and the filter exclude most rows. The second visits these in row order, checks each under the means that
// earlier moves changed, and moves it.
//
// Bounds are as in hamerly.hpp: upper >= ||x - c_a|| and lower <= min over b of the root of joining. Since
// W'/(W' + w) >= W'/W * W/(W + w) for W' <= W, `lower` shrinks by the root of the largest relative loss of weight, and
// both bounds change by the movement of the means.
#pragma once

#include "assign.hpp"
#include "update.hpp"

namespace kv::KV_ISA {

constexpr double MOVE_FACTOR = 1 - 1e-12;  // a move needs joining < MOVE_FACTOR * leaving

struct Departure {
    double weight, ratio;  // ratio: W / (W - w), or 0 for a row that must stay
};

template <class Rows>
struct Hartigan {
    const Rows& rows;
    const double* weight;
    const Partition p;
    Centers centers;
    const PackedCenters packed;
    std::vector<double> mass;  // W

    exact_t exact_mass(index_t j) const { return Scale::whole(p.sums().weight + j * LIMBS, 1); }

    // A row stays if it is alone in its cluster or has no weight.
    Departure departure(index_t i) const {
        const label_t a = p.labels[i];
        const double w = weight ? weight[i] : 1.0;
        if (!(w > 0 && p.sums().count[a] > 1)) return {w, 0};
        const double without = p.sums().weight_scale.rounded(exact_mass(a) - p.sums().weight_scale.exact(w));
        return {w, without > 0 ? mass[a] / without : 0};
    }
    double joining(index_t i, double w, index_t b) const {
        return p.sums().count[b] ? mass[b] / (mass[b] + w) * dist2(rows, i, centers, b) : 0;
    }

    // Lists the rows of [from, stop) whose bounds do not prove that they stay.
    void open_rows(index_t from, index_t stop, const ClusterDrift& drift, Scratch& s) const {
        s.id.clear();
        for (index_t i = from; i < stop; ++i) {
            const label_t a = p.labels[i];
            const float u = increased(p.upper[i], drift.moved[a]);
            const float l = decreased(p.lower[i] * drift.shrink, drift.largest);
            p.upper[i] = u, p.lower[i] = l;
            if (!(departure(i).ratio * u * u * (1 + 1e-9) <= static_cast<double>(l) * l)) s.id.push_back(i);
        }
    }

    // Appends to `found` those of up to TILE rows that would gain from a move, and renews the bounds of all.
    void find_moves(const index_t* id, int count, Scratch& s, std::vector<index_t>& found) const {
        double w[TILE] = {}, least[TILE];
        std::fill(least, least + TILE, static_cast<double>(INFINITE));
        filter_tile(rows, id, count, packed, {nullptr, packed.k}, true, s.tile);
        const RowBounds bounds(s.tile, packed);
        for (int r = 0; r < count; ++r) {
            s.tile.values[p.labels[id[r]] * TILE + r] = NO_VALUE;
            w[r] = weight ? weight[id[r]] : 1.0;
        }
        const auto bound = [&](index_t b, int r) {
            return bounds.lower_square(r, s.tile.values[b * TILE + r]) / (1 + w[r] / mass[b]);
        };
        for (index_t b = 0; b < packed.k; ++b)
            for (int r = 0; r < TILE; ++r) least[r] = std::min(least[r], bound(b, r));
        const double square = packed.scale * packed.scale;
        for (int r = 0; r < count; ++r) {
            const index_t i = id[r];
            const double own = dist2(rows, i, centers, p.labels[i]), leaving = departure(i).ratio * own;
            p.upper[i] = round_up(std::sqrt(own));
            p.lower[i] = round_down(std::sqrt(std::max(least[r], 0.0)) / packed.scale);
            for (index_t b = 0; least[r] <= leaving * square && b < packed.k; ++b)
                if (!(bound(b, r) > leaving * square) && joining(i, w[r], b) < leaving * MOVE_FACTOR) {
                    found.push_back(i);
                    break;
                }
        }
    }

    void update_center(label_t j) {
        mass[j] = p.sums().weight_scale.rounded(exact_mass(j));
        for (index_t t = 0; t < rows.d; ++t) {
            double sum = 0;  // the finest first
            for (auto level = p.levels.rbegin(); level != p.levels.rend(); ++level)
                sum += level->scale.rounded(Scale::whole(level->sum + j * LIMBS * rows.d + t, rows.d));
            p.centers[j * rows.d + t] = sum / mass[j];
        }
        if (!centers.norm2.empty()) centers.norm2[j] = sum_of_squares(p.centers + j * rows.d, rows.d);
    }
    bool move_to_best(index_t i) {
        const label_t a = p.labels[i];
        const Departure departing = departure(i);
        Nearest best;
        for (index_t b = 0; b < centers.k; ++b)
            if (b != a) best.offer(static_cast<label_t>(b), joining(i, departing.weight, b));
        if (!(best.cost < departing.ratio * dist2(rows, i, centers, a) * MOVE_FACTOR)) return false;
        add_one(rows, i, departing.weight, a, -1, p.levels);
        add_one(rows, i, departing.weight, best.arg, 1, p.levels);
        p.labels[i] = best.arg;
        p.upper[i] = std::numeric_limits<float>::infinity();  // the bound was for another centre
        update_center(a), update_center(best.arg);
        return true;
    }
};

// Makes one pass and returns how many rows moved.
template <class Rows>
index_t hartigan(const Rows& rows, const double* weight, index_t k, const ClusterDrift& drift, const Partition& p) {
    Centers centers = exact_centers(rows, p.centers, k);
    PackedCenters packed = pack_centers(rows, centers);
    Hartigan<Rows> h{rows, weight, p, std::move(centers), std::move(packed), std::vector<double>(k)};
    for (index_t j = 0; j < k; ++j) h.mass[j] = p.sums().weight_scale.rounded(h.exact_mass(j));
    std::vector<std::vector<index_t>> found(blocks_of(rows.n));
    auto scratch = make_scratch(rows, k);
    parallel_rows(rows.n, scratch, [&](index_t from, index_t stop, Scratch& s) {
        h.open_rows(from, stop, drift, s);
        for_tiles(s.id, [&](const index_t* id, int count) { h.find_moves(id, count, s, found[from / BLOCK]); });
    });
    index_t moved = 0;
    for (const auto& block : found) {
        for (index_t i : block) moved += h.move_to_best(i);
        if (user_wants_to_stop && user_wants_to_stop()) throw Interrupted{};
    }
    return moved;
}

}  // namespace kv::KV_ISA
