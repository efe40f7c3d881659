// The radii of a 2-HST, a tree of nested clusters whose radii halve from height to height (Algorithm 3 of Fan et al.,
// 2023).
//
// The radius at height h is scale(h) * 2^(h-1), where the scale is random in [1, 2). tree.cpp draws a new one for every
// height: a radius is then independent of the clusters above. The logarithmic bound on the distortion needs this if
// centres come from the cluster itself.
#pragma once

#include <cmath>

#include "random.hpp"
#include "tree_kernels.hpp"

namespace kv {

constexpr int INFINITE_HEIGHT = 1100;  // of a node whose children are infinitely far apart: 2^1100 overflows
constexpr int CACHED = 96;             // heights below the root whose radii are stored

// Returns 2^x for x in [0, 1) by its series. The last bit of std::exp2 depends on the processor.
inline double power_of_two(double x) {
    const double t = x * 0.6931471805599453;  // the terms that are left out are below 1e-20
    double sum = 1;
    for (int n = 18; n > 0; --n) sum = 1 + t / n * sum;
    return sum;
}

class Radii {
public:
    Radii(std::uint64_t seed, bool per_height) : seed_(seed), per_height_(per_height) {}

    double operator()(int h) const {
        const int place = top_ - h;
        return place >= 0 && place < CACHED && ready_ ? cached_[place] : computed(h);
    }
    // Returns the largest height whose radius is below x > 0.
    int below(double x) const {
        if (!(x <= std::numeric_limits<double>::max())) return INFINITE_HEIGHT - 1;
        const int h = std::ilogb(x) + 1;
        return (*this)(h) < x ? h : h - 1;
    }
    // Returns the smallest height whose radius is at least x > 0.
    int covering(double x) const {
        if (!(x <= std::numeric_limits<double>::max())) return INFINITE_HEIGHT;
        const int h = std::ilogb(x) + 1;
        return (*this)(h - 1) >= x ? h - 1 : (*this)(h) >= x ? h : h + 1;
    }
    void cache(int top) {
        ready_ = false;
        top_ = top;
        for (int i = 0; i < CACHED; ++i) cached_[i] = computed(top - i);
        ready_ = true;
    }

private:
    double computed(int h) const {
        // Log-uniform, so that the unit of length does not matter. The last millionth is left out: two points of a
        // cluster are at most two radii apart, and this must stay below 2^(h+1) with rounded distances too.
        const double u = unit(mix(seed_, per_height_ ? static_cast<std::uint64_t>(h + 4096) : 0));
        const double r = std::ldexp(power_of_two(u * (1 - 0x1p-20)), h - 1);
        return std::min(r, std::numeric_limits<double>::max());
    }
    std::uint64_t seed_;
    bool per_height_;
    int top_ = 0;
    bool ready_ = false;
    double cached_[CACHED];
};

// Shifts the heights so that the lowest is zero, and sets the unit to the power of two that this takes.
inline void normalize(Tree& tree) {
    index_t low = INFINITE_HEIGHT;
    for (const index_t h : tree.height) low = std::min(low, h);
    low = std::max<index_t>(low, -1022);
    for (index_t& h : tree.height) h -= low;
    tree.unit = std::ldexp(1.0, static_cast<int>(low));
}

}  // namespace kv
