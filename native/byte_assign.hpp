// Assignment by bytes (byte_rows.hpp), with one lower bound per row as Hamerly's (hamerly.hpp). Rows that bytes do not
// decide are compared in float64 with the few centres that are left; rows with many such centres go to the filter.
#pragma once

#include <mutex>
#include <optional>
#include <vector>

#include "byte_rows.hpp"
#include "hamerly.hpp"

namespace kv::KV_ISA {

struct ByteScratch : Scratch {
    ByteTile two;
    NearCenters near;
    std::vector<index_t> undecided;  // by bytes
    std::vector<double> most;        // of v of their nearest centre
    std::vector<index_t> wide;       // rows for the filter
};

template <class Rows>
class ByteAssignment {
public:
    ByteAssignment(const Rows& rows, const ByteRows& bytes, const ByteCenters& packed, const ByteKernels& kernels,
                   const Centers& centers, label_t* labels, float* upper, float* lower)
        : rows_(rows),
          bytes_(bytes),
          byte_centers_(packed),
          kernels_(kernels),
          centers_(centers),
          labels_(labels),
          upper_(upper),
          lower_(lower) {}

    // Labels the rows s.id and renews their bounds; rows for the filter may wait.
    void assign(ByteScratch& s) {
        std::size_t usable = 0;
        for (index_t i : s.id) {
            s.id[usable] = i;
            bytes_.error[i] < INFINITE ? void(++usable) : s.wide.push_back(i);
        }
        s.id.resize(usable);
        for (std::size_t at = 0; at < usable; at += BYTE_TILE)
            find_two_smallest(s.id.data() + at, static_cast<int>(std::min<std::size_t>(BYTE_TILE, usable - at)), s);
        for (std::size_t at = 0; at < s.undecided.size(); at += BYTE_TILE)
            compare_near(at, static_cast<int>(std::min<std::size_t>(BYTE_TILE, s.undecided.size() - at)), s);
        s.undecided.clear(), s.most.clear();
        while (s.wide.size() >= TILE) filter_wide(TILE, s);
    }
    // After all rows: those that wait.
    void finish(std::vector<ByteScratch>& all) {
        parallel(static_cast<index_t>(all.size()), static_cast<int>(all.size()), [&](index_t thread) {
            ByteScratch& s = all[thread];
            if (!s.wide.empty()) filter_wide(static_cast<int>(s.wide.size()), s);
        });
        if (open_) open_->finish(all);
    }

private:
    const Rows& rows_;
    const ByteRows& bytes_;
    const ByteCenters& byte_centers_;
    const ByteKernels& kernels_;
    const Centers& centers_;
    label_t* labels_;
    float *upper_, *lower_;
    std::once_flag filter_made_;
    PackedCenters packed_;  // for the filter, made when a row needs it
    std::optional<OpenRows<Rows>> open_;

    // What the reference and underflow may change v by, for both of two centres.
    double slack(index_t i) const { return 0x1p-31 * static_cast<double>(bytes_.norm2[i]) + BYTE_LOST; }
    // At least v of row i and centre j, for its value of `low`.
    double upper_value(index_t i, label_t j, float low) const {
        const double error = static_cast<double>(bytes_.error[i]) * static_cast<double>(byte_centers_.norm[j]) +
                             static_cast<double>(bytes_.norm[i]) * static_cast<double>(byte_centers_.error[j]);
        return static_cast<double>(low) + 2 * error * (1 + 4 * BYTE_ROUNDING) +
               4 * BYTE_ROUNDING * static_cast<double>(byte_centers_.half[j]) + slack(i);
    }
    // Bounds on a distance, for at least (at most) its v.
    float upper_distance(index_t i, double v) const {
        const double square = 2 * v + static_cast<double>(bytes_.norm2[i]) * (1 + BYTE_ROUNDING);
        return round_up(std::sqrt(std::max(0.0, square)) / bytes_.scale);
    }
    float lower_distance(index_t i, double v) const {
        const double square = 2 * (v - slack(i)) + static_cast<double>(bytes_.norm2[i]) * (1 - BYTE_ROUNDING);
        return round_down(std::sqrt(std::max(0.0, square)) / bytes_.scale);
    }

