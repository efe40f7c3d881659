// Dijkstra's search: the heap, what a thread keeps between searches, and the loop.
#pragma once

#include <bit>
#include <limits>

#include "graph.hpp"

namespace kv {

constexpr double INF = std::numeric_limits<double>::infinity();
constexpr unsigned POLL = 1u << 15;  // visited nodes between two checks for an interrupt

using Stop = std::atomic<bool>;

// Distance, slot and node in one number. All entries differ, so that the order of the heap is unique. Non-negative
// doubles are ordered like their bits.
using Entry = unsigned __int128;

inline Entry entry(double d, label_t slot, std::int32_t node) {
    const std::uint64_t low =
        static_cast<std::uint64_t>(static_cast<std::uint32_t>(slot)) << 32 | static_cast<std::uint32_t>(node);
    return static_cast<Entry>(std::bit_cast<std::uint64_t>(d)) << 64 | low;
}
inline double distance_of(Entry e) { return std::bit_cast<double>(static_cast<std::uint64_t>(e >> 64)); }
inline label_t slot_of(Entry e) { return static_cast<label_t>(static_cast<std::uint64_t>(e) >> 32); }
inline std::int32_t node_of(Entry e) { return static_cast<std::int32_t>(static_cast<std::uint32_t>(e)); }

// A heap whose entries have four children, in one cache line: the root is at 3, the children of p start at 4p - 8.
// Entries past the end are LAST, so that the smallest of four needs no count.
class Heap {
public:
    bool empty() const { return end_ == ROOT; }
    void clear() {
        while (end_ > ROOT) at_[--end_] = LAST;
    }
    void push(Entry e) {
        if (end_ + 4 > at_.size()) at_.resize(std::max<std::size_t>(1024, 2 * at_.size()), LAST);
        sift_up(end_++, e);
    }
    Entry pop() {
        Entry* a = at_.data();
        const Entry top = a[ROOT], last = a[--end_];
        a[end_] = LAST;
        if (end_ == ROOT) return top;
        std::size_t hole = ROOT;
        for (std::size_t child = 4; child < end_; child = 4 * hole - 8) {
            const std::size_t left = a[child + 1] < a[child] ? child + 1 : child;
            const std::size_t right = a[child + 3] < a[child + 2] ? child + 3 : child + 2;
            const std::size_t least = a[right] < a[left] ? right : left;
            if (!(a[least] < last)) break;
            a[hole] = a[least];
            hole = least;
        }
        a[hole] = last;
        return top;
    }

private:
    static constexpr std::size_t ROOT = 3;
    static constexpr Entry LAST = ~static_cast<Entry>(0);
    void sift_up(std::size_t hole, Entry e) {
        Entry* a = at_.data();
        for (std::size_t parent; hole > ROOT && e < a[parent = hole / 4 + 2]; hole = parent) a[hole] = a[parent];
        a[hole] = e;
    }
    Buffer<Entry> at_;
    std::size_t end_ = ROOT;
};

// The arrays of one thread. Between searches `distance` is infinite everywhere.
struct Search {
    Heap heap;
    std::vector<double> distance;
    std::vector<std::int32_t> touched;
    std::vector<double> sum;       // per slot, for swap_changes
    std::vector<index_t> rescued;  // likewise
    unsigned visited = 0;
    bool polls = false;  // true for the thread that Python called

    explicit Search(index_t n) : distance(n, INF) {}

    bool should_stop(Stop& stop) {
        if (++visited % POLL) return false;
        if (polls && user_wants_to_stop && user_wants_to_stop()) stop = true;
        return stop.load(std::memory_order_relaxed);
    }
    void reset() {
        for (const std::int32_t x : touched) distance[x] = INF;
        touched.clear();
        heap.clear();
    }
};

// Searches from one node over the nodes below their limits. visit(node, distance) is called in order of distance and
// returns whether to continue.
template <class Limit, class Visit>
void dijkstra(const GraphView& g, Search& s, double* distance, Stop& stop, index_t from, Limit&& limit, Visit&& visit) {
    if (!(0.0 < limit(from))) return;
    distance[from] = 0.0;
    s.touched.push_back(static_cast<std::int32_t>(from));
    s.heap.push(entry(0.0, 0, static_cast<std::int32_t>(from)));
    while (!s.heap.empty()) {
        const Entry top = s.heap.pop();
        const double d = distance_of(top);
        const std::int32_t x = node_of(top);
        if (d > distance[x]) continue;
        if (!visit(x, d) || s.should_stop(stop)) return;
        for (index_t e = g.start[x]; e < g.start[x + 1]; ++e) {
            const std::int32_t y = g.to[e];
            const double new_distance = d + g.length[e];
            if (!(new_distance < distance[y])) continue;
            if (distance[y] == INF) {
                if (!(new_distance < limit(y))) continue;
                s.touched.push_back(y);
            }
            distance[y] = new_distance;
            s.heap.push(entry(new_distance, 0, y));
        }
    }
}

inline constexpr auto no_limit = [](index_t) { return INF; };

}  // namespace kv
