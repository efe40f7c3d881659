// Rows rounded to a lattice inside a ball, and their sums. In units of the step, a point of the lattice is a vector of
// integers: whether it is in the ball is decided without rounding, and sums are exact in any order.
//
// A row that is outside is first scaled to the surface of the ball, in floats, with sums in eight lanes that are added
// in one order. It is then rounded towards zero, and moved by single steps towards zero while it is still outside; this
// happens where rounding errors scaled it too little.
#include <cmath>

#include "kernels.hpp"

namespace kv::KV_ISA {
namespace {

constexpr int SUMS = 8;  // lanes
constexpr double LARGEST = std::numeric_limits<double>::max();
constexpr double TWO_53 = 9007199254740992.0;  // 2^53

// Sums terms that are not negative. D is d if that is a compile-time constant, else 0; the order is the same.
template <int D, class F>
inline double sum_terms(index_t d, F term) {
    if constexpr (D == 1) return term(0);
    if constexpr (D == 2) return term(0) + term(1);
    if constexpr (D == 3) return (term(0) + term(2)) + term(1);
    if constexpr (D == 4) return (term(0) + term(2)) + (term(1) + term(3));
    double part[SUMS] = {};
    const index_t whole = d / SUMS * SUMS;
    for (index_t j = 0; j < whole; j += SUMS)
        for (int r = 0; r < SUMS; ++r) part[r] += term(j + r);
    for (index_t j = whole; j < d; ++j) part[j - whole] += term(j);
    for (int half = SUMS / 2; half; half /= 2)
        for (int r = 0; r < half; ++r) part[r] += part[r + half];
    return part[0];
}

inline double clamped(double low, double x, double high) {
    x = x < low ? low : x;
    return x > high ? high : x;
}

// A ball in units of the step.
struct Ball {
    Norm norm;
    double bound, step, unit;
    double surely_inside;          // a row whose computed norm (l2: squared) is below it is inside despite rounding
    double limit;                  // the largest norm (l2: squared) of integers in the ball, if that is below 2^53
    unsigned __int128 square = 0;  // otherwise, for l2, this is the limit

