// A 2-HST: nested clusters whose radii halve from height to height (Fan et al. 2023, Algorithm 3).
//
// The radius at height h is scale(h) * 2^(h-1), its scale random in [1, 2), drawn afresh for every height: given
// the clusters above, a height's radius is then independent of them, which is what the logarithmic bound on the
// distortion needs when centres come from the cluster itself. Here is what knows no distances; tree.cpp grows.
#pragma once

#include <cmath>

#include "random.hpp"
#include "tree_kernels.hpp"

namespace kv {

constexpr int FAR = 1100;   // the height over what no finite distance joins: 2^FAR is infinite
constexpr int KEPT = 96;    // heights below the root whose radii are kept

class Radii {
public:
    Radii(std::uint64_t seed, bool afresh) : seed_(seed), afresh_(afresh) {}

    double operator()(int h) const {
        const int place = top_ - h;
        return place >= 0 && place < KEPT && ready_ ? kept_[place] : made(h);
    }
    // The largest height whose radius is below x > 0.
    int below(double x) const {
        if (!(x <= std::numeric_limits<double>::max())) return FAR - 1;
        const int h = std::ilogb(x) + 1;
        return (*this)(h) < x ? h : h - 1;
    }
    // The least height whose radius is x or more; x > 0.
    int covering(double x) const {
        if (!(x <= std::numeric_limits<double>::max())) return FAR;
        const int h = std::ilogb(x) + 1;
        return (*this)(h - 1) >= x ? h - 1 : (*this)(h) >= x ? h : h + 1;
    }
    void keep(int top) {
        ready_ = false;
        top_ = top;
        for (int i = 0; i < KEPT; ++i) kept_[i] = made(top - i);
        ready_ = true;
    }

private:
    double made(int h) const {
        // log-uniform, so that no unit of length is special. The last millionth is left out: two points of a cluster
        // are at most two radii apart, and that must stay below 2^(h+1) however distances were rounded.
        const double u = unit(mixed(seed_, afresh_ ? static_cast<std::uint64_t>(h + 4096) : 0));
        const double r = std::ldexp(std::exp2(u * (1 - 0x1p-20)), h - 1);
        return std::min(r, std::numeric_limits<double>::max());
    }
    std::uint64_t seed_;
    bool afresh_;
    int top_ = 0;
    bool ready_ = false;
    double kept_[KEPT];
};

// Heights start at zero: a unit is the power of two that makes them.
inline void normalise(Grown& tree) {
    index_t low = FAR;
    for (const index_t h : tree.height) low = std::min(low, h);
    low = std::max<index_t>(low, -1022);
    for (index_t& h : tree.height) h -= low;
    tree.unit = std::ldexp(1.0, static_cast<int>(low));
}

}  // namespace kv
