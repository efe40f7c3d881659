// Successive shortest paths between clusters (see transport.hpp). Compiled once: it compares and adds float64 values,
// with the same bits on every machine.
#include "transport.hpp"

#include <cmath>
#include <stdexcept>
#include <unordered_map>

namespace kv {
namespace {

constexpr double INFINITE = std::numeric_limits<double>::infinity();
constexpr double WIDER = 4;         // tau grows by this factor if the arcs were too few
constexpr index_t MAX_PASSES = 60;  // then all arcs are collected

// A row that can go along an arc, and how much its cost changes. Ties go to the lowest slot.
struct Entry {
    double change;
    std::int32_t slot;
    bool operator<(const Entry& other) const {  // the heap's first is the least
        return change != other.change ? change > other.change : slot > other.slot;
    }
};

struct Arc {
    label_t to;
    double least = INFINITE;  // change of the heap's first
    std::vector<Entry> heap;
};

struct Part {
    label_t cluster;
    index_t units;
};

// A node that a search has reached: over a cluster's arc, or between a cluster and SLACK.
struct Reached {
    index_t search = 0;  // the number of the search
    double distance = 0;
    label_t from = -1;
    bool settled = false;
};

class Solver {
public:
    Solver(const TransportProblem& problem, double* price, label_t* labels)
        : p_(problem),
          price_(price),
          labels_(labels),
          slack_(static_cast<label_t>(problem.k)),
          arcs_(p_.k),
          potential_(p_.k + 1),
          flow_(p_.k),
          excess_(p_.k + 1),
          reached_(p_.k + 1) {}

    TransportResult run(const CollectArcs& collect, double tau) {
        const std::vector<double> first(price_, price_ + p_.k);
        TransportResult out;
        PricedArcs arcs;
        for (bool keep = false;; keep = true) {
            if (out.passes++ == MAX_PASSES) tau = INFINITE;
            collect(price_, tau, keep, labels_, arcs);
            if (!keep) count_sizes();
            build(arcs);
            const index_t before = excess_units();
            out.paths += find_paths(tau);
            store_prices();
            const index_t left = excess_units();
            if (left == 0) break;
            if (tau == INFINITE) throw std::invalid_argument("costs and prices must be finite");
            if (before - left < left) tau *= WIDER;
        }
        out.range = range_of(first);
        out.parts = parts();
        return out;
    }

private:
    const TransportProblem p_;
    double* price_;
    label_t* labels_;
    const label_t slack_;
    // Rows with several clusters, each in a slot; its list is start_[slot] to start_[slot + 1].
    std::vector<index_t> row_, start_;
    std::vector<label_t> cluster_;
    std::vector<double> cost_;
    std::vector<std::vector<Arc>> arcs_;  // of each cluster, by `to`
    std::unordered_map<index_t, std::vector<Part>> split_;
    // Potentials: price of a cluster plus that of SLACK. They only rise between two collections.
    std::vector<double> potential_, before_;
    double least_rise_ = 0;        // at most the least rise of a cluster's potential
    std::vector<index_t> flow_;    // what each cluster should take
    std::vector<index_t> excess_;  // what it has beyond that; of SLACK: all flows minus all supplies
    std::vector<Reached> reached_;
    std::vector<label_t> settled_;
    index_t search_ = 0;

    index_t supply(index_t row) const { return p_.supply ? p_.supply[row] : 1; }

    void count_sizes() {
        std::vector<index_t> size(p_.k, 0);
        for (index_t i = 0; i < p_.n; ++i) size[labels_[i]] += supply(i);
        excess_[slack_] = 0;
        for (index_t j = 0; j < p_.k; ++j) {
            flow_[j] = price_[j] > 0 ? p_.high : price_[j] < 0 ? p_.low : std::clamp(size[j], p_.low, p_.high);
            excess_[j] = size[j] - flow_[j];
            excess_[slack_] -= excess_[j];
        }
    }

    index_t excess_units() const {
        index_t sum = 0;
        for (index_t e : excess_) sum += std::max<index_t>(e, 0);
        return sum;
    }

    // ---- arcs ----

