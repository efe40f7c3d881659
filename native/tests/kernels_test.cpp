// The kernels against brute force, every instruction set, dense and sparse, on awkward shapes.
#include <array>
#include <cmath>
#include <random>
#include <string>

#include "check.hpp"
#include "kernels.hpp"

using namespace kv;

namespace {

// A matrix both ways: dense, and CSR of its nonzeros. Sized exactly, so that a stray read is seen.
template <class T>
struct Data {
    index_t n, d;
    std::vector<T> x, stored;
    std::vector<std::int32_t> column;
    std::vector<index_t> start{0};

    Data(index_t n_, index_t d_, double offset, double zeros, std::mt19937& rng) : n(n_), d(d_), x(n_ * d_) {
        std::uniform_real_distribution<double> u(0, 1);
        for (index_t i = 0; i < n; ++i) {
            for (index_t j = 0; j < d; ++j) {
                const T v = u(rng) < zeros ? T(0) : static_cast<T>(offset + u(rng));
                x[i * d + j] = v;
                if (v != T(0)) stored.push_back(v), column.push_back(static_cast<std::int32_t>(j));
            }
            start.push_back(static_cast<index_t>(stored.size()));
        }
    }
    RowsView view(bool sparse) const {
        const void* values = sparse ? static_cast<const void*>(stored.data()) : x.data();
        return {sparse, sizeof(T) == 8, values, column.data(), start.data(), n, d};
    }
    double dist2(index_t i, const double* c) const {
        double sum = 0;
        for (index_t j = 0; j < d; ++j) {
            const double v = static_cast<double>(x[i * d + j]) - c[j];
            sum += v * v;
        }
        return sum;
    }
    std::vector<double> rows(const std::vector<index_t>& id) const {
        std::vector<double> out;
        for (index_t i : id) out.insert(out.end(), x.begin() + i * d, x.begin() + (i + 1) * d);
        return out;
    }
};

// A label is right if no centre is nearer by more than rounding.
template <class T>
bool right(const Data<T>& data, const std::vector<double>& c, const std::vector<label_t>& labels) {
    const index_t k = static_cast<index_t>(c.size()) / data.d;
    for (index_t i = 0; i < data.n; ++i) {
        if (labels[i] < 0 || labels[i] >= k) return false;
        const double own = data.dist2(i, &c[labels[i] * data.d]);
        double norm = 0;
        for (index_t j = 0; j < data.d; ++j) norm += std::pow(static_cast<double>(data.x[i * data.d + j]), 2);
        for (index_t j = 0; j < k; ++j)
            if (data.dist2(i, &c[j * data.d]) < own - 1e-12 * (own + norm)) return false;
    }
    return true;
}

std::vector<float> step(std::vector<double>& c, index_t d, std::mt19937& rng) {
    std::uniform_real_distribution<double> u(-0.05, 0.05);
    std::vector<float> moved(c.size() / d);
    for (std::size_t j = 0; j < moved.size(); ++j) {
        double sum = 0;
        for (index_t i = 0; i < d; ++i) {
            const double old = c[j * d + i];
            c[j * d + i] = old + u(rng);
            sum += std::pow(c[j * d + i] - old, 2);
        }
        moved[j] = std::nextafter(static_cast<float>(std::sqrt(sum)), 1e30f);
    }
    return moved;
}

bool alike(const Changes& a, const Changes& b) {
    bool same = a.overflowed == b.overflowed && a.block.size() == b.block.size();
    for (std::size_t i = 0; same && i < a.block.size(); ++i) {
        same = a.block[i].size() == b.block[i].size();
        for (std::size_t j = 0; same && !a.overflowed && j < a.block[i].size(); ++j)
            same = a.block[i][j].row == b.block[i][j].row && a.block[i][j].before == b.block[i][j].before;
    }
    return same;
}

template <class T>
void assigners(const Kernels& k, const Data<T>& data, bool sparse, index_t centers, const std::string& name) {
    std::mt19937 rng(7);
    std::vector<index_t> id(centers);
    for (index_t j = 0; j < centers; ++j) id[j] = j * data.n / centers;
    std::vector<double> c = data.rows(id);
    const RowsView view = data.view(sparse);
    std::vector<label_t> plain(data.n, -1), one(data.n, -1), many(data.n, -1);
    std::vector<float> upper(data.n), lower(data.n), each(data.n * centers), wide(data.n), drift(centers, 0);
    std::vector<float> moved;
    std::array<Changes, 4> changes;
    std::vector<std::int32_t> group(centers);
    for (index_t j = 0; j < centers; ++j) group[j] = static_cast<std::int32_t>(j * 7 % 16);
    std::vector<label_t> four(data.n, -1);
    std::vector<float> tight(data.n), sixteen(data.n * 16);
    for (int round = 0; round < 4; ++round) {
        const float* m = round ? moved.data() : nullptr;
        k.assign(view, c.data(), centers, plain.data(), &changes[0], 0.01f);
        k.assign_hamerly(view, c.data(), centers, m, one.data(), upper.data(), lower.data(), round % 2, &changes[1]);
        k.assign_elkan(view, c.data(), centers, m, drift.data(), many.data(), wide.data(), each.data(), &changes[2]);
        if (!sparse) {
            k.assign_yinyang(view, c.data(), centers, group.data(), m, four.data(), tight.data(), sixteen.data(), &changes[3]);
            check(plain == four, name + " yinyang");
            check(alike(changes[0], changes[3]), name + " changes");
        }
        check(right(data, c, plain), name + " lloyd");
        check(plain == one, name + " hamerly");
        check(plain == many, name + " elkan");
        check(alike(changes[0], changes[1]) && alike(changes[0], changes[2]), name + " changes");
        moved = step(c, data.d, rng);
    }
    std::vector<double> sum(centers * data.d), weight(centers), again(centers * data.d), cost(data.n);
    std::vector<double> remainder(centers * data.d), loss(centers), rest_again(centers * data.d);
    std::vector<index_t> count(centers);
    const ClusterSums sums{sum.data(), remainder.data(), weight.data(), loss.data(), count.data()};
    const ClusterSums moving{again.data(), rest_again.data(), weight.data(), loss.data(), count.data()};
    std::vector<double> weights(data.n, 2);
    weights[0] = 0;
    k.update(view, weights.data(), plain.data(), nullptr, centers, sums);
    index_t rows = 0;
    double mass = 0;
    for (index_t j = 0; j < centers; ++j) rows += count[j], mass += weight[j];
    check(rows == data.n - 1 && mass == 2.0 * (data.n - 1), name + " a row of weight zero is not counted");
    k.update(view, nullptr, plain.data(), nullptr, centers, moving);
    for (double& v : c) v += 0.01 * static_cast<double>(rng() % 3);
    k.assign(view, c.data(), centers, plain.data(), &changes[0], 0.01f);
    k.update(view, nullptr, plain.data(), changes[0].overflowed ? nullptr : &changes[0], centers, moving);
    k.update(view, nullptr, plain.data(), nullptr, centers, sums);
    double gap = 0;
    for (std::size_t i = 0; i < sum.size(); ++i) gap = std::max(gap, std::abs(sum[i] + remainder[i] - again[i] - rest_again[i]) / (1 + std::abs(sum[i])));
    check(gap < 1e-12, name + " moved sums equal fresh ones");
    k.costs(view, c.data(), centers, plain.data(), cost.data());
    check(std::isfinite(k.mean_variance(view)), name + " spread");
    std::vector<T> all(data.n * centers);
    k.distances(view, c.data(), centers, true, all.data());
    check(std::abs(all[plain[0]] - cost[0]) <= 1e-5 * (1 + cost[0]), name + " distances");
}

// Both distances are right to rounding, and nothing but the first is nearer than the second.
template <class T>
void two_nearest(const Kernels& k, const Data<T>& data, bool sparse, index_t centers, const std::string& name) {
    std::vector<index_t> id(centers);
    for (index_t j = 0; j < centers; ++j) id[j] = j * data.n / centers;
    const std::vector<double> c = data.rows(id);
    std::vector<label_t> labels(data.n), second(data.n), plain(data.n, -1);
    std::vector<double> cost(data.n), next(data.n), own(data.n);
    k.two_nearest(data.view(sparse), c.data(), centers, {labels.data(), second.data(), cost.data(), next.data()});
    k.assign(data.view(sparse), c.data(), centers, plain.data(), nullptr, 0);
    k.costs(data.view(sparse), c.data(), centers, plain.data(), own.data());
    check(labels == plain && cost == own, name + " the first of two is the nearest");
    if (centers == 1) return check(second == labels && std::isinf(next[0]), name + " there is no second");
    k.costs(data.view(sparse), c.data(), centers, second.data(), own.data());
    bool ok = next == own;
    for (index_t i = 0; i < data.n; ++i) {
        double norm = 0;
        for (index_t t = 0; t < data.d; ++t) norm += std::pow(static_cast<double>(data.x[i * data.d + t]), 2);
        for (index_t j = 0; j < centers; ++j)
            ok &= j == labels[i] || data.dist2(i, &c[j * data.d]) >= next[i] - 1e-12 * (next[i] + norm);
        ok &= labels[i] != second[i] && cost[i] <= next[i];
    }
    check(ok, name + " the second of two");
}

// Passes of single moves end; the cost falls with each, and no move is left.
template <class T>
void hartigan(const Kernels& k, const Data<T>& data, bool sparse, index_t centers, const std::string& name) {
    const RowsView view = data.view(sparse);
    std::vector<double> weights(data.n), sum(centers * data.d), remainder(sum), mass(centers), loss(centers);
    std::vector<double> c(centers * data.d), cost(data.n);
    std::vector<index_t> count(centers);
    std::vector<label_t> labels(data.n);
    std::vector<float> upper(data.n), lower(data.n), moved(centers, 0);
    for (index_t i = 0; i < data.n; ++i) labels[i] = static_cast<label_t>(i % centers), weights[i] = static_cast<double>(1 + i % 3);
    const ClusterSums sums{sum.data(), remainder.data(), mass.data(), loss.data(), count.data()};
    double before = std::numeric_limits<double>::infinity();
    index_t moves = 1, passes = 0;
    for (bool falls = true; moves && falls && passes < 500; ++passes) {
        k.update(view, weights.data(), labels.data(), nullptr, centers, sums);
        for (index_t j = 0; j < centers; ++j)
            for (index_t t = 0; t < data.d; ++t) c[j * data.d + t] = (sum[j * data.d + t] + remainder[j * data.d + t]) / mass[j];
        k.costs(view, c.data(), centers, labels.data(), cost.data());
        double now = 0;
        for (index_t i = 0; i < data.n; ++i) now += weights[i] * cost[i];
        falls = now < before;
        check(now <= before * (1 + 1e-9) || data.n == centers, name + " a pass of moves lowers the cost");
        before = now;
        std::fill(upper.begin(), upper.end(), std::numeric_limits<float>::infinity());
        std::fill(lower.begin(), lower.end(), 0.0f);
        const ClusterDrift drift{moved.data(), 0, 1};
        moves = k.hartigan(view, weights.data(), centers, drift, {c.data(), labels.data(), upper.data(), lower.data(), sums});
    }
    check(passes < 500, name + " moves end");
    bool stays = true;
    for (index_t i = 0; i < data.n; ++i) {
        const double w = weights[i], own = data.dist2(i, &c[labels[i] * data.d]), all = mass[labels[i]];
        double norm = 0;
        for (index_t t = 0; t < data.d; ++t) norm += std::pow(static_cast<double>(data.x[i * data.d + t]), 2);
        for (index_t j = 0; j < centers && count[labels[i]] > 1; ++j)
            stays &= j == labels[i] || mass[j] / (mass[j] + w) * data.dist2(i, &c[j * data.d]) >= all / (all - w) * own * (1 - 1e-9) - 1e-12 * norm;
    }
    check(stays || moves, name + " no move is left");
}

template <class T>
void seeding(const Kernels& k, const Data<T>& data, bool sparse, const std::string& name) {
    const RowsView view = data.view(sparse);
    std::vector<double> cost(data.n, std::numeric_limits<double>::infinity()), sums((data.n + DRAW - 1) / DRAW, 0);
    std::vector<label_t> nearest(data.n, -1);
    const Potential p{cost.data(), nearest.data(), nullptr, sums.data()};
    const index_t many = std::min<index_t>(data.n, 9);
    std::vector<index_t> id;
    for (index_t j = 0; j < many; ++j) id.push_back(j * data.n / many);
    const std::vector<double> c = data.rows(id);
    k.lower_costs(view, c.data(), 1, 0, nullptr, p);
    if (many > 1) k.lower_costs(view, c.data() + data.d, many - 1, 1, nullptr, p);
    std::vector<label_t> labels(data.n, -1);
    k.assign(view, c.data(), many, labels.data(), nullptr, 0);
    std::vector<double> own(data.n), gain(2);
    k.costs(view, c.data(), many, labels.data(), own.data());
    check(own == cost, name + " absorbed costs are exact");
    Hits hits;
    const std::vector<double> next = data.rows({data.n / 2, data.n - 1});
    k.gains(view, nullptr, next.data(), 2, nullptr, p, gain.data(), hits);
    QuantizedRows shadow;
    const bool quantize = k.quantize(view, cost.data(), shadow);
    if (quantize) {
        std::vector<double> shadowed(9), plain(9);
        k.gains(view, nullptr, c.data(), many, nullptr, p, plain.data(), hits);
        k.gains(view, &shadow, c.data(), many, nullptr, p, shadowed.data(), hits);
        check(plain == shadowed, name + " no gain lies in the shadow");
        k.gains(view, &shadow, next.data(), 2, nullptr, p, shadowed.data(), hits);
        check(shadowed[0] == gain[0] && shadowed[1] == gain[1], name + " no gain lies in the shadow");
    }
    double before = 0, after = 0;
    for (double s : sums) before += s;
    k.lower_costs_by_hits(view, quantize ? &shadow : nullptr, next.data() + data.d, 1, static_cast<label_t>(many), nullptr, p, hits);
    for (double s : sums) after += s;
    check(std::abs(before - after - gain[1]) <= 1e-9 * (1 + before), name + " the gain is what is gained");
    std::mt19937 rng(3);
    std::uniform_real_distribution<double> u(0, 1);
    std::vector<double> uniforms(64);
    for (double& v : uniforms) v = u(rng);
    const DrawResult drawn = k.draw(view, next.data(), 1, static_cast<label_t>(many + 1), p, uniforms.data(), 64);
    check(drawn.row < data.n && drawn.used <= 64, name + " draw");
}

template <class T>
void everything(const Kernels& k, index_t n, index_t d, index_t centers, double offset, double zeros) {
    std::mt19937 rng(static_cast<unsigned>(n * 31 + d));
    const Data<T> data(n, d, offset, zeros, rng);
    for (bool sparse : {false, true}) {
        const std::string name = std::string(k.name) + (sizeof(T) == 8 ? " f64 " : " f32 ") +
                                 (sparse ? "csr " : "dense ") + std::to_string(n) + "x" + std::to_string(d) +
                                 " k=" + std::to_string(centers);
        assigners(k, data, sparse, centers, name);
        two_nearest(k, data, sparse, centers, name);
        hartigan(k, data, sparse, centers, name);
        seeding(k, data, sparse, name);
    }
}

}  // namespace

int main() {
    for (const Kernels* k : available_kernels())
        for (const auto& [n, d, centers] : std::vector<std::array<index_t, 3>>{
                 {1, 1, 1}, {2, 1, 2}, {63, 2, 5}, {64, 3, 7}, {65, 4, 64}, {257, 5, 13}, {300, 17, 33},
                 {130, 127, 9}, {130, 129, 70}, {70, 300, 11}, {4099, 2, 20}, {4097, 31, 6}}) {
            everything<float>(*k, n, d, centers, 0, 0.3);
            everything<double>(*k, n, d, centers, 0, 0.3);
            everything<float>(*k, n, d, centers, 1e4, 0);
        }
    return verdict();
}
