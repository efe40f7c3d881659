// The sums of dual.hpp, in sixteen float64 lanes that are added in one order: the same bits on every instruction set
// and on any number of threads.
#include "kernels.hpp"

namespace kv::KV_ISA {
namespace {

constexpr int SUMS = 16;      // lanes
constexpr index_t STEP = 16;  // candidates per task

inline double term(double price, double distance, double weight) {
    const double over = price - distance;
    return weight * (over > 0 ? over : 0.0);
}

template <class T>
double gain_of(const T* distance, const double* price, const double* weight, index_t n) {
    double part[SUMS] = {};
    index_t i = 0;
    for (; i + SUMS <= n; i += SUMS)
        for (int r = 0; r < SUMS; ++r) part[r] += term(price[i + r], distance[i + r], weight[i + r]);
    for (int r = 0; i < n; ++i, ++r) part[r] += term(price[i], distance[i], weight[i]);
    for (int half = SUMS / 2; half; half /= 2)
        for (int r = 0; r < half; ++r) part[r] += part[r + half];
    return part[0];
}

template <class F>
void parallel_candidates(index_t count, double work, F&& f) {
    parallel((count + STEP - 1) / STEP, threads_for(work), [&](index_t task) {
        for (index_t r = task * STEP; r < std::min(count, (task + 1) * STEP); ++r) f(r);
    });
}

template <class T>
void gains(const DistanceTable& t, const T* all, const double* price, const double* weight, double* gain) {
    parallel_candidates(t.count, static_cast<double>(t.count) * t.points,
                        [&](index_t r) { gain[r] = gain_of(all + t.row(r) * t.points, price, weight, t.points); });
}

template <class T>
void cover(const DistanceTable& t, const T* all, const double* price, double* cover) {
    parallel_rows(t.points, threads_for(static_cast<double>(t.count) * t.points), [&](index_t from, index_t to) {
        std::fill(cover + from, cover + to, 0.0);
        for (index_t r = 0; r < t.count; ++r) {
            const T* distance = all + t.row(r) * t.points;
            for (index_t i = from; i < to; ++i) cover[i] += distance[i] < price[i] ? 1.0 : 0.0;
        }
    });
}

void list_gains(const DistanceLists& t, const double* price, const double* weight, double* gain) {
    double work = 0;
    for (index_t r = 0; r < t.count; ++r) work += 4.0 * static_cast<double>(t.start[t.row(r) + 1] - t.start[t.row(r)]);
    parallel_candidates(t.count, work, [&](index_t r) {
        double sum = 0;
        for (index_t e = t.start[t.row(r)]; e < t.start[t.row(r) + 1]; ++e)
            sum += term(price[t.point[e]], t.distance[e], weight[t.point[e]]);
        gain[r] = sum;
    });
}

void list_cover(const DistanceLists& t, const double* price, double* cover) {
    std::fill(cover, cover + t.points, 0.0);
    for (index_t r = 0; r < t.count; ++r)
        for (index_t e = t.start[t.row(r)]; e < t.start[t.row(r) + 1]; ++e)
            cover[t.point[e]] += t.distance[e] < price[t.point[e]] ? 1.0 : 0.0;
}

}  // namespace

const DualKernels dual_kernels = {
    .table_gains =
        [](const DistanceTable& t, const double* price, const double* weight, double* gain) {
            with_type(t.is_double,
                      [&]<class T>(T) { gains(t, static_cast<const T*>(t.distance), price, weight, gain); });
        },
    .table_cover =
        [](const DistanceTable& t, const double* price, double* out) {
            with_type(t.is_double, [&]<class T>(T) { cover(t, static_cast<const T*>(t.distance), price, out); });
        },
    .list_gains = list_gains,
    .list_cover = list_cover,
};

}  // namespace kv::KV_ISA
