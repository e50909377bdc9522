// Numbering of keys in order of first appearance, by an open-addressing hash table.
#pragma once

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
#include <vector>

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
    Interner() : slots_(initial_slots) {}

    // The number of `key`; a new key gets the next one.
    std::int32_t intern(const Key &key) {
        for (std::size_t i = home(hash_of(key));; i = (i + 1) & (slots_.size() - 1)) {
            Slot &slot = slots_[i];
            if (slot.number < 0) return insert(slot, key);
            if (slot.key == key) return slot.number;
        }
    }

    // Has the memory that intern(key) will look at fetched. A table larger than the cache makes every look-up
    // wait; asking for a batch of keys ahead overlaps the waits.
    void prefetch(const Key &key) const { __builtin_prefetch(&slots_[home(hash_of(key))]); }

    std::span<const Key> keys() const { return keys_; }

    // Gives up the keys, in order of their numbers, and forgets everything else.
    Array<Key> release() {
        slots_ = {};
        return std::move(keys_);
    }

  private:
    static constexpr std::size_t initial_slots = 1024;

    struct Slot {
        Key key{};
        std::int32_t number = -1;
    };

    // The high bits of the hash: the table's size is a power of two.
    std::size_t home(std::uint64_t hash) const { return hash >> (64 - std::countr_zero(slots_.size())); }

    std::int32_t insert(Slot &slot, const Key &key) {
        if (keys_.size() == max_nodes) throw std::length_error(too_many_nodes);
        const auto number = static_cast<std::int32_t>(keys_.size());
        slot = {key, number};
        keys_.push_back(key);
        if (2 * keys_.size() > slots_.size()) grow();
        return number;
    }

    void grow() {
        Array<Slot> old(2 * slots_.size());
        old.swap(slots_);
        for (const Slot &from : old) {
            if (from.number < 0) continue;
            std::size_t i = home(hash_of(from.key));
            while (slots_[i].number >= 0) i = (i + 1) & (slots_.size() - 1);
            slots_[i] = from;
        }
    }

    Array<Slot> slots_;
    Array<Key> keys_;
};

} // namespace icml::formats
