// The first pass of an assignment: rows and centres with one byte per value, and a proven bound on the error of their
// products. It excludes nearly all centres of a row; the rest is decided by the filter (filter.hpp) or in float64.
//
// Rows and centres are shifted by a common offset and scaled by a power of two. Write x, c for the results, and
//     v(x, c) = ||c||^2 / 2 - x.c,        ||x - c||^2 = 2 v + ||x||^2,
// as in filter.hpp. With bytes q and p,
//     x = s q + e,  ||e|| <= error,        c = t p + f,  ||f|| <= error of c,
//     x.c = s t (q.p) + s q.f + e.c,       |x.c - s t (q.p)| <= ||s q|| error of c + error ||c||.
// q.p is an integer and exact. So
//     low = ||c||^2 / 2 - error ||c|| - ||s q|| error of c - s t (q.p)  <=  v  <=  low + 2 (error ||c|| + ||s q|| error
//     of c).
//
// Exact products. Sums of products fit into 32 bits, for up to MOST_BYTES features. A processor without an instruction
// for four bytes adds two products in 16 bits first, where more than 2^15 - 1 becomes 2^15 - 1. For it (`pairs`), a row
// has a larger step, so that the magnitudes of two neighbours q and q' add up to at most 127. A centre's bytes are
// stored as p + 128 and p' + 128, of at most 255, so (p + 128) q + (p' + 128) q' is at most 255 * 127 < 2^15 - 1.
//
// Rounding. `low` is computed in float32 with at most eight roundings of terms whose magnitudes add up to at most
// ||c||^2 / 2 + error ||c|| + ||s q|| (error of c + ||t p||). It stays a lower bound because ||c||^2 / 2 is made
// smaller by BYTE_ROUNDING of itself, ||c|| larger, and the error of c larger by BYTE_ROUNDING (||c|| + ||t p||), and
// because BYTE_ROUNDING is sixteen units. That is also more than the rounding of the reference in terms of ||c||^2;
// that in terms of ||x||^2, below 2^-32 ||x||^2 for up to 2^20 features, is added to upper bounds.
//
// Range. Most rows have a norm of at most 2^20. Rows and centres with a norm above 2^50 are left to the filter, and so
// are rows and centres at a scale beyond 2^400 or below 2^-400. What underflows changes v by less than BYTE_LOST, which
// is added to upper bounds.
#pragma once

#include "filter.hpp"

namespace kv {

constexpr index_t MOST_BYTES = 32768;  // features whose products fit into 32 bits
constexpr int BYTE_TILE = 96;          // rows that are compared with a panel of centres, one after the other
constexpr int MOST_NEAR = 32;          // centres of a row that are decided in float64; with more, the filter is faster
constexpr int GROUP_STEP = 64;         // the size of a group of centres is a multiple of it
constexpr int FILTER_TIME = 7;         // for a row and a centre; other times are whole multiples of a seventh of it
constexpr double BYTE_ROUNDING = 0x1p-20;  // sixteen units of float32
constexpr double BYTE_LOST = 0x1p-90;

struct ByteRows {
    index_t n = 0, d = 0;
    index_t width = 0;  // bytes of a row: d rounded up to a multiple of 64; the rest is zero
    bool pairs = true;  // whether the magnitudes of two neighbouring bytes add up to at most 127
    double scale = 1;
    std::vector<double> offset;  // d
    Buffer<std::int8_t> q;       // n x width
    Buffer<float> step;          // n: s
    Buffer<float> error, norm;   // n: ||e|| and ||s q||, rounded up; the error is infinite if bytes cannot hold the row
    Buffer<float> norm2;         // n: ||x||^2, rounded
    Buffer<std::int32_t> start;  // n: -128 times the sum of q, since the bytes of centres are stored as p + 128

    const std::int8_t* row(index_t i) const { return q.data() + i * width; }
};

// Centres in an order of their own. They are stored in panels, as wide as the machine's registers allow: for each four
// features the bytes of all centres of the panel. What is missing in the last panel is infinitely far.
struct ByteCenters {
    index_t k = 0, width = 0, panel = 0;  // panel: centres in a panel
    const label_t* order = nullptr;       // k: the label of each; null if they are in order
    Buffer<std::uint8_t> p;               // p + 128
    Buffer<float> half, norm, error, step;

    label_t label(index_t at) const { return order ? order[at] : static_cast<label_t>(at); }
};

// Of each row of a tile and some centres: the two smallest values of `low`, and the place of the smallest.
struct ByteTile {
    alignas(64) float best[BYTE_TILE], second[BYTE_TILE];
    label_t arg[BYTE_TILE];
};

// Of each row of a tile: the places of centres with low <= limit; `count` may exceed MOST_NEAR.
struct NearCenters {
    float limit[BYTE_TILE];
    int count[BYTE_TILE];
    label_t place[BYTE_TILE][MOST_NEAR];
};

// The lower bounds that a row keeps: one for each group of `size` of k centres, in whole vectors of eight.
inline index_t byte_bounds(index_t k, index_t size) { return ((k + size - 1) / size + 7) / 8 * 8; }

struct ByteTiles;
struct TileQueries;

// Compiled for each set of instructions for products of bytes. Centres are those in the places [first, stop); `first`
// is a multiple of GROUP_STEP, and `stop` is too or is k.
struct ByteKernels {
    const char* name;
    bool fast;   // whether the machine multiplies bytes faster than float32
    bool pairs;  // whether they need rows with this property
    int time;    // for a row and a centre, in units of which the filter takes FILTER_TIME
    index_t panel;
    void (*two_smallest)(const ByteRows&, const ByteCenters&, index_t first, index_t stop, const index_t* id, int count,
                         ByteTile&);
    // Likewise, and lists the near centres.
    void (*near)(const ByteRows&, const ByteCenters&, index_t first, index_t stop, const index_t* id, int count,
                 ByteTile&, NearCenters&);
    // For each candidate the rows of a tile, as bits, that it may be nearer to than their limit (byte_tiles.hpp).
    void (*open_rows)(const ByteTiles&, index_t tile, const TileQueries&, std::uint64_t* rows);
};

// Whether an assignment of n rows to k centres takes less time over bytes: the machine multiplies them fast, and there
// are enough products. Fewer centres gain less: not enough for a copy that takes a quarter of float32 rows' memory.
// `kept`: whether later passes use the bytes again.
inline bool bytes_pay(const ByteKernels& kernels, index_t n, index_t d, index_t k, bool is_double, bool kept) {
    const bool enough = kept ? k >= 128 || (k >= 64 && d >= 256 && is_double) : k >= 128 && n >= 512;
    return kernels.fast && d >= 64 && enough;
}

}  // namespace kv