    Arc& arc(label_t a, label_t b) {
        std::vector<Arc>& list = arcs_[a];
        const auto at = std::lower_bound(list.begin(), list.end(), b, [](const Arc& x, label_t j) { return x.to < j; });
        if (at != list.end() && at->to == b) return *at;
        return *list.insert(at, Arc{b, INFINITE, {}});
    }
    const std::vector<Part>* parts_of(index_t row) const {
        if (split_.empty()) return nullptr;
        const auto at = split_.find(row);
        return at == split_.end() ? nullptr : &at->second;
    }
    index_t units_in(index_t row, label_t a) const {
        if (const std::vector<Part>* parts = parts_of(row)) {
            for (const Part& part : *parts)
                if (part.cluster == a) return part.units;
            return 0;
        }
        return labels_[row] == a ? supply(row) : 0;
    }
    // Calls visit(arc, entry) for all that the row of a slot could do from cluster a.
    template <class Visit>
    void for_arcs_from(std::int32_t slot, label_t a, Visit&& visit) {
        double own = INFINITE;
        for (index_t e = start_[slot]; e < start_[slot + 1]; ++e)
            if (cluster_[e] == a) own = cost_[e];
        if (own == INFINITE) return;
        for (index_t e = start_[slot]; e < start_[slot + 1]; ++e)
            if (cluster_[e] != a) visit(arc(a, cluster_[e]), Entry{cost_[e] - own, slot});
    }

    void build(const PricedArcs& arcs) {
        row_.clear(), start_.assign(1, 0), cluster_.clear(), cost_.clear();
        for (const auto& block : arcs.block) {
            row_.insert(row_.end(), block.row.begin(), block.row.end());
            for (label_t size : block.size) start_.push_back(start_.back() + size);
            cluster_.insert(cluster_.end(), block.cluster.begin(), block.cluster.end());
            cost_.insert(cost_.end(), block.cost.begin(), block.cost.end());
        }
        for (auto& list : arcs_) list.clear();
        const auto add = [](Arc& to, Entry entry) { to.heap.push_back(entry); };
        for (std::int32_t slot = 0; slot < static_cast<std::int32_t>(row_.size()); ++slot)
            if (const std::vector<Part>* parts = parts_of(row_[slot]))
                for (const Part& part : *parts) for_arcs_from(slot, part.cluster, add);
            else
                for_arcs_from(slot, labels_[row_[slot]], add);
        for (auto& list : arcs_)
            for (Arc& to : list) {
                std::make_heap(to.heap.begin(), to.heap.end());
                to.least = to.heap.front().change;
            }
        std::copy(price_, price_ + p_.k, potential_.begin());
        potential_[slack_] = 0;
        before_ = potential_;
        least_rise_ = 0;
    }

    // Removes rows that are no longer in cluster a from the fronts of its heaps.
    void clean(label_t a) {
        for (Arc& to : arcs_[a]) {
            while (!to.heap.empty() && units_in(row_[to.heap.front().slot], a) == 0) {
                std::pop_heap(to.heap.begin(), to.heap.end());
                to.heap.pop_back();
            }
            to.least = to.heap.empty() ? INFINITE : to.heap.front().change;
        }
    }

    // ---- shortest paths ----

    using Place = std::pair<double, label_t>;  // distance and node
    std::vector<Place> queue_;                 // a heap: the nearest first

    void enqueue(double distance, label_t node) {
        queue_.push_back({distance, node});
        std::push_heap(queue_.begin(), queue_.end(), std::greater<Place>());
    }
    Place dequeue() {
        std::pop_heap(queue_.begin(), queue_.end(), std::greater<Place>());
        const Place first = queue_.back();
        queue_.pop_back();
        return first;
    }

    void offer(label_t from, label_t to, double length) {
        Reached& r = reached_[to];
        const double distance = reached_[from].distance + std::max(length, 0.0);  // below zero only by rounding
        if (r.search == search_ && r.distance <= distance) return;
        r = {search_, distance, from, false};
        enqueue(distance, to);
    }
    void offer_from(label_t a) {
        if (a == slack_) {
            for (label_t b = 0; b < slack_; ++b)
                if (flow_[b] > p_.low) offer(a, b, potential_[b] - potential_[a]);
            return;
        }
        for (const Arc& to : arcs_[a])
            if (to.least < INFINITE) offer(a, to.to, to.least + (potential_[to.to] - potential_[a]));
        if (flow_[a] < p_.high) offer(a, slack_, potential_[slack_] - potential_[a]);
    }
    // Returns the nearest node that has too little, or -1.
    label_t nearest_deficit(label_t source) {
        ++search_;
        settled_.clear();
        queue_.clear();
        reached_[source] = {search_, 0, -1, false};
        enqueue(0, source);
        while (!queue_.empty()) {
            const auto [distance, a] = dequeue();
            Reached& r = reached_[a];
            if (r.settled || distance > r.distance) continue;
            r.settled = true;
            settled_.push_back(a);
            if (excess_[a] < 0) return a;
            offer_from(a);
        }
        return -1;
    }

