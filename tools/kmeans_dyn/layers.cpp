#include "layers.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

namespace icml::kcenter {

namespace {
constexpr int max_layers = 28;
constexpr std::int64_t least_updates = 64; // before a layer counts as overdue, however small it is
} // namespace

int Settings::sample_size() const {
    const auto size = [](int k) { return static_cast<int>(std::ceil(2 * k * std::log(k + 2.0))) + 16; };
    return k <= 50 ? size(k) : std::min(size(k), std::max(4 * k, size(50)));
}

int Settings::fine_sample_size() const {
    constexpr double most = 1e8; // more points than anybody compares pairwise
    return std::max(sample_size(), static_cast<int>(std::min(std::ceil(2 * k / eps), most)));
}

std::int64_t Settings::keep(std::int64_t n) const {
    return std::max<std::int64_t>(4 * outliers(n), 2 * fine_sample_size());
}

// What a layer under construction takes from the rest.
struct Layers::Draft {
    std::unique_ptr<Layer> layer;
    std::vector<std::int32_t> slot, rep;
    std::vector<double> raw;

    void take(std::int32_t point, std::int32_t to, double distance) {
        slot.push_back(point);
        rep.push_back(to);
        raw.push_back(distance);
    }
};

Layers::Layers(Points &points, const Space &space, const Settings &settings, const Scans &scans, Poll poll)
    : points_(points), space_(space), settings_(settings), scans_(scans), poll_(std::move(poll)),
      rng_(settings.seed), point_(space.width) {}

void Layers::insert(std::int32_t slot) {
    ++updates_since_full_;
    if (order_.empty()) order_.push_back(adopt(std::make_unique<Layer>(space_)));
    const double *x = points_.at(slot, point_.data());
    for (int d = 0; d + 1 < depth(); ++d) {
        Layer &layer = at(d);
        ++layer.updates;
        const Hit hit = scans_.first_within(space_, x, layer.sample.view(), layer.limit);
        distances_ += hit.index >= 0 ? hit.index + 1 : layer.reps();
        if (hit.index >= 0) return place(slot, order_[d], hit.index, space_.real(hit.raw));
    }
    ++at(depth() - 1).updates;
    place_in_last(slot);
}

// A point that no layer covers is its own representative while there is room, so that outliers stay exact.
void Layers::place_in_last(std::int32_t slot) {
    Layer &last = at(depth() - 1);
    const double *x = points_.at(slot, point_.data());
    if (!last.vacant.empty()) {
        const std::int32_t rep = last.vacant.back();
        last.vacant.pop_back();
        last.sample.set(rep, x);
        return place(slot, order_.back(), rep, 0);
    }
    if (last.reps() < 2 * settings_.fine_sample_size()) {
        last.sample.push(x);
        last.members.emplace_back();
        last.far.push_back(0);
        last.closest.push_back(-1);
        return place(slot, order_.back(), last.reps() - 1, 0);
    }
    const Hit hit = scans_.nearest(space_, x, last.sample.view());
    distances_ += last.reps();
    place(slot, order_.back(), hit.index, space_.real(hit.raw));
}

void Layers::place(std::int32_t slot, std::int32_t pool, int rep, double distance) {
    Layer &layer = *pool_[pool];
    Point &point = points_[slot];
    std::vector<std::int32_t> &members = layer.members[rep];
    point.layer = pool;
    point.rep = rep;
    point.position = static_cast<std::int32_t>(members.size());
    point.distance = distance;
    if (members.empty()) {
        layer.closest[rep] = slot;
    } else if (const std::int32_t closest = layer.closest[rep]; closest >= 0) {
        const double known = points_[closest].distance;
        if (distance < known || (distance == known && slot < closest)) layer.closest[rep] = slot;
    }
    members.push_back(slot);
    ++layer.live;
    layer.far[rep] = std::max(layer.far[rep], distance);
}

void Layers::erase(std::int32_t slot) {
    ++updates_since_full_;
    const Point &point = points_[slot];
    int depth_of = 0;
    while (order_[depth_of] != point.layer) ++at(depth_of++).updates;
    Layer &layer = at(depth_of);
    ++layer.updates;
    --layer.live;
    std::vector<std::int32_t> &members = layer.members[point.rep];
    assert(members[point.position] == slot);
    points_[members.back()].position = point.position;
    members[point.position] = members.back();
    members.pop_back();
    if (layer.closest[point.rep] == slot) layer.closest[point.rep] = -1;
    const bool last = depth_of + 1 == depth();
    if (members.empty()) {
        layer.far[point.rep] = 0;
        if (last) layer.vacant.push_back(point.rep);
    }
    if (layer.live == 0 && !last) drop(depth_of);
}

std::int32_t Layers::closest_member(Layer &layer, int rep) {
    std::int32_t &closest = layer.closest[rep];
    if (closest < 0)
        for (const std::int32_t slot : layer.members[rep]) {
            const double distance = points_[slot].distance,
                         known = closest < 0 ? infinity : points_[closest].distance;
            if (distance < known || (distance == known && slot < closest)) closest = slot;
        }
    return closest;
}

void Layers::settle() {
    const int depth_of = settings_.strict ? first_overdue() : first_overflowing();
    if (depth_of >= 0) build_from(depth_of);
}

// The worst-case schedule: a layer is rebuilt after half as many updates as it was built from.
int Layers::first_overdue() const {
    if (depth() > max_layers) return 0;
    for (int d = 0; d < depth(); ++d) {
        std::int64_t due = std::max(at(d).offered / 2, least_updates);
        if (d + 1 == depth()) due = std::max<std::int64_t>(due, settings_.fine_sample_size());
        if (at(d).updates > due) return d;
    }
    return -1;
}

// The lazy schedule: only a last layer that holds too much is rebuilt. A layer before it joins in if it is
// small beside what is being rebuilt anyway; joining every smaller one would cascade to a full rebuild each
// time.
int Layers::first_overflowing() const {
    if (depth() > max_layers) return 0;
    if (depth() == 0) return -1;
    int d = depth() - 1;
    std::int64_t taken = at(d).live;
    if (taken <= 2 * settings_.keep(points_.size())) return -1;
    for (; d > 0 && at(d - 1).live < taken / 4; --d) taken += at(d - 1).live;
    return d;
}

bool Layers::worn() const {
    for (int d = 0; d + 1 < depth(); ++d)
        if (4 * at(d).live < at(d).built) return true;
    return false;
}

double Layers::widest() const {
    double widest = 0;
    for (int d = 0; d + 1 < depth(); ++d) widest = std::max(widest, space_.real(at(d).limit));
    return widest;
}

// Replaces the layers from this depth on. Nothing changes until everything is computed, so that the poll may
// throw.
void Layers::build_from(int from) {
    std::vector<std::int32_t> rest;
    for (int d = from; d < depth(); ++d)
        for (const auto &members : at(d).members) rest.insert(rest.end(), members.begin(), members.end());
    const std::uint64_t counter = rng_.counter();
    const std::int64_t keep = settings_.keep(points_.size());
    std::vector<Draft> drafts;
    try {
        while (static_cast<std::int64_t>(rest.size()) > keep)
            drafts.push_back(draw(rest, settings_.sample_size(), false));
        const bool exact = static_cast<std::int64_t>(rest.size()) <= 2 * settings_.fine_sample_size();
        drafts.push_back(
            draw(rest, exact ? static_cast<int>(rest.size()) : settings_.fine_sample_size(), true));
    } catch (...) {
        rng_.set_counter(counter);
        throw;
    }
    while (depth() > from) drop(depth() - 1);
    for (Draft &draft : drafts) {
        const std::int32_t number = adopt(std::move(draft.layer));
        order_.push_back(number);
        for (std::size_t i = 0; i < draft.slot.size(); ++i)
            place(draft.slot[i], number, draft.rep[i], space_.real(draft.raw[i]));
    }
    Layer &last = at(depth() - 1);
    for (int rep = last.reps() - 1; rep >= 0; --rep)
        if (last.members[rep].empty()) last.vacant.push_back(rep);
    ++rebuilds_;
    if (from == 0) {
        ++full_rebuilds_;
        updates_since_full_ = 0;
        size_at_full_ = points_.size();
    }
}

// Samples `count` of the rest and takes from it the nearer half, or, as the last layer, everything.
Layers::Draft Layers::draw(std::vector<std::int32_t> &rest, int count, bool last) {
    Draft draft{std::make_unique<Layer>(space_), {}, {}, {}};
    Layer &layer = *draft.layer;
    layer.offered = static_cast<std::int64_t>(rest.size());
    for (int i = 0; i < count; ++i) {
        const std::size_t left = rest.size() - i;
        if (left > 1) std::swap(rest[i], rest[i + rng_.below(static_cast<std::int32_t>(left))]);
        layer.sample.push(points_.at(rest[i], point_.data()));
    }
    std::vector<double> raw(rest.size(), 0.0);
    std::vector<std::int32_t> rep(rest.size());
    if (static_cast<std::size_t>(count) == rest.size())
        std::iota(rep.begin(), rep.end(), 0);
    else
        assign_nearest(draft, rest, raw, rep);
    if (!last) {
        std::vector<double> sorted = raw;
        const auto median = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
        std::nth_element(sorted.begin(), median, sorted.end());
        layer.limit = *median;
    }
    std::size_t left = 0;
    for (std::size_t i = 0; i < rest.size(); ++i) {
        if (raw[i] <= layer.limit)
            draft.take(rest[i], rep[i], raw[i]);
        else
            rest[left++] = rest[i];
    }
    rest.resize(left);
    layer.built = static_cast<std::int64_t>(draft.slot.size());
    if (!last) sort_by_weight(draft);
    layer.members.resize(layer.reps());
    layer.far.assign(layer.reps(), 0);
    layer.closest.assign(layer.reps(), -1);
    return draft;
}

void Layers::assign_nearest(const Draft &draft, const std::vector<std::int32_t> &rest,
                            std::vector<double> &raw, std::vector<std::int32_t> &rep) {
    const Blocks &sample = draft.layer->sample;
    const auto n = static_cast<std::int64_t>(rest.size());
    const std::int64_t work = static_cast<std::int64_t>(sample.size()) * (space_.width + 1);
    const std::int64_t piece = std::max<std::int64_t>(1, 50'000'000 / work); // some 20 ms between polls
    for (std::int64_t begin = 0; begin < n; begin += piece) {
        poll_();
        const std::int64_t end = std::min(n, begin + piece);
        const bool parallel = settings_.threads > 1 && (end - begin) * work > 1'000'000;
#pragma omp parallel num_threads(settings_.threads) if (parallel)
        {
            std::vector<double> point(space_.width);
#pragma omp for schedule(static)
            for (std::int64_t i = begin; i < end; ++i) {
                const Hit hit = scans_.nearest(space_, points_.at(rest[i], point.data()), sample.view());
                raw[i] = hit.raw;
                rep[i] = hit.index;
            }
        }
    }
    distances_ += n * sample.size();
}

// Puts heavy representatives first: an insertion stops at the first one that is near enough.
void Layers::sort_by_weight(Draft &draft) {
    const int reps = draft.layer->reps();
    std::vector<std::int64_t> weight(reps, 0);
    for (const std::int32_t rep : draft.rep) ++weight[rep];
    std::vector<std::int32_t> order(reps), rank(reps);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return weight[a] > weight[b]; });
    Blocks sorted(space_);
    std::vector<double> point(space_.width);
    for (int i = 0; i < reps; ++i) {
        draft.layer->sample.get(order[i], point.data());
        sorted.push(point.data());
        rank[order[i]] = i;
    }
    draft.layer->sample = std::move(sorted);
    for (std::int32_t &rep : draft.rep) rep = rank[rep];
}

