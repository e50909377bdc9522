// Memory for large arrays: not zeroed first, and on huge pages where the system offers them. Random access
// over tens of megabytes waits for address translation more than for the data; huge pages halve the time of
// numbering nodes.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>
#include <utility>
#include <vector>

#include <sys/mman.h>

namespace icml::formats {

template <class T> class HugeAllocator {
  public:
    using value_type = T;

    HugeAllocator() = default;
    template <class U> HugeAllocator(const HugeAllocator<U> &) {}

    T *allocate(std::size_t count) {
        if (count > std::size_t(-1) / 2 / sizeof(T)) throw std::bad_array_new_length();
        const std::size_t bytes = count * sizeof(T);
        if (bytes < 2 * page) return static_cast<T *>(::operator new(bytes));
        const std::size_t whole = (bytes + page - 1) / page * page;
        void *const memory = std::aligned_alloc(page, whole);
        if (!memory) throw std::bad_alloc();
        madvise(memory, whole, MADV_HUGEPAGE); // only advice: a refusal changes nothing
        return static_cast<T *>(memory);
    }

    void deallocate(T *memory, std::size_t count) noexcept {
        if (count * sizeof(T) < 2 * page)
            ::operator delete(memory);
        else
            std::free(memory);
    }

    template <class U> void construct(U *place) noexcept { ::new (static_cast<void *>(place)) U; }
    template <class U, class... Arguments> void construct(U *place, Arguments &&...arguments) {
        ::new (static_cast<void *>(place)) U(std::forward<Arguments>(arguments)...);
    }

    friend bool operator==(const HugeAllocator &, const HugeAllocator &) { return true; }

  private:
    static constexpr std::size_t page = std::size_t{1} << 21;
};

// A vector whose new elements are not set unless they have a constructor: Array<double>(n) is not zeroed.
template <class T> using Array = std::vector<T, HugeAllocator<T>>;

} // namespace icml::formats
