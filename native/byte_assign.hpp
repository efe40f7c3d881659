// Assignment by bytes (byte_rows.hpp), with a lower bound for each row and group of centres, as Yinyang's
// (yinyang.hpp). Centres that bytes leave open are compared in float64; rows with many of them go to the filter.
#pragma once

#include <mutex>
#include <optional>
#include <vector>

#include "byte_rows.hpp"
#include "yinyang.hpp"

namespace kv::KV_ISA {

// The lower bounds that a row keeps: whole multiples of a unit of the row, rounded down, in 16 bits. The unit is a
// power of two, from 2^-15 to 2^-14 of the norm of the row's bytes, so that bounds reach at least twice this norm. A
// row's nearest centre is hardly ever farther, and rounding loses little beside the errors of bytes.
//
// Multiplying by the unit, and by its inverse, is exact: both are normal numbers, and where a product with the inverse
// underflows, it is rounded down to zero anyway. Rows without such a unit keep bounds of zero, which prove nothing.
class LowerBounds {
public:
    // `norm`: of the row's bytes; `kept`: the row's bounds.
    LowerBounds(float norm, float share, std::uint16_t* kept) : kept_(kept) {
        const float power = std::bit_cast<float>(std::bit_cast<std::uint32_t>(norm) & 0x7f800000u),
                    unit = power * share;
        const bool held = unit > 0x1p-110f && unit < 0x1p110f;
        unit_ = held ? unit : 0;
        inverse_ = held ? std::bit_cast<float>((254u << 23) - std::bit_cast<std::uint32_t>(unit)) : 0;
    }
    // Of the power of two that a norm's exponent tells: the unit. It undoes the scale, which is a power of two as well.
    static float share_of(const ByteRows& bytes) { return static_cast<float>(0x1p-14 / bytes.scale); }
    float operator[](index_t g) const { return static_cast<float>(kept_[g]) * unit_; }
    // Whether a bound is not above a distance, of which this is `whole_units`.
    bool open(index_t g, std::int32_t far) const { return kept_[g] <= far; }
    std::int32_t whole_units(float distance) const {
        const float units = distance * inverse_;
        return unit_ > 0 && units < UNITS ? static_cast<std::int32_t>(units) : MOST;
    }
    void set(index_t g, float bound) { kept_[g] = whole(bound); }
    void lower_to(index_t g, float bound) { kept_[g] = std::min(kept_[g], whole(bound)); }
    void set_all(index_t first, index_t stop, float bound) { std::fill(kept_ + first, kept_ + stop, whole(bound)); }
    // Bounds that say nothing of centres, as there are none.
    void fill_up(index_t first, index_t stop) {
        std::fill(kept_ + first, kept_ + stop, static_cast<std::uint16_t>(MOST));
    }
    // After the centres of each group moved so far; returns the smallest bound. A multiple of eight are kept.
    float decrease(const float* drift, index_t count) {
        using int8 = Vector<std::int32_t, 8>;
        using short8 = Vector<std::uint16_t, 8>;
        int8 least = int8{} + MOST;
        for (index_t g = 0; g < count; g += 8) {
            const float8 by = read<float8>(drift + g), units = by * inverse_, most = float8{} + UNITS;
            // More than the drift, unless that is zero.
            const int8 larger = __builtin_convertvector(units < most ? units : most, int8) - (by > 0);
            int8 v = __builtin_convertvector(read<short8>(kept_ + g), int8) - larger;
            v = v > 0 ? v : int8{};
            write(kept_ + g, __builtin_convertvector(v, short8));
            least = v < least ? v : least;
        }
        return static_cast<float>(joined<8>(least, [](int8 a, int8 b) { return b < a ? b : a; })) * unit_;
    }

private:
    static constexpr std::int32_t MOST = 65535;
    static constexpr float UNITS = MOST;
    using float8 = Vector<float, 8>;
    std::uint16_t* kept_;
    float unit_ = 0, inverse_ = 0;

