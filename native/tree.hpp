// A 2-HST: nested clusters whose radii halve from height to height (Fan et al. 2023, Algorithm 3).
//
// The radius at height h is scale(h) * 2^(h-1), its scale random in [1, 2), drawn afresh for every height: given
// the clusters above, a height's radius is then independent of them, which is what the logarithmic bound on the
// distortion needs when centres come from the cluster itself. Here is what knows no distances; tree.cpp grows.
#pragma once

#include <cmath>

#include "tree_kernels.hpp"

namespace kv {

inline std::uint64_t mixed(std::uint64_t z) {  // splitmix64's finish
    z += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}
inline std::uint64_t mixed(std::uint64_t seed, std::uint64_t with) { return mixed(mixed(seed) ^ mixed(~with)); }

// A uniform order, a function of the seed alone. (The bias of the multiplication is below 2^-32.)
template <class Item>
void shuffle(Item* items, index_t count, std::uint64_t seed) {
    for (index_t i = 0; i + 1 < count; ++i) {
        const auto left = static_cast<std::uint64_t>(count - i);
        seed += 0x9e3779b97f4a7c15ull;
        const auto wide = static_cast<unsigned __int128>(mixed(seed)) * left;
        std::swap(items[i], items[i + static_cast<index_t>(wide >> 64)]);
    }
}

constexpr int FAR = 1100;   // the height over what no finite distance joins: 2^FAR is infinite
constexpr int KEPT = 96;    // heights below the root whose radii are kept

class Radii {
public:
    Radii(std::uint64_t seed, bool afresh) : seed_(seed), afresh_(afresh) {}

