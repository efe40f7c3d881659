// What CUDA gives to kernels, for a processor: this text comes before that of a kernel (on_host.py), and on_host.cpp
// runs its blocks. What is missing here does not compile, as float sums by atomics, whose order would matter.
#include <fenv.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#define __device__
#define __host__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __grid_constant__
#define __constant__ static
#ifdef __ELF__  // in one section, which is filled with garbage before each block
#define __shared__ static __attribute__((section("on_host_statics")))
extern char on_host_first[] asm("__start_on_host_statics") __attribute__((weak, visibility("hidden")));
extern char on_host_stop[] asm("__stop_on_host_statics") __attribute__((weak, visibility("hidden")));
extern "C" char* on_host_static_shared() { return on_host_first; }
extern "C" long long on_host_static_size() { return on_host_stop - on_host_first; }
#else
#define __shared__ static
extern "C" char* on_host_static_shared() { return nullptr; }
extern "C" long long on_host_static_size() { return 0; }
#endif

struct on_host_index {
    unsigned x, y, z;
};
typedef void on_host_combine(void** lanes, unsigned present);
extern "C" {
extern on_host_index threadIdx, blockIdx, blockDim, gridDim;
void on_host_fail(const char* format, ...) __attribute__((noreturn));
char* on_host_shared();
int on_host_live();
int on_host_barrier_all(int predicate, int line);
// Waits for the live threads of `group` consecutive ones (32, or a multiple) whose lane is in `mask`. The last one to
// come calls `combine` once, with the arguments of all of them by number (null: not there); it may write to them.
void on_host_together(int group, unsigned mask, int line, on_host_combine* combine, void* argument);
void on_host_barrier(int name, int size, int line);  // bar.sync name, size
void on_host_yield();                                // in a loop that waits for another thread of the block
}
constexpr int warpSize = 32;

#define ON_HOST_LINE int line = __builtin_LINE()

// ---- vectors
// ----------------------------------------------------------------------------------------------------------

#define ON_HOST_VECTORS(T, name, align2, align4)                      \
    struct __align__(align2) name##2 { T x, y; };                     \
    struct __align__(align4) name##4 { T x, y, z, w; };               \
    static inline name##2 make_##name##2(T x, T y) { return {x, y}; } \
    static inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
ON_HOST_VECTORS(short, short, 4, 8)
ON_HOST_VECTORS(unsigned short, ushort, 4, 8)
ON_HOST_VECTORS(int, int, 8, 16)
ON_HOST_VECTORS(unsigned, uint, 8, 16)
ON_HOST_VECTORS(float, float, 8, 16)
ON_HOST_VECTORS(long long, longlong, 16, 16)
ON_HOST_VECTORS(unsigned long long, ulonglong, 16, 16)
ON_HOST_VECTORS(double, double, 16, 16)

// ---- threads that wait for each other
// -----------------------------------------------------------------------------------

static inline void __syncthreads(ON_HOST_LINE) { on_host_barrier_all(0, line); }
static inline int __syncthreads_count(int p, ON_HOST_LINE) { return on_host_barrier_all(p != 0, line); }
static inline int __syncthreads_or(int p, ON_HOST_LINE) { return on_host_barrier_all(p != 0, line) != 0; }
static inline int __syncthreads_and(int p, ON_HOST_LINE) { return on_host_barrier_all(p == 0, line) == 0; }
static inline void __syncwarp(unsigned mask = ~0u, ON_HOST_LINE) { on_host_together(32, mask, line, nullptr, nullptr); }
static inline void __threadfence() {}
static inline void __threadfence_block() {}
static inline void __nanosleep(unsigned) { on_host_yield(); }
static inline void __trap() { on_host_fail("__trap"); }

template <class T>
struct on_host_lane {
    T value, out;
    int from;  // lane; the thread's own if the other one is outside of its segment
};

