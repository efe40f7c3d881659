// Shared by the binding files: array types, checks of what would otherwise crash, and access to the kernels.
#pragma once

#include <cxxabi.h>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <optional>
#include <stdexcept>
#include <utility>

#include "kernels.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace kv::binding {

template <int DIMENSIONS, class... T>
using Array = nb::ndarray<T..., nb::ndim<DIMENSIONS>, nb::c_contig, nb::device::cpu>;
template <class T>
using Out = Array<1, T>;
template <class T>
using In = Array<1, const T>;
template <class T>
using OptionalIn = std::optional<In<T>>;
using Values = Array<1, nb::ro>;  // of either float type, like all that follow
using OutValues = Array<1>;
using Matrix = Array<2, nb::ro>;
using OutMatrix = Array<2>;
using Table = Array<2, const double>;
using OutTable = Array<2, double>;

extern const Kernels* active;
extern const ByteKernels* active_bytes;

// Calls f, which may wait for the interpreter's lock. If the interpreter has ended meanwhile, Python ends a thread that
// is not the main one (a daemon) by unwinding its stack. C++ would abort the process at the first frame that may not
// throw. So such a thread sleeps until the process has ended.
template <class F>
auto asking_python(F&& f) {
#ifdef __GLIBCXX__
    try {
        return f();
    } catch (const abi::__forced_unwind&) {
        for (;;) pause();
    }
#else
    return f();
#endif
}

// The state of the calling thread while it computes without the interpreter's lock; null if it holds the lock.
inline thread_local PyThreadState* unlocked = nullptr;

inline void unlock() { unlocked = PyEval_SaveThread(); }
inline void lock() {
    asking_python([] { PyEval_RestoreThread(std::exchange(unlocked, nullptr)); });
}

// Calls f without the interpreter's lock.
template <class F>
auto run(F&& f) {
    struct Relock {
        ~Relock() { lock(); }
    };
    try {
        unlock();
        const Relock relock;
        return f();
    } catch (const Interrupted&) {
        throw nb::python_error();
    }
}

inline void require(bool ok, const char* message) {
    if (!ok) throw std::invalid_argument(message);
}

template <class A>
index_t length(const A& a) {
    return static_cast<index_t>(a.size());
}
template <class A>
index_t extent(const A& a, int axis) {
    return static_cast<index_t>(a.shape(axis));
}

// Returns the data of an array after checking its length.
template <class A>
auto data_of(const A& a, index_t n) {
    require(length(a) == n, "an array has the wrong length");
    return a.data();
}
template <class A>
auto data_of(const std::optional<A>& a, index_t n) {
    return a ? data_of(*a, n) : nullptr;
}

// Returns the data of an array of integers after checking that they are in [0, bound).
template <class A>
auto indices_of(const A& a, index_t bound, const char* message) {
    const auto* at = a.data();
    const index_t n = length(a);
    bool inside = true;
    for (index_t i = 0; i < n; ++i) inside &= at[i] >= 0 && at[i] < bound;
    require(inside, message);
    return a.data();
}

// Returns the data of an array of n labels after checking that they are in [0, k).
template <class A>
auto labels_of(const A& a, index_t n, index_t k) {
    auto* labels = data_of(a, n);
    require(run([&] { return all_inside(labels, n, k); }), "a label is out of range: labels must be from 0 to k - 1");
    return labels;
}

// Checks the starts of `lists` consecutive lists that have `entries` entries together.
inline void check_starts(const In<index_t>& start, index_t lists, index_t entries, const char* message) {
    const index_t* at = start.data();
    bool fit = length(start) == lists + 1 && at[0] == 0 && at[lists] == entries;
    for (index_t i = 0; fit && i < lists; ++i) fit = at[i] <= at[i + 1];
    require(fit, message);
}

template <class A>
bool is_double(const A& a) {
    require(a.dtype() == nb::dtype<float>() || a.dtype() == nb::dtype<double>(), "values must be float32 or float64");
    return a.dtype() == nb::dtype<double>();
}

inline RowsView dense_view(const Matrix& x) {
    require(extent(x, 1) > 0, "rows must have at least one feature");
    return {false, is_double(x), x.data(), nullptr, nullptr, extent(x, 0), extent(x, 1)};
}

// float16, int8, uint8, or the bits of bfloat16 as uint16.
inline RowsView small_view(const Matrix& x) {
    require(extent(x, 1) > 0, "rows must have at least one feature");
    const auto is = [&](nb::dlpack::dtype_code code, int bits) {
        return x.dtype() == nb::dlpack::dtype{static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(bits), 1};
    };
    RowsView view{false, false, x.data(), nullptr, nullptr, extent(x, 0), extent(x, 1)};
    view.small = is(nb::dlpack::dtype_code::Float, 16)  ? SmallType::float16
                 : is(nb::dlpack::dtype_code::UInt, 16) ? SmallType::bfloat16
                 : is(nb::dlpack::dtype_code::Int, 8)   ? SmallType::int8
                 : is(nb::dlpack::dtype_code::UInt, 8)  ? SmallType::uint8
                                                        : SmallType::none;
    require(view.small != SmallType::none, "values must be float16, int8, uint8, or bfloat16 as uint16");
    return view;
}

inline RowsView csr_view(const Values& data, const In<std::int32_t>& indices, const In<index_t>& indptr, index_t d) {
    require(length(data) == length(indices) && length(indptr) > 0, "the parts of a CSR matrix do not fit");
    require(d > 0, "rows must have at least one feature");
    const index_t n = length(indptr) - 1;
    check_starts(indptr, n, length(data), "indptr of a CSR matrix must rise from 0 to the number of its values");
    const std::int32_t* column = indices.data();
    require(run([&] { return all_inside(column, length(indices), d); }), "a column of a CSR matrix is out of range");
    return {true, is_double(data), data.data(), column, indptr.data(), n, d};
}

// Makes a NumPy array of a vector, without a copy.
template <class T>
nb::object to_numpy(std::vector<T>&& values) {
    auto* kept = new std::vector<T>(std::move(values));
    const nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(kept->data(), {kept->size()}, owner));
}

// A view of rows and the arrays that own their memory.
struct Rows {
    RowsView view;
    nb::object owner;
};

template <class A>
index_t count_centers(const Rows& rows, const A& centers) {
    require(extent(centers, 1) == rows.view.d, "centres must have as many features as the rows");
    require(extent(centers, 0) < std::numeric_limits<label_t>::max(), "there are more centres than labels");
    return extent(centers, 0);
}

template <class A>
index_t count_some_centers(const Rows& rows, const A& centers) {
    require(extent(centers, 0) > 0, "there are no centres; give at least one");
    return count_centers(rows, centers);
}

void bind_kmeans(nb::module_& m);
void bind_potential(nb::module_& m);
void bind_blocks(nb::module_& m);
void bind_metric(nb::module_& m);
void bind_dual(nb::module_& m);
void bind_graph(nb::module_& m);
void bind_tree(nb::module_& m);
void bind_lattice(nb::module_& m);
void bind_transport(nb::module_& m);
void bind_exchange(nb::module_& m);

}  // namespace kv::binding
