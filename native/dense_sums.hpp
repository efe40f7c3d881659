// Cluster sums of dense rows in fewer limbs than exact_sums.hpp has, for up to 2^12 rows of a cluster at a time: two of
// 45 and 47 bits, or a single one of 51 bits if every value is a multiple of its unit; or directly in narrow sums. The
// whole sums are the same.
#pragma once

#include <memory>
#include <mutex>

#include "exact_sums.hpp"
#include "kernels.hpp"
#include "small_rows.hpp"

namespace kv::KV_ISA {

// Whether all values are multiples of 2^(e-51): those of float32 are multiples of 2^-23 times their power of two.
template <class T>
bool fits_one_word(double smallest, const Scale& scale) {
    return sizeof(T) == 4 && std::ldexp(smallest, -24) >= std::ldexp(scale.unit, 92 - 51);
}

// Adding it rounds a value to whole units of a single limb.
inline double one_word_magic(const Scale& scale) { return scale.unit * 0x1p41 * 0x1.8p52; }

// The counts and weights of some rows.
struct ClusterCounts {
    std::vector<limb_t> weight;
    std::vector<index_t> count;

    explicit ClusterCounts(index_t k) : weight(k * LIMBS), count(k) {}
    void add_counts_to(const ClusterSums& sums) const {
        for (std::size_t i = 0; i < weight.size(); ++i) sums.weight[i] += weight[i];
        for (std::size_t j = 0; j < count.size(); ++j) sums.count[j] += count[j];
    }
};

// The sums of some rows over the features [from, to). N: words of a value. Several of them may add to the same `sums`.
template <int N>
class ShortClusterSums : public ClusterCounts {
public:
    ShortClusterSums(index_t k, index_t d, index_t from, index_t to, const ClusterSums& sums, std::mutex& flushing)
        : ClusterCounts(k),
          sums_(sums.sum),
          flushing_(&flushing),
          d_(d),
          from_(from),
          width_(to - from),
          words_(std::make_unique_for_overwrite<word_t[]>(k * N * width_)),
          used_(k),
          net_(k),
          magic_{N == 1 ? one_word_magic(sums.scale) : sums.scale.wide_magic, sums.scale.magic[LIMBS - 1]} {}

    // Adds or subtracts a row.
    template <int SIGN, class T>
    [[gnu::always_inline]] void add(const Dense<T>& rows, index_t i, double w, label_t j) {
        add_values<SIGN>(rows.row(i) + from_, w, j);
    }
    template <int SIGN>
    [[gnu::always_inline]] void add(const SmallRows& rows, index_t i, double w, label_t j) {
        ensure_size(wide_, width_);
        widen(rows, i, from_, from_ + width_, wide_.data());
        add_values<SIGN>(wide_.data(), w, j);
    }
    void flush_all() {
        for (std::size_t j = 0; j < used_.size(); ++j)
            if (used_[j]) flush(static_cast<label_t>(j));
    }

private:
    static constexpr std::int32_t MOST = 1 << 12;  // rows after which a word might overflow
    limb_t* sums_;
    std::mutex* flushing_;
    index_t d_, from_, width_;
    std::unique_ptr<word_t[]> words_;       // k x N x width; those of a cluster are set when its first row comes
    std::vector<std::int32_t> used_, net_;  // rows since the last flush: all; added minus subtracted
    double magic_[2];
    Buffer<float> wide_;  // a row of a small type

    template <int SIGN, class T>
    [[gnu::always_inline]] void add_values(const T* __restrict x, double w, label_t j) {
        word_t* __restrict high = words_.get() + j * N * width_;
        word_t* __restrict low = high + width_;
        if (used_[j] == 0) std::fill(high, high + N * width_, 0);
        const index_t width = width_;
        const double first = magic_[0], second = magic_[1];
        for (index_t f = 0; f < width; ++f) {
            const double term = w * static_cast<double>(x[f]), rounded = term + first;
            high[f] += static_cast<word_t>(SIGN) * std::bit_cast<word_t>(rounded);
            if constexpr (N == 2)
                low[f] += static_cast<word_t>(SIGN) * std::bit_cast<word_t>(term - (rounded - first) + second);
        }
        net_[j] += SIGN;
        if (++used_[j] == MOST) flush(j);
    }

