#include "certificate.hpp"

#include <algorithm>
#include <cassert>
#include <functional>
#include <numeric>
#include <queue>

namespace icml::kcenter {

namespace {

constexpr std::int64_t exact_work = std::int64_t{1} << 25; // coordinates in exact distances: some 10 ms
constexpr std::int64_t scan_budget = 65536; // members that may be looked at, beside the last layer's

// The largest `capacity` values seen.
class Largest {
  public:
    explicit Largest(std::int64_t capacity) : capacity_(static_cast<std::size_t>(capacity)) {}

    // Whether the value would change nothing, now and later.
    bool rules_out(double value) const { return full() && value <= heap_.top(); }
    bool full() const { return heap_.size() == capacity_; }
    double least() const { return heap_.top(); }
    void add(double value) {
        if (rules_out(value)) return;
        if (full()) heap_.pop();
        heap_.push(value);
    }

  private:
    std::size_t capacity_;
    std::priority_queue<double, std::vector<double>, std::greater<>> heap_;
};

class Certifier {
  public:
    Certifier(const Points &points, Layers &layers, const Coreset &coreset, const Space &space,
              const Scans &scans, const std::vector<std::int32_t> &centers, std::int64_t allowed)
        : points_(points), layers_(layers), coreset_(coreset), space_(space), scans_(scans), centers_(space),
          point_(space.width), largest_(allowed + 1) {
        for (const std::int32_t slot : centers) centers_.push(points.at(slot, point_.data()));
        bound_representatives();
        work_a_point_ = static_cast<std::int64_t>(padded(centers_.size())) * (space.width + 1);
    }

    Certificate run() {
        std::vector<std::int32_t> order(coreset_.size());
        std::iota(order.begin(), order.end(), 0);
        std::sort(order.begin(), order.end(),
                  [&](int a, int b) { return bound_[a] != bound_[b] ? bound_[a] > bound_[b] : a < b; });
        std::vector<std::int32_t> closed;
        std::int64_t left = scan_budget;
        for (const std::int32_t i : order) {
            if (largest_.rules_out(bound_[i])) break;
            const auto weight = std::ssize(members(i));
            const bool last = coreset_.depth(i) + 1 == layers_.depth();
            if (last || weight <= left) {
                open(i);
                left -= last ? 0 : weight;
            } else {
                closed.push_back(i);
                for (std::int64_t copies = weight; copies > 0 && !largest_.rules_out(bound_[i]); --copies)
                    largest_.add(bound_[i]);
            }
        }
        return conclude(closed);
    }

  private:
    struct Candidate { // a point that may have to be discarded
        std::int32_t slot, rep, owner;
        double bound;
    };

    const std::vector<std::int32_t> &members(int i) const {
        return layers_.at(coreset_.depth(i)).members[coreset_.rep(i)];
    }

    void bound_representatives() {
        for (int i = 0; i < coreset_.size(); ++i) {
            const Hit hit = scans_.nearest(space_, coreset_.point(i), centers_.view());
            owner_.push_back(hit.index);
            distance_.push_back(space_.real(hit.raw));
            bound_.push_back(distance_[i] + layers_.at(coreset_.depth(i)).far[coreset_.rep(i)]);
        }
    }

    void open(int i) {
        double far = 0;
        for (const std::int32_t slot : members(i)) {
            const double offset = points_[slot].distance;
            far = std::max(far, offset);
            Candidate candidate{slot, i, owner_[i], distance_[i] + offset};
            if (largest_.rules_out(candidate.bound)) continue;
            if (work_ < exact_work) measure(candidate);
            largest_.add(candidate.bound);
            candidates_.push_back(candidate);
        }
        layers_.at(coreset_.depth(i)).far[coreset_.rep(i)] = far; // deletions may have left it too large
    }

    void measure(Candidate &candidate) {
        const Hit hit = scans_.nearest(space_, points_.at(candidate.slot, point_.data()), centers_.view());
        work_ += work_a_point_;
        if (const double exact = space_.real(hit.raw); exact < candidate.bound) {
            candidate.bound = exact;
            candidate.owner = hit.index;
        }
    }

    Certificate conclude(const std::vector<std::int32_t> &closed) const {
        assert(largest_.full());
        Certificate result;
        result.radius = largest_.least();
        result.sizes.assign(centers_.size(), 0);
        for (int i = 0; i < coreset_.size(); ++i) result.sizes[owner_[i]] += std::ssize(members(i));
        for (const Candidate &candidate : candidates_) {
            --result.sizes[owner_[candidate.rep]];
            if (candidate.bound > result.radius)
                result.outliers.push_back(candidate.slot);
            else
                ++result.sizes[candidate.owner];
        }
        for (const std::int32_t i : closed) {
            if (bound_[i] <= result.radius) continue;
            result.outliers.insert(result.outliers.end(), members(i).begin(), members(i).end());
            result.sizes[owner_[i]] -= std::ssize(members(i));
        }
        return result;
    }

    const Points &points_;
    Layers &layers_;
    const Coreset &coreset_;
    const Space &space_;
    const Scans &scans_;
    Blocks centers_;
    std::vector<double> point_;       // for coordinates that are not stored in double precision
    std::vector<std::int32_t> owner_; // of each representative: its nearest centre,
    std::vector<double> distance_;    // the distance to it,
    std::vector<double> bound_;       // and how far its members may be
    std::vector<Candidate> candidates_;
    Largest largest_;
    std::int64_t work_ = 0, work_a_point_ = 0;
};

} // namespace

Certificate certify(const Points &points, Layers &layers, const Coreset &coreset, const Space &space,
                    const Scans &scans, const std::vector<std::int32_t> &centers, std::int64_t allowed) {
    return Certifier(points, layers, coreset, space, scans, centers, allowed).run();
}

} // namespace icml::kcenter
