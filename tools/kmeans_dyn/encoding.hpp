// From the coordinates that people give to points of a metric space with a fast kernel, and distances back.
//
//   cosine     unit vectors, whose chord is a metric; distances are reported as angles in radians
//   haversine  latitude and longitude in degrees as unit vectors; distances are reported in kilometres
//   hamming    zeros and ones packed into words
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "distance.hpp"

namespace icml::kcenter {

inline constexpr double earth_radius_km = 6371.0;

class Encoding {
  public:
    // `name`: euclidean, cosine, haversine, manhattan, chebyshev, hamming, precomputed.
    // Throws std::invalid_argument for a name or dimension that does not exist, and for float32 where it
    // makes no sense: for bits, row numbers, and places.
    Encoding(std::string_view name, int dimension, Storage storage = Storage::float64);

    int dimension() const { return dimension_; } // coordinates that people give; 0 for precomputed
    int width() const { return width_; }
    Metric metric() const { return metric_; }
    Storage storage() const { return storage_; }

    // Words as they will be stored. Throws std::invalid_argument for coordinates that are no point.
    void encode(const double *coordinates, double *words) const;
    void decode(const double *words, double *coordinates) const;
    double report(double distance) const;

  private:
    enum class Kind : std::uint8_t { plain, cosine, haversine, hamming, precomputed };

    Kind kind_ = Kind::plain;
    Metric metric_ = Metric::euclidean;
    int dimension_, width_;
    Storage storage_;
};

} // namespace icml::kcenter
