// Labels: the nearest centre of each row by the reference arithmetic, and which rows changed.
//
//   choose_rows      lists the rows whose labels may have changed since the last call
//   find             compares halves of rows and centres (half.cu) on tensor cores; decides most rows
//   list_candidates  the same for rows where `find` does not know all centres that may be the nearest; lists them
//   decide           measures the few candidates of a row in float64
//   compare_all      measures all centres, for the rows that are left
//   label_rows, label_short_rows   measure all centres for all rows, without the others
//
// The first two need KSTEPS (sixteens of features, or 0: any number) and come with the proof in docs/gpu_filter.md. The
// others need REAL.
#include "reference.cuh"
#include "tensor.cuh"

// A row that `find` did not decide: its number, how many candidates it has, a limit of their scores, the candidates.
constexpr int SLOT = 12, SLOT_ROW = 0, SLOT_COUNT = 1, SLOT_LIMIT = 2, SLOT_FIRST = 4, MOST_CANDIDATES = 8;
constexpr float LEAST_DISTANCE = 0x1p-40f;  // of a bound; squares of the reference may underflow below
constexpr int SLOTS = 0, OPEN = 1, EXACT = 2, LISTED = 3, KEPT = 8;    // counters
constexpr int OF_ROWS = 0, OF_CENTERS = 1, OF_WIDTH = 2, OF_ROOM = 3;  // sizes; the last one: slots

// A place in a list for each thread that wants one, with one atomic operation for a warp.
DEVICE index_t reserve(bool wanted, word_t* counter) {
    const unsigned all = __ballot_sync(ALL, wanted);
    if (!all) return 0;
    const int lane = threadIdx.x % 32, first = __ffs(static_cast<int>(all)) - 1;
    word_t start = 0;
    if (lane == first) start = atomicAdd(counter, static_cast<word_t>(__popc(all)));
    start = __shfl_sync(ALL, start, first);
    return static_cast<index_t>(start) + __popc(all & ((1u << lane) - 1));
}

struct Labels {
    label_t *labels, *changed, *before;
    word_t* count;

    // By all threads of a warp, each with another row or none.
    METHOD void set(bool valid, index_t row, label_t label) const {
        const label_t old = valid ? labels[row] : label;
        const bool changes = valid && old != label;
        const index_t at = reserve(changes, count);
        if (!changes) return;
        labels[row] = label, changed[at] = static_cast<label_t>(row), before[at] = old;
    }
};

#ifdef KSTEPS
// ---- tensor cores -------------------------------------------------------------------------------------------------

#ifndef WARPS
#define WARPS 8
#endif
#ifndef TILE
#define TILE 128  // centres that are in shared memory together
#endif
#ifndef STAGES
#define STAGES 3
#endif
#ifndef STEP_UNITS
#define STEP_UNITS 26  // of 2^-23, for each sixteen features; see docs/gpu_filter.md
#endif
#ifndef FIXED_UNITS
#define FIXED_UNITS 64
#endif

constexpr int THREADS = 32 * WARPS, ROWS = THREADS;  // rows of a block: one for each thread when they are settled
constexpr float LIMIT = 0x1p98f;                     // scores of rows that can be decided; others are far
#if KSTEPS > 0
constexpr int PARTS = 1, SIXTEENS = 2;  // a warp: 32 rows, and all columns of a tile
constexpr int CHUNK = 2 * KSTEPS;       // pieces of 16 bytes of a row that are in shared memory together
#else
constexpr int PARTS = 2, SIXTEENS = 4;  // a warp: 64 rows, and half the columns
constexpr int CHUNK = 4;
#endif
constexpr int STRIDE = 16 * CHUNK + 16;     // an odd number of pieces, so that eight rows are in different banks
constexpr int GROUPS = TILE / 16 / PARTS;   // sixteens of columns of a warp
constexpr int ENTRIES = 4 * PARTS;          // threads that look at one row
constexpr unsigned INDEX = 4 * GROUPS - 1;  // bits of a score that say which column of the thread it belongs to

// The error of all scores of a block of rows.
struct Slack {
    float norm, error, fixed, units;  // largest of the rows; what does not depend on the centre; relative rounding

    METHOD void set(float norm_, float error_, index_t width) {
        norm = norm_, error = error_;
        fixed = 0x1p-39f * ((norm + error) * (norm + error)) + 0x1p-100f;
        units = 0x1p-23f * (STEP_UNITS * static_cast<float>(width / 16) + FIXED_UNITS);
    }
    METHOD float of(const Four& c) const {
        const float first = norm * c.z + error * c.y + fixed;
        return first * (1 + 0x1p-18f) + units * (c.x + 1.01f * first + norm * c.w);
    }
};

DEVICE bool is_far(const Pair& row_facts) { return !(row_facts.y < infinite()); }

// The column of a tile that a thread calls `index`.
DEVICE int column_of(unsigned index) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    return warp % PARTS * (TILE / PARTS) + static_cast<int>(index >> 2) * 16 + static_cast<int>(index >> 1 & 1) * 8 +
           lane % 4 * 2 + static_cast<int>(index & 1);
}

// The row of a block that a thread calls `r`.
#ifdef WIDE
DEVICE int row_of(int r) {
    const int warp = threadIdx.x / 32;
    return warp / 4 * 128 + r / 2 * 64 + warp % 4 * 16 + r % 2 * 8 + threadIdx.x % 32 / 4;
}
#else
DEVICE int row_of(int r) {
    return static_cast<int>(threadIdx.x) / 32 / PARTS * (16 * SIXTEENS) + r * 8 + threadIdx.x % 32 / 4;
}
#endif

// Everything that the kernels are given.
struct Work {
    const half_t* rows;
    const Pair* row_facts;
    const half_t* centers;
    const Four* center_facts;
    index_t count, k, width, room;
    const int* list;  // null: all rows
    int* slots;
    int* queue;  // open slots, `room` of them; then rows for compare_all
    word_t* counters;
    const float* squares;  // of each row: |v|^2
    Pair* bounds;
    bool listing;  // the rows are those of open slots

