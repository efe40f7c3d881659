// See graph.hpp.
#include "graph.hpp"

#include "search.hpp"

namespace kv {
namespace {

// Two labels (cost, slot) per node, of different slots, in order; a cost of infinity is no label.
struct Labels {
    TwoLabels of;
    index_t k;

    static bool before(double d, label_t s, double e, label_t t) { return d < e || (d == e && s < t); }

    bool meet(index_t x, double d, label_t s) const {
        double &cost = of.cost[x], &next = of.second_cost[x];
        label_t &slot = of.slot[x], &second = of.second[x];
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
        return (of.slot[x] == s && of.cost[x] == d) || (of.second[x] == s && of.second_cost[x] == d);
    }
    // Slots nobody reaches x from are all infinitely far: the lowest of them, as ties go.
    void name_the_missing(index_t x) const {
        if (of.cost[x] == INF) of.slot[x] = 0;
        if (of.second_cost[x] == INF) of.second[x] = of.slot[x] == 0 && k > 1 ? 1 : 0;
    }
};

// Hands labels on until no node learns anything.
void settle(const Links& g, Search& s, const Labels& labels) {
    Stop stop{false};
    while (!s.heap.empty()) {
        const Entry top = s.heap.pop();
        const double d = distance_of(top);
        const label_t slot = slot_of(top);
        const std::int32_t x = node_of(top);
        if (!labels.holds(x, d, slot)) continue;
        if (s.stopped(stop)) throw Interrupted{};
        for (index_t e = g.start[x]; e < g.start[x + 1]; ++e) {
            const double there = d + g.length[e];
            if (labels.meet(g.to[e], there, slot)) s.heap.push(entry(there, slot, g.to[e]));
        }
    }
}

void offer(Search& s, const Labels& labels, index_t x, double d, label_t slot) {
    if (labels.meet(x, d, slot)) s.heap.push(entry(d, slot, static_cast<std::int32_t>(x)));
}

}  // namespace

Paths::Paths(const Links& links) : g_(links) {}
Paths::~Paths() = default;

Paths::Team Paths::lend(index_t tasks, double work) {
    const auto size = static_cast<std::size_t>(std::max<index_t>(1, std::min<index_t>(tasks, threads_for(work))));
    Team team;
    {
        const std::lock_guard<std::mutex> hold(lock_);
        for (; team.size() < size && !idle_.empty(); idle_.pop_back()) team.push_back(std::move(idle_.back()));
    }
    while (team.size() < size) team.push_back(std::make_unique<Search>(g_.n));
    for (auto& s : team) s->polls = false;
    team[0]->polls = true;
    return team;
}

// Only after a call that went well: what an interrupted search leaves is thrown away.
void Paths::take_back(Team& team) {
    const std::lock_guard<std::mutex> hold(lock_);
    for (auto& s : team) idle_.push_back(std::move(s));
}

// body(task, search, stop), many at once. Exceptions may not leave a parallel loop on their own.
template <class Body>
void Paths::each(index_t tasks, double work, Body&& body) {
    Team team = lend(tasks, work);
    Stop stop{false}, full{false};
    parallel(tasks, team, [&](index_t task, std::unique_ptr<Search>& s) {
        if (stop) return;
        try {
            body(task, *s, stop);
        } catch (const std::bad_alloc&) {
            full = stop = true;
        }
    });
    if (full) throw std::bad_alloc();
    if (stop) throw Interrupted{};
    take_back(team);
}

void Paths::distances(const index_t* from, index_t count, double* out) {
    each(count, 50.0 * static_cast<double>(g_.n * count), [&](index_t i, Search& s, Stop& stop) {
        double* row = out + i * g_.n;
        std::fill(row, row + g_.n, INF);
        reach(g_, s, row, stop, from[i], everywhere, [](index_t, double) { return true; });
        s.touched.clear();
    });
}

void Paths::among(index_t from, const index_t* to, index_t count, double* out) {
    std::vector<bool> wanted(static_cast<std::size_t>(g_.n));
    index_t left = 0;
    for (index_t i = 0; i < count; ++i) {
        left += !wanted[static_cast<std::size_t>(to[i])];
        wanted[static_cast<std::size_t>(to[i])] = true;
    }
    if (!left) return;
    each(1, 0.0, [&](index_t, Search& s, Stop& stop) {
        reach(g_, s, s.distance.data(), stop, from, everywhere,
              [&](index_t x, double) { return !(wanted[static_cast<std::size_t>(x)] && --left == 0); });
        for (index_t i = 0; i < count; ++i) out[i] = s.distance[static_cast<std::size_t>(to[i])];
        s.forget();
    });
}

NodeLists Paths::ball(const index_t* from, const double* radius, index_t count) {
    struct Ball {
        std::vector<std::int32_t> node;
        std::vector<double> distance;
    };
    std::vector<Ball> balls(static_cast<std::size_t>(count));
    each(count, 50.0 * static_cast<double>(g_.n * count), [&](index_t i, Search& s, Stop& stop) {
        Ball& b = balls[static_cast<std::size_t>(i)];
        reach(g_, s, s.distance.data(), stop, from[i], [r = radius[i]](index_t) { return r; },
              [&](std::int32_t x, double d) {
                  b.node.push_back(x), b.distance.push_back(d);
                  return true;
              });
        s.forget();
    });
    NodeLists out;
    out.start.push_back(0);
    for (const Ball& b : balls) out.start.push_back(out.start.back() + static_cast<index_t>(b.node.size()));
    out.node.reserve(static_cast<std::size_t>(out.start.back()));
    out.distance.reserve(static_cast<std::size_t>(out.start.back()));
    for (Ball& b : balls) {
        out.node.insert(out.node.end(), b.node.begin(), b.node.end());
        out.distance.insert(out.distance.end(), b.distance.begin(), b.distance.end());
        b = {};
    }
    return out;
}

// One search from all chosen points at once. A node hands on its best two labels only: a third
// slot at x cannot be among the best two of a neighbour that x's own two reach as well.
void Paths::two_nearest(const index_t* chosen, index_t k, const TwoLabels& out) {
    const Labels labels{out, k};
    std::fill(out.cost, out.cost + g_.n, INF);
    std::fill(out.second_cost, out.second_cost + g_.n, INF);
    Team team = lend(1, 0.0);
    Search& s = *team[0];
    for (index_t j = 0; j < k; ++j) offer(s, labels, chosen[j], 0.0, static_cast<label_t>(j));
    settle(g_, s, labels);
    for (index_t x = 0; x < g_.n; ++x) labels.name_the_missing(x);
    take_back(team);
}

// The old medoid's labels are struck out. What is left is right for the other slots, but too short
// where something was struck: those nodes are offered what their neighbours know, and what the
// chosen among them are. Then labels settle as in two_nearest, the new medoid's among them.
void Paths::swapped(const index_t* chosen, index_t k, label_t slot, const TwoLabels& near) {
    const Labels labels{near, k};
    Team team = lend(1, 0.0);
    Search& s = *team[0];
    std::vector<std::int32_t> bare;
    for (index_t x = 0; x < g_.n; ++x) {
        if (near.slot[x] != slot && near.second[x] != slot) continue;
        if (near.slot[x] == slot) near.slot[x] = near.second[x], near.cost[x] = near.second_cost[x];
        near.second_cost[x] = INF;
        bare.push_back(static_cast<std::int32_t>(x));
    }
    for (const std::int32_t x : bare) {
        for (index_t e = g_.start[x]; e < g_.start[x + 1]; ++e) {
            const std::int32_t y = g_.to[e];
            offer(s, labels, x, near.cost[y] + g_.length[e], near.slot[y]);
            offer(s, labels, x, near.second_cost[y] + g_.length[e], near.second[y]);
        }
    }
    for (index_t j = 0; j < k; ++j) offer(s, labels, chosen[j], 0.0, static_cast<label_t>(j));
    settle(g_, s, labels);
    for (index_t x = 0; x < g_.n; ++x) labels.name_the_missing(x);
    take_back(team);
}

// Costs are pairs, compared in order: how many points of positive weight nothing reaches, and the
// weighted sum over the others. A swap that changes the first is worth plus or minus infinity.
//
// change(c, m) = sum over m's points of w (second - cost)                      [m goes]
//              + sum over the nodes c reaches of w min(d - cost, 0)            [c comes]
//              + sum over m's points c reaches of w (max(d, cost) - second)    [to c, not to the second]
// A search from c need not enter x at a distance of second_cost(x) or more.
void Paths::swap_changes(const index_t* candidate, index_t count, const TwoLabels& near, index_t k,
                         const double* weight, double* out) {
    std::vector<double> gone(static_cast<std::size_t>(k), 0.0);
    std::vector<index_t> alone(static_cast<std::size_t>(k), 0);
    const auto w = [&](index_t x) { return weight ? weight[x] : 1.0; };
    for (index_t x = 0; x < g_.n; ++x) {
        if (!(w(x) > 0.0) || near.cost[x] == INF) continue;
        const auto m = static_cast<std::size_t>(near.slot[x]);
        const bool only = near.second_cost[x] == INF;
        alone[m] += only;
        gone[m] += w(x) * ((only ? 0.0 : near.second_cost[x]) - near.cost[x]);
    }
    const double work = 200.0 * static_cast<double>(g_.n) / static_cast<double>(k) * static_cast<double>(count);
    each(count, work, [&](index_t i, Search& s, Stop& stop) {
        double comes = 0.0;
        index_t gained = 0;
        s.sum.assign(static_cast<std::size_t>(k), 0.0);
        s.saved.assign(static_cast<std::size_t>(k), 0);
        reach(g_, s, s.distance.data(), stop, candidate[i], [&](index_t x) { return near.second_cost[x]; },
              [&](index_t x, double d) {
                  if (!(w(x) > 0.0)) return true;
                  const double cost = near.cost[x], second = near.second_cost[x];
                  if (cost == INF) {
                      ++gained;
                      comes += w(x) * d;
                      return true;
                  }
                  const auto m = static_cast<std::size_t>(near.slot[x]);
                  if (d < cost) comes += w(x) * (d - cost);
                  s.saved[m] += second == INF;
                  s.sum[m] += w(x) * (std::max(d, cost) - (second == INF ? 0.0 : second));
                  return true;
              });
        s.forget();
        for (index_t j = 0; j < k; ++j) {
            const auto m = static_cast<std::size_t>(j);
            const index_t lost = alone[m] - s.saved[m] - gained;
            out[i * k + j] = lost > 0 ? INF : lost < 0 ? -INF : gone[m] + comes + s.sum[m];
        }
    });
}

// Cohen's lists: a point enters the list of every node to which it is nearer than all points before
// it in the order. Found points are kept in the order of finding, then sorted by node.
NodeLists Paths::least_elements(const index_t* order, index_t count) {
    struct Found {
        std::int32_t node, point;
        double distance;
    };
    constexpr std::size_t CHUNK_OF_FOUND = std::size_t{1} << 18;
    std::vector<std::vector<Found>> found(1);
    std::vector<double> least(static_cast<std::size_t>(g_.n), INF);
    NodeLists out;
    out.start.assign(static_cast<std::size_t>(g_.n) + 1, 0);
    Team team = lend(1, 0.0);
    Search& s = *team[0];
    Stop stop{false};
    for (index_t i = 0; i < count; ++i) {
        const auto point = static_cast<std::int32_t>(order[i]);
        reach(g_, s, s.distance.data(), stop, point, [&](index_t x) { return least[static_cast<std::size_t>(x)]; },
              [&](std::int32_t x, double d) {
                  least[static_cast<std::size_t>(x)] = d;
                  ++out.start[static_cast<std::size_t>(x) + 1];
                  if (found.back().size() == CHUNK_OF_FOUND) found.emplace_back();
                  if (found.back().empty()) found.back().reserve(CHUNK_OF_FOUND);
                  found.back().push_back({x, point, d});
                  return true;
              });
        s.forget();
        if (stop) throw Interrupted{};
    }
    take_back(team);
    for (std::size_t x = 1; x < out.start.size(); ++x) out.start[x] += out.start[x - 1];
    out.node.resize(static_cast<std::size_t>(out.start.back()));
    out.distance.resize(static_cast<std::size_t>(out.start.back()));
    std::vector<index_t> next(out.start.begin(), out.start.end() - 1);
    for (auto& chunk : found) {
        for (const Found& f : chunk) {
            const auto at = static_cast<std::size_t>(next[static_cast<std::size_t>(f.node)]++);
            out.node[at] = f.point, out.distance[at] = f.distance;
        }
        chunk = {};
    }
    return out;
}

}  // namespace kv
