// Finds the clusters whose cost + price is at most tau above a row's least (see transport.hpp). The filter excludes
// most pairs of row and centre; exact distances decide about the others.
#pragma once

#include "assign.hpp"

namespace kv::KV_ISA {

struct PricedCluster {
    label_t cluster;
    double cost, priced;  // priced: cost + price
};

struct ArcScratch {
    Tile tile;
    std::vector<PricedCluster> near[TILE];
    alignas(64) double limit[TILE];
};

template <class Rows>
struct ArcCollector {
    const Rows& rows;
    const double* price;
    const double tau;
    const bool keep;  // labels are given
    label_t* labels;
    Centers centers;
    PackedCenters packed;
    std::vector<double> half_price;  // in units of the filter's values
    double half_tau = 0, largest = 0;
    bool usable = true;  // the filter can add prices to its values

    ArcCollector(const Rows& rows_, const double* c, index_t k, const double* price_, double tau_, bool keep_,
                 label_t* labels_)
        : rows(rows_),
          price(price_),
          tau(tau_),
          keep(keep_),
          labels(labels_),
          centers(exact_centers(rows_, c, k)),
          packed(pack_centers(rows_, centers)),
          half_price(k) {
        const double square = packed.scale * packed.scale;
        for (index_t j = 0; j < k; ++j) {
            half_price[j] = square * price[j] / 2;
            largest = std::max(largest, std::fabs(half_price[j]));
        }
        half_tau = square * tau / 2;
        usable = square > 0 && std::isfinite(square) && std::isfinite(largest) && std::isfinite(half_tau);
    }

    // Sets, for every row of a tile, a value + half price that no cluster within tau exceeds. The last term covers the
    // rounding of sums with prices.
    void set_limits(ArcScratch& s) const {
        std::fill(s.limit, s.limit + TILE, std::numeric_limits<double>::infinity());
        for (index_t j = 0; j < packed.k; ++j) {
            const float* v = s.tile.values.data() + j * TILE;
            const double half = half_price[j];
            for (int r = 0; r < TILE; ++r) {
                const double bound = static_cast<double>(most_value(v[r], s.tile.eps[r], packed.radius2[j])) + half;
                s.limit[r] = bound < s.limit[r] ? bound : s.limit[r];
            }
        }
        for (int r = 0; r < TILE; ++r) {
            const double rounding = 1e-12 * (std::fabs(s.limit[r]) + s.tile.norm2[r] + largest + half_tau);
            const double most = s.limit[r] + 2.0 * s.tile.slack[r] + half_tau + rounding;
            s.limit[r] = s.tile.finite(r) ? most : std::numeric_limits<double>::infinity();
        }
    }

    void offer(index_t i, label_t j, std::vector<PricedCluster>& near) const {
        const double cost = dist2(rows, i, centers, j);
        near.push_back({j, cost, cost + price[j]});
    }

    // Lists the clusters of each row of a tile that may be within tau, by index.
    void find_near(const index_t* id, int count, ArcScratch& s) const {
        for (int r = 0; r < count; ++r) s.near[r].clear();
        if (!usable) {
            for (int r = 0; r < count; ++r)
                for (index_t j = 0; j < packed.k; ++j) offer(id[r], static_cast<label_t>(j), s.near[r]);
            return;
        }
        filter_tile(rows, id, count, packed, {nullptr, packed.k}, true, s.tile);
        set_limits(s);
        for (index_t j = 0; j < packed.k; ++j) {
            const float* v = s.tile.values.data() + j * TILE;
            double priced[TILE];
            for (int r = 0; r < TILE; ++r) priced[r] = v[r] + half_price[j];
            std::uint64_t near = ~tile_mask_below(s.limit, priced);
            if (count < TILE) near &= (std::uint64_t{1} << count) - 1;
            for (; near; near &= near - 1) {
                const int r = __builtin_ctzll(near);
                offer(id[r], static_cast<label_t>(j), s.near[r]);
            }
        }
    }

    // Sets the label, and adds the row to the arcs if it has several clusters.
    void add_row(index_t i, const std::vector<PricedCluster>& near, PricedArcs::Block& out) const {
        Nearest best;
        for (const PricedCluster& c : near) best.offer(c.cluster, c.priced);
        double least = best.cost;
        if (keep) {
            for (const PricedCluster& c : near)
                if (c.cluster == labels[i]) least = c.priced;
        } else {
            labels[i] = best.arg;
        }
        label_t size = 0;
        for (const PricedCluster& c : near) {
            if (!(c.priced - least <= tau || c.cluster == labels[i])) continue;
            out.cluster.push_back(c.cluster), out.cost.push_back(c.cost);
            ++size;
        }
        if (size > 1) {
            out.row.push_back(i), out.size.push_back(size);
        } else {
            out.cluster.resize(out.cluster.size() - size), out.cost.resize(out.cost.size() - size);
        }
    }
};

template <class Rows>
void collect_arcs(const Rows& rows, const double* c, index_t k, const double* price, double tau, bool keep,
                  label_t* labels, PricedArcs* out) {
    const ArcCollector<Rows> collector(rows, c, k, price, tau, keep, labels);
    std::vector<ArcScratch> scratch(threads_for(static_cast<double>(rows.n) * rows.d * k));
    out->block.resize(blocks_of(rows.n));
    parallel_rows(rows.n, scratch, [&](index_t from, index_t stop, ArcScratch& s) {
        PricedArcs::Block& block = out->block[from / BLOCK];
        block.row.clear(), block.size.clear(), block.cluster.clear(), block.cost.clear();
        for_tiles(from, stop, [&](const index_t* id, int count) {
            collector.find_near(id, count, s);
            for (int r = 0; r < count; ++r) collector.add_row(id[r], s.near[r], block);
        });
    });
}

}  // namespace kv::KV_ISA
