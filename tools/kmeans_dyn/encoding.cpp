#include "encoding.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>
#include <stdexcept>

namespace icml::kcenter {

namespace {

constexpr double radians = std::numbers::pi / 180;

void check(double x) {
    if (!std::isfinite(x)) throw std::invalid_argument("a coordinate is not a finite number");
    if (std::abs(x) > largest_coordinate) throw std::invalid_argument("a coordinate is beyond 1e30");
}

void encode_direction(const double *coordinates, double *words, int dimension) {
    double largest = 0, sum = 0;
    for (int j = 0; j < dimension; ++j) largest = std::max(largest, std::abs(coordinates[j]));
    if (largest == 0) throw std::invalid_argument("a zero vector has no direction");
    for (int j = 0; j < dimension; ++j) sum += (coordinates[j] / largest) * (coordinates[j] / largest);
    const double length = std::sqrt(sum);
    for (int j = 0; j < dimension; ++j) words[j] = coordinates[j] / largest / length;
}

void encode_place(const double *coordinates, double *words) {
    const double latitude = coordinates[0], longitude = coordinates[1];
    if (std::abs(latitude) > 90) throw std::invalid_argument("a latitude is beyond 90 degrees");
    if (std::abs(longitude) > 360) throw std::invalid_argument("a longitude is beyond 360 degrees");
    const double c = std::cos(latitude * radians);
    words[0] = c * std::cos(longitude * radians);
    words[1] = c * std::sin(longitude * radians);
    words[2] = std::sin(latitude * radians);
}

void encode_bits(const double *coordinates, double *words, int dimension) {
    for (int begin = 0; begin < dimension; begin += 64) {
        std::uint64_t word = 0;
        for (int j = begin; j < std::min(begin + 64, dimension); ++j) {
            if (coordinates[j] != 0 && coordinates[j] != 1)
                throw std::invalid_argument("hamming takes coordinates 0 and 1 only");
            word |= static_cast<std::uint64_t>(coordinates[j]) << (j - begin);
        }
        words[begin / 64] = std::bit_cast<double>(word);
    }
}

// Without the last digits, which the way to a unit vector and back has changed: 1e-10 degrees are 0.01 mm.
double round_degrees(double x) {
    return std::round(x * 1e10) / 1e10;
}

} // namespace

Encoding::Encoding(std::string_view name, int dimension, Storage storage)
    : dimension_(dimension), width_(dimension), storage_(storage) {
    if (name == "cosine") {
        kind_ = Kind::cosine;
    } else if (name == "haversine") {
        kind_ = Kind::haversine;
        width_ = 3;
        if (dimension != 2)
            throw std::invalid_argument("haversine takes 2 coordinates, latitude and longitude in degrees");
    } else if (name == "hamming") {
        kind_ = Kind::hamming;
        metric_ = Metric::hamming;
        width_ = (dimension + 63) / 64;
    } else if (name == "precomputed") {
        kind_ = Kind::precomputed;
        metric_ = Metric::precomputed;
        dimension_ = 0;
        width_ = 1;
    } else if (name == "manhattan") {
        metric_ = Metric::manhattan;
    } else if (name == "chebyshev") {
        metric_ = Metric::chebyshev;
    } else if (name != "euclidean") {
        throw std::invalid_argument("unknown metric '" + std::string(name) + "'");
    }
    if (storage == Storage::float32 && kind_ != Kind::plain && kind_ != Kind::cosine)
        throw std::invalid_argument("float32 does not go with metric " + std::string(name));
    if (width_ < 1) throw std::invalid_argument("a point needs at least one coordinate");
}

void Encoding::encode(const double *coordinates, double *words) const {
    for (int j = 0; j < dimension_; ++j) check(coordinates[j]);
    switch (kind_) {
    case Kind::cosine:
        encode_direction(coordinates, words, dimension_);
        break;
    case Kind::haversine:
        return encode_place(coordinates, words);
    case Kind::hamming:
        return encode_bits(coordinates, words, dimension_);
    case Kind::precomputed:
        words[0] = coordinates[0];
        return;
    case Kind::plain:
        std::copy_n(coordinates, dimension_, words);
    }
    for (int j = 0; j < width_; ++j) words[j] = rounded(words[j], storage_);
}

void Encoding::decode(const double *words, double *coordinates) const {
    switch (kind_) {
    case Kind::haversine:
        coordinates[0] = round_degrees(std::atan2(words[2], std::hypot(words[0], words[1])) / radians);
        coordinates[1] = round_degrees(std::atan2(words[1], words[0]) / radians);
        return;
    case Kind::hamming:
        for (int j = 0; j < dimension_; ++j)
            coordinates[j] = static_cast<double>(std::bit_cast<std::uint64_t>(words[j / 64]) >> (j % 64) & 1);
        return;
    case Kind::cosine:
    case Kind::plain:
        std::copy_n(words, dimension_, coordinates);
        return;
    case Kind::precomputed:
        return;
    }
}

double Encoding::report(double distance) const {
    if (kind_ != Kind::cosine && kind_ != Kind::haversine) return distance;
    const double angle = distance >= 2 ? std::numbers::pi : 2 * std::asin(distance / 2);
    return kind_ == Kind::cosine ? angle : earth_radius_km * angle;
}

} // namespace icml::kcenter