    double operator()(int h) const {
        const int place = top_ - h;
        return place >= 0 && place < KEPT && ready_ ? kept_[place] : made(h);
    }
    // The largest height whose radius is below x > 0.
    int below(double x) const {
        if (!(x <= std::numeric_limits<double>::max())) return FAR - 1;
        const int h = std::ilogb(x) + 1;
        return (*this)(h) < x ? h : h - 1;
    }
    // The least height whose radius is x or more; x > 0.
    int covering(double x) const {
        if (!(x <= std::numeric_limits<double>::max())) return FAR;
        const int h = std::ilogb(x) + 1;
        return (*this)(h - 1) >= x ? h - 1 : (*this)(h) >= x ? h : h + 1;
    }
    void keep(int top) {
        ready_ = false;
        top_ = top;
        for (int i = 0; i < KEPT; ++i) kept_[i] = made(top - i);
        ready_ = true;
    }

private:
    double made(int h) const {
        // log-uniform, so that no unit of length is special. The last millionth is left out: two points of a cluster
        // are at most two radii apart, and that must stay below 2^(h+1) however distances were rounded.
        const double u = static_cast<double>(mixed(seed_, afresh_ ? static_cast<std::uint64_t>(h + 4096) : 0) >> 11) * 0x1p-53;
        const double r = std::ldexp(std::exp2(u * (1 - 0x1p-20)), h - 1);
        return std::min(r, std::numeric_limits<double>::max());
    }
    std::uint64_t seed_;
    bool afresh_;
    int top_ = 0;
    bool ready_ = false;
    double kept_[KEPT];
};

// Heights start at zero: a unit is the power of two that makes them.
inline void normalise(Grown& tree) {
    index_t low = FAR;
    for (const index_t h : tree.height) low = std::min(low, h);
    low = std::max<index_t>(low, -1022);
    for (index_t& h : tree.height) h -= low;
    tree.unit = std::ldexp(1.0, static_cast<int>(low));
}

// ---- trees as they are: nodes in an order in which parents come before their children ----

struct TreeView {
    const index_t *parent, *height;
    index_t nodes;
    index_t low;  // the logarithm of the unit
};

inline index_t common(const TreeView& t, index_t a, index_t b) {  // the lowest common ancestor
    while (a != b) (a > b ? a : b) = t.parent[a > b ? a : b];
    return a;
}

// Weight under every node. Sums of non-negative numbers: no child has more than its parent.
inline void counts(const TreeView& t, const index_t* leaf, index_t n, const double* weight, double* out) {
    std::fill(out, out + t.nodes, 0.0);
    for (index_t i = 0; i < n; ++i) out[leaf[i]] += weight ? weight[i] : 1.0;
    for (index_t v = t.nodes - 1; v > 0; --v) out[t.parent[v]] += out[v];
}

// What 2^height means to a power, in units of the tallest finite node, so that squares stay in range.
class Lengths {
public:
    Lengths(const TreeView& t, int power) : power_(power) {
        for (index_t v = 0; v < t.nodes; ++v)
            if (t.height[v] + t.low < FAR) top_ = std::max(top_, t.height[v]);
    }
    // count * 2^(power * h); of nothing, nothing, even infinitely far away.
    double times(double count, index_t h) const {
        if (count == 0) return 0;
        return std::ldexp(count, static_cast<int>(std::clamp<index_t>(power_ * (h - top_), -5000, 5000)));
    }

private:
    int power_;
    index_t top_ = -FAR;
};

// The child with the largest count, of every node (the first of equals); -1: a leaf.
inline std::vector<index_t> heaviest(const TreeView& t, const double* count) {
    std::vector<index_t> best(static_cast<std::size_t>(t.nodes), -1);
    for (index_t v = 1; v < t.nodes; ++v) {
        index_t& b = best[t.parent[v]];
        if (b < 0 || count[v] > count[b]) b = v;
    }
    return best;
}

// Algorithms 4 and 5 of Fan et al.: k subtrees by score, in each the leaf that most points lead to; fewer if there
// are fewer leaves. The score of a node is count * 2^(power * (its parent's height - 1)): in a tree whose chains of
// single children are cut out, that is the printed score of the chain's top, the highest of the chain.
inline std::vector<index_t> leaves_by_score(const TreeView& t, const double* count, index_t k, int power) {
    const Lengths lengths(t, power);
    struct Scored {
        double score;
        index_t node;
        bool operator<(const Scored& o) const { return score < o.score || (score == o.score && node > o.node); }
    };
    std::vector<Scored> heap(static_cast<std::size_t>(t.nodes));
    for (index_t v = 0; v < t.nodes; ++v)
        heap[v] = {v ? lengths.times(count[v], t.height[t.parent[v]]) : std::numeric_limits<double>::infinity(), v};
    std::make_heap(heap.begin(), heap.end());
    std::vector<index_t> slot(static_cast<std::size_t>(t.nodes), -1), chosen;
    std::vector<char> above(static_cast<std::size_t>(t.nodes), 0);  // a node that was taken, or an ancestor of one
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
        const bool inherits = u >= 0 && slot[u] >= 0;  // an ancestor makes way
        slot[v] = inherits ? slot[u] : static_cast<index_t>(chosen.size());
        if (inherits) {
            chosen[slot[u]] = v;
            slot[u] = -1;
        } else {
            chosen.push_back(v);
        }
    }
    const std::vector<index_t> next = heaviest(t, count);
    for (index_t& v : chosen)
        while (next[v] >= 0) v = next[v];
    return chosen;
}

// The k leaves of least cost in the tree's own metric, sum of count * distance^power, exactly; fewer if there are
// fewer leaves. A node without a chosen leaf below it costs count * (2^(power * parent's) - 2^(power * its height)),
// up to a constant, and the chosen leaves spare the nodes on their paths to the root: the longest path, then the
// longest that is left, and so on, is the best union of k paths.
inline std::vector<index_t> leaves_exactly(const TreeView& t, const double* count, index_t k, int power) {
    const Lengths lengths(t, power);
    std::vector<index_t> next(static_cast<std::size_t>(t.nodes), -1);
    std::vector<double> path(static_cast<std::size_t>(t.nodes), 0);  // the best from here down
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
    tops.resize(static_cast<std::size_t>(some));
    for (index_t& v : tops)
        while (next[v] >= 0) v = next[v];
    return tops;
}

