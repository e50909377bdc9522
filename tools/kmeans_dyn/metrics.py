"""Distances as plain numpy, apart from the kernels, so that an audit does not trust what it checks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

EARTH_RADIUS_KM = 6371.0
METRICS = ("euclidean", "cosine", "haversine", "manhattan", "chebyshev", "hamming", "precomputed")
UNITS = {"cosine": "radians", "haversine": "km"}
"""The units of distances that are not those of the coordinates."""

Floats = NDArray[np.float64]
_CHUNK = 1 << 22  # numbers in a block of differences


def unit_vectors(metric: str, x: Floats) -> Floats:
    """Points (n, d) of the metrics that work on directions, as unit vectors; other points as they are."""
    if metric == "cosine":
        x = np.asarray(x, np.float64)
        return np.asarray(x / np.linalg.norm(x, axis=1, keepdims=True))
    if metric == "haversine":
        latitude, longitude = np.radians(x[:, 0]), np.radians(x[:, 1])
        return np.stack(
            [
                np.cos(latitude) * np.cos(longitude),
                np.cos(latitude) * np.sin(longitude),
                np.sin(latitude),
            ],
            axis=1,
        )
    return x


def distances(
    metric: str, a: Floats, b: Floats, matrix: Floats | None = None, *, unit: bool = False
) -> Floats:
    """Distances (n, m) between points a (n, d) and b (m, d), in the units that results are in.

    Args:
        metric: one of METRICS.
        a, b: coordinates; for precomputed distances row numbers (n, 1) and (m, 1).
        matrix: the precomputed distances.
        unit: for cosine, take a and b for unit vectors, however they are rounded.
    """
    if metric == "precomputed":
        assert matrix is not None
        return matrix[np.ix_(a[:, 0].astype(np.int64), b[:, 0].astype(np.int64))]
    u, v = (a, b) if unit else (unit_vectors(metric, a), unit_vectors(metric, b))
    result = np.empty((len(u), len(v)))
    rows = max(1, _CHUNK // max(1, v.size))
    for begin in range(0, len(u), rows):
        difference = np.subtract(u[begin : begin + rows, None, :], v[None, :, :], dtype=np.float64)
        result[begin : begin + rows] = _norm(metric, difference)
    if metric in UNITS:
        result = 2 * np.arcsin(np.minimum(result / 2, 1))
    return result * EARTH_RADIUS_KM if metric == "haversine" else result


def _norm(metric: str, difference: Floats) -> Floats:
    if metric == "manhattan":
        return np.asarray(np.abs(difference).sum(axis=-1))
    if metric == "chebyshev":
        return np.asarray(np.abs(difference).max(axis=-1))
    if metric == "hamming":
        return np.asarray((difference != 0).sum(axis=-1), np.float64)
    return np.asarray(np.sqrt(np.square(difference).sum(axis=-1)))