    explicit Ball(const Lattice& g) : norm(g.norm), bound(g.bound / g.step), step(g.step), unit(1 / g.step) {
        const double size = norm == Norm::l2 ? bound * bound : bound;
        surely_inside = size * (1 - 1e-6);
        limit = std::floor(bound);
        if (norm != Norm::l2) return;
        // bound = m / 2^(53 - exponent) with an integer m < 2^53. Its square is computed in integers and rounded down.
        int exponent;
        const auto m = static_cast<std::uint64_t>(std::ldexp(std::frexp(bound, &exponent), 53));
        square = (static_cast<unsigned __int128>(m) * m) >> (2 * (53 - exponent));
        limit = static_cast<double>(square);
    }
};

template <int D>
inline double size_of(const double* t, index_t d, const Ball& b) {
    return b.norm == Norm::l2 ? sum_terms<D>(d, [&](index_t j) { return t[j] * t[j]; })
                              : sum_terms<D>(d, [&](index_t j) { return std::fabs(t[j]); });
}

// Returns whether a row is outside, and scales it to the surface if `clip` is set. Values are divided by the largest
// first, so that squares do not overflow.
__attribute__((noinline)) bool clip_far(double* t, index_t d, const Ball& b, bool clip) {
    double largest = b.bound;
    for (index_t j = 0; j < d; ++j) largest = std::fabs(t[j]) > largest ? std::fabs(t[j]) : largest;
    const auto part = [&](index_t j) { return t[j] / largest; };
    const double norm = b.norm == Norm::l2 ? std::sqrt(sum_terms<0>(d, [&](index_t j) { return part(j) * part(j); }))
                                           : sum_terms<0>(d, [&](index_t j) { return std::fabs(part(j)); });
    const bool outside = norm * largest > b.bound;
    if (outside && clip) {
        const double scale = b.bound / norm;
        for (index_t j = 0; j < d; ++j) t[j] = part(j) * scale;
    }
    return outside;
}

bool outside_exactly(const double* t, index_t d, const Ball& b) {
    unsigned __int128 sum = 0;
    for (index_t j = 0; j < d; ++j) {
        const double size = std::fabs(t[j]);
        if (!(size < TWO_53)) return size >= TWO_53;  // NaN is not outside
        const auto steps = static_cast<std::uint64_t>(size);
        sum += static_cast<unsigned __int128>(steps) * steps;
    }
    return sum > b.square;
}

// Sums of integers are exact below 2^53, and a sum above that stays above it when rounded.
template <int D>
inline bool outside(const double* t, index_t d, const Ball& b) {
    return b.limit < TWO_53 ? size_of<D>(t, d, b) > b.limit : outside_exactly(t, d, b);
}

// Rounds t, in steps, to a lattice point in the ball.
template <int D>
inline void round_into_ball(double* t, index_t d, const Ball& b) {
    if (D) d = D;
    if (b.norm == Norm::max) {
        for (index_t j = 0; j < d; ++j) t[j] = std::trunc(clamped(-b.bound, t[j], b.bound));
        return;
    }
    if (!(size_of<D>(t, d, b) <= b.surely_inside)) clip_far(t, d, b, true);
    for (index_t j = 0; j < d; ++j) t[j] = std::trunc(t[j]);
    while (outside<D>(t, d, b))
        for (index_t j = 0; j < d; ++j) t[j] -= static_cast<double>((t[j] > 0) - (t[j] < 0));
}

using Row = Buffer<double>;

std::vector<Row> rows_for(int threads, index_t d) { return std::vector<Row>(threads, Row(d)); }

int threads_for_rows(index_t n, index_t d) {
    return threads_for(16.0 * static_cast<double>(n) * static_cast<double>(d));
}

template <int D, class T>
void to_lattice(const RowsView& v, const double* center, const double* half, const Ball& b, double* out) {
    const T* x = static_cast<const T*>(v.x);
    const index_t d = D ? D : v.d;
    auto scratch = rows_for(threads_for_rows(v.n, d), d);
    parallel_rows(v.n, scratch, [&](index_t from, index_t stop, Row& row) {
        double* t = row.data();
        for (index_t i = from; i < stop; ++i) {
            for (index_t j = 0; j < d; ++j) {
                const double u = clamped(-half[j], static_cast<double>(x[i * d + j]) - center[j], half[j]);
                t[j] = clamped(-LARGEST, u * b.unit, LARGEST);
            }
            round_into_ball<D>(t, d, b);
            for (index_t j = 0; j < d; ++j) out[i * d + j] = t[j] * b.step + 0.0;  // no -0.0
        }
    });
}

// Computes scaled residuals. If a tiny radius makes one overflow it is clipped to the largest float.
struct Residuals {
    const LabelledRows& f;
    std::vector<double> zeros;
    double one = 1;
    explicit Residuals(const LabelledRows& rows) : f(rows), zeros(f.center ? 0 : f.d) {}

    template <int D>
    void compute(index_t i, double unit, double* t) const {
        const index_t d = D ? D : f.d, own = f.label[i];
        const double* c = f.center ? f.center + own * d : zeros.data();
        const double r = f.radius ? f.radius[own] : one;
        for (index_t j = 0; j < d; ++j) t[j] = clamped(-LARGEST, (f.x[i * d + j] - c[j]) / r * unit, LARGEST);
    }
};

// The sums of one thread. Those of the first thread are the output itself.
struct PartialSums {
    Row row;
    std::vector<double> sums, squares;
    std::vector<index_t> counts;
    LatticeSums to;