// The value of another lane. That of a lane which is not there is garbage.
template <class T>
void on_host_take(void** lanes, unsigned present) {
    for (int i = 0; i < 32; ++i) {
        if (!(present >> i & 1)) continue;
        on_host_lane<T>& me = *static_cast<on_host_lane<T>*>(lanes[i]);
        if (present >> me.from & 1)
            me.out = static_cast<on_host_lane<T>*>(lanes[me.from])->value;
        else
            memset(&me.out, 0xCD, sizeof(T));
    }
}

template <class T>
T on_host_exchanged(unsigned mask, T value, int from, int line) {
    on_host_lane<T> me = {value, value, from};
    on_host_together(32, mask, line, on_host_take<T>, &me);
    return me.out;
}

static inline int on_host_own() { return threadIdx.x & 31; }

#define ON_HOST_SHUFFLES(T)                                                                                            \
    static inline T __shfl_sync(unsigned mask, T v, int from, int width = 32, ON_HOST_LINE) {                          \
        const int own = on_host_own();                                                                                 \
        return on_host_exchanged<T>(mask, v, (own & ~(width - 1)) | (from & (width - 1)), line);                       \
    }                                                                                                                  \
    static inline T __shfl_xor_sync(unsigned mask, T v, int bits, int width = 32, ON_HOST_LINE) {                      \
        const int own = on_host_own(), from = own ^ bits, last = own | (width - 1);                                    \
        return on_host_exchanged<T>(mask, v, from <= last && from < 32 ? from : own, line);                            \
    }                                                                                                                  \
    static inline T __shfl_down_sync(unsigned mask, T v, unsigned by, int width = 32, ON_HOST_LINE) {                  \
        const int own = on_host_own(), last = own | (width - 1);                                                       \
        return on_host_exchanged<T>(mask, v,                                                                           \
                                    by <= static_cast<unsigned>(last - own) ? own + static_cast<int>(by) : own, line); \
    }                                                                                                                  \
    static inline T __shfl_up_sync(unsigned mask, T v, unsigned by, int width = 32, ON_HOST_LINE) {                    \
        const int own = on_host_own(), first = own & ~(width - 1);                                                     \
        return on_host_exchanged<T>(                                                                                   \
            mask, v, by <= static_cast<unsigned>(own - first) ? own - static_cast<int>(by) : own, line);               \
    }
ON_HOST_SHUFFLES(int)
ON_HOST_SHUFFLES(unsigned)
ON_HOST_SHUFFLES(long)
ON_HOST_SHUFFLES(unsigned long)
ON_HOST_SHUFFLES(long long)
ON_HOST_SHUFFLES(unsigned long long)
ON_HOST_SHUFFLES(float)
ON_HOST_SHUFFLES(double)

struct on_host_sum {
    static unsigned long long of(unsigned long long a, unsigned long long b) { return a + b; }
};
struct on_host_least {
    template <class T>
    static T of(T a, T b) {
        return a < b ? a : b;
    }
};
struct on_host_most {
    template <class T>
    static T of(T a, T b) {
        return a < b ? b : a;
    }
};
struct on_host_both {
    static unsigned of(unsigned a, unsigned b) { return a & b; }
};
struct on_host_either {
    static unsigned of(unsigned a, unsigned b) { return a | b; }
};
struct on_host_one {
    static unsigned of(unsigned a, unsigned b) { return a ^ b; }
};

template <class T, class Join>
void on_host_reduce(void** lanes, unsigned present) {
    T out{};
    bool first = true;
    for (int i = 0; i < 32; ++i) {
        if (!(present >> i & 1)) continue;
        const T value = static_cast<on_host_lane<T>*>(lanes[i])->value;
        out = first ? value : static_cast<T>(Join::of(out, value));
        first = false;
    }
    for (int i = 0; i < 32; ++i)
        if (present >> i & 1) static_cast<on_host_lane<T>*>(lanes[i])->out = out;
}

template <class T, class Join>
T on_host_reduced(unsigned mask, T value, int line) {
    on_host_lane<T> me = {value, value, 0};
    on_host_together(32, mask, line, on_host_reduce<T, Join>, &me);
    return me.out;
}