    METHOD index_t row(index_t place) const {
        return listing ? slots[SLOT * static_cast<index_t>(queue[place]) + SLOT_ROW] : list ? list[place] : place;
    }
};

struct Entry {
    float low, second;  // the smallest two scores of a thread
    int column;         // of the first one
};

struct Memory {
    unsigned char* tiles;
    float* bias;     // of the columns of some tiles: |w|^2 / 2 less the slack
    float* largest;  // of each warp: norm and error
    Entry* entries;
};

// ---- what happens to scores

// Keeps the smallest two of each row: the first with its index in the last bits, and the tile it is from.
struct TwoSmallest {
    float best[2 * SIXTEENS], second[2 * SIXTEENS], known[2 * SIXTEENS];
    int tile[2 * SIXTEENS];

    METHOD void start(const Work&, index_t) {
#pragma unroll
        for (int r = 0; r < 2 * SIXTEENS; ++r) best[r] = second[r] = known[r] = infinite(), tile[r] = 0;
    }
    METHOD void take(int g, const float (&scores)[SIXTEENS][2][4], const Work&, index_t, int) {
#pragma unroll
        for (int n = 0; n < 2; ++n)
#pragma unroll
            for (int m = 0; m < SIXTEENS; ++m)
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const int r = 2 * m + i / 2;
                    const unsigned index = 4 * g + 2 * n + i % 2;
                    const float score = __uint_as_float((__float_as_uint(scores[m][n][i]) & ~INDEX) | index);
                    second[r] = fminf(second[r], fmaxf(best[r], score));
                    best[r] = fminf(best[r], score);
                }
    }
    METHOD void end_tile(int at) {
#pragma unroll
        for (int r = 0; r < 2 * SIXTEENS; ++r) {
            tile[r] = best[r] == known[r] ? tile[r] : at;
            known[r] = best[r];
        }
    }
    METHOD void show(Entry* entries) const {
#pragma unroll
        for (int r = 0; r < 2 * SIXTEENS; ++r)
            entries[row_of(r) * ENTRIES + threadIdx.x / 32 % PARTS * 4 + threadIdx.x % 4] =
                Entry{best[r], second[r], tile[r] * TILE + column_of(__float_as_uint(best[r]) & INDEX)};
    }
};

// Lists the columns up to a row's limit.
struct Candidates {
    float limit[2 * SIXTEENS];

    METHOD void start(const Work& w, index_t first) {
#pragma unroll
        for (int r = 0; r < 2 * SIXTEENS; ++r) {
            const index_t place = first + row_of(r);
            limit[r] = place < w.count ? __int_as_float(slot(w, place)[SLOT_LIMIT]) : -infinite();
        }
    }
    METHOD static int* slot(const Work& w, index_t place) {
        return w.slots + SLOT * static_cast<index_t>(w.queue[place]);
    }
    METHOD void take(int g, const float (&scores)[SIXTEENS][2][4], const Work& w, index_t first, int tile) {
        unsigned hits = 0;
#pragma unroll
        for (int m = 0; m < SIXTEENS; ++m)
#pragma unroll
            for (int j = 0; j < 8; ++j)
                hits |= scores[m][j / 4][j % 4] <= limit[2 * m + j % 4 / 2] ? 1u << (8 * m + j) : 0;
        while (hits) {
            const int bit = __ffs(static_cast<int>(hits)) - 1;
            hits &= hits - 1;
            int* const found = slot(w, first + row_of(bit / 8 * 2 + bit % 4 / 2));
            const int at = atomicAdd(found + SLOT_COUNT, 1);
            if (at < MOST_CANDIDATES)
                found[SLOT_FIRST + at] = tile * TILE + column_of(4 * g + bit % 8 / 4 * 2 + bit % 2);
        }
    }
    METHOD void end_tile(int) {}
    METHOD void show(Entry*) const {}
};

// ---- rows that are done

// What the scores of a row say. `limit` is an upper bound of the smallest value.
struct Outcome {
    float limit = infinite(), other = infinite();  // other: a lower bound of the values of all columns but `label`
    int count = 0, label = 0;                      // columns that may be the smallest, and one of them
    bool open = false;                             // whether there may be more of them
    float low[ENTRIES];
    int column[ENTRIES];

    // `block` is the slack that the scores have, `own` that of this row.
    METHOD void set(const Work& w, const Slack& block, const Slack& own, const Entry* entries) {
        float second = infinite();
#pragma unroll
        for (int e = 0; e < ENTRIES; ++e) {
            const Entry entry = entries[e];
            const Four facts = load_four(w.center_facts + entry.column);
            const float error = own.of(facts), middle = entry.low + block.of(facts);
            low[e] = middle - error, column[e] = entry.column;
            limit = fminf(limit, middle + error), second = fminf(second, entry.second);
        }
        open = second <= limit;  // another column of that thread may be a candidate, too
        float rest = second;
#pragma unroll
        for (int e = 0; e < ENTRIES; ++e) {
            if (low[e] <= limit)
                ++count, label = column[e];
            else
                rest = fminf(rest, low[e]);
        }
        other = fminf(rest, LIMIT);  // far centres have values above it, but not those that they are given
    }
};

// Bounds of the distances of a row to its centre (x), from above, and to all others (y); scaled like the halves. Pre:
// `outcome` has one candidate. `square`: |v|^2, with a relative error below 2^-22.
DEVICE Pair bounds_of(const Outcome& outcome, float square) {
    const float high = 2 * outcome.limit + square, low = 2 * outcome.other + square;
    const float lost = 0x1p-20f * square + 0x1p-100f;
    const float upper = high + lost + 0x1p-20f * fabsf(outcome.limit);
    const float lower = low - lost - 0x1p-20f * fabsf(outcome.other);
    return Pair{sqrtf(fmaxf(upper, 0)) * (1 + 0x1p-20f), sqrtf(fmaxf(lower, 0)) * (1 - 0x1p-20f)};
}

