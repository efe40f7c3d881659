// Products of matrices of 16-bit numbers (mma.sync), and copies to shared memory that run beside the arithmetic. Each
// is one instruction of cards of compute capability 8.0 and newer. The versions for a processor do the same, and lose
// as much in a product as any card is known to lose (docs/gpu_filter.md).
#ifndef KV_TENSOR
#define KV_TENSOR
#include "base.cuh"

constexpr float LARGEST_HALF = 65504;
DEVICE float infinite() { return __int_as_float(0x7f800000); }

struct alignas(8) Pair {
    float x, y;
};
struct alignas(16) Four {
    float x, y, z, w;
};

#ifdef ON_HOST
typedef char* shared_t;  // an address in shared memory
DEVICE shared_t shared_address(void* p) { return static_cast<char*>(p); }
DEVICE half_t to_half(float x) { return half_t{on_host_to_half(x)}; }

DEVICE void copy_piece(shared_t to, const void* from, bool valid) {
    if (valid)
        memcpy(to, from, 16);
    else
        memset(to, 0, 16);
}
#ifndef LATE_COPIES  // as early as a card may copy
DEVICE void copy_async(shared_t to, const void* from, bool valid) { copy_piece(to, from, valid); }
DEVICE void copies_started() {}
template <int PENDING>
DEVICE void wait_for_copies() {}
#else  // as late as a card may copy
struct LateCopies {
    static constexpr int MOST = 256, GROUPS = 16;
    struct Piece {
        shared_t to;
        const void* from;
        bool valid;
    } pieces[GROUPS][MOST];
    int sizes[GROUPS];
    int first, now;  // groups are numbered; pieces are added to `now`

    void start() { sizes[++now % GROUPS] = 0; }
    void finish(int pending) {
        for (; first < now - pending; ++first)
            for (int i = 0; i < sizes[first % GROUPS]; ++i) {
                const Piece& p = pieces[first % GROUPS][i];
                copy_piece(p.to, p.from, p.valid);
            }
    }
};
static LateCopies late_copies[1024];  // of each thread of a block; none are left when it ends
DEVICE void copy_async(shared_t to, const void* from, bool valid) {
    LateCopies& own = late_copies[threadIdx.x];
    own.pieces[own.now % LateCopies::GROUPS][own.sizes[own.now % LateCopies::GROUPS]++] = {to, from, valid};
}
DEVICE void copies_started() { late_copies[threadIdx.x].start(); }
template <int PENDING>
DEVICE void wait_for_copies() {
    late_copies[threadIdx.x].finish(PENDING);
}
#endif

struct Matrices {
    shared_t address;
    unsigned* out;
};
DEVICE void matrices_of_warp(void** lanes, unsigned) {
    for (int i = 0; i < 128; ++i) {
        const Matrices& from = *static_cast<Matrices*>(lanes[i / 4 % 8 + i / 32 * 8]);
        memcpy(static_cast<Matrices*>(lanes[i % 32])->out + i / 32, from.address + i % 4 * 4, 4);
    }
}
DEVICE void load_matrices(unsigned (&out)[4], shared_t address) {
    Matrices own = {address, out};
    on_host_together(32, ~0u, __builtin_LINE(), matrices_of_warp, &own);
}

// start + 16 products of halves, as no card computes it worse (docs/gpu_filter.md): the addends are cut to the digits
// of the largest one, 24 bits from its first bit on, and then the sum to 24 bits.
DEVICE float cut_sum(const double* a, const double* b, float start) {
    double terms[17], largest = fabs(start);
    terms[16] = start;
    for (int i = 0; i < 16; ++i) {
        terms[i] = a[i] * b[i];
        largest = fmax(largest, fabs(terms[i]));
    }
    if (largest == 0) return 0;
    const int e = static_cast<int>(__double_as_longlong(largest) >> 52) - 1023;
    const double up = __longlong_as_double(static_cast<long long>(1023 + 23 - e) << 52);
    long long sum = 0;
    for (double term : terms) sum += static_cast<long long>(term * up);  // towards zero
    long long unit = 1;
    while (sum / unit >= 1 << 24 || sum / unit <= -(1 << 24)) unit *= 2;
    return static_cast<float>(static_cast<double>(sum / unit * unit) / up);
}

