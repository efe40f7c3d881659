// Makes the bytes of rows and of centres (see byte_rows.hpp), with measured errors.
#include "byte_rows.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels.hpp"
#include "small_types.hpp"

namespace kv::KV_ISA {
namespace {

constexpr float MAX_BYTE = 127;
constexpr index_t SAMPLED = 1024;  // rows that offset and scale are taken from; any values are valid

// A vector as bytes: v = step * q + e.
struct Quantized {
    float step = 0;
    double norm2 = 0;              // ||v||^2, to 2^-22 of itself
    double error = 0, bytes2 = 0;  // ||e||, rounded up, and ||q||^2
    std::int32_t sum = 0;          // of q
};

// Rounds to integers: adding and subtracting 1.5 * 2^23 does that.
template <class V>
inline V rounded(V v) {
    constexpr float magic = 12582912.0f;
    return (v + magic) - magic;
}

inline float largest_of(vf v) {
    return joined<W>(v, [](vf a, vf b) { return a < b ? b : a; });
}

using Bytes = Vector<std::int8_t, W>;

template <int... I>
inline vf neighbours_swapped(vf v, std::integer_sequence<int, I...>) {
    return __builtin_shufflevector(v, v, (I ^ 1)...);
}

// PAIRS: see ByteRows. `v` is the vector in float32, which rounds each coordinate once. Calls write_bytes(first, q) for
// W bytes at a time, and for each of the rest.
template <bool PAIRS, class Write>
Quantized quantize(const float* v, index_t d, Write&& write_bytes) {
    Quantized out;
    const index_t whole = d / W * W;
    vd squares{};
    vf most{};
    for (index_t j = 0; j < whole; j += W) {
        const vf a = load(v + j), b = a < 0 ? -a : a;
        const vd wide = __builtin_convertvector(a, vd);
        squares += wide * wide;
        const vf size = PAIRS ? b + neighbours_swapped(b, AllLanes{}) : b;
        most = most < size ? size : most;
    }
    float largest = largest_of(most);
    for (int l = 0; l < W; ++l) out.norm2 += squares[l];
    for (index_t j = whole; j < d; ++j) {
        out.norm2 += static_cast<double>(v[j]) * static_cast<double>(v[j]);
        largest = std::max(largest, std::fabs(v[j]) + (PAIRS && j % 2 ? std::fabs(v[j - 1]) : 0));
    }
    // Rounded up, so that no byte is beyond 127. Of two, the sum is below 127 before each is rounded by at most 1/2: so
    // it is below 128 after.
    out.step = largest * ((1 + 0x1p-20f) / MAX_BYTE);
    const float inverse = out.step > std::numeric_limits<float>::min() ? 1 / out.step : 0;
    vf residual{}, bytes{};
    vi total{};
    for (index_t j = 0; j < whole; j += W) {
        const vf a = load(v + j), number = rounded(a * inverse), gap = a - number * out.step;
        residual += gap * gap, bytes += number * number;
        const vi q = __builtin_convertvector(number, vi);
        total += q;
        write_bytes(j, __builtin_convertvector(q, Bytes));
    }
    double rest = static_cast<double>(sum_of(residual));
    out.bytes2 = static_cast<double>(sum_of(bytes));
    for (int l = 0; l < W; ++l) out.sum += total[l];
    for (index_t j = whole; j < d; ++j) {
        const float number = rounded(v[j] * inverse), gap = v[j] - number * out.step;
        rest += static_cast<double>(gap * gap), out.bytes2 += static_cast<double>(number * number);
        out.sum += static_cast<std::int32_t>(number);
        write_bytes(j, static_cast<std::int8_t>(number));
    }
    // The rounding of these sums, of gaps, and of v itself.
    const double wider = 1 + static_cast<double>(d / W + 16) * 0x1p-23;
    out.bytes2 *= wider;
    out.error = std::sqrt(rest) * wider + 0x1p-21 * std::sqrt(out.norm2);
    return out;
}

template <class T>
void shift(const T* x, const ByteRows& rows, float* v) {
    const index_t whole = rows.d / W * W;
    for (index_t j = 0; j < whole; j += W)
        store(v + j, __builtin_convertvector((widened<W>(x + j) - read<vd>(rows.offset.data() + j)) * rows.scale, vf));
    for (index_t j = whole; j < rows.d; ++j)
        v[j] = static_cast<float>((static_cast<double>(x[j]) - rows.offset[j]) * rows.scale);
}

template <class T>
std::vector<double> mean_of_some(const Dense<T>& rows) {
    const index_t some = std::min(rows.n, SAMPLED);
    std::vector<double> mean(rows.d, 0);
    for (index_t s = 0; s < some; ++s) {
        const T* x = rows.row(s * rows.n / some);
        for (index_t j = 0; j < rows.d; ++j) mean[j] += static_cast<double>(x[j]) / static_cast<double>(some);
    }
    return mean;
}

// The scale that gives such rows a norm of about 2^20; zero if there is none.
template <class T>
double scale_of_some(const Dense<T>& rows, const std::vector<double>& offset) {
    const index_t some = std::min(rows.n, SAMPLED);
    double largest = 0;
    for (index_t s = 0; s < some; ++s) {
        const T* x = rows.row(s * rows.n / some);
        for (index_t j = 0; j < rows.d; ++j)
            largest = std::max(largest, std::fabs(static_cast<double>(x[j]) - offset[j]));
    }
    const double norm = largest * std::sqrt(static_cast<double>(rows.d));
    if (!(norm > 0x1p-380 && norm < 0x1p400)) return 0;
    int e;
    std::frexp(norm, &e);
    return std::ldexp(1.0, 20 - e);
}

template <class T>
void quantize_row(const Dense<T>& rows, index_t i, float* v, ByteRows& out) {
    shift(rows.row(i), out, v);
    std::int8_t* q = out.q.data() + i * out.width;
    const auto write_bytes = [&](index_t j, auto bytes) { write(q + j, bytes); };
    const Quantized of = out.pairs ? quantize<true>(v, rows.d, write_bytes) : quantize<false>(v, rows.d, write_bytes);
    const bool usable = of.norm2 < 0x1p100;
    out.step[i] = usable ? of.step : 0;
    out.norm[i] = usable ? static_cast<float>(static_cast<double>(of.step) * std::sqrt(of.bytes2) * (1 + 1e-6)) : 0;
    out.error[i] =
        usable ? static_cast<float>(of.error * (1 + 1e-6) + 0x1p-100) : std::numeric_limits<float>::infinity();
    out.norm2[i] = usable ? static_cast<float>(of.norm2) : 0;
    out.start[i] = usable ? -128 * of.sum : 0;
}

}  // namespace

template <class T>
bool make_byte_rows(const Dense<T>& rows, ByteRows& out) {
    if (rows.n == 0 || rows.d > MOST_BYTES) return false;
    out.n = rows.n, out.d = rows.d, out.width = (rows.d + 63) / 64 * 64;
    out.offset = mean_of_some(rows);
    out.scale = scale_of_some(rows, out.offset);
    if (out.scale == 0) return false;
    out.q.assign(rows.n * out.width, 0);
    for (Buffer<float>* of : {&out.step, &out.error, &out.norm, &out.norm2}) of->resize(rows.n);
    out.start.resize(rows.n);
    parallel_rows(rows.n, threads_for(4.0 * static_cast<double>(rows.n * rows.d)), [&](index_t from, index_t stop) {
        std::vector<float> v(rows.d);
        for (index_t i = from; i < stop; ++i) quantize_row(rows, i, v.data(), out);
    });
    return true;
}

bool make_byte_centers(const ByteRows& rows, const double* c, index_t k, const label_t* order, index_t panel,
                       ByteCenters& out) {
    const index_t padded = (k + panel - 1) / panel * panel, d = rows.d;
    out.k = k, out.width = rows.width, out.panel = panel, out.order = order;
    out.p.assign(padded * rows.width, 128);
    out.half.assign(padded, std::numeric_limits<float>::infinity());
    for (Buffer<float>* of : {&out.norm, &out.error, &out.step}) of->assign(padded, 0);
    std::atomic<bool> usable{true};
    parallel(padded / panel, threads_for(8.0 * static_cast<double>(k * d)), [&](index_t b) {
        std::vector<float> v(d);
        for (index_t j = b * panel; j < std::min(k, (b + 1) * panel); ++j) {
            shift(c + out.label(j) * d, rows, v.data());
            std::uint8_t* p = out.p.data() + b * panel * rows.width + (j - b * panel) * 4;
            const Quantized of = quantize<false>(v.data(), d, [&](index_t i, auto bytes) {
                const auto moved = bytes ^ static_cast<std::int8_t>(-128);  // q + 128
                for (index_t l = 0; l < static_cast<index_t>(sizeof bytes); l += 4)
                    std::memcpy(p + (i + l) / 4 * 4 * panel + (i + l) % 4, reinterpret_cast<const char*>(&moved) + l,
                                std::min<std::size_t>(4, sizeof bytes));
            });
            if (!(of.norm2 < 0x1p100)) usable = false;
            const double norm = std::sqrt(of.norm2), bytes = static_cast<double>(of.step) * std::sqrt(of.bytes2);
            out.half[j] = static_cast<float>(of.norm2 / 2 * (1 - BYTE_ROUNDING));
            out.norm[j] = static_cast<float>(norm * (1 + BYTE_ROUNDING));
            out.error[j] = static_cast<float>(of.error * (1 + BYTE_ROUNDING) + BYTE_ROUNDING * (norm + bytes));
            out.step[j] = of.step;
        }
    });
    return usable;
}

template bool make_byte_rows(const Dense<float>&, ByteRows&);
template bool make_byte_rows(const Dense<double>&, ByteRows&);
template bool make_byte_rows(const Dense<Float16>&, ByteRows&);
template bool make_byte_rows(const Dense<Bfloat16>&, ByteRows&);
template bool make_byte_rows(const Dense<std::int8_t>&, ByteRows&);
template bool make_byte_rows(const Dense<std::uint8_t>&, ByteRows&);
}  // namespace kv::KV_ISA
