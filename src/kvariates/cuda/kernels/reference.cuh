// The reference arithmetic (docs/reference_arithmetic.md) on a card: float64 in a fixed order, without fused
// multiply-add, and exact sums of integers. Whatever else a kernel computes may only be faster.
#ifndef KV_REFERENCE
#define KV_REFERENCE
#include "base.cuh"

#ifdef ON_HOST
DEVICE double add(double a, double b) { return a + b; }
DEVICE double sub(double a, double b) { return a - b; }
DEVICE double mul(double a, double b) { return a * b; }
DEVICE double quotient(double a, double b) { return a / b; }
DEVICE double root(double a) { return __builtin_sqrt(a); }
DEVICE long long nearest_integer(double a) { return __builtin_llrint(a); }
DEVICE double from_word(word_t a) { return static_cast<double>(a); }
DEVICE float half_to_float(half_t h) { return on_host_half_to_float(h.bits); }
#else
DEVICE double add(double a, double b) { return __dadd_rn(a, b); }
DEVICE double sub(double a, double b) { return __dsub_rn(a, b); }
DEVICE double mul(double a, double b) { return __dmul_rn(a, b); }
DEVICE double quotient(double a, double b) { return __ddiv_rn(a, b); }
DEVICE double root(double a) { return __dsqrt_rn(a); }
DEVICE long long nearest_integer(double a) { return __double2ll_rn(a); }
DEVICE double from_word(word_t a) { return __ull2double_rn(a); }
DEVICE float half_to_float(half_t h) {
    float out;
    asm("cvt.f32.f16 %0, %1;" : "=f"(out) : "h"(h.bits));
    return out;
}
#endif

DEVICE float to_float(float x) { return x; }
DEVICE float to_float(double x) { return static_cast<float>(x); }  // rounds
DEVICE float to_float(half_t x) { return half_to_float(x); }
DEVICE double to_double(float x) { return x; }
DEVICE double to_double(double x) { return x; }
DEVICE double to_double(half_t x) { return half_to_float(x); }

// ---- distances ----------------------------------------------------------------------------------------------------

constexpr int LANES = 16;  // threads that measure a distance together: one for each of the sixteen partial sums
constexpr unsigned ALL = 0xffffffffu;

// The sixteen partial sums of sixteen threads, joined in the order of the reference. All of them get the result.
DEVICE double joined(double part) {
    part = add(part, __shfl_xor_sync(ALL, part, 4, LANES));
    part = add(part, __shfl_xor_sync(ALL, part, 8, LANES));
    part = add(part, __shfl_xor_sync(ALL, part, 1, LANES));
    return add(part, __shfl_xor_sync(ALL, part, 2, LANES));
}

// Adds the terms of the features after the last whole sixteen; thread i holds that of feature i.
DEVICE double with_rest(double sum, double term, int rest) {
    for (int i = 0; i < rest; ++i) sum = add(sum, __shfl_sync(ALL, term, i, LANES));
    return sum;
}

DEVICE double squared_gap(double x, double c) {
    const double gap = sub(x, c);
    return mul(gap, gap);
}

// By sixteen threads, which all get the result. All threads of the warp call it together.
template <class T>
DEVICE double distance_by_lanes(const T* x, const double* c, index_t d) {
    const int lane = threadIdx.x % LANES;
    const index_t whole = d / LANES * LANES;
    double part = 0;
    for (index_t i = lane; i < whole; i += LANES) part = add(part, squared_gap(to_double(x[i]), c[i]));
    const double sum = whole ? joined(part) : 0.0;
    const int rest = static_cast<int>(d - whole);
    const double term = lane < rest ? squared_gap(to_double(x[whole + lane]), c[whole + lane]) : 0.0;
    return with_rest(sum, term, rest);
}

// By one thread.
template <class T>
DEVICE double distance(const T* x, const double* c, index_t d) {
    double sum = 0;
    index_t i = 0;
    if (d >= LANES) {
        double part[LANES] = {};
        for (; i + LANES <= d; i += LANES)
#pragma unroll
            for (int l = 0; l < LANES; ++l) part[l] = add(part[l], squared_gap(to_double(x[i + l]), c[i + l]));
        double four[4];
#pragma unroll
        for (int l = 0; l < 4; ++l) four[l] = add(add(part[l], part[l + 4]), add(part[l + 8], part[l + 12]));
        sum = add(add(four[0], four[1]), add(four[2], four[3]));
    }
    for (; i < d; ++i) sum = add(sum, squared_gap(to_double(x[i]), c[i]));
    return sum;
}

// Whether a centre is nearer than another one: by its distance, and of equal ones by its index.
DEVICE bool nearer(double cost, label_t j, double than, label_t other) {
    return cost < than || (cost == than && j < other);
}

// ---- exact sums ---------------------------------------------------------------------------------------------------

typedef __int128 exact_t;

DEVICE double power_of_two(int e) { return __longlong_as_double(static_cast<long long>(e + 1023) << 52); }  // normal

// v 2^e for |e| < 2000, rounded once.
DEVICE double scaled(double v, int e) {
    const int first = e < -1000 ? -1000 : e > 1000 ? 1000 : e;
    return mul(mul(v, power_of_two(first)), power_of_two(e - first));
}

// The whole number of units 2^e in a term, and what they leave of it.
DEVICE long long cut(double& term, int e) {
    const long long units = nearest_integer(scaled(term, -e));
    term = sub(term, scaled(static_cast<double>(units), e));
    return units;
}

// A mass: a term in units of 2^(e - 92), for |term| < 2^e. `high` counts 2^47 of them.
struct Mass {
    long long high = 0, low = 0;
    METHOD void add_term(double term, int e) {
        high += cut(term, e - 45);
        low += cut(term, e - 92);
    }
    METHOD exact_t whole() const { return static_cast<exact_t>(high) * (static_cast<exact_t>(1) << 47) + low; }
};

// The float64 nearest to an integer times 2^e.
DEVICE double rounded(exact_t total, int e) {
    const bool negative = total < 0;
    unsigned __int128 size = negative ? -static_cast<unsigned __int128>(total) : static_cast<unsigned __int128>(total);
    int shift = 0;
    if (size >> 64) {
        shift = 64 - __clzll(static_cast<long long>(static_cast<word_t>(size >> 64)));
        const bool lost = (size & ((static_cast<unsigned __int128>(1) << shift) - 1)) != 0;
        size = size >> shift | (lost ? 1 : 0);  // far below the digits that are kept
    }
    const double value = scaled(from_word(static_cast<word_t>(size)), e + shift);
    return negative ? -value : value;
}

// Adds to a sum of two words in memory that no other thread changes now.
DEVICE exact_t load_exact(const word_t* words) {
    return static_cast<exact_t>((static_cast<unsigned __int128>(words[1]) << 64) | words[0]);
}
DEVICE void store_exact(word_t* words, exact_t total) {
    words[0] = static_cast<word_t>(total), words[1] = static_cast<word_t>(static_cast<unsigned __int128>(total) >> 64);
}

#endif
