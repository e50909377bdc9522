// A structure's state as named arrays, which a checkpoint file holds. What can be computed again is left out,
// so that loading also checks what was saved.
#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "words.hpp"

namespace icml::kcenter {

// A checkpoint whose arrays contradict each other.
struct BadState : std::runtime_error {
    explicit BadState(const std::string &what) : std::runtime_error("damaged checkpoint: " + what) {}
};

struct Arrays {
    std::map<std::string, std::vector<double>> reals;
    std::map<std::string, std::vector<float>> singles;
    std::map<std::string, std::vector<std::int64_t>> integers;
    std::map<std::string, std::string> texts;

    const std::vector<double> &real(const std::string &name) const { return find(reals, name); }
    const std::vector<std::int64_t> &integer(const std::string &name) const { return find(integers, name); }
    const std::string &text(const std::string &name) const { return find(texts, name); }

    // Coordinates go to `reals` or `singles`, as they are stored.
    Words words(const std::string &name, Storage storage) const {
        return storage == Storage::float32 ? Words(find(singles, name)) : Words(find(reals, name));
    }
    void put(const std::string &name, Words words) {
        words.visit([&]<class T>(std::vector<T> &numbers) {
            if constexpr (std::is_same_v<T, float>)
                singles[name] = std::move(numbers);
            else
                reals[name] = std::move(numbers);
        });
    }

    static void require(bool holds, const char *what) {
        if (!holds) throw BadState(what);
    }

  private:
    template <class Map>
    static const typename Map::mapped_type &find(const Map &map, const std::string &name) {
        const auto at = map.find(name);
        if (at == map.end()) throw BadState("no array '" + name + "'");
        return at->second;
    }
};

} // namespace icml::kcenter