// Decides a row or puts it into a list. By all threads of a warp, each with another row.
DEVICE void settle(const Work& w, const Labels& labels, index_t place, const Pair& facts, const Slack& block,
                   const Entry* entries) {
    const bool valid = place < w.count, far = is_far(facts);
    const index_t row = valid ? w.row(place) : 0;
    Slack own;
    own.set(facts.x, far ? 0 : facts.y, w.width);
    Outcome outcome;
    outcome.set(w, block, own, entries);
    const bool lost = far || !(outcome.limit < LIMIT), decided = valid && !lost && !outcome.open && outcome.count == 1;
    labels.set(decided, row, outcome.label);
    if (valid) w.bounds[row] = decided ? bounds_of(outcome, w.squares[row]) : Pair{infinite(), 0};
    const bool unsure = valid && !lost && !decided;
    const index_t at = reserve(unsure, w.counters + SLOTS);
    const bool kept = unsure && at < w.room;
    if (kept) {
        int* const slot = w.slots + SLOT * at;
        slot[SLOT_ROW] = static_cast<int>(row), slot[SLOT_LIMIT] = __float_as_int(outcome.limit);
        slot[SLOT_COUNT] = outcome.open ? 0 : outcome.count;
        int next = SLOT_FIRST;
#pragma unroll
        for (int e = 0; e < ENTRIES; ++e)
            if (outcome.low[e] <= outcome.limit && !outcome.open) slot[next++] = outcome.column[e];
    }
    const index_t in_queue = reserve(kept && outcome.open, w.counters + OPEN);
    if (kept && outcome.open) w.queue[in_queue] = static_cast<int>(at);
    const bool left = valid && !decided && !kept;
    const index_t last = reserve(left, w.counters + EXACT);
    if (left) w.queue[w.room + last] = static_cast<int>(row);
}

// ---- what blocks have in common

// The facts of this thread's row of a block; zeros if there is none.
DEVICE Pair facts_of_row(const Work& w, index_t first) {
    const index_t place = first + threadIdx.x;
    return place < w.count ? w.row_facts[w.row(place)] : Pair{0, 0};
}

DEVICE float largest_of_warp(float x) { return __uint_as_float(__reduce_max_sync(ALL, __float_as_uint(x))); }  // x >= 0

// The slack for a block's rows. Far rows do not count. By all threads; ends behind a barrier.
DEVICE void set_slack(Slack& slack, const Memory& memory, const Pair& facts, index_t width) {
    const bool far = is_far(facts);
    const float norm = largest_of_warp(far ? 0 : facts.x), error = largest_of_warp(far ? 0 : facts.y);
    if (threadIdx.x % 32 == 0)
        memory.largest[threadIdx.x / 32] = norm, memory.largest[WARPS + threadIdx.x / 32] = error;
    __syncthreads();
    float norms = 0, errors = 0;
#pragma unroll
    for (int i = 0; i < WARPS; ++i) {
        norms = fmaxf(norms, memory.largest[i]);
        errors = fmaxf(errors, memory.largest[WARPS + i]);
    }
    slack.set(norms, errors, width);
}

constexpr int BIAS = 2 * TILE;  // numbers: those of a pair of columns twice, as scores need them
constexpr int BIASES = (TILE + THREADS - 1) / THREADS;  // of a thread, for each tile

DEVICE void load_facts(const Work& w, index_t tile, Four (&facts)[BIASES]) {
#pragma unroll
    for (int i = 0; i < BIASES; ++i) {
        const int j = threadIdx.x + i * THREADS;
        if (j < TILE) facts[i] = load_four(w.center_facts + tile * TILE + j);
    }
}

DEVICE void store_bias(const Slack& slack, const Four (&facts)[BIASES], float* bias) {
#pragma unroll
    for (int i = 0; i < BIASES; ++i) {
        const int j = threadIdx.x + i * THREADS;
        float* const at = bias + j / 2 * 4 + j % 2;
        if (j < TILE) at[0] = at[2] = facts[i].x - slack.of(facts[i]);
    }
}

// The part of a fragment's address that depends on the thread: of 16 rows and two pieces.
DEVICE int left_lane() { return threadIdx.x % 16 * STRIDE + threadIdx.x % 32 / 16 * 16; }
DEVICE int right_lane() {
    const int lane = threadIdx.x % 32;
    return (lane % 8 + lane / 16 * 8) * STRIDE + lane / 8 % 2 * 16;
}

#ifdef KEEP_SCORES  // for tests: of each row and centre the score of `find` and its slack, and the row's own
DEVICE void keep_scores(int g, const float (&scores)[SIXTEENS][2][4], const Work& w, const Slack& slack, index_t first,
                        int tile) {
    float* const kept = reinterpret_cast<float*>(w.counters[KEPT]);
    if (w.listing || !kept) return;
    for (int m = 0; m < SIXTEENS; ++m)
        for (int j = 0; j < 8; ++j) {
            const unsigned index = 4 * g + j / 4 * 2 + j % 2;
            const int column = tile * TILE + column_of(index);
            const index_t place = first + row_of(2 * m + j % 4 / 2);
            if (place >= w.count || column >= w.k) continue;
            const index_t row = w.row(place), at = 3 * (row * w.k + column);
            Slack own;
            own.set(w.row_facts[row].x, w.row_facts[row].y, w.width);
            kept[at] = __uint_as_float((__float_as_uint(scores[m][j / 4][j % 4]) & ~INDEX) | index);
            kept[at + 1] = slack.of(w.center_facts[column]), kept[at + 2] = own.of(w.center_facts[column]);
        }
}
#define KEEP(g, scores) keep_scores(g, scores, w, slack, first, tile)
#else
#define KEEP(g, scores)
#endif

