// Numbering of keys in order of first appearance, by an open-addressing hash table.
#pragma once

#include <array>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "memory.hpp"

namespace icml::formats {

inline constexpr std::size_t max_nodes = std::numeric_limits<std::int32_t>::max();
inline constexpr char too_many_nodes[] = "more than 2147483647 different nodes";

inline std::uint64_t mix(std::uint64_t x) { // the finaliser of MurmurHash3 (A. Appleby)
    x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdULL;
    x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53ULL;
    return x ^ (x >> 33);
}

inline std::uint64_t hash_of(std::int64_t key) {
    return mix(static_cast<std::uint64_t>(key));
}

// A string of 16 bytes: up to 12 characters lie in the key itself, of a longer one the first four and a
// pointer (T. Neumann and M. Freitag, Umbra: A Disk-Based System with In-Memory Performance, 2020). Comparing
// two short names touches no other memory, which is what makes string ids nearly as fast as integers.
class StringKey {
  public:
    StringKey() = default;
    explicit StringKey(std::string_view text) : size_(static_cast<std::uint32_t>(text.size())) {
        if (text.size() > std::numeric_limits<std::uint32_t>::max())
            throw std::length_error("a node id of more than 4 GiB");
        if (is_short()) {
            std::memcpy(bytes_, text.data(), text.size());
        } else {
            const char *const data = text.data();
            std::memcpy(bytes_, data, 4);
            std::memcpy(bytes_ + 4, &data, sizeof data);
        }
    }

    std::string_view view() const { return {is_short() ? bytes_ : pointer(), size_}; }

    friend bool operator==(const StringKey &a, const StringKey &b) {
        if (std::memcmp(&a, &b, 8) != 0) return false; // size and first four characters
        if (std::memcmp(a.bytes_ + 4, b.bytes_ + 4, 8) == 0) return true;
        return !a.is_short() && std::memcmp(a.pointer(), b.pointer(), a.size_) == 0;
    }

    friend std::uint64_t hash_of(const StringKey &key) {
        if (!key.is_short()) return mix(std::hash<std::string_view>{}(key.view()));
        std::uint64_t words[2];
        std::memcpy(words, &key, sizeof words);
        return mix(mix(words[0]) + words[1]);
    }

  private:
    bool is_short() const { return size_ <= sizeof bytes_; }
    const char *pointer() const {
        const char *data;
        std::memcpy(&data, bytes_ + 4, sizeof data);
        return data;
    }

    std::uint32_t size_ = 0;
    char bytes_[12] = {};
};
static_assert(sizeof(StringKey) == 16);

template <class Key> class Interner {
  public:
    static constexpr std::size_t batch = 64;

    Interner() : slots_(initial_slots) {}

    // The number of `key`; a new key gets the next one.
    std::int32_t intern(const Key &key) { return intern(key, tag_of(key)); }

    // The numbers of up to `batch` keys, in their order. A table larger than the cache makes every look-up
    // wait for memory; here the waits overlap, first those for the slots, then those for the keys.
    void intern(std::span<const Key> keys, std::span<std::int32_t> numbers) {
        assert(keys.size() <= batch && keys.size() == numbers.size());
        std::array<std::uint32_t, batch> tags;
        for (std::size_t i = 0; i < keys.size(); ++i) {
            tags[i] = tag_of(keys[i]);
            __builtin_prefetch(&slots_[home(tags[i])]);
        }
        for (std::size_t i = 0; i < keys.size(); ++i) {
            const Slot &slot = slots_[home(tags[i])];
            if (slot.number >= 0 && slot.tag == tags[i]) __builtin_prefetch(&keys_[slot.number]);
        }
        for (std::size_t i = 0; i < keys.size(); ++i) numbers[i] = intern(keys[i], tags[i]);
    }

    std::span<const Key> keys() const { return keys_; }

    // Gives up the keys, in order of their numbers, and forgets everything else.
    Array<Key> release() {
        slots_ = {};
        return std::move(keys_);
    }

  private:
    static constexpr std::size_t initial_slots = 1024;

    // The tag is what is kept of a key's hash. Its highest bits say where the search for the key begins, so
    // that a table can grow without looking at the keys, and from its beginning to its end.
    struct Slot {
        std::uint32_t tag = 0;
        std::int32_t number = -1;
    };

    static std::uint32_t tag_of(const Key &key) { return static_cast<std::uint32_t>(hash_of(key) >> 32); }
    std::size_t home(std::uint32_t tag) const {
        return static_cast<std::size_t>((std::uint64_t{tag} << 32) >> (64 - std::countr_zero(slots_.size())));
    }
    std::size_t next(std::size_t i) const { return (i + 1) & (slots_.size() - 1); }

    std::int32_t intern(const Key &key, std::uint32_t tag) {
        for (std::size_t i = home(tag);; i = next(i)) {
            const Slot &slot = slots_[i];
            if (slot.number < 0) return insert(i, key, tag);
            if (slot.tag == tag && keys_[slot.number] == key) return slot.number;
        }
    }

    std::int32_t insert(std::size_t i, const Key &key, std::uint32_t tag) {
        if (keys_.size() == max_nodes) throw std::length_error(too_many_nodes);
        const auto number = static_cast<std::int32_t>(keys_.size());
        slots_[i] = {tag, number};
        keys_.push_back(key);
        if (2 * keys_.size() > slots_.size()) grow();
        return number;
    }

    void grow() {
        Array<Slot> old(2 * slots_.size());
        old.swap(slots_);
        for (const Slot &from : old) {
            if (from.number < 0) continue;
            std::size_t i = home(from.tag);
            while (slots_[i].number >= 0) i = next(i);
            slots_[i] = from;
        }
    }

    Array<Slot> slots_; // a power of two, at most half full
    Array<Key> keys_;
};

} // namespace icml::formats
