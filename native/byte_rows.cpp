// Makes the bytes of rows and of centres (see byte_rows.hpp), with measured errors.
#include <cstring>

#include "byte_vectors.hpp"

namespace kv::KV_ISA {
namespace {

template <class T>
void quantize_row(const Dense<T>& rows, index_t i, float* v, ByteRows& out) {
    shift(rows.row(i), out.offset, out.scale, v);
    std::int8_t* q = out.q.data() + i * out.width;
    const auto write_bytes = [&](index_t j, auto bytes) { write(q + j, bytes); };
    const Quantized of = out.pairs ? quantize<true>(v, rows.d, write_bytes) : quantize<false>(v, rows.d, write_bytes);
    const bool usable = fits_bytes(of);
    out.step[i] = usable ? of.step : 0;
    out.norm[i] = norm_of_bytes(of);  // also the magnitude of the row's bounds
    out.error[i] = usable ? error_of_row(of) : std::numeric_limits<float>::infinity();
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
            shift(c + out.label(j) * d, rows.offset, rows.scale, v.data());
            std::uint8_t* p = out.p.data() + b * panel * rows.width + (j - b * panel) * 4;
            const Quantized of = quantize<false>(v.data(), d, [&](index_t i, auto bytes) {
                const auto moved = bytes ^ static_cast<std::int8_t>(-128);  // q + 128
                for (index_t l = 0; l < static_cast<index_t>(sizeof bytes); l += 4)
                    std::memcpy(p + (i + l) / 4 * 4 * panel + (i + l) % 4, reinterpret_cast<const char*>(&moved) + l,
                                std::min<std::size_t>(4, sizeof bytes));
            });
            if (!fits_bytes(of)) usable = false;
            const CenterBounds bounds(of);
            out.half[j] = bounds.half, out.norm[j] = bounds.norm, out.error[j] = bounds.error;
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