// The scores of 16 columns begin with their bias.
DEVICE void start_scores(float (&start)[2][4], const float* bias, int g) {
    const int at = static_cast<int>(threadIdx.x) / 32 % PARTS * (TILE / PARTS) + 16 * g + threadIdx.x % 4 * 2;
#pragma unroll
    for (int n = 0; n < 2; ++n) {
        const Four four = *reinterpret_cast<const Four*>(bias + 2 * (at + 8 * n));
        start[n][0] = four.x, start[n][1] = four.y, start[n][2] = four.z, start[n][3] = four.w;
    }
}

#if KSTEPS > 0
// ---- up to 128 features: a warp keeps its rows in registers

constexpr int LEFT = ROWS * STRIDE;  // bytes: the rows of a block
#ifdef WIDE
constexpr int RIGHT = (CHUNK + 7) / 8 * (TILE * 128);  // the centres of a tile
DEVICE int center_piece(int column, int piece) { return column_piece(TILE, column, piece); }
DEVICE int first_row(int m) { return static_cast<int>(threadIdx.x) / 128 * 128 + 64 * m + threadIdx.x / 32 % 4 * 16; }
#else
constexpr int RIGHT = TILE * STRIDE;
DEVICE int center_piece(int column, int piece) { return column * STRIDE + piece * 16; }
DEVICE int first_row(int m) { return static_cast<int>(threadIdx.x) / 32 * 32 + 16 * m; }
#endif

DEVICE void copy_rows(const Work& w, index_t first, shared_t to) {
    for (int i = threadIdx.x; i < ROWS * CHUNK; i += THREADS) {
        const index_t place = first + i / CHUNK;
        const bool valid = place < w.count;
        const half_t* from = w.rows + (valid ? w.row(place) : 0) * (8 * CHUNK) + i % CHUNK * 8;
        copy_async(to + i / CHUNK * STRIDE + i % CHUNK * 16, from, valid);
    }
}

DEVICE void copy_centers(const Work& w, int tile, shared_t to) {
    const half_t* from = w.centers + static_cast<index_t>(tile) * (TILE * CHUNK * 8);
#pragma unroll
    for (int i = threadIdx.x; i < TILE * CHUNK; i += THREADS)
        copy_async(to + center_piece(i / CHUNK, i % CHUNK), from + 8 * i, true);
}

#ifndef WIDE
template <class Take>
DEVICE void compare_tile(const unsigned (&rows)[SIXTEENS][KSTEPS][4], shared_t tile_at, const float* bias, Take& take,
                         const Work& w, const Slack& slack, index_t first, int tile) {
    const shared_t lane_at = tile_at + right_lane();
#pragma unroll
    for (int g = 0; g < GROUPS; ++g) {
        float start[2][4], scores[SIXTEENS][2][4];
        start_scores(start, bias, g);
#pragma unroll
        for (int s = 0; s < KSTEPS; ++s) {
            unsigned b[4];
            load_matrices(b, lane_at + 16 * g * STRIDE + 32 * s);
#pragma unroll
            for (int m = 0; m < SIXTEENS; ++m)
#pragma unroll
                for (int n = 0; n < 2; ++n)
                    multiply(scores[m][n], rows[m][s], b[2 * n], b[2 * n + 1], s == 0 ? start[n] : scores[m][n]);
        }
        KEEP(g, scores);
        take.take(g, scores, w, first, tile);
    }
    take.end_tile(tile);
}

#endif

#ifdef WIDE
// 64 columns at a time, of which wgmma makes two sets of sums: while it makes one, the other one is compared.
typedef float Sums[SIXTEENS][32];

DEVICE void start_products(Sums& sums, const unsigned (&rows)[SIXTEENS][KSTEPS][4], shared_t half_at,
                           const float* bias) {
#pragma unroll
    for (int n = 0; n < 8; ++n) {
        const Four four = *reinterpret_cast<const Four*>(bias + 2 * (8 * n + threadIdx.x % 4 * 2));
#pragma unroll
        for (int m = 0; m < SIXTEENS; ++m) {
            sums[m][4 * n] = four.x, sums[m][4 * n + 1] = four.y;
            sums[m][4 * n + 2] = four.z, sums[m][4 * n + 3] = four.w;
        }
    }
    products_begin(sums);
#pragma unroll
    for (int s = 0; s < KSTEPS; ++s)
#pragma unroll
        for (int m = 0; m < SIXTEENS; ++m)
            multiply_wide(sums[m], rows[m][s], columns_at(half_at + s / 4 * (TILE * 128) + s % 4 * 32));
    products_started();
}

template <class Take>
DEVICE void take_sums(const Sums& sums, Take& take, int half, const Work& w, const Slack& slack, index_t first,
                      int tile) {
#pragma unroll
    for (int g = 0; g < 4; ++g) {
        float own[SIXTEENS][2][4];
#pragma unroll
        for (int j = 0; j < 8 * SIXTEENS; ++j) own[j / 8][j / 4 % 2][j % 4] = sums[j / 8][8 * g + j % 8];
        KEEP(4 * half + g, own);
        take.take(4 * half + g, own, w, first, tile);
    }
}

