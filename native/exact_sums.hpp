// Sums of float64 terms as exact integers. The sum of the same terms is the same whoever adds them and in which order,
// so threads, blocks and shards give the same bits, and a term that is subtracted again leaves nothing behind.
//
// For terms below 2^e a term is cut into three limbs: integers of about 30 bits in units of 2^(e-30), 2^(e-61) and
// 2^(e-92). What is left out is at most 2^(e-93). Each limb has its own int64 sum, which 2^31 terms cannot overflow.
#pragma once

#include <bit>
#include <cmath>

#include "common.hpp"

namespace kv {

using limb_t = std::int64_t;
using word_t = std::uint64_t;
using exact_t = __int128;  // a whole sum, in units of 2^(e-92)

constexpr int LIMBS = 3;
constexpr int UNIT_BITS[LIMBS] = {30, 61, 92};
constexpr exact_t WIDE = exact_t{1} << 47;

// Adding 1.5 * 2^52 units to a term rounds it to whole units, and the bits of the result are those of the constant plus
// that number of units.
//
// Biased limbs are unsigned: their sums may wrap around, and subtracting the bits of the constants undoes that.
struct Scale {
    double magic[LIMBS];
    word_t bits[LIMBS];
    double unit;  // of a whole sum
    double wide_magic;

    explicit Scale(int e) : unit(std::ldexp(1.0, e - UNIT_BITS[LIMBS - 1])), wide_magic(std::ldexp(1.5, 52 + e - 45)) {
        for (int l = 0; l < LIMBS; ++l) {
            magic[l] = std::ldexp(1.5, 52 + e - UNIT_BITS[l]);
            bits[l] = std::bit_cast<word_t>(magic[l]);
        }
    }

    // Calls put(l, limb + bits[l]) for the three limbs of a term. Whoever adds m terms subtracts m * bits[l] at the
    // end.
    template <class Put>
    [[gnu::always_inline]] inline void cut_biased(double term, Put put) const {
        for (int l = 0; l < LIMBS; ++l) {
            const double rounded = term + magic[l];
            put(l, std::bit_cast<word_t>(rounded));
            term -= rounded - magic[l];
        }
    }
    // Calls put(l, limb) for the three limbs of a term.
    template <class Put>
    [[gnu::always_inline]] inline void cut(double term, Put put) const {
        cut_biased(term, [&](int l, word_t v) { put(l, static_cast<limb_t>(v - bits[l])); });
    }
    // Calls put(high, low) for a term of high * 2^47 + low units of a whole sum. Two wide limbs, of 45 and 47 bits, are
    // less work than three, and give the same sum.
    template <class Put>
    [[gnu::always_inline]] inline void cut_wide(double term, Put put) const {
        const double rounded = term + wide_magic, rest = term - (rounded - wide_magic) + magic[LIMBS - 1];
        put(static_cast<limb_t>(std::bit_cast<word_t>(rounded) - std::bit_cast<word_t>(wide_magic)),
            static_cast<limb_t>(std::bit_cast<word_t>(rest) - bits[LIMBS - 1]));
    }
    // A term in units of a whole sum.
    exact_t exact(double term) const {
        exact_t sum;
        cut_wide(term, [&](limb_t high, limb_t low) { sum = high * WIDE + low; });
        return sum;
    }
    // Joins the limbs at part[0], part[stride], part[2 * stride].
    static exact_t whole(const limb_t* part, index_t stride) {
        exact_t sum = part[0];
        for (int l = 1; l < LIMBS; ++l)
            sum = sum * (exact_t{1} << (UNIT_BITS[l] - UNIT_BITS[l - 1])) + part[l * stride];
        return sum;
    }
    // The nearest float64 to a whole sum.
    double rounded(exact_t sum) const {
        // Both parts of a sum that is not too large are exact, so that their addition rounds only once.
        const exact_t top = sum >> 47;
        const auto high = static_cast<limb_t>(top);
        if (high == top && high < TOP && high > -TOP)
            return (static_cast<double>(high) * 0x1p47 + static_cast<double>(static_cast<limb_t>(sum & (WIDE - 1)))) *
                   unit;
        return rounded_slowly(sum);
    }

private:
    static constexpr limb_t TOP = limb_t{1} << 53;

