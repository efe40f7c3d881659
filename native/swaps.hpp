// Swaps of medoids over rows of distances.
//
// If the medoid in slot m makes way for c, row i costs min(d, second) where slot m was its nearest and
// min(d, cost) elsewhere. So with what losing m would cost, L(m) = sum over its rows of (second - cost),
//
//     change(c, m) = L(m) + sum_i min(d - cost, 0)
//                         + sum_{i in m} [(min(d, second) - min(d, cost)) - (second - cost)]
//
// and only rows with d < second enter: one pass over a candidate's row gives its k changes.
#pragma once

#include "metric.hpp"

namespace kv::KV_ISA {

// Places in [0, count) with values below their limits. Flags first, in vectors.
template <class T>
inline int below(const T* values, const T* limit, int count, int* list) {
    std::uint8_t flag[TILE] = {};
    for (int r = 0; r < count; ++r) flag[r] = values[r] < limit[r];
    int m = 0;
    for (int r = 0; r < TILE; r += 8) {
        std::uint64_t bytes;
        std::memcpy(&bytes, flag + r, 8);
        for (; bytes; bytes &= bytes - 1) list[m++] = r + __builtin_ctzll(bytes) / 8;
    }
    return m;
}

template <class T>
std::vector<double> losses(const Near<T>& near, const double* weight, index_t n, index_t k) {
    std::vector<double> out(static_cast<std::size_t>(k), 0.0);
    for (index_t i = 0; i < n; ++i)
        out[near.slot[i]] += (weight ? weight[i] : 1.0) * (double(near.second_cost[i]) - double(near.cost[i]));
    return out;
}

// table[m] = change(c, m) for a candidate whose distances are d.
template <class T>
void changes(const T* d, const Near<T>& near, const double* weight, index_t n, const std::vector<double>& loss,
             double* table) {
    std::copy(loss.begin(), loss.end(), table);
    double gain = 0;
    int list[TILE];
    for (index_t at = 0; at < n; at += TILE) {
        const int m = below(d + at, near.second_cost + at, static_cast<int>(std::min<index_t>(TILE, n - at)), list);
        for (int l = 0; l < m; ++l) {
            const index_t i = at + list[l];
            const double w = weight ? weight[i] : 1.0, own = near.cost[i], next = near.second_cost[i], now = d[i];
            const double closer = std::min(now - own, 0.0);
            gain += w * closer;
            table[near.slot[i]] += w * ((now - next) - closer);
        }
    }
    for (std::size_t m = 0; m < loss.size(); ++m) table[m] += gain;
}

template <class T>
void swap_changes(const T* rows, index_t count, index_t n, index_t k, const Near<T>& near, const double* weight,
                  double* out) {
    const auto loss = losses(near, weight, n, k);
    parallel(count, threads_for(2.0 * static_cast<double>(count) * n),
             [&](index_t c) { changes(rows + c * n, near, weight, n, loss, out + c * k); });
}

// Two nearest of k, for rows of k distances side by side. Ties go to the lowest slot.
template <class T>
inline void two_of(const T* d, index_t k, index_t i, const Near<T>& near) {
    T best = std::numeric_limits<T>::infinity(), next = best;
    label_t who = -1, then = -1;
    for (index_t m = 0; m < k; ++m)
        if (who < 0 || d[m] < best)
            next = best, then = who, best = d[m], who = static_cast<label_t>(m);
        else if (then < 0 || d[m] < next)
            next = d[m], then = static_cast<label_t>(m);
    near.slot[i] = who, near.cost[i] = best;
    near.second[i] = then < 0 ? who : then, near.second_cost[i] = next;
}

// The k x n distances of the medoids, row by row.
template <class T>
void two_nearest_of(const T* rows, index_t k, index_t n, const Near<T>& near) {
    std::vector<Buffer<T>> scratch(static_cast<std::size_t>(threads_for(2.0 * static_cast<double>(n) * k)), Buffer<T>(k));
    parallel(blocks_of(n), scratch, [&](index_t block, Buffer<T>& d) {
        for (index_t i = block * BLOCK; i < std::min(n, (block + 1) * BLOCK); ++i) {
            for (index_t m = 0; m < k; ++m) d[m] = rows[m * n + i];
            two_of(d.data(), k, i, near);
        }
    });
}

// Slot m has a new medoid, at distances d. False: two medoids are not enough to know the new second.
template <class T>
inline bool patched(T d, label_t m, index_t i, const Near<T>& near) {
    const auto before = [&](T a, label_t s, T b, label_t t) { return a < b || (a == b && s < t); };
    const label_t first = near.slot[i], then = near.second[i];
    if (first != m && then != m) {
        if (before(d, m, near.cost[i], first))
            near.second[i] = first, near.second_cost[i] = near.cost[i], near.slot[i] = m, near.cost[i] = d;
        else if (before(d, m, near.second_cost[i], then))
            near.second[i] = m, near.second_cost[i] = d;
        return true;
    }
    const label_t other = first == m ? then : first;
    const T its = first == m ? near.second_cost[i] : near.cost[i];
    const T bar = near.second_cost[i];  // every third medoid is at least this far
    if (other == m) {                   // the only medoid
        near.cost[i] = d;
        return true;
    }
    // A third one at exactly `bar` may have a lower slot: only a strictly closer m is sure.
    if (!(d < bar)) return false;
    const bool leads = before(d, m, its, other);
    near.slot[i] = leads ? m : other, near.cost[i] = leads ? d : its;
    near.second[i] = leads ? other : m, near.second_cost[i] = leads ? its : d;
    return true;
}

template <class T>
index_t swap_patch(const T* d, index_t n, label_t m, const Near<T>& near, index_t* unknown) {
    index_t count = 0;
    for (index_t i = 0; i < n; ++i)
        if (!patched(d[i], m, i, near)) unknown[count++] = i;
    return count;
}

// One local search over a matrix of distances (rows: candidates, columns: demand). Candidates are met in
// the given order, `block` at a time; the best swap of a block is made if it lowers the cost by more than
// `tol` times it, until a whole round finds none. Which thread looked at what changes nothing.
template <class T>
class Sweep {
public:
    Sweep(const T* D, index_t n, index_t k, index_t* chosen, const Near<T>& near, const double* weight)
        : D_(D), n_(n), k_(k), chosen_(chosen), near_(near), weight_(weight), apart_(n * k) {
        for (index_t m = 0; m < k; ++m) fill(m);
        for (index_t i = 0; i < n; ++i) two_of(apart_.data() + i * k, k, i, near_);
        refresh();
    }