template <class Take>
DEVICE void scan(const Work& w, const Labels& labels, const Memory& memory, Take& take) {
    const index_t blocks = (w.count + ROWS - 1) / ROWS;
    const int tiles = static_cast<int>((w.k + TILE - 1) / TILE);
    if (static_cast<index_t>(blockIdx.x) >= blocks) return;
    const shared_t left = shared_address(memory.tiles), right = left + LEFT;
    index_t to_copy = ((blocks - 1 - blockIdx.x) / gridDim.x + 1) * tiles;  // tiles of centres
    int next_tile = 0, next_stage = 0, stage = 0, buffer = 0;
    const auto copy_next = [&] {
        if (to_copy > 0) copy_centers(w, next_tile, right + next_stage * RIGHT);
        --to_copy;
        next_tile = next_tile + 1 == tiles ? 0 : next_tile + 1;
        next_stage = next_stage + 1 == STAGES ? 0 : next_stage + 1;
        copies_started();
    };
    Pair next_facts = facts_of_row(w, static_cast<index_t>(blockIdx.x) * ROWS);
    copy_rows(w, static_cast<index_t>(blockIdx.x) * ROWS, left);
    for (int i = 0; i < STAGES - 2; ++i) copy_next();  // products of the tile before may still read its stage
    for (index_t block = blockIdx.x; block < blocks; block += gridDim.x) {
        const index_t first = block * ROWS, after = first + static_cast<index_t>(gridDim.x) * ROWS;
        const Pair facts = next_facts;
        unsigned rows[SIXTEENS][KSTEPS][4];
        Sums sums[2];
        Slack slack;
        Four next[BIASES];
        take.start(w, first);
        wait_for_copies<0>();  // of these rows, too
        load_facts(w, 0, next);
        set_slack(slack, memory, facts, w.width);
        store_bias(slack, next, memory.bias + buffer * BIAS);
#pragma unroll
        for (int m = 0; m < SIXTEENS; ++m)
#pragma unroll
            for (int s = 0; s < KSTEPS; ++s)
                load_matrices(rows[m][s], left + first_row(m) * STRIDE + left_lane() + 32 * s);
        for (int tile = 0; tile < tiles; ++tile) {
            wait_for_copies<STAGES - 3>();
            show_copies_to_products();
            __syncthreads();
            if (tile == 0) {
                if (after < w.count) copy_rows(w, after, left);
                next_facts = facts_of_row(w, after);
            }
            copy_next();
            const shared_t at = right + stage * RIGHT;
            const float* const bias = memory.bias + buffer * BIAS;
            start_products(sums[0], rows, at, bias);
            if (tile > 0) {
                wait_for_products<1>(sums[1]);
                take_sums(sums[1], take, 1, w, slack, first, tile - 1);
                take.end_tile(tile - 1);
            }
            if (tile + 1 < tiles) load_facts(w, tile + 1, next);
            start_products(sums[1], rows, at + 64 * 128, bias + 2 * 64);
            wait_for_products<1>(sums[0]);
            take_sums(sums[0], take, 0, w, slack, first, tile);
            buffer = buffer == 2 ? 0 : buffer + 1;
            if (tile + 1 < tiles) store_bias(slack, next, memory.bias + buffer * BIAS);
            stage = stage + 1 == STAGES ? 0 : stage + 1;
        }
        wait_for_products<0>(sums[1]);
        take_sums(sums[1], take, 1, w, slack, first, tiles - 1);
        take.end_tile(tiles - 1);
        take.show(memory.entries);
        __syncthreads();
        if (!w.listing) settle(w, labels, first + threadIdx.x, facts, slack, memory.entries + threadIdx.x * ENTRIES);
        __syncthreads();  // the entries are written again
    }
}

#else
template <class Take>
DEVICE void scan(const Work& w, const Labels& labels, const Memory& memory, Take& take) {
    const index_t blocks = (w.count + ROWS - 1) / ROWS;
    const int tiles = static_cast<int>((w.k + TILE - 1) / TILE);
    if (static_cast<index_t>(blockIdx.x) >= blocks) return;
    const shared_t left = shared_address(memory.tiles), right = left + LEFT;
    index_t to_copy = ((blocks - 1 - blockIdx.x) / gridDim.x + 1) * tiles;  // tiles of centres
    int next_tile = 0, next_stage = 0, stage = 0, buffer = 0;
    const auto copy_next = [&] {
        if (to_copy > 0) copy_centers(w, next_tile, right + next_stage * RIGHT);
        --to_copy;
        next_tile = next_tile + 1 == tiles ? 0 : next_tile + 1;
        next_stage = next_stage + 1 == STAGES ? 0 : next_stage + 1;
        copies_started();
    };
    Pair next_facts = facts_of_row(w, static_cast<index_t>(blockIdx.x) * ROWS);
    copy_rows(w, static_cast<index_t>(blockIdx.x) * ROWS, left);
    for (int i = 0; i < STAGES - 1; ++i) copy_next();
    for (index_t block = blockIdx.x; block < blocks; block += gridDim.x) {
        const index_t first = block * ROWS, after = first + static_cast<index_t>(gridDim.x) * ROWS;
        const Pair facts = next_facts;
        unsigned rows[SIXTEENS][KSTEPS][4];
        Slack slack;
        take.start(w, first);
        for (int tile = 0; tile < tiles; ++tile) {
            Four next[BIASES];
            if (tile == 0) {
                if (tiles < STAGES - 1)
                    wait_for_copies<0>();
                else
                    wait_for_copies<STAGES - 2>();
                load_facts(w, 0, next);
                set_slack(slack, memory, facts, w.width);
                store_bias(slack, next, memory.bias + buffer * BIAS);
#pragma unroll
                for (int m = 0; m < SIXTEENS; ++m)
#pragma unroll
                    for (int s = 0; s < KSTEPS; ++s)
                        load_matrices(rows[m][s], left + first_row(m) * STRIDE + left_lane() + 32 * s);
                __syncthreads();
                if (after < w.count) copy_rows(w, after, left);
                next_facts = facts_of_row(w, after);
            } else {
                wait_for_copies<STAGES - 2>();
                __syncthreads();
            }
            copy_next();
            if (tile + 1 < tiles) load_facts(w, tile + 1, next);
            compare_tile(rows, right + stage * RIGHT, memory.bias + buffer * BIAS, take, w, slack, first, tile);
            buffer ^= 1;
            if (tile + 1 < tiles) store_bias(slack, next, memory.bias + buffer * BIAS);
            stage = stage + 1 == STAGES ? 0 : stage + 1;
        }
        take.show(memory.entries);
        __syncwarp();
        if (!w.listing) settle(w, labels, first + threadIdx.x, facts, slack, memory.entries + threadIdx.x * ENTRIES);
    }
}

