// The sources of distances for a 2-HST: rows of few or many features, sparse rows, a matrix, a callable.
//
// A source has items (the index of a point, and its features if they are few), prepared centres, and values: distances,
// or squared distances if they are Euclidean. Values are exact: float64 in one order of operations. Where clusters
// split into many parts, a filter excludes most pairs with sixteen centres at less cost, without errors.
#pragma once

#include <cstring>

#include "reference.hpp"
#include "tree.hpp"

namespace kv::KV_ISA {

constexpr int TOGETHER = 16;    // centres that the filter handles at once
constexpr index_t BATCH = 256;  // items whose values are computed at once

struct PointId {
    std::int32_t id;
};

template <class T, int D>
struct PointCoordinates {
    std::int32_t id;
    T x[D];
};

// What most sources have in common. P is the power of a distance that is its value.
template <int P>
struct SourceBase {
    using Item = PointId;
    static constexpr index_t batch = BATCH;
    static constexpr bool has_filter = false, multithreaded = true;
    struct CenterFilter {};
    static Item item(index_t i) { return {static_cast<std::int32_t>(i)}; }
    static double value(double r) { return P == 2 ? r * r : r; }
    static double length(double v) { return P == 2 ? std::sqrt(v) : v; }
};

template <class T, int D, int P>
struct RowsOfFewFeatures : SourceBase<P> {
    using Item = PointCoordinates<T, D>;
    struct Center {
        double c[D];
    };
    Dense<T> rows;

    index_t n() const { return rows.n; }
    double work() const { return D; }
    Item item(index_t i) const {
        Item out;
        out.id = static_cast<std::int32_t>(i);
        std::copy(rows.row(i), rows.row(i) + D, out.x);
        return out;
    }
    void prepare(const Item& center, Center& prepared) const { std::copy(center.x, center.x + D, prepared.c); }
    void measure(const Center& prepared, const Item* items, index_t count, double* out) const {
        for (index_t i = 0; i < count; ++i) {
            double sum = 0;
            for (int j = 0; j < D; ++j) {
                const double a = static_cast<double>(items[i].x[j]) - prepared.c[j];
                sum += P == 2 ? a * a : std::abs(a);
            }
            out[i] = sum;
        }
    }
};

template <class T, int P>
struct RowsOfManyFeatures : SourceBase<P> {
    using Item = PointId;
    struct Center {
        std::vector<double> c;
    };
    static constexpr bool has_filter = true;
    Dense<T> rows;

    index_t n() const { return rows.n; }
    double work() const { return static_cast<double>(rows.d); }
    const T* row(const Item& item) const { return rows.row(item.id); }
    void prepare(const Item& center, Center& prepared) const { prepared.c.assign(row(center), row(center) + rows.d); }
    double exact_value(const Center& prepared, const Item& item) const {
        return P == 2 ? dist2(row(item), prepared.c.data(), rows.d) : dist1(row(item), prepared.c.data(), rows.d);
    }
    void measure(const Center& prepared, const Item* items, index_t count, double* out) const {
        for (index_t i = 0; i < count; ++i) {
            if (i + 8 < count) __builtin_prefetch(row(items[i + 8]));
            out[i] = exact_value(prepared, items[i]);
        }
    }

    // Sums for sixteen centres at once. No term is negative: the error is a small part of the sum, and a partial sum
    // above the limit stays above it.
    struct CenterFilter {
        Buffer<T> values;
        T limit;
    };
    void prepare_filter(const Item* center, int centers, double limit, CenterFilter& filter) const {
        filter.values.resize(rows.d * TOGETHER);
        for (index_t j = 0; j < rows.d; ++j)
            for (int p = 0; p < TOGETHER; ++p) filter.values[j * TOGETHER + p] = row(center[p < centers ? p : 0])[j];
        const double wider = limit * (1 + static_cast<double>(rows.d + 16) * std::numeric_limits<T>::epsilon());
        filter.limit = std::nextafter(static_cast<T>(wider), std::numeric_limits<T>::infinity());
    }
    // Sets, for four items, a bit for every centre that may be within the limit.
    void apply_filter(const CenterFilter& filter, const Item* items, unsigned* maybe) const {
        using wide = Vector<T, TOGETHER>;
        const T* x[4];
        for (int p = 0; p < 4; ++p) x[p] = row(items[p]);
        wide sum[4] = {};
        for (index_t j = 0; j < rows.d;) {
            const index_t stop = std::min(rows.d, j + 64);
            for (; j < stop; ++j) {
                const auto c = read<wide>(filter.values.data() + j * TOGETHER);
                for (int p = 0; p < 4; ++p) {
                    const wide a = c - x[p][j];
                    sum[p] += P == 2 ? a * a : (a < 0 ? -a : a);
                }
            }
            const wide least01 = sum[0] < sum[1] ? sum[0] : sum[1], least23 = sum[2] < sum[3] ? sum[2] : sum[3];
            const wide least = least01 < least23 ? least01 : least23;
            bool any = false;
            for (int p = 0; p < TOGETHER; ++p) any |= least[p] <= filter.limit;
            if (!any) return std::fill(maybe, maybe + 4, 0u);
        }
        for (int p = 0; p < 4; ++p) {
            maybe[p] = 0;
            for (int q = 0; q < TOGETHER; ++q) maybe[p] |= static_cast<unsigned>(sum[p][q] <= filter.limit) << q;
        }
    }
};

template <class T, int P>
struct SparseRows : SourceBase<P> {
    using Item = PointId;
    using Center = PointId;
    static constexpr bool has_filter = true;
    Csr<T> rows;
    std::vector<double> size;  // the value of every row's distance to 0

