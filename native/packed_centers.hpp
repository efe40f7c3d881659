// Converts centres to the form that the filter reads: shifted by a median of theirs and scaled by a power of two.
#pragma once

#include <mutex>

#include "kernels.hpp"
#include "reference.hpp"

namespace kv::KV_ISA {

// The exponent of the largest norm of a centre, that of the smallest number that rounding may lose, and the longest
// chain of operations, all for filter.hpp's proof.
template <class Real>
struct FilterRange;
template <>
struct FilterRange<float> {
    static constexpr int largest = 30, lost = -140;
    // The last factor covers the error of a norm in float32.
    static double eps(index_t d) {
        return static_cast<double>(std::min(d, CHUNK) + d / CHUNK + 10) * UNIT *
               (1 + static_cast<double>(d / 8) * UNIT);
    }
};
template <>
struct FilterRange<double> {  // its own errors, and as much again for the reference
    static constexpr int largest = 400, lost = -1060;
    static double eps(index_t d) { return static_cast<double>(d + 16) * 0x1p-51; }
};

// Returns the power of two that scales the norm r to about 2^largest. Rows of type T must be able to multiply by it.
template <class T, class Real>
double filter_scale(double r) {
    if (!(r > 0) || std::isinf(r)) return r > 0 ? 0 : 1;
    int e;
    std::frexp(r, &e);
    return std::ldexp(1.0, std::min(FilterRange<Real>::largest - e, std::is_same_v<T, float> ? 126 : 1000));
}

// Returns TINY of filter.hpp.
template <class Real>
double lost_to_underflow(index_t d, double scale) {
    const double reference = scale * 0x1p-537;
    return static_cast<double>(d + 16) * (std::ldexp(1.0, FilterRange<Real>::lost) + reference * reference);
}

// The middle of three numbers.
inline double median(double a, double b, double c) {
    const double low = a < b ? a : b, high = a < b ? b : a, least = high < c ? high : c;
    return low > least ? low : least;
}

// Robust means of the features: medians of medians of three medians over 27 centres. A few far centres do not move
// them, as they would a mean.
template <class T>
std::vector<double> median_of_centers(const double* c, index_t k, index_t d) {
    const double* center[27];
    for (index_t s = 0; s < 27; ++s) center[s] = c + s * k / 27 * d;
    std::vector<double> offset(d);
    for (index_t i = 0; i < d; ++i) {
        double m[9];
        for (int s = 0; s < 9; ++s) m[s] = median(center[s][i], center[s + 9][i], center[s + 18][i]);
        const double middle = median(median(m[0], m[3], m[6]), median(m[1], m[4], m[7]), median(m[2], m[5], m[8]));
        offset[i] = static_cast<double>(static_cast<T>(middle));  // rows subtract it in their own type
    }
    return offset;
}

// The squared norm of a shifted centre; the order of the sum does not matter to the filter's bound.
inline double shifted_norm2(const double* c, const double* offset, index_t d) {
    double8 sums{};
    index_t i = 0;
    for (; i + 8 <= d; i += 8) {
        const double8 v = read<double8>(c + i) - read<double8>(offset + i);
        sums += v * v;
    }
    double norm2 = joined<8>(sums, [](double8 a, double8 b) { return a + b; });
    for (; i < d; ++i) norm2 += (c[i] - offset[i]) * (c[i] - offset[i]);
    return norm2;
}

// What depends on the largest norm of a centre: the scale and the errors. The centres themselves are not yet written.
template <class Real, class T>
Packed<Real> start_packed(index_t k, index_t d, std::vector<double> offset, double largest) {
    Packed<Real> packed;
    packed.k = k, packed.d = d;
    packed.offset = std::move(offset);
    packed.largest = largest;
    packed.scale = filter_scale<T, Real>(largest);
    packed.eps = FilterRange<Real>::eps(d);
    packed.lost = lost_to_underflow<Real>(d, packed.scale) / packed.eps;
    packed.center.resize(k * d);
    packed.half.resize(k), packed.radius2.resize(k);
    return packed;
}

// Writes centre j, of this squared norm.
template <class Real>
void pack_one(const double* c, index_t j, double norm2, Packed<Real>& packed) {
    const double square = norm2 * packed.scale * packed.scale;
    packed.radius2[j] = static_cast<Real>(square * ENLARGED + packed.lost);
    packed.half[j] = static_cast<Real>(square / 2 - packed.eps * packed.radius2[j]);
    const double *offset = packed.offset.data(), scale = packed.scale;
    Real* out = packed.center.data() + j * packed.d;
    for (index_t i = 0; i < packed.d; ++i) out[i] = static_cast<Real>((c[i] - offset[i]) * scale);
}

constexpr index_t PACK_SPAN = 32;  // centres that a thread packs at a time
constexpr double PACK_WORK = 4;    // multiply-adds of the filter that take as long as to pack a value

template <class T>
PackedCenters pack_centers(const Dense<T>& rows, const Centers& centers) {
    const index_t k = centers.k, d = rows.d;
    std::vector<double> offset = median_of_centers<T>(centers.c, k, d), norm2(k);
    const int threads = threads_for(PACK_WORK * static_cast<double>(k) * d);
    const auto for_centers = [&](auto&& visit) {
        parallel((k + PACK_SPAN - 1) / PACK_SPAN, threads, [&](index_t span) {
            for (index_t j = span * PACK_SPAN; j < std::min(k, (span + 1) * PACK_SPAN); ++j) visit(j);
        });
    };
    for_centers([&](index_t j) { norm2[j] = shifted_norm2(centers.row(j), offset.data(), d); });
    const double largest = std::sqrt(*std::max_element(norm2.begin(), norm2.end()));
    PackedCenters packed = start_packed<float, T>(k, d, std::move(offset), largest);
    for_centers([&](index_t j) { pack_one(centers.row(j), j, norm2[j], packed); });
    return packed;
}

// The centres for the filter in float64, packed when a row first needs them, inside a parallel loop: the threads that
// need them share the work.
template <class T>
class LazyDoubles {
public:
    // Whether they are packed, or nearly so.
    bool made() const { return next_.load(std::memory_order_relaxed) > 0; }
    const PackedDoubles& of(const Centers& centers, const PackedCenters& packed) {
        const index_t spans = (centers.k + PACK_SPAN - 1) / PACK_SPAN;
        if (done_.load(std::memory_order_acquire) == spans) return doubles_;
        {
            const std::lock_guard<std::mutex> lock(starting_);
            if (!started_) doubles_ = start_packed<double, T>(centers.k, centers.d, packed.offset, packed.largest);
            started_ = true;
        }
        for (index_t span; (span = next_.fetch_add(1)) < spans; done_.notify_all()) {
            for (index_t j = span * PACK_SPAN; j < std::min(centers.k, (span + 1) * PACK_SPAN); ++j) {
                const double* c = centers.row(j);
                pack_one(c, j, shifted_norm2(c, packed.offset.data(), centers.d), doubles_);
            }
            done_.fetch_add(1, std::memory_order_acq_rel);
        }
        for (index_t done; (done = done_.load(std::memory_order_acquire)) < spans;) done_.wait(done);
        return doubles_;
    }

private:
    std::mutex starting_;
    bool started_ = false;
    std::atomic<index_t> next_{0}, done_{0};
    PackedDoubles doubles_;
};

template <class T>
PackedCenters pack_centers(const Csr<T>& rows, const Centers& centers) {
    const index_t k = centers.k, d = rows.d, w = vector_width();
    PackedCenters packed;
    packed.k = k, packed.d = d;
    packed.width = (k + 3) / 4 * 4;
    double largest = 0;
    for (const SumOfSquares& norm2 : centers.norm2) largest = std::max(largest, norm2.sum);
    packed.scale = filter_scale<double, float>(std::sqrt(largest));
    packed.lost = lost_to_underflow<float>(d, packed.scale) / UNIT;
    packed.half.assign(packed.width, std::numeric_limits<float>::infinity());
    packed.radius2.assign(packed.width, 0);
    for (index_t j = 0; j < k; ++j) {
        const double square = centers.norm2[j].sum * packed.scale * packed.scale;
        packed.half[j] = static_cast<float>(square / 2);
        packed.radius2[j] = static_cast<float>(square * ENLARGED + packed.lost);
    }
    packed.center.resize(d * packed.width);
    constexpr index_t SPAN = 64;  // features that are transposed at a time
    parallel((d + SPAN - 1) / SPAN, threads_for(static_cast<double>(k) * d), [&](index_t span) {
        const index_t from = span * SPAN, to = std::min(d, from + SPAN);
        for_panels(packed.width, w, [&](index_t first, index_t vectors, index_t lanes) {
            const index_t wide = vectors * lanes;
            float* panel = packed.center.data() + d * first;
            for (index_t j = first; j < first + wide; ++j)
                for (index_t i = from; i < to; ++i)
                    panel[i * wide + j - first] = j < k ? static_cast<float>(centers.row(j)[i] * packed.scale) : 0.0f;
        });
    });
    return packed;
}

}  // namespace kv::KV_ISA