static inline unsigned __ballot_sync(unsigned mask, int p, ON_HOST_LINE) {
    return on_host_reduced<unsigned, on_host_either>(mask, p ? 1u << on_host_own() : 0, line);
}
static inline int __any_sync(unsigned mask, int p, ON_HOST_LINE) {
    return static_cast<int>(on_host_reduced<unsigned, on_host_either>(mask, p != 0, line));
}
static inline int __all_sync(unsigned mask, int p, ON_HOST_LINE) {
    return static_cast<int>(on_host_reduced<unsigned, on_host_both>(mask, p != 0, line));
}
#define ON_HOST_REDUCE(name, T, Join)                                              \
    static inline T __reduce_##name##_sync(unsigned mask, T value, ON_HOST_LINE) { \
        return on_host_reduced<T, Join>(mask, value, line);                        \
    }
ON_HOST_REDUCE(add, unsigned, on_host_sum)
ON_HOST_REDUCE(add, int, on_host_sum)
ON_HOST_REDUCE(min, unsigned, on_host_least)
ON_HOST_REDUCE(min, int, on_host_least)
ON_HOST_REDUCE(max, unsigned, on_host_most)
ON_HOST_REDUCE(max, int, on_host_most)
ON_HOST_REDUCE(and, unsigned, on_host_both)
ON_HOST_REDUCE(or, unsigned, on_host_either)
ON_HOST_REDUCE(xor, unsigned, on_host_one)

template <class T>
void on_host_match(void** lanes, unsigned present) {
    for (int i = 0; i < 32; ++i) {
        if (!(present >> i & 1)) continue;
        on_host_lane<T>& me = *static_cast<on_host_lane<T>*>(lanes[i]);
        me.from = 0;
        for (int j = 0; j < 32; ++j)
            if (present >> j & 1 && static_cast<on_host_lane<T>*>(lanes[j])->value == me.value) me.from |= 1u << j;
    }
}
template <class T>
unsigned __match_any_sync(unsigned mask, T value, ON_HOST_LINE) {
    on_host_lane<T> me = {value, value, 0};
    on_host_together(32, mask, line, on_host_match<T>, &me);
    return static_cast<unsigned>(me.from);
}

// ---- atomics
// ------------------------------------------------------------------------------------------------------------

// A thread runs until it waits, so nothing comes between.
#define ON_HOST_ATOMIC(name, T, after)             \
    static inline T atomic##name(T* at, T value) { \
        const T old = *at;                         \
        *at = static_cast<T>(after);               \
        return old;                                \
    }
#define ON_HOST_ATOMICS(T)                                  \
    ON_HOST_ATOMIC(Min, T, value < old ? value : old)       \
    ON_HOST_ATOMIC(Max, T, value > old ? value : old)       \
    ON_HOST_ATOMIC(Exch, T, value)                          \
    ON_HOST_ATOMIC(And, T, old& value)                      \
    ON_HOST_ATOMIC(Or, T, old | value)                      \
    ON_HOST_ATOMIC(Xor, T, old ^ value)                     \
    static inline T atomicCAS(T* at, T expected, T value) { \
        const T old = *at;                                  \
        if (old == expected) *at = value;                   \
        return old;                                         \
    }
ON_HOST_ATOMICS(int)
ON_HOST_ATOMICS(unsigned)
ON_HOST_ATOMICS(unsigned long long)
ON_HOST_ATOMIC(Min, long long, value < old ? value : old)
ON_HOST_ATOMIC(Max, long long, value > old ? value : old)
ON_HOST_ATOMIC(Exch, float, value)
ON_HOST_ATOMIC(Add, int, static_cast<unsigned>(old) + static_cast<unsigned>(value))
ON_HOST_ATOMIC(Add, unsigned, old + value)
ON_HOST_ATOMIC(Add, unsigned long long, old + value)
ON_HOST_ATOMIC(Add, double, old + value)
ON_HOST_ATOMIC(Sub, int, static_cast<unsigned>(old) - static_cast<unsigned>(value))
ON_HOST_ATOMIC(Sub, unsigned, old - value)

