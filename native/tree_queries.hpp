// Queries of a tree: common ancestors, counts, and k leaves by score or of least cost. They only assume that parents
// come before children.
#pragma once

#include "tree.hpp"

namespace kv {

struct TreeView {
    const index_t *parent, *height;
    index_t nodes;
    index_t low;  // log2 of the unit
};

inline index_t common_ancestor(const TreeView& t, index_t a, index_t b) {
    while (a != b) (a > b ? a : b) = t.parent[a > b ? a : b];
    return a;
}

// Computes the weight under every node. No child has more than its parent, since no term is negative.
inline void counts(const TreeView& t, const index_t* leaf, index_t n, const double* weight, double* out) {
    std::fill(out, out + t.nodes, 0.0);
    for (index_t i = 0; i < n; ++i) out[leaf[i]] += weight ? weight[i] : 1.0;
    for (index_t v = t.nodes - 1; v > 0; --v) out[t.parent[v]] += out[v];
}

// Powers of the length 2^height, in units of the tallest finite node, so that squares stay in range.
class Lengths {
public:
    Lengths(const TreeView& t, int power) : power_(power) {
        for (index_t v = 0; v < t.nodes; ++v)
            if (t.height[v] + t.low < INFINITE_HEIGHT) top_ = std::max(top_, t.height[v]);
    }
    // Returns count * 2^(power * h), and 0 for a count of 0 even if the length is infinite.
    double times(double count, index_t h) const {
        if (count == 0) return 0;
        return std::ldexp(count, static_cast<int>(std::clamp<index_t>(power_ * (h - top_), -5000, 5000)));
    }

private:
    int power_;
    index_t top_ = -INFINITE_HEIGHT;
};

// Returns, for every node, the child with the largest count (the first of equals), or -1 for a leaf.
inline std::vector<index_t> heaviest_child(const TreeView& t, const double* count) {
    std::vector<index_t> best(t.nodes, -1);
    for (index_t v = 1; v < t.nodes; ++v) {
        index_t& b = best[t.parent[v]];
        if (b < 0 || count[v] > count[b]) b = v;
    }
    return best;
}

// Algorithms 4 and 5 of Fan et al.: chooses k subtrees by score, and in each the leaf reached by following the heaviest
// child; fewer if there are fewer leaves. The score of a node is count * 2^(power * (height of its parent - 1)). Our
// tree leaves out chains of single children; this is the paper's score of the top of the chain, its highest.
inline std::vector<index_t> leaves_by_score(const TreeView& t, const double* count, index_t k, int power) {
    const Lengths lengths(t, power);
    struct Scored {
        double score;
        index_t node;
        bool operator<(const Scored& o) const { return score < o.score || (score == o.score && node > o.node); }
    };
    std::vector<Scored> heap(t.nodes);
    for (index_t v = 0; v < t.nodes; ++v)
        heap[v] = {v ? lengths.times(count[v], t.height[t.parent[v]]) : std::numeric_limits<double>::infinity(), v};
    std::make_heap(heap.begin(), heap.end());
    std::vector<index_t> slot(t.nodes, -1), chosen;
    std::vector<char> above(t.nodes, 0);  // a chosen node, or an ancestor of one
    auto end = heap.end();
    while (static_cast<index_t>(chosen.size()) < k && end != heap.begin()) {
        std::pop_heap(heap.begin(), end);
        const index_t v = (--end)->node;
        if (above[v]) continue;
        index_t u = v;
        while (u >= 0 && !above[u]) {
            above[u] = 1;
            u = t.parent[u];
        }
        const bool inherits = u >= 0 && slot[u] >= 0;  // it replaces an ancestor
        slot[v] = inherits ? slot[u] : static_cast<index_t>(chosen.size());
        if (inherits) {
            chosen[slot[u]] = v;
            slot[u] = -1;
        } else {
            chosen.push_back(v);
        }
    }
    const std::vector<index_t> next = heaviest_child(t, count);
    for (index_t& v : chosen)
        while (next[v] >= 0) v = next[v];
    return chosen;
}

// Finds the k leaves of least cost in the tree's own metric, the sum of count * distance^power; fewer if there are
// fewer leaves. Up to a constant, a node without a chosen leaf below it costs
//     count * (2^(power * height of its parent) - 2^(power * its height)),
// and a chosen leaf saves this for the nodes on its path to the root. Taking the longest path, then the longest of what
// is left, and so on, gives the best union of k paths.
inline std::vector<index_t> leaves_exactly(const TreeView& t, const double* count, index_t k, int power) {
    const Lengths lengths(t, power);
    std::vector<index_t> next(t.nodes, -1);
    std::vector<double> path(t.nodes, 0);  // the longest from here down
    for (index_t v = t.nodes - 1; v > 0; --v) {
        const index_t p = t.parent[v];
        const double whole = lengths.times(count[v], t.height[p]);
        const double part = next[v] < 0 ? 0 : lengths.times(count[v], t.height[v]);
        path[v] += std::isinf(whole) ? whole : whole - part;
        if (next[p] < 0 || path[v] >= path[p]) next[p] = v, path[p] = path[v];
    }
    std::vector<index_t> tops;
    for (index_t v = 0; v < t.nodes; ++v)
        if (v == 0 || next[t.parent[v]] != v) tops.push_back(v);
    const auto first = [&](index_t a, index_t b) {
        return a == 0 || b == 0 ? a < b : path[a] > path[b] || (path[a] == path[b] && a < b);
    };
    const auto some = std::min<index_t>(k, static_cast<index_t>(tops.size()));
    std::partial_sort(tops.begin(), tops.begin() + some, tops.end(), first);
    tops.resize(some);
    for (index_t& v : tops)
        while (next[v] >= 0) v = next[v];
    return tops;
}

}  // namespace kv
