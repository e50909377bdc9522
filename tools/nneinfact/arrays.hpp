// numpy arrays in and out of the kernels.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace icml::einfact {

namespace nb = nanobind;

template <class T, int Axes> using In = nb::ndarray<const T, nb::ndim<Axes>, nb::c_contig, nb::device::cpu>;
template <class T> using Out = nb::ndarray<nb::numpy, T>;
using Offsets = In<std::int64_t, 1>;

// A zeroed array that numpy will own.
template <class T> class Result {
  public:
    Result(std::initializer_list<std::size_t> shape) : shape_(shape) {
        for (std::size_t n : shape_) size_ *= n;
        data_ = std::make_unique<T[]>(size_);
    }
    T *data() { return data_.get(); }
    std::span<T> span() { return {data_.get(), size_}; }
    Out<T> release() {
        T *raw = data_.release();
        nb::capsule owner(raw, [](void *p) noexcept { std::unique_ptr<T[]>(static_cast<T *>(p)); });
        return Out<T>(raw, shape_.size(), shape_.data(), owner);
    }

  private:
    std::vector<std::size_t> shape_;
    std::size_t size_ = 1;
    std::unique_ptr<T[]> data_;
};

// 64-byte aligned working memory of one thread.
template <class T> class Scratch {
  public:
    explicit Scratch(std::size_t n) : data_(new (std::align_val_t(64)) T[n]()) {}
    T *get() const { return data_.get(); }

  private:
    struct Free {
        void operator()(T *p) const { ::operator delete[](p, std::align_val_t(64)); }
    };
    std::unique_ptr<T[], Free> data_;
};

inline void require(bool condition, const char *what) {
    if (!condition) throw std::invalid_argument(what);
}

} // namespace icml::einfact
