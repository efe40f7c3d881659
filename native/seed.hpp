// The potential a D^2 sampler draws from: for every row the squared distance to its nearest
// centre, weighted, with one partial sum per DRAW rows.
//
//   absorb  takes new centres into it, one or many in one pass over the rows;
//   gains   tells how much each of several candidates would lower it (the greedy step), and
//   adopt   takes one of them in, from what gains has seen;
//   draw    picks a row. Centres may be pending, i.e. drawn but not yet absorbed: then the kept
//           costs are upper bounds, a row is proposed by its bound and accepted with probability
//           (true cost / bound), which is exactly the law of the true costs.
// limit[a], when given, is a cost below which no new centre can improve a row whose nearest centre
// is a (a quarter of the squared distance from a to the nearest new one): such rows are not read.
#pragma once

#include <type_traits>

#include "assign.hpp"

namespace kv::KV_ISA {

inline double weighted(const Potential& p, index_t i) {
    return p.weight ? p.weight[i] * p.cost[i] : p.cost[i];
}

inline void refresh_sum(const Potential& p, index_t n, index_t tile) {
    double part[8] = {};  // a chain of additions would wait for each
    const index_t from = tile * DRAW, stop = std::min(n, from + DRAW), whole = from + (stop - from) / 8 * 8;
    for (index_t i = from; i < whole; i += 8)
        for (int l = 0; l < 8; ++l) part[l] += weighted(p, i + l);
    for (index_t i = whole; i < stop; ++i) part[i - whole] += weighted(p, i);
    p.sums[tile] = ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
}

inline void within_limit(const Potential& p, const double* limit, index_t from, index_t stop, Scratch& s) {
    s.id.resize(BLOCK);
    index_t m = 0;
    for (index_t i = from; i < stop; ++i) {
        s.id[m] = i;
        m += !limit || p.cost[i] > limit[p.nearest[i]];
    }
    s.id.resize(m);
}

// Per tile row, the value above which a centre cannot be nearer than the row's cost. In float32, so
// that it vectorises; 4e-7 covers its own roundings.
inline void thresholds(const Tile& tile, const index_t* id, int count, const Potential& p, const Pack& pack,
                       float* out) {
    const double square = pack.scale * pack.scale;
    const float shrink = static_cast<float>(1 - tile.norm_error - 4e-7);
    float cost[TILE];
    for (int r = 0; r < count; ++r) cost[r] = static_cast<float>(p.cost[id[r]] * square);
    for (int r = 0; r < count; ++r) {
        const float reach = (cost[r] * (1 + 4e-7f) - tile.norm2[r] * shrink) / 2 + tile.slack[r] * 1.00001f;
        out[r] = tile.norm2[r] < 1e30f ? reach : std::numeric_limits<float>::infinity();
    }
}

// Rows of up to four coordinates are flat: measuring one is cheaper than asking whether to. Eight
// at a time; f is called with the number of coordinates as a constant, and not for other rows.
typedef label_t eight_labels __attribute__((vector_size(32)));

template <int D>
struct Eight {
    eight x[D];
    template <class T>
    explicit Eight(const T* rows) {
        for (int j = 0; j < D; ++j)
            for (int l = 0; l < 8; ++l) x[j][l] = static_cast<double>(rows[l * D + j]);
    }
    eight dist2(const double* c) const {
        eight sum{};
        for (int j = 0; j < D; ++j) sum += (x[j] - c[j]) * (x[j] - c[j]);
        return sum;
    }
};

template <class T, class F>
bool if_flat(const Dense<T>& rows, F f) {
    switch (rows.d) {
        case 1: f(std::integral_constant<int, 1>{}); return true;
        case 2: f(std::integral_constant<int, 2>{}); return true;
        case 3: f(std::integral_constant<int, 3>{}); return true;
        case 4: f(std::integral_constant<int, 4>{}); return true;
    }
    return false;
}
template <class T, class F>
bool if_flat(const Csr<T>&, F) {
    return false;
}

template <int D, class T>
void absorb_flat(const Dense<T>& rows, const Centres& fresh, label_t first, const Potential& p, index_t from, index_t stop) {
    for (index_t j = 0; j < fresh.k; ++j) {
        const label_t name = first + static_cast<label_t>(j);
        index_t i = from;
        for (; i + 8 <= stop; i += 8) {
            const eight fresh_cost = Eight<D>(rows.row(i)).dist2(fresh.row(j));
            eight cost;
            eight_labels label;
            std::memcpy(&cost, p.cost + i, sizeof cost);
            std::memcpy(&label, p.nearest + i, sizeof label);
            const auto less = fresh_cost < cost;
            cost = less ? fresh_cost : cost;
            label = __builtin_convertvector(less, eight_labels) ? name - eight_labels{} : label;
            std::memcpy(p.cost + i, &cost, sizeof cost);
            std::memcpy(p.nearest + i, &label, sizeof label);
        }
        for (; i < stop; ++i) {
            const double cost = dist2(rows, i, fresh, j);
            if (cost < p.cost[i]) p.cost[i] = cost, p.nearest[i] = name;
        }
    }
}

// Every centre against every row of [from, stop) that may care.
template <class Rows>
void absorb_direct(const Rows& rows, const Centres& fresh, label_t first, const double* limit, const Potential& p,
                   index_t from, index_t stop, Scratch& s) {
    if (if_flat(rows, [&](auto d) { absorb_flat<d()>(rows, fresh, first, p, from, stop); })) return;
    within_limit(p, limit, from, stop, s);
    for (index_t i : s.id)
        for (index_t j = 0; j < fresh.k; ++j) {
            const double cost = dist2(rows, i, fresh, j);
            if (cost < p.cost[i]) p.cost[i] = cost, p.nearest[i] = first + static_cast<label_t>(j);
        }
}

template <class Rows>
void absorb_scan(const Rows& rows, const Centres& fresh, const Pack& pack, label_t first, const double* limit,
                 const Potential& p, index_t from, index_t stop, Scratch& s) {
    within_limit(p, limit, from, stop, s);
    const Candidates all{nullptr, fresh.k};
    for (std::size_t at = 0; at < s.id.size(); at += TILE) {
        const index_t* id = s.id.data() + at;
        const int count = static_cast<int>(std::min<std::size_t>(TILE, s.id.size() - at));
        scan(rows, id, count, pack, all, false, s.tile);
        thresholds(s.tile, id, count, p, pack, s.limit);
        for (int r = 0; r < count; ++r) {
            const index_t i = id[r];
            if (s.tile.best[r] > s.limit[r]) continue;
            const label_t j = decide(rows, i, r, pack, fresh, all, s);
            const double cost = dist2(rows, i, fresh, j);
            if (cost < p.cost[i]) p.cost[i] = cost, p.nearest[i] = first + j;
        }
    }
}

template <class Rows>
void absorb(const Rows& rows, const double* c, index_t m, label_t first,
            const double* limit, const Potential& p) {
    const auto fresh = exact_centres(rows, c, m);
    const bool direct = m <= 2;
    const Pack pack = direct ? Pack{} : make_pack(rows, c, m);
    auto scratch = scratches(rows, m);
    parallel(blocks_of(rows.n), scratch, [&](index_t block, Scratch& s) {
        const index_t from = block * BLOCK, stop = std::min(rows.n, from + BLOCK);
        direct ? absorb_direct(rows, fresh, first, limit, p, from, stop, s)
               : absorb_scan(rows, fresh, pack, first, limit, p, from, stop, s);
        for (index_t tile = from / DRAW; tile * DRAW < stop; ++tile) refresh_sum(p, rows.n, tile);
    });
}

constexpr std::size_t KEPT_HITS = BLOCK / 2;

// What one block of rows would gain from each candidate, summed in row order.
template <class Rows>
struct Trial {
    const Rows& rows;
    const Centres& fresh;
    const Potential& p;
    double* gain;
    std::vector<Hit>& seen;
    char& lost;
    index_t vain = 0;