    explicit SparseRows(const Csr<T>& r) : rows(r), size(r.n, 0) {
        for (index_t i = 0; i < r.n; ++i)
            for (index_t a = r.start[i]; a < r.start[i + 1]; ++a) size[i] += term(static_cast<double>(r.x[a]));
    }
    static double term(double a) { return P == 2 ? a * a : std::abs(a); }
    index_t n() const { return rows.n; }
    double work() const { return 4.0 * static_cast<double>(rows.start[rows.n]) / static_cast<double>(rows.n); }
    void prepare(const Item& center, Center& prepared) const { prepared = center; }
    // Sums differences entry by entry: no digits cancel, and equal rows have distance 0.
    double exact_value(const Center& prepared, const Item& item) const {
        index_t a = rows.start[prepared.id], b = rows.start[item.id];
        const index_t to = rows.start[prepared.id + 1], end = rows.start[item.id + 1];
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
    void measure(const Center& prepared, const Item* items, index_t count, double* out) const {
        for (index_t i = 0; i < count; ++i) out[i] = exact_value(prepared, items[i]);
    }

    // Sixteen centres at once, in the columns that any of them has. The value for a row is the sum of both sizes, less
    // what the common columns save. That is summed in float64, with an error that is a small part of the sizes.
    struct CenterFilter {
        std::vector<std::int32_t> slot;  // by column; 0: no centre has it
        std::vector<std::int32_t> used;  // columns with a slot
        Buffer<double> values;           // slot by slot; slot 0 is all zeros
        double size[TOGETHER];
        double limit;
    };
    void prepare_filter(const Item* center, int centers, double limit, CenterFilter& filter) const {
        filter.slot.resize(rows.d, 0);
        for (const std::int32_t column : filter.used) filter.slot[column] = 0;
        filter.used.clear();
        filter.values.assign(TOGETHER, 0.0);
        filter.limit = limit;
        std::fill(filter.size, filter.size + TOGETHER, 0.0);
        for (int p = 0; p < centers; ++p) {
            filter.size[p] = size[center[p].id];
            for (index_t a = rows.start[center[p].id]; a < rows.start[center[p].id + 1]; ++a) {
                std::int32_t& slot = filter.slot[rows.column[a]];
                if (slot == 0) {
                    filter.used.push_back(rows.column[a]);
                    slot = static_cast<std::int32_t>(filter.used.size());
                    filter.values.resize(filter.values.size() + TOGETHER, 0.0);
                }
                filter.values[slot * TOGETHER + p] = static_cast<double>(rows.x[a]);
            }
        }
    }
    void apply_filter(const CenterFilter& filter, const Item* items, unsigned* maybe) const {
        using wide = Vector<double, TOGETHER>;
        const auto own = read<wide>(filter.size);
        for (int p = 0; p < 4; ++p) {
            const index_t i = items[p].id, from = rows.start[i], to = rows.start[i + 1];
            wide saved = {};
            for (index_t a = from; a < to; ++a) {
                const auto c = read<wide>(filter.values.data() + index_t{filter.slot[rows.column[a]]} * TOGETHER);
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
            for (int q = 0; q < TOGETHER; ++q) maybe[p] |= static_cast<unsigned>(least[q] <= filter.limit) << q;
        }
    }
};

template <class T>
struct DistanceMatrix : SourceBase<1> {
    using Center = const T*;
    const T* D;
    index_t size;

    index_t n() const { return size; }
    double work() const { return 2; }
    void prepare(const Item& center, Center& prepared) const { prepared = D + center.id * size; }
    void measure(const Center& prepared, const Item* items, index_t count, double* out) const {
        for (index_t i = 0; i < count; ++i) out[i] = static_cast<double>(prepared[items[i].id]);
    }
};

struct CallableDistances : SourceBase<1> {
    using Center = PointId;
    static constexpr index_t batch = std::numeric_limits<std::int32_t>::max();
    static constexpr bool multithreaded = false;
    const DistancesFrom& distances_from;
    index_t size;

    index_t n() const { return size; }
    double work() const { return 0; }
    void prepare(const Item& center, Center& prepared) const { prepared = center; }
    void measure(const Center& prepared, const Item* items, index_t count, double* out) const {
        distances_from(prepared.id, &items->id, count, out);
    }
};

}  // namespace kv::KV_ISA