struct Products {
    const unsigned *a, *b;
    const float* start;
    float* out;
};
DEVICE double fast_half(unsigned bits) {  // finite
    const long long size = bits & 0x7fff;
    const double value = size >> 10 ? __longlong_as_double((size << 42) + (static_cast<long long>(1023 - 15) << 52))
                                    : static_cast<double>(size) * 0x1p-24;
    return bits & 0x8000 ? -value : value;
}
DEVICE void products_of_warp(void** lanes, unsigned) {
    double left[16][16], right[8][16];
    for (int lane = 0; lane < 32; ++lane) {
        const Products& own = *static_cast<Products*>(lanes[lane]);
        const int at = lane % 4 * 2;
        for (int i = 0; i < 2; ++i)
            for (int j = 0; j < 2; ++j) {
                left[lane / 4][8 * i + at + j] = fast_half(own.a[2 * i] >> 16 * j & 0xffff);
                left[lane / 4 + 8][8 * i + at + j] = fast_half(own.a[2 * i + 1] >> 16 * j & 0xffff);
                right[lane / 4][8 * i + at + j] = fast_half(own.b[i] >> 16 * j & 0xffff);
            }
    }
    for (int lane = 0; lane < 32; ++lane) {
        const Products& own = *static_cast<Products*>(lanes[lane]);
        for (int i = 0; i < 4; ++i)
            own.out[i] = cut_sum(left[lane / 4 + i / 2 * 8], right[lane % 4 * 2 + i % 2], own.start[i]);
    }
}
DEVICE void multiply(float (&out)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, const float (&start)[4]) {
    const unsigned b[2] = {b0, b1};
    float sums[4];
    Products own = {a, b, start, sums};
    on_host_together(32, ~0u, __builtin_LINE(), products_of_warp, &own);
    for (int i = 0; i < 4; ++i) out[i] = sums[i];
}

DEVICE Four load_four(const Four* p) { return *p; }

// 16 rows of a warp times 64 columns in shared memory, as wgmma reads them: see `column_piece`.
struct WideProducts {
    const unsigned* a;
    word_t columns;
    float* sums;
};
DEVICE void wide_products_of_warp(void** lanes, unsigned) {
    double left[16][16], right[64][16];
    const char* const columns = reinterpret_cast<const char*>(static_cast<WideProducts*>(lanes[0])->columns);
    for (int n = 0; n < 64; ++n)
        for (int i = 0; i < 16; ++i) {
            const word_t at = reinterpret_cast<word_t>(columns) + n * 128 + 2 * i;
            unsigned short bits;  // the unit exchanges pieces of 16 bytes by the place of the row among eight
            memcpy(&bits, reinterpret_cast<const char*>(at ^ (at >> 7 & 7) << 4), 2);
            right[n][i] = fast_half(bits);
        }
    for (int lane = 0; lane < 32; ++lane) {
        const unsigned* const a = static_cast<WideProducts*>(lanes[lane])->a;
        const int at = lane % 4 * 2;
        for (int i = 0; i < 2; ++i)
            for (int j = 0; j < 2; ++j) {
                left[lane / 4][8 * i + at + j] = fast_half(a[2 * i] >> 16 * j & 0xffff);
                left[lane / 4 + 8][8 * i + at + j] = fast_half(a[2 * i + 1] >> 16 * j & 0xffff);
            }
    }
    for (int lane = 0; lane < 32; ++lane) {
        float* const sums = static_cast<WideProducts*>(lanes[lane])->sums;
        for (int i = 0; i < 32; ++i)
            sums[i] = cut_sum(left[lane / 4 + i % 4 / 2 * 8], right[i / 4 * 8 + lane % 4 * 2 + i % 2], sums[i]);
    }
}
DEVICE word_t columns_at(shared_t address) { return reinterpret_cast<word_t>(address); }
DEVICE void multiply_wide(float (&sums)[32], const unsigned (&a)[4], word_t columns) {
    WideProducts own = {a, columns, sums};
    on_host_together(32, ~0u, __builtin_LINE(), wide_products_of_warp, &own);
}
DEVICE void products_begin(float (&)[2][32]) {}
DEVICE void products_started() {}
template <int PENDING>
DEVICE void wait_for_products(float (&)[2][32]) {}
DEVICE void show_copies_to_products() {}

