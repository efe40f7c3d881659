// Greedy seeding: how much each of several candidates would lower the potential.
//
// gain_bounds finds bounds on these gains with the filter. gains computes them exactly, for the few candidates whose
// bounds overlap. lower_costs_of_passed then adds the best candidate; it reads only rows that passed the filter.
#pragma once

#include "potential.hpp"

namespace kv::KV_ISA {

constexpr float MAX_LIMIT = 1e30f;
using word8 = Vector<word_t, 8>;

// Bounds on the gains of one block. With the terms of filter.hpp, half of the gain of a row of cost C, in units of
// scale^2, is
//     C / 2 - ||x||^2 / 2 - v,        value - X <= v <= value + X + 2 E.
// So limit - value is an upper bound for the limit of `cost_limits`, and it exceeds the gain by at most width + 2 E.
// Rows with limit > value pass: only they can have a gain. Sums are of V's type: vf, or vd if rows have weights, since
// float32 does not hold weights of any magnitude.
template <class V>
struct BoundSums {
    V high{}, width{};  // of the rows that passed
};

struct TileLimits {
    const Tile& tile;
    const float* limit;
    alignas(64) float width[TILE];
    alignas(64) double weight[TILE];

    TileLimits(const Tile& filtered, const float* limits, const double* cost, double scale)
        : tile(filtered), limit(limits) {
        limit_widths(tile, cost, scale, width);
    }
    void add(const float* value, float radius2, BoundSums<vf>& sums) const {
        for (int g = 0; g < TILE; g += W) {
            const vf most = load(limit + g) - load(value + g);
            sums.high += most > 0 ? most : vf{};
            sums.width += most > 0 ? most_value(load(width + g), load(tile.eps + g), radius2) : vf{};
        }
    }
    void add(const float* value, float radius2, BoundSums<vd>& sums) const {
        for (int g = 0; g < TILE; g += W) {
            const vf most = load(limit + g) - load(value + g);
            const vf wide = most_value(load(width + g), load(tile.eps + g), radius2);
            const vd times = read<vd>(weight + g);
            sums.high += __builtin_convertvector(most > 0 ? most : vf{}, vd) * times;
            sums.width += __builtin_convertvector(most > 0 ? wide : vf{}, vd) * times;
        }
    }
};

// The gains of one block of rows.
template <class Rows>
struct CandidateGains {
    const Rows& rows;
    const Centers& fresh;
    const Potential& p;

    double exact(index_t i, index_t j) const {
        const double less = p.cost[i] - dist2(rows, i, fresh, j);
        return less > 0 ? p.weight ? p.weight[i] * less : less : 0;
    }

    // Adds the exact gains of the rows whose numbers float32 does not hold, and sets their limits so that the filter
    // ignores them. Returns the bits of these rows.
    std::uint64_t add_too_large(const index_t* id, int count, float* limit, GainBounds* out) const {
        std::uint64_t bits = 0;
        for (int r = 0; r < count; ++r) {
            if (limit[r] < MAX_LIMIT) continue;
            bits |= std::uint64_t{1} << r;
            limit[r] = -std::numeric_limits<float>::infinity();
            for (index_t j = 0; j < fresh.k; ++j) {
                const double gain = exact(id[r], j);
                out[j].low += gain * (1 - 1e-12), out[j].high += gain * (1 + 1e-12);
            }
        }
        return bits;
    }

