// Rows in a ball on a grid. A row is a vector of steps: what is on the grid is an integer, and whether
// integers are in the ball is decided without rounding. So are their sums, in any order.
//
// A row is put on the grid by itself: pulled to the ball's surface if it is outside (floats, sums in
// eight lanes folded in one order), rounded towards zero, and moved by a step towards zero for as long
// as it is outside, which happens where floats pulled it by a hair too little.
#include "fixed.hpp"

#include <cmath>

#include "kernels.hpp"

namespace kv::KV_ISA {
namespace {

constexpr int SIDE = 8;
constexpr double MOST = std::numeric_limits<double>::max();
constexpr double EXACT = 9007199254740992.0;  // 2^53

// Pre: terms >= 0. D: the dimension if the compiler knows it, else 0; the order is the same.
template <int D, class F>
inline double added(index_t d, F term) {
    if constexpr (D == 1) return term(0);
    if constexpr (D == 2) return term(0) + term(1);
    if constexpr (D == 3) return (term(0) + term(2)) + term(1);
    if constexpr (D == 4) return (term(0) + term(2)) + (term(1) + term(3));
    double part[SIDE] = {};
    const index_t whole = d / SIDE * SIDE;
    for (index_t j = 0; j < whole; j += SIDE)
        for (int r = 0; r < SIDE; ++r) part[r] += term(j + r);
    for (index_t j = whole; j < d; ++j) part[j - whole] += term(j);
    for (int half = SIDE / 2; half; half /= 2)
        for (int r = 0; r < half; ++r) part[r] += part[r + half];
    return part[0];
}

inline double between(double low, double x, double high) {
    x = x < low ? low : x;
    return x > high ? high : x;
}

// A ball, in steps.
struct Ball {
    Norm norm;
    double bound, step, unit;
    double surely;  // a row's norm (l2: squared) is below it: it is inside, whatever floats did
    double limit;   // integers' norm (l2: squared) may be so large, if that is below 2^53
    unsigned __int128 square = 0;  // else this is the limit, of l2