    PartialSums(const LabelledRows& f, const LatticeSums& out, bool first) : row(f.d), to(out) {
        if (!first) {
            sums.resize(f.k * f.d);
            squares.resize(out.squares ? sums.size() : 0);
            counts.resize(f.k);
            to = {sums.data(), out.squares ? squares.data() : nullptr, counts.data()};
            return;
        }
        std::fill(out.sums, out.sums + f.k * f.d, 0.0);
        if (out.squares) std::fill(out.squares, out.squares + f.k * f.d, 0.0);
        std::fill(out.counts, out.counts + f.k, index_t{0});
    }
};

// The partial sums of all threads but the first take at most half the memory of the rows.
std::vector<PartialSums> partial_sums(const LabelledRows& f, const LatticeSums& out) {
    const index_t fit = 1 + f.n / (4 * std::max<index_t>(f.k, 1));
    std::vector<PartialSums> all;
    const int threads = static_cast<int>(std::min<index_t>(threads_for_rows(f.n, f.d), fit));
    all.reserve(threads);
    for (int me = 0; me < threads; ++me) all.emplace_back(f, out, me == 0);
    return all;
}

void merge(const std::vector<PartialSums>& all, const LabelledRows& f, double step, const LatticeSums& out) {
    const index_t size = f.k * f.d;
    for (std::size_t s = 1; s < all.size(); ++s) {
        for (index_t j = 0; j < size; ++j) out.sums[j] += all[s].to.sums[j];
        for (index_t j = 0; out.squares && j < size; ++j) out.squares[j] += all[s].to.squares[j];
        for (index_t a = 0; a < f.k; ++a) out.counts[a] += all[s].to.counts[a];
    }
    for (index_t j = 0; j < size; ++j) out.sums[j] *= step;
    for (index_t j = 0; out.squares && j < size; ++j) out.squares[j] *= step;
}

// Squares: a row t in the unit ball has sum of t_j^2 <= 1 / step^2 in squared steps, an integer below 2^53, hence
// exact. t_j^2 * step is the square in steps (exact, since step is a power of two), and is rounded down. The squares of
// a row therefore sum to at most 1 / step steps: they are in the unit ball of l1.
template <int D>
void lattice_sums(const LabelledRows& f, const Ball& b, const LatticeSums& out) {
    const index_t d = D ? D : f.d;
    const Residuals residuals(f);
    auto all = partial_sums(f, out);
    parallel_rows(f.n, all, [&](index_t from, index_t stop, PartialSums& partial) {
        double* t = partial.row.data();
        for (index_t i = from; i < stop; ++i) {
            if (f.label[i] < 0) continue;
            residuals.compute<D>(i, b.unit, t);
            round_into_ball<D>(t, d, b);
            const index_t at = f.label[i] * d;
            ++partial.to.counts[f.label[i]];
            for (index_t j = 0; j < d; ++j) partial.to.sums[at + j] += t[j];
            if (!partial.to.squares) continue;
            for (index_t j = 0; j < d; ++j) partial.to.squares[at + j] += std::floor(t[j] * t[j] * b.step);
        }
    });
    merge(all, f, b.step, out);
}

template <int D>
void outside_radius(const LabelledRows& f, std::uint8_t* out) {
    const index_t d = D ? D : f.d;
    const Residuals residuals(f);
    const Ball unit({Norm::l2, 1.0, 1.0});
    auto scratch = rows_for(threads_for_rows(f.n, d), d);
    parallel_rows(f.n, scratch, [&](index_t from, index_t stop, Row& row) {
        double* t = row.data();
        for (index_t i = from; i < stop; ++i) {
            out[i] = 0;
            if (f.label[i] < 0) continue;
            residuals.compute<D>(i, 1.0, t);
            out[i] = !(size_of<D>(t, d, unit) <= unit.surely_inside) && clip_far(t, d, unit, false);
        }
    });
}

}  // namespace

const LatticeKernels lattice_kernels = {
    .to_lattice =
        [](const RowsView& v, const double* center, const double* half, const Lattice& g, double* out) {
            const std::vector<double> zeros(v.d), unlimited(v.d, std::numeric_limits<double>::infinity());
            const double *c = center ? center : zeros.data(), *h = half ? half : unlimited.data();
            with_features(v.d, [&](auto d) {
                with_type(v.is_double, [&]<class T>(T) { to_lattice<d(), T>(v, c, h, Ball(g), out); });
            });
        },
    .lattice_sums =
        [](const LabelledRows& f, const Lattice& g, const LatticeSums& out) {
            with_features(f.d, [&](auto d) { lattice_sums<d()>(f, Ball(g), out); });
        },
    .outside_radius = [](const LabelledRows& f,
                         std::uint8_t* out) { with_features(f.d, [&](auto d) { outside_radius<d()>(f, out); }); },
};

}  // namespace kv::KV_ISA
