"""Checking an answer against every live point, by other code than made it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from icml.tools.kmeans_dyn.dynamic import DynamicKCenter, Result
from icml.tools.kmeans_dyn.metrics import Floats, distances

MOST_POINTS_FOR_BOUND = 20_000
"""Up to here the greedy runs on all points for a lower bound; it takes 4 n^2 bytes."""

_ROUNDING = 1e-12  # relative, of distances computed here


@dataclass(frozen=True, eq=False)
class Audit:
    """What a look at all points says about an answer.

    Attributes:
        radius: the exact radius with the (1 + eps) z farthest points discarded.
        beyond: points farther from the centers than the certified radius.
        allowed: how many there may be.
        holds: whether that is so.
        outliers: ids of the points farther than the exact radius.
        opt_lower: a lower bound on the optimal radius with z outliers; None beyond 20000 points.
    """

    radius: float
    beyond: int
    allowed: int
    holds: bool
    outliers: list[str]
    opt_lower: float | None


def distances_to_centers(model: DynamicKCenter, result: Result) -> Floats:
    """Distance of every live point to its nearest center, (n,), computed by numpy."""
    structure = model._structure
    assert structure is not None
    if model.metric == "precomputed":
        points, centers = structure.words(), np.array([[float(c)] for c in result.centers])
    else:
        points, centers = structure.coordinates(), result.coordinates
    step = 1 << 16
    nearest = [
        distances(
            model.metric, points[begin : begin + step], centers, model.matrix, unit=model.metric == "cosine"
        ).min(axis=1)
        for begin in range(0, len(points), step)
    ]
    return np.concatenate(nearest)


def audit(model: DynamicKCenter, result: Result, *, bound: bool = True) -> Audit:
    """Looks at every point that was live at the query; nothing may have changed since.

    Args:
        model: what gave the answer.
        result: the answer.
        bound: compute the lower bound too.
    """
    structure = model._structure
    if structure is None or not len(result.centers):
        ids = [] if structure is None else structure.ids()
        return Audit(0.0, 0, len(ids), True, ids, None)
    allowed = min(int((1 + model.eps) * result.z), result.n - 1)
    distance = distances_to_centers(model, result)
    exact = exact_radius(distance, allowed)
    ids = structure.ids()
    beyond = int(np.count_nonzero(distance > result.radius * (1 + _ROUNDING)))
    lower = None
    if bound and result.n <= MOST_POINTS_FOR_BOUND:
        lower = structure.lower_bound_on_all(result.k, result.z) or None
    outliers = [ids[i] for i in np.flatnonzero(distance > exact)]
    return Audit(exact, beyond, allowed, beyond <= allowed, outliers, lower)


def exact_radius(distance: Floats, discarded: int) -> float:
    """The largest of the distances when the `discarded` largest are left out."""
    at = len(distance) - 1 - discarded
    return float(np.partition(distance, at)[at]) if at >= 0 else 0.0