    explicit Ball(const Lattice& g) : norm(g.norm), bound(g.bound / g.step), step(g.step), unit(1 / g.step) {
        const double size = norm == Norm::l2 ? bound * bound : bound;
        surely = size * (1 - 1e-6);
        limit = std::floor(bound);
        if (norm != Norm::l2) return;
        // bound = m / 2^less with an integer m < 2^53: the square, rounded down, in integers.
        int exponent;
        const auto m = static_cast<std::uint64_t>(std::ldexp(std::frexp(bound, &exponent), 53));
        square = (static_cast<unsigned __int128>(m) * m) >> (2 * (53 - exponent));
        limit = static_cast<double>(square);
    }
};

template <int D>
inline double size_of(const double* t, index_t d, const Ball& b) {
    return b.norm == Norm::l2 ? added<D>(d, [&](index_t j) { return t[j] * t[j]; })
                              : added<D>(d, [&](index_t j) { return std::fabs(t[j]); });
}

// Divided by the largest coordinate first: squares of large numbers overflow. Returns whether the row
// was outside; `pull`: it is pulled to the surface.
__attribute__((noinline)) bool measured(double* t, index_t d, const Ball& b, bool pull) {
    double largest = b.bound;
    for (index_t j = 0; j < d; ++j) largest = std::fabs(t[j]) > largest ? std::fabs(t[j]) : largest;
    const auto part = [&](index_t j) { return t[j] / largest; };
    const double norm = b.norm == Norm::l2
                            ? std::sqrt(added<0>(d, [&](index_t j) { return part(j) * part(j); }))
                            : added<0>(d, [&](index_t j) { return std::fabs(part(j)); });
    const bool far = norm * largest > b.bound;
    if (far && pull) {
        const double scale = b.bound / norm;
        for (index_t j = 0; j < d; ++j) t[j] = part(j) * scale;
    }
    return far;
}

bool outside_exactly(const double* t, index_t d, const Ball& b) {
    unsigned __int128 sum = 0;
    for (index_t j = 0; j < d; ++j) {
        const double size = std::fabs(t[j]);
        if (!(size < EXACT)) return size >= EXACT;  // not a number: nowhere
        const auto steps = static_cast<std::uint64_t>(size);
        sum += static_cast<unsigned __int128>(steps) * steps;
    }
    return sum > b.square;
}

// Integers below 2^53 are added exactly, and rounding keeps a sum above that above it.
template <int D>
inline bool outside(const double* t, index_t d, const Ball& b) {
    return b.limit < EXACT ? size_of<D>(t, d, b) > b.limit : outside_exactly(t, d, b);
}

// t in steps: onto the grid, into the ball.
template <int D>
inline void put(double* t, index_t d, const Ball& b) {
    if (D) d = D;
    if (b.norm == Norm::max) {
        for (index_t j = 0; j < d; ++j) t[j] = std::trunc(between(-b.bound, t[j], b.bound));
        return;
    }
    if (!(size_of<D>(t, d, b) <= b.surely)) measured(t, d, b, true);
    for (index_t j = 0; j < d; ++j) t[j] = std::trunc(t[j]);
    while (outside<D>(t, d, b))
        for (index_t j = 0; j < d; ++j) t[j] -= static_cast<double>((t[j] > 0) - (t[j] < 0));
}

// f(std::integral_constant<D>) for a d that is worth its own code.
template <class F>
void for_dimension(index_t d, F f) {
    switch (d) {
        case 1: return f(std::integral_constant<int, 1>{});
        case 2: return f(std::integral_constant<int, 2>{});
        case 3: return f(std::integral_constant<int, 3>{});
        case 4: return f(std::integral_constant<int, 4>{});
        default: return f(std::integral_constant<int, 0>{});
    }
}

using Row = Buffer<double>;

std::vector<Row> rows_for(int threads, index_t d) {
    return std::vector<Row>(static_cast<std::size_t>(threads), Row(static_cast<std::size_t>(d)));
}

int hands(index_t n, index_t d) { return threads_for(16.0 * static_cast<double>(n) * static_cast<double>(d)); }

template <int D, class T>
void fixed(const Wares& w, const double* centre, const double* half, const Ball& b, double* out) {
    const T* x = static_cast<const T*>(w.x);
    const index_t d = D ? D : w.d;
    auto scratch = rows_for(hands(w.n, d), d);
    parallel(blocks_of(w.n), scratch, [&](index_t block, Row& row) {
        double* t = row.data();
        for (index_t i = block * BLOCK; i < std::min(w.n, (block + 1) * BLOCK); ++i) {
            for (index_t j = 0; j < d; ++j) {
                const double u = between(-half[j], static_cast<double>(x[i * d + j]) - centre[j], half[j]);
                t[j] = between(-MOST, u * b.unit, MOST);
            }
            put<D>(t, d, b);
            for (index_t j = 0; j < d; ++j) out[i * d + j] = t[j] * b.step + 0.0;  // no -0.0
        }
    });
}

// A row in its frame, in steps. Where a tiny radius makes it overflow its direction is kept, roughly.
struct Frames {
    const Framed& f;
    std::vector<double> nowhere;
    double one = 1;
    explicit Frames(const Framed& framed)
        : f(framed), nowhere(static_cast<std::size_t>(f.centre ? 0 : f.d)) {}

    template <int D>
    void see(index_t i, double unit, double* t) const {
        const index_t d = D ? D : f.d, own = f.label[i];
        const double* c = f.centre ? f.centre + own * d : nowhere.data();
        const double r = f.radius ? f.radius[own] : one;
        for (index_t j = 0; j < d; ++j) t[j] = between(-MOST, (f.x[i * d + j] - c[j]) / r * unit, MOST);
    }
};

// What one thread adds up. The first one's table is the result.
struct Sheet {
    Row row;
    std::vector<double> sums, squares;
    std::vector<index_t> counts;
    Totals to;

