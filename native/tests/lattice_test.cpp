// Rows on a grid, every instruction set: in their ball by integers, and sums of any number of labels.
#include <array>
#include <cmath>
#include <random>
#include <string>

#include "check.hpp"
#include "lattice.hpp"
#include "kernels.hpp"

using namespace kv;

namespace {

struct Case {
    index_t n, d, k;
    std::vector<double> x, center, radius;
    std::vector<label_t> label;

    Case(index_t n_, index_t d_, index_t k_) : n(n_), d(d_), k(k_), x(n_ * d_), center(k_ * d_), radius(k_), label(n_) {
        std::mt19937 rng(static_cast<unsigned>(n * 31 + d * 7 + k));
        std::normal_distribution<double> normal;
        for (double& v : x) v = normal(rng) * (rng() % 9 ? 1 : 1e200);
        for (double& v : center) v = normal(rng);
        for (double& r : radius) r = std::exp(4 * normal(rng));
        for (label_t& a : label) a = static_cast<label_t>(rng() % (k + 1)) - 1;
    }
    std::string name() const { return std::to_string(n) + " x " + std::to_string(d) + ", k " + std::to_string(k); }
};

void in_the_ball(const LatticeKernels& kernels, const Case& c, int bits) {
    const Lattice grid{Norm::l2, 1.0, std::ldexp(1.0, -bits)};
    std::vector<double> out(c.x.size());
    kernels.to_lattice({true, c.x.data(), c.n, c.d}, nullptr, nullptr, grid, out.data());
    bool on = true, in = true;
    for (index_t i = 0; i < c.n; ++i) {
        unsigned __int128 sum = 0;
        for (index_t j = 0; j < c.d; ++j) {
            const double steps = out[i * c.d + j] / grid.step;
            on &= steps == std::trunc(steps);
            const auto whole = static_cast<std::uint64_t>(std::fabs(steps));
            sum += static_cast<unsigned __int128>(whole) * whole;
        }
        in &= sum <= static_cast<unsigned __int128>(1) << (2 * bits);
    }
    check(on && in, "rows on the grid, in the ball: " + c.name());
}

// The sums of all rows are those of each row by itself.
void sums(const LatticeKernels& kernels, const Case& c) {
    const Lattice grid{Norm::l2, 1.0, 0x1p-21};
    const auto size = static_cast<std::size_t>(c.k * c.d);
    std::vector<double> total(size), squares(size), one(size), one_square(size), want(size), want_square(size);
    std::vector<index_t> count(c.k), one_count(c.k), want_count(c.k);
    std::vector<std::uint8_t> out(c.n);
    const LabelledRows all{c.x.data(), c.label.data(), c.n, c.d, c.center.data(), c.radius.data(), c.k};
    kernels.lattice_sums(all, grid, {total.data(), squares.data(), count.data()});
    kernels.outside_radius(all, out.data());
    for (index_t i = 0; i < c.n; ++i) {
        LabelledRows row = all;
        row.x += i * c.d, row.label += i, row.n = 1;
        kernels.lattice_sums(row, grid, {one.data(), one_square.data(), one_count.data()});
        for (std::size_t j = 0; j < size; ++j) want[j] += one[j], want_square[j] += one_square[j];
        for (index_t a = 0; a < c.k; ++a) want_count[a] += one_count[a];
    }
    check(total == want && squares == want_square && count == want_count, "sums: " + c.name());
}

}  // namespace

int main() {
    for (const Kernels* set : available_kernels()) {
        for (const auto& [n, d, k] : {std::array<index_t, 3>{0, 3, 2}, {1, 1, 1}, {700, 2, 3}, {300, 9, 40}, {50, 17, 200}}) {
            const Case c(n, d, k);
            for (const int bits : {8, 21, 52}) in_the_ball(*set->to_lattice, c, bits);
            sums(*set->to_lattice, c);
        }
    }
    return verdict();
}
