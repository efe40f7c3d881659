// What a 2-HST can be grown over: rows of few or many coordinates, sparse rows, a matrix, a function.
//
// Each has items (a point's number, and its coordinates where they are few), an aim (a centre made ready) and values
// that grow with the distance: Euclidean ones are squared. Values are exact: float64, one order of operations. Where
// clusters fall into many pieces a sieve of sixteen centres rules out most pairs with less work, and never wrongly.
#pragma once

#include <cstring>

#include "exact.hpp"
#include "tree.hpp"

namespace kv::KV_ISA {

constexpr int LANES = 16;      // centres tried at once where clusters fall into many pieces
constexpr index_t PASS = 256;  // items measured between two looks at them

struct Name {
    std::int32_t id;
};

template <class T, int D>
struct Place {
    std::int32_t id;
    T x[D];
};

template <int P>
struct Norm {
    static double value(double r) { return P == 2 ? r * r : r; }
    static double length(double v) { return P == 2 ? std::sqrt(v) : v; }
};

template <class T, int D, int P>
struct Few : Norm<P> {
    using Item = Place<T, D>;
    struct Aim {
        double c[D];
    };
    static constexpr index_t pass = PASS;
    static constexpr bool lanes = false, threads = true;
    Dense<T> rows;

    index_t n() const { return rows.n; }
    double work() const { return D; }
    Item item(index_t i) const {
        Item out;
        out.id = static_cast<std::int32_t>(i);
        std::copy(rows.row(i), rows.row(i) + D, out.x);
        return out;
    }
    void aim(const Item& centre, Aim& aim) const { std::copy(centre.x, centre.x + D, aim.c); }
    void measure(const Aim& aim, const Item* items, index_t count, double* out) const {
        for (index_t i = 0; i < count; ++i) {
            double sum = 0;
            for (int j = 0; j < D; ++j) {
                const double a = static_cast<double>(items[i].x[j]) - aim.c[j];
                sum += P == 2 ? a * a : std::abs(a);
            }
            out[i] = sum;
        }
    }
};

template <class T, int P>
struct Many : Norm<P> {
    using Item = Name;
    struct Aim {
        std::vector<double> c;
    };
    static constexpr index_t pass = PASS;
    static constexpr bool lanes = true, threads = true;
    Dense<T> rows;

    index_t n() const { return rows.n; }
    double work() const { return static_cast<double>(rows.d); }
    Item item(index_t i) const { return {static_cast<std::int32_t>(i)}; }
    const T* row(const Item& item) const { return rows.row(item.id); }
    void aim(const Item& centre, Aim& aim) const { aim.c.assign(row(centre), row(centre) + rows.d); }
    double exactly(const Aim& aim, const Item& item) const {
        return P == 2 ? dist2(row(item), aim.c.data(), rows.d) : dist1(row(item), aim.c.data(), rows.d);
    }
    void measure(const Aim& aim, const Item* items, index_t count, double* out) const {
        for (index_t i = 0; i < count; ++i) {
            if (i + 8 < count) __builtin_prefetch(row(items[i + 8]));
            out[i] = exactly(aim, items[i]);
        }
    }

    // Sixteen centres side by side. All terms of the filter's sums are positive, so its error is a small part of
    // the sum, and a sum that is over the limit halfway stays there.
    struct Sieve {
        Buffer<T> lanes;
        T most;
    };
    void ready(const Item* centre, int centres, double limit, Sieve& sieve) const {
        sieve.lanes.resize(static_cast<std::size_t>(rows.d * LANES));
        for (index_t j = 0; j < rows.d; ++j)
            for (int p = 0; p < LANES; ++p) sieve.lanes[j * LANES + p] = row(centre[p < centres ? p : 0])[j];
        const double wider = limit * (1 + static_cast<double>(rows.d + 16) * std::numeric_limits<T>::epsilon());
        sieve.most = std::nextafter(static_cast<T>(wider), std::numeric_limits<T>::infinity());
    }
    // For four items, a bit for every centre that may be within the limit.
    void sift(const Sieve& sieve, const Item* items, unsigned* maybe) const {
        typedef T wide __attribute__((vector_size(LANES * sizeof(T))));
        const T* x[4];
        for (int p = 0; p < 4; ++p) x[p] = row(items[p]);
        wide sum[4] = {};
        for (index_t j = 0; j < rows.d;) {
            const index_t stop = std::min(rows.d, j + 64);
            for (; j < stop; ++j) {
                wide c;
                std::memcpy(&c, sieve.lanes.data() + j * LANES, sizeof c);
                for (int p = 0; p < 4; ++p) {
                    const wide a = c - x[p][j];
                    sum[p] += P == 2 ? a * a : (a < 0 ? -a : a);
                }
            }
            const wide least01 = sum[0] < sum[1] ? sum[0] : sum[1], least23 = sum[2] < sum[3] ? sum[2] : sum[3];
            const wide least = least01 < least23 ? least01 : least23;
            bool any = false;
            for (int p = 0; p < LANES; ++p) any |= least[p] <= sieve.most;
            if (!any) return std::fill(maybe, maybe + 4, 0u);
        }
        for (int p = 0; p < 4; ++p) {
            maybe[p] = 0;
            for (int q = 0; q < LANES; ++q) maybe[p] |= static_cast<unsigned>(sum[p][q] <= sieve.most) << q;
        }
    }
};

template <class T, int P>
struct Sparse : Norm<P> {
    using Item = Name;
    using Aim = Name;
    static constexpr index_t pass = PASS;
    static constexpr bool lanes = true, threads = true;
    Csr<T> rows;
    std::vector<double> size;  // of every row: its distance from 0, as a value

