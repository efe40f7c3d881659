#include "cells.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "random.hpp"

namespace kv {
namespace {

constexpr double NO_COST = 1e-300;    // the inverse of less would overflow
constexpr double OF_CLUSTERS = 0.25;  // the share of all clusters in the scores; those of cost and weight are one
constexpr index_t MOST_STEPS = 16;    // powers of two by which the costs of a cluster are told apart

struct Scores {
    const ClusteredRows& rows;
    std::vector<double> by_cluster;       // of weight one
    std::vector<double> inverse_of_mean;  // of the cost, by cluster
    double by_cost = 0;                   // of weight one and cost one

    explicit Scores(const ClusteredRows& labelled) : rows(labelled), by_cluster(rows.k, 0), inverse_of_mean(rows.k, 0) {
        std::vector<double> mass(rows.k, 0), cost(rows.k, 0);
        for (index_t i = 0; i < rows.n; ++i) {
            mass[rows.labels[i]] += weight(i);
            cost[rows.labels[i]] += weight(i) * rows.cost[i];
        }
        const double total = std::accumulate(cost.begin(), cost.end(), 0.0);
        const double all = std::accumulate(mass.begin(), mass.end(), 0.0);
        by_cost = total > NO_COST ? 1 / total : 0;
        for (index_t j = 0; j < rows.k; ++j) {
            if (mass[j] > 0) by_cluster[j] = OF_CLUSTERS / (static_cast<double>(rows.k) * mass[j]) + 1 / all;
            if (cost[j] > NO_COST) inverse_of_mean[j] = mass[j] / cost[j];
        }
    }
    // The power of two that the row's cost is of the mean of its cluster, from 0 to steps - 1.
    index_t step(index_t i, index_t steps) const {
        const double ratio = rows.cost[i] * inverse_of_mean[rows.labels[i]];
        std::int64_t bits;
        std::memcpy(&bits, &ratio, sizeof bits);
        return std::clamp<index_t>((bits >> 52) - 1023 + steps / 2, 0, steps - 1);
    }
    double weight(index_t i) const { return rows.weight ? rows.weight[i] : 1; }
    double of(index_t i) const { return weight(i) * (rows.cost[i] * by_cost + by_cluster[rows.labels[i]]); }
};

// The score from which on a row is kept as it is, if all others shall fill the rest of `cells` cells evenly.
double limit_of(const std::vector<double>& score, index_t cells) {
    double limit = std::accumulate(score.begin(), score.end(), 0.0) / static_cast<double>(cells);
    for (index_t kept = 0;;) {
        double rest = 0;
        index_t more = 0;
        for (const double s : score) rest += s < limit ? s : 0, more += s >= limit;
        // Rounding could take all of the room for rows that have nearly all of the score.
        if (more == kept || more >= cells) return limit;
        kept = more;
        limit = rest / static_cast<double>(cells - kept);
    }
}

// The cell that the rows of a group are in.
struct OpenCell {
    double score = 0;  // of the group so far
    double weight = 0;
    index_t number = -1, drawn;
};

double masked(double value, std::int64_t mask) {
    std::int64_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    bits &= mask;
    std::memcpy(&value, &bits, sizeof bits);
    return value;
}

// The rows with a weight.
DrawnRows positive(const std::vector<double>& weight) {
    const auto n = static_cast<index_t>(weight.size());
    index_t count = 0;
    for (index_t i = 0; i < n; ++i) count += weight[i] > 0;
    DrawnRows out{std::vector<index_t>(count + 1), std::vector<double>(count + 1)};
    index_t at = 0;
    for (index_t i = 0; i < n; ++i) {
        out.rows[at] = i, out.weights[at] = weight[i];
        at += weight[i] > 0;
    }
    out.rows.pop_back(), out.weights.pop_back();
    return out;
}

}  // namespace

DrawnRows draw_cells(const ClusteredRows& rows, index_t size, std::uint64_t seed) {
    const Scores scores(rows);
    const index_t steps = std::max<index_t>(1, std::min(MOST_STEPS, size / (4 * rows.k)));
    std::vector<double> score_of(rows.n);
    for (index_t i = 0; i < rows.n; ++i) score_of[i] = scores.of(i);
    const double limit = limit_of(score_of, size - rows.k * steps);
    const double cells_of_one = 1 / limit;          // of a score of one
    std::vector<double> new_weight(rows.n + 1, 0);  // the last entry is that of no row
    std::vector<OpenCell> open(rows.k * steps);
    for (OpenCell& cell : open) cell.drawn = rows.n;
    for (index_t i = 0; i < rows.n; ++i) {
        const double weight = scores.weight(i), score = score_of[i];
        if (!(weight > 0)) continue;
        if (score >= limit) {
            new_weight[i] = weight;
            continue;
        }
        // Without branches, which could not be predicted: masks are all ones or zero.
        OpenCell& cell = open[rows.labels[i] * steps + scores.step(i, steps)];
        const auto number = static_cast<index_t>((cell.score + score / 2) * cells_of_one);
        const std::int64_t same = -static_cast<std::int64_t>(number == cell.number);
        const double after = masked(cell.weight, same) + weight;
        new_weight[cell.drawn] = masked(cell.weight, ~same);  // the cell is closed, or another row is drawn, or below
        const std::int64_t take = -static_cast<std::int64_t>(uniform(seed) * after < weight);
        cell.drawn ^= (cell.drawn ^ i) & take;
        new_weight[cell.drawn] = after;
        cell.score += score, cell.weight = after, cell.number = number;
    }
    new_weight[rows.n] = 0;
    return positive(new_weight);
}

}  // namespace kv
