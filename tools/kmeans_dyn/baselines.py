"""What one would use otherwise, on all live points: for comparison."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from icml.tools.kmeans_dyn.auditing import exact_radius
from icml.tools.kmeans_dyn.dynamic import DynamicKCenter, Result
from icml.tools.kmeans_dyn.metrics import Floats, distances

RESTARTS = 5


def farthest_first(
    metric: str, x: Floats, k: int, allowed: int, *, rng: np.random.Generator, matrix: Floats | None = None
) -> Floats:
    """Distances to k centers, each drawn from the `allowed` + 1 points farthest from those before.

    With `allowed` = 0 this is T. Gonzalez, Clustering to Minimize the Maximum Intercluster Distance, 1985; otherwise
    the random-pick greedy for outliers (H. Ding, H. Yu, Z. Wang, Greedy Strategy Works for k-Center Clustering with
    Outliers and Coreset Construction, ESA 2019), which succeeds with a small probability and is restarted.
    """
    nearest: NDArray[np.float64] = np.full(len(x), np.inf)
    center = int(rng.integers(len(x)))
    for _ in range(min(k, len(x))):
        nearest = np.minimum(nearest, distances(metric, x, x[center : center + 1], matrix)[:, 0])
        at = max(len(x) - 1 - allowed, 0)
        center = int(rng.choice(np.argpartition(nearest, at)[at:]))
    return nearest


def compare(model: DynamicKCenter, result: Result) -> dict[str, float | None]:
    """Exact radii of baselines on the live points with the same k and as many points discarded.

    `gonzalez` and `random_greedy` (the best of 5 restarts) work in every metric, `minibatch_kmeans` in Euclidean
    space only (else None).
    """
    if model._structure is None or not len(result.centers):
        return {"gonzalez": None, "random_greedy": None, "minibatch_kmeans": None}
    x = model._structure.words() if model.metric == "precomputed" else model._structure.coordinates()
    allowed = model.outliers.allowed(result.n, model.eps)
    rng = np.random.default_rng(model.seed)

    def radius(discarded: int) -> float:
        return exact_radius(
            farthest_first(model.metric, x, result.k, discarded, rng=rng, matrix=model.matrix), allowed
        )

    return {
        "gonzalez": radius(0),
        "random_greedy": min(radius(allowed) for _ in range(RESTARTS)),
        "minibatch_kmeans": kmeans_radius(x, result.k, allowed, model.seed)
        if model.metric == "euclidean"
        else None,
    }


def kmeans_radius(x: Floats, k: int, allowed: int, seed: int) -> float:
    """The radius around the means that scikit-learn's MiniBatchKMeans finds, which need not be points."""
    from sklearn.cluster import MiniBatchKMeans

    k = min(k, len(x))
    fitted = MiniBatchKMeans(k, n_init=3, random_state=seed % 2**32).fit(x)
    return exact_radius(distances("euclidean", x, fitted.cluster_centers_).min(axis=1), allowed)