    double rounded_slowly(exact_t sum) const {
        const auto size = static_cast<unsigned __int128>(sum < 0 ? -sum : sum);
        const auto high = static_cast<std::uint64_t>(size >> 64), low = static_cast<std::uint64_t>(size);
        double value = static_cast<double>(low);
        if (high) {
            const int shift = std::countl_zero(high);
            const auto top = static_cast<std::uint64_t>(size << shift >> 64);
            const bool rest = static_cast<std::uint64_t>(size << shift) != 0;
            // 64 bits hold the 53 of a float64 and more, so that one bit stands for all that follow.
            value = static_cast<double>(top | rest) * static_cast<double>(std::uint64_t{1} << (63 - shift)) * 2;
        }
        return (sum < 0 ? -value : value) * unit;
    }
};

// Whole sums of terms that are multiples of 2^(e-digits), in units of that: 96 bits each, half the memory of limbs.
struct NarrowSums {
    static constexpr int MOST_DIGITS = 62;  // so that a term fits into a word, and a sum of 2^31 terms into 96 bits

    word_t* low = nullptr;
    std::int32_t* high = nullptr;
    int digits = 0;

    exact_t whole(index_t i) const {
        const exact_t sum = exact_t{high[i]} * (exact_t{1} << 64) + low[i];
        return sum * (exact_t{1} << (UNIT_BITS[LIMBS - 1] - digits));
    }
};

// The sum of up to 2^15 terms in two wide limbs, of 45 and 47 bits: less work than three, and the same whole sum.
struct ShortSum {
    const Scale& scale;
    word_t high = 0, low = 0, terms = 0;

    // Adds a term, or a vector of terms, to limbs of words, or of vectors of words. The caller counts the terms.
    template <class Real, class Word>
    [[gnu::always_inline]] static inline void add(const Scale& scale, Real term, Word& high, Word& low) {
        const Real rounded = term + scale.wide_magic;
        high += std::bit_cast<Word>(rounded);
        low += std::bit_cast<Word>(term - (rounded - scale.wide_magic) + scale.magic[LIMBS - 1]);
    }
    [[gnu::always_inline]] inline void add(double term) { add(scale, term, high, low); }
    exact_t whole() const {
        const auto top = static_cast<limb_t>(high - terms * std::bit_cast<word_t>(scale.wide_magic));
        const auto rest = static_cast<limb_t>(low - terms * scale.bits[LIMBS - 1]);
        return top * WIDE + rest;
    }
};

// A sum over all of float64's range: bin b holds units of 2^(32 b - 1074). Terms must be finite.
constexpr int BINS = 67;

class Bins {
public:
    limb_t bin[BINS] = {};

    // Adds up to BLOCK terms. Mantissas are first added up by exponent, where 2^10 of them cannot overflow.
    void add(const double* term, const double* weight, index_t n) {
        int least = EXPONENTS, most = -1;
        for (index_t i = 0; i < n; ++i) {
            const auto bits = std::bit_cast<std::uint64_t>(weight ? weight[i] * term[i] : term[i]);
            const int biased = static_cast<int>(bits >> 52 & 2047);
            const auto mantissa = static_cast<limb_t>((bits & FRACTION) | (biased ? FRACTION + 1 : 0));
            by_exponent_[biased] += bits >> 63 ? -mantissa : mantissa;
            least = std::min(least, biased), most = std::max(most, biased);
        }
        for (int e = least; e <= most; ++e) {
            add_shifted(by_exponent_[e], std::max(e - 1, 0));
            by_exponent_[e] = 0;
        }
    }
    void add(const Bins& other) {
        for (int b = 0; b < BINS; ++b) bin[b] += other.bin[b];
    }

private:
    static constexpr int EXPONENTS = 2048;
    static constexpr std::uint64_t FRACTION = (std::uint64_t{1} << 52) - 1;
    limb_t by_exponent_[EXPONENTS] = {};

    void add_shifted(limb_t units, int shift) {
        const exact_t wide = static_cast<exact_t>(units) * (exact_t{1} << (shift % 32));
        bin[shift / 32] += static_cast<limb_t>(wide & 0xffffffff);
        bin[shift / 32 + 1] += static_cast<limb_t>(wide >> 32 & 0xffffffff);
        bin[shift / 32 + 2] += static_cast<limb_t>(wide >> 64);
    }
};

inline Bins exact_bins(const double* term, const double* weight, index_t n) {
    std::vector<Bins> parts(threads_for(4.0 * static_cast<double>(n)));
    parallel_rows(n, parts, [&](index_t from, index_t stop, Bins& bins) {
        bins.add(term + from, weight ? weight + from : nullptr, stop - from);
    });
    for (std::size_t t = 1; t < parts.size(); ++t) parts[0].add(parts[t]);
    return parts[0];
}

}  // namespace kv
