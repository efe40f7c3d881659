// One local search over a matrix of distances (rows: candidates, columns: demand). Candidates are met in
// the given order, `block` at a time; the best swap of a block is made if it lowers the cost by more than
// `tol` times it, until a whole round finds none. Which thread looked at what changes nothing.
#pragma once

#include <numeric>

#include "random.hpp"
#include "swaps.hpp"

namespace kv::KV_ISA {

template <class T>
class Sweep {
public:
    Sweep(const T* D, index_t universe, index_t n, index_t k, index_t* chosen, const Near<T>& near, const double* weight)
        : D_(D), n_(n), k_(k), chosen_(chosen), near_(near), weight_(weight), apart_(n * k), here_(universe, 0), loss_(k, 0.0), cheapest_(k), touched_(k, 0) {
        std::iota(cheapest_.begin(), cheapest_.end(), 0);
        for (index_t m = 0; m < k; ++m) here_[chosen[m]] = 1;
        for (index_t at = 0; at < n; at += TILE) {
            const index_t stop = std::min<index_t>(n, at + TILE);
            for (index_t m = 0; m < k; ++m)
                for (index_t i = at; i < stop; ++i) apart_[i * k + m] = D[chosen[m] * n + i];
            for (index_t i = at; i < stop; ++i) two_of(apart_.data() + i * k, k, i, near_);
        }
        refresh();
        order_slots();
    }

    // To a local optimum, then `restarts` times: some medoids make way for random points, drawn by what they
    // cost, and the search goes on around them. Where that ends below the old cost it goes on everywhere;
    // otherwise all is taken back.
    Swept run(const Round& round, const Restarts& again) {
        Swept out = descend(round);
        std::uint64_t state = again.seed;
        for (index_t r = 0; r < again.count && cost_ > 0 && out.swaps < round.most; ++r) {
            const Kept kept = keep();
            const bool settled = out.settled;
            touched_.assign(k_, 0);
            for (index_t q = 0; q < std::min(again.strength, k_); ++q) kick(again, state);
            const auto around = touched(round, again);
            const auto more = [&](const Round& part) {
                const Swept got = descend(part);
                out.swaps += got.swaps, out.settled = got.settled;
            };
            more({around.data(), static_cast<index_t>(around.size()), round.block, round.tol, round.most - out.swaps});
            if (cost_ < kept.cost)
                more({round.order, round.count, round.block, round.tol, round.most - out.swaps});
            else
                restore(kept), out.settled = settled;
        }
        out.cost = cost_;
        return out;
    }

private:
    static constexpr index_t AHEAD = 32;  // blocks
    static constexpr double LOOK = 20;    // what a distance from memory costs, in multiply-adds

    struct Kept {
        double cost;
        std::vector<index_t> chosen;
        std::vector<label_t> slot, second;
        std::vector<T> own, next;
    };

    Kept keep() const {
        return {cost_, {chosen_, chosen_ + k_}, {near_.slot, near_.slot + n_}, {near_.second, near_.second + n_},
                {near_.cost, near_.cost + n_}, {near_.second_cost, near_.second_cost + n_}};
    }

    void restore(const Kept& kept) {
        for (index_t m = 0; m < k_; ++m) here_[chosen_[m]] = 0;
        for (index_t m = 0; m < k_; ++m) {
            const bool other = chosen_[m] != kept.chosen[m];
            chosen_[m] = kept.chosen[m];
            if (other) fill(m);
            here_[chosen_[m]] = 1;
        }
        std::copy(kept.slot.begin(), kept.slot.end(), near_.slot);
        std::copy(kept.second.begin(), kept.second.end(), near_.second);
        std::copy(kept.own.begin(), kept.own.end(), near_.cost);
        std::copy(kept.next.begin(), kept.next.end(), near_.second_cost);
        refresh();
        order_slots();
    }

