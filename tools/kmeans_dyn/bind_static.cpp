#include "binding.hpp"

#include <cstdint>
#include <stdexcept>
#include <vector>

#include "greedy.hpp"

namespace icml::kcenter {

namespace {

// Greedy disks on a square matrix, then polished: centres, radius, owner of each point (-1: given up),
// largest radius at which the greedy failed.
nb::tuple greedy_disks(const Rows &distances, const Integers &weights, int k, std::int64_t budget,
                       int threads) {
    const auto size = static_cast<int>(distances.shape(0));
    if (distances.shape(1) != distances.shape(0)) throw std::invalid_argument("the matrix is not square");
    if (weights.shape(0) != distances.shape(0)) throw std::invalid_argument("expected one weight a point");
    if (k < 1 || budget < 0) throw std::invalid_argument("k must be at least 1 and the budget not negative");
    DistanceMatrix matrix;
    matrix.copy(distances.data(), size, scans("auto"));
    std::vector<std::int32_t> weight(padded(size), 0);
    for (int i = 0; i < size; ++i) {
        if (weights.data()[i] < 0 || weights.data()[i] > INT32_MAX)
            throw std::invalid_argument("a weight is out of range");
        weight[i] = static_cast<std::int32_t>(weights.data()[i]);
    }
    const StaticProblem problem{matrix, weight, std::vector<float>(size, 0.0F), k, budget, budget, threads};
    if (problem.total() > INT32_MAX)
        throw std::invalid_argument("the weights add up to more than 2147483647");
    std::vector<std::int32_t> centers;
    Disks disks;
    Assignment assignment;
    {
        const nb::gil_scoped_release release;
        const Poll poll = poll_signals();
        disks = smallest_disks(problem, {}, poll);
        centers = disks.centers;
        assignment = polish(problem, centers, poll);
    }
    return nb::make_tuple(to_numpy(std::move(centers)), static_cast<double>(assignment.radius),
                          to_numpy(std::move(assignment.owner)), static_cast<double>(disks.disproved));
}

} // namespace

void bind_static(nb::module_ &m) {
    using namespace nb::literals;
    m.def("greedy_disks", greedy_disks, "distances"_a, "weights"_a, "k"_a, "budget"_a, "threads"_a = 1);
    m.def("instruction_sets", [] {
        nb::list names;
        for (const char *name : {"portable", "avx2", "avx512"}) {
            try {
                scans(name);
                names.append(name);
            } catch (const std::invalid_argument &) { // not on this processor
            }
        }
        return names;
    });
}

} // namespace icml::kcenter
