// The tree of Fakcharoenphol, Rao and Talwar (2004), from least-element lists.
//
// At every height a point belongs to its head: the first point, in one random order, within the radius. The list of a
// point holds the points that are nearer than all before them in that order, so its head is the first entry within the
// radius. A cluster is a set of points that had the same heads at all heights above.
#pragma once

#include "tree.hpp"

namespace kv {

struct LeastElements {
    const index_t* start;
    const std::int32_t* node;
    const double* distance;  // falls along a list to 0
    index_t n;
};

class ListTreeBuilder {
public:
    ListTreeBuilder(const LeastElements& lists, std::uint64_t seed)
        : lists_(lists), radii_(seed, false), points_(lists.n), sorted_(points_.size()), group_of_(points_.size(), -1) {
        tree_.leaf.resize(points_.size());
    }

    Tree build() {
        const int top = start_points();
        group_by_head(0, lists_.n);
        if (heads_.size() > 1) {  // some points are infinitely far apart
            push_groups(add_node(-1, INFINITE_HEIGHT, head(0)), lists_.n, top);
        } else {
            pending_.push_back({0, lists_.n, -1, top});
        }
        while (!pending_.empty()) {
            const Cluster c = pending_.back();
            pending_.pop_back();
            split(c);
        }
        normalize(tree_);
        return std::move(tree_);
    }

private:
    struct Point {
        std::int32_t id;
        int low;        // the lowest height at which it has this head
        index_t entry;  // of the lists, its head
    };
    struct Cluster {
        index_t begin, end, parent;
        int top;  // a height at which it is a cluster
    };
    static constexpr int LOWEST = -2000;  // below all heights

    std::int32_t head(index_t i) const { return lists_.node[points_[i].entry]; }
    double reach(index_t i) const { return lists_.distance[points_[i].entry]; }

    // Starts every point at the lowest height whose radius covers all finite distances.
    int start_points() {
        int top = LOWEST + 1;
        for (index_t i = 0; i < lists_.n; ++i) {
            points_[i] = {static_cast<std::int32_t>(i), 0, lists_.start[i]};
            if (reach(i) > 0) top = std::max(top, radii_.covering(reach(i)));
        }
        for (index_t i = 0; i < lists_.n; ++i) descend(i, top);
        return top;
    }

    void descend(index_t i, int h) {
        while (reach(i) > 0 && reach(i) > radii_(h)) ++points_[i].entry;
        points_[i].low = reach(i) > 0 ? radii_.covering(reach(i)) : LOWEST;
    }

    void split(const Cluster& c) {
        for (;;) {
            int low = LOWEST;
            for (index_t i = c.begin; i < c.end; ++i) low = std::max(low, points_[i].low);
            if (low == LOWEST || c.end - c.begin == 1) return add_leaf(c);
            // All points have one head down to `low`. Below it, some need the next head of their list.
            const std::int32_t center = head(c.begin);
            for (index_t i = c.begin; i < c.end; ++i)
                if (points_[i].low == low) descend(i, low - 1);
            group_by_head(c.begin, c.end);
            if (heads_.size() > 1) return push_groups(add_node(c.parent, low, center), c.end, low - 1);
        }
    }

    void add_leaf(const Cluster& c) {
        while (reach(c.begin) > 0) ++points_[c.begin].entry;
        const index_t v = add_node(c.parent, c.parent < 0 ? 0 : c.top, head(c.begin));
        for (index_t i = c.begin; i < c.end; ++i) tree_.leaf[points_[i].id] = v;
    }

    // Sorts the points of a range by head, in the order in which the heads appear.
    void group_by_head(index_t begin, index_t end) {
        heads_.clear();
        first_.clear();
        for (index_t i = begin; i < end; ++i) {
            index_t& group = group_of_[head(i)];
            if (group < 0) {
                group = static_cast<index_t>(heads_.size());
                heads_.push_back(head(i));
                first_.push_back(0);
            }
            ++first_[group];
        }
        index_t at = begin;
        for (index_t& f : first_) {
            const index_t size = f;
            f = at;
            at += size;
        }
        if (heads_.size() > 1) {
            next_ = first_;
            for (index_t i = begin; i < end; ++i) sorted_[next_[group_of_[head(i)]]++] = points_[i];
            std::copy(sorted_.begin() + begin, sorted_.begin() + end, points_.begin() + begin);
        }
        for (const std::int32_t h : heads_) group_of_[h] = -1;
    }

    void push_groups(index_t parent, index_t end, int top) {
        for (std::size_t g = heads_.size(); g-- > 0; end = first_[g]) pending_.push_back({first_[g], end, parent, top});
    }

    index_t add_node(index_t parent, int height, index_t center) {
        tree_.parent.push_back(parent);
        tree_.height.push_back(height);
        tree_.center.push_back(center);
        return static_cast<index_t>(tree_.parent.size()) - 1;
    }

    LeastElements lists_;
    Radii radii_;
    std::vector<Point> points_, sorted_;
    std::vector<index_t> group_of_;    // by head, while a range is sorted
    std::vector<std::int32_t> heads_;  // of the groups
    std::vector<index_t> first_, next_;
    std::vector<Cluster> pending_;
    Tree tree_;
};

}  // namespace kv
