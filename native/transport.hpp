// Assignment of rows to clusters whose sizes have limits, as a transport problem: each row supplies a whole number of
// units, and each cluster takes at least `low` and at most `high` of them.
//
// Each cluster has a price, and a row goes to the cluster with the least cost + price. The assignment is optimal if
//     all sizes are within the limits,
//     the price of a cluster is positive only if its size is `high`, and
//     the price of a cluster is negative only if its size is `low`.
//
// Method: successive shortest paths on a graph of the k clusters and one node for slack (SLACK). The length of the arc
// from a to b is the least increase of cost + price if a row of a goes to b; the arcs between a cluster and SLACK
// change how much the cluster should take. A path from a cluster that has too much to one that has too little changes
// the prices and moves one row along each of its arcs. All rows keep their least cost + price.
//
// Few arcs: a row lists only clusters whose cost + price is at most `tau` above its least. As long as the changes of
// the prices differ by at most tau, no cluster that is not listed becomes better than the row's own, so the answer is
// that of all arcs. If a path needs larger changes, arcs are collected again at the new prices.
//
// Equal supplies are never split. Of other rows a few can be: each gets several clusters.
#pragma once

#include <functional>

#include "common.hpp"

namespace kv {

// For each block of rows: the rows that have several clusters within tau, with these clusters and their costs.
struct PricedArcs {
    struct Block {
        std::vector<index_t> row;
        std::vector<label_t> size;  // of each row's list
        std::vector<label_t> cluster;
        std::vector<double> cost;
    };
    std::vector<Block> block;
};

// Fills the arcs. If `keep` is false it also sets each label to the least cost + price, ties to the lowest index.
using CollectArcs = std::function<void(const double* price, double tau, bool keep, label_t* labels, PricedArcs&)>;

struct TransportProblem {
    index_t n, k;
    const index_t* supply;  // units of each row; null: one each
    index_t low, high;      // Pre: k * low <= all supplies <= k * high
};

// So many units of a row are in a cluster. A row without parts is in its label's cluster.
struct RowPart {
    index_t row;
    label_t cluster;
    index_t units;
};

struct TransportResult {
    std::vector<RowPart> parts;  // of split rows, by row
    double range = 0;            // by how much the changes of the prices differ
    index_t passes = 0, paths = 0;
};

// Writes prices and labels; the given prices are those to start from.
TransportResult transport(const TransportProblem&, const CollectArcs&, double tau, double* price, label_t* labels);

}  // namespace kv
