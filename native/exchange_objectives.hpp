// The two objectives that exchange.cpp searches: means of groups, and distances within groups. Sums have four float64
// lanes that are added in one order: the same bits on every instruction set.
#pragma once

#include <cmath>

#include "kernels.hpp"

namespace kv::KV_ISA {

constexpr index_t LANES = 4;

inline double folded(const double* part) { return (part[0] + part[2]) + (part[1] + part[3]); }

// The sum over groups of |S|^2 / size, where S is the sum of the group's rows.
class GroupMeans {
public:
    GroupMeans(const double* rows, index_t width, const ExchangeUnits& u)
        : rows_(rows),
          width_(width),
          u_(u),
          sum_(u.groups * width),
          mean_(u.groups * width),
          inverse_(u.groups),
          size_(u.groups) {
        double total = 0;
        for (index_t p = 0; p < u.n * width; ++p) total += rows[p] * rows[p];
        least_gain_ = 1e-20 * total;
    }
    double work() const { return static_cast<double>(width_); }

    void recompute(const label_t* labels, int) {
        std::fill(sum_.begin(), sum_.end(), 0.0);
        std::fill(size_.begin(), size_.end(), 0);
        for (index_t i = 0; i < u_.n; ++i) add(labels[i], i, 1);
        for (index_t g = 0; g < u_.groups; ++g) update_mean(g);
    }
    double value() const {
        double total = 0;
        for (index_t g = 0; g < u_.groups; ++g) total += square(g);
        return total;
    }
    void prefetch(index_t j) const { __builtin_prefetch(row(j)), __builtin_prefetch(row(j) + 8); }

    // The change of the objective if unit i of group a and unit j of group b change places.
    double change(index_t i, index_t a, index_t j, index_t b) const {
        const index_t more = u_.size[j] - u_.size[i];
        const double *x = row(i), *y = row(j), *s = mean(a), *t = mean(b);
        double part[LANES] = {};
        if (more == 0) {
            const double c = inverse_[a] + inverse_[b];
            for (index_t p = 0; p < width_; p += LANES)
                for (index_t r = 0; r < LANES; ++r) {
                    const double v = y[p + r] - x[p + r];
                    part[r] += v * (2 * (s[p + r] - t[p + r]) + c * v);
                }
            return folded(part);
        }
        double other[LANES] = {};
        for (index_t p = 0; p < width_; p += LANES)
            for (index_t r = 0; r < LANES; ++r) {
                const double v = y[p + r] - x[p + r];
                const double to = sum_[a * width_ + p + r] + v, from = sum_[b * width_ + p + r] - v;
                part[r] += to * to, other[r] += from * from;
            }
        return folded(part) / static_cast<double>(size_[a] + more) +
               folded(other) / static_cast<double>(size_[b] - more) - square(a) - square(b);
    }
    bool improves(double change, index_t, index_t a, index_t, index_t b) const {
        return change < -(1e-12 * (square(a) + square(b)) + least_gain_);
    }
    void exchange(index_t i, index_t a, index_t j, index_t b) {
        add(a, i, -1), add(a, j, 1), add(b, j, -1), add(b, i, 1);
        update_mean(a), update_mean(b);
    }

private:
    const double* row(index_t i) const { return rows_ + i * width_; }
    const double* mean(index_t g) const { return mean_.data() + g * width_; }
    void add(index_t g, index_t i, int sign) {
        double* sum = sum_.data() + g * width_;
        const double* x = row(i);
        for (index_t p = 0; p < width_; ++p) sum[p] += sign * x[p];
        size_[g] += sign * u_.size[i];
    }
    void update_mean(index_t g) {
        inverse_[g] = 1.0 / static_cast<double>(size_[g]);
        for (index_t p = g * width_; p < (g + 1) * width_; ++p) mean_[p] = sum_[p] / static_cast<double>(size_[g]);
    }
    double square(index_t g) const {
        double part[LANES] = {};
        for (index_t p = g * width_; p < (g + 1) * width_; p += LANES)
            for (index_t r = 0; r < LANES; ++r) part[r] += sum_[p + r] * mean_[p + r];
        return folded(part);
    }

    const double* rows_;
    const index_t width_;  // features, rounded up to a multiple of LANES
    const ExchangeUnits& u_;
    std::vector<double> sum_, mean_, inverse_;  // inverse_: 1 / size
    std::vector<index_t> size_;
    double least_gain_;
};

// Minus the sum of distances within groups. sum_[g][i] is the sum of the distances of i to the units of g.
template <class T>
class GroupDistances {
public:
    GroupDistances(const T* distance, const ExchangeUnits& u) : distance_(distance), u_(u), sum_(u.groups * u.n) {}
    double work() const { return 4; }

    void recompute(const label_t* labels, int threads) {
        labels_ = labels;
        const auto part = [&](index_t from, index_t to) {
            for (index_t g = 0; g < u_.groups; ++g) std::fill(&sum_[g * u_.n + from], &sum_[g * u_.n] + to, 0.0);
            for (index_t j = 0; j < u_.n; ++j) {
                double* sum = sum_.data() + labels[j] * u_.n;
                const T* row = distance_ + j * u_.n;
                for (index_t h = from; h < to; ++h) sum[h] += static_cast<double>(row[h]);
            }
        };
        threads > 1 ? parallel_rows(u_.n, threads, part) : part(0, u_.n);
    }
    double value() const {
        double total = 0;
        for (index_t i = 0; i < u_.n; ++i) total -= sum_[labels_[i] * u_.n + i];
        return total / 2;
    }
    void prefetch(index_t) const {}
    double change(index_t i, index_t a, index_t j, index_t b) const {
        const double *to_a = sum_.data() + a * u_.n, *to_b = sum_.data() + b * u_.n;
        return (to_a[i] - to_b[i]) + (to_b[j] - to_a[j]) + 2 * static_cast<double>(distance_[i * u_.n + j]);
    }
    bool improves(double change, index_t i, index_t a, index_t j, index_t b) const {
        const double *to_a = sum_.data() + a * u_.n, *to_b = sum_.data() + b * u_.n;
        return change < -1e-11 * (std::abs(to_a[i]) + std::abs(to_b[i]) + std::abs(to_a[j]) + std::abs(to_b[j]));
    }
    void exchange(index_t i, index_t a, index_t j, index_t b) {
        double *to_a = sum_.data() + a * u_.n, *to_b = sum_.data() + b * u_.n;
        const T *of_i = distance_ + i * u_.n, *of_j = distance_ + j * u_.n;
        for (index_t h = 0; h < u_.n; ++h) {
            const double more = static_cast<double>(of_j[h]) - static_cast<double>(of_i[h]);
            to_a[h] += more, to_b[h] -= more;
        }
    }

private:
    const T* distance_;
    const ExchangeUnits& u_;
    const label_t* labels_ = nullptr;
    std::vector<double> sum_;
};

}  // namespace kv::KV_ISA
