// Types of rows that take less memory than float32, which holds all their values.
#pragma once

#include <bit>

#include "simd.hpp"

namespace kv::KV_ISA {

// Finite, as all values of rows.
struct Float16 {
    std::uint16_t bits;
    explicit operator float() const {
        const std::uint32_t sign = (bits & 0x8000u) << 16, size = (bits & 0x7fffu) << 13;
        return std::bit_cast<float>(std::bit_cast<std::uint32_t>(std::bit_cast<float>(size) * 0x1p112f) | sign);
    }
    explicit operator double() const { return static_cast<double>(static_cast<float>(*this)); }
};
struct Bfloat16 {
    std::uint16_t bits;
    explicit operator float() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
    explicit operator double() const { return static_cast<double>(static_cast<float>(*this)); }
};

struct SmallRows {
    using value_type = float;
    static constexpr bool sparse = false;
    const void* x;
    SmallType type;
    index_t n, d;
};

// Calls f with the rows as Dense<T> of their type.
template <class F>
[[gnu::always_inline]] inline auto with_type_of(const SmallRows& rows, F&& f) {
    switch (rows.type) {
        case SmallType::float16: return f(Dense<Float16>{static_cast<const Float16*>(rows.x), rows.n, rows.d});
        case SmallType::bfloat16: return f(Dense<Bfloat16>{static_cast<const Bfloat16*>(rows.x), rows.n, rows.d});
        case SmallType::int8: return f(Dense<std::int8_t>{static_cast<const std::int8_t*>(rows.x), rows.n, rows.d});
        default: return f(Dense<std::uint8_t>{static_cast<const std::uint8_t*>(rows.x), rows.n, rows.d});
    }
}

template <class T>
inline void widen(const T* x, index_t count, float* out) {
    for (index_t j = 0; j < count; ++j) out[j] = static_cast<float>(x[j]);
}
#if defined(__F16C__)
inline void widen(const Float16* x, index_t count, float* out) {
    const index_t whole = count / 8 * 8;
    for (index_t j = 0; j < whole; j += 8)
        _mm256_storeu_ps(out + j, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x + j))));
    for (index_t j = whole; j < count; ++j) out[j] = static_cast<float>(x[j]);
}
#endif

// Writes the features [from, to) of a row.
inline void widen(const SmallRows& rows, index_t i, index_t from, index_t to, float* out) {
    with_type_of(rows, [&](auto dense) { widen(dense.row(i) + from, to - from, out); });
}

// As in simd.hpp and reference.hpp. Scalar conversions take several times as long.
inline Vector<double, 4> load_double4(const Float16* x) {
#if defined(__F16C__)
    return __builtin_convertvector((Vector<float, 4>)_mm_cvtph_ps(_mm_loadl_epi64((const __m128i*)x)),
                                   Vector<double, 4>);
#else
    return Vector<double, 4>{double(x[0]), double(x[1]), double(x[2]), double(x[3])};
#endif
}
inline Vector<double, 4> load_double4(const Bfloat16* x) {
    const auto bits = __builtin_convertvector((read<Vector<std::uint16_t, 4>>(x)), Vector<std::uint32_t, 4>) << 16;
    return __builtin_convertvector((Vector<float, 4>)bits, Vector<double, 4>);
}
template <class Byte>
    requires(sizeof(Byte) == 1)
inline Vector<double, 4> load_double4(const Byte* x) {
    const auto wide = __builtin_convertvector((read<Vector<Byte, 4>>(x)), Vector<std::int32_t, 4>);
    return __builtin_convertvector(wide, Vector<double, 4>);
}
template <int N>
[[gnu::always_inline]] inline Vector<double, N> widened(const Float16* x) {
    float wide[N];
    widen(x, N, wide);
    return widened<N>(wide);
}
template <int N>
[[gnu::always_inline]] inline Vector<double, N> widened(const Bfloat16* x) {
    float wide[N];
    widen(x, N, wide);
    return widened<N>(wide);
}

}  // namespace kv::KV_ISA
