// Makes the filter of byte_tiles.hpp, and the bytes of its candidates.
#include "byte_tiles.hpp"

#include "byte_vectors.hpp"

namespace kv::KV_ISA {
namespace {

// Copies the bytes of a row to its place in its strip.
void keep_bytes(index_t i, const std::int8_t* bytes, ByteTiles& out) {
    std::uint8_t* q = out.q.data() + (i / STRIP * out.words * STRIP + i % STRIP) * 4;
    for (index_t w = 0; w < out.words; ++w, q += 4 * STRIP, bytes += 4)
        for (int b = 0; b < 4; ++b) q[b] = static_cast<std::uint8_t>(bytes[b] + 128);
}

template <class T>
void keep_row(const Dense<T>& rows, index_t i, float* v, std::int8_t* q, ByteTiles& out) {
    shift(rows.row(i), out.offset, out.scale, v);
    const Quantized of = quantize<false>(v, rows.d, [&](index_t j, auto bytes) { write(q + j, bytes); });
    if (!fits_bytes(of)) {
        out.norm2[i] = -1, out.limit[i] = std::numeric_limits<float>::infinity();
        return;
    }
    keep_bytes(i, q, out);
    out.step[i] = of.step, out.norm[i] = norm_of_bytes(of), out.error[i] = error_of_row(of);
    out.norm2[i] = static_cast<float>(of.norm2);
}

struct TileFilter final : ByteTiles {
    std::unique_ptr<FilterQueries> prepare(const double* c, index_t m) const override;
    void not_excluded(index_t tile, const FilterQueries& queries, std::uint64_t* rows) const override {
        kernels->open_rows(*this, tile, static_cast<const TileQueries&>(queries), rows);
    }
};

std::unique_ptr<FilterQueries> TileFilter::prepare(const double* c, index_t m) const {
    auto out = std::make_unique<TileQueries>();
    out->m = m;
    out->word.assign(words * m, 0), out->start.resize(m);
    for (Buffer<float>* of : {&out->half, &out->norm, &out->error, &out->step}) of->resize(m);
    std::vector<float> v(d);
    Buffer<std::int8_t> q(words * 4);
    for (index_t j = 0; j < m; ++j) {
        shift(c + j * d, offset, scale, v.data());
        const auto write_bytes = [&](index_t i, auto bytes) { write(q.data() + i, bytes); };
        const Quantized of =
            kernels->pairs ? quantize<true>(v.data(), d, write_bytes) : quantize<false>(v.data(), d, write_bytes);
        if (!fits_bytes(of)) return nullptr;
        for (index_t w = 0; w < words; ++w) out->word[w * m + j] = read<std::int32_t>(q.data() + 4 * w);
        out->start[j] = -128 * of.sum, out->step[j] = of.step;
        const CenterBounds bounds(of);
        out->half[j] = bounds.half, out->norm[j] = bounds.norm, out->error[j] = bounds.error;
    }
    return out;
}

}  // namespace

template <class T>
std::unique_ptr<RowFilter> make_byte_tiles(const Dense<T>& rows, const double* cost, const ByteKernels& kernels) {
    auto out = std::make_unique<TileFilter>();
    const index_t d = rows.d, padded = (rows.n + TILE - 1) / TILE * TILE;
    if (rows.n == 0 || d > MOST_BYTES) return nullptr;
    out->n = rows.n, out->d = d, out->words = (d + 3) / 4, out->kernels = &kernels;
    out->offset = mean_of_some(rows), out->scale = scale_of_some(rows, out->offset);
    if (out->scale == 0) return nullptr;
    out->q.assign(padded * out->words * 4, 128);
    for (Buffer<float>* of : {&out->step, &out->error, &out->norm, &out->norm2}) of->assign(padded, 0);
    out->limit.assign(padded, -std::numeric_limits<float>::infinity());
    parallel_rows(rows.n, threads_for(4.0 * static_cast<double>(rows.n * d)), [&](index_t from, index_t stop) {
        std::vector<float> v(d);
        Buffer<std::int8_t> q(out->words * 4);
        for (index_t i = from; i < stop; ++i) {
            keep_row(rows, i, v.data(), q.data(), *out);
            out->set_cost(i, cost[i]);
        }
    });
    return out;
}

template std::unique_ptr<RowFilter> make_byte_tiles(const Dense<float>&, const double*, const ByteKernels&);
template std::unique_ptr<RowFilter> make_byte_tiles(const Dense<double>&, const double*, const ByteKernels&);
template std::unique_ptr<RowFilter> make_byte_tiles(const Dense<Float16>&, const double*, const ByteKernels&);
template std::unique_ptr<RowFilter> make_byte_tiles(const Dense<Bfloat16>&, const double*, const ByteKernels&);
template std::unique_ptr<RowFilter> make_byte_tiles(const Dense<std::int8_t>&, const double*, const ByteKernels&);
template std::unique_ptr<RowFilter> make_byte_tiles(const Dense<std::uint8_t>&, const double*, const ByteKernels&);
}  // namespace kv::KV_ISA
