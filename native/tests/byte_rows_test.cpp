// Compares the bounds of byte_rows.hpp with distances in long double, on every set of kernels, for many magnitudes.
#define KV_ISA plain
#include <cstdio>

#include "byte_assign.hpp"
#include "check.hpp"

namespace {

using namespace kv;
using Real = long double;

struct Count {
    int wrong = 0, pairs = 0;
    double width = 0;  // the largest upper bound less `low`, relative to the norms of row and centre
};

// v of byte_rows.hpp, and ||x||^2.
template <class T>
std::pair<Real, Real> exact(const T* x, const double* c, const ByteRows& bytes) {
    Real product = 0, of_x = 0, of_c = 0;
    for (index_t j = 0; j < bytes.d; ++j) {
        const Real a = (static_cast<Real>(x[j]) - static_cast<Real>(bytes.offset[j])) * static_cast<Real>(bytes.scale);
        const Real b = (static_cast<Real>(c[j]) - static_cast<Real>(bytes.offset[j])) * static_cast<Real>(bytes.scale);
        product += a * b, of_x += a * a, of_c += b * b;
    }
    return {of_c / 2 - product, of_x};
}

// Each centre is compared by itself: then `best` is its bound. `shrink`: of the errors of the rows, as a mistake.
template <class T>
Count compare(const Data<T>& rows, const std::vector<double>& centers, const Kernels& set, float shrink) {
    Count out;
    const index_t d = rows.d, k = static_cast<index_t>(centers.size()) / d;
    ByteRows bytes;
    if (!set.make_byte_rows(rows.view(false), bytes)) return out;
    for (float& error : bytes.error) error *= shrink;
    const ByteKernels& kernels = choose_byte_kernels(set);
    std::vector<index_t> id(rows.n);
    for (index_t i = 0; i < rows.n; ++i) id[i] = i;
    for (index_t j = 0; j < k; ++j) {
        ByteCenters one;
        const double* c = &centers[j * d];
        if (!plain::make_byte_centers(bytes, c, 1, nullptr, kernels.panel, one)) continue;
        for (index_t at = 0; at < rows.n; at += BYTE_TILE) {
            ByteTile tile;
            const int count = static_cast<int>(std::min<index_t>(BYTE_TILE, rows.n - at));
            kernels.two_smallest(bytes, one, 0, 1, &id[at], count, tile);
            for (int r = 0; r < count; ++r) {
                const index_t i = at + r;
                if (!(bytes.error[i] < std::numeric_limits<float>::infinity())) continue;
                const auto [v, norm2] = exact(&rows.x[i * d], c, bytes);
                const Real low = tile.best[r], error = static_cast<Real>(bytes.error[i]) * one.norm[0] +
                                                       static_cast<Real>(bytes.norm[i]) * one.error[0];
                const Real high =
                    low + 2 * error * (1 + 4 * BYTE_ROUNDING) + 4 * BYTE_ROUNDING * one.half[0] + BYTE_LOST;
                out.wrong += !(low <= v + BYTE_LOST) || !(v <= high);
                out.wrong += std::fabs(norm2 - static_cast<Real>(bytes.norm2[i])) > BYTE_ROUNDING * norm2 + BYTE_LOST;
                ++out.pairs;
                const Real size = std::sqrt(norm2) * static_cast<Real>(one.norm[0]) + 2 * one.half[0];
                if (size > 0) out.width = std::max(out.width, static_cast<double>((high - low) / size));
            }
        }
    }
    return out;
}

template <class T>
Count compare_all(const Kernels& set, float shrink) {
    std::mt19937 rng(5);
    std::normal_distribution<double> normal;
    Count all;
    for (const index_t d : {1, 15, 16, 67, 200})
        for (const double scale : {1e-30, 1.0, 1e20})
            for (const double offset : {0.0, 1e4}) {
                const auto number = [&](index_t i, index_t j, auto&) {
                    if (i % 11 == 3) return offset * scale;  // many rows are equal
                    const double far = i % 7 == 2 ? 1e3 : i % 5 == 1 ? 1e-4 : 1;
                    return (offset + far * normal(rng) * (j == 0 && i % 3 == 0 ? 50 : 1)) * scale;
                };
                const Data<T> rows(130, d, number);
                std::vector<double> centers;
                for (const index_t i : {0, 2, 3, 4, 6})  // some are rows
                    for (index_t j = 0; j < d; ++j)
                        centers.push_back(static_cast<double>(rows.x[i * d + j]) +
                                          (i % 2 ? 0 : scale * normal(rng) / 9));
                const Count one = compare(rows, centers, set, shrink);
                all.wrong += one.wrong, all.pairs += one.pairs, all.width = std::max(all.width, one.width);
            }
    return all;
}

}  // namespace

int main() {
    for (const Kernels* set : available_kernels()) {
        const Count f32 = compare_all<float>(*set, 1), f64 = compare_all<double>(*set, 1);
        std::printf("%s: %d pairs, width %g\n", set->name, f32.pairs + f64.pairs, std::max(f32.width, f64.width));
        check(f32.wrong == 0 && f64.wrong == 0, "a bound is wrong");
        check(f32.pairs > 10000 && f64.pairs > 10000, "too few pairs were compared");
        check(f32.width < 0.2 && f64.width < 0.2, "the bounds are wide");

        check(compare_all<float>(*set, 0.01f).wrong > 0, "a wrong bound was not found");
    }
    return 0;
}
