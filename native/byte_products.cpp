// Products of bytes (see byte_rows.hpp), compiled once per instruction set, and again with the instructions that
// multiply four bytes at once, where processors may have them (VNNI, and the dot products of ARM).
#include "byte_tiles.hpp"
#include "simd.hpp"

#if defined(__ARM_FEATURE_DOTPROD)
#include <arm_neon.h>
#endif

namespace kv::KV_BYTES {
namespace {

using namespace KV_ISA;

constexpr int PANEL = W * R;  // centres
constexpr int ROWS = 6;       // whose products with a panel are in registers

// FAST, PAIRS and TIME: see ByteKernels. UNSIGNED: whether what is stored as p + 128 is multiplied so. add_products
// adds the products of four bytes stored in this way and four with a sign to each lane.
#if defined(__AVX512VNNI__)
constexpr bool FAST = true, PAIRS = false, UNSIGNED = true;
constexpr int TIME = 2;
inline vi add_products(vi sum, vi stored, vi with_sign) {
    return (vi)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)stored, (__m512i)with_sign);
}
#elif defined(__AVXVNNI__) && !defined(__AVX512F__)
constexpr bool FAST = true, PAIRS = false, UNSIGNED = true;
constexpr int TIME = 2;
inline vi add_products(vi sum, vi stored, vi with_sign) {
    return (vi)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)stored, (__m256i)with_sign);
}
// Three instructions multiply four bytes, where float32 takes four. The first adds in 16 bits, which `pairs` allows.
#elif defined(__AVX512BW__)
constexpr bool FAST = true, PAIRS = true, UNSIGNED = true;
constexpr int TIME = 4;
inline vi add_products(vi sum, vi stored, vi with_sign) {
    const __m512i two = _mm512_maddubs_epi16((__m512i)stored, (__m512i)with_sign);
    return sum + (vi)_mm512_madd_epi16(two, _mm512_set1_epi16(1));
}
#elif defined(__AVX2__) && !defined(__AVX512F__)
constexpr bool FAST = true, PAIRS = true, UNSIGNED = true;
constexpr int TIME = 4;
inline vi add_products(vi sum, vi stored, vi with_sign) {
    const __m256i two = _mm256_maddubs_epi16((__m256i)stored, (__m256i)with_sign);
    return sum + (vi)_mm256_madd_epi16(two, _mm256_set1_epi16(1));
}
#elif defined(__ARM_FEATURE_DOTPROD)
// Untested for speed. One instruction multiplies four bytes, both with signs.
constexpr bool FAST = true, PAIRS = false, UNSIGNED = false;
constexpr int TIME = 2;
inline vi add_products(vi sum, vi stored, vi with_sign) {
    return (vi)vdotq_s32((int32x4_t)sum, (int8x16_t)stored, (int8x16_t)with_sign);
}
#else
constexpr bool FAST = false, PAIRS = false, UNSIGNED = true;
constexpr int TIME = 10;
inline vi add_products(vi sum, vi stored, vi with_sign) {
    for (int b = 0; b < 4; ++b) sum += ((stored >> (8 * b)) & 255) * ((with_sign << (24 - 8 * b)) >> 24);
    return sum;
}
#endif

// Four bytes of each of W centres: p + 128 as they are stored, or p.
inline vi load_stored(const std::uint8_t* p) {
    const vi stored = read<vi>(p);
    return UNSIGNED ? stored : stored ^ static_cast<std::int32_t>(0x80808080);
}

template <int N>
inline void multiply(const std::int8_t* const* row, const std::uint8_t* panel, index_t words, vi (&sum)[N][R]) {
    for (index_t i = 0; i < words; ++i, panel += 4 * PANEL) {
        vi c[R];
        for (int v = 0; v < R; ++v) c[v] = load_stored(panel + 4 * W * v);
        for (int r = 0; r < N; ++r) {
            const vi x = splat(read<std::int32_t>(row[r] + 4 * i));
            for (int v = 0; v < R; ++v) sum[r][v] = add_products(sum[r][v], c[v], x);
        }
    }
}

// A panel of centres.
struct Panel {
    const std::uint8_t* p;
    const float *half, *norm, *error, *step;

    Panel(const ByteCenters& centers, index_t first)
        : p(centers.p.data() + first * centers.width),
          half(centers.half.data() + first),
          norm(centers.norm.data() + first),
          error(centers.error.data() + first),
          step(centers.step.data() + first) {}

    // Of row i and W centres.
    vf low(const ByteRows& rows, index_t i, vi sum, int v) const {
        const vf value = load(half + v * W) - rows.error[i] * load(norm + v * W) - rows.norm[i] * load(error + v * W);
        return value - (rows.step[i] * load(step + v * W)) * __builtin_convertvector(sum, vf);
    }
};

// The two smallest values in each lane.
struct Smallest {
    vf best, second;
    vi arg;
};

template <int... I>
inline vi lane_numbers(std::integer_sequence<int, I...>) {
    return vi{I...};
}

// What is found for the rows of a tile. NEAR: also the centres within a limit.
template <bool NEAR>
struct Found {
    ByteTile& two;
    NearCenters* near;
    Smallest row[BYTE_TILE];

