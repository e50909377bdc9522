// numpy arrays in and out of the kernels, and aligned memory.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <vector>

namespace icml {

namespace nb = nanobind;

template <class T, int Axes> using In = nb::ndarray<const T, nb::ndim<Axes>, nb::c_contig, nb::device::cpu>;
template <class T, int Axes> using InOut = nb::ndarray<T, nb::ndim<Axes>, nb::c_contig, nb::device::cpu>;
template <class T> using Out = nb::ndarray<nb::numpy, T>;

// 64-byte aligned, zeroed memory. Aligned by hand: allocators that align do not reuse a freed block of equal
// size.
template <class T> class Aligned {
    static_assert(std::is_trivially_copyable_v<T>);

  public:
    Aligned() = default;
    explicit Aligned(std::size_t n) : block_(std::make_unique<std::byte[]>(n * sizeof(T) + alignment - 1)) {
        const auto start = reinterpret_cast<std::uintptr_t>(block_.get());
        data_ = reinterpret_cast<T *>((start + alignment - 1) / alignment * alignment);
    }
    T *get() const { return data_; }
    // Gives up the block, in which the data stay where they are.
    std::byte *release() { return block_.release(); }

  private:
    static constexpr std::size_t alignment = 64;
    std::unique_ptr<std::byte[]> block_;
    T *data_ = nullptr;
};

// A zeroed array that numpy will own.
template <class T> class Result {
  public:
    Result(std::initializer_list<std::size_t> shape) : shape_(shape) {
        for (const std::size_t extent : shape_) size_ *= extent;
        data_ = Aligned<T>(size_);
    }
    T *data() { return data_.get(); }
    std::span<T> span() { return {data_.get(), size_}; }
    Out<T> release() {
        T *const raw = data_.get();
        nb::capsule owner(data_.release(), [](void *p) noexcept {
            std::unique_ptr<std::byte[]>(static_cast<std::byte *>(p));
        });
        return Out<T>(raw, shape_.size(), shape_.data(), owner);
    }

  private:
    std::vector<std::size_t> shape_;
    std::size_t size_ = 1;
    Aligned<T> data_;
};

inline void require(bool condition, const char *what) {
    if (!condition) throw std::invalid_argument(what);
}

} // namespace icml
