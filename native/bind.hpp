// What the binding files share: array types, checks of what would crash, and the door to the kernels.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <stdexcept>

#include "kernels.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using kv::index_t;
using kv::label_t;

namespace kv::bound {

template <class T>
using Out = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using In = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Maybe = std::optional<In<T>>;
using Matrix = nb::ndarray<nb::ro, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using OutMatrix = nb::ndarray<nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using OutTable = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

extern const Kernels* active;

template <class F>
auto run(F&& f) {
    try {
        nb::gil_scoped_release release;
        return f();
    } catch (const Interrupted&) {
        throw nb::python_error();
    }
}

inline void need(bool ok, const char* what) {
    if (!ok) throw std::invalid_argument(what);
}

template <class T>
bool is(const nb::dlpack::dtype& t) {
    return t == nb::dtype<T>();
}

template <class A>
auto sized(const A& a, index_t n) {
    need(static_cast<index_t>(a.size()) == n, "an array of the wrong length");
    return a.data();
}
template <class T>
const T* sized(const Maybe<T>& a, index_t n) {
    return a ? sized(*a, n) : nullptr;
}

inline bool wide(const nb::dlpack::dtype& t) {
    need(is<float>(t) || is<double>(t), "values must be float32 or float64");
    return is<double>(t);
}

// A vector becomes NumPy's, without a copy.
template <class T>
nb::object handed(std::vector<T>&& values) {
    auto* kept = new std::vector<T>(std::move(values));
    const nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(kept->data(), {kept->size()}, owner));
}

void metric(nb::module_& m);  // bind_metric.cpp: distances and swaps in any metric
void dual(nb::module_& m);    // bind_dual.cpp: what candidates would earn at given prices
void graph(nb::module_& m);   // bind_graph.cpp: shortest paths
void tree(nb::module_& m);    // bind_tree.cpp: the 2-HST
void fixed_point(nb::module_& m);  // bind_fixed.cpp: rows in a ball on a grid

}  // namespace kv::bound
