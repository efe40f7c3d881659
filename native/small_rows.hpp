// Dense rows of float16, bfloat16, int8 or uint8. float32 holds all their values, so they are widened where they are
// read: tiles and rows for the filters, and single values for exact arithmetic. What follows has the bits of rows of
// float32. Only functions that a fit calls often have an overload here.
#pragma once

#include "kernels.hpp"
#include "packed_centers.hpp"
#include "reference.hpp"
#include "small_types.hpp"

namespace kv::KV_ISA {

// The listed rows in `wide`; they are numbered from 0 on.
inline Dense<float> widened_rows(const SmallRows& rows, const index_t* id, int count, Buffer<float>& wide) {
    ensure_size(wide, TILE * rows.d);
    for (int r = 0; r < count; ++r) widen(rows, id[r], 0, rows.d, wide.data() + r * rows.d);
    return {wide.data(), count, rows.d};
}
[[gnu::always_inline]] inline void prefetch(const SmallRows& rows, index_t i) {
    with_type_of(rows, [&](auto dense) { prefetch(dense, i); });
}
struct TileIds {
    index_t id[TILE];
    TileIds() {
        for (int r = 0; r < TILE; ++r) id[r] = r;
    }
};

// ---- the filters ----

inline void filter_tile(const SmallRows& rows, const index_t* id, int count, const PackedCenters& packed,
                        const Candidates& among, bool keep, Tile& tile) {
    filter_tile(widened_rows(rows, id, count, tile.wide), TileIds().id, count, packed, among, keep, tile);
}
inline void filter_values(const SmallRows& rows, const index_t* id, int count, const PackedCenters& packed,
                          Tile& tile) {
    filter_values(widened_rows(rows, id, count, tile.wide), TileIds().id, count, packed, tile);
}
inline void filter_row(const SmallRows& rows, index_t i, const PackedCenters& packed, const Candidates& among,
                       Tile& tile) {
    filter_row(widened_rows(rows, &i, 1, tile.wide), 0, packed, among, tile);
}
inline void filter_double(const SmallRows& rows, const index_t* id, int count, const PackedDoubles& packed,
                          DoubleTile& tile) {
    filter_double(widened_rows(rows, id, count, tile.wide), TileIds().id, count, packed, tile);
}

// Centres are packed for rows of float32.
inline PackedCenters pack_centers(const SmallRows& rows, const Centers& centers) {
    return pack_centers(Dense<float>{nullptr, rows.n, rows.d}, centers);
}

// ---- copies with a byte per value ----

inline std::unique_ptr<RowFilter> make_quantized_rows(const SmallRows& rows, const double* cost) {
    return with_type_of(rows, [&](auto dense) { return make_quantized_rows(dense, cost); });
}
inline std::unique_ptr<RowFilter> make_byte_tiles(const SmallRows& rows, const double* cost,
                                                  const ByteKernels& kernels) {
    return with_type_of(rows, [&](auto dense) { return make_byte_tiles(dense, cost, kernels); });
}
inline bool make_byte_rows(const SmallRows& rows, ByteRows& out) {
    return with_type_of(rows, [&](auto dense) { return make_byte_rows(dense, out); });
}

// ---- exact arithmetic ----

inline Centers exact_centers(const SmallRows& rows, const double* c, index_t k) { return {c, k, rows.d, {}}; }

inline double dist2(const SmallRows& rows, index_t i, const Centers& centers, index_t j) {
    return with_type_of(rows, [&](auto dense) { return dist2(dense.row(i), centers.row(j), dense.d); });
}

inline Magnitudes magnitudes(const SmallRows& rows) {
    std::vector<Magnitudes> parts(blocks_of(rows.n));
    std::vector<Buffer<float>> scratch(threads_for(static_cast<double>(rows.n * rows.d)), Buffer<float>(rows.d));
    parallel_rows(rows.n, scratch, [&](index_t from, index_t stop, Buffer<float>& wide) {
        float largest = 0, smallest = std::numeric_limits<float>::infinity();
        for (index_t i = from; i < stop; ++i) {
            widen(rows, i, 0, rows.d, wide.data());
            for (index_t j = 0; j < rows.d; ++j) {
                const float size = wide[j] < 0 ? -wide[j] : wide[j];
                largest = size > largest ? size : largest;
                smallest = size > 0 && size < smallest ? size : smallest;
            }
        }
        parts[from / BLOCK] = {largest, smallest};
    });
    Magnitudes all;
    for (const Magnitudes& part : parts)
        all = {std::max(all.largest, part.largest), std::min(all.smallest, part.smallest)};
    return all;
}

}  // namespace kv::KV_ISA
