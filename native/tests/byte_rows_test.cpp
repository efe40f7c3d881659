// Compares the bounds of byte_rows.hpp with distances in long double, on every set of kernels, for many magnitudes, and
// products of extreme bytes with those of integers.
#define KV_ISA plain
#include <cstdio>

#include "byte_assign.hpp"
#include "byte_tiles.hpp"
#include "check.hpp"

namespace {

using namespace kv;
using Real = long double;

struct Count {
    int wrong = 0, pairs = 0, excluded = 0;  // excluded: rows that candidates may be nearer to
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

// Neighbours whose magnitudes add up to more than they may.
int large_pairs(const ByteRows& bytes) {
    int large = 0;
    for (std::size_t at = 0; at < bytes.q.size(); at += 2)
        large += std::abs(bytes.q[at]) + std::abs(bytes.q[at + 1]) > (bytes.pairs ? 127 : 254);
    return large;
}

// Each centre is compared by itself: then `best` is its bound. `shrink`: of the errors of the rows, as a mistake.
template <class T>
Count compare(const Data<T>& rows, const std::vector<double>& centers, const Kernels& set, const ByteKernels& kernels,
              float shrink) {
    Count out;
    const index_t d = rows.d, k = static_cast<index_t>(centers.size()) / d;
    ByteRows bytes, of_pairs;
    bytes.pairs = kernels.pairs, of_pairs.pairs = true;
    if (!set.make_byte_rows(rows.view(false), bytes) || !set.make_byte_rows(rows.view(false), of_pairs)) return out;
    out.wrong += large_pairs(of_pairs);
    for (float& error : bytes.error) error *= shrink;
    out.wrong += large_pairs(bytes);
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

// Rows that cost a little more than their distance to a candidate, but that the filter of greedy seeding excludes.
template <class T>
int wrongly_excluded(const Data<T>& rows, const std::vector<double>& candidates, const Kernels& set,
                     const ByteKernels& kernels, float shrink) {
    const index_t d = rows.d, m = static_cast<index_t>(candidates.size()) / d;
    int wrong = 0;
    for (index_t j = 0; j < m; ++j) {
        std::vector<double> cost(rows.n);
        for (index_t i = 0; i < rows.n; ++i) {
            Real sum = 0;
            for (index_t f = 0; f < d; ++f) {
                const Real gap = static_cast<Real>(rows.x[i * d + f]) - static_cast<Real>(candidates[j * d + f]);
                sum += gap * gap;
            }
            cost[i] = static_cast<double>(sum * (1 + 1e-12L));
        }
        const auto filter = set.make_byte_tiles(rows.view(false), cost.data(), kernels);
        if (!filter) return 0;
        for (float& error : static_cast<ByteTiles&>(*filter).error) error *= shrink;
        const auto queries = filter->prepare(candidates.data(), m);
        if (!queries) continue;
        std::vector<std::uint64_t> open(m);
        for (index_t i = 0; i < rows.n; ++i) {
            if (i % TILE == 0) filter->not_excluded(i / TILE, *queries, open.data());
            wrong += cost[i] > 0 && !(open[j] >> i % TILE & 1);
        }
    }
    return wrong;
}

template <class T>
Count compare_all(const Kernels& set, const ByteKernels& kernels, float shrink) {
    std::mt19937 rng(5);
    std::normal_distribution<double> normal;
    Count all;
    for (const index_t d : {1, 2, 15, 16, 67, 200})
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
                const Count one = compare(rows, centers, set, kernels, shrink);
                all.wrong += one.wrong, all.pairs += one.pairs, all.width = std::max(all.width, one.width);
                all.excluded += wrongly_excluded(rows, centers, set, kernels, shrink);
            }
    return all;
}

// ---- lower bounds in 16 bits ----

struct KeptBounds {
    int wrong = 0;  // bounds above the distance that is left after all moves
    int loose = 0;  // bounds more than a unit below it for each rounding
};

// Sets bounds and moves the centres of their groups, some of them not at all.
KeptBounds compare_kept(float norm, double scale) {
    KeptBounds out;
    constexpr index_t COUNT = 16, GROUPS = 13;
    constexpr int MOVES = 5;
    ByteRows bytes;
    bytes.scale = scale;
    const Real size = static_cast<Real>(norm) / static_cast<Real>(scale), unit = size * 0x1p-14L;
    std::mt19937 rng(11);
    std::uniform_real_distribution<double> uniform;
    for (int round = 0; round < 100; ++round) {
        std::uint16_t kept[COUNT];
        plain::LowerBounds bounds(norm, plain::LowerBounds::share_of(bytes), kept);
        bounds.fill_up(GROUPS, COUNT);
        Real left[GROUPS];
        bool held[GROUPS];
        for (index_t g = 0; g < GROUPS; ++g) {
            const auto bound = static_cast<float>(static_cast<Real>(std::exp(-9 * uniform(rng))) * 8 * size);
            bounds.set(g, bound);
            left[g] = bound, held[g] = left[g] < 1.99L * size;
        }
        float least = 0;
        for (int move = 0; move < MOVES; ++move) {
            float drift[COUNT] = {};
            for (index_t g = 0; g < GROUPS; ++g) {
                if (rng() % 3 > 0)
                    drift[g] = static_cast<float>(std::exp(-20 * uniform(rng)) * static_cast<double>(size));
                left[g] -= static_cast<Real>(drift[g]);
            }
            least = bounds.decrease(drift, COUNT);
        }
        const float last = static_cast<float>(left[2] * 0.75L);
        if (round % 2) bounds.lower_to(2, last), left[2] = std::min<Real>(left[2], last);
        for (index_t g = 0; g < GROUPS; ++g) {
            const Real bound = bounds[g];
            out.wrong += bound > std::max<Real>(left[g], 0) || (round % 2 == 0 && bound < static_cast<Real>(least));
            // The same comparison, in units.
            const float distance = bounds[g] + (rng() % 3 - 1.0f) * static_cast<float>(unit / 9);
            out.wrong += distance >= 0 && bounds.open(g, bounds.whole_units(distance)) == (distance < bounds[g]);
            out.loose += held[g] && left[g] - bound > (MOVES + 1) * unit;
        }
        for (index_t g = GROUPS; g < COUNT; ++g) out.wrong += kept[g] != 65535;
    }
    return out;
}

void check_kept_bounds() {
    for (const double scale : {0x1p-60, 1.0, 0x1p60})
        for (const float norm : {1e-3f, 1.0f, 3.0f, 1e6f}) {
            const KeptBounds found = compare_kept(norm, scale);
            check(found.wrong == 0, "a bound in 16 bits is too large");
            check(found.loose == 0, "a bound in 16 bits is much too small");
        }
    // Where float32 cannot hold the unit, bounds prove nothing.
    for (const double scale : {0x1p-300, 0x1p-110, 0x1p130, 0x1p300})
        check(compare_kept(1, scale).wrong == 0, "a bound without a unit is too large");
}

// ---- products of bytes ----

// Two neighbours as large as rows may have them; the first two give the largest sums.
std::vector<std::pair<int, int>> extremes(bool pairs) {
    if (pairs) return {{64, 63}, {-64, -63}, {127, 0}, {-127, 0}, {0, 127}, {0, -127}, {63, -64}, {-63, 64}};
    return {{127, 127}, {-127, -127}, {127, -127}, {-127, 127}};
}

// Rows 0 and 1 have one sign. In the others signs change, so that most sums are below 2^24, where float32 is exact.
ByteRows extreme_rows(index_t n, index_t d, bool pairs, std::mt19937& rng) {
    ByteRows rows;
    rows.n = n, rows.d = d, rows.width = (d + 63) / 64 * 64, rows.pairs = pairs;
    rows.q.assign(n * rows.width, 0), rows.start.assign(n, 0), rows.step.assign(n, 1);
    for (Buffer<float>* of : {&rows.error, &rows.norm, &rows.norm2}) of->assign(n, 0);
    const auto of = extremes(pairs);
    for (index_t i = 0; i < n; ++i)
        for (index_t j = 0; j < d; j += 2) {
            const auto [a, b] = of[i < 2 ? i : rng() % of.size()];
            std::int8_t* q = &rows.q[i * rows.width + j];
            q[0] = static_cast<std::int8_t>(a), q[1] = static_cast<std::int8_t>(j + 1 < d ? b : 0);
            rows.start[i] -= 128 * (q[0] + q[1]);
        }
    return rows;
}

// Centres with all bytes 127, with all -127, and with both.
ByteCenters extreme_centers(index_t k, const ByteRows& rows, index_t panel, std::mt19937& rng) {
    const index_t padded = (k + panel - 1) / panel * panel;
    ByteCenters out;
    out.k = k, out.width = rows.width, out.panel = panel;
    out.p.assign(padded * rows.width, 128), out.step.assign(padded, 1);
    for (Buffer<float>* of : {&out.half, &out.norm, &out.error}) of->assign(padded, 0);
    for (index_t c = 0; c < k; ++c)
        for (index_t j = 0; j < rows.d; ++j) {
            const bool positive = c < 2 ? c == 0 : rng() % 2;
            out.p[c / panel * panel * rows.width + j / 4 * 4 * panel + c % panel * 4 + j % 4] = positive ? 255 : 1;
        }
    return out;
}

std::int64_t product(const ByteRows& rows, index_t i, const ByteCenters& centers, index_t c) {
    const std::uint8_t* p = &centers.p[c / centers.panel * centers.panel * centers.width + c % centers.panel * 4];
    std::int64_t sum = 0;
    for (index_t j = 0; j < rows.d; ++j)
        sum += static_cast<std::int64_t>(rows.row(i)[j]) * (p[j / 4 * 4 * centers.panel + j % 4] - 128);
    return sum;
}

// How many products differ from those of integers. A kernel shows the product with the one centre that is not
// infinitely far, in float32.
int wrong_products(const ByteKernels& kernels, index_t d, bool pairs) {
    std::mt19937 rng(7);
    const index_t k = kernels.panel + 2;
    const ByteRows rows = extreme_rows(7, d, pairs, rng);
    ByteCenters centers = extreme_centers(k, rows, kernels.panel, rng);
    const index_t id[] = {0, 1, 2, 3, 4, 5, 6};
    int wrong = 0;
    for (const index_t c : {index_t{0}, index_t{1}, kernels.panel - 1, k - 1}) {
        centers.half.assign(centers.half.size(), std::numeric_limits<float>::infinity());
        centers.half[c] = 0;
        ByteTile tile;
        kernels.two_smallest(rows, centers, 0, k, id, 7, tile);
        for (int r = 0; r < 7; ++r)
            wrong += tile.arg[r] != c || tile.best[r] != -static_cast<float>(product(rows, r, centers, c));
    }
    return wrong;
}

struct BytesOnly final : ByteTiles {
    std::unique_ptr<FilterQueries> prepare(const double*, index_t) const override { return nullptr; }
    void not_excluded(index_t, const FilterQueries&, std::uint64_t*) const override {}
};

// Of how many pairs the filter of greedy seeding compares a product with the limit of the row wrongly. The limit is the
// product with each candidate, or the number below. `mistake`: a byte of the first candidate is another one.
int wrongly_compared(const ByteKernels& kernels, index_t d, bool pairs, bool mistake = false) {
    std::mt19937 rng(9);
    const index_t n = TILE + 7, padded = 2 * TILE, m = 14;
    const ByteRows rows = extreme_rows(n, d, false, rng), candidates = extreme_rows(m, d, pairs, rng);
    BytesOnly tiles;
    tiles.n = n, tiles.d = d, tiles.words = (d + 3) / 4;
    tiles.q.assign(padded * tiles.words * 4, 128), tiles.step.assign(padded, 1);
    for (Buffer<float>* of : {&tiles.error, &tiles.norm}) of->assign(padded, 0);
    for (index_t i = 0; i < n; ++i)
        for (index_t j = 0; j < d; ++j)
            tiles.q[((i / STRIP * tiles.words + j / 4) * STRIP + i % STRIP) * 4 + j % 4] =
                static_cast<std::uint8_t>(rows.row(i)[j] + 128);
    TileQueries of;
    of.m = m, of.start = candidates.start, of.word.resize(tiles.words * m), of.step.assign(m, 1);
    for (Buffer<float>* zero : {&of.half, &of.norm, &of.error}) zero->assign(m, 0);
    std::vector<float> low(n * m, 0);
    for (index_t c = 0; c < m; ++c) {
        const std::int8_t* p = candidates.row(c);
        for (index_t w = 0; w < tiles.words; ++w) of.word[w * m + c] = plain::read<std::int32_t>(p + 4 * w);
        for (index_t i = 0; i < n; ++i) {
            std::int64_t sum = 0;
            for (index_t j = 0; j < d; ++j) sum += rows.row(i)[j] * p[j];
            low[i * m + c] = -static_cast<float>(sum);
        }
    }
    of.word[0] ^= mistake;
    int wrong = 0;
    for (index_t c = 0; c < m; ++c)
        for (const bool below : {false, true}) {
            tiles.limit.assign(padded, -INFINITY);
            for (index_t i = 0; i < n; ++i)
                tiles.limit[i] = below ? std::nextafter(low[i * m + c], -INFINITY) : low[i * m + c];
            for (index_t i = 0; i < padded; i += TILE) {
                std::vector<std::uint64_t> open(m);
                kernels.open_rows(tiles, i / TILE, of, open.data());
                for (index_t at = i; at < i + TILE; ++at)
                    for (index_t j = 0; j < m; ++j)
                        wrong += (open[j] >> (at - i) & 1) != (at < n && low[at * m + j] <= tiles.limit[at]);
            }
        }
    return wrong;
}

// Most rows set the scale. One that they are not like does not fit into bytes, and is left to exact arithmetic.
void check_far_row(const Kernels& set, const ByteKernels& kernels) {
    std::mt19937 rng(3);
    std::normal_distribution<double> normal;
    const Data<double> rows(2048, 4, [&](index_t i, index_t, auto&) { return (i == 1 ? 1e30 : 1) * normal(rng); });
    ByteRows bytes;
    bytes.pairs = kernels.pairs;
    check(set.make_byte_rows(rows.view(false), bytes) && std::isinf(bytes.error[1]) && !std::isinf(bytes.error[0]),
          "only the far row has no bytes");
    check(wrongly_excluded(rows, rows.rows({0}), set, kernels, 1) == 0, "a far row is excluded");
}

void check_kernels(const Kernels& set, const ByteKernels& kernels) {
    const Count f32 = compare_all<float>(set, kernels, 1), f64 = compare_all<double>(set, kernels, 1);
    std::printf("%s: %d pairs, width %g\n", kernels.name, f32.pairs + f64.pairs, std::max(f32.width, f64.width));
    check(f32.wrong == 0 && f64.wrong == 0, "a bound is wrong");
    check(f32.excluded == 0 && f64.excluded == 0, "a row that a candidate is nearer to is excluded");
    check(f32.pairs > 10000 && f64.pairs > 10000, "too few pairs were compared");
    check(f32.width < 0.2 && f64.width < 0.2, "the bounds are wide");
    const Count mistake = compare_all<float>(set, kernels, 0.01f);
    check(mistake.wrong > 0 && mistake.excluded > 0, "a wrong bound was not found");

    check_far_row(set, kernels);
    for (const index_t d : {index_t{1}, index_t{2}, index_t{63}, index_t{384}, MOST_BYTES}) {
        check(wrong_products(kernels, d, kernels.pairs) == 0, "a product is wrong");
        check(wrongly_compared(kernels, d, kernels.pairs) == 0, "a product with a candidate is wrong");
    }
    check(wrongly_compared(kernels, 384, kernels.pairs, true) > 0, "a wrong byte of a candidate was not found");
    if (kernels.pairs) {
        check(wrong_products(kernels, 384, false) > 0, "a product beyond 16 bits was not found");
        check(wrongly_compared(kernels, 384, false) > 0, "a product with a candidate beyond 16 bits was not found");
    }
}

}  // namespace

int main() {
    check_kept_bounds();
    for (const Kernels* set : available_kernels())
        for (const ByteKernels* kernels : available_byte_kernels(*set)) check_kernels(*set, *kernels);
    return failed != 0;
}
