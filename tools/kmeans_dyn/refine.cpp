#include "refine.hpp"

#include <algorithm>
#include <utility>

namespace icml::kcenter {

namespace {

constexpr int max_rounds = 4;
constexpr int candidates_at_home = 32, candidates_nearby = 16, nearby = 2;

struct Cluster {
    std::vector<std::pair<double, std::int32_t>>
        reach; // (distance to the centre + slack, coreset point), farthest first
};

struct Partition {
    double radius = 0;
    std::vector<Cluster> clusters;
};

Partition partition(const RefineProblem &problem, const std::vector<std::int32_t> &centers) {
    Blocks blocks(problem.space);
    std::vector<double> point(problem.space.width);
    for (const std::int32_t slot : centers) blocks.push(problem.points.at(slot, point.data()));
    struct Entry {
        double reach;
        std::int32_t point, owner;
    };
    std::vector<Entry> entries;
    for (int i = 0; i < problem.coreset.size(); ++i) {
        if (problem.weight[i] == 0) continue;
        const Hit hit = problem.scans.nearest(problem.space, problem.coreset.point(i), blocks.view());
        entries.push_back({problem.space.real(hit.raw) + problem.slack[i], i, hit.index});
    }
    std::sort(entries.begin(), entries.end(), [](const Entry &a, const Entry &b) {
        return a.reach != b.reach ? a.reach > b.reach : a.point < b.point;
    });
    std::size_t kept = 0;
    for (std::int64_t budget = problem.budget; kept < entries.size(); ++kept) {
        budget -= problem.weight[entries[kept].point];
        if (budget < 0) break;
    }
    Partition result;
    result.clusters.resize(centers.size());
    result.radius = kept < entries.size() ? entries[kept].reach : 0;
    for (std::size_t i = kept; i < entries.size(); ++i)
        result.clusters[entries[i].owner].reach.emplace_back(entries[i].reach, entries[i].point);
    return result;
}

// Members of the centre's own representative, and of the cluster's two nearest to it, spread over their
// lists.
std::vector<std::int32_t> candidates(const RefineProblem &problem, const Cluster &cluster,
                                     std::int32_t centre) {
    std::vector<std::int32_t> result;
    const auto add = [&](const std::vector<std::int32_t> &members, std::size_t most) {
        const std::size_t count = std::min(most, members.size());
        for (std::size_t i = 0; i < count; ++i) result.push_back(members[i * members.size() / count]);
    };
    add(problem.layers.members_of(centre), candidates_at_home);
    std::vector<std::pair<double, std::int32_t>> near;
    std::vector<double> buffer(problem.space.width);
    const double *const x = problem.points.at(centre, buffer.data());
    for (const auto &[reach, i] : cluster.reach)
        near.emplace_back(problem.space.raw_distance(x, problem.coreset.point(i)), i);
    const auto end = near.begin() + std::min<std::ptrdiff_t>(nearby + 1, std::ssize(near));
    std::partial_sort(near.begin(), end, near.end());
    for (auto it = near.begin(); it != end; ++it) {
        const int depth = problem.coreset.depth(it->second);
        add(problem.layers.at(depth).members[problem.coreset.rep(it->second)], candidates_nearby);
    }
    return result;
}

std::int32_t better_centre(const RefineProblem &problem, const Cluster &cluster, std::int32_t centre) {
    if (cluster.reach.empty()) return centre;
    double best = cluster.reach.front().first;
    std::vector<double> buffer(problem.space.width);
    for (const std::int32_t slot : candidates(problem, cluster, centre)) {
        const double *const x = problem.points.at(slot, buffer.data());
        double farthest = 0;
        for (const auto &[reach, i] : cluster.reach) {
            const double distance = problem.space.distance(x, problem.coreset.point(i));
            farthest = std::max(farthest, distance + problem.slack[i]);
            if (farthest >= best) break;
        }
        if (farthest < best) {
            best = farthest;
            centre = slot;
        }
    }
    return centre;
}

} // namespace

void refine(const RefineProblem &problem, std::vector<std::int32_t> &centers) {
    Partition now = partition(problem, centers);
    for (int round = 0; round < max_rounds; ++round) {
        std::vector<std::int32_t> moved = centers;
        for (std::size_t j = 0; j < centers.size(); ++j)
            moved[j] = better_centre(problem, now.clusters[j], centers[j]);
        if (moved == centers) return;
        Partition then = partition(problem, moved);
        if (!(then.radius < now.radius)) return;
        centers = std::move(moved);
        now = std::move(then);
    }
}

} // namespace icml::kcenter