    // Candidates that are measured at, and whose medoid the kicks have touched.
    std::vector<index_t> touched(const Round& round, const Restarts& again) {
        mine_.assign(here_.size(), 0);
        for (index_t i = 0; i < n_; ++i) mine_[again.point ? again.point[i] : i] = touched_[near_.slot[i]];
        std::vector<index_t> out;
        for (index_t at = 0; at < round.count; ++at)
            if (mine_[round.order[at]]) out.push_back(round.order[at]);
        return out;
    }

    void kick(const Restarts& again, std::uint64_t& state) {
        const double aim = uniform(state) * cost_;
        double sum = 0;
        index_t i = 0, last = 0;
        for (; i < n_ && sum <= aim; ++i) {
            const double share = (weight_ ? weight_[i] : 1.0) * double(near_.cost[i]);
            if (share > 0) last = i;
            sum += share;
        }
        const index_t c = again.point ? again.point[last] : last;
        const index_t m = static_cast<index_t>(uniform(state) * static_cast<double>(k_));
        if (!here_[c]) swap(c, std::min(m, k_ - 1));
    }

    // Looks run ahead of the swaps, the further the longer none has come: then there is enough to share among
    // threads, and little to forget when one comes. What is found does not depend on how far.
    Swept descend(const Round& round) {
        const auto [order, count, block, tol, most] = round;
        std::vector<Table> tables(static_cast<std::size_t>(threads_for(LOOK * AHEAD * block * n_)), Table(k_));
        std::vector<Best> found(static_cast<std::size_t>(AHEAD * block));
        index_t quiet = 0, at = 0, first = 0, last = 0;  // found: for [first, last)
        Swept out;
        while (quiet < count && out.swaps < most) {
            if (at == last) {
                const index_t ahead = std::clamp<index_t>(quiet / block / 4, 1, AHEAD) * block;
                first = at, last = std::min(count, at + (shared(ahead) ? ahead : block));
                look_at(order + first, last - first, tables, found);
            }
            const index_t size = std::min(block, last - at);
            const auto least = std::min_element(found.begin() + (at - first), found.begin() + (at - first + size),
                                                [](const Best& a, const Best& b) { return a.change < b.change; });
            const Best best = *least;
            at += size, quiet += size;
            if (best.slot >= 0 && best.change < -tol * cost_ && lowers(best)) ++out.swaps, quiet = 0, last = at;
            if (at == count) at = last = 0;
        }
        out.cost = cost_, out.settled = quiet >= count;
        return out;
    }

    struct Best {
        double change = 0;
        index_t candidate = -1, slot = -1;
    };
    struct Table {
        std::vector<double> extra;  // by slot; zero but where `met` says so
        std::vector<char> met;
        std::vector<label_t> slots;
        explicit Table(index_t k) : extra(k, 0.0), met(k, 0) { slots.reserve(k); }
    };

    // So many looks are worth a second thread.
    bool shared(index_t looks) const { return threads_for(LOOK * looks * n_) > 1; }

    void look_at(const index_t* candidates, index_t count, std::vector<Table>& tables, std::vector<Best>& found) const {
        if (shared(count)) {
            parallel(count, tables, [&](index_t b, Table& table) { found[b] = look(candidates[b], table); });
            return;
        }
        for (index_t b = 0; b < count; ++b) found[b] = look(candidates[b], tables[0]);
        if (user_wants_to_stop && user_wants_to_stop()) throw Interrupted{};
    }

