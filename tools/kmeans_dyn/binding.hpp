// What the parts of the Python module share: arrays in and out, ids, and signals during long work.
#pragma once

#include <charconv>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "layers.hpp"

namespace icml::kcenter {

namespace nb = nanobind;

using Rows = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Integers = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Gives the values to a numpy array, of rows of `width` entries if that is not 0.
template <class T> nb::object to_numpy(std::vector<T> values, std::size_t width = 0) {
    auto held = std::make_unique<std::vector<T>>(std::move(values));
    T *const data = held->data();
    std::vector<std::size_t> shape{held->size()};
    if (width > 0) shape = {held->size() / width, width};
    const nb::capsule owner(held.get(), [](void *p) noexcept {
        std::unique_ptr<std::vector<T>>(static_cast<std::vector<T> *>(p));
    });
    held.release(); // now the capsule's
    return nb::cast(nb::ndarray<nb::numpy, T>(data, shape.size(), shape.data(), owner));
}

// A list of strings, or an array of integers, which stand for their decimal spelling.
class Ids {
  public:
    explicit Ids(nb::handle ids) {
        if (Integers integers; nb::try_cast(ids, integers)) {
            spell(integers);
            return;
        }
        held_ = nb::cast<nb::list>(ids);
        for (nb::handle id : held_) {
            Py_ssize_t size;
            const char *text = PyUnicode_AsUTF8AndSize(id.ptr(), &size);
            if (!text) throw nb::python_error();
            views_.emplace_back(text, static_cast<std::size_t>(size));
        }
    }
    std::span<const std::string_view> views() const { return views_; }

  private:
    void spell(const Integers &integers) {
        constexpr std::size_t most = 20; // characters of an int64
        const std::size_t count = integers.shape(0);
        text_.resize(count * most);
        views_.reserve(count);
        for (std::size_t i = 0; i < count; ++i) {
            char *const begin = text_.data() + i * most;
            const char *const end = std::to_chars(begin, begin + most, integers.data()[i]).ptr;
            views_.emplace_back(begin, static_cast<std::size_t>(end - begin));
        }
    }

    nb::list held_;
    std::string text_;
    std::vector<std::string_view> views_;
};

inline nb::object to_str(std::string_view text) {
    return nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

// Lets Python's signal handlers run twenty times a second; what they raise abandons the work.
inline Poll poll_signals() {
    return [last = std::chrono::steady_clock::now()]() mutable {
        const auto now = std::chrono::steady_clock::now();
        if (now - last < std::chrono::milliseconds(50)) return;
        last = now;
        const nb::gil_scoped_acquire acquire;
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
    };
}

} // namespace icml::kcenter
