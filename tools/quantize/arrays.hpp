// numpy arrays in and out of the kernels.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <new>
#include <stdexcept>
#include <vector>

namespace icml::quantize {

namespace nb = nanobind;

template <class T, int Axes> using In = nb::ndarray<const T, nb::ndim<Axes>, nb::c_contig, nb::device::cpu>;
template <class T, int Axes> using InOut = nb::ndarray<T, nb::ndim<Axes>, nb::c_contig, nb::device::cpu>;
template <class T> using Out = nb::ndarray<nb::numpy, T>;

// 64-byte aligned, zeroed memory.
template <class T> class Aligned {
  public:
    Aligned() = default;
    explicit Aligned(std::size_t n) : data_(new (std::align_val_t(64)) T[n]()) {}
    T *get() const { return data_.get(); }
    T *release() { return data_.release(); }
    static void free(void *p) noexcept { ::operator delete[](p, std::align_val_t(64)); }

  private:
    struct Free {
        void operator()(T *p) const { Aligned::free(p); }
    };
    std::unique_ptr<T[], Free> data_;
};

// A zeroed array that numpy will own.
template <class T> class Result {
  public:
    Result(std::initializer_list<std::size_t> shape) : shape_(shape) {
        std::size_t n = 1;
        for (std::size_t extent : shape_) n *= extent;
        data_ = Aligned<T>(n + 1); // never an empty allocation
    }
    T *data() { return data_.get(); }
    Out<T> release() {
        T *raw = data_.release();
        nb::capsule owner(raw, [](void *p) noexcept { Aligned<T>::free(p); });
        return Out<T>(raw, shape_.size(), shape_.data(), owner);
    }

  private:
    std::vector<std::size_t> shape_;
    Aligned<T> data_;
};

inline void require(bool condition, const char *what) {
    if (!condition) throw std::invalid_argument(what);
}

} // namespace icml::quantize
