// Greedy seeding: how much each of several candidates would lower the potential (gains), and how the best of them
// becomes a centre without a second pass over the rows (lower_costs_by_hits).
#pragma once

#include "potential.hpp"

namespace kv::KV_ISA {

constexpr std::size_t MAX_HITS = BLOCK / 2;

// What each candidate would take off the weighted costs of one block.
template <class Rows>
struct CandidateGains {
    const Rows& rows;
    const Centers& fresh;
    const Potential& p;
    exact_t* gain;
    std::vector<Hit>& hits;
    char& overflowed;
    index_t wasted = 0;

    void measure(index_t i, index_t j) {
        const double cost = dist2(rows, i, fresh, j), less = p.cost[i] - cost;
        if (!(less > 0)) {
            ++wasted;
            return;
        }
        gain[j] += p.scale.exact(p.weight ? p.weight[i] * less : less);
        if (hits.size() < MAX_HITS)
            hits.push_back({i, static_cast<label_t>(j), cost});
        else
            overflowed = 1;
    }
};

template <class Rows>
void add_filtered_gains(CandidateGains<Rows>& gains, const PackedCenters& packed, Scratch& s) {
    const Candidates all{nullptr, packed.k};
    for_tiles(s.id, [&](const index_t* id, int count) {
        filter_tile(gains.rows, id, count, packed, all, true, s.tile);
        thresholds(s.tile, id, count, gains.p, packed, s.limit);
        for (index_t j = 0; j < packed.k; ++j) {
            int list[TILE];
            const int hits = rows_within(s.tile.values.data() + j * TILE, s.limit, count, list);
            for (int l = 0; l < hits; ++l) gains.measure(id[list[l]], j);
        }
    });
}

template <class Rows>
void add_prefiltered_gains(CandidateGains<Rows>& gains, const QuantizedRows& quantized, const Queries& queries,
                           index_t from, index_t stop, Scratch& s) {
    ensure_size(s.maybe, queries.m * TILE);
    for (index_t at = from; at < stop; at += TILE) {
        prefilter(quantized, at / TILE, queries, s.maybe.data());
        for (index_t j = 0; j < queries.m; ++j) {
            int list[TILE], count = 0;  // a list first, so that branches are predicted
            for (int r = 0; r < TILE; r += 8) {
                std::uint64_t bytes;
                std::memcpy(&bytes, s.maybe.data() + j * TILE + r, 8);
                if (!bytes) continue;
                for (int b = 0; b < 8; ++b, bytes >>= 8) {
                    list[count] = r + b;
                    count += bytes & 1;
                }
            }
            for (int l = 0; l < count; ++l) gains.measure(at + list[l], j);
        }
    }
}

// Features are copied one after the other, so that the loop over the rows is all vectors.
template <int D, class T>
void add_gains_few_features(const Dense<T>& rows, const Centers& fresh, const Potential& p, index_t from, index_t stop,
                            exact_t* gain) {
    alignas(64) double x[D][BLOCK];
    const index_t m = stop - from;
    for (index_t i = 0; i < m; ++i)
        for (int j = 0; j < D; ++j) x[j][i] = static_cast<double>(rows.row(from + i)[j]);
    const double *cost = p.cost + from, *weight = p.weight ? p.weight + from : nullptr;
    const Scale scale = p.scale;
    for (index_t a = 0; a < fresh.k; ++a) {
        double c[D];
        std::copy(fresh.row(a), fresh.row(a) + D, c);
        ShortSum total{scale};
        total.terms = static_cast<word_t>(m);
        for (index_t i = 0; i < m; ++i) {
            double sum = 0;
            for (int j = 0; j < D; ++j) sum += (x[j][i] - c[j]) * (x[j][i] - c[j]);
            double less = cost[i] - sum;
            less = less > 0 ? less : 0;
            if (weight) less *= weight[i];
            total.add(less);
        }
        gain[a] += total.whole();
    }
}

template <class Rows>
void gains(const Rows& rows, const QuantizedRows* quantized, const double* c, index_t m, const double* limit,
           const Potential& p, exact_t* gain, Hits& hits) {
    const auto fresh = exact_centers(rows, c, m);
    Queries queries;
    if (quantized && !prepare(*quantized, c, m, queries)) quantized = nullptr;
    const PackedCenters packed = quantized ? PackedCenters{} : pack_centers(rows, fresh);
    std::vector<exact_t> part(blocks_of(rows.n) * m, 0);
    hits.block.resize(blocks_of(rows.n));
    hits.overflowed.assign(blocks_of(rows.n), 0);
    auto scratch = make_scratch(rows, m);
    parallel_rows(rows.n, scratch, [&](index_t from, index_t stop, Scratch& s) {
        const index_t block = from / BLOCK;
        hits.block[block].clear();
        CandidateGains<Rows> gains{rows, fresh, p, part.data() + block * m, hits.block[block], hits.overflowed[block]};
        if (if_few_features(rows,
                            [&](auto d) { add_gains_few_features<d()>(rows, fresh, p, from, stop, gains.gain); })) {
            gains.overflowed = 1;
        } else if (quantized) {
            add_prefiltered_gains(gains, *quantized, queries, from, stop, s);
        } else {
            improvable_rows(p, limit, from, stop, s);
            add_filtered_gains(gains, packed, s);
        }
        s.total.scanned += gains.wasted;
    });
    hits.wasted = total(scratch).scanned;
    std::fill(gain, gain + m, 0);
    for (index_t block = 0; block < blocks_of(rows.n); ++block)
        for (index_t j = 0; j < m; ++j) gain[j] += part[block * m + j];
}

template <class Rows>
void lower_costs_by_hits(const Rows& rows, QuantizedRows* quantized, const double* c, label_t candidate, label_t name,
                         const double* limit, const Potential& p, const Hits& hits) {
    const auto fresh = exact_centers(rows, c, 1);
    auto scratch = make_scratch(rows, 1);
    parallel_rows(rows.n, scratch, [&](index_t from, index_t stop, Scratch& s) {
        const index_t block = from / BLOCK;
        char touched[BLOCK / DRAW] = {};
        if (hits.overflowed[block]) {
            lower_costs_exact(rows, fresh, name, limit, p, from, stop, s);
            std::fill(std::begin(touched), std::end(touched), 1);
            if (quantized)
                for (index_t i = from; i < stop; ++i) quantized->set_cost(i, p.cost[i]);
        } else {
            for (const Hit& hit : hits.block[block]) {
                if (hit.candidate != candidate) continue;
                p.cost[hit.row] = hit.cost, p.nearest[hit.row] = name;
                touched[(hit.row - from) / DRAW] = 1;
                if (quantized) quantized->set_cost(hit.row, hit.cost);
            }
        }
        for (index_t tile = from / DRAW; tile * DRAW < stop; ++tile)
            if (touched[tile - from / DRAW]) update_sum(p, rows.n, tile);
    });
}

}  // namespace kv::KV_ISA