// The tree of Fakcharoenphol, Rao and Talwar: at every height a point belongs to the first point of one random order
// within the radius. Lists: a row a point, of those who are nearer than all before them, in the order's sequence.
inline Grown tree_of_lists(const index_t* start, const std::int32_t* node, const double* distance, index_t n,
                           std::uint64_t seed) {
    const Radii radii(seed, false);
    struct Point {
        std::int32_t id;
        int low;        // the least height at which it still belongs to where it belongs now
        index_t entry;  // of the lists: to whom
    };
    struct Cluster {
        index_t begin, end, parent;
        int top;  // it is a cluster at this height
    };
    Grown tree;
    tree.leaf.resize(static_cast<std::size_t>(n));
    std::vector<Point> point(static_cast<std::size_t>(n)), sorted(point.size());
    constexpr int LOWEST = -2000;
    const auto stand = [&](Point& p, int h) {  // at height h or below
        while (distance[p.entry] > 0 && distance[p.entry] > radii(h)) ++p.entry;
        p.low = distance[p.entry] > 0 ? std::min(h, radii.covering(distance[p.entry])) : LOWEST;
    };
    int top = LOWEST + 1;
    for (index_t i = 0; i < n; ++i) {
        point[i] = {static_cast<std::int32_t>(i), 0, start[i]};
        const double d = distance[start[i]];
        if (d > 0) top = std::max(top, radii.covering(d));
    }
    for (Point& p : point) stand(p, top);
    std::vector<index_t> place(static_cast<std::size_t>(n), -1);
    std::vector<index_t> first;       // where the groups of a split begin
    std::vector<std::int32_t> heads;  // whom they belong to
    // Points [begin, end) by whom they belong to, in the order in which those appear.
    const auto group = [&](index_t begin, index_t end) {
        heads.clear();
        first.clear();
        for (index_t i = begin; i < end; ++i) {
            const std::int32_t head = node[point[i].entry];
            if (place[head] < 0) {
                place[head] = static_cast<index_t>(heads.size());
                heads.push_back(head);
                first.push_back(0);
            }
            ++first[place[head]];
        }
        index_t at = begin;
        for (index_t& f : first) std::swap(f, at), at += f;
        if (heads.size() > 1) {
            std::vector<index_t> to = first;
            for (index_t i = begin; i < end; ++i) sorted[to[place[node[point[i].entry]]]++] = point[i];
            std::copy(sorted.begin() + begin, sorted.begin() + end, point.begin() + begin);
        }
        for (const std::int32_t head : heads) place[head] = -1;
    };
    std::vector<Cluster> open;
    const auto emit = [&](index_t parent, int height, index_t centre) {
        tree.parent.push_back(parent);
        tree.height.push_back(height);
        tree.centre.push_back(centre);
        return static_cast<index_t>(tree.parent.size()) - 1;
    };
    group(0, n);
    if (heads.size() > 1) {  // points that nothing joins
        emit(-1, FAR, node[point[0].entry]);
        for (std::size_t g = heads.size(); g-- > 0;)
            open.push_back({first[g], g + 1 < heads.size() ? first[g + 1] : n, 0, top});
    } else if (n > 0) {
        open.push_back({0, n, -1, top});
    }
    while (!open.empty()) {
        const Cluster c = open.back();
        open.pop_back();
        int h = c.top;
        const auto head = [&](index_t i) { return node[point[i].entry]; };
        for (;;) {
            int low = LOWEST;
            for (index_t i = c.begin; i < c.end; ++i) low = std::max(low, point[i].low);
            if (c.end - c.begin == 1) {
                while (distance[point[c.begin].entry] > 0) ++point[c.begin].entry;
                low = LOWEST;
            }
            if (low == LOWEST) {
                const int height = c.parent < 0 ? 0 : c.top;
                const index_t v = emit(c.parent, height, head(c.begin));
                for (index_t i = c.begin; i < c.end; ++i) tree.leaf[point[i].id] = v;
                break;
            }
            const std::int32_t centre = head(c.begin);
            h = low;  // together down to here; one lower somebody leaves
            for (index_t i = c.begin; i < c.end; ++i)
                if (point[i].low == low) stand(point[i], low - 1);
            group(c.begin, c.end);
            if (heads.size() == 1) continue;
            const index_t v = emit(c.parent, h, centre);
            for (std::size_t g = heads.size(); g-- > 0;)
                open.push_back({first[g], g + 1 < heads.size() ? first[g + 1] : c.end, v, h - 1});
            break;
        }
    }
    normalise(tree);
    return tree;
}

}  // namespace kv
