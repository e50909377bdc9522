// The dynamic structure as its users see it: named points come and go, windows slide, questions are answered.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "distance.hpp"
#include "encoding.hpp"
#include "layers.hpp"
#include "points.hpp"
#include "solver.hpp"

namespace icml::kcenter {

// Insertion of an id that is there, deletion of one that is not.
enum class Conflict : std::uint8_t { error, skip, replace };

// Points leave by themselves when there are more than `count`, or `span` after they arrived; 0 for no window.
struct Window {
    std::int64_t count = 0;
    double span = 0;
};

struct Matrix {
    const double *entries = nullptr;
    std::int64_t rows = 0;
};

class Structure {
  public:
    Structure(const Encoding &encoding, const Settings &settings, std::string_view instruction_set,
              Matrix matrix, Poll poll);
    Structure(const Structure &) = delete;
    Structure &operator=(const Structure &) = delete;

    // Coordinates as people give them; with precomputed distances the id is the row's number and there are
    // none. False if the conflict was skipped; throws std::invalid_argument for a bad point or conflict.
    bool insert(std::string_view id, const double *coordinates, Conflict conflict, double time = 0);
    bool erase(std::string_view id, Conflict conflict);

    // All or nothing: after an error the same points are live as before. Returns how many were not skipped.
    std::int64_t insert_all(std::span<const std::string_view> ids, const double *coordinates,
                            Conflict conflict);
    std::int64_t erase_all(std::span<const std::string_view> ids, Conflict conflict);

    void set_window(Window window) { window_ = window; }
    void rebuild() { layers_.rebuild(); }

    Answer answer(int k, std::int64_t z, double sticky) { return solver_.answer(k, z, sticky); }

    // The largest radius at which the greedy on all live points fails with z outliers: a lower bound on the
    // optimum. Takes 4 n^2 bytes.
    double lower_bound_on_all(int k, std::int64_t z);

    std::int64_t size() const { return points_.size(); }
    std::int64_t updates() const {
        return updates_;
    } // insertions and deletions, those of the window not counted
    const Points &points() const { return points_; }
    const Layers &layers() const { return layers_; }
    const Encoding &encoding() const { return encoding_; }
    const Space &space() const { return space_; }
    const Settings &settings() const { return settings_; }

    void validate() const { layers_.validate(); }
    void save(Arrays &arrays) const;
    void load(const Arrays &arrays); // into an empty structure

  private:
    std::vector<double> encoded(std::span<const std::string_view> ids, const double *coordinates) const;
    void encode(std::string_view id, const double *coordinates, double *words) const;
    void add(std::string_view id, const double *words, double time);
    void remove(std::int32_t slot);
    void slide(double now);
    std::vector<std::int32_t> find_all(std::span<const std::string_view> ids, Conflict conflict);
    void prefetch_removals(std::span<const std::int32_t> slots) const;

    Encoding encoding_;
    Settings settings_;
    Space space_;
    const Scans &scans_;
    Poll poll_;
    Points points_;
    Layers layers_;
    Solver solver_;
    Window window_;
    double now_ = -infinity; // the latest arrival
    std::int64_t updates_ = 0;
    std::uint32_t batches_ = 0; // of deletions
    std::vector<double> words_;
};

} // namespace icml::kcenter
