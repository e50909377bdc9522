#include "state.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string_view>

#include "layers.hpp"
#include "points.hpp"
#include "solver.hpp"

namespace icml::kcenter {

namespace {

void put_ids(Arrays &arrays, const std::string &name, const std::vector<std::string_view> &ids) {
    std::string &text = arrays.texts[name];
    std::vector<std::int64_t> &length = arrays.integers[name + "_length"];
    for (const std::string_view id : ids) {
        text += id;
        length.push_back(static_cast<std::int64_t>(id.size()));
    }
}

std::vector<std::string_view> get_ids(const Arrays &arrays, const std::string &name) {
    std::string_view text = arrays.text(name);
    std::vector<std::string_view> ids;
    for (const std::int64_t length : arrays.integer(name + "_length")) {
        Arrays::require(length >= 0 && static_cast<std::size_t>(length) <= text.size(), "ids");
        const std::string_view id = text.substr(0, static_cast<std::size_t>(length));
        Arrays::require(id.empty() || (static_cast<unsigned char>(id[0]) & 0xc0) != 0x80,
                        "ids"); // mid-character
        ids.push_back(id);
        text.remove_prefix(static_cast<std::size_t>(length));
    }
    Arrays::require(text.empty(), "ids");
    return ids;
}

// Takes fixed numbers of entries off an array.
template <class T> class Cursor {
  public:
    explicit Cursor(const std::vector<T> &values) : values_(values) {}

    const T *take(std::int64_t count) {
        Arrays::require(count >= 0 && static_cast<std::uint64_t>(count) <= values_.size() - at_,
                        "an array is too short");
        const T *begin = values_.data() + at_;
        at_ += static_cast<std::size_t>(count);
        return begin;
    }
    T next() { return *take(1); }
    void finish() const { Arrays::require(at_ == values_.size(), "an array is too long"); }

  private:
    const std::vector<T> &values_;
    std::size_t at_ = 0;
};

} // namespace

void Points::save(Arrays &arrays) const {
    std::vector<std::string_view> ids;
    std::vector<std::int64_t> &slot_of = arrays.integers["slot"];
    std::vector<double> &times = arrays.reals["times"], point(width_);
    Words coordinates(words_.storage());
    for (std::int32_t slot = oldest_; slot >= 0; slot = points_[slot].newer) {
        slot_of.push_back(slot);
        ids.push_back(points_[slot].id);
        coordinates.append(width_, at(slot, point.data()));
        if (timed()) times.push_back(time(slot));
    }
    arrays.put("coordinates", std::move(coordinates));
    put_ids(arrays, "ids", ids);
    arrays.integers["free"].assign(free_.begin(), free_.end());
}

void Points::load(const Arrays &arrays) {
    const auto ids = get_ids(arrays, "ids");
    const auto &slot_of = arrays.integer("slot"), &free = arrays.integer("free");
    const Words coordinates = arrays.words("coordinates", words_.storage());
    const auto &times = arrays.real("times");
    std::vector<double> point(width_);
    Arrays::require(slot_of.size() == ids.size() && coordinates.size() == ids.size() * width_, "points");
    Arrays::require(times.empty() || times.size() == ids.size(), "times");
    const std::size_t slots = ids.size() + free.size();
    Arrays::require(slots < std::numeric_limits<std::int32_t>::max(), "points");
    std::vector<char> used(slots, 0);
    const auto claim = [&](std::int64_t slot) {
        Arrays::require(slot >= 0 && static_cast<std::size_t>(slot) < slots && !used[slot], "slots");
        used[slot] = 1;
        return static_cast<std::int32_t>(slot);
    };
    points_.resize(slots);
    words_.resize(slots * width_);
    for (const std::int64_t slot : free) free_.push_back(claim(slot));
    for (std::size_t i = 0; i < ids.size(); ++i) {
        const std::int32_t slot = claim(slot_of[i]);
        Arrays::require(find(ids[i]) < 0, "an id twice");
        coordinates.read(i * width_, width_, point.data());
        words_.write(offset(slot), width_, point.data());
        points_[slot].id.assign(ids[i]);
        index_.insert(IdIndex::hash(ids[i]), slot);
        append(slot);
        if (!times.empty()) set_time(slot, times[i]);
    }
}

void Layers::save(Arrays &arrays) const {
    auto &counts = arrays.integers["layers"], &sizes = arrays.integers["member_counts"];
    auto &members = arrays.integers["members"], &vacant = arrays.integers["vacant"];
    auto &limits = arrays.reals["limits"], &far = arrays.reals["far"];
    Words sample(space_.storage);
    std::vector<double> point(space_.width);
    for (int d = 0; d < depth(); ++d) {
        const Layer &layer = at(d);
        counts.insert(counts.end(), {layer.reps(), layer.built, layer.offered, layer.updates});
        limits.push_back(layer.limit);
        far.insert(far.end(), layer.far.begin(), layer.far.end());
        for (int rep = 0; rep < layer.reps(); ++rep) {
            layer.sample.get(rep, point.data());
            sample.append(space_.width, point.data());
            sizes.push_back(static_cast<std::int64_t>(layer.members[rep].size()));
            members.insert(members.end(), layer.members[rep].begin(), layer.members[rep].end());
        }
        if (d + 1 == depth()) vacant.assign(layer.vacant.begin(), layer.vacant.end());
    }
    arrays.put("sample", std::move(sample));
    arrays.integers["counters"] = {static_cast<std::int64_t>(rng_.counter()),
                                   rebuilds_,
                                   full_rebuilds_,
                                   distances_,
                                   updates_since_full_,
                                   size_at_full_};
}

void Layers::load(const Arrays &arrays) {
    const auto &counts = arrays.integer("layers");
    Arrays::require(counts.size() % 4 == 0, "layers");
    Cursor count(counts), size(arrays.integer("member_counts")), member(arrays.integer("members"));
    Cursor limit(arrays.real("limits")), far(arrays.real("far"));
    const Words sample = arrays.words("sample", space_.storage);
    const auto width = static_cast<std::size_t>(space_.width);
    std::size_t sampled = 0;
    std::vector<double> centre(width), x(width);
    for (std::size_t d = 0; d < counts.size() / 4; ++d) {
        auto layer = std::make_unique<Layer>(space_);
        const std::int64_t reps = count.next();
        layer->built = count.next();
        layer->offered = count.next();
        layer->updates = count.next();
        layer->limit = limit.next();
        const double *far_of = far.take(reps);
        Arrays::require(std::all_of(far_of, far_of + reps, [](double x) { return x >= 0 && x < infinity; }),
                        "far");
        layer->members.resize(static_cast<std::size_t>(reps));
        layer->far.assign(static_cast<std::size_t>(reps), 0);
        layer->closest.assign(static_cast<std::size_t>(reps), -1);
        Arrays::require(static_cast<std::uint64_t>(reps) <= (sample.size() - sampled) / width,
                        "an array is too short");
        for (std::int64_t rep = 0; rep < reps; ++rep, sampled += width) {
            sample.read(sampled, space_.width, x.data());
            layer->sample.push(x.data());
        }
        const std::int32_t number = adopt(std::move(layer));
        order_.push_back(number);
        for (int rep = 0; rep < reps; ++rep) {
            pool_[number]->sample.get(rep, centre.data());
            for (std::int64_t left = size.next(); left > 0; --left) {
                const std::int64_t slot = member.next();
                Arrays::require(0 <= slot && slot < points_.slots(), "members");
                const Point &point = points_[static_cast<std::int32_t>(slot)];
                Arrays::require(points_.find(point.id) == slot, "a member that is no live point");
                Arrays::require(point.layer < 0, "a member twice");
                const double raw =
                    space_.raw_distance(points_.at(static_cast<std::int32_t>(slot), x.data()), centre.data());
                place(static_cast<std::int32_t>(slot), number, rep, space_.real(raw));
            }
            pool_[number]->far[rep] = far_of[rep];
            pool_[number]->closest[rep] = -1;
        }
    }
    for (const std::int64_t rep : arrays.integer("vacant")) {
        Arrays::require(depth() > 0 && 0 <= rep && rep < at(depth() - 1).reps(), "vacant representatives");
        at(depth() - 1).vacant.push_back(static_cast<std::int32_t>(rep));
    }
    for (const auto &cursor : {size, member}) cursor.finish();
    for (const auto &cursor : {limit, far}) cursor.finish();
    Arrays::require(sampled == sample.size(), "an array is too long");
    Cursor counter(arrays.integer("counters"));
    rng_.set_counter(static_cast<std::uint64_t>(counter.next()));
    for (std::int64_t *value :
         {&rebuilds_, &full_rebuilds_, &distances_, &updates_since_full_, &size_at_full_})
        *value = counter.next();
    counter.finish();
    try {
        validate();
    } catch (const std::logic_error &error) {
        throw BadState(error.what());
    }
}

void Solver::save(Arrays &arrays) const {
    arrays.reals["guess"] = {guess_.radius};
    arrays.integers["division"] = {division_, reference_build_};
    for (const auto &[k, value] : reference_) {
        arrays.integers["reference_k"].push_back(k);
        arrays.reals["reference"].push_back(value);
    }
    put_ids(arrays, "previous", {previous_.begin(), previous_.end()});
    arrays.integers["reference_k"];
    arrays.reals["reference"];
}

void Solver::load(const Arrays &arrays) {
    Cursor guess(arrays.real("guess")), reference(arrays.real("reference"));
    Cursor division(arrays.integer("division")), k(arrays.integer("reference_k"));
    guess_.radius = static_cast<float>(guess.next());
    division_ = static_cast<int>(division.next());
    Arrays::require(division_ >= 0, "division");
    reference_build_ = division.next();
    for (std::size_t i = 0; i < arrays.integer("reference_k").size(); ++i)
        reference_[static_cast<int>(k.next())] = reference.next();
    reference.finish();
    for (const std::string_view id : get_ids(arrays, "previous")) previous_.emplace_back(id);
}

} // namespace icml::kcenter