    void find_two_smallest(const index_t* id, int count, ByteScratch& s) {
        kernels_.two_smallest(bytes_, byte_centers_, id, count, s.two);
        for (int r = 0; r < count; ++r) {
            const index_t i = id[r];
            const double most = upper_value(i, s.two.arg[r], s.two.best[r]);
            if (static_cast<double>(s.two.second[r]) > most) {
                relabel(labels_, i, s.two.arg[r], s);
                upper_[i] = upper_distance(i, most);
                lower_[i] = lower_distance(i, s.two.second[r]);
            } else {
                s.undecided.push_back(i), s.most.push_back(most);
            }
        }
        s.total.scanned += count;
    }
    void compare_near(std::size_t at, int count, ByteScratch& s) {
        const index_t* id = s.undecided.data() + at;
        for (int r = 0; r < count; ++r) s.near.limit[r] = static_cast<float>(s.most[at + r] + std::fabs(s.most[at + r]) * ONE_ROUNDING);
        kernels_.near(bytes_, byte_centers_, id, count, s.near);
        for (int r = 0; r < count; ++r) {
            const index_t i = id[r];
            if (s.near.count[r] > MOST_NEAR) {
                s.wide.push_back(i);
                continue;
            }
            Nearest best;
            double second = std::numeric_limits<double>::infinity();
            for (int p = 0; p < s.near.count[r]; ++p) {
                const double cost = dist2(rows_, i, centers_, s.near.center[r][p]);
                second = std::min(second, std::max(cost, best.cost));
                best.offer(s.near.center[r][p], cost);
            }
            relabel(labels_, i, best.arg, s);
            upper_[i] = round_up(std::sqrt(best.cost));
            lower_[i] = std::min(lower_distance(i, s.near.limit[r]), round_down(std::sqrt(second)));
            s.total.exact += s.near.count[r];
        }
        s.total.scanned += count;
    }
    // Compares the last `count` rows that wait with all centres.
    void filter_wide(int count, ByteScratch& s) {
        std::call_once(filter_made_, [&] {
            packed_ = pack_centers(rows_, centers_);
            open_.emplace(rows_, centers_, packed_, labels_);
        });
        const index_t* id = s.wide.data() + s.wide.size() - count;
        filter_tile(rows_, id, count, packed_, Candidates{nullptr, centers_.k}, false, s.tile);
        const RowBounds bounds(s.tile, packed_);
        for (int r = 0; r < count; ++r) {
            upper_[id[r]] = bounds.upper(r, s.tile.best[r]);
            lower_[id[r]] = bounds.lower(r, second_value(s.tile, r));
            s.tile.uncertain[r] ? open_->add(id[r], s) : relabel(labels_, id[r], s.tile.arg[r], s);
        }
        s.total.pairs += count * centers_.k;
        s.wide.resize(s.wide.size() - count);
    }
};

template <class Rows>
AssignResult assign_bytes(const Rows& rows, const ByteRows& bytes, const ByteKernels& kernels, const double* c,
                          index_t k, const float* moved, label_t* labels, float* upper, float* lower,
                          Changes* changes) {
    if constexpr (Rows::sparse) {
        return {};
    } else {
        ByteCenters packed;
        if (!make_byte_centers(bytes, c, k, kernels.panel, packed))
            return assign_hamerly(rows, c, k, moved, labels, upper, lower, true, true, changes);
        std::vector<ByteScratch> scratch(threads_for(static_cast<double>(rows.n) * rows.d * k / 4));
        const index_t task_rows = rows_of_task(rows.n, scratch.size());
        start_changes(changes, rows.n, task_rows);
        const auto centers = exact_centers(rows, c, k);
        CenterDistances between;
        between.half.assign(k, 0);
        std::optional<LargestMoves> movement;
        if (moved) movement.emplace(moved, k);
        ByteAssignment<Rows> assignment(rows, bytes, packed, kernels, centers, labels, upper, lower);
        parallel_rows(rows.n, task_rows, scratch, [&](index_t from, index_t stop, ByteScratch& s) {
            s.start_rows(changes, from, stop);
            if (moved) {
                open_rows(rows, from, stop, centers, between, *movement, labels, upper, lower, true, s);
            } else {
                s.id.resize(stop - from);
                for (index_t i = from; i < stop; ++i) s.id[i - from] = i;
            }
            assignment.assign(s);
        });
        assignment.finish(scratch);
        finish_changes(changes);
        return total(scratch);
    }
}

}  // namespace kv::KV_ISA