    Sheet(const Framed& f, const Totals& out, bool first) : row(static_cast<std::size_t>(f.d)), to(out) {
        if (!first) {
            sums.resize(static_cast<std::size_t>(f.k * f.d));
            squares.resize(out.squares ? sums.size() : 0);
            counts.resize(static_cast<std::size_t>(f.k));
            to = {sums.data(), out.squares ? squares.data() : nullptr, counts.data()};
            return;
        }
        std::fill(out.sums, out.sums + f.k * f.d, 0.0);
        if (out.squares) std::fill(out.squares, out.squares + f.k * f.d, 0.0);
        std::fill(out.counts, out.counts + f.k, index_t{0});
    }
};

// All threads' sheets but the first together take at most half the memory of the rows.
std::vector<Sheet> sheets(const Framed& f, const Totals& out) {
    const index_t fit = 1 + f.n / (4 * std::max<index_t>(f.k, 1));
    std::vector<Sheet> all;
    const int threads = static_cast<int>(std::min<index_t>(hands(f.n, f.d), fit));
    all.reserve(static_cast<std::size_t>(threads));
    for (int me = 0; me < threads; ++me) all.emplace_back(f, out, me == 0);
    return all;
}

void gather(const std::vector<Sheet>& all, const Framed& f, double step, const Totals& out) {
    const index_t size = f.k * f.d;
    for (std::size_t s = 1; s < all.size(); ++s) {
        for (index_t j = 0; j < size; ++j) out.sums[j] += all[s].to.sums[j];
        for (index_t j = 0; out.squares && j < size; ++j) out.squares[j] += all[s].to.squares[j];
        for (index_t a = 0; a < f.k; ++a) out.counts[a] += all[s].to.counts[a];
    }
    for (index_t j = 0; j < size; ++j) out.sums[j] *= step;
    for (index_t j = 0; out.squares && j < size; ++j) out.squares[j] *= step;
}

// Squares. A row t in the unit ball has sum of t_j^2 <= 1 / step^2, in squared steps: an integer below
// 2^53, hence exact. t_j^2 * step is the square in steps (a product with a power of two: exact), and
// rounded down. So a row's squares add up to at most 1 / step steps: they are in the unit ball of l1.
template <int D>
void framed(const Framed& f, const Ball& b, const Totals& out) {
    const index_t d = D ? D : f.d;
    const Frames frames(f);
    auto all = sheets(f, out);
    parallel(blocks_of(f.n), all, [&](index_t block, Sheet& sheet) {
        double* t = sheet.row.data();
        for (index_t i = block * BLOCK; i < std::min(f.n, (block + 1) * BLOCK); ++i) {
            if (f.label[i] < 0) continue;
            frames.see<D>(i, b.unit, t);
            put<D>(t, d, b);
            const index_t at = f.label[i] * d;
            ++sheet.to.counts[f.label[i]];
            for (index_t j = 0; j < d; ++j) sheet.to.sums[at + j] += t[j];
            if (!sheet.to.squares) continue;
            for (index_t j = 0; j < d; ++j) sheet.to.squares[at + j] += std::floor(t[j] * t[j] * b.step);
        }
    });
    gather(all, f, b.step, out);
}

template <int D>
void beyond(const Framed& f, std::uint8_t* out) {
    const index_t d = D ? D : f.d;
    const Frames frames(f);
    const Ball unit({Norm::l2, 1.0, 1.0});
    auto scratch = rows_for(hands(f.n, d), d);
    parallel(blocks_of(f.n), scratch, [&](index_t block, Row& row) {
        double* t = row.data();
        for (index_t i = block * BLOCK; i < std::min(f.n, (block + 1) * BLOCK); ++i) {
            out[i] = 0;
            if (f.label[i] < 0) continue;
            frames.see<D>(i, 1.0, t);
            out[i] = !(size_of<D>(t, d, unit) <= unit.surely) && measured(t, d, unit, false);
        }
    });
}

}  // namespace

const FixedKernels fixed_kernels = {
    [](const Wares& w, const double* centre, const double* half, const Lattice& g, double* out) {
        const std::vector<double> nowhere(static_cast<std::size_t>(w.d));
        const std::vector<double> open(static_cast<std::size_t>(w.d), std::numeric_limits<double>::infinity());
        const double *c = centre ? centre : nowhere.data(), *h = half ? half : open.data();
        for_dimension(w.d, [&](auto d) {
            w.wide ? fixed<d(), double>(w, c, h, Ball(g), out) : fixed<d(), float>(w, c, h, Ball(g), out);
        });
    },
    [](const Framed& f, const Lattice& g, const Totals& out) {
        for_dimension(f.d, [&](auto d) { framed<d()>(f, Ball(g), out); });
    },
    [](const Framed& f, std::uint8_t* out) {
        for_dimension(f.d, [&](auto d) { beyond<d()>(f, out); });
    },
};

}  // namespace kv::KV_ISA