std::int32_t Layers::adopt(std::unique_ptr<Layer> layer) {
    if (unused_.empty()) {
        pool_.push_back(std::move(layer));
        return static_cast<std::int32_t>(pool_.size()) - 1;
    }
    const std::int32_t number = unused_.back();
    unused_.pop_back();
    pool_[number] = std::move(layer);
    return number;
}

void Layers::drop(int depth_of) {
    pool_[order_[depth_of]].reset();
    unused_.push_back(order_[depth_of]);
    order_.erase(order_.begin() + depth_of);
}

void Layers::validate() const {
    const auto require = [](bool holds, const char *what) {
        if (!holds) throw std::logic_error(std::string("the layers are inconsistent: ") + what);
    };
    std::vector<double> centre(space_.width), member(space_.width);
    std::int64_t total = 0;
    for (int d = 0; d < depth(); ++d) {
        const Layer &layer = at(d);
        std::int64_t live = 0;
        for (int rep = 0; rep < layer.reps(); ++rep) {
            layer.sample.get(rep, centre.data());
            live += static_cast<std::int64_t>(layer.members[rep].size());
            for (std::size_t i = 0; i < layer.members[rep].size(); ++i) {
                const std::int32_t slot = layer.members[rep][i];
                const Point &point = points_[slot];
                require(point.layer == order_[d] && point.rep == rep, "a member belongs elsewhere");
                require(point.position == static_cast<std::int32_t>(i), "a member's position");
                const double raw = space_.raw_distance(points_.at(slot, member.data()), centre.data());
                require(raw <= layer.limit, "a member lies beyond its layer's radius");
                require(space_.real(raw) == point.distance, "a member's distance");
                require(point.distance <= layer.far[rep], "the distance of the farthest member");
                const std::int32_t closest = layer.closest[rep];
                require(closest < 0 || points_[closest].distance <= point.distance, "the closest member");
            }
        }
        require(live == layer.live, "the number of a layer's members");
        require(live > 0 || d + 1 == depth(), "an empty layer");
        total += live;
    }
    require(total == points_.size(), "the number of points");
}

} // namespace icml::kcenter
