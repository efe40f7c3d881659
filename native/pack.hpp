// Centres made ready for the filter: moved by their mean, scaled by a power of two, in float32.
#pragma once

#include "exact.hpp"
#include "kernels.hpp"

namespace kv::KV_ISA {

// The power of two that brings r into [1/2, 1].
inline double unit_scale(double r) {
    if (!(r > 0) || std::isinf(r)) return r > 0 ? 0 : 1;
    int e;
    std::frexp(r, &e);
    return std::ldexp(1.0, std::min(-e, 1000));
}

template <class T>
Pack make_pack(const Dense<T>& rows, const double* c, index_t k) {
    const index_t d = rows.d;
    Pack pack;
    pack.k = k, pack.d = d;
    pack.offset.assign(d, 0);
    for (index_t j = 0; j < k; ++j)
        for (index_t i = 0; i < d; ++i) pack.offset[i] += c[j * d + i] / k;
    for (double& o : pack.offset) o = static_cast<double>(static_cast<T>(o));  // as rows subtract it
    std::vector<double> norm2(k, 0);
    for (index_t j = 0; j < k; ++j)
        for (index_t i = 0; i < d; ++i) {
            const double v = c[j * d + i] - pack.offset[i];
            norm2[j] += v * v;
        }
    const double r = std::sqrt(*std::max_element(norm2.begin(), norm2.end()));
    pack.scale = unit_scale(r);
    pack.radius = r * pack.scale * (1 + 1e-6);
    pack.centre.resize(k * d);
    pack.half.resize(k);
    for (index_t j = 0; j < k; ++j) {
        pack.half[j] = static_cast<float>(norm2[j] * pack.scale * pack.scale / 2);
        for (index_t i = 0; i < d; ++i)
            pack.centre[j * d + i] = static_cast<float>((c[j * d + i] - pack.offset[i]) * pack.scale);
    }
    return pack;
}

template <class T>
Pack make_pack(const Csr<T>& rows, const double* c, index_t k) {
    const index_t d = rows.d, w = vector_width();
    Pack pack;
    pack.k = k, pack.d = d;
    pack.width = (k + w - 1) / w * w;
    const Centres exact = exact_centres(rows, c, k);
    const double r = std::sqrt(*std::max_element(exact.norm2.begin(), exact.norm2.end()));
    pack.scale = unit_scale(r);
    pack.radius = r * pack.scale * (1 + 1e-6);
    pack.centre.assign(d * pack.width, 0);
    pack.half.assign(pack.width, std::numeric_limits<float>::infinity());
    for (index_t j = 0; j < k; ++j) {
        pack.half[j] = static_cast<float>(exact.norm2[j] * pack.scale * pack.scale / 2);
        for (index_t i = 0; i < d; ++i)
            pack.centre[i * pack.width + j] = static_cast<float>(c[j * d + i] * pack.scale);
    }
    return pack;
}

}  // namespace kv::KV_ISA