#endif

constexpr int TILES_BYTES = LEFT + STAGES * RIGHT;

#else
// ---- more features: rows and centres pass through shared memory, 32 features at a time

constexpr int LEFT = ROWS * STRIDE, RIGHT = TILE * STRIDE, STAGE = LEFT + RIGHT;
constexpr int OWN_ROWS = ROWS * CHUNK / THREADS;  // rows that a thread copies a piece of

// What a block copies next.
struct Copies {
    index_t block, blocks;
    int tile, tiles, chunk, chunks, stage;
    int row[OWN_ROWS];  // -1: none

    METHOD void find_rows(const Work& w) {
#pragma unroll
        for (int i = 0; i < OWN_ROWS; ++i) {
            const index_t place = block * ROWS + threadIdx.x / CHUNK + i * (THREADS / CHUNK);
            row[i] = place < w.count ? static_cast<int>(w.row(place)) : -1;
        }
    }
    METHOD void next(const Work& w, shared_t stages) {
        if (block < blocks) {
            const int own = threadIdx.x / CHUNK, piece = threadIdx.x % CHUNK;
            const shared_t to = stages + stage * STAGE + own * STRIDE + 16 * piece;
            const index_t at = 8 * (chunk * CHUNK + piece);
#pragma unroll
            for (int i = 0; i < OWN_ROWS; ++i)
                copy_async(to + i * (THREADS / CHUNK) * STRIDE, w.rows + (row[i] < 0 ? 0 : row[i]) * w.width + at,
                           row[i] >= 0);
            const half_t* from = w.centers + (static_cast<index_t>(tile) * TILE + own) * w.width + at;
#pragma unroll
            for (int i = 0; i < TILE; i += THREADS / CHUNK)
                if (TILE % (THREADS / CHUNK) == 0 || own + i < TILE)
                    copy_async(to + LEFT + i * STRIDE, from + i * w.width, true);
            stage = stage + 1 == STAGES ? 0 : stage + 1;
            if (++chunk == chunks) {
                chunk = 0;
                if (++tile == tiles) tile = 0, block += gridDim.x, find_rows(w);
            }
        }
        copies_started();
    }
};

DEVICE void multiply_chunk(float (&scores)[GROUPS][SIXTEENS][2][4], shared_t stage) {
    const int warp = threadIdx.x / 32;
    const shared_t left = stage + warp / PARTS * (16 * SIXTEENS) * STRIDE + left_lane();
    const shared_t right = stage + LEFT + warp % PARTS * (TILE / PARTS) * STRIDE + right_lane();
#pragma unroll
    for (int s = 0; s < CHUNK / 2; ++s) {
        unsigned a[SIXTEENS][4];
#pragma unroll
        for (int m = 0; m < SIXTEENS; ++m) load_matrices(a[m], left + 16 * m * STRIDE + 32 * s);
#pragma unroll
        for (int g = 0; g < GROUPS; ++g) {
            unsigned b[4];
            load_matrices(b, right + 16 * g * STRIDE + 32 * s);
#pragma unroll
            for (int m = 0; m < SIXTEENS; ++m)
#pragma unroll
                for (int n = 0; n < 2; ++n) multiply(scores[g][m][n], a[m], b[2 * n], b[2 * n + 1], scores[g][m][n]);
        }
    }
}

template <class Take>
DEVICE void scan(const Work& w, const Labels& labels, const Memory& memory, Take& take) {
    const shared_t stages = shared_address(memory.tiles);
    Copies copies{static_cast<index_t>(blockIdx.x),
                  (w.count + ROWS - 1) / ROWS,
                  0,
                  static_cast<int>((w.k + TILE - 1) / TILE),
                  0,
                  static_cast<int>(w.width / (8 * CHUNK)),
                  0,
                  {}};
    if (copies.block >= copies.blocks) return;
    copies.find_rows(w);
    Pair next_facts = facts_of_row(w, copies.block * ROWS);
    for (int i = 0; i < STAGES - 1; ++i) copies.next(w, stages);
    int stage = 0, buffer = 0;
    for (index_t block = blockIdx.x; block < copies.blocks; block += gridDim.x) {
        const index_t first = block * ROWS;
        const Pair facts = next_facts;
        next_facts = facts_of_row(w, first + static_cast<index_t>(gridDim.x) * ROWS);
        Slack slack;
        Four next[BIASES];
        load_facts(w, 0, next);
        set_slack(slack, memory, facts, w.width);
        store_bias(slack, next, memory.bias + buffer * BIAS);
        __syncthreads();
        take.start(w, first);
        for (int tile = 0; tile < copies.tiles; ++tile) {
            float scores[GROUPS][SIXTEENS][2][4];
#pragma unroll
            for (int g = 0; g < GROUPS; ++g) {
                float start[2][4];
                start_scores(start, memory.bias + buffer * BIAS, g);
#pragma unroll
                for (int i = 0; i < 8 * SIXTEENS; ++i) scores[g][i / 8][i / 4 % 2][i % 4] = start[i / 4 % 2][i % 4];
            }
            for (int chunk = 0; chunk < copies.chunks; ++chunk) {
                wait_for_copies<STAGES - 2>();
                __syncthreads();
                copies.next(w, stages);
                if (chunk == 1 && tile + 1 < copies.tiles) {  // there are at least two chunks
                    load_facts(w, tile + 1, next);
                    store_bias(slack, next, memory.bias + (buffer ^ 1) * BIAS);
                }
                multiply_chunk(scores, stages + stage * STAGE);
                stage = stage + 1 == STAGES ? 0 : stage + 1;
            }
#pragma unroll
            for (int g = 0; g < GROUPS; ++g) {
                KEEP(g, scores[g]);
                take.take(g, scores[g], w, first, tile);
            }
            take.end_tile(tile);
            buffer ^= 1;
        }
        take.show(memory.entries);
        __syncthreads();
        if (!w.listing) settle(w, labels, first + threadIdx.x, facts, slack, memory.entries + threadIdx.x * ENTRIES);
    }
}