// ---- bits
// ---------------------------------------------------------------------------------------------------------------

static inline int __popc(unsigned v) { return __builtin_popcount(v); }
static inline int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
static inline int __ffs(int v) { return __builtin_ffs(v); }
static inline int __ffsll(long long v) { return __builtin_ffsll(v); }
static inline int __clz(int v) { return v ? __builtin_clz(static_cast<unsigned>(v)) : 32; }
static inline int __clzll(long long v) { return v ? __builtin_clzll(static_cast<unsigned long long>(v)) : 64; }
static inline unsigned __brev(unsigned v) {
    unsigned out = 0;
    for (int i = 0; i < 32; ++i) out |= (v >> i & 1) << (31 - i);
    return out;
}
static inline unsigned __umulhi(unsigned a, unsigned b) {
    return static_cast<unsigned>(static_cast<uint64_t>(a) * b >> 32);
}
static inline int __mulhi(int a, int b) { return static_cast<int>(static_cast<int64_t>(a) * b >> 32); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
static inline long long __mul64hi(long long a, long long b) {
    return static_cast<long long>(static_cast<__int128>(a) * b >> 64);
}
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned which) {
    const uint64_t both = static_cast<uint64_t>(b) << 32 | a;
    unsigned out = 0;
    for (int i = 0; i < 4; ++i) out |= static_cast<unsigned>(both >> 8 * (which >> 4 * i & 7) & 255) << 8 * i;
    return out;
}

template <class To, class From>
To on_host_bits(From value) {
    static_assert(sizeof(To) == sizeof(From), "");
    To out;
    memcpy(&out, &value, sizeof out);
    return out;
}
static inline int __float_as_int(float v) { return on_host_bits<int>(v); }
static inline unsigned __float_as_uint(float v) { return on_host_bits<unsigned>(v); }
static inline float __int_as_float(int v) { return on_host_bits<float>(v); }
static inline float __uint_as_float(unsigned v) { return on_host_bits<float>(v); }
static inline long long __double_as_longlong(double v) { return on_host_bits<long long>(v); }
static inline double __longlong_as_double(long long v) { return on_host_bits<double>(v); }

// Half precision to float, which is exact.
static inline float on_host_half_to_float(unsigned short h) {
    const int exponent = h >> 10 & 31, digits = h & 1023;
    const float size = exponent == 31 ? (digits ? NAN : INFINITY)
                       : exponent     ? ldexpf(static_cast<float>(digits + 1024), exponent - 25)
                                      : ldexpf(static_cast<float>(digits), -24);
    return h >> 15 ? -size : size;
}
// The nearest of half precision, ties to even; from 65520 on infinity.
static inline unsigned short on_host_to_half(double v) {
    const unsigned sign = signbit(v) ? 0x8000u : 0;
    const double size = fabs(v);
    if (v != v) return static_cast<unsigned short>(0x7FFF);
    if (size >= 65520) return static_cast<unsigned short>(sign | 0x7C00);
    int exponent = -14;  // of the smallest normal number, and of all below it
    if (size >= 0x1p-14) exponent = ilogb(size);
    const unsigned digits = static_cast<unsigned>(rint(ldexp(size, 10 - exponent)));  // 1024 is the hidden digit
    return static_cast<unsigned short>(sign | ((static_cast<unsigned>(exponent + 14) << 10) + digits));
}

// ---- loads and stores with a hint
// -----------------------------------------------------------------------------------------

#define ON_HOST_LOAD(name) \
    template <class T>     \
    T name(const T* at) {  \
        return *at;        \
    }
#define ON_HOST_STORE(name)     \
    template <class T>          \
    void name(T* at, T value) { \
        *at = value;            \
    }
ON_HOST_LOAD(__ldg)
ON_HOST_LOAD(__ldcg)
ON_HOST_LOAD(__ldca)
ON_HOST_LOAD(__ldcs)
ON_HOST_LOAD(__ldlu)
ON_HOST_LOAD(__ldcv)
ON_HOST_STORE(__stcg)
ON_HOST_STORE(__stcs)
ON_HOST_STORE(__stwb)
ON_HOST_STORE(__stwt)

