#include "greedy.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

#include <unistd.h>

namespace icml::kcenter {

namespace {

constexpr float tolerance = 1.01F;   // ratio at which the bisection ends
constexpr float expansion = 3.0001F; // a little more than 3, so that rounding breaks no triangle
constexpr int max_polish_rounds = 10;
constexpr std::int64_t parallel_work = 200'000; // matrix entries that are worth a team of threads

struct Cover {
    std::vector<std::int32_t> centers;
    std::int64_t uncovered = 0;
};

// One problem's greedy, with its buffers.
class Greedy {
  public:
    explicit Greedy(const StaticProblem &problem)
        : problem_(problem), matrix_(problem.distance), scans_(matrix_.scans()), counts_(matrix_.stride()),
          covered_(matrix_.size()), enough_(std::min(problem.budget, problem.strict)) {}

    Cover cover(float radius) {
        count(radius);
        std::fill(covered_.begin(), covered_.end(), 0);
        Cover result{{}, problem_.total()};
        while (static_cast<int>(result.centers.size()) < problem_.k && result.uncovered > enough_) {
            const auto heaviest = std::max_element(counts_.begin(), counts_.begin() + matrix_.size());
            const auto centre = static_cast<std::int32_t>(heaviest - counts_.begin());
            result.centers.push_back(centre);
            result.uncovered -= take(centre, radius);
        }
        return result;
    }

  private:
    void count(float radius) {
        const int size = matrix_.size();
        const bool parallel = static_cast<std::int64_t>(size) * size > parallel_work;
#pragma omp parallel for schedule(static) num_threads(problem_.threads) if (parallel)
        for (int a = 0; a < size; ++a)
            counts_[a] = scans_.sum_within(matrix_.row(a), problem_.weight.data(), matrix_.stride(), radius);
    }

    // Covers what lies around the centre; returns its weight.
    std::int64_t take(std::int32_t centre, float radius) {
        std::vector<std::int32_t> fresh;
        std::int64_t weight = 0;
        const float *row = matrix_.row(centre);
        for (int t = 0; t < matrix_.size(); ++t)
            if (!covered_[t] && row[t] <= expansion * radius) {
                covered_[t] = 1;
                if (problem_.weight[t] == 0) continue;
                fresh.push_back(t);
                weight += problem_.weight[t];
            }
        constexpr int tile = 1024;
        const bool parallel = static_cast<std::int64_t>(fresh.size()) * matrix_.size() > parallel_work;
#pragma omp parallel for schedule(static) num_threads(problem_.threads) if (parallel)
        for (int begin = 0; begin < matrix_.stride(); begin += tile) {
            const int length = std::min(tile, matrix_.stride() - begin);
            for (const std::int32_t t : fresh)
                scans_.subtract_within(matrix_.row(t) + begin, &counts_[begin], length, radius,
                                       problem_.weight[t]);
        }
        return weight;
    }

    const StaticProblem &problem_;
    const DistanceMatrix &matrix_;
    const Scans &scans_;
    std::vector<std::int32_t> counts_;
    std::vector<char> covered_;
    std::int64_t enough_;
};

// Keeps the best answer and the failures while radii are tried.
class Search {
  public:
    Search(const StaticProblem &problem, const Poll &poll)
        : problem_(problem), greedy_(problem), poll_(poll) {}

    bool works(float radius) {
        poll_();
        Cover cover = greedy_.cover(radius);
        if (cover.uncovered > problem_.strict) {
            best.disproved = std::max(best.disproved, radius);
            disproved_zero_ = disproved_zero_ || radius == 0;
        }
        if (cover.uncovered > problem_.budget) {
            best.failed = std::max(best.failed, radius);
            return false;
        }
        best.centers = std::move(cover.centers);
        best.radius = radius;
        return true;
    }

    bool disproved_zero() const { return disproved_zero_; }

    Disks best;