    double rise(label_t a) const { return potential_[a] - before_[a]; }
    // Raises the potentials of the settled nodes so that the path has length zero. Returns false, and changes nothing,
    // if the changes of the prices would differ by more than tau.
    bool raise(double distance, double tau) {
        double most = 0;
        for (label_t a : settled_)
            if (a != slack_) most = std::max(most, rise(a) + (distance - reached_[a].distance));
        const auto fits = [&] { return most - least_rise_ <= tau; };
        if (!fits()) {
            least_rise_ = INFINITE;
            for (label_t a = 0; a < slack_; ++a) least_rise_ = std::min(least_rise_, rise(a));
            if (!fits()) return false;
        }
        for (label_t a : settled_) potential_[a] += distance - reached_[a].distance;
        return true;
    }

    index_t units_on(label_t a, label_t b) {
        if (a == slack_) return flow_[b] - p_.low;
        if (b == slack_) return p_.high - flow_[a];
        return units_in(row_[arc(a, b).heap.front().slot], a);
    }
    void push(label_t a, label_t b, index_t units) {
        if (a == slack_)
            flow_[b] -= units;
        else if (b == slack_)
            flow_[a] += units;
        else
            move(arc(a, b).heap.front().slot, a, b, units);
    }
    void move(std::int32_t slot, label_t a, label_t b, index_t units) {
        const index_t row = row_[slot];
        const bool fresh = units_in(row, b) == 0;
        if (!parts_of(row) && units == supply(row))
            labels_[row] = b;
        else
            move_part(row, a, b, units);
        if (fresh)
            for_arcs_from(slot, b, [](Arc& to, Entry entry) {
                to.heap.push_back(entry);
                std::push_heap(to.heap.begin(), to.heap.end());
                to.least = to.heap.front().change;
            });
        clean(a);
    }
    void move_part(index_t row, label_t a, label_t b, index_t units) {
        std::vector<Part>& parts = split_[row];
        if (parts.empty()) parts.push_back({labels_[row], supply(row)});
        const auto in = [&](label_t j) {
            return std::find_if(parts.begin(), parts.end(), [&](const Part& x) { return x.cluster == j; });
        };
        if (in(b) == parts.end()) parts.push_back({b, 0});
        in(b)->units += units;
        in(a)->units -= units;
        if (in(a)->units == 0) parts.erase(in(a));
        const auto most = std::max_element(parts.begin(), parts.end(),
                                           [](const Part& x, const Part& y) { return x.units < y.units; });
        labels_[row] = most->cluster;
        if (parts.size() == 1) split_.erase(row);
    }

    // Moves what is possible from `source` within tau. Returns how many paths it took.
    index_t drain(label_t source, double tau) {
        index_t count = 0;
        for (; excess_[source] > 0; ++count) {
            const label_t target = nearest_deficit(source);
            if (target < 0 || !raise(reached_[target].distance, tau)) return count;
            index_t units = std::min(excess_[source], -excess_[target]);
            for (label_t b = target; b != source; b = reached_[b].from)
                units = std::min(units, units_on(reached_[b].from, b));
            for (label_t b = target; b != source; b = reached_[b].from) push(reached_[b].from, b, units);
            excess_[source] -= units, excess_[target] += units;
            if (user_wants_to_stop && user_wants_to_stop()) throw Interrupted{};
        }
        return count;
    }
    index_t find_paths(double tau) {
        index_t count = 0;
        for (label_t a = 0; a <= slack_; ++a) count += drain(a, tau);
        return count;
    }

    // ---- results ----

    // Rounding must not give a price to a cluster that is not at the limit which the price stands for.
    void store_prices() {
        for (label_t a = 0; a < slack_; ++a) {
            const double price = potential_[a] - potential_[slack_];
            const bool positive = flow_[a] == p_.high, negative = flow_[a] == p_.low;
            price_[a] = (price > 0 && positive) || (price < 0 && negative) ? price : 0.0;
        }
    }
    double range_of(const std::vector<double>& first) const {
        double least = INFINITE, most = -INFINITE;
        for (label_t a = 0; a < slack_; ++a)
            least = std::min(least, price_[a] - first[a]), most = std::max(most, price_[a] - first[a]);
        return most - least;
    }
    std::vector<RowPart> parts() const {
        std::vector<RowPart> out;
        for (const auto& [row, parts] : split_)
            for (const Part& part : parts) out.push_back({row, part.cluster, part.units});
        std::sort(out.begin(), out.end(), [](const RowPart& x, const RowPart& y) {
            return x.row != y.row ? x.row < y.row : x.cluster < y.cluster;
        });
        return out;
    }
};

}  // namespace

TransportResult transport(const TransportProblem& problem, const CollectArcs& collect, double tau, double* price,
                          label_t* labels) {
    return Solver(problem, price, labels).run(collect, tau);
}

}  // namespace kv