    std::uint16_t whole(float bound) const {
        const float units = bound * inverse_;
        return units > 0 ? static_cast<std::uint16_t>(units < UNITS ? units : UNITS) : std::uint16_t{0};
    }
};

struct OpenByteRow : OpenRow {
    int near = 0;       // centres that were compared in float64
    bool wide = false;  // too many: left to the filter
};

struct ByteScratch : Scratch {
    std::vector<ByteTile> two;  // of each group
    NearCenters near;
    std::vector<OpenByteRow> rows;
    std::vector<std::vector<std::int32_t>> open;  // for each group, places in `rows`
    std::vector<index_t> wide;
};

// Bounds on the distances of up to BYTE_TILE rows, from bounds on v.
class ByteBounds {
public:
    ByteBounds(const ByteRows& bytes, const index_t* id, int count) : size_(static_cast<float>(1 / bytes.scale)) {
        for (int r = 0; r < count; ++r) {
            const float n2 = bytes.norm2[id[r]];
            less_[r] = n2 - n2 * (2 * ROUNDING) - static_cast<float>(4 * BYTE_LOST);
        }
    }
    float lower(int r, float v) const {
        const float known = v < MOST ? v : MOST, square = 2 * known - std::fabs(known) * (4 * ROUNDING) + less_[r];
        return below(std::sqrt(square > 0 ? square : 0) * size_);
    }

private:
    static constexpr float MOST = 1e37f;
    float size_;
    alignas(64) float less_[BYTE_TILE];
};

template <class Rows>
class ByteAssignment {
public:
    ByteAssignment(const Rows& rows, const ByteRows& bytes, const ByteKernels& kernels, const Centers& centers,
                   const label_t* order, index_t size, label_t* labels, float* upper, std::uint16_t* lower)
        : rows_(rows),
          bytes_(bytes),
          kernels_(kernels),
          centers_(centers),
          size_(size),
          stride_(byte_bounds(centers.k, size)),
          share_(LowerBounds::share_of(bytes)),
          group_(centers.k),
          labels_(labels),
          upper_(upper),
          lower_(lower) {
        usable_ = make_byte_centers(bytes, centers.c, centers.k, order, kernels.panel, packed_);
        for (index_t at = 0; at < centers.k; ++at) group_[order[at]] = static_cast<std::int32_t>(at / size);
    }
    // False if the centres are too far from the rows.
    bool usable() const { return usable_; }
    index_t groups() const { return (centers_.k + size_ - 1) / size_; }

    // Labels rows that have no bounds yet.
    void assign_all(index_t from, index_t stop, ByteScratch& s) {
        start(s);
        for (index_t i = from; i < stop; ++i) (bytes_.error[i] < INFINITE ? s.id : s.wide).push_back(i);
        find_listed(s);
        search_groups(s);
        leave_to_filter(s);
    }
    // Labels rows whose centres have moved.
    void assign_moved(index_t from, index_t stop, const float* moved, const Buffer<float>& drift, ByteScratch& s) {
        start(s);
        decay_bounds(from, stop, moved, drift, s);
        list_open_rows(s);
        search_groups(s);
        // What moved far from its centre has too many near ones. It starts anew, with the nearest by bytes: this spares
        // the filter, whose centres take half as much memory as centres do.
        start_anew(s);
        find_listed(s);
        search_groups(s);
        leave_to_filter(s);
    }
    // After all rows: those that wait for the filter.
    void finish(std::vector<ByteScratch>& all) {
        parallel(static_cast<index_t>(all.size()), static_cast<int>(all.size()), [&](index_t thread) {
            ByteScratch& s = all[thread];
            if (!s.wide.empty()) filter_wide(static_cast<int>(s.wide.size()), s);
        });
        if (open_) open_->finish(all);
    }
    // How far the centres of each group moved, at most.
    Buffer<float> drift_of(const float* moved) const {
        Buffer<float> drift(stride_, 0);
        for (index_t j = 0; j < centers_.k; ++j) drift[group_[j]] = std::max(drift[group_[j]], moved[j]);
        return drift;
    }

private:
    const Rows& rows_;
    const ByteRows& bytes_;
    const ByteKernels& kernels_;
    const Centers& centers_;
    const index_t size_, stride_;
    const float share_;
    std::vector<std::int32_t> group_;  // of each centre
    ByteCenters packed_;
    bool usable_ = false;
    label_t* labels_;
    float* upper_;
    std::uint16_t* lower_;
    std::mutex filter_made_;
    PackedCenters filter_;  // made when a row needs it
    std::optional<OpenRows<Rows>> open_;

