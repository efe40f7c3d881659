// The filter in float64 (see filter.hpp), for rows that it cannot decide in float32: near ties, and centres that are
// close to each other but far from the offset. It takes about twice the time.
#include <algorithm>

#include "kernels.hpp"
#include "simd.hpp"

namespace kv::KV_ISA {
namespace {

constexpr int C = 6, H = W / 2;  // centres whose products are in registers; values in one register
using vh = Vector<double, H>;

// Returns half of eps ||x||^2 for every row.
template <class T>
void pack_rows(const Dense<T>& rows, const index_t* id, int count, const PackedDoubles& packed, DoubleTile& tile,
               double* slack) {
    const index_t d = rows.d;
    ensure_size(tile.x, d * TILE);
    for (int r = 0; r < TILE; ++r) {
        const T* row = rows.row(id[std::min(r, count - 1)]);
        double norm2 = 0;
        for (index_t j = 0; j < d; ++j) {
            const double v = (static_cast<double>(row[j]) - packed.offset[j]) * packed.scale;
            tile.x[j * TILE + r] = v;
            norm2 += v * v;
        }
        slack[r] = packed.eps / 2 * ENLARGED * norm2;
    }
}

// Stores the values of N centres, and takes the smallest upper bound so far of every row.
template <int N>
inline void add_centers(const PackedDoubles& packed, index_t first, const double* x, double* values, vh (&least)[R]) {
    const index_t d = packed.d;
    const double* c = packed.center.data() + first * d;
    vh acc[N][R];
    for (int j = 0; j < N; ++j)
        for (int r = 0; r < R; ++r) acc[j][r] = packed.half[first + j] - vh{};
    for (index_t i = 0; i < d; ++i) {
        vh v[R];
        for (int r = 0; r < R; ++r) v[r] = read<vh>(x + i * TILE + r * H);
        for (int j = 0; j < N; ++j)
            for (int r = 0; r < R; ++r) acc[j][r] -= v[r] * c[j * d + i];
    }
    for (int j = 0; j < N; ++j) {
        const double twice = 2 * packed.eps * packed.radius2[first + j];
        for (int r = 0; r < R; ++r) {
            write(values + j * TILE + r * H, acc[j][r]);
            const vh upper = acc[j][r] + twice;
            least[r] = upper < least[r] ? upper : least[r];
        }
    }
}

}  // namespace

template <class T>
void filter_double(const Dense<T>& rows, const index_t* id, int count, const PackedDoubles& packed, DoubleTile& tile) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    double slack[TILE];
    pack_rows(rows, id, count, packed, tile, slack);
    ensure_size(tile.values, packed.k * TILE);
    for (int g = 0; g < TILE && g < count; g += R * H) {
        vh least[R];
        for (int r = 0; r < R; ++r) least[r] = infinity - vh{};
        index_t j = 0;
        double* values = tile.values.data() + g;
        for (; j + C <= packed.k; j += C) add_centers<C>(packed, j, tile.x.data() + g, values + j * TILE, least);
        with_count<C - 1>(packed.k - j,
                          [&](auto n) { add_centers<n()>(packed, j, tile.x.data() + g, values + j * TILE, least); });
        for (int r = 0; r < R; ++r) write(tile.limit + g + r * H, least[r]);
    }
    for (int r = 0; r < count; ++r) tile.limit[r] = slack[r] < 1e280 ? tile.limit[r] + 2 * slack[r] : infinity;
}

template void filter_double(const Dense<float>&, const index_t*, int, const PackedDoubles&, DoubleTile&);
template void filter_double(const Dense<double>&, const index_t*, int, const PackedDoubles&, DoubleTile&);
}  // namespace kv::KV_ISA
