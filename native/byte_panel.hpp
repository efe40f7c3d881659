// Products of the bytes of rows with panels of centres (see byte_rows.hpp), for the files that are compiled once per
// set of instructions for them.
#pragma once

#include "byte_rows.hpp"
#include "simd.hpp"

namespace kv::KV_BYTES {

using namespace KV_ISA;

void bound_gains(const ByteFilter&, const ByteCenters&, const double* weight, const index_t* id, int count,
                 std::uint64_t* passed, ByteGainSums&);

namespace {

#if defined(__AVX512BW__)
#define KV_OF_REGISTER(name) _mm512_##name
using bytes_t = __m512i;
#elif defined(__AVX2__)
#define KV_OF_REGISTER(name) _mm256_##name
using bytes_t = __m256i;
#elif defined(__SSE4_1__)
#define KV_OF_REGISTER(name) _mm_##name
using bytes_t = __m128i;
#endif

// Adds the products of four bytes without a sign and four with one to each lane.
[[gnu::always_inline]] inline vi add_products(vi sum, vi without, vi with) {
#if defined(__AVX512VNNI__)
    return (vi)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)without, (__m512i)with);
#elif defined(__AVXVNNI__) && !defined(__AVX512F__)
    return (vi)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)without, (__m256i)with);
#elif defined(KV_OF_REGISTER)  // the bytes of rows are at most SMALL_BYTE
    const auto pairs = KV_OF_REGISTER(maddubs_epi16)((bytes_t)without, (bytes_t)with);
    return sum + (vi)KV_OF_REGISTER(madd_epi16)(pairs, KV_OF_REGISTER(set1_epi16)(1));
#else                          // the centres' bytes with their sign again: then two products fit into 16 bits
    using vs = Vector<std::int16_t, 2 * W>;
    const vs a0 = (vs)(without & 0x00ff00ff) - std::int16_t{128},
             a1 = (vs)((without >> 8) & 0x00ff00ff) - std::int16_t{128};
    const vs b0 = (vs)((vs)with << 8) >> 8, b1 = (vs)with >> 8;
    const vi both = (vi)(a0 * b0 + a1 * b1);
    return sum + ((both << 16) >> 16) + (both >> 16);
#endif
}

// Where the sum of products of row i begins.
inline std::int32_t first_sum(const ByteRows& rows, index_t i) {
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__) || defined(KV_OF_REGISTER)
    return rows.start[i];
#else
    (void)rows, (void)i;
    return 0;
#endif
}

// N rows and a panel of V vectors of centres.
template <int N, int V>
inline void multiply(const std::int8_t* const* row, const std::uint8_t* panel, index_t words, vi (&sum)[N][V]) {
    for (index_t i = 0; i < words; ++i, panel += 4 * W * V) {
        vi c[V];
        for (int v = 0; v < V; ++v) c[v] = read<vi>(panel + 4 * W * v);
        for (int r = 0; r < N; ++r) {
            const vi x = splat(read<std::int32_t>(row[r] + 4 * i));
            for (int v = 0; v < V; ++v) sum[r][v] = add_products(sum[r][v], c[v], x);
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

}  // namespace
}  // namespace kv::KV_BYTES
