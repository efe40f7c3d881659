// Compares all bounds of row_bounds.hpp with distances in long double, for many magnitudes.
#define KV_ISA plain
#include "row_bounds.hpp"

#include "assign.hpp"
#include "check.hpp"
#include "packed_centers.hpp"

namespace {

using namespace kv::plain;

using Real = long double;

// The numbers of a set: `spread` around `offset`, and every seventh row far away.
template <class T>
Data<T> numbers(index_t n, index_t d, double offset, double spread, std::mt19937& rng) {
    std::normal_distribution<double> normal;
    return Data<T>(n, d, [&](index_t i, index_t j, auto&) {
        return (i + j) % 3 == 0 && offset == 0 ? 0 : offset + spread * (i % 7 ? 1 : 1000) * normal(rng);
    });
}

template <class T>
Real square_between(const T* x, const double* c, index_t d) {
    Real sum = 0;
    for (index_t j = 0; j < d; ++j) {
        const Real gap = static_cast<Real>(x[j]) - static_cast<Real>(c[j]);
        sum += gap * gap;
    }
    return sum;
}

// The longest chain of operations in a value of row i, as filter.hpp counts them.
template <class T>
index_t longest_chain(const Dense<T>& rows, index_t) {
    return std::min(rows.d, CHUNK) + rows.d / CHUNK;
}
template <class T>
index_t longest_chain(const Csr<T>& rows, index_t i) {
    return rows.start[i + 1] - rows.start[i];
}

struct Worst {
    int wrong = 0;
    double width = 0;  // the largest upper - lower, relative to the norms of row and centre
};

// Checks the bounds on the distances of one tile.
template <class T, class Rows>
void check_distances(const Data<T>& data, const Rows& rows, const std::vector<double>& c, index_t first,
                     const PackedCenters& packed, const Tile& tile, Worst& worst) {
    const index_t d = data.d;
    const RowBounds bounds(tile, packed, tile.rows);
    const Real square = static_cast<Real>(packed.scale) * packed.scale;
    const std::vector<double> middle(packed.offset.empty() ? std::vector<double>(d) : packed.offset);
    for (int r = 0; r < tile.rows; ++r) {
        const T* x = &data.x[(first + r) * d];
        const Real norm2 = square_between(x, middle.data(), d);
        // The slack is X + E of the nearest centre.
        const Real least_slack = norm2 * square / 2 + packed.radius2[tile.arg[r]] / Real{ENLARGED};
        worst.wrong += !(tile.slack[r] >= static_cast<Real>(tile.eps[r]) * least_slack);
        worst.wrong += !(tile.eps[r] >= 10 * UNIT + longest_chain(rows, first + r) * UNIT);
        for (index_t j = 0; j < packed.k; ++j) {
            const float value = tile.values[j * TILE + r];
            const Real exact = square_between(x, &c[j * d], d), distance = std::sqrt(exact);
            worst.wrong += !(bounds.lower(r, value) <= distance);
            worst.wrong += !(bounds.lower_square(r, value) <= exact * square);
            // value - X <= v <= most_value + X, and X is at most the slack.
            const Real v = (exact - norm2) * square / 2;
            worst.wrong += !(value - static_cast<Real>(tile.slack[r]) <= v);
            worst.wrong += !(most_value(value, tile.eps[r], packed.radius2[j]) + tile.slack[r] >= v);
            if (value > tile.best[r]) continue;
            worst.wrong += !(bounds.upper(r, value) >= distance);
            const Real size = std::sqrt(norm2) + std::sqrt(square_between(&c[j * d], middle.data(), d));
            const Real width = bounds.upper(r, value) - static_cast<Real>(bounds.lower(r, value));
            if (size > 0) worst.width = std::max(worst.width, static_cast<double>(width / size));
        }
    }
}

// Checks the limits for costs that are a little above, or far above, the distance to a centre: it must be below them,
// and not by more than the width.
template <class T>
void check_limits(const Data<T>& data, const std::vector<double>& c, index_t first, const PackedCenters& packed,
                  const Tile& tile, Worst& worst) {
    double cost[TILE] = {};
    float limit[TILE], width[TILE];
    for (const double factor : {1.0, 1 + 1e-9, 1.5})
        for (index_t j = 0; j < packed.k; ++j) {
            Real exact[TILE];
            for (int r = 0; r < tile.rows; ++r) {
                exact[r] = square_between(&data.x[(first + r) * data.d], &c[j * data.d], data.d);
                cost[r] = static_cast<double>(exact[r]) * factor;
            }
            cost_limits(tile, cost, packed.scale, limit);
            limit_widths(tile, cost, packed.scale, width);
            for (int r = 0; r < tile.rows; ++r) {
                const Real most = limit[r] - tile.values[j * TILE + r];
                const Real half_gain = (cost[r] - exact[r]) * packed.scale * packed.scale / 2;
                if (half_gain < 0) continue;
                worst.wrong += !(most >= half_gain);
                worst.wrong += !(most - most_value(width[r], tile.eps[r], packed.radius2[j]) <= half_gain);
            }
        }
}

template <class T, class Rows>
void check_rows(const Data<T>& data, const Rows& rows, const std::string& what) {
    const index_t k = std::min<index_t>(data.n, 9), d = data.d;
    auto c = data.spread(k);
    for (index_t i = 0; i < d; ++i) c[i] += 1e-9 * (1 + std::abs(c[i])) * data.x[0];  // next to a row
    const Centers centers = exact_centers(rows, c.data(), k);
    const PackedCenters packed = pack_centers(rows, centers);
    Tile tile;
    Worst worst;
    for_tiles(0, data.n, [&](const index_t* id, int count) {
        filter_tile(rows, id, count, packed, Candidates{nullptr, k}, true, tile);
        check_distances(data, rows, c, id[0], packed, tile, worst);
        check_limits(data, c, id[0], packed, tile, worst);
    });
    check(worst.wrong == 0, what + ": " + std::to_string(worst.wrong) + " bounds are wrong");
    check(worst.width < 0.05, what + ": bounds are wide: " + std::to_string(worst.width));
}

template <class T>
void check_type() {
    std::mt19937 rng(1);
    for (const index_t d : {1, 2, 4, 5, 16, 31, 130, 300})
        for (const double offset : {0.0, 1.0, 1e4})
            for (const double spread : {1e-12, 1e-3, 1.0, 1e12}) {
                const auto data = numbers<T>(130, d, offset, spread, rng);
                const std::string what = type_name<T>() + "d = " + std::to_string(d) + ", offset " +
                                         std::to_string(offset) + ", spread " + std::to_string(spread);
                check_rows(data, Dense<T>{data.x.data(), data.n, d}, "dense" + what);
                check_rows(data, Csr<T>{data.stored.data(), data.column.data(), data.start.data(), data.n, d},
                           "csr" + what);
            }
}

// For tiles of any numbers, whatever a filter would give: the bounds hold up to the largest error that the tile admits,
// so each rounding of their own and each term of the error is covered.
void check_all_tiles() {
    std::mt19937 rng(3);
    std::uniform_real_distribution<double> unit(0, 1), exponent(-7, 0);
    PackedCenters packed;
    Tile tile;
    int uppers = 0, lowers = 0, limits = 0, widths = 0, values = 0;
    for (int i = 0; i < 2000; ++i) {
        double cost[TILE];
        float limit[TILE], width[TILE];
        tile.norm_error = static_cast<int>(2 + 30 * unit(rng)) * UNIT;
        for (int r = 0; r < TILE; ++r) {
            tile.norm2[r] = static_cast<float>(std::pow(2.0, 30 * unit(rng) - 15));
            tile.slack[r] = tile.norm2[r] * static_cast<float>(std::pow(10.0, exponent(rng)));
            cost[r] = tile.norm2[r] * 2 * unit(rng);
        }
        const RowBounds bounds(tile, packed);
        cost_limits(tile, cost, packed.scale, limit);
        limit_widths(tile, cost, packed.scale, width);
        for (int r = 0; r < TILE; ++r) {
            const float value = tile.norm2[r] * static_cast<float>(2 * unit(rng) - 0.5);
            const Real slack = tile.slack[r], half_norm = static_cast<Real>(tile.norm2[r]) / 2;
            const Real most = half_norm * (1 + static_cast<Real>(tile.norm_error));
            const Real least = half_norm * (1 - static_cast<Real>(tile.norm_error));
            const Real half_cost = static_cast<Real>(cost[r]) / 2;
            uppers += !(bounds.upper(r, value) >= std::sqrt(std::max(2 * (value + 2 * slack + most), Real{0})));
            lowers += !(bounds.lower(r, value) <= std::sqrt(std::max(2 * (value - slack + least), Real{0})));
            limits += !(limit[r] >= half_cost - least + slack);
            widths += !(limit[r] - (half_cost - most) + slack <= width[r]);
            const float eps = static_cast<float>(tile.norm_error), radius2 = tile.norm2[r];
            values += !(most_value(value, eps, radius2) >= value + 2 * static_cast<Real>(eps) * radius2);
        }
    }
    check(uppers == 0, "all tiles: " + std::to_string(uppers) + " upper bounds are wrong");
    check(lowers == 0, "all tiles: " + std::to_string(lowers) + " lower bounds are wrong");
    check(limits == 0, "all tiles: " + std::to_string(limits) + " limits are wrong");
    check(widths == 0, "all tiles: " + std::to_string(widths) + " widths are wrong");
    check(values == 0, "all tiles: " + std::to_string(values) + " largest values are wrong");
}

// One float32 operation and the step outwards never end on the wrong side.
void check_outward_steps() {
    std::mt19937 rng(2);
    std::uniform_real_distribution<double> exponent(-40, 37);
    int wrong = 0;
    for (int i = 0; i < 100000; ++i) {
        const double v = std::pow(10.0, exponent(rng));
        const auto a = static_cast<float>(v), b = static_cast<float>(std::pow(10.0, exponent(rng)));
        wrong += !(round_up(v) >= v) + !(round_down(v) <= v);
        wrong += !(static_cast<Real>(increased(a, b)) >= static_cast<Real>(a) + b);
        wrong += !(static_cast<Real>(decreased(a, b)) <= std::max(static_cast<Real>(a) - b, Real{0}));
    }
    check(wrong == 0, "outward steps: " + std::to_string(wrong) + " are wrong");
}

}  // namespace

int main() {
    check_outward_steps();
    check_all_tiles();
    check_type<float>();
    check_type<double>();
    std::printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
