// Rows and centres in half precision, with what rounding took from them (docs/gpu_filter.md). They are shifted by an
// offset and scaled by a power of two first; `frame` is the scale, and then the offset of each feature.
#include "reference.cuh"
#include "tensor.cuh"

#ifndef REAL
#define REAL float
#endif

constexpr float FAR_FACT = 0x1p126f;   // in place of |v|^2 / 2, of a centre that is missing or far
constexpr double FAR_CENTER = 0x1p50;  // norms from which on they are far
constexpr double FAR_ROW = 0x1p40;
constexpr double LARGE_ERROR = 0x1p-6;  // of the norm: some values are too large for halves

// Rounded up. Pre: x >= 0, and it has relative errors below 2^-23.
DEVICE float up(double x) { return static_cast<float>(add(mul(x, 1 + 0x1p-22), 0x1p-110)); }

DEVICE double sum_of_lanes(double part) {
    for (int i = 8; i > 0; i /= 2) part = add(part, __shfl_xor_sync(ALL, part, i, LANES));
    return part;
}

// Squared norms: of v = scale (x - offset), of its halves, and of what is left.
struct Norms {
    double v = 0, halves = 0, left = 0;
};

// The halves of one vector, by sixteen threads; `sign` is 1 or -1.
template <class T>
DEVICE Norms halves_of(const T* x, const double* frame, index_t d, index_t width, double sign, half_t* out) {
    Norms norms;
    for (index_t at = threadIdx.x % LANES * 2; at < width; at += 2 * LANES) {
        half_t pair[2];
        for (int j = 0; j < 2; ++j) {
            const index_t i = at + j;
            const double v = i < d ? mul(mul(sign, frame[0]), sub(to_double(x[i]), frame[1 + i])) : 0.0;
            pair[j] = to_half(fminf(fmaxf(static_cast<float>(v), -LARGEST_HALF), LARGEST_HALF));
            const double half = half_to_float(pair[j]), left = sub(v, half);
            norms.v = add(norms.v, mul(v, v));
            norms.halves = add(norms.halves, mul(half, half));
            norms.left = add(norms.left, mul(left, left));
        }
        *reinterpret_cast<unsigned*>(out + at) = pair[0].bits | static_cast<unsigned>(pair[1].bits) << 16;
    }
    norms.v = sum_of_lanes(norms.v), norms.halves = sum_of_lanes(norms.halves), norms.left = sum_of_lanes(norms.left);
    return norms;
}

// What is left, and what the rounding of v itself took.
DEVICE float error_of(const Norms& norms) { return up(add(root(norms.left), mul(root(norms.v), 0x1p-51))); }

// `count` rows at equal distances, in float64.
KERNEL sample_rows(const REAL* rows, index_t n, index_t d, index_t count, double* out) {
    for (index_t i = thread_index(); i < count * d; i += thread_count())
        out[i] = to_double(rows[i / d * (n / count) * d + i % d]);
}

// facts: the norm of a row's halves, and of what is left: both rounded up. A far row, which halves do not describe, has
// an infinite error, and does not count for the other rows of its block. squares: |v|^2.
KERNEL half_rows(const REAL* rows, const double* frame, index_t n, index_t d, index_t width, half_t* out, Pair* facts,
                 float* squares) {
    const index_t warps = thread_count() / 32, first = thread_index() / 32;
    for (index_t pair = first; 2 * pair < n; pair += warps) {
        const index_t own = 2 * pair + threadIdx.x % 32 / LANES, row = own < n ? own : n - 1;
        const Norms norms = halves_of(rows + row * d, frame, d, width, 1, out + row * width);
        if (threadIdx.x % LANES || own >= n) continue;
        const float error = error_of(norms);
        const bool near = root(norms.v) < FAR_ROW && error < add(1, mul(LARGE_ERROR, root(norms.halves)));
        facts[row] = Pair{up(root(norms.halves)), near ? error : infinite()};
        squares[row] = static_cast<float>(norms.v);
    }
}

// The scaled distance to the place where a centre was; `last` becomes its present place. By sixteen threads.
DEVICE double move_of(const double* center, double* last, double scale, index_t d, bool valid) {
    double sum = 0;
    for (index_t i = threadIdx.x % LANES; i < d && valid; i += LANES) {
        const double gap = mul(scale, sub(center[i], last[i]));
        sum = add(sum, mul(gap, gap));
        last[i] = center[i];
    }
    return root(sum_of_lanes(sum));
}

// The halves of -v. facts: |v|^2 / 2, the norm of v, that of what is left and of the halves: all but the first rounded
// up. Missing centres, up to `padded`, and far ones have halves of zero. moves: the distances to `last`, scaled and
// rounded up.
KERNEL half_centers(const double* centers, const double* frame, index_t k, index_t padded, index_t d, index_t width,
                    half_t* out, Four* facts, double* last, float* moves) {
    const index_t warps = thread_count() / 32, first = thread_index() / 32;
    for (index_t pair = first; 2 * pair < padded; pair += warps) {  // padded is even
        const index_t j = 2 * pair + threadIdx.x % 32 / LANES;
        half_t* own = out + j * width;
        const double* center = centers + (j < k ? j : 0) * d;
        const Norms norms = halves_of(center, frame, d, width, -1, own);
        const double move = move_of(center, last + (j < k ? j : 0) * d, frame[0], d, j < k);
        const double norm = root(norms.v);
        const bool near = j < k && norm < FAR_CENTER;
        __syncwarp();
        for (index_t i = threadIdx.x % LANES; i < width && !near; i += LANES) own[i].bits = 0;
        if (threadIdx.x % LANES) continue;
        if (j < k) moves[j] = move < infinite() ? up(move) : infinite();
        facts[j] = near ? Four{static_cast<float>(mul(norms.v, 0.5)), up(norm), error_of(norms), up(root(norms.halves))}
                        : Four{FAR_FACT, 0, 0, 0};
    }
}