    template <class V>
    void add_filtered_bounds(const PackedCenters& packed, Scratch& s, std::vector<std::uint64_t>& passed,
                             GainBounds* out) const {
        std::vector<BoundSums<V>, Aligned<BoundSums<V>>> sums(packed.k);
        alignas(64) double cost[TILE];
        passed.clear();
        for_tiles(s.id, [&](const index_t* id, int count) {
            filter_values(rows, id, count, packed, s.tile);
            gather(p.cost, id, count, cost);
            cost_limits(s.tile, cost, packed.scale, s.limit);
            std::fill(s.limit + count, s.limit + TILE, -std::numeric_limits<float>::infinity());
            bool all_held = true;
            for (int r = 0; r < TILE; ++r) all_held &= s.limit[r] < MAX_LIMIT;
            const std::uint64_t too_large = all_held ? 0 : add_too_large(id, count, s.limit, out);
            TileLimits limits(s.tile, s.limit, cost, packed.scale);
            if (p.weight) gather(p.weight, id, count, limits.weight);
            for (index_t j = 0; j < packed.k; ++j) {
                const float* value = s.tile.values.data() + j * TILE;
                limits.add(value, packed.radius2[j], sums[j]);
                passed.push_back(tile_mask_below(value, s.limit) | too_large);
            }
        });
        // The factors cover the rounding of float32 sums in W lanes; what underflowed is below 1e-37 a row.
        const double less = 1 - (BLOCK / W + 16) * UNIT, more = 1 + (BLOCK / W + 16) * UNIT;
        const double tiny = 1e-37 * static_cast<double>(s.id.size()), unit = 2 / packed.scale / packed.scale;
        for (index_t j = 0; j < packed.k; ++j) {
            double high = 0, width = 0;
            for (int l = 0; l < W; ++l) high += sums[j].high[l], width += sums[j].width[l];
            out[j].low += std::max(0.0, high * less - width * more - tiny) * unit;
            out[j].high += (high * more + tiny) * unit;
        }
    }
};

// Sums over the rows of a block whose features are few. Features are copied one after the other, so that the loop over
// the rows is all vectors. `gains` calls `add` with the weighted gains of eight rows at a time.
template <int D>
struct FewFeatures {
    index_t m;
    const double *cost, *weight;
    alignas(64) double x[D][BLOCK], copy[2][BLOCK];