constexpr int TILES_BYTES = STAGES * STAGE;
#endif

#ifdef WIDE
constexpr int BIAS_TILES = 3;
#else
constexpr int BIAS_TILES = 2;
#endif

DEVICE Memory memory_at(unsigned char* all) {
    float* const bias = reinterpret_cast<float*>(all + TILES_BYTES);
    float* const largest = bias + BIAS_TILES * BIAS;
    return Memory{all, bias, largest, reinterpret_cast<Entry*>(largest + 2 * WARPS)};
}

#ifndef MIN_BLOCKS
#ifdef WIDE
#define MIN_BLOCKS 1
#else
#define MIN_BLOCKS ((KSTEPS == 0 || KSTEPS > 4 ? 8 : KSTEPS > 2 ? 16 : 24) / WARPS)  // RESIDENT_WARPS in filter.py
#endif
#endif
#define BOUNDED __launch_bounds__(THREADS, MIN_BLOCKS)

// list: the rows to look at, of which there are counters[LISTED]; null: all. Pre: the other counters are zero.
KERNEL BOUNDED find(const half_t* rows, const Pair* row_facts, const half_t* centers, const Four* center_facts,
                    const index_t* sizes, const int* list, label_t* labels, label_t* changed, label_t* before,
                    word_t* changes, int* slots, int* queue, word_t* counters, const float* squares, Pair* bounds) {
    SHARED(unsigned char, all);
    const index_t count = list ? static_cast<index_t>(counters[LISTED]) : sizes[OF_ROWS];
    const Work w{rows,           row_facts, centers, center_facts, count,    sizes[OF_CENTERS], sizes[OF_WIDTH],
                 sizes[OF_ROOM], list,      slots,   queue,        counters, squares,           bounds,
                 false};
    TwoSmallest take;
    scan(w, Labels{labels, changed, before, changes}, memory_at(all), take);
}

KERNEL BOUNDED list_candidates(const half_t* rows, const Pair* row_facts, const half_t* centers,
                               const Four* center_facts, const index_t* sizes, int* slots, int* queue,
                               word_t* counters) {
    SHARED(unsigned char, all);
    const Work w{rows,
                 row_facts,
                 centers,
                 center_facts,
                 static_cast<index_t>(counters[OPEN]),
                 sizes[OF_CENTERS],
                 sizes[OF_WIDTH],
                 sizes[OF_ROOM],
                 nullptr,
                 slots,
                 queue,
                 counters,
                 nullptr,
                 nullptr,
                 true};
    Candidates take;
    scan(w, Labels{}, memory_at(all), take);
}
#endif

#ifdef REAL
// ---- rows that may have another label ------------------------------------------------------------------------------

// Of some centres: the largest move, the second largest, and whose the largest is.
struct Moves {
    float first = 0, second = 0;
    int whose = -1;
    METHOD void take(float move, int j) {
        if (move > first)
            second = first, first = move, whose = j;
        else
            second = fmaxf(second, move);
    }
    METHOD void join(const Moves& other) {
        take(other.first, other.whose);
        second = fmaxf(second, other.second);
    }
};

// The same for all centres. By the 256 threads of a block.
DEVICE Moves moves_of_block(const float* moves, index_t k) {
    __shared__ Moves parts[8];
    Moves all;
    for (index_t j = threadIdx.x; j < k; j += blockDim.x) all.take(moves[j], static_cast<int>(j));
    for (int i = 16; i > 0; i /= 2) {
        Moves other;
        other.first = __shfl_xor_sync(ALL, all.first, i), other.second = __shfl_xor_sync(ALL, all.second, i);
        other.whose = __shfl_xor_sync(ALL, all.whose, i);
        all.join(other);
    }
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = all;
    __syncthreads();
    all = Moves();
    for (int i = 0; i < 8; ++i) all.join(parts[i]);
    return all;
}

// Adds the moves of the centres to the bounds of the rows, and lists the rows that may have another label.
// moves: of each centre, rounded up, scaled like the bounds. Pre: 256 threads.
KERNEL choose_rows(const float* moves, const index_t* sizes, const label_t* labels, Pair* bounds, int* list,
                   word_t* counters) {
    const Moves all = moves_of_block(moves, sizes[OF_CENTERS]);
    const index_t n = sizes[OF_ROWS];
    for (index_t first = thread_index() / 32 * 32; first < n; first += thread_count()) {
        const index_t row = first + threadIdx.x % 32;
        bool open = false;
        if (row < n) {
            const int label = labels[row];
            Pair both = bounds[row];
            both.x = __fadd_ru(both.x, label < 0 ? infinite() : moves[label]);
            both.y = __fsub_rd(both.y, label == all.whose ? all.second : all.first);
            open = !(both.y > LEAST_DISTANCE && both.x * (1 + 0x1p-18f) < both.y);
            bounds[row] = both;
        }
        const index_t at = reserve(open, counters + LISTED);
        if (open) list[at] = static_cast<int>(row);
    }
}

// ---- float64 ------------------------------------------------------------------------------------------------------

struct Nearest {
    double cost;
    label_t label;
    METHOD void take(double other, label_t j) {
        if (nearer(other, j, cost, label)) cost = other, label = j;
    }
};

