// Bounds on the distances of rows to centres, from the filter's values (filter.hpp):
//     value - X <= v <= value + X + 2 E,        ||x - c||^2 = 2 v + ||x||^2,        X + E = slack.
// Only this file turns values into bounds, with one set of factors for the roundings on the way. Bounds that are kept
// between passes are rounded outwards here, too. native/tests/row_bounds_test.cpp compares all of them with long
// double.
//
// Roundings. Each bound is computed in float32 from at most four terms (of value, slack, norm and cost), with at most
// eight roundings. Every one changes the result by at most a unit of the sum of the terms' magnitudes. So a bound holds
// if each term is made larger, or smaller, by ROUNDING of its magnitude.
#pragma once

#include "filter.hpp"
#include "reference.hpp"
#include "simd.hpp"

namespace kv::KV_ISA {

constexpr float ROUNDING = 0x1p-20f;      // sixteen units
constexpr float ONE_ROUNDING = 0x1p-22f;  // of a single operation: four units
constexpr float INFINITE = std::numeric_limits<float>::infinity();
constexpr float NO_VALUE = 1e30f;  // above all values of finite rows

// Next to a result of one float32 operation, on the safe side.
inline float above(float v) { return v + v * ONE_ROUNDING + std::numeric_limits<float>::min(); }
inline float below(float v) {
    const float w = v - std::fabs(v) * ONE_ROUNDING;
    return w > std::numeric_limits<float>::min() ? w : 0;  // numbers below that have fewer digits
}
inline float round_up(double v) { return above(static_cast<float>(v)); }
inline float round_down(double v) {
    return below(static_cast<float>(std::min<double>(v, std::numeric_limits<float>::max())));
}
// Bounds after a centre moved.
inline float increased(float upper, float by) { return above(upper + by); }
inline float decreased(float lower, float by) { return below(lower - by); }

// Bounds on the distances between the rows of a filtered tile and centres. Those of rows whose float32 arithmetic may
// have overflowed are infinite, or zero.
class RowBounds {
public:
    // For the first `count` rows.
    RowBounds(const Tile& tile, const PackedCenters& packed, int count = TILE)
        : size_(packed.scale > 0x1p-120 && packed.scale < 0x1p120 ? static_cast<float>(1 / packed.scale) : 0.0f) {
        const float wider = static_cast<float>(1 + tile.norm_error) + ROUNDING;
        const float narrower = static_cast<float>(1 - tile.norm_error) - ROUNDING;
        for (int r = 0; r < count; ++r) {
            const float n2 = tile.norm2[r], slack = tile.slack[r] * (1 + ROUNDING);
            more_[r] = size_ > 0 && tile.finite(r) ? n2 * wider + 4 * slack : INFINITE;
            less_[r] = tile.finite(r) ? n2 * narrower - 2 * slack : -INFINITE;
        }
    }
    // At least the distance of row r to the centre with the smallest value, which is v.
    float upper(int r, float v) const {
        const float square = 2 * v + std::fabs(v) * ROUNDING + more_[r];
        return more_[r] < INFINITE ? std::sqrt(square > 0 ? square : 0) * size_ * (1 + ROUNDING) : INFINITE;
    }
    // At most the distance of row r to any centre with the value v.
    float lower(int r, float v) const {
        const float square = lower_square(r, v);
        return square > 0 ? std::sqrt(square) * size_ * (1 - ROUNDING) : 0.0f;
    }
    // The square of `lower`, or less, in the units of the filter.
    float lower_square(int r, float v) const {
        const float known = v < NO_VALUE ? v : NO_VALUE;
        return less_[r] > -INFINITE ? 2 * known - std::fabs(known) * ROUNDING + less_[r] : -INFINITE;
    }

private:
    float size_;  // 1 / scale; 0 if float32 cannot hold it: then bounds are of no use
    alignas(64) float more_[TILE], less_[TILE];
};

// At least v - X, for a value and E = eps * radius2 of its centre. V: float, or a vector.
template <class V>
inline V most_value(V value, V eps, float radius2) {
    return value + (value < 0 ? -value : value) * ROUNDING + eps * (2 * (1 + ROUNDING) * radius2);
}

// For every row of a tile, the value above which a centre cannot lower the row's cost:
// 2 v + ||x||^2 < cost implies value <= limit.
inline void cost_limits(const Tile& tile, const double* cost, double scale, float* limit) {
    const double square = scale * scale;
    const float narrower = static_cast<float>(1 - tile.norm_error) - ROUNDING;
    for (int r = 0; r < TILE; ++r) {
        const float c = static_cast<float>(cost[r] * square);
        const float most = (c * (1 + ROUNDING) - tile.norm2[r] * narrower) / 2 + tile.slack[r] * (1 + ROUNDING);
        limit[r] = tile.norm2[r] < NO_VALUE ? most : INFINITE;
    }
}

// How much `limit - value` may exceed half of what a centre lowers the cost by, less 2 E.
inline void limit_widths(const Tile& tile, const double* cost, double scale, float* width) {
    const double square = scale * scale;
    const float of_norm = static_cast<float>(tile.norm_error) + ROUNDING;
    for (int r = 0; r < TILE; ++r)
        width[r] = static_cast<float>(cost[r] * square) * ROUNDING + tile.norm2[r] * of_norm +
                   2 * tile.slack[r] * (1 + 2 * ROUNDING);
}

}  // namespace kv::KV_ISA