    Swept run(const index_t* order, index_t count, index_t block, double tol, index_t most) {
        const int threads = threads_for(2.0 * static_cast<double>(block) * n_);
        std::vector<Best> found(static_cast<std::size_t>(block));
        std::vector<std::vector<double>> table(static_cast<std::size_t>(threads), std::vector<double>(k_));
        index_t quiet = 0, at = 0;
        Swept out;
        while (quiet < count && out.swaps < most) {
            const index_t size = std::min(block, count - at);
            out.met += size;
            parallel(size, table, [&](index_t b, std::vector<double>& t) { found[b] = look(order[at + b], t.data()); });
            Best best;
            for (index_t b = 0; b < size; ++b)
                if (found[b].change < best.change) best = found[b];
            at = at + size == count ? 0 : at + size;
            quiet += size;
            if (best.change < -tol * cost_) {
                swap(best.candidate, best.slot);
                ++out.swaps, quiet = 0;
            }
        }
        out.cost = cost_, out.settled = quiet >= count;
        return out;
    }

private:
    struct Best {
        double change = 0;
        index_t candidate = -1, slot = -1;
    };

    Best look(index_t c, double* table) const {
        if (here_.size() > static_cast<std::size_t>(c) && here_[c]) return {};
        changes(D_ + c * n_, near_, weight_, n_, loss_, table);
        const index_t m = std::min_element(table, table + k_) - table;
        return {table[m], c, m};
    }

    void swap(index_t c, index_t m) {
        here_[chosen_[m]] = 0, here_[c] = 1;
        chosen_[m] = c;
        fill(m);
        for (index_t i = 0; i < n_; ++i)
            if (!patched(D_[c * n_ + i], static_cast<label_t>(m), i, near_)) two_of(apart_.data() + i * k_, k_, i, near_);
        refresh();
    }

    void fill(index_t m) {
        const T* d = D_ + chosen_[m] * n_;
        for (index_t i = 0; i < n_; ++i) apart_[i * k_ + m] = d[i];
        if (static_cast<std::size_t>(chosen_[m]) >= here_.size()) here_.resize(chosen_[m] + 1, 0);
        here_[chosen_[m]] = 1;
    }

    void refresh() {
        loss_ = losses(near_, weight_, n_, k_);
        cost_ = 0;
        for (index_t i = 0; i < n_; ++i) cost_ += (weight_ ? weight_[i] : 1.0) * double(near_.cost[i]);
    }

    const T* D_;
    index_t n_, k_;
    index_t* chosen_;
    Near<T> near_;
    const double* weight_;
    Buffer<T> apart_;  // n x k: all medoids of a row side by side
    std::vector<char> here_;
    std::vector<double> loss_;
    double cost_ = 0;
};

}  // namespace kv::KV_ISA
