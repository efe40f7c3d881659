// The Python module. Only the bind*.cpp files know Python; Python code has checked the arrays, and only what would
// crash is checked again here.
#include "bind.hpp"

#include <pthread.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <utility>

namespace kv::binding {

const Kernels* active = nullptr;
const ByteKernels* active_bytes = nullptr;

namespace {

// Checks for an interrupt (Ctrl-C) a few times a second, from the thread that Python called. Only Python's main thread
// gets interrupts, so that the checks of other threads must not put off its own.
bool interrupted() {
    using clock = std::chrono::steady_clock;
    thread_local clock::time_point last = clock::now();
    const auto now = clock::now();
    if (now - last < std::chrono::milliseconds(50)) return false;
    last = now;
    if (!unlocked) return PyErr_CheckSignals() != 0;
    lock();
    const bool stop = PyErr_CheckSignals() != 0;
    unlock();
    return stop;
}

Rows dense(Matrix x) { return {dense_view(x), nb::cast(x)}; }

Rows small(Matrix x) { return {small_view(x), nb::cast(x)}; }

Rows csr(Values data, In<std::int32_t> indices, In<index_t> indptr, index_t features) {
    return {csr_view(data, indices, indptr, features), nb::make_tuple(data, indices, indptr)};
}

std::vector<std::string> instruction_sets() {
    std::vector<std::string> out;
    for (const Kernels* set : available_kernels()) out.push_back(set->name);
    return out;
}

std::vector<std::string> byte_kernels() {
    std::vector<std::string> out;
    for (const Kernels* set : available_kernels())
        for (const ByteKernels* one : available_byte_kernels(*set)) out.push_back(one->name);
    return out;
}

}  // namespace
}  // namespace kv::binding

NB_MODULE(_native, m) {
    using namespace kv::binding;
    const char* asked = std::getenv("KVARIATES_ISA");
    const kv::ChosenKernels chosen = kv::choose_kernels(asked);
    active = chosen.kernels, active_bytes = chosen.bytes;
    if (!active)
        throw std::invalid_argument("KVARIATES_ISA=" + std::string(asked) +
                                    " is not a set of kernels this machine can run");
    kv::user_wants_to_stop = interrupted;
    nb::set_leak_warnings(false);  // what a daemon thread uses is still there when Python ends; that is no mistake
    pthread_atfork(nullptr, nullptr, [] { kv::forked = true; });

    nb::class_<Rows>(m, "RowsView")
        .def_prop_ro("n", [](const Rows& r) { return r.view.n; })
        .def_prop_ro("d", [](const Rows& r) { return r.view.d; });
    m.def("tasks_of_other_threads", [] { return kv::tasks_of_other_threads.load(); });
    m.def("set_work_per_thread", [](double work) { return std::exchange(kv::work_per_thread, work); }, "work"_a);
    m.def("instruction_sets", instruction_sets);
    m.def("byte_kernels", byte_kernels);
    m.def("instruction_set", [] { return std::string(active->name); });
    m.def("dense", dense, "x"_a);
    m.def("small", small, "x"_a);
    m.def("csr", csr, "data"_a, "indices"_a, "indptr"_a, "n_features"_a);
    bind_kmeans(m);     // assignments, sums and costs of clusters
    bind_potential(m);  // what seedings draw from, gains of candidates
    bind_blocks(m);     // blocks of columns, coresets
    bind_metric(m);     // distances and swaps of medoids
    bind_dual(m);       // lower bounds on the cost of k-means
    bind_graph(m);      // shortest paths
    bind_tree(m);       // the 2-HST
    bind_lattice(m);    // sums of rounded rows, for private methods
    bind_transport(m);  // clusters with limits on their sizes
    bind_exchange(m);   // anti-clustering
}
