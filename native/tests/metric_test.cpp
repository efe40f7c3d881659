// Distances against the formula, every instruction set; the same bits whichever way a pair is met.
#include <cmath>
#include <random>
#include <string>

#include "check.hpp"
#include "kernels.hpp"

using namespace kv;

namespace {

// Rows with blank margins, a third of them repeated. Sized exactly, so that a stray read is seen.
template <class T>
struct Data {
    index_t n, d;
    std::vector<T> x, transposed;

    Data(index_t n_, index_t d_) : n(n_), d(d_), x(n_ * d_), transposed(n_ * d_) {
        std::mt19937 rng(static_cast<unsigned>(n * 31 + d));
        std::normal_distribution<double> g;
        for (index_t i = 0; i < n; ++i)
            for (index_t j = 0; j < d; ++j) {
                const bool blank = j < d / 4 || j >= d - d / 5 * (1 + i / 4 % 2);
                x[i * d + j] = i % 3 == 2 ? x[(i / 2) * d + j] : static_cast<T>(blank ? 0.0 : g(rng));
                transposed[j * n + i] = x[i * d + j];
            }
    }
    PointsView rows(bool few_features) const { return {sizeof(T) == 8, x.data(), few_features ? transposed.data() : nullptr, n, d}; }

    double distance(index_t i, index_t o, int kind) const {
        double sum = 0;
        for (index_t j = 0; j < d; ++j) {
            const double a = double(x[i * d + j]) - double(x[o * d + j]);
            sum += kind == L1 ? std::abs(a) : a * a;
        }
        return kind == L2 ? std::sqrt(sum) : kind == COSINE ? sum / 2 : sum;
    }
};

template <class T>
std::vector<T> all_pairs(const Kernels& set, const Data<T>& data, int kind, bool few_features) {
    std::vector<T> out(data.n * data.n);
    set.metric->square(data.rows(few_features), kind, out.data());
    return out;
}

template <class T>
void shape(index_t n, index_t d) {
    const Data<T> data(n, d);
    const double tol = 4e3 * std::numeric_limits<T>::epsilon();
    for (const int kind : {L1, L2, COSINE})
        for (const bool few_features : {false, true}) {
            const auto first = all_pairs(*available_kernels().front(), data, kind, few_features);
            for (const Kernels* set : available_kernels()) {
                const std::string name = std::string(set->name) + " " + std::to_string(n) + "x" + std::to_string(d) +
                                         (sizeof(T) == 8 ? " float64 " : " float32 ") + std::to_string(kind) + (few_features ? " narrow" : "");
                const auto square = all_pairs(*set, data, kind, few_features);
                check(square == first, name + ": the same bits on every set");
                std::vector<T> rows(n * n);
                set->metric->rows(data.rows(few_features), data.x.data(), n, kind, rows.data());
                check(square == rows, name + ": all pairs are rows");
                bool right = true;
                for (index_t i = 0; i < n; ++i)
                    for (index_t o = 0; o < n; ++o) {
                        const double d0 = data.distance(i, o, kind);
                        right = right && std::abs(double(square[i * n + o]) - d0) <= tol * (1 + d0);
                    }
                check(right, name + ": the formula");
            }
        }
}

}  // namespace

int main() {
    // Around a vector's width, the four rows of a group, the side of a tile; more vectors than a word has bits.
    for (const auto& [n, d] : std::vector<std::pair<index_t, index_t>>{
             {1, 1}, {3, 7}, {4, 8}, {5, 16}, {6, 17}, {9, 31}, {30, 64}, {127, 33}, {129, 40}, {133, 5}, {7, 530}, {10, 1100}}) {
        shape<float>(n, d);
        shape<double>(n, d);
    }
    return verdict();
}