    void measure(index_t i, index_t j) {
        const double cost = dist2(rows, i, fresh, j), less = p.cost[i] - cost;
        if (!(less > 0)) {
            ++vain;
            return;
        }
        gain[j] += p.weight ? p.weight[i] * less : less;
        if (seen.size() < KEPT_HITS)
            seen.push_back({i, static_cast<label_t>(j), cost});
        else
            lost = 1;
    }
};

template <class Rows>
void try_scanned(Trial<Rows>& trial, const Pack& pack, Scratch& s) {
    const Candidates all{nullptr, pack.k};
    for (std::size_t at = 0; at < s.id.size(); at += TILE) {
        const index_t* id = s.id.data() + at;
        const int count = static_cast<int>(std::min<std::size_t>(TILE, s.id.size() - at));
        scan(trial.rows, id, count, pack, all, true, s.tile);
        thresholds(s.tile, id, count, trial.p, pack, s.limit);
        for (index_t j = 0; j < pack.k; ++j) {
            int list[TILE];
            const int hits = within(s.tile.values.data() + j * TILE, s.limit, count, list);
            for (int l = 0; l < hits; ++l) trial.measure(id[list[l]], j);
        }
    }
}

template <class Rows>
void try_shadow(Trial<Rows>& trial, const Shadow& shadow, const Beams& beams, index_t from, index_t stop, Scratch& s) {
    if (s.maybe.size() < static_cast<std::size_t>(beams.m * TILE)) s.maybe.resize(beams.m * TILE);
    for (index_t at = from; at < stop; at += TILE) {
        meet(shadow, at / TILE, beams, s.maybe.data());
        for (index_t j = 0; j < beams.m; ++j) {
            int list[TILE], count = 0;  // compact first: no mispredicted branches
            for (int r = 0; r < TILE; r += 8) {
                std::uint64_t bytes;
                std::memcpy(&bytes, s.maybe.data() + j * TILE + r, 8);
                if (!bytes) continue;
                for (int b = 0; b < 8; ++b, bytes >>= 8) {
                    list[count] = r + b;
                    count += bytes & 1;
                }
            }
            for (int l = 0; l < count; ++l) trial.measure(at + list[l], j);
        }
    }
}

template <int D, class T>
void try_flat(const Dense<T>& rows, const Centres& fresh, const Potential& p, index_t from, index_t stop, double* gain) {
    std::vector<eight> part(fresh.k, eight{});
    index_t i = from;
    for (; i + 8 <= stop; i += 8) {
        eight cost, weight{};
        std::memcpy(&cost, p.cost + i, sizeof cost);
        if (p.weight) std::memcpy(&weight, p.weight + i, sizeof weight);
        const Eight<D> x(rows.row(i));
        for (index_t j = 0; j < fresh.k; ++j) {
            eight less = cost - x.dist2(fresh.row(j));
            less = less > 0 ? less : eight{};
            part[j] += p.weight ? weight * less : less;
        }
    }
    for (index_t j = 0; j < fresh.k; ++j) {
        for (int l = 0; l < 8; ++l) gain[j] += part[j][l];
        for (index_t r = i; r < stop; ++r) {
            const double less = p.cost[r] - dist2(rows, r, fresh, j);
            if (less > 0) gain[j] += p.weight ? p.weight[r] * less : less;
        }
    }
}

template <class Rows>
void gains(const Rows& rows, const Shadow* shadow, const double* c, index_t m, const double* limit,
           const Potential& p, double* gain, Hits& hits) {
    const auto fresh = exact_centres(rows, c, m);
    Beams beams;
    if (shadow && !aim(*shadow, c, m, beams)) shadow = nullptr;
    const Pack pack = shadow ? Pack{} : make_pack(rows, c, m);
    std::vector<double> part(blocks_of(rows.n) * m, 0);
    hits.block.resize(blocks_of(rows.n));
    hits.lost.assign(blocks_of(rows.n), 0);
    auto scratch = scratches(rows, m);
    parallel(blocks_of(rows.n), scratch, [&](index_t block, Scratch& s) {
        const index_t from = block * BLOCK, stop = std::min(rows.n, from + BLOCK);
        hits.block[block].clear();
        Trial<Rows> trial{rows, fresh, p, part.data() + block * m, hits.block[block], hits.lost[block]};
        if (if_flat(rows, [&](auto d) { try_flat<d()>(rows, fresh, p, from, stop, trial.gain); })) {
            trial.lost = 1;
        } else if (shadow) {
            try_shadow(trial, *shadow, beams, from, stop, s);
        } else {
            within_limit(p, limit, from, stop, s);
            try_scanned(trial, pack, s);
        }
        s.total.scanned += trial.vain;
    });
    hits.vain = total(scratch).scanned;
    std::fill(gain, gain + m, 0.0);
    for (index_t block = 0; block < blocks_of(rows.n); ++block)
        for (index_t j = 0; j < m; ++j) gain[j] += part[block * m + j];
}

template <class Rows>
void adopt(const Rows& rows, Shadow* shadow, const double* c, label_t candidate, label_t name,
           const double* limit, const Potential& p, const Hits& hits) {
    const auto fresh = exact_centres(rows, c, 1);
    auto scratch = scratches(rows, 1);
    parallel(blocks_of(rows.n), scratch, [&](index_t block, Scratch& s) {
        const index_t from = block * BLOCK, stop = std::min(rows.n, from + BLOCK);
        char touched[BLOCK / DRAW] = {};
        if (hits.lost[block]) {
            absorb_direct(rows, fresh, name, limit, p, from, stop, s);
            std::fill(std::begin(touched), std::end(touched), 1);
            if (shadow)
                for (index_t i = from; i < stop; ++i) shadow->lower(i, p.cost[i]);
        } else {
            for (const Hit& hit : hits.block[block]) {
                if (hit.candidate != candidate) continue;
                p.cost[hit.row] = hit.cost, p.nearest[hit.row] = name;
                touched[(hit.row - from) / DRAW] = 1;
                if (shadow) shadow->lower(hit.row, hit.cost);
            }
        }
        for (index_t tile = from / DRAW; tile * DRAW < stop; ++tile)
            if (touched[tile - from / DRAW]) refresh_sum(p, rows.n, tile);
    });
}

// The row at which the running sum of weighted costs passes u * total; -1 if the total is zero.
inline index_t locate(const Potential& p, index_t n, double u) {
    const index_t tiles = (n + DRAW - 1) / DRAW;
    double total = 0;
    for (index_t t = 0; t < tiles; ++t) total += p.sums[t];
    if (!(total > 0)) return -1;
    const double goal = u * total;
    double sum = 0;
    index_t last = -1;  // rounding can carry the goal past the end: fall back on the last possible row
    for (index_t t = 0; t < tiles; ++t) {
        if (!(p.sums[t] > 0)) continue;
        if (sum + p.sums[t] <= goal) {
            sum += p.sums[t];
            last = t;
            continue;
        }
        last = t;
        break;
    }
    index_t row = -1;
    for (index_t i = last * DRAW; i < std::min(n, (last + 1) * DRAW); ++i) {
        const double w = weighted(p, i);
        if (!(w > 0)) continue;
        row = i;
        sum += w;
        if (sum > goal) break;
    }
    return row;
}

template <class Rows>
Drawn draw(const Rows& rows, const double* pending, index_t m, label_t first,
           const Potential& p, const double* uniforms, index_t count) {
    const auto fresh = exact_centres(rows, pending, m);
    Drawn out;
    while (out.used + 2 <= count) {
        const double u = uniforms[out.used], accept = uniforms[out.used + 1];
        out.used += 2;
        const index_t i = locate(p, rows.n, u);
        if (i < 0) return out;
        const double bound = p.cost[i];
        for (index_t j = 0; j < m; ++j) {
            const double cost = dist2(rows, i, fresh, j);
            if (cost < p.cost[i]) p.cost[i] = cost, p.nearest[i] = first + static_cast<label_t>(j);
        }
        if (p.cost[i] < bound) refresh_sum(p, rows.n, i / DRAW);
        if (accept * bound < p.cost[i]) {
            out.row = i;
            return out;
        }
    }
    return out;
}

}  // namespace kv::KV_ISA
