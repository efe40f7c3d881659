// Checks rows on a lattice on every instruction set: they are in their ball by integer arithmetic, and sums are exact.
#include "check.hpp"

namespace {

constexpr index_t SHAPES[][3] = {{0, 3, 2}, {1, 1, 1}, {2100, 2, 3}, {300, 9, 40}, {50, 17, 200}};  // n, d, k

struct Test {
    const LatticeKernels& kernels;
    index_t n, d, k;
    std::vector<double> x, center, radius;
    std::vector<label_t> label;
    std::string name;

    Test(const Kernels& set, index_t n_, index_t d_, index_t k_)
        : kernels(*set.lattice), n(n_), d(d_), k(k_), x(n * d), center(k * d), radius(k), label(n) {
        name = set.name + (" " + std::to_string(n)) + "x" + std::to_string(d) + " k=" + std::to_string(k) + ": ";
        std::mt19937 rng(static_cast<unsigned>(n * 31 + d * 7 + k));
        std::normal_distribution<double> normal;
        for (double& v : x) v = normal(rng) * (rng() % 9 ? 1 : 1e200);
        for (double& v : center) v = normal(rng);
        for (double& r : radius) r = std::exp(4 * normal(rng));
        for (label_t& a : label) a = static_cast<label_t>(rng() % (k + 1)) - 1;
    }

    void rows_are_in_the_ball(int bits) const {
        const Lattice lattice{Norm::l2, 1.0, std::ldexp(1.0, -bits)};
        std::vector<double> out(x.size());
        kernels.to_lattice({false, true, x.data(), nullptr, nullptr, n, d}, nullptr, nullptr, lattice, out.data());
        bool ok = true;
        for (index_t i = 0; i < n; ++i) {
            unsigned __int128 sum = 0;
            for (index_t j = 0; j < d; ++j) {
                const double steps = out[i * d + j] / lattice.step;
                const auto whole = static_cast<std::uint64_t>(std::fabs(steps));
                ok &= steps == std::trunc(steps);
                sum += static_cast<unsigned __int128>(whole) * whole;
            }
            ok &= sum <= static_cast<unsigned __int128>(1) << (2 * bits);
        }
        check(ok, name + "rows are lattice points in the ball");
    }

    void sums_are_those_of_single_rows() const {
        const Lattice lattice{Norm::l2, 1.0, 0x1p-21};
        std::vector<double> sum(k * d), square(k * d), one(k * d), one_square(k * d), want(k * d), want_square(k * d);
        std::vector<index_t> count(k), one_count(k), want_count(k);
        const LabelledRows all{x.data(), label.data(), n, d, center.data(), radius.data(), k};
        kernels.lattice_sums(all, lattice, {sum.data(), square.data(), count.data()});
        for (index_t i = 0; i < n; ++i) {
            LabelledRows row = all;
            row.x += i * d, row.label += i, row.n = 1;
            kernels.lattice_sums(row, lattice, {one.data(), one_square.data(), one_count.data()});
            for (index_t j = 0; j < k * d; ++j) want[j] += one[j], want_square[j] += one_square[j];
            for (index_t a = 0; a < k; ++a) want_count[a] += one_count[a];
        }
        check(sum == want && square == want_square && count == want_count, name + "sums are those of single rows");
        std::vector<std::uint8_t> outside(n);
        kernels.outside_radius(all, outside.data());
        bool ok = true;
        for (index_t i = 0; i < n; ++i) {
            long double sum = 0;  // squares of large values overflow a double
            for (index_t j = 0; j < d && label[i] >= 0; ++j)
                sum +=
                    std::pow((x[i * d + j] - static_cast<long double>(center[label[i] * d + j])) / radius[label[i]], 2);
            ok &= outside[i] == (sum > 1);
        }
        check(ok, name + "rows outside the radius are found");
    }
};

}  // namespace

int main() {
    return run_on_two_threads([] {
        for (const Kernels* set : available_kernels())
            for (const auto& [n, d, k] : SHAPES) {
                const Test test(*set, n, d, k);
                for (const int bits : {8, 21, 52}) test.rows_are_in_the_ball(bits);
                test.sums_are_those_of_single_rows();
            }
    });
}