// The rows in slots, by their candidates. Sixteen threads measure one row after the other, and the rows of a warp are
// labelled together. A row with too many candidates is put into the list for compare_all.
KERNEL decide(const REAL* rows, const double* centers, index_t d, const index_t* sizes, label_t* labels,
              label_t* changed, label_t* before, word_t* changes, const int* slots, int* queue, word_t* counters) {
    const Labels all{labels, changed, before, changes};
    const index_t room = sizes[OF_ROOM], used = static_cast<index_t>(counters[SLOTS]);
    const index_t count = used < room ? used : room;
    const int lane = threadIdx.x % LANES, half = threadIdx.x % 32 / LANES;
    for (index_t first = thread_index() / 32 * 32; first < count; first += thread_count()) {
        label_t label = 0;
        for (int i = 0; i < LANES; ++i) {
            if (first + i >= count) break;  // both halves of the warp
            const index_t at = first + half * LANES + i;
            const int* slot = slots + SLOT * (at < count ? at : first);
            const double* none = centers;
            const REAL* x = rows + slot[SLOT_ROW] * d;
            const int listed = slot[SLOT_COUNT] <= MOST_CANDIDATES ? slot[SLOT_COUNT] : 0;
            const int most = max(listed, __shfl_xor_sync(ALL, listed, LANES));
            Nearest best{infinite(), 0x7fffffff};
            for (int c = 0; c < most; ++c) {
                const label_t j = c < listed ? slot[SLOT_FIRST + c] : 0;
                const double cost = distance_by_lanes(x, c < listed ? centers + j * d : none, d);
                if (c < listed) best.take(cost, j);
            }
            if (lane == i) label = best.label;
        }
        const index_t at = first + threadIdx.x % 32;
        const int* slot = slots + SLOT * (at < count ? at : first);
        const bool valid = at < count, few = slot[SLOT_COUNT] <= MOST_CANDIDATES;
        all.set(valid && few, slot[SLOT_ROW], label);
        const index_t last = reserve(valid && !few, counters + EXACT);
        if (valid && !few) queue[room + last] = slot[SLOT_ROW];
    }
}

// The nearest of some centres for one row, by sixteen threads: those in first, first + step, ... With few features each
// thread measures another centre. All threads of a warp call it together, with equally many centres.
DEVICE Nearest nearest_by_lanes(const REAL* x, const double* centers, index_t k, index_t d, index_t first,
                                index_t step) {
    Nearest best{infinite(), 0x7fffffff};
    const int lane = threadIdx.x % LANES;
    if (d < LANES) {
        for (index_t j = first * LANES + lane; j < k; j += step * LANES)
            best.take(distance(x, centers + j * d, d), static_cast<label_t>(j));
        for (int i = LANES / 2; i > 0; i /= 2) {
            const double cost = __shfl_xor_sync(ALL, best.cost, i, LANES);
            best.take(cost, __shfl_xor_sync(ALL, best.label, i, LANES));
        }
    } else {
        for (index_t start = 0; start < k; start += step) {
            const index_t j = start + first;
            const double cost = distance_by_lanes(x, centers + (j < k ? j : 0) * d, d);
            if (j < k) best.take(cost, static_cast<label_t>(j));
        }
    }
    return best;
}

// The rows that are left, a block for each: sixteen threads for each part of the centres. Pre: 256 threads.
KERNEL compare_all(const REAL* rows, const double* centers, index_t d, const index_t* sizes, label_t* labels,
                   label_t* changed, label_t* before, word_t* changes, const int* queue, const word_t* counters) {
    __shared__ double costs[16];
    __shared__ label_t found[16];
    const index_t count = static_cast<index_t>(counters[EXACT]), k = sizes[OF_CENTERS];
    for (index_t i = blockIdx.x; i < count; i += gridDim.x) {
        const index_t row = queue[sizes[OF_ROOM] + i];
        const int part = threadIdx.x / LANES;
        const Nearest own = nearest_by_lanes(rows + row * d, centers, k, d, part, 16);
        if (threadIdx.x % LANES == 0) costs[part] = own.cost, found[part] = own.label;
        __syncthreads();
        if (threadIdx.x < 32) {
            Nearest best{infinite(), 0x7fffffff};
            for (int p = 0; p < 16; ++p) best.take(costs[p], found[p]);
            Labels{labels, changed, before, changes}.set(threadIdx.x == 0, row, best.label);
        }
        __syncthreads();
    }
}

// All rows, of few features, each by a thread.
KERNEL label_short_rows(const REAL* rows, const double* centers, index_t n, index_t d, index_t k, label_t* labels,
                        label_t* changed, label_t* before, word_t* changes) {
    const Labels all{labels, changed, before, changes};
    for (index_t first = thread_index() / 32 * 32; first < n; first += thread_count()) {
        const index_t row = first + threadIdx.x % 32;
        Nearest best{infinite(), 0x7fffffff};
        for (index_t j = 0; j < k && row < n; ++j)
            best.take(distance(rows + row * d, centers + j * d, d), static_cast<label_t>(j));
        all.set(row < n, row, best.label);
    }
}

// All rows. Sixteen threads measure `each` (up to 16) rows one after the other; those of a warp are labelled together.
KERNEL label_rows(const REAL* rows, const double* centers, index_t n, index_t d, index_t k, index_t each,
                  label_t* labels, label_t* changed, label_t* before, word_t* changes) {
    const Labels all{labels, changed, before, changes};
    const int lane = threadIdx.x % LANES, half = threadIdx.x % 32 / LANES;
    for (index_t first = thread_index() / 32 * 2 * each; first < n; first += thread_count() / 32 * 2 * each) {
        label_t label = 0;
        for (index_t i = 0; i < each && first + i < n; ++i) {
            const index_t row = first + half * each + i;
            const Nearest best = nearest_by_lanes(rows + (row < n ? row : first) * d, centers, k, d, 0, 1);
            if (lane == i) label = best.label;
        }
        const index_t row = first + half * each + lane;
        all.set(lane < each && row < n, row, label);
    }
}
#endif