    template <class T>
    FewFeatures(const Dense<T>& rows, const Potential& p, index_t from, index_t stop)
        : m(stop - from), cost(p.cost + from), weight(p.weight ? p.weight + from : nullptr) {
        for (index_t i = 0; i < m; ++i)
            for (int j = 0; j < D; ++j) x[j][i] = static_cast<double>(rows.row(from + i)[j]);
        if (m % 8 == 0) return;
        for (index_t i = m; i % 8; ++i)  // rows without a gain
            for (int j = 0; j < D; ++j) x[j][i] = 0;
        for (const double** values : {&cost, &weight}) {
            if (!*values) continue;
            double* padded = copy[values == &weight];
            std::fill(std::copy(*values, *values + m, padded), padded + BLOCK, 0.0);
            *values = padded;
        }
    }
    template <class Add>
    [[gnu::always_inline]] void gains(const double* c, Add&& add) const {
        for (index_t i = 0; i < m; i += 8) {
            const double8 first = widened<8>(x[0] + i) - c[0];
            double8 sum = first * first;
            for (int j = 1; j < D; ++j) {
                const double8 gap = widened<8>(x[j] + i) - c[j];
                sum += gap * gap;
            }
            double8 less = widened<8>(cost + i) - sum;
            less = less > 0 ? less : double8{};
            add(weight ? less * widened<8>(weight + i) : less);
        }
    }
    exact_t exact_gain(const double* c, const Scale& scale) const {
        word8 high{}, low{};
        gains(c, [&](double8 gain) { ShortSum::add(scale, gain, high, low); });
        ShortSum sum{scale};
        sum.terms = static_cast<word_t>((m + 7) / 8 * 8);
        for (int l = 0; l < 8; ++l) sum.high += high[l], sum.low += low[l];
        return sum.whole();
    }
};

template <int D, class T>
void add_bounds_few_features(const Dense<T>& rows, const Centers& fresh, const Potential& p, index_t from, index_t stop,
                             GainBounds* out) {
    const FewFeatures<D> block(rows, p, from, stop);
    for (index_t j = 0; j < fresh.k; ++j) {
        double8 sums{};
        block.gains(fresh.row(j), [&](double8 gain) { sums += gain; });
        double sum = 0;
        for (int l = 0; l < 8; ++l) sum += sums[l];
        out[j].low += sum * (1 - 1e-12), out[j].high += sum * (1 + 1e-12);
    }
}

// Bounds by a filter: pairs that it leaves open are computed exactly. Returns how many of them lower no cost. The rows
// of a tile are fetched while those of the tile before are compared.
template <class Rows>
index_t add_exact_gains(const CandidateGains<Rows>& gains, const RowFilter& filter, const FilterQueries& queries,
                        index_t from, index_t stop, std::vector<std::uint64_t>& passed, GainBounds* out) {
    const index_t m = queries.m, tiles = (stop - from + TILE - 1) / TILE;
    index_t wasted = 0;
    std::vector<double> sum(m, 0);
    passed.resize(tiles * m);
    const auto filter_tile = [&](index_t tile) {
        std::uint64_t any = 0, *open = passed.data() + tile * m;
        filter.not_excluded(from / TILE + tile, queries, open);
        for (index_t j = 0; j < m; ++j) any |= open[j];
        for (; any; any &= any - 1) prefetch(gains.rows, from + tile * TILE + __builtin_ctzll(any));
    };
    const auto compute_tile = [&](index_t tile) {
        std::uint64_t any = 0, *open = passed.data() + tile * m;
        for (index_t j = 0; j < m; ++j) any |= open[j];
        for (; any; any &= any - 1) {
            const std::uint64_t bit = any & -any;
            for (index_t j = 0; j < m; ++j) {
                if (!(open[j] & bit)) continue;
                const double gain = gains.exact(from + tile * TILE + __builtin_ctzll(bit), j);
                sum[j] += gain;
                if (!(gain > 0)) open[j] &= ~bit, ++wasted;
            }
        }
    };
    for (index_t tile = 0; tile <= tiles; ++tile) {
        if (tile < tiles) filter_tile(tile);
        if (tile > 0) compute_tile(tile - 1);
    }
    for (index_t j = 0; j < m; ++j) out[j].low += sum[j] * (1 - 1e-12), out[j].high += sum[j] * (1 + 1e-12);
    return wasted;
}

template <class Rows>
void gain_bounds(const Rows& rows, const RowFilter* filter, const double* c, index_t m, const double* limit,
                 const Potential& p, GainBounds* bounds, PassedPairs& passed) {
    const auto fresh = exact_centers(rows, c, m);
    const auto queries = filter ? filter->prepare(c, m) : nullptr;
    const PackedCenters packed = queries ? PackedCenters{} : pack_centers(rows, fresh);
    passed.n = 0, passed.m = m;  // no rows, if the loop is interrupted
    passed.block.resize(blocks_of(rows.n));
    std::vector<GainBounds> part(blocks_of(rows.n) * m);
    auto scratch = make_scratch(rows, m);
    const CandidateGains<Rows> gains{rows, fresh, p};
    parallel_rows(rows.n, scratch, [&](index_t from, index_t stop, Scratch& s) {
        GainBounds* const out = part.data() + from / BLOCK * m;
        PassedPairs::Block& pairs = passed.block[from / BLOCK];
        if (if_few_features(rows, [&](auto d) { add_bounds_few_features<d()>(rows, fresh, p, from, stop, out); }))
            return;
        improvable_rows(p, queries ? nullptr : limit, from, stop, s);
        pairs.rows.resize(s.id.size());
        for (std::size_t i = 0; i < s.id.size(); ++i) pairs.rows[i] = static_cast<std::uint16_t>(s.id[i] - from);
        if (queries)
            s.total.scanned += add_exact_gains(gains, *filter, *queries, from, stop, pairs.masks, out);
        else if (p.weight)
            gains.template add_filtered_bounds<vd>(packed, s, pairs.masks, out);
        else
            gains.template add_filtered_bounds<vf>(packed, s, pairs.masks, out);
    });
    if (if_few_features(rows, [](auto) {})) passed.block.clear();
    passed.n = rows.n, passed.wasted = total(scratch).scanned;
    std::fill(bounds, bounds + m, GainBounds{});
    for (index_t at = 0; at < blocks_of(rows.n) * m; ++at)
        bounds[at % m].low += part[at].low, bounds[at % m].high += part[at].high;
    for (index_t j = 0; j < m; ++j) {  // the rounding of exact gains, and that of this sum of blocks
        const double rounding = static_cast<double>(rows.n) * p.scale.unit +
                                static_cast<double>(blocks_of(rows.n)) * 0x1p-52 * bounds[j].high;
        bounds[j].low -= rounding, bounds[j].high += rounding;
    }
}

template <class Rows>
void gains(const Rows& rows, const double* c, index_t m, const double* limit, const Potential& p, exact_t* gain) {
    const auto fresh = exact_centers(rows, c, m);
    const PackedCenters packed = pack_centers(rows, fresh);
    std::vector<exact_t> part(blocks_of(rows.n) * m, 0);
    auto scratch = make_scratch(rows, m);
    const CandidateGains<Rows> gains{rows, fresh, p};
    parallel_rows(rows.n, scratch, [&](index_t from, index_t stop, Scratch& s) {
        exact_t* const out = part.data() + from / BLOCK * m;
        if (if_few_features(rows, [&](auto d) {
                const FewFeatures<d()> block(rows, p, from, stop);
                for (index_t j = 0; j < m; ++j) out[j] += block.exact_gain(fresh.row(j), p.scale);
            }))
            return;
        improvable_rows(p, limit, from, stop, s);
        double cost[TILE];
        for_tiles(s.id, [&](const index_t* id, int count) {
            filter_values(rows, id, count, packed, s.tile);
            gather(p.cost, id, count, cost);
            cost_limits(s.tile, cost, packed.scale, s.limit);
            for (index_t j = 0; j < m; ++j) {
                int list[TILE];
                const int hits = rows_within(s.tile.values.data() + j * TILE, s.limit, count, list);
                for (int l = 0; l < hits; ++l) out[j] += p.scale.exact(gains.exact(id[list[l]], j));
            }
        });
    });
    std::fill(gain, gain + m, 0);
    for (index_t at = 0; at < blocks_of(rows.n) * m; ++at) gain[at % m] += part[at];
}

template <class Rows>
void lower_costs_of_passed(const Rows& rows, RowFilter* filter, const double* c, label_t candidate, label_t name,
                           const Potential& p, const PassedPairs& passed) {
    if (passed.block.empty()) return lower_costs(rows, c, 1, name, nullptr, p);
    const auto fresh = exact_centers(rows, c, 1);
    const int threads = threads_for(static_cast<double>(rows.n) * (rows.d + 16));
    parallel_rows(rows.n, threads, [&](index_t from, index_t stop) {
        char touched[BLOCK / DRAW] = {};
        const PassedPairs::Block& pairs = passed.block[from / BLOCK];
        for (std::size_t at = 0; at < pairs.rows.size(); at += TILE) {
            std::uint64_t bits = pairs.masks[at / TILE * passed.m + candidate];
            for (; bits; bits &= bits - 1) {
                const index_t i = from + pairs.rows[at + __builtin_ctzll(bits)];
                const double cost = dist2(rows, i, fresh, 0);
                if (!(cost < p.cost[i])) continue;
                p.cost[i] = cost, p.nearest[i] = name;
                touched[(i - from) / DRAW] = 1;
                if (filter) filter->set_cost(i, cost);
            }
        }
        for (index_t tile = from / DRAW; tile * DRAW < stop; ++tile)
            if (touched[tile - from / DRAW]) update_sum(p, rows.n, tile);
    });
}

}  // namespace kv::KV_ISA
