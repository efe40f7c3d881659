// A filter for greedy seeding (row_filter.hpp): the bytes of byte_rows.hpp, stored so that one instruction multiplies
// four features of many rows with those of a candidate. Candidates have bytes, too. In the words of byte_rows.hpp, a
// candidate c lowers the cost D^2 of row x only if
//     low(x, c) <= v(x, c) < (D^2 - ||x||^2) / 2, the row's limit.
#pragma once

#include <cmath>

#include "byte_rows.hpp"
#include "row_filter.hpp"

namespace kv {

constexpr index_t STRIP = 32;  // rows whose bytes are stored together

struct ByteTiles : RowFilter {
    const ByteKernels* kernels = nullptr;
    double scale = 1;
    std::vector<double> offset;       // d
    index_t words = 0;                // of a row: four features each
    Buffer<std::uint8_t> q;           // of each strip and word the four bytes of all rows, stored as q + 128
    Buffer<float> step, error, norm;  // of all rows of all tiles: s, ||e||, ||s q||
    Buffer<float> norm2;              // ||x||^2, rounded; negative if bytes cannot hold the row
    Buffer<float> limit;              // of rows past the end: minus infinity

    void set_cost(index_t i, double cost) override {
        const auto n2 = static_cast<double>(norm2[i]);
        if (n2 < 0) return;
        const double value = (cost * scale * scale * (1 + 1e-9) - n2 * (1 - BYTE_ROUNDING)) / 2;
        limit[i] = static_cast<float>(value + std::fabs(value) * 0x1p-22 + 4 * BYTE_LOST);
    }
};

struct TileQueries : FilterQueries {
    Buffer<std::int32_t> word;              // words x m: four bytes p
    Buffer<std::int32_t> start;             // m: -128 times the sum of p
    Buffer<float> half, norm, error, step;  // m, as those of ByteCenters
};

}  // namespace kv
