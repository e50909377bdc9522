// The layers of samples that summarise the live points, and when they are rebuilt.
//
// Layer i holds a sample of the points that the layers before it left over, and a radius: the median distance
// of those points to the sample. The half within the radius become members of their nearest sample point
// (representative), the rest goes on. While at least 3/4 of a set lies in k balls of radius OPT, a sample of
// size O(k log k) hits the heavy balls, so the median distance is at most 2 OPT without OPT ever being
// guessed. The last layer, of Theta(k/eps + z) points, keeps everybody.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "../random.hpp"
#include "distance.hpp"
#include "points.hpp"
#include "state.hpp"

namespace icml::kcenter {

struct Settings {
    int k = 1;
    double z = 0; // outliers: a number, or a share of the live points
    bool z_is_share = false;
    double eps = 0.2;
    bool strict = false; // rebuild on the worst-case schedule
    std::uint64_t seed = 0;
    int threads = 1;

    std::int64_t outliers(std::int64_t n) const {
        return static_cast<std::int64_t>(z_is_share ? std::floor(z * static_cast<double>(n)) : z);
    }
    int sample_size() const;                 // s: reps of a layer
    int fine_sample_size() const;            // s_f: reps of the last layer
    std::int64_t keep(std::int64_t n) const; // sets up to this size go into the last layer
};

struct Layer {
    explicit Layer(const Space &space) : sample(space) {}

    Blocks sample;           // coordinates of the representatives; they stay when the sample point is deleted
    double limit = infinity; // raw distance that a member may have
    std::vector<std::vector<std::int32_t>> members;
    std::vector<double> far; // at least the distance of the representative's farthest member
    std::vector<std::int32_t>
        closest; // member nearest to the representative, ties to the lower slot; -1 unknown
    std::vector<std::int32_t> vacant; // last layer: representatives without members, to be replaced
    std::int64_t live = 0;            // members
    std::int64_t built = 0;           // members when it was built
    std::int64_t offered = 0;         // points it was built from
    std::int64_t updates = 0;         // insertions and deletions that reached it since

    int reps() const { return sample.size(); }
};

// Called now and then during long work; throws to abandon it.
using Poll = std::function<void()>;

class Layers {
  public:
    Layers(Points &points, const Space &space, const Settings &settings, const Scans &scans, Poll poll);

    // Takes in a point that was added, lets go of one before it is removed. An insertion or deletion may
    // rebuild some layers; if the poll abandons that, the point has still been taken in or let go.
    void insert(std::int32_t slot);
    void erase(std::int32_t slot);
    void settle(); // rebuilds what the schedule asks for; to be called after each update

    void rebuild() { build_from(0); }

    // Some layer lost three quarters of its members, so that its radius may say nothing about the points
    // left.
    bool worn() const;

    // The largest radius of a layer, a first guess at the optimum; 0 while there is only the last one.
    double widest() const;

    int depth() const { return static_cast<int>(order_.size()); }
    Layer &at(int depth) { return *pool_[order_[depth]]; }
    const Layer &at(int depth) const { return *pool_[order_[depth]]; }
    const std::vector<std::int32_t> &members_of(std::int32_t slot) const {
        return pool_[points_[slot].layer]->members[points_[slot].rep];
    }
    std::int32_t closest_member(Layer &layer, int rep);

    std::int64_t rebuilds() const { return rebuilds_; }
    std::int64_t full_rebuilds() const { return full_rebuilds_; }
    std::int64_t distances() const { return distances_; }
    std::int64_t updates_since_full() const { return updates_since_full_; }
    std::int64_t size_at_full() const { return size_at_full_; }

    // Throws std::logic_error if members, counts, distances or radii contradict each other.
    void validate() const;

    void save(Arrays &arrays) const;
    void load(const Arrays &arrays); // the points are there already

  private:
    struct Draft; // a layer being built

    void place(std::int32_t slot, std::int32_t pool, int rep, double distance);
    void place_in_last(std::int32_t slot);
    void build_from(int depth);
    Draft draw(std::vector<std::int32_t> &rest, int count, bool last);
    void assign_nearest(const Draft &draft, const std::vector<std::int32_t> &rest, std::vector<double> &raw,
                        std::vector<std::int32_t> &rep);
    void sort_by_weight(Draft &draft);
    std::int32_t adopt(std::unique_ptr<Layer> layer);
    void drop(int depth);
    int first_overdue() const;
    int first_overflowing() const;

    Points &points_;
    const Space &space_;
    const Settings &settings_;
    const Scans &scans_;
    Poll poll_;
    CounterRng rng_;
    std::vector<double> point_;                // for coordinates that are not stored in double precision
    std::vector<std::unique_ptr<Layer>> pool_; // a layer's number here never changes, its depth may
    std::vector<std::int32_t> order_, unused_;
    std::int64_t rebuilds_ = 0, full_rebuilds_ = 0, distances_ = 0, updates_since_full_ = 0,
                 size_at_full_ = 0;
};

} // namespace icml::kcenter