    Found(int count, ByteTile& tile, NearCenters* list) : two(tile), near(list) {
        const vf none = splat(std::numeric_limits<float>::infinity());
        for (int r = 0; r < count; ++r) row[r] = {none, none, vi{}};
        if (NEAR) std::fill(near->count, near->count + count, 0);
    }
    [[gnu::always_inline]] inline void offer(int r, vf low, index_t first) {
        Smallest& of = row[r];
        const vi closer = low < of.best;
        const vf less = of.second < low ? of.second : low;
        of.second = closer ? of.best : less;
        of.arg = closer ? splat(static_cast<std::int32_t>(first)) : of.arg;
        of.best = closer ? low : of.best;
        if constexpr (NEAR)
            for (std::uint32_t bits = mask_at_most(low, splat(near->limit[r])); bits; bits &= bits - 1) {
                if (near->count[r] < MOST_NEAR)
                    near->place[r][near->count[r]] = static_cast<label_t>(first + __builtin_ctz(bits));
                ++near->count[r];
            }
    }
    void finish(int count) const {
        const auto smaller = [](vf a, vf b) { return b < a ? b : a; };
        for (int r = 0; r < count; ++r) {
            const Smallest& of = row[r];
            const float best = joined<W>(of.best, smaller);
            const int lane = __builtin_ctz(mask_at_most(of.best, splat(best)) | 1u << (W - 1));
            const vf others =
                lane_numbers(AllLanes{}) == lane ? of.second : of.best;  // of a lane, the second is not less
            two.best[r] = best, two.second[r] = joined<W>(others, smaller);
            two.arg[r] = of.arg[lane] + lane;
        }
    }
};

template <int N, class F>
inline void compare(const ByteRows& rows, const index_t* id, int at, const Panel& panel, index_t first, F& found) {
    const std::int8_t* row[N];
    vi sum[N][R];
    for (int r = 0; r < N; ++r) {
        row[r] = rows.row(id[at + r]);
        for (int v = 0; v < R; ++v) sum[r][v] = splat(UNSIGNED ? rows.start[id[at + r]] : 0);
    }
    multiply<N>(row, panel.p, rows.width / 4, sum);
    for (int r = 0; r < N; ++r)
        for (int v = 0; v < R; ++v) found.offer(at + r, panel.low(rows, id[at + r], sum[r][v], v), first + v * W);
}

template <class F>
void scan(const ByteRows& rows, const ByteCenters& centers, index_t first, index_t stop, const index_t* id, int count,
          F& found) {
    for (; first < stop; first += PANEL) {
        const Panel panel(centers, first);
        int at = 0;
        for (; at + ROWS <= count; at += ROWS) compare<ROWS>(rows, id, at, panel, first, found);
        with_count<ROWS - 1>(count - at, [&](auto n) { compare<n()>(rows, id, at, panel, first, found); });
    }
    found.finish(count);
}

void two_smallest(const ByteRows& rows, const ByteCenters& centers, index_t first, index_t stop, const index_t* id,
                  int count, ByteTile& two) {
    Found<false> found(count, two, nullptr);
    scan(rows, centers, first, stop, id, count, found);
}

void near(const ByteRows& rows, const ByteCenters& centers, index_t first, index_t stop, const index_t* id, int count,
          ByteTile& two, NearCenters& list) {
    Found<true> found(count, two, &list);
    scan(rows, centers, first, stop, id, count, found);
}

// Candidates whose products with GROUPS registers of rows are in registers.
constexpr int GROUPS = 2, QUERIES = REGISTERS == 32 ? 12 : 5;
constexpr index_t AHEAD = 4096;  // bytes that are fetched ahead: a pass waits for memory

// N candidates, from `at` on.
template <int N>
void open_rows(const ByteTiles& tiles, index_t tile, const TileQueries& of, index_t at, std::uint64_t* rows) {
    for (int g = 0; g < TILE; g += GROUPS * W) {
        vi sum[N][GROUPS];
        for (int j = 0; j < N; ++j)
            for (int v = 0; v < GROUPS; ++v) sum[j][v] = splat(UNSIGNED ? of.start[at + j] : 0);
        const std::uint8_t* q = tiles.q.data() + (tile * TILE + g) / STRIP * STRIP * tiles.words * 4 + g % STRIP * 4;
        const std::int32_t* p = of.word.data() + at;
        for (index_t i = 0; i < tiles.words; ++i, q += 4 * STRIP, p += of.m) {
            for (int line = 0; line < 4 * W * GROUPS; line += 64) __builtin_prefetch(q + AHEAD + line, 0, 2);
            vi x[GROUPS];
            for (int v = 0; v < GROUPS; ++v) x[v] = load_stored(q + 4 * W * v);
            for (int j = 0; j < N; ++j) {
                const vi c = splat(p[j]);
                for (int v = 0; v < GROUPS; ++v) sum[j][v] = add_products(sum[j][v], x[v], c);
            }
        }
        for (int v = 0; v < GROUPS; ++v) {
            const index_t r = tile * TILE + g + v * W;
            const vf step = load(&tiles.step[r]), error = load(&tiles.error[r]), norm = load(&tiles.norm[r]);
            for (int j = 0; j < N; ++j) {
                const index_t c = at + j;
                const vf low = of.half[c] - error * of.norm[c] - norm * of.error[c] -
                               (step * of.step[c]) * __builtin_convertvector(sum[j][v], vf);
                rows[c] |= static_cast<std::uint64_t>(mask_at_most(low, load(&tiles.limit[r]))) << (g + v * W);
            }
        }
    }
}

void open_rows(const ByteTiles& tiles, index_t tile, const TileQueries& of, std::uint64_t* rows) {
    std::fill(rows, rows + of.m, 0);
    const index_t groups = (of.m + QUERIES - 1) / QUERIES, size = (of.m + groups - 1) / groups;
    for (index_t at = 0; at < of.m; at += size)
        with_count<QUERIES>(std::min(size, of.m - at), [&](auto n) { open_rows<n()>(tiles, tile, of, at, rows); });
}

}  // namespace

extern const ByteKernels byte_kernels;
const ByteKernels byte_kernels = {KV_TEXT(KV_BYTES), FAST, PAIRS, TIME, PANEL, two_smallest, near, open_rows};

}  // namespace kv::KV_BYTES
