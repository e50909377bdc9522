#include "coreset.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

namespace icml::kcenter {

Coreset::Coreset(const Points &points, const Layers &layers, const Space &space)
    : points_(points), layers_(layers), blocks_(space.width), number_(layers.depth()) {
    std::vector<double> point(space.width);
    for (int d = 0; d < layers.depth(); ++d) {
        const Layer &layer = layers.at(d);
        number_[d].assign(layer.reps(), -1);
        for (int rep = 0; rep < layer.reps(); ++rep) {
            if (layer.members[rep].empty()) continue;
            number_[d][rep] = blocks_.size();
            layer.sample.get(rep, point.data());
            blocks_.push(point.data());
            rows_.insert(rows_.end(), point.begin(), point.end());
            depth_.push_back(d);
            rep_.push_back(rep);
        }
    }
}

std::vector<Division> Coreset::divisions(double eps, std::int64_t z, std::int64_t allowed) const {
    std::vector<double> distance;
    for (const auto &members : layers_.at(layers_.depth() - 1).members)
        for (const std::int32_t slot : members) distance.push_back(points_[slot].distance);
    std::sort(distance.begin(), distance.end(), std::greater<>());
    const double step = std::max(eps * static_cast<double>(z), 1.0);
    std::vector<Division> result;
    for (int j = 0;; ++j) {
        const auto wanted = std::min(static_cast<std::int64_t>(j * step), allowed);
        const auto i = static_cast<std::size_t>(wanted);
        const double threshold = i < distance.size() ? distance[i] : 0;
        if (result.empty() || threshold < result.back().threshold) {
            const auto beyond =
                std::lower_bound(distance.begin(), distance.end(), threshold, std::greater<>());
            result.push_back({threshold, beyond - distance.begin()});
        }
        if (threshold == 0 || wanted == allowed) return result;
    }
}

void Coreset::divide(const Division &division, std::vector<std::int32_t> &weight,
                     std::vector<double> &slack) const {
    weight.assign(padded(size()), 0);
    slack.assign(size(), 0);
    for (int i = 0; i < size(); ++i) {
        const Layer &layer = layers_.at(depth_[i]);
        const auto &members = layer.members[rep_[i]];
        if (depth_[i] + 1 < layers_.depth()) {
            weight[i] = static_cast<std::int32_t>(members.size());
            slack[i] = layer.far[rep_[i]];
            continue;
        }
        for (const std::int32_t slot : members)
            if (const double distance = points_[slot].distance; distance <= division.threshold) {
                ++weight[i];
                slack[i] = std::max(slack[i], distance);
            }
    }
}

} // namespace icml::kcenter
