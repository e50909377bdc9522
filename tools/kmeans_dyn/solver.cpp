#include "solver.hpp"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "refine.hpp"

namespace icml::kcenter {

namespace {
constexpr double tolerated_decay = 1.3; // of certified / failed radius since the last full build
constexpr double promised = 3;          // that ratio as the greedy promises it for all points

// Certified radii are rounded up by more than the error of computing them: each distance has a relative error
// of at most (width + 2) / 2 units in the last place, their sum one more. Hamming distances are whole
// numbers.
double round_up(const Space &space, double radius) {
    if (space.metric == Metric::hamming) return radius;
    return radius * (1 + (space.width + 8) * std::numeric_limits<double>::epsilon());
}
} // namespace

struct Solver::Try {
    std::vector<std::int32_t> weight;
    std::vector<double> slack;
    std::int64_t budget = 0;
    std::vector<std::int32_t> centers; // of the coreset
    float radius = 0;                  // over the coreset
    Disks disks;
    double lower = 0;
};

Solver::Solver(Points &points, Layers &layers, const Space &space, const Settings &settings,
               const Scans &scans, Poll poll)
    : points_(points), layers_(layers), space_(space), settings_(settings), scans_(scans),
      poll_(std::move(poll)) {}

Answer Solver::answer(int k, std::int64_t z, double sticky) {
    const std::int64_t n = points_.size();
    Answer answer;
    answer.layers = layers_.depth();
    if (n <= z) { // nothing has to be covered
        for (std::int32_t slot = points_.oldest(); slot >= 0; slot = points_[slot].newer)
            answer.outliers.push_back(slot);
        previous_.clear();
        return answer;
    }
    const auto budget = static_cast<std::int64_t>(std::floor((1 + settings_.eps) * static_cast<double>(z)));
    const std::int64_t allowed = std::min(budget, n - 1);
    bool fresh = !settings_.strict && layers_.worn();
    if (fresh) layers_.rebuild();
    Solution solution = solve(k, z, allowed);
    if (!fresh && is_stale(k, solution)) {
        layers_.rebuild();
        solution = solve(k, z, allowed);
        fresh = true;
    }
    remember(k, solution, fresh);
    keep_previous(solution, allowed, sticky);
    answer.centers = std::move(solution.centers);
    answer.sizes = std::move(solution.certificate.sizes);
    answer.outliers = std::move(solution.certificate.outliers);
    answer.radius = round_up(space_, solution.certificate.radius);
    answer.lower = solution.lower;
    answer.layers = layers_.depth();
    answer.coreset = solution.coreset;
    const std::unordered_set<std::string> before(previous_.begin(), previous_.end());
    previous_.clear();
    for (const std::int32_t slot : answer.centers) {
        answer.recourse += !before.contains(points_[slot].id);
        previous_.push_back(points_[slot].id);
    }
    return answer;
}

// Whether the answer is bad enough to look for a better one in fresh layers: worse than after the last full
// build, or, if there was no answer for this k then and the points changed a lot since, worse than promised.
bool Solver::is_stale(int k, const Solution &solution) const {
    if (settings_.strict || solution.exact) return false;
    const auto known = reference_.find(k);
    if (reference_build_ == layers_.full_rebuilds() && known != reference_.end())
        return solution.decay() > tolerated_decay * known->second;
    return layers_.updates_since_full() > layers_.size_at_full() / 2 &&
           solution.decay() > tolerated_decay * promised;
}

void Solver::remember(int k, const Solution &solution, bool fresh) {
    if (reference_build_ != layers_.full_rebuilds()) reference_.clear();
    reference_build_ = layers_.full_rebuilds();
    if (fresh || !reference_.contains(k)) reference_[k] = solution.decay();
}

Solver::Solution Solver::solve(int k, std::int64_t z, std::int64_t allowed) {
    const Coreset coreset(points_, layers_, space_);
    matrix_.compute(space_, coreset.blocks(), scans_, settings_.threads, poll_);
    Solution solution;
    const Try best = best_attempt(coreset, k, z, allowed, solution.lower);
    solution.coreset = coreset.size();
    solution.failed = best.disks.failed;
    solution.exact = std::all_of(best.slack.begin(), best.slack.end(), [](double x) { return x == 0; });
    solution.centers = live_centers(coreset, best);
    solution.certificate = certify(points_, layers_, coreset, space_, scans_, solution.centers, allowed);
    return solution;
}

// The radius is nearly unimodal in what is given up outright: walk from the division that was best before.
Solver::Try Solver::best_attempt(const Coreset &coreset, int k, std::int64_t z, std::int64_t allowed,
                                 double &lower) {
    const std::vector<Division> divisions = coreset.divisions(settings_.eps, z, allowed);
    if (guess_.radius == 0) guess_ = {static_cast<float>(layers_.widest()), 1.4F};
    const auto at = [&](int i) {
        Try result = attempt(coreset, divisions[i], k, z, allowed);
        lower = std::max(lower, result.lower);
        return result;
    };
    int here = std::min(division_, static_cast<int>(divisions.size()) - 1);
    Try best = at(here);
    const int start = here;
    for (const int direction : {1, -1}) {
        if (here != start) break;
        for (int i = start + direction; i >= 0 && i < static_cast<int>(divisions.size()); i += direction) {
            Try other = at(i);
            if (!(other.radius < best.radius)) break;
            best = std::move(other);
            here = i;
        }
    }
    division_ = here;
    guess_ = {best.disks.radius};
    return best;
}

Solver::Try Solver::attempt(const Coreset &coreset, const Division &division, int k, std::int64_t z,
                            std::int64_t allowed) {
    Try result;
    coreset.divide(division, result.weight, result.slack);
    result.budget = allowed - division.given_up;
    const std::vector<float> slack(result.slack.begin(), result.slack.end());
    const StaticProblem problem{matrix_, result.weight, slack, k, result.budget, z, settings_.threads};
    result.disks = smallest_disks(problem, guess_, poll_);
    guess_ = {result.disks.radius};
    result.centers = result.disks.centers;
    result.radius = polish(problem, result.centers, poll_).radius;
    // An optimal centre and its points move by at most the slack when they go to their representatives. If
    // points were given up, the centre may be one of them; then another point of its cluster stands in, at
    // twice the distance.
    double slack_most = 0;
    for (int i = 0; i < coreset.size(); ++i)
        if (result.weight[i] > 0) slack_most = std::max(slack_most, result.slack[i]);
    const double reach = result.disks.disproved * (1 - 1e-6) - 2 * slack_most * (1 + 1e-6);
    result.lower = std::max(0.0, division.given_up > 0 ? reach / 2 : reach);
    return result;
}

std::vector<std::int32_t> Solver::live_centers(const Coreset &coreset, const Try &attempt) {
    std::vector<std::int32_t> centers;
    for (const std::int32_t i : attempt.centers) {
        Layer &layer = layers_.at(coreset.depth(i));
        centers.push_back(layers_.closest_member(layer, coreset.rep(i)));
    }
    refine({points_, layers_, coreset, space_, scans_, attempt.weight, attempt.slack, attempt.budget},
           centers);
    return centers;
}

// Centres that died are replaced by the new centres nearest to none of those that stay.
void Solver::keep_previous(Solution &solution, std::int64_t allowed, double sticky) {
    if (!(sticky > 0) || previous_.empty()) return;
    std::vector<std::int32_t> kept;
    for (const std::string &id : previous_)
        if (const std::int32_t slot = points_.find(id); slot >= 0) kept.push_back(slot);
    if (kept.empty() || kept.size() > solution.centers.size()) return;
    std::vector<double> point(space_.width);
    while (kept.size() < solution.centers.size()) {
        Blocks blocks(space_);
        for (const std::int32_t slot : kept) blocks.push(points_.at(slot, point.data()));
        std::int32_t farthest = -1;
        double most = -1;
        for (const std::int32_t slot : solution.centers) {
            const double raw = scans_.nearest(space_, points_.at(slot, point.data()), blocks.view()).raw;
            if (raw > most) {
                most = raw;
                farthest = slot;
            }
        }
        if (most == 0) break;
        kept.push_back(farthest);
    }
    Certificate certificate =
        certify(points_, layers_, Coreset(points_, layers_, space_), space_, scans_, kept, allowed);
    if (certificate.radius <= (1 + sticky) * solution.certificate.radius) {
        solution.centers = std::move(kept);
        solution.certificate = std::move(certificate);
    }
}

} // namespace icml::kcenter