#else

typedef unsigned shared_t;
DEVICE shared_t shared_address(void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }

DEVICE half_t to_half(float x) {
    half_t out;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(out.bits) : "f"(x));
    return out;
}

// Copies 16 bytes, or writes zeros.
DEVICE void copy_async(shared_t to, const void* from, bool valid) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(valid ? 16 : 0) : "memory");
}

// The copies that a thread has started since the last call are one group.
DEVICE void copies_started() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Until at most PENDING groups of this thread are under way.
template <int PENDING>
DEVICE void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

// Four matrices of 8 x 8 halves: thread i gives the address of row i % 8 of matrix i / 8.
DEVICE void load_matrices(unsigned (&out)[4], shared_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(address)
                 : "memory");
}

// out = start + a b, for 16 rows and 8 columns, with 16 products each.
DEVICE void multiply(float (&out)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, const float (&start)[4]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%10, %11, %12, %13};"
        : "=f"(out[0]), "=f"(out[1]), "=f"(out[2]), "=f"(out[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(start[0]), "f"(start[1]), "f"(start[2]),
          "f"(start[3]));
}

// ---- wgmma, of compute capability 9.0: 64 rows of four warps times 64 columns that are read from shared memory

// Columns in shared memory: 128 bytes each, eight after the other, their pieces exchanged as `column_piece` says.
DEVICE word_t columns_at(shared_t address) {
    const word_t eight = 1024 >> 4, exchanged = 1;
    return (address & 0x3ffffu) >> 4 | 1ull << 16 | eight << 32 | exchanged << 62;
}

// The compiler may neither read, write nor move sums while products are added to them.
DEVICE void hold(float (&sums)[2][32]) {
#pragma unroll
    for (int i = 0; i < 64; ++i) asm volatile("" : "+f"(sums[i / 32][i % 32])::"memory");
}

// Before the first product, and after its sums were written.
DEVICE void products_begin(float (&sums)[2][32]) {
    hold(sums);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
DEVICE void products_started() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Until at most PENDING groups are under way. The sums may be read after it, not before.
template <int PENDING>
DEVICE void wait_for_products(float (&sums)[2][32]) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
    hold(sums);
}

// What threads have copied to shared memory becomes visible to products after the next barrier.
DEVICE void show_copies_to_products() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

#define S4(i) "+f"(s[i]), "+f"(s[i + 1]), "+f"(s[i + 2]), "+f"(s[i + 3])
// Starts sums += a * columns, with 16 products each.
DEVICE void multiply_wide(float (&s)[32], const unsigned (&a)[4], word_t columns) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "{%32, %33, %34, %35}, %36, 1, 1, 1, 0;"
        : S4(0), S4(4), S4(8), S4(12), S4(16), S4(20), S4(24), S4(28)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(columns));
}
#undef S4

DEVICE Four load_four(const Four* p) {
    Four out;
    asm("ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(out.x), "=f"(out.y), "=f"(out.z), "=f"(out.w) : "l"(p));
    return out;
}

#endif

// Where piece `piece` (16 bytes) of column `column` lies: in groups of eight pieces, exchanged so that neighbouring
// columns are in different banks.
DEVICE int column_piece(int columns, int column, int piece) {
    return piece / 8 * (columns * 128) + column * 128 + ((piece ^ column) & 7) * 16;
}
#endif
