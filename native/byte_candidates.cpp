// Bounds on the gains of candidates of greedy seeding, by the bytes of rows (see byte_rows.hpp). All candidates are in
// the lanes of one vector, or of few. Compiled as byte_products.cpp.
#include "byte_panel.hpp"

namespace kv::KV_BYTES {
namespace {

constexpr int ROWS = 8;   // whose products are in registers
constexpr int LINE = 64;  // bytes

inline std::uint64_t first_bits(index_t count) {
    return count < 64 ? (std::uint64_t{1} << count) - 1 : ~std::uint64_t{0};
}

// A panel of candidates from `first` on.
struct CandidatePanel {
    const ByteFilter& filter;
    const Panel panel;
    const double* weight;
    const index_t first;
    const std::uint64_t lanes;
    ByteGainSums& sums;

    CandidatePanel(const ByteFilter& f, const ByteCenters& centers, const double* weights, index_t at,
                   ByteGainSums& out)
        : filter(f), panel(centers, at), weight(weights), first(at), lanes(first_bits(centers.k - at)), sums(out) {}

    // Of row i, whose products are `sum`. Returns the bits of the candidates that pass.
    std::uint64_t offer(index_t i, vi sum) const {
        const float limit = filter.limit[i];
        const vf low = panel.low(filter.rows, i, sum, 0);
        const std::uint64_t passed = mask_not_above(low, splat(limit)) & lanes;
        if (passed && limit < std::numeric_limits<float>::infinity()) add(i, limit, low, passed);
        return passed << first;
    }

private:
    [[gnu::noinline]] void add(index_t i, float limit, vf low, std::uint64_t passed) const {
        const ByteRows& rows = filter.rows;
        const double times = weight ? weight[i] : 1, excess = ByteFilter::excess(limit, rows.norm2[i]);
        const vf error = rows.error[i] * load(panel.norm) + rows.norm[i] * load(panel.error);
        const vd most = static_cast<double>(limit) - __builtin_convertvector(low, vd);
        const vd wide = __builtin_convertvector(error, vd) * (2 + 8 * BYTE_ROUNDING) +
                        __builtin_convertvector(load(panel.half), vd) * (4 * BYTE_ROUNDING) + excess;
        const vd least = most - wide;
        add(sums.high + first, most > 0 ? most * times : vd{});
        add(sums.low + first, least > 0 ? least * times : vd{});
        add(sums.decided + first, least > 0 ? vd{} + 1 : vd{});
        sums.passed += __builtin_popcountll(passed);
    }
    static void add(double* to, vd v) { write(to, read<vd>(to) + v); }
};

template <int N>
void compare(const CandidatePanel& candidates, const index_t* id, const index_t* next, std::uint64_t* passed) {
    const ByteRows& rows = candidates.filter.rows;
    const std::int8_t* row[N];
    vi sum[N][1];
    for (int r = 0; r < N; ++r) row[r] = rows.row(id[r]), sum[r][0] = splat(first_sum(rows, id[r]));
    for (index_t at = 0; at < rows.width; at += LINE) {
        if (rows.width > LINE)  // shorter rows are read ahead anyway
            for (int r = 0; r < N; ++r) __builtin_prefetch(rows.row(next[r]) + at);
        multiply<N, 1>(row, candidates.panel.p + at * W, LINE / 4, sum);
        for (int r = 0; r < N; ++r) row[r] += LINE;
    }
    for (int r = 0; r < N; ++r) passed[r] |= candidates.offer(id[r], sum[r][0]);
}

}  // namespace

void bound_gains(const ByteFilter& filter, const ByteCenters& centers, const double* weight, const index_t* id,
                 int count, std::uint64_t* passed, ByteGainSums& sums) {
    std::fill(passed, passed + count, 0);
    for (index_t first = 0; first < centers.k; first += W) {
        const CandidatePanel candidates(filter, centers, weight, first, sums);
        int at = 0;
        for (; at + ROWS <= count; at += ROWS)
            compare<ROWS>(candidates, id + at, id + at + (at + 2 * ROWS <= count ? ROWS : 0), passed + at);
        with_count<ROWS - 1>(count - at, [&](auto n) { compare<n()>(candidates, id + at, id + at, passed + at); });
    }
}

}  // namespace kv::KV_BYTES