    explicit Sparse(const Csr<T>& r) : rows(r), size(static_cast<std::size_t>(r.n), 0) {
        for (index_t i = 0; i < r.n; ++i)
            for (index_t a = r.start[i]; a < r.start[i + 1]; ++a) size[i] += term(static_cast<double>(r.x[a]));
    }
    static double term(double a) { return P == 2 ? a * a : std::abs(a); }
    index_t n() const { return rows.n; }
    double work() const { return 4.0 * static_cast<double>(rows.start[rows.n]) / static_cast<double>(rows.n); }
    Item item(index_t i) const { return {static_cast<std::int32_t>(i)}; }
    void aim(const Item& centre, Aim& aim) const { aim = centre; }
    // From differences, entry by entry: no cancellation, and equal rows are at distance 0.
    double exactly(const Aim& aim, const Item& item) const {
        index_t a = rows.start[aim.id], b = rows.start[item.id];
        const index_t to = rows.start[aim.id + 1], end = rows.start[item.id + 1];
        double sum = 0;
        while (a < to && b < end) {
            const std::int32_t ca = rows.column[a], cb = rows.column[b];
            const double xa = ca <= cb ? static_cast<double>(rows.x[a]) : 0.0;
            const double xb = cb <= ca ? static_cast<double>(rows.x[b]) : 0.0;
            sum += term(xa - xb);
            a += ca <= cb;
            b += cb <= ca;
        }
        for (; a < to; ++a) sum += term(static_cast<double>(rows.x[a]));
        for (; b < end; ++b) sum += term(static_cast<double>(rows.x[b]));
        return sum;
    }
    void measure(const Aim& aim, const Item* items, index_t count, double* out) const {
        for (index_t i = 0; i < count; ++i) out[i] = exactly(aim, items[i]);
    }

    // Sixteen centres side by side, in the columns that any of them has. To a row the distance is the sum of both
    // sizes, less what the common columns save: that is summed in double, and its error is a part of the sizes.
    struct Sieve {
        std::vector<std::int32_t> slot;  // of a column; 0: none of the centres has it
        std::vector<std::int32_t> used;  // columns with a slot
        Buffer<double> lanes;            // slot by slot; slot 0 is all zeros
        double size[LANES];
        double limit;
    };
    void ready(const Item* centre, int centres, double limit, Sieve& sieve) const {
        sieve.slot.resize(static_cast<std::size_t>(rows.d), 0);
        for (const std::int32_t column : sieve.used) sieve.slot[column] = 0;
        sieve.used.clear();
        sieve.lanes.assign(LANES, 0.0);
        sieve.limit = limit;
        std::fill(sieve.size, sieve.size + LANES, 0.0);
        for (int p = 0; p < centres; ++p) {
            sieve.size[p] = size[centre[p].id];
            for (index_t a = rows.start[centre[p].id]; a < rows.start[centre[p].id + 1]; ++a) {
                std::int32_t& slot = sieve.slot[rows.column[a]];
                if (slot == 0) {
                    sieve.used.push_back(rows.column[a]);
                    slot = static_cast<std::int32_t>(sieve.used.size());
                    sieve.lanes.resize(sieve.lanes.size() + LANES, 0.0);
                }
                sieve.lanes[slot * LANES + p] = static_cast<double>(rows.x[a]);
            }
        }
    }
    void sift(const Sieve& sieve, const Item* items, unsigned* maybe) const {
        typedef double wide __attribute__((vector_size(LANES * sizeof(double))));
        wide own;
        std::memcpy(&own, sieve.size, sizeof own);
        for (int p = 0; p < 4; ++p) {
            const index_t i = items[p].id, from = rows.start[i], to = rows.start[i + 1];
            wide saved = {};
            for (index_t a = from; a < to; ++a) {
                wide c;
                std::memcpy(&c, sieve.lanes.data() + index_t{sieve.slot[rows.column[a]]} * LANES, sizeof c);
                const double x = static_cast<double>(rows.x[a]);
                if constexpr (P == 2) {
                    saved += c * (2 * x);
                } else {
                    const wide gap = c - x;
                    saved += (c < 0 ? -c : c) + std::abs(x) - (gap < 0 ? -gap : gap);
                }
            }
            const double slack = static_cast<double>(to - from + 16) * std::numeric_limits<double>::epsilon() * 4;
            const wide sum = own + size[i];
            const wide least = sum - saved - sum * slack;
            maybe[p] = 0;
            for (int q = 0; q < LANES; ++q) maybe[p] |= static_cast<unsigned>(least[q] <= sieve.limit) << q;
        }
    }
};

template <class T>
struct Given : Norm<1> {
    using Item = Name;
    using Aim = const T*;
    static constexpr index_t pass = PASS;
    static constexpr bool lanes = false, threads = true;
    const T* D;
    index_t size;

    index_t n() const { return size; }
    double work() const { return 2; }
    Item item(index_t i) const { return {static_cast<std::int32_t>(i)}; }
    void aim(const Item& centre, Aim& aim) const { aim = D + centre.id * size; }
    void measure(const Aim& aim, const Item* items, index_t count, double* out) const {
        for (index_t i = 0; i < count; ++i) out[i] = static_cast<double>(aim[items[i].id]);
    }
};

struct Called : Norm<1> {
    using Item = Name;
    using Aim = Name;
    static constexpr index_t pass = std::numeric_limits<std::int32_t>::max();
    static constexpr bool lanes = false, threads = false;
    const Among& among;
    index_t size;

    index_t n() const { return size; }
    double work() const { return 0; }
    Item item(index_t i) const { return {static_cast<std::int32_t>(i)}; }
    void aim(const Item& centre, Aim& aim) const { aim = centre; }
    void measure(const Aim& aim, const Item* items, index_t count, double* out) const {
        among(aim.id, &items->id, count, out);
    }
};

}  // namespace kv::KV_ISA