  private:
    const StaticProblem &problem_;
    Greedy greedy_;
    const Poll &poll_;
    bool disproved_zero_ = false;
};

} // namespace

std::int64_t StaticProblem::total() const {
    return std::accumulate(weight.begin(), weight.end(), std::int64_t{0});
}

void DistanceMatrix::resize(int size, const Scans &scans) {
    const double bytes = static_cast<double>(size) * padded(size) * sizeof(float);
    const double memory =
        static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
    if (bytes > memory / 2)
        throw std::length_error("comparing " + std::to_string(size) + " points pairwise takes " +
                                std::to_string(static_cast<int>(std::ceil(bytes / 1e9))) +
                                " GB of memory; a smaller k or a larger eps makes them fewer");
    size_ = size;
    stride_ = padded(size);
    scans_ = &scans;
    entries_.resize(static_cast<std::size_t>(size) * stride_);
}

void DistanceMatrix::compute(const Space &space, const Blocks &points, const Scans &scans, int threads,
                             const Poll &poll) {
    resize(points.size(), scans);
    constexpr std::int64_t work_between_polls = 50'000'000;
    const std::int64_t work =
        std::max<std::int64_t>(1, static_cast<std::int64_t>(stride_) * (space.width + 1));
    const int piece =
        static_cast<int>(std::clamp<std::int64_t>(work_between_polls / work, 1, std::max(size_, 1)));
    for (int begin = 0; begin < size_; begin += piece) {
        poll();
        const int end = std::min(size_, begin + piece);
        const bool parallel = static_cast<std::int64_t>(end - begin) * size_ > parallel_work;
#pragma omp parallel num_threads(threads) if (parallel)
        {
            std::vector<double> point(space.width);
#pragma omp for schedule(static)
            for (int a = begin; a < end; ++a) {
                points.get(a, point.data());
                scans.row(space, point.data(), points.view(),
                          &entries_[static_cast<std::size_t>(a) * stride_]);
            }
        }
    }
    find_range(threads);
}

void DistanceMatrix::copy(const double *square, int size, const Scans &scans) {
    resize(size, scans);
    for (int a = 0; a < size; ++a) {
        float *row = &entries_[static_cast<std::size_t>(a) * stride_];
        for (int b = 0; b < size; ++b)
            row[b] = static_cast<float>(square[static_cast<std::size_t>(a) * size + b]);
        std::fill(row + size, row + stride_, std::numeric_limits<float>::infinity());
    }
    find_range(1);
}

void DistanceMatrix::find_range(int threads) {
    float least = std::numeric_limits<float>::infinity(), greatest = 0;
#pragma omp parallel for schedule(static) num_threads(threads) reduction(min : least)                        \
    reduction(max : greatest) if (static_cast<std::int64_t>(size_) * size_ > parallel_work)
    for (int a = 0; a < size_; ++a)
        for (int b = 0; b < a; ++b) {
            const float x = row(a)[b];
            greatest = std::max(greatest, x);
            least = std::min(least, x > 0 ? x : std::numeric_limits<float>::infinity());
        }
    least_ = least;
    greatest_ = greatest;
}

Disks smallest_disks(const StaticProblem &problem, const Guess &guess, const Poll &poll) {
    Search search(problem, poll);
    const float least = problem.distance.least(), greatest = problem.distance.greatest();
    if (greatest == 0) { // all points equal
        search.works(0);
        return search.best;
    }
    float low = least / 2, high = greatest;          // below `low` only radius 0 is left
    if (guess.radius > low && guess.radius < high) { // gallop away from the guess, faster and faster
        float stride = guess.doubt;
        bool worked = search.works(guess.radius);
        (worked ? high : low) = guess.radius;
        for (float r = guess.radius;;) {
            r = worked ? r / stride : r * stride;
            if (!(r > least / 2 && r < greatest)) break;
            const bool works = search.works(r);
            (works ? high : low) = r;
            if (works != worked) break;
            stride *= stride;
        }
    }
    while (high > tolerance * low) {
        const auto middle = static_cast<float>(std::sqrt(static_cast<double>(low) * high));
        if (!(middle > low && middle < high)) break;
        (search.works(middle) ? high : low) = middle;
    }
    if (low <= least / 2) {
        if (search.works(0)) return search.best;
        const float below =
            std::nextafter(least, 0.0F); // where 0 fails, so does all below the least distance
        search.best.failed = std::max(search.best.failed, below);
        if (search.disproved_zero()) search.best.disproved = std::max(search.best.disproved, below);
        if (search.best.centers.empty() || search.best.radius > high) search.works(high);
    } else if (high == greatest) {
        search.works(high);
    }
    return search.best;
}

Assignment assign(const StaticProblem &problem, std::span<const std::int32_t> centers) {
    const int size = problem.distance.size();
    Assignment result;
    result.owner.assign(size, -1);
    std::vector<float> reach(size, std::numeric_limits<float>::infinity());
    for (std::size_t j = 0; j < centers.size(); ++j) {
        const float *row = problem.distance.row(centers[j]);
        for (int t = 0; t < size; ++t) {
            const bool nearer = row[t] < reach[t] || result.owner[t] < 0;
            reach[t] = nearer ? row[t] : reach[t];
            result.owner[t] = nearer ? static_cast<std::int32_t>(j) : result.owner[t];
        }
    }
    std::vector<std::pair<float, std::int32_t>> heap;
    for (int t = 0; t < size; ++t)
        if (problem.weight[t] > 0) heap.emplace_back(reach[t] + problem.slack[t], t);
    std::make_heap(heap.begin(), heap.end());
    for (std::int64_t budget = problem.budget; !heap.empty();) {
        const std::int32_t t = heap.front().second;
        if (problem.weight[t] > budget) {
            result.radius = heap.front().first;
            result.farthest = t;
            break;
        }
        budget -= problem.weight[t];
        result.owner[t] = -1;
        std::pop_heap(heap.begin(), heap.end());
        heap.pop_back();
    }
    return result;
}

namespace {

// The point of the cluster whose farthest fellow, slack included, is nearest.
std::int32_t middle_of(const StaticProblem &problem, std::span<const std::int32_t> cluster,
                       std::int32_t centre) {
    const auto reach = [&](std::int32_t a, float enough) {
        const float *row = problem.distance.row(a);
        float farthest = 0;
        for (const std::int32_t t : cluster) {
            farthest = std::max(farthest, row[t] + problem.slack[t]);
            if (farthest >= enough) break;
        }
        return farthest;
    };
    float best = reach(centre, std::numeric_limits<float>::infinity());
    for (const std::int32_t a : cluster)
        if (const float r = reach(a, best); r < best) {
            best = r;
            centre = a;
        }
    return centre;
}

} // namespace

Assignment polish(const StaticProblem &problem, std::vector<std::int32_t> &centers, const Poll &poll) {
    Assignment now = assign(problem, centers);
    while (static_cast<int>(centers.size()) < problem.k && now.farthest >= 0 &&
           (centers.empty() ||
            problem.distance.row(now.farthest)[centers[std::max(now.owner[now.farthest], 0)]] > 0)) {
        centers.push_back(now.farthest);
        now = assign(problem, centers);
    }
    for (int round = 0; round < max_polish_rounds; ++round) {
        poll();
        std::vector<std::vector<std::int32_t>> clusters(centers.size());
        for (int t = 0; t < problem.distance.size(); ++t)
            if (now.owner[t] >= 0 && problem.weight[t] > 0) clusters[now.owner[t]].push_back(t);
        std::vector<std::int32_t> moved = centers;
        for (std::size_t j = 0; j < centers.size(); ++j)
            if (!clusters[j].empty()) moved[j] = middle_of(problem, clusters[j], centers[j]);
        Assignment then = assign(problem, moved);
        if (!(then.radius < now.radius)) break;
        centers = std::move(moved);
        now = std::move(then);
    }
    return now;
}

} // namespace icml::kcenter