    void start(ByteScratch& s) const {
        s.two.resize(groups()), s.open.resize(groups());
        s.id.clear();
        clear_open(s);
    }
    void clear_open(ByteScratch& s) const {
        s.rows.clear();
        for (auto& list : s.open) list.clear();
    }
    LowerBounds lower(index_t i) const { return {bytes_.norm[i], share_, lower_ + i * stride_}; }
    index_t first(index_t g) const { return g * size_; }
    index_t stop(index_t g) const { return std::min(centers_.k, (g + 1) * size_); }

    // What the reference and underflow may change v by, for both of two centres.
    double slack(index_t i) const { return 0x1p-31 * static_cast<double>(bytes_.norm2[i]) + BYTE_LOST; }
    // At least v of row i and the centre at a place, for its value of `low`.
    double upper_value(index_t i, label_t at, float low) const {
        const double error = static_cast<double>(bytes_.error[i]) * static_cast<double>(packed_.norm[at]) +
                             static_cast<double>(bytes_.norm[i]) * static_cast<double>(packed_.error[at]);
        return static_cast<double>(low) + 2 * error * (1 + 4 * BYTE_ROUNDING) +
               4 * BYTE_ROUNDING * static_cast<double>(packed_.half[at]) + slack(i);
    }
    float upper_distance(index_t i, double v) const {
        const double square = 2 * v + static_cast<double>(bytes_.norm2[i]) * (1 + BYTE_ROUNDING);
        return round_up(std::sqrt(std::max(0.0, square)) / bytes_.scale);
    }
    // At least v of row i and a centre at most this far.
    float value_limit(index_t i, float distance) const {
        const double far = static_cast<double>(distance) * bytes_.scale;
        const double n2 = static_cast<double>(bytes_.norm2[i]) * (1 - BYTE_ROUNDING);
        const double v = (far * far - n2) / 2 + slack(i);
        return static_cast<float>(v + std::fabs(v) * static_cast<double>(ONE_ROUNDING));
    }

    void find_listed(ByteScratch& s) {
        for (std::size_t at = 0; at < s.id.size(); at += BYTE_TILE)
            find_all(s.id.data() + at, static_cast<int>(std::min<std::size_t>(BYTE_TILE, s.id.size() - at)), s);
    }
    // Compares rows with all centres. Those that are not decided become open.
    void find_all(const index_t* id, int count, ByteScratch& s) {
        for (index_t g = 0; g < groups(); ++g)
            kernels_.two_smallest(bytes_, packed_, first(g), stop(g), id, count, s.two[g]);
        index_t own[BYTE_TILE] = {};
        double most[BYTE_TILE];
        bool undecided[BYTE_TILE] = {};
        for (int r = 0; r < count; ++r) {
            for (index_t g = 1; g < groups(); ++g)
                if (s.two[g].best[r] < s.two[own[r]].best[r]) own[r] = g;
            most[r] = upper_value(id[r], s.two[own[r]].arg[r], s.two[own[r]].best[r]);
            lower(id[r]).fill_up(groups(), stride_);
        }
        const ByteBounds bounds(bytes_, id, count);
        for (index_t g = 0; g < groups(); ++g) {
            float others[BYTE_TILE], bound[BYTE_TILE];
            for (int r = 0; r < count; ++r) others[r] = own[r] == g ? s.two[g].second[r] : s.two[g].best[r];
            for (int r = 0; r < count; ++r) bound[r] = bounds.lower(r, others[r]);
            for (int r = 0; r < count; ++r) {
                lower(id[r]).set(g, bound[r]);
                undecided[r] |= !(static_cast<double>(others[r]) > most[r]);
            }
        }
        s.total.pairs += byte_pairs(count, centers_.k);
        for (int r = 0; r < count; ++r) {
            const label_t label = packed_.label(s.two[own[r]].arg[r]);
            if (!undecided[r]) {
                relabel(labels_, id[r], label, s);
                upper_[id[r]] = upper_distance(id[r], most[r]);
            } else {
                list_if_open(id[r], label, s);
            }
        }
    }
    // In pairs that the filter compares in the same time.
    index_t byte_pairs(index_t rows, index_t k) const { return rows * k * kernels_.time / FILTER_TIME; }