// ---- numbers
// ------------------------------------------------------------------------------------------------------------

#define ON_HOST_MIN_MAX(A, B, T)                                                              \
    static inline T min(A a, B b) {                                                           \
        return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(a) : static_cast<T>(b); \
    }                                                                                         \
    static inline T max(A a, B b) {                                                           \
        return static_cast<T>(a) > static_cast<T>(b) ? static_cast<T>(a) : static_cast<T>(b); \
    }
ON_HOST_MIN_MAX(int, int, int)
ON_HOST_MIN_MAX(unsigned, unsigned, unsigned)
ON_HOST_MIN_MAX(int, unsigned, unsigned)
ON_HOST_MIN_MAX(unsigned, int, unsigned)
ON_HOST_MIN_MAX(long, long, long)
ON_HOST_MIN_MAX(unsigned long, unsigned long, unsigned long)
ON_HOST_MIN_MAX(long long, long long, long long)
ON_HOST_MIN_MAX(unsigned long long, unsigned long long, unsigned long long)
static inline float min(float a, float b) { return fminf(a, b); }
static inline float max(float a, float b) { return fmaxf(a, b); }
static inline double min(double a, double b) { return fmin(a, b); }
static inline double max(double a, double b) { return fmax(a, b); }

// Between two of these all operations round in another direction.
#if defined(__x86_64__)
static inline unsigned on_host_round(int mode) {
    const unsigned old = _mm_getcsr();
    _mm_setcsr((old & ~0x6000u) | (mode == FE_UPWARD ? 0x4000u : mode == FE_DOWNWARD ? 0x2000u : 0x6000u));
    return old;
}
static inline void on_host_round_back(unsigned old) { _mm_setcsr(old); }
#else
static inline int on_host_round(int mode) {
    const int old = fegetround();
    fesetround(mode);
    return old;
}
static inline void on_host_round_back(int old) { fesetround(old); }
#endif

// `volatile` keeps the operation between the two.
#define ON_HOST_ROUNDED(name, T, V, mode, value)               \
    static inline T name(V first, V second = 0, V third = 0) { \
        volatile V a = first, b = second, c = third;           \
        (void)b, (void)c;                                      \
        const auto old = on_host_round(mode);                  \
        volatile T out = value;                                \
        on_host_round_back(old);                               \
        return out;                                            \
    }
