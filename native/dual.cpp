// Sums over a candidate's distances, in sixteen float64 lanes folded in one order: the same bits on
// every instruction set and on any number of threads.
#include "dual.hpp"

#include "kernels.hpp"

namespace kv::KV_ISA {
namespace {

constexpr int SIDE = 16;

inline double worth(double price, double distance, double weight) {
    const double over = price - distance;
    return weight * (over > 0 ? over : 0.0);
}

template <class T>
double gain_of(const T* distance, const double* price, const double* weight, index_t n) {
    double part[SIDE] = {};
    index_t i = 0;
    for (; i + SIDE <= n; i += SIDE)
        for (int r = 0; r < SIDE; ++r) part[r] += worth(price[i + r], distance[i + r], weight[i + r]);
    for (int r = 0; i < n; ++i, ++r) part[r] += worth(price[i], distance[i], weight[i]);
    for (int half = SIDE / 2; half; half /= 2)
        for (int r = 0; r < half; ++r) part[r] += part[r + half];
    return part[0];
}

template <class T>
void gains(const Table& t, const double* price, const double* weight, double* gain) {
    const T* all = static_cast<const T*>(t.distance);
    constexpr index_t STEP = 16;
    parallel((t.count + STEP - 1) / STEP, threads_for(static_cast<double>(t.count) * t.points), [&](index_t task) {
        for (index_t r = task * STEP; r < std::min(t.count, (task + 1) * STEP); ++r)
            gain[r] = gain_of(all + (t.some ? t.some[r] : r) * t.points, price, weight, t.points);
    });
}

template <class T>
void cover(const Table& t, const double* price, double* cover) {
    const T* all = static_cast<const T*>(t.distance);
    parallel(blocks_of(t.points), threads_for(static_cast<double>(t.count) * t.points), [&](index_t block) {
        const index_t from = block * BLOCK, to = std::min(t.points, from + BLOCK);
        std::fill(cover + from, cover + to, 0.0);
        for (index_t r = 0; r < t.count; ++r) {
            const T* distance = all + (t.some ? t.some[r] : r) * t.points;
            for (index_t i = from; i < to; ++i) cover[i] += distance[i] < price[i] ? 1.0 : 0.0;
        }
    });
}

}  // namespace

const DualKernels dual_kernels = {
    [](const Table& t, const double* price, const double* weight, double* gain) {
        t.wide ? gains<double>(t, price, weight, gain) : gains<float>(t, price, weight, gain);
    },
    [](const Table& t, const double* price, double* out) {
        t.wide ? cover<double>(t, price, out) : cover<float>(t, price, out);
    },
    [](const NearLists& t, const double* price, const double* weight, double* gain) {
        constexpr index_t STEP = 16;
        double work = 0;
        for (index_t r = 0; r < t.count; ++r) {
            const index_t row = t.some ? t.some[r] : r;
            work += 4.0 * static_cast<double>(t.start[row + 1] - t.start[row]);
        }
        parallel((t.count + STEP - 1) / STEP, threads_for(work), [&](index_t task) {
            for (index_t r = task * STEP; r < std::min(t.count, (task + 1) * STEP); ++r) {
                const index_t row = t.some ? t.some[r] : r;
                double sum = 0;
                for (index_t e = t.start[row]; e < t.start[row + 1]; ++e)
                    sum += worth(price[t.point[e]], t.distance[e], weight[t.point[e]]);
                gain[r] = sum;
            }
        });
    },
    [](const NearLists& t, const double* price, double* out) {
        std::fill(out, out + t.points, 0.0);
        for (index_t r = 0; r < t.count; ++r) {
            const index_t row = t.some ? t.some[r] : r;
            for (index_t e = t.start[row]; e < t.start[row + 1]; ++e)
                out[t.point[e]] += t.distance[e] < price[t.point[e]] ? 1.0 : 0.0;
        }
    },
};

}  // namespace kv::KV_ISA
