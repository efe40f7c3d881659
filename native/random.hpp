// Random numbers from a seed by splitmix64.
#pragma once

#include <utility>

#include "common.hpp"

namespace kv {

constexpr std::uint64_t STRIDE = 0x9e3779b97f4a7c15ull;

inline std::uint64_t mix(std::uint64_t z) {
    z += STRIDE;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}
inline std::uint64_t mix(std::uint64_t seed, std::uint64_t with) { return mix(mix(seed) ^ mix(~with)); }

// Returns a number in [0, 1) from the upper 53 bits.
inline double unit(std::uint64_t z) { return static_cast<double>(z >> 11) * 0x1p-53; }

inline double uniform(std::uint64_t& state) {
    const std::uint64_t z = mix(state);
    state += STRIDE;
    return unit(z);
}

// Shuffles the items; the order is a function of the seed. (The bias of the multiplication is below 2^-32.)
template <class Item>
void shuffle(Item* items, index_t count, std::uint64_t seed) {
    for (index_t i = 0; i + 1 < count; ++i) {
        const auto left = static_cast<std::uint64_t>(count - i);
        seed += STRIDE;
        const auto product = static_cast<unsigned __int128>(mix(seed)) * left;
        std::swap(items[i], items[i + static_cast<index_t>(product >> 64)]);
    }
}

}  // namespace kv