    // The best slot for a candidate: one of those it touches, or the cheapest to lose of all others.
    Best look(index_t c, Table& t) const {
        if (here_[c]) return {};
        if (k_ == 1) return {moved(D_ + c * n_, near_, weight_, n_), c, 0};
        t.slots.clear();
        const double gain = weigh(D_ + c * n_, near_, weight_, n_, t.extra.data(), [&](label_t m) {
            if (!t.met[m]) t.met[m] = 1, t.slots.push_back(m);
        });
        Best best{std::numeric_limits<double>::infinity(), c, -1};
        const auto offer = [&](double change, index_t m) {
            if (change < best.change || (change == best.change && m < best.slot)) best.change = change, best.slot = m;
        };
        for (const label_t m : cheapest_)
            if (!t.met[m]) {
                offer(loss_[m], m);
                break;
            }
        for (const label_t m : t.slots) {
            offer(loss_[m] + t.extra[m], m);
            t.extra[m] = 0, t.met[m] = 0;
        }
        best.change += gain;
        return best;
    }

    // Rounding may promise what is not there: such a swap is taken back, so the cost falls every time.
    bool lowers(const Best& best) {
        const double before = cost_;
        const index_t old = chosen_[best.slot];
        swap(best.candidate, best.slot);
        if (cost_ < before) return true;
        swap(old, best.slot);
        return false;
    }

    void swap(index_t c, index_t m) {
        here_[chosen_[m]] = 0;
        chosen_[m] = c;
        fill(m);
        const T* d = D_ + c * n_;
        const label_t me = static_cast<label_t>(m);
        for (index_t at = 0; at < n_; at += TILE) {
            const index_t size = std::min<index_t>(TILE, n_ - at);
            std::uint8_t flag[TILE] = {};
            if (size == TILE)
                for (int r = 0; r < TILE; ++r) flag[r] = concerned(d, me, at + r);
            else
                for (int r = 0; r < size; ++r) flag[r] = concerned(d, me, at + r);
            for (int r = 0; r < TILE; r += 8) {
                std::uint64_t bytes;
                std::memcpy(&bytes, flag + r, 8);
                for (; bytes; bytes &= bytes - 1) mend(at + r + __builtin_ctzll(bytes) / 8, d, me);
            }
        }
        refresh();
        order_slots();
    }

    bool concerned(const T* d, label_t m, index_t i) const {
        return (d[i] < near_.second_cost[i]) | (d[i] == near_.second_cost[i]) | (near_.slot[i] == m) | (near_.second[i] == m);
    }

    void mend(index_t i, const T* d, label_t m) {
        if (!patched(d[i], m, i, near_)) two_of(apart_.data() + i * k_, k_, i, near_);
        touched_[near_.slot[i]] = 1;
    }

    void fill(index_t m) {
        const T* d = D_ + chosen_[m] * n_;
        for (index_t i = 0; i < n_; ++i) apart_[i * k_ + m] = d[i];
        here_[chosen_[m]] = 1;
    }

    void refresh() {
        std::fill(loss_.begin(), loss_.end(), 0.0);
        cost_ = 0;
        for (index_t i = 0; i < n_; ++i) {
            const double w = weight_ ? weight_[i] : 1.0, own = near_.cost[i];
            cost_ += w * own;
            loss_[near_.slot[i]] += w * (double(near_.second_cost[i]) - own);
        }
    }

    // A swap changes few losses: insertion into what is nearly sorted.
    void order_slots() {
        const auto before = [&](label_t a, label_t b) { return loss_[a] < loss_[b] || (loss_[a] == loss_[b] && a < b); };
        for (index_t j = 1; j < k_; ++j) {
            const label_t m = cheapest_[j];
            index_t at = j;
            for (; at > 0 && before(m, cheapest_[at - 1]); --at) cheapest_[at] = cheapest_[at - 1];
            cheapest_[at] = m;
        }
    }

    const T* D_;
    index_t n_, k_;
    index_t* chosen_;
    Near<T> near_;
    const double* weight_;
    Buffer<T> apart_;  // n x k: all medoids of a row side by side
    std::vector<char> here_;  // candidates that are medoids
    std::vector<double> loss_;
    std::vector<label_t> cheapest_;  // slots by loss
    std::vector<char> touched_, mine_;  // slots whose rows have changed; candidates of theirs
    double cost_ = 0;
};

}  // namespace kv::KV_ISA
