// The tree of Fakcharoenphol, Rao and Talwar (2004), from least-element lists.
//
// At every height a point belongs to the first point of one random order within the radius: its head. Lists: a row a
// point, of those who are nearer than all before them in that order, so the head is the first entry in reach. A
// cluster is a set of points whose heads were the same at all heights above.
#pragma once

#include "tree.hpp"

namespace kv {

struct ListsView {
    const index_t* start;
    const std::int32_t* node;
    const double* distance;  // falls along a row, to 0
    index_t n;
};

class TreeOfLists {
public:
    TreeOfLists(const ListsView& lists, std::uint64_t seed)
        : lists_(lists), radii_(seed, false), points_(static_cast<std::size_t>(lists.n)), sorted_(points_.size()),
          group_of_(points_.size(), -1) {
        tree_.leaf.resize(points_.size());
    }

    Grown grow() {
        const int top = begin();
        gather(0, lists_.n);
        if (heads_.size() > 1) {  // points that nothing joins
            open_groups(emit(-1, FAR, head(0)), lists_.n, top);
        } else {
            open_.push_back({0, lists_.n, -1, top});
        }
        while (!open_.empty()) {
            const Cluster c = open_.back();
            open_.pop_back();
            settle(c);
        }
        normalise(tree_);
        return std::move(tree_);
    }

private:
    struct Point {
        std::int32_t id;
        int low;        // the least height at which its head is still the same
        index_t entry;  // of the lists: its head
    };
    struct Cluster {
        index_t begin, end, parent;
        int top;  // it is a cluster at this height
    };
    static constexpr int LOWEST = -2000;  // below all heights

    std::int32_t head(index_t i) const { return lists_.node[points_[i].entry]; }
    double reach(index_t i) const { return lists_.distance[points_[i].entry]; }

    // Every point at the height that holds all who can be held.
    int begin() {
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

    void settle(const Cluster& c) {
        for (;;) {
            int low = LOWEST;
            for (index_t i = c.begin; i < c.end; ++i) low = std::max(low, points_[i].low);
            if (low == LOWEST || c.end - c.begin == 1) return leave(c);
            // All have one head down to `low`; a height below, those who cannot stay look on.
            const std::int32_t centre = head(c.begin);
            for (index_t i = c.begin; i < c.end; ++i)
                if (points_[i].low == low) descend(i, low - 1);
            gather(c.begin, c.end);
            if (heads_.size() > 1) return open_groups(emit(c.parent, low, centre), c.end, low - 1);
        }
    }

    void leave(const Cluster& c) {
        while (reach(c.begin) > 0) ++points_[c.begin].entry;
        const index_t v = emit(c.parent, c.parent < 0 ? 0 : c.top, head(c.begin));
        for (index_t i = c.begin; i < c.end; ++i) tree_.leaf[points_[i].id] = v;
    }

    // Points of a range by their heads, in the order in which those appear.
    void gather(index_t begin, index_t end) {
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

    void open_groups(index_t parent, index_t end, int top) {
        for (std::size_t g = heads_.size(); g-- > 0; end = first_[g]) open_.push_back({first_[g], end, parent, top});
    }

    index_t emit(index_t parent, int height, index_t centre) {
        tree_.parent.push_back(parent);
        tree_.height.push_back(height);
        tree_.centre.push_back(centre);
        return static_cast<index_t>(tree_.parent.size()) - 1;
    }

    ListsView lists_;
    Radii radii_;
    std::vector<Point> points_, sorted_;
    std::vector<index_t> group_of_;    // of a head, while a range is gathered
    std::vector<std::int32_t> heads_;  // of the groups
    std::vector<index_t> first_, next_;
    std::vector<Cluster> open_;
    Grown tree_;
};

}  // namespace kv
