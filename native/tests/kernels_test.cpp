// Compares the kernels for rows with brute force, on every instruction set, for dense and sparse rows.
#include <array>
#include <utility>

#include "check.hpp"

namespace {

// n, d, k
constexpr index_t SHAPES[][3] = {{1, 1, 1},      {2, 1, 2},     {63, 2, 5},    {65, 4, 64},  {257, 5, 13},
                                 {130, 129, 70}, {70, 300, 11}, {2051, 3, 20}, {1027, 31, 6}};

// True if no centre is nearer than the one of the label by more than rounding.
template <class T>
bool nearest(const Data<T>& data, const std::vector<double>& c, const std::vector<label_t>& labels) {
    const index_t k = static_cast<index_t>(c.size()) / data.d;
    for (index_t i = 0; i < data.n; ++i) {
        if (labels[i] < 0 || labels[i] >= k) return false;
        const double own = data.distance(i, &c[labels[i] * data.d]);
        for (index_t j = 0; j < k; ++j)
            if (data.distance(i, &c[j * data.d]) < own * (1 - 1e-12) - data.tolerance(i)) return false;
    }
    return true;
}

// Moves the centres a little and returns how far each moved, rounded up.
std::vector<float> move_centers(std::vector<double>& c, index_t d, std::mt19937& rng) {
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

std::vector<std::pair<index_t, label_t>> listed(const Changes& changes, index_t n) {
    std::vector<std::pair<index_t, label_t>> out;
    for (index_t block = 0; block < blocks_of(n); ++block)
        changes.for_block(block, [&](index_t row, label_t before) { out.emplace_back(row, before); });
    return out;
}

bool same(const Changes& a, const Changes& b, index_t n) {
    if (a.overflowed || b.overflowed) return a.overflowed == b.overflowed;
    return listed(a, n) == listed(b, n);
}

struct Sums {
    index_t d;
    std::vector<limb_t> limbs, weight_limbs;
    std::vector<index_t> count;
    Sums(index_t k, index_t features, int exponent)
        : d(features), limbs(k * LIMBS * d), weight_limbs(k * LIMBS), count(k), scale(exponent) {}
    ClusterSums view() { return {limbs.data(), weight_limbs.data(), count.data(), scale, weight_scale}; }
    double sum(index_t j, index_t i) const { return scale.rounded(Scale::whole(&limbs[j * LIMBS * d + i], d)); }
    bool operator==(const Sums& other) const {
        bool same = count == other.count;
        for (index_t j = 0; j < static_cast<index_t>(count.size()); ++j)
            for (index_t i = 0; i < d; ++i)
                same &= Scale::whole(&limbs[j * LIMBS * d + i], d) == Scale::whole(&other.limbs[j * LIMBS * d + i], d);
        return same;
    }
    double weight(index_t j) const { return weight_scale.rounded(Scale::whole(&weight_limbs[j * LIMBS], 1)); }
    Scale scale, weight_scale{4};
};

template <class T>
struct Test {
    const Kernels& kernels;
    const Data<T>& data;
    const RowsView view;
    const index_t n = data.n, d = data.d, k;
    const std::string name;

    void expect(bool ok, const char* what) const { check(ok, name + what); }

    void all_assignments_agree() const {
        std::mt19937 rng(7);
        std::vector<double> c = data.spread(k);
        std::array<std::vector<label_t>, 4> labels;
        labels.fill(std::vector<label_t>(n, -1));
        std::array<Changes, 4> changes;
        std::vector<float> upper(n), lower(n), upper2(n), lower_each(n * k), drift(k), upper3(n), lower_group(n * 16);
        std::vector<float> moved;
        std::vector<std::int32_t> group(k);
        for (index_t j = 0; j < k; ++j) group[j] = static_cast<std::int32_t>(j * 7 % 16);
        for (int round = 0; round < 4; ++round) {
            const float* m = round ? moved.data() : nullptr;
            kernels.assign(view, c.data(), k, labels[0].data(), &changes[0], 0.01f);
            kernels.assign_hamerly(view, c.data(), k, m, labels[1].data(), upper.data(), lower.data(), round % 2,
                                   round % 3 > 0, &changes[1]);
            kernels.assign_elkan(view, c.data(), k, m, drift.data(), labels[2].data(), upper2.data(), lower_each.data(),
                                 &changes[2]);
            if (!view.sparse)
                kernels.assign_yinyang(view, c.data(), k, group.data(), m, labels[3].data(), upper3.data(),
                                       lower_group.data(), &changes[3]);
            expect(nearest(data, c, labels[0]), "labels are nearest centres");
            for (int a = 1; a < (view.sparse ? 3 : 4); ++a)
                expect(labels[0] == labels[a] && same(changes[0], changes[a], n), "all assignments agree");
            moved = move_centers(c, d, rng);
        }
        sums_follow_changes(c, labels[0], rng);
    }

    // Of four times the largest value: weights are at most three.
    int exponent() const {
        double largest = 0;
        for (const T v : data.x) largest = std::max(largest, std::abs(static_cast<double>(v)));
        int e;
        std::frexp(4 * largest, &e);
        return e;
    }

    // Whether all values are multiples of the units of narrow sums.
    bool narrow() const {
        bool fit = !view.sparse;
        const int shift = NarrowSums::MOST_DIGITS - exponent();
        for (const T v : data.x) {
            const double units = std::ldexp(static_cast<double>(v), shift);
            fit &= units == std::rint(units);
        }
        return fit;
    }

    void sums_follow_changes(std::vector<double> c, std::vector<label_t> labels, std::mt19937& rng) const {
        Sums fresh(k, d, exponent()), running(k, d, exponent());
        std::vector<double> weights(n, 2);
        weights[0] = 0;
        kernels.update(view, weights.data(), labels.data(), nullptr, k, fresh.view());
        index_t rows = 0;
        double weight = 0;
        for (index_t j = 0; j < k; ++j) rows += fresh.count[j], weight += fresh.weight(j);
        expect(rows == n - 1 && weight == 2.0 * static_cast<double>(n - 1), "a row of weight zero is not counted");
        Changes changes;
        kernels.update(view, nullptr, labels.data(), nullptr, k, running.view());
        Sums counts(k, d, exponent());
        std::vector<word_t> low(k * d);
        std::vector<std::int32_t> high(k * d);
        ClusterSums less = counts.view();
        less.narrow = {low.data(), high.data(), NarrowSums::MOST_DIGITS};
        const bool is_narrow = narrow();
        if (is_narrow) kernels.update(view, nullptr, labels.data(), nullptr, k, less);
        for (double& v : c) v += 0.01 * static_cast<double>(rng() % 3);
        kernels.assign(view, c.data(), k, labels.data(), &changes, 0.01f);
        kernels.update(view, nullptr, labels.data(), changes.overflowed ? nullptr : &changes, k, running.view());
        kernels.update(view, nullptr, labels.data(), nullptr, k, fresh.view());
        expect(fresh == running, "running sums equal fresh ones");
        if (is_narrow) {
            kernels.update(view, nullptr, labels.data(), changes.overflowed ? nullptr : &changes, k, less);
            bool same = counts.count == fresh.count;
            for (index_t j = 0; j < k; ++j)
                for (index_t i = 0; i < d; ++i)
                    same &= less.narrow.whole(j * d + i) == Scale::whole(&fresh.limbs[j * LIMBS * d + i], d);
            expect(same, "narrow sums equal others");
        }
        double largest = 0, sum = 0;
        for (index_t i = 0; i < n; ++i)
            if (labels[i] == 0)
                sum += static_cast<double>(data.x[i * d + d - 1]),
                    largest = std::max(largest, std::abs(static_cast<double>(data.x[i * d + d - 1])));
        expect(std::abs(fresh.sum(0, d - 1) - sum) <= 1e-12 * n * largest, "sums are those of the rows");
        std::vector<double> cost(n);
        std::vector<T> all(n * k);
        kernels.costs(view, c.data(), k, labels.data(), cost.data());
        kernels.distances(view, {false, true, c.data(), nullptr, nullptr, k, view.d}, true, all.data());
        expect(std::abs(all[labels[0]] - cost[0]) <= 1e-5 * (1 + cost[0]), "distances agree with costs");
    }

    void two_nearest_are_nearest() const {
        const std::vector<double> c = data.spread(k);
        std::vector<label_t> labels(n), second(n), plain(n, -1);
        std::vector<double> cost(n), next(n), own(n);
        kernels.two_nearest(view, c.data(), k, {labels.data(), second.data(), cost.data(), next.data()});
        kernels.assign(view, c.data(), k, plain.data(), nullptr, 0);
        kernels.costs(view, c.data(), k, plain.data(), own.data());
        expect(labels == plain && cost == own, "the first of two is the nearest");
        if (k == 1) return expect(second == labels && std::isinf(next[0]), "a single centre has no second");
        kernels.costs(view, c.data(), k, second.data(), own.data());
        bool ok = next == own;
        for (index_t i = 0; i < n; ++i) {
            for (index_t j = 0; j < k; ++j)
                ok &= j == labels[i] || data.distance(i, &c[j * d]) >= next[i] * (1 - 1e-12) - data.tolerance(i);
            ok &= labels[i] != second[i] && cost[i] <= next[i];
        }
        expect(ok, "only the first is nearer than the second");
    }

    void hartigan_ends_at_an_optimum() const {
        std::vector<double> weights(n), c(k * d), cost(n);
        std::vector<label_t> labels(n);
        std::vector<float> moved(k, 0);
        Sums sums(k, d, exponent());
        for (index_t i = 0; i < n; ++i) labels[i] = static_cast<label_t>(i % k), weights[i] = 1.0 + double(i % 3);
        double before = std::numeric_limits<double>::infinity();
        index_t moves = 1, passes = 0;
        for (bool falls = true; moves && falls && passes < 500; ++passes) {
            kernels.update(view, weights.data(), labels.data(), nullptr, k, sums.view());
            for (index_t t = 0; t < k * d; ++t) c[t] = sums.sum(t / d, t % d) / sums.weight(t / d);
            kernels.costs(view, c.data(), k, labels.data(), cost.data());
            double now = 0;
            for (index_t i = 0; i < n; ++i) now += weights[i] * cost[i];
            falls = now < before;
            expect(now <= before * (1 + 1e-9) || n == k, "a pass of moves lowers the cost");
            before = now;
            std::vector<float> upper(n, std::numeric_limits<float>::infinity()), lower(n, 0);
            moves = kernels.hartigan(view, weights.data(), k, {moved.data(), 0, 1},
                                     {c.data(), labels.data(), upper.data(), lower.data(), {sums.view()}});
        }
        bool stays = true;
        for (index_t i = 0; i < n; ++i) {
            const double w = weights[i], all = sums.weight(labels[i]);
            const double leaving = all / (all - w) * data.distance(i, &c[labels[i] * d]);
            for (index_t j = 0; j < k && sums.count[labels[i]] > 1; ++j) {
                const double joining = sums.weight(j) / (sums.weight(j) + w) * data.distance(i, &c[j * d]);
                stays &= j == labels[i] || joining >= leaving * (1 - 1e-9) - data.tolerance(i);
            }
        }
        expect(passes < 500 && (stays || moves), "moves end when none is left");
    }

    void potential_is_exact() const {
        std::vector<double> cost(n, std::numeric_limits<double>::infinity());
        std::vector<exact_t> sums((n + DRAW - 1) / DRAW, 0);
        std::vector<label_t> closest(n, -1), labels(n, -1);
        const index_t m = std::min<index_t>(n, 9);
        const std::vector<double> c = data.spread(m), next = data.rows({n / 2, n - 1});
        kernels.lower_costs(view, c.data(), 1, 0, nullptr, {cost.data(), closest.data(), nullptr, nullptr, Scale(0)});
        int exponent;
        std::frexp(*std::max_element(cost.begin(), cost.end()), &exponent);
        const Potential p{cost.data(), closest.data(), nullptr, sums.data(), Scale(exponent)};
        kernels.sum_costs(n, p);
        if (m > 1) kernels.lower_costs(view, c.data() + d, m - 1, 1, nullptr, p);
        std::vector<double> own(n);
        kernels.assign(view, c.data(), m, labels.data(), nullptr, 0);
        kernels.costs(view, c.data(), m, labels.data(), own.data());
        expect(own == cost, "the potential holds exact costs");
        const auto total = [&] {
            exact_t sum = 0;
            for (const exact_t part : sums) sum += part;
            return sum;
        };
        exact_t expected = 0;
        for (const double each : cost) expected += p.scale.exact(each);
        expect(total() == expected, "the sums are those of the costs");
        const std::vector<double> tried = data.spread(m);
        const auto quantized = kernels.make_quantized_rows(view, cost.data());
        const auto tiles = kernels.make_byte_tiles(view, cost.data(), *available_byte_kernels(kernels).back());
        double wide = 1e-25;  // sparse rows are not shifted: their bounds are wider by a part of their norms
        for (index_t i = 0; view.sparse && i < n; ++i) wide += 1e8 * data.tolerance(i);
        for (const auto& [candidates, count] : {std::pair{&tried, m}, std::pair{&next, index_t{2}}}) {
            std::vector<exact_t> gain(count);
            kernels.gains(view, candidates->data(), count, nullptr, p, gain.data());
            for (const RowFilter* filter : {static_cast<RowFilter*>(nullptr), quantized.get(), tiles.get()}) {
                std::vector<GainBounds> bounds(count);
                PassedPairs pairs;
                kernels.gain_bounds(view, filter, candidates->data(), count, nullptr, p, bounds.data(), pairs);
                for (index_t j = 0; j < count; ++j) {
                    const double exact = p.scale.rounded(gain[j]);
                    expect(bounds[j].low <= exact && exact <= bounds[j].high, "a gain is within its bounds");
                    expect(bounds[j].high - bounds[j].low <= 1e-3 * p.scale.rounded(expected) + wide,
                           "the bounds of a gain are narrow");
                }
            }
        }
        std::vector<exact_t> gain(2);
        std::vector<GainBounds> bounds(2);
        PassedPairs passed;
        kernels.gains(view, next.data(), 2, nullptr, p, gain.data());
        RowFilter* filter = k % 2 ? quantized.get() : tiles.get();
        kernels.gain_bounds(view, filter, next.data(), 2, nullptr, p, bounds.data(), passed);
        const exact_t before = total();
        kernels.lower_costs_of_passed(view, filter, next.data() + d, 1, static_cast<label_t>(m), p, passed);
        // The cost before and the cost after are rounded apart from their difference.
        const double off = p.scale.rounded(before - total() - gain[1]);
        expect(std::abs(off) <= 1e-12 * p.scale.rounded(before), "a candidate lowers the potential by its gain");
        for (const exact_t goal : {exact_t{0}, total() / 3, total() - 1}) {
            if (goal < 0 || goal >= total()) continue;
            const auto found = kernels.propose(view, next.data(), 1, static_cast<label_t>(m + 1), p, goal);
            expect(found.row >= 0 && found.row < n && found.cost <= found.bound, "a proposal is a row");
        }
    }
};

template <class T>
void test_shape(const Kernels& kernels, index_t n, index_t d, index_t k, double offset, double zeros) {
    std::mt19937 rng(static_cast<unsigned>(n * 31 + d));
    std::uniform_real_distribution<double> u(0, 1);
    const Data<T> data(n, d, [&](index_t, index_t, auto&) { return u(rng) < zeros ? 0 : offset + u(rng); });
    for (bool sparse : {false, true}) {
        const Test<T> test{.kernels = kernels,
                           .data = data,
                           .view = data.view(sparse),
                           .k = k,
                           .name = kernels.name + type_name<T>() + (sparse ? "CSR " : "dense ") + std::to_string(n) +
                                   "x" + std::to_string(d) + " k=" + std::to_string(k) + ": "};
        test.all_assignments_agree();
        test.two_nearest_are_nearest();
        test.hartigan_ends_at_an_optimum();
        test.potential_is_exact();
    }
}

// Tiny gains after large ones are lost in float32 sums: the bounds must allow for that on every instruction set.
void test_gains_of_two_magnitudes(const Kernels& kernels) {
    const index_t n = BLOCK, d = 5;
    const Data<double> data(n, d, [](index_t, index_t, auto&) { return 0.0; });
    std::vector<double> cost(n, 5.9e-8), candidate(d, 0.0);
    std::fill(cost.begin(), cost.begin() + 4, 1.0);
    std::vector<exact_t> sums(n / DRAW), gain(1);
    std::vector<label_t> closest(n, 0);
    const Potential p{cost.data(), closest.data(), nullptr, sums.data(), Scale(1)};
    std::vector<GainBounds> bounds(1);
    PassedPairs passed;
    kernels.gains(data.view(false), candidate.data(), 1, nullptr, p, gain.data());
    kernels.gain_bounds(data.view(false), nullptr, candidate.data(), 1, nullptr, p, bounds.data(), passed);
    const double exact = p.scale.rounded(gain[0]);
    check(bounds[0].low <= exact && exact <= bounds[0].high, std::string(kernels.name) + ": bounds of tiny gains");
}

void test_interrupt(const Kernels& kernels) {
    const Data<float> data(5000, 2, [](index_t i, index_t j, auto&) { return i * (j + 1) % 97; });
    const auto c = data.spread(3);
    std::vector<label_t> labels(data.n);
    const auto poll = std::exchange(user_wants_to_stop, [] { return true; });
    bool stopped = false;
    for (int attempt = 0; attempt < 1000 && !stopped; ++attempt) try {  // thread 0, which checks, may get no block
            kernels.assign(data.view(false), c.data(), 3, labels.data(), nullptr, 0);
        } catch (const Interrupted&) {
            stopped = true;
        }
    user_wants_to_stop = poll;
    check(stopped, "an interrupt ends a parallel loop");
}

}  // namespace

int main() {
    return run_on_two_threads([] {
        for (const Kernels* kernels : available_kernels()) {
            for (const auto& [n, d, k] : SHAPES) {
                test_shape<float>(*kernels, n, d, k, 0, 0.3);
                test_shape<double>(*kernels, n, d, k, 0, 0.3);
                test_shape<float>(*kernels, n, d, k, 1e4, 0);
            }
            test_interrupt(*kernels);
            test_gains_of_two_magnitudes(*kernels);
        }
    });
}