    [[gnu::noinline]] void flush(label_t j) {
        const std::lock_guard lock(*flushing_);
        const word_t net = static_cast<word_t>(static_cast<limb_t>(net_[j])), *words = words_.get() + j * N * width_;
        const word_t bits[2] = {net * std::bit_cast<word_t>(magic_[0]), net * std::bit_cast<word_t>(magic_[1])};
        constexpr limb_t mask = (limb_t{1} << 31) - 1;
        limb_t *high = sums_ + j * LIMBS * d_ + from_, *middle = high + d_, *low = middle + d_;
        for (index_t i = 0; i < width_; ++i) {
            const auto top = static_cast<limb_t>(words[i] - bits[0]);
            if constexpr (N == 1) {  // units of 2^41 of the lowest limb
                high[i] += top >> 21;
                middle[i] += (top & ((1 << 21) - 1)) << 10;
            } else {  // units of 2^47, and of one
                const auto rest = static_cast<limb_t>(words[width_ + i] - bits[1]);
                high[i] += top >> 15;
                middle[i] += ((top & ((1 << 15) - 1)) << 16) + (rest >> 31);
                low[i] += rest & mask;
            }
        }
        used_[j] = net_[j] = 0;
    }
};

// The same in a table of narrow sums. Every cluster and feature belongs to one of them: terms are added at once.
class NarrowClusterSums : public ClusterCounts {
public:
    NarrowClusterSums(index_t k, index_t d, index_t from, index_t to, const ClusterSums& sums)
        : ClusterCounts(k), sums_(sums.narrow), d_(d), from_(from), width_(to - from) {
        const double unit = sums.scale.unit * std::ldexp(1.0, UNIT_BITS[LIMBS - 1] - sums_.digits);
        for (int part : {0, 1}) magic_[part] = std::ldexp(unit * 0x1.8p52, part == 0 ? SPLIT : 0);
    }

    // Adds or subtracts a row.
    template <int SIGN, class T>
    [[gnu::always_inline]] void add(const Dense<T>& rows, index_t i, double w, label_t j) {
        add_values<SIGN>(rows.row(i) + from_, w, j);
    }
    template <int SIGN>
    [[gnu::always_inline]] void add(const SmallRows& rows, index_t i, double w, label_t j) {
        ensure_size(wide_, width_);
        widen(rows, i, from_, from_ + width_, wide_.data());
        add_values<SIGN>(wide_.data(), w, j);
    }
    void flush_all() {}

private:
    static constexpr int SPLIT = 31;  // bits of the lower part of a term
    NarrowSums sums_;
    index_t d_, from_, width_;
    double magic_[2];
    Buffer<float> wide_;  // a row of a small type

    template <int SIGN, class T>
    [[gnu::always_inline]] void add_values(const T* __restrict x, double w, label_t j) {
        word_t* __restrict low = sums_.low + j * d_ + from_;
        std::int32_t* __restrict high = sums_.high + j * d_ + from_;
        const index_t width = width_;
        const double first = magic_[0], second = magic_[1];
        const word_t first_bits = std::bit_cast<word_t>(first), second_bits = std::bit_cast<word_t>(second);
        for (index_t f = 0; f < width; ++f) {
            const double term = w * static_cast<double>(x[f]), rounded = term + first;
            const word_t upper = std::bit_cast<word_t>(rounded) - first_bits;
            const word_t lower = std::bit_cast<word_t>(term - (rounded - first) + second) - second_bits;
            const word_t units = static_cast<word_t>(SIGN) * ((upper << SPLIT) + lower), sum = low[f] + units;
            high[f] += static_cast<std::int32_t>(sum < units) - static_cast<std::int32_t>(units >> 63);
            low[f] = sum;
        }
    }
};

}  // namespace kv::KV_ISA
