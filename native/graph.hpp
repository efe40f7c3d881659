// Shortest paths from a few points of a large graph: no table of all distances is ever made.
//
// Everything is Dijkstra's search with a limit: the search enters a node only at a distance below
// the node's limit. That loses nothing where the limit grows along an edge by at most its length,
// and the limits here do (a radius, the distance to the second nearest chosen point, the smallest
// distance so far). Rounding keeps this true bit for bit, because a + length is monotone in a and
// limits are such sums themselves.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "common.hpp"

namespace kv {

// An undirected graph: every edge is stored from both its ends. Lengths are >= 0 and finite.
struct Links {
    const index_t* start;
    const std::int32_t* to;
    const double* length;
    index_t n;
};

// For every node its nearest and second nearest chosen point, see geometry/metric.py.
struct TwoLabels {
    label_t *slot, *second;
    double *cost, *second_cost;
};

// Rows of nodes with distances.
struct NodeLists {
    std::vector<index_t> start;
    std::vector<std::int32_t> node;
    std::vector<double> distance;
};

struct Search;

class Paths {
public:
    explicit Paths(const Links& links);
    ~Paths();
    index_t n() const { return g_.n; }

    void distances(const index_t* from, index_t count, double* out);
    void among(index_t from, const index_t* to, index_t count, double* out);
    NodeLists ball(const index_t* from, const double* radius, index_t count);
    void two_nearest(const index_t* chosen, index_t k, const TwoLabels& out);
    void swapped(const index_t* chosen, index_t k, label_t slot, const TwoLabels& near);
    void swap_changes(const index_t* candidate, index_t count, const TwoLabels& near, index_t k, const double* weight,
                      double* out);
    NodeLists least_elements(const index_t* order, index_t count);

private:
    using Team = std::vector<std::unique_ptr<Search>>;
    Team lend(index_t tasks, double work);
    void take_back(Team& team);
    template <class Body>
    void each(index_t tasks, double work, Body&& body);

    Links g_;
    std::mutex lock_;
    Team idle_;  // searches between calls: their arrays are as long as the graph
};

}  // namespace kv