    // Measures the distance of a row to its centre, and lists it for each group that may have a nearer one.
    void list_if_open(index_t i, label_t a, ByteScratch& s) {
        const double cost = dist2(rows_, i, centers_, a);
        ++s.total.exact;
        const float u = upper_[i] = round_up(std::sqrt(cost));
        const auto place = static_cast<std::int32_t>(s.rows.size());
        const LowerBounds bounds = lower(i);
        const std::int32_t far = bounds.whole_units(u);
        bool any = false;
        for (index_t g = 0; g < groups(); ++g)
            if (bounds.open(g, far)) s.open[g].push_back(place), any = true;
        if (any)
            s.rows.push_back({{i, {a, cost}, u}});
        else
            relabel(labels_, i, a, s);
    }
    void decay_bounds(index_t from, index_t stop, const float* moved, const Buffer<float>& drift, ByteScratch& s) {
        for (index_t i = from; i < stop; ++i) {
            const float least = lower(i).decrease(drift.data(), stride_);
            const float u = upper_[i] = increased(upper_[i], moved[labels_[i]]);
            if (!(u < least)) s.id.push_back(i);
        }
    }
    void list_open_rows(ByteScratch& s) {
        for (index_t i : s.id)
            if (bytes_.error[i] < INFINITE)
                list_if_open(i, labels_[i], s);
            else
                s.wide.push_back(i);
    }
    void search_groups(ByteScratch& s) {
        for (index_t g = 0; g < groups(); ++g)
            for (std::size_t at = 0; at < s.open[g].size(); at += BYTE_TILE)
                search_group(g, s.open[g].data() + at,
                             static_cast<int>(std::min<std::size_t>(BYTE_TILE, s.open[g].size() - at)), s);
        for (const OpenByteRow& row : s.rows) {
            if (row.wide) continue;
            upper_[row.row] = row.upper;
            relabel(labels_, row.row, row.best.arg, s);
        }
    }
    // Lists the rows that have too many near centres.
    void start_anew(ByteScratch& s) const {
        s.id.clear();
        for (const OpenByteRow& row : s.rows)
            if (row.wide) s.id.push_back(row.row);
        clear_open(s);
    }
    void leave_to_filter(ByteScratch& s) {
        for (const OpenByteRow& row : s.rows)
            if (row.wide) s.wide.push_back(row.row);
        while (s.wide.size() >= TILE) filter_wide(TILE, s);
    }
    // Compares open rows with the centres of group g.
    void search_group(index_t g, const std::int32_t* place, int count, ByteScratch& s) {
        index_t id[BYTE_TILE];
        std::int32_t at[BYTE_TILE];
        int m = 0;
        for (int r = 0; r < count; ++r) {
            const OpenByteRow& row = s.rows[place[r]];
            if (row.wide || row.upper < lower(row.row)[g]) continue;  // closed meanwhile
            id[m] = row.row, at[m] = place[r];
            s.near.limit[m++] = value_limit(row.row, row.upper);
        }
        ByteTile& two = s.two[g];
        kernels_.near(bytes_, packed_, first(g), stop(g), id, m, two, s.near);
        s.total.pairs += byte_pairs(m, stop(g) - first(g));
        const ByteBounds bounds(bytes_, id, m);
        for (int r = 0; r < m; ++r) {
            OpenByteRow& row = s.rows[at[r]];
            LowerBounds kept = lower(id[r]);
            const bool own = packed_.label(two.arg[r]) == row.best.arg;
            const float others = bounds.lower(r, own ? two.second[r] : two.best[r]);
            kept.set(g, others);
            if (others > row.upper) continue;
            row.near += s.near.count[r];
            row.wide = row.near > MOST_NEAR;
            if (row.wide) continue;
            kept.set(g, std::max(others, bounds.lower(r, s.near.limit[r])));
            for (int p = 0; p < s.near.count[r]; ++p)
                try_center(rows_, row, packed_.label(s.near.place[r][p]), centers_,
                           [&](label_t j, float bound) { kept.lower_to(group_[j], bound); });
            s.total.exact += s.near.count[r];
        }
    }
    // Compares the last `count` rows that wait with all centres, by the filter.
    void filter_wide(int count, ByteScratch& s) {
        {
            const std::lock_guard<std::mutex> lock(filter_made_);
            if (!open_) {
                filter_ = pack_centers(rows_, centers_);
                open_.emplace(rows_, centers_, filter_, labels_);
            }
        }
        const index_t* id = s.wide.data() + s.wide.size() - count;
        filter_tile(rows_, id, count, filter_, Candidates{nullptr, centers_.k}, false, s.tile);
        const RowBounds bounds(s.tile, filter_);
        for (int r = 0; r < count; ++r) {
            upper_[id[r]] = bounds.upper(r, s.tile.best[r]);
            const float least = std::min(bounds.lower(r, second_value(s.tile, r)), std::numeric_limits<float>::max());
            lower(id[r]).set_all(0, stride_, least);
            s.tile.uncertain[r] ? open_->add(id[r], s) : relabel(labels_, id[r], s.tile.arg[r], s);
        }
        s.total.scanned += count, s.total.pairs += count * centers_.k;
        s.wide.resize(s.wide.size() - count);
    }
};

template <class Rows>
AssignResult assign_bytes(const Rows& rows, const ByteRows& bytes, const ByteKernels& kernels, const double* c,
                          index_t k, const label_t* order, index_t size, const float* moved, label_t* labels,
                          float* upper, std::uint16_t* lower, Changes* changes) {
    if constexpr (Rows::sparse) {
        return {};
    } else {
        const auto centers = exact_centers(rows, c, k);
        ByteAssignment<Rows> assignment(rows, bytes, kernels, centers, order, size, labels, upper, lower);
        if (!assignment.usable()) {  // and bounds that prove nothing
            std::fill(upper, upper + rows.n, INFINITE);
            std::fill(lower, lower + rows.n * byte_bounds(k, size), std::uint16_t{0});
            return assign(rows, c, k, labels, changes, 0);
        }
        std::vector<ByteScratch> scratch(threads_for(static_cast<double>(rows.n) * rows.d * k / 4));
        const index_t task_rows = rows_of_task(rows.n, scratch.size());
        start_changes(changes, rows.n, task_rows);
        const Buffer<float> drift = moved ? assignment.drift_of(moved) : Buffer<float>{};
        parallel_rows(rows.n, task_rows, scratch, [&](index_t from, index_t stop, ByteScratch& s) {
            s.start_rows(changes, from, stop);
            moved ? assignment.assign_moved(from, stop, moved, drift, s) : assignment.assign_all(from, stop, s);
        });
        assignment.finish(scratch);
        finish_changes(changes);
        return total(scratch);
    }
}

// Nearest centres only. The bytes are those of some rows at a time; the first few tell whether they pay.
template <class T>
void nearest_by_bytes(const Dense<T>& rows, const double* c, index_t k, label_t* labels, const ByteKernels& kernels) {
    constexpr index_t FIRST = 2048, MANY = 65536;
    std::vector<label_t> order(k);
    for (index_t j = 0; j < k; ++j) order[j] = static_cast<label_t>(j);
    const index_t size = (k + GROUP_STEP - 1) / GROUP_STEP * GROUP_STEP;
    Buffer<float> upper(std::min(rows.n, MANY));
    Buffer<std::uint16_t> lower(upper.size() * byte_bounds(k, size));
    bool pays = true;
    for (index_t at = 0; at < rows.n;) {
        const index_t left = rows.n - at, count = pays ? std::min(left, at == 0 ? FIRST : MANY) : left;
        const Dense<T> some{rows.row(at), count, rows.d};
        ByteRows bytes;
        bytes.pairs = kernels.pairs;
        if (pays && make_byte_rows(some, bytes)) {
            const AssignResult a = assign_bytes(some, bytes, kernels, c, k, order.data(), size, nullptr, labels + at,
                                                upper.data(), lower.data(), nullptr);
            pays = a.scanned < count / 4;
        } else {
            assign(some, c, k, labels + at, nullptr, 0.0f);
        }
        at += count;
    }
}

template <class Rows>
void nearest_of_many(const Rows& rows, const double* c, index_t k, label_t* labels, const ByteKernels& kernels) {
    assign(rows, c, k, labels, nullptr, 0.0f);
    (void)kernels;
}
template <class T>
void nearest_of_many(const Dense<T>& rows, const double* c, index_t k, label_t* labels, const ByteKernels& kernels) {
    if (bytes_pay(kernels, rows.n, rows.d, k, std::is_same_v<T, double>, false))
        nearest_by_bytes(rows, c, k, labels, kernels);
    else
        assign(rows, c, k, labels, nullptr, 0.0f);
}

}  // namespace kv::KV_ISA