#define ON_HOST_DIRECTIONS(ends, mode)                                                          \
    ON_HOST_ROUNDED(__fadd_##ends, float, float, mode, a + b)                                   \
    ON_HOST_ROUNDED(__fsub_##ends, float, float, mode, a - b)                                   \
    ON_HOST_ROUNDED(__fmul_##ends, float, float, mode, a* b)                                    \
    ON_HOST_ROUNDED(__fdiv_##ends, float, float, mode, a / b)                                   \
    ON_HOST_ROUNDED(__frcp_##ends, float, float, mode, 1.0f / a)                                \
    ON_HOST_ROUNDED(__fsqrt_##ends, float, float, mode, sqrtf(a))                               \
    ON_HOST_ROUNDED(__fmaf_##ends, float, float, mode, fmaf(a, b, c))                           \
    ON_HOST_ROUNDED(__dadd_##ends, double, double, mode, a + b)                                 \
    ON_HOST_ROUNDED(__dsub_##ends, double, double, mode, a - b)                                 \
    ON_HOST_ROUNDED(__dmul_##ends, double, double, mode, a* b)                                  \
    ON_HOST_ROUNDED(__ddiv_##ends, double, double, mode, a / b)                                 \
    ON_HOST_ROUNDED(__drcp_##ends, double, double, mode, 1.0 / a)                               \
    ON_HOST_ROUNDED(__dsqrt_##ends, double, double, mode, sqrt(a))                              \
    ON_HOST_ROUNDED(__fma_##ends, double, double, mode, fma(a, b, c))                           \
    ON_HOST_ROUNDED(__double2float_##ends, float, double, mode, static_cast<float>(a))          \
    ON_HOST_ROUNDED(__int2float_##ends, float, int, mode, static_cast<float>(a))                \
    ON_HOST_ROUNDED(__uint2float_##ends, float, unsigned, mode, static_cast<float>(a))          \
    ON_HOST_ROUNDED(__ll2float_##ends, float, long long, mode, static_cast<float>(a))           \
    ON_HOST_ROUNDED(__ull2float_##ends, float, unsigned long long, mode, static_cast<float>(a)) \
    ON_HOST_ROUNDED(__ll2double_##ends, double, long long, mode, static_cast<double>(a))        \
    ON_HOST_ROUNDED(__ull2double_##ends, double, unsigned long long, mode, static_cast<double>(a))
ON_HOST_DIRECTIONS(ru, FE_UPWARD)
ON_HOST_DIRECTIONS(rd, FE_DOWNWARD)
ON_HOST_DIRECTIONS(rz, FE_TOWARDZERO)

static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __frcp_rn(float a) { return 1.0f / a; }
static inline float __fsqrt_rn(float a) { return sqrtf(a); }
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline double __dadd_rn(double a, double b) { return a + b; }
static inline double __dsub_rn(double a, double b) { return a - b; }
static inline double __dmul_rn(double a, double b) { return a * b; }
static inline double __ddiv_rn(double a, double b) { return a / b; }
static inline double __dsqrt_rn(double a) { return sqrt(a); }
static inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
static inline float __double2float_rn(double a) { return static_cast<float>(a); }
static inline float __int2float_rn(int a) { return static_cast<float>(a); }
static inline float __uint2float_rn(unsigned a) { return static_cast<float>(a); }
static inline float __ll2float_rn(long long a) { return static_cast<float>(a); }
static inline float __ull2float_rn(unsigned long long a) { return static_cast<float>(a); }
static inline double __int2double_rn(int a) { return a; }
static inline double __uint2double_rn(unsigned a) { return a; }
static inline double __ll2double_rn(long long a) { return static_cast<double>(a); }
static inline double __ull2double_rn(unsigned long long a) { return static_cast<double>(a); }

// To integers; what does not fit becomes the nearest that does, as on a card, and NaN zero (64 bits: the lowest).
template <class T>
T on_host_to_integer(double v, T least, T most, T of_nan) {
    if (v != v) return of_nan;
    if (v <= static_cast<double>(least)) return least;
    return v >= static_cast<double>(most) ? most : static_cast<T>(v);
}
#define ON_HOST_INTEGERS(ends, whole)                                                       \
    static inline int __float2int_##ends(float v) {                                         \
        return on_host_to_integer<int>(whole(v), INT32_MIN, INT32_MAX, 0);                  \
    }                                                                                       \
    static inline unsigned __float2uint_##ends(float v) {                                   \
        return on_host_to_integer<unsigned>(whole(v), 0, UINT32_MAX, 0);                    \
    }                                                                                       \
    static inline int __double2int_##ends(double v) {                                       \
        return on_host_to_integer<int>(whole(v), INT32_MIN, INT32_MAX, INT32_MIN);          \
    }                                                                                       \
    static inline long long __float2ll_##ends(float v) {                                    \
        return on_host_to_integer<long long>(whole(v), INT64_MIN, INT64_MAX, INT64_MIN);    \
    }                                                                                       \
    static inline long long __double2ll_##ends(double v) {                                  \
        return on_host_to_integer<long long>(whole(v), INT64_MIN, INT64_MAX, INT64_MIN);    \
    }                                                                                       \
    static inline unsigned long long __double2ull_##ends(double v) {                        \
        return on_host_to_integer<unsigned long long>(whole(v), 0, UINT64_MAX, 1ull << 63); \
    }
ON_HOST_INTEGERS(rn, rint)
ON_HOST_INTEGERS(rd, floor)
ON_HOST_INTEGERS(ru, ceil)
ON_HOST_INTEGERS(rz, trunc)
