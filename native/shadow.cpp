// The pass over a shadow, and its making. See shadow.hpp for the idea.
#include "shadow.hpp"

#include <algorithm>
#include <cmath>

#include "kernels.hpp"
#include "vector.hpp"

namespace kv::KV_ISA {
namespace {

constexpr int MOST = W == 16 ? 7 : 3;  // candidates whose values fit the registers

inline vi load_words(const std::int8_t* p) {
    vi v;
    std::memcpy(&v, p, sizeof v);
    return v;
}

// N candidates from `at` against one tile: maybe[j][r] is nonzero where the row is within reach.
// Every 32-bit lane holds four rows' bytes; shifting them out by fours costs less than widening.
template <int N>
void meet(const std::int8_t* q, index_t d, const float* reach, const Beams& beams, index_t at,
          std::int8_t* maybe) {
    for (int g = 0; g < TILE / 4; g += W) {
        vf acc[N][4];
        for (int j = 0; j < N; ++j)
            for (int b = 0; b < 4; ++b) acc[j][b] = splat(beams.half[at + j]);
        const float* a = beams.a.data() + at;
        for (index_t i = 0; i < d; ++i, a += beams.m) {
            const vi word = load_words(q + i * TILE + 4 * g);
            vf v[4];
            for (int b = 0; b < 4; ++b) v[b] = __builtin_convertvector((word << (24 - 8 * b)) >> 24, vf);
            for (int j = 0; j < N; ++j)
                for (int b = 0; b < 4; ++b) acc[j][b] -= v[b] * a[j];
        }
        for (int j = 0; j < N; ++j) {
            vi bytes{};
            for (int b = 0; b < 4; ++b)
                bytes |= (acc[j][b] < load(reach + b * (TILE / 4) + g)) & splat(static_cast<std::int32_t>(255u << 8 * b));
            std::memcpy(maybe + (at + j) * TILE + 4 * g, &bytes, sizeof bytes);
        }
    }
}

// Per coordinate a middle and how far the shadow follows it on either side: everything, or sixteen
// standard deviations. Rows beyond that keep a large blur and are always measured.
struct Span {
    std::vector<double> middle, half;
};

template <class T>
Span span(const Dense<T>& rows) {
    constexpr index_t SLICES = 32;
    const index_t d = rows.d;
    std::vector<double> part(SLICES * 4 * d, 0);
    parallel(SLICES, threads_for(4.0 * static_cast<double>(rows.n * d)), [&](index_t slice) {
        double *sum = part.data() + slice * 4 * d, *square = sum + d, *low = square + d, *high = low + d;
        for (index_t i = rows.n * slice / SLICES; i < rows.n * (slice + 1) / SLICES; ++i) {
            const T *x = rows.row(i), *first = rows.row(0);
            for (index_t j = 0; j < d; ++j) {
                const double v = static_cast<double>(x[j]) - static_cast<double>(first[j]);
                sum[j] += v, square[j] += v * v;
                low[j] = v < low[j] ? v : low[j], high[j] = v > high[j] ? v : high[j];
            }
        }
    });
    Span out{std::vector<double>(d), std::vector<double>(d)};
    const double n = static_cast<double>(rows.n);
    for (index_t j = 0; j < d; ++j) {
        double sum = 0, square = 0, low = 0, high = 0;
        for (index_t slice = 0; slice < SLICES; ++slice) {
            const double* p = part.data() + slice * 4 * d + j;
            sum += p[0], square += p[d], low = std::min(low, p[2 * d]), high = std::max(high, p[3 * d]);
        }
        const double mean = sum / n, deviation = std::sqrt(std::max(0.0, square / n - mean * mean));
        const double from = std::max(low, mean - 16 * deviation), to = std::min(high, mean + 16 * deviation);
        out.middle[j] = static_cast<double>(rows.row(0)[j]) + (from + to) / 2;
        out.half[j] = std::max(0.0, (to - from) / 2);
    }
    return out;
}

constexpr double MOST_BYTE = 127;

// Whole vectors: adding and taking away 1.5 * 2^52 rounds to a whole number.
inline vd rounded(vd v, double most) {
    constexpr double magic = 6755399441055744.0;
    const vd high = most - vd{}, low = -most - vd{};
    v = v < low ? low : v;
    v = v > high ? high : v;
    return (v + magic) - magic;
}
template <class T>
inline vd load_wide(const T* p) {
    typedef T vt __attribute__((vector_size(sizeof(T) * W)));
    vt v;
    std::memcpy(&v, p, sizeof v);
    return __builtin_convertvector(v, vd);
}

template <class T>
void cast_row(const T* x, const Shadow& s, const double* inverse, std::int8_t* out, double& norm2, double& rest) {
    const index_t whole = s.d / W * W;
    vd norms{}, rests{};
    std::int32_t word[W];
    for (index_t j = 0; j < whole; j += W) {
        const vd v = (load_wide(x + j) - load_wide(s.offset.data() + j)) * s.scale;
        const vd number = rounded(v * load_wide(inverse + j), MOST_BYTE);
        const vd near = number * load_wide(s.step.data() + j), off = v - near;
        norms += near * near, rests += off * off;
        const vi words = __builtin_convertvector(number, vi);
        std::memcpy(word, &words, sizeof words);
        for (int l = 0; l < W; ++l) out[j + l] = static_cast<std::int8_t>(word[l]);
    }
    norm2 = rest = 0;
    for (int l = 0; l < W; ++l) norm2 += norms[l], rest += rests[l];
    for (index_t j = whole; j < s.d; ++j) {
        const double v = (static_cast<double>(x[j]) - s.offset[j]) * s.scale;
        const double number = std::nearbyint(std::clamp(v * inverse[j], -MOST_BYTE, MOST_BYTE));
        const double near = number * s.step[j], off = v - near;
        norm2 += near * near, rest += off * off;
        out[j] = static_cast<std::int8_t>(number);
    }
}

template <class T>
void cast_block(const Dense<T>& rows, index_t from, index_t stop, const double* inverse, Shadow& s) {
    const index_t d = s.d;
    std::vector<std::int8_t> flat(TILE * d, 0);
    for (index_t at = from; at < stop; at += TILE) {
        const index_t count = std::min<index_t>(TILE, stop - at);
        for (index_t r = 0; r < count; ++r) {
            double norm2, rest;
            cast_row(rows.row(at + r), s, inverse, flat.data() + r * d, norm2, rest);
            s.norm2[at + r] = static_cast<float>(norm2 * (1 - 1e-6));
            s.blur[at + r] = static_cast<float>(std::sqrt(rest) * (1 + 1e-6) + 1e-12);
        }
        std::int8_t* q = s.q.data() + at * d;
        for (index_t j = 0; j < d; ++j)
            for (index_t r = 0; r < TILE; ++r) q[j * TILE + r] = flat[r * d + j];
    }
}

}  // namespace

template <class T>
bool cast(const Dense<T>& rows, const double* cost, Shadow& s) {
    const index_t d = rows.d;
    const Span spans = span(rows);
    double diagonal = 0;
    for (double h : spans.half) diagonal += h * h;
    diagonal = std::sqrt(diagonal);
    if (!(diagonal > 1e-100 && diagonal < 1e100) || d > 100000) return false;  // beyond the error bound
    s.d = d, s.tiles = (rows.n + TILE - 1) / TILE;
    s.offset = spans.middle, s.step.resize(d), s.radius = 1.001;
    int exponent;
    std::frexp(diagonal, &exponent);
    s.scale = std::ldexp(1.0, -exponent);
    std::vector<double> inverse(d);
    for (index_t j = 0; j < d; ++j) {
        s.step[j] = spans.half[j] * s.scale / MOST_BYTE;
        inverse[j] = s.step[j] > 0 ? 1 / s.step[j] : 0;
    }
    s.q.assign(s.tiles * TILE * d, 0);
    for (Buffer<float>* b : {&s.norm2, &s.blur}) b->assign(s.tiles * TILE, 0);
    s.reach.assign(s.tiles * TILE, -std::numeric_limits<float>::infinity());  // past the end: never
    parallel(blocks_of(rows.n), threads_for(8.0 * static_cast<double>(rows.n * d)), [&](index_t block) {
        const index_t from = block * BLOCK, stop = std::min(rows.n, from + BLOCK);
        cast_block(rows, from, stop, inverse.data(), s);
        for (index_t i = from; i < stop; ++i) s.lower(i, cost[i]);
    });
    return true;
}

bool aim(const Shadow& s, const double* c, index_t m, Beams& beams) {
    beams.m = m;
    beams.a.resize(s.d * m), beams.half.resize(m);
    for (index_t j = 0; j < m; ++j) {
        double norm2 = 0;
        for (index_t i = 0; i < s.d; ++i) {
            const double v = (c[j * s.d + i] - s.offset[i]) * s.scale;
            norm2 += v * v;
            beams.a[i * m + j] = static_cast<float>(v * s.step[i]);
        }
        if (!(norm2 < 1e30)) return false;
        const double slack = 1.01 * (static_cast<double>(s.d) + 16) * UNIT * std::sqrt(norm2) * (s.radius + std::sqrt(norm2)) + 1e-30;
        beams.half[j] = static_cast<float>(norm2 / 2 - slack);
    }
    return true;
}

void meet(const Shadow& s, index_t tile, const Beams& beams, std::int8_t* maybe) {
    const float* reach = s.reach.data() + tile * TILE;
    const std::int8_t* q = s.q.data() + tile * s.d * TILE;
    const index_t groups = (beams.m + MOST - 1) / MOST, size = (beams.m + groups - 1) / groups;
    for (index_t at = 0; at < beams.m; at += size) switch (std::min(size, beams.m - at)) {
            case 1: meet<1>(q, s.d, reach, beams, at, maybe); break;
            case 2: meet<2>(q, s.d, reach, beams, at, maybe); break;
            case 3: meet<3>(q, s.d, reach, beams, at, maybe); break;
            case 4: meet<4>(q, s.d, reach, beams, at, maybe); break;
            case 5: meet<5>(q, s.d, reach, beams, at, maybe); break;
            case 6: meet<6>(q, s.d, reach, beams, at, maybe); break;
            case 7: meet<7>(q, s.d, reach, beams, at, maybe); break;
        }
}

template bool cast(const Dense<float>&, const double*, Shadow&);
template bool cast(const Dense<double>&, const double*, Shadow&);
}  // namespace kv::KV_ISA
