// Shortest paths from some points of a large graph, without a table of all distances.
//
// All methods use Dijkstra's search with limits: the search enters a node only at a distance below the node's limit.
// This loses no path if the limit grows along an edge by at most its length. The limits here do: a radius, the distance
// to the second nearest chosen point, the smallest distance so far. The argument holds for rounded sums too, because
// a + length is monotone in a and the limits are such sums themselves.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "common.hpp"

namespace kv {

// An undirected graph: every edge is stored for both its ends. Lengths are finite and not negative.
struct GraphView {
    const index_t* start;
    const std::int32_t* to;
    const double* length;
    index_t n;
};

// One list of nodes with distances per point.
struct NodeLists {
    std::vector<index_t> start;
    std::vector<std::int32_t> node;
    std::vector<double> distance;
};

struct Search;

class ShortestPaths {
public:
    explicit ShortestPaths(const GraphView& graph);
    ~ShortestPaths();
    index_t n() const { return graph_.n; }

    // Distances from `count` points to all nodes.
    void distances(const index_t* from, index_t count, double* out);
    // Distances from one point to some others.
    void among(index_t from, const index_t* to, index_t count, double* out);
    // The nodes nearer than a radius.
    NodeLists ball(const index_t* from, const double* radius, index_t count);
    void two_nearest(const index_t* chosen, index_t k, const TwoNearest<double>& out);
    // Updates `near` after the point in this slot was replaced.
    void swapped(const index_t* chosen, index_t k, label_t slot, const TwoNearest<double>& near);
    // out[i, j]: how the cost changes if candidate i replaces the point in slot j.
    void swap_changes(const index_t* candidate, index_t count, const TwoNearest<double>& near, index_t k,
                      const double* weight, double* out);
    // For every node the points that are nearer to it than all points before them in the order.
    NodeLists least_elements(const index_t* order, index_t count);

private:
    using Searches = std::vector<std::unique_ptr<Search>>;
    Searches borrow(index_t tasks, double work);
    void give_back(Searches& searches);
    template <class Body>
    void for_each(index_t tasks, double work, Body&& body);

    GraphView graph_;
    std::mutex lock_;
    Searches idle_;  // kept between calls, since their arrays are as long as the graph
};

}  // namespace kv
