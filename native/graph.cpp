// The methods of graph.hpp.
#include "graph.hpp"

#include "dijkstra.hpp"

namespace kv {
namespace {

// Two labels (cost, slot) per node, of different slots and in order. A cost of infinity means that there is none.
struct NodeLabels {
    TwoNearest<double> of;
    index_t k;

    static bool before(double d, label_t s, double e, label_t t) { return d < e || (d == e && s < t); }

    // Inserts a label if it is one of the best two of node x. Returns whether anything changed.
    bool insert(index_t x, double d, label_t s) const {
        double &cost = of.cost[x], &next = of.second_cost[x];
        label_t &slot = of.labels[x], &second = of.second[x];
        if (!(d <= next) || d == INF) return false;
        const bool first = cost < INF;
        if (first && s == slot) {
            if (!(d < cost)) return false;
            cost = d;
        } else if (!first || before(d, s, cost, slot)) {
            next = cost, second = slot;
            cost = d, slot = s;
        } else {
            if (next < INF && !before(d, s, next, second)) return false;
            next = d, second = s;
        }
        return true;
    }
    bool holds(index_t x, double d, label_t s) const {
        return (of.labels[x] == s && of.cost[x] == d) || (of.second[x] == s && of.second_cost[x] == d);
    }
    // All slots from which x is not reached are infinitely far: the lowest is chosen, as with other ties.
    void fill_missing(index_t x) const {
        if (of.cost[x] == INF) of.labels[x] = 0;
        if (of.second_cost[x] == INF) of.second[x] = of.labels[x] == 0 && k > 1 ? 1 : 0;
    }
};

void offer(Search& s, const NodeLabels& labels, index_t x, double d, label_t slot) {
    if (labels.insert(x, d, slot)) s.heap.push(entry(d, slot, static_cast<std::int32_t>(x)));
}

// Offers the chosen points to themselves, then passes labels on to neighbours until none changes. A node passes on only
// its best two: a third slot at x cannot be among the best two of a neighbour, which the two of x reach as well.
void propagate(const GraphView& g, Search& s, const NodeLabels& labels, const index_t* chosen) {
    Stop stop{false};
    for (index_t j = 0; j < labels.k; ++j) offer(s, labels, chosen[j], 0.0, static_cast<label_t>(j));
    while (!s.heap.empty()) {
        const Entry top = s.heap.pop();
        const double d = distance_of(top);
        const label_t slot = slot_of(top);
        const std::int32_t x = node_of(top);
        if (!labels.holds(x, d, slot)) continue;
        if (s.should_stop(stop)) throw Interrupted{};
        for (index_t e = g.start[x]; e < g.start[x + 1]; ++e) offer(s, labels, g.to[e], d + g.length[e], slot);
    }
    for (index_t x = 0; x < g.n; ++x) labels.fill_missing(x);
}

}  // namespace

ShortestPaths::ShortestPaths(const GraphView& graph) : graph_(graph) {}
ShortestPaths::~ShortestPaths() = default;

ShortestPaths::Searches ShortestPaths::borrow(index_t tasks, double work) {
    const auto size = static_cast<std::size_t>(std::max<index_t>(1, std::min<index_t>(tasks, threads_for(work))));
    Searches searches;
    {
        const std::lock_guard<std::mutex> lock(lock_);
        for (; searches.size() < size && !idle_.empty(); idle_.pop_back()) searches.push_back(std::move(idle_.back()));
    }
    while (searches.size() < size) searches.push_back(std::make_unique<Search>(graph_.n));
    for (auto& s : searches) s->polls = false;
    searches[0]->polls = true;
    return searches;
}

// Called only after a success: the arrays of an interrupted search are not reset.
void ShortestPaths::give_back(Searches& searches) {
    const std::lock_guard<std::mutex> lock(lock_);
    for (auto& s : searches) idle_.push_back(std::move(s));
}

// Calls body(task, search, stop) in parallel.
template <class Body>
void ShortestPaths::for_each(index_t tasks, double work, Body&& body) {
    Searches searches = borrow(tasks, work);
    Stop stop{false};
    parallel(tasks, searches, [&](index_t task, std::unique_ptr<Search>& s) {
        if (!stop) body(task, *s, stop);
    });
    if (stop) throw Interrupted{};
    give_back(searches);
}

void ShortestPaths::distances(const index_t* from, index_t count, double* out) {
    for_each(count, 50.0 * static_cast<double>(graph_.n * count), [&](index_t i, Search& s, Stop& stop) {
        double* row = out + i * graph_.n;
        std::fill(row, row + graph_.n, INF);
        dijkstra(graph_, s, row, stop, from[i], no_limit, [](index_t, double) { return true; });
        s.touched.clear();
    });
}

void ShortestPaths::among(index_t from, const index_t* to, index_t count, double* out) {
    std::vector<bool> wanted(graph_.n);
    index_t left = 0;
    for (index_t i = 0; i < count; ++i) {
        left += !wanted[to[i]];
        wanted[to[i]] = true;
    }
    if (!left) return;
    for_each(1, 0.0, [&](index_t, Search& s, Stop& stop) {
        dijkstra(graph_, s, s.distance.data(), stop, from, no_limit,
                 [&](index_t x, double) { return !(wanted[x] && --left == 0); });
        for (index_t i = 0; i < count; ++i) out[i] = s.distance[to[i]];
        s.reset();
    });
}

NodeLists ShortestPaths::ball(const index_t* from, const double* radius, index_t count) {
    struct Ball {
        std::vector<std::int32_t> node;
        std::vector<double> distance;
    };
    std::vector<Ball> balls(count);
    for_each(count, 50.0 * static_cast<double>(graph_.n * count), [&](index_t i, Search& s, Stop& stop) {
        Ball& b = balls[i];
        dijkstra(
            graph_, s, s.distance.data(), stop, from[i], [r = radius[i]](index_t) { return r; },
            [&](std::int32_t x, double d) {
                b.node.push_back(x), b.distance.push_back(d);
                return true;
            });
        s.reset();
    });
    NodeLists out;
    out.start.push_back(0);
    for (const Ball& b : balls) out.start.push_back(out.start.back() + static_cast<index_t>(b.node.size()));
    out.node.reserve(out.start.back());
    out.distance.reserve(out.start.back());
    for (Ball& b : balls) {
        out.node.insert(out.node.end(), b.node.begin(), b.node.end());
        out.distance.insert(out.distance.end(), b.distance.begin(), b.distance.end());
        b = {};
    }
    return out;
}

// One search from all chosen points at once.
void ShortestPaths::two_nearest(const index_t* chosen, index_t k, const TwoNearest<double>& out) {
    const NodeLabels labels{out, k};
    std::fill(out.cost, out.cost + graph_.n, INF);
    std::fill(out.second_cost, out.second_cost + graph_.n, INF);
    Searches searches = borrow(1, 0.0);
    propagate(graph_, *searches[0], labels, chosen);
    give_back(searches);
}

// Removes the labels of the old point in this slot. Nodes that lost a label are offered those of their neighbours; then
// labels are propagated as in two_nearest, with those of the new point.
void ShortestPaths::swapped(const index_t* chosen, index_t k, label_t slot, const TwoNearest<double>& near) {
    const NodeLabels labels{near, k};
    Searches searches = borrow(1, 0.0);
    Search& s = *searches[0];
    std::vector<std::int32_t> cleared;
    for (index_t x = 0; x < graph_.n; ++x) {
        if (near.labels[x] != slot && near.second[x] != slot) continue;
        if (near.labels[x] == slot) near.labels[x] = near.second[x], near.cost[x] = near.second_cost[x];
        near.second_cost[x] = INF;
        cleared.push_back(static_cast<std::int32_t>(x));
    }
    for (const std::int32_t x : cleared) {
        for (index_t e = graph_.start[x]; e < graph_.start[x + 1]; ++e) {
            const std::int32_t y = graph_.to[e];
            offer(s, labels, x, near.cost[y] + graph_.length[e], near.labels[y]);
            offer(s, labels, x, near.second_cost[y] + graph_.length[e], near.second[y]);
        }
    }
    propagate(graph_, s, labels, chosen);
    give_back(searches);
}

// A cost is a pair: the number of points of positive weight that nothing reaches, and the weighted sum over the others.
// A swap that changes the number changes the cost by plus or minus infinity.
//
// change(c, m) = sum over m's points of w (second - cost)                      [m is removed]
//              + sum over the nodes c reaches of w min(d - cost, 0)            [c is added]
//              + sum over m's points c reaches of w (max(d, cost) - second)    [they go to c, not to the second]
// A search from c need not enter x at a distance of second_cost(x) or more.
void ShortestPaths::swap_changes(const index_t* candidate, index_t count, const TwoNearest<double>& near, index_t k,
                                 const double* weight, double* out) {
    std::vector<double> removal(k, 0.0);
    std::vector<index_t> unreached(k, 0);
    const auto w = [&](index_t x) { return weight ? weight[x] : 1.0; };
    for (index_t x = 0; x < graph_.n; ++x) {
        if (!(w(x) > 0.0) || near.cost[x] == INF) continue;
        const label_t m = near.labels[x];
        const bool unreachable = near.second_cost[x] == INF;
        unreached[m] += unreachable;
        removal[m] += w(x) * ((unreachable ? 0.0 : near.second_cost[x]) - near.cost[x]);
    }
    const double work = 200.0 * static_cast<double>(graph_.n) / static_cast<double>(k) * static_cast<double>(count);
    for_each(count, work, [&](index_t i, Search& s, Stop& stop) {
        double addition = 0.0;
        index_t gained = 0;
        s.sum.assign(k, 0.0);
        s.rescued.assign(k, 0);
        dijkstra(
            graph_, s, s.distance.data(), stop, candidate[i], [&](index_t x) { return near.second_cost[x]; },
            [&](index_t x, double d) {
                if (!(w(x) > 0.0)) return true;
                const double cost = near.cost[x], second = near.second_cost[x];
                if (cost == INF) {
                    ++gained;
                    addition += w(x) * d;
                    return true;
                }
                const label_t m = near.labels[x];
                if (d < cost) addition += w(x) * (d - cost);
                s.rescued[m] += second == INF;
                s.sum[m] += w(x) * (std::max(d, cost) - (second == INF ? 0.0 : second));
                return true;
            });
        s.reset();
        for (index_t j = 0; j < k; ++j) {
            const index_t lost = unreached[j] - s.rescued[j] - gained;
            out[i * k + j] = lost > 0 ? INF : lost < 0 ? -INF : removal[j] + addition + s.sum[j];
        }
    });
}

// Cohen's least-element lists. Points are collected in the order in which they are found, then sorted by node.
NodeLists ShortestPaths::least_elements(const index_t* order, index_t count) {
    struct Entered {
        std::int32_t node, point;
        double distance;
    };
    constexpr std::size_t CHUNK_SIZE = std::size_t{1} << 18;
    std::vector<std::vector<Entered>> found(1);
    std::vector<double> least(graph_.n, INF);
    NodeLists out;
    out.start.assign(graph_.n + 1, 0);
    Searches searches = borrow(1, 0.0);
    Search& s = *searches[0];
    Stop stop{false};
    for (index_t i = 0; i < count; ++i) {
        const auto point = static_cast<std::int32_t>(order[i]);
        dijkstra(
            graph_, s, s.distance.data(), stop, point, [&](index_t x) { return least[x]; },
            [&](std::int32_t x, double d) {
                least[x] = d;
                ++out.start[x + 1];
                if (found.back().size() == CHUNK_SIZE) found.emplace_back();
                if (found.back().empty()) found.back().reserve(CHUNK_SIZE);
                found.back().push_back({x, point, d});
                return true;
            });
        s.reset();
        if (stop) throw Interrupted{};
    }
    give_back(searches);
    for (std::size_t x = 1; x < out.start.size(); ++x) out.start[x] += out.start[x - 1];
    out.node.resize(out.start.back());
    out.distance.resize(out.start.back());
    std::vector<index_t> next(out.start.begin(), out.start.end() - 1);
    for (auto& chunk : found) {
        for (const Entered& f : chunk) {
            const index_t at = next[f.node]++;
            out.node[at] = f.point, out.distance[at] = f.distance;
        }
        chunk = {};
    }
    return out;
}

}  // namespace kv
