// Converts centres to the float32 form that the filter reads: shifted by their mean and scaled by a power of two.
#pragma once

#include "exact.hpp"
#include "kernels.hpp"

namespace kv::KV_ISA {

// Returns the power of two that scales r into [1/2, 1].
inline double unit_scale(double r) {
    if (!(r > 0) || std::isinf(r)) return r > 0 ? 0 : 1;
    int e;
    std::frexp(r, &e);
    return std::ldexp(1.0, std::min(-e, 1000));
}

template <class T>
PackedCenters pack_centers(const Dense<T>& rows, const double* c, index_t k) {
    const index_t d = rows.d;
    PackedCenters packed;
    packed.k = k, packed.d = d;
    packed.offset.assign(d, 0);
    for (index_t j = 0; j < k; ++j)
        for (index_t i = 0; i < d; ++i) packed.offset[i] += c[j * d + i] / k;
    for (double& o : packed.offset) o = static_cast<double>(static_cast<T>(o));  // rows subtract it in their own type
    std::vector<double> norm2(k, 0);
    for (index_t j = 0; j < k; ++j)
        for (index_t i = 0; i < d; ++i) {
            const double v = c[j * d + i] - packed.offset[i];
            norm2[j] += v * v;
        }
    const double r = std::sqrt(*std::max_element(norm2.begin(), norm2.end()));
    packed.scale = unit_scale(r);
    packed.radius = r * packed.scale * (1 + 1e-6);
    packed.center.resize(k * d);
    packed.half.resize(k);
    for (index_t j = 0; j < k; ++j) {
        packed.half[j] = static_cast<float>(norm2[j] * packed.scale * packed.scale / 2);
        for (index_t i = 0; i < d; ++i)
            packed.center[j * d + i] = static_cast<float>((c[j * d + i] - packed.offset[i]) * packed.scale);
    }
    return packed;
}

template <class T>
PackedCenters pack_centers(const Csr<T>& rows, const double* c, index_t k) {
    const index_t d = rows.d, w = vector_width();
    PackedCenters packed;
    packed.k = k, packed.d = d;
    packed.width = (k + w - 1) / w * w;
    const Centers exact = exact_centers(rows, c, k);
    const double r = std::sqrt(*std::max_element(exact.norm2.begin(), exact.norm2.end()));
    packed.scale = unit_scale(r);
    packed.radius = r * packed.scale * (1 + 1e-6);
    packed.center.assign(d * packed.width, 0);
    packed.half.assign(packed.width, std::numeric_limits<float>::infinity());
    for (index_t j = 0; j < k; ++j) {
        packed.half[j] = static_cast<float>(exact.norm2[j] * packed.scale * packed.scale / 2);
        for (index_t i = 0; i < d; ++i)
            packed.center[i * packed.width + j] = static_cast<float>(c[j * d + i] * packed.scale);
    }
    return packed;
}

}  // namespace kv::KV_ISA
