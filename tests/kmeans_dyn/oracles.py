"""What the tests compare with: brute force, streams that are meant to hurt, and a plain model of the live points."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from icml.tools.kmeans_dyn import DynamicKCenter, Result

Floats = NDArray[np.float64]


def pairwise(x: Floats, y: Floats) -> Floats:
    """Euclidean distances, the slow and obvious way."""
    return np.array([[np.sqrt(np.sum((a - b) ** 2)) for b in y] for a in x]).reshape(len(x), len(y))


def radius_after(distance: Floats, discarded: int) -> float:
    """The largest entry when the `discarded` largest are left out."""
    return float(np.sort(distance)[len(distance) - 1 - discarded]) if discarded < len(distance) else 0.0


def optimum(distances: Floats, k: int, z: int) -> float:
    """The smallest radius of any k points as centers with z points discarded, by trying all."""
    n = len(distances)
    if n <= z:
        return 0.0
    best = np.inf
    for centers in itertools.combinations(range(n), min(k, n)):
        best = min(best, radius_after(distances[:, list(centers)].min(axis=1), z))
    return float(best)


def nearest(x: Floats, centers: Floats) -> Floats:
    """Distance of each row to the nearest center, in chunks."""
    rows = [
        np.sqrt(((x[i : i + 2000, None, :] - centers[None]) ** 2).sum(-1)).min(1)
        for i in range(0, len(x), 2000)
    ]
    return np.concatenate(rows) if rows else np.empty(0)


def check_guarantee(model: DynamicKCenter, live: dict[int, Floats], result: Result) -> float:
    """Checks an answer against a plain model of the live points; returns the exact radius."""
    ids, x = np.array(list(live)), np.array(list(live.values()))
    assert result.n == len(live) == len(model)
    allowed = min(int((1 + model.eps) * result.z), result.n - 1)
    assert len(result.outliers) <= allowed
    assert len(result.centers) <= result.k
    assert int(result.sizes.sum()) + len(result.outliers) == result.n
    rows = {int(name): row for row, name in enumerate(ids)}
    centers = x[[rows[int(c)] for c in result.centers]]
    np.testing.assert_array_equal(centers, result.coordinates)
    distance = nearest(x, centers)
    outliers = np.isin(ids, np.asarray(result.outliers, np.int64))
    assert distance[~outliers].max(initial=0.0) <= result.radius, (
        "a point that was not discarded is farther away"
    )
    assert np.count_nonzero(distance > result.radius) <= allowed
    exact = radius_after(distance, allowed)
    assert exact <= result.radius
    return exact


def clusters(rng: np.random.Generator, k: int, d: int) -> Callable[[int], Floats]:
    """A stationary source: k Gaussian clusters."""
    centers = rng.normal(size=(k, d)) * 100
    return lambda n: centers[rng.integers(k, size=n)] + rng.normal(size=(n, d))


def with_outliers(rng: np.random.Generator, x: Floats, share: float, scale: float = 1e9) -> Floats:
    """Replaces a share of the rows by points at distances of 1000 to `scale`."""
    far = rng.random(len(x)) < share
    direction = rng.normal(size=(int(far.sum()), x.shape[1]))
    size = 10 ** (3 + rng.random((len(direction), 1)) * (np.log10(scale) - 3))
    x[far] = direction / np.linalg.norm(direction, axis=1, keepdims=True) * size
    return x


Step = tuple[list[int], Floats, list[int]]
"""Ids and rows to insert, then ids to delete."""


def stationary(rng: np.random.Generator, steps: int, size: int, window: int, d: int = 4) -> Iterator[Step]:
    """Clusters with 12 outliers a window; the oldest points leave when there are more than `window`."""
    source = clusters(rng, 10, d)
    yield from _sliding(lambda _: with_outliers(rng, source(size), 12 / window), steps, size, window)


def drift(rng: np.random.Generator, steps: int, size: int, window: int, d: int = 4) -> Iterator[Step]:
    """Cluster centers that wander."""
    centers = rng.normal(size=(10, d)) * 100

    def draw(_: int) -> Floats:
        centers[:] += rng.normal(size=centers.shape) * 3
        x = centers[rng.integers(10, size=size)] + rng.normal(size=(size, d))
        return with_outliers(rng, x, 12 / window)

    yield from _sliding(draw, steps, size, window)


def sorted_insertion(
    rng: np.random.Generator, steps: int, size: int, window: int, d: int = 4
) -> Iterator[Step]:
    """Points by growing distance, so that every sample is too small a piece of the world."""
    x = with_outliers(rng, clusters(rng, 10, d)(steps * size), 12 / window)
    x = x[np.argsort(np.linalg.norm(x, axis=1))]
    yield from _sliding(lambda step: x[step * size : (step + 1) * size], steps, size, window)


def _sliding(draw: Callable[[int], Floats], steps: int, size: int, window: int) -> Iterator[Step]:
    for step in range(steps):
        end = (step + 1) * size
        gone = list(range(max(0, end - size - window), max(0, end - window)))
        yield list(range(end - size, end)), draw(step), gone


def random_deletion(
    rng: np.random.Generator, steps: int, size: int, window: int, d: int = 4
) -> Iterator[Step]:
    """Clusters with outliers; points leave at random."""
    source, live = clusters(rng, 10, d), np.empty(0, np.int64)
    for step in range(steps):
        fresh = np.arange(step * size, (step + 1) * size)
        live = rng.permutation(np.concatenate([live, fresh]))
        gone, live = live[window:], live[:window]
        yield fresh.tolist(), with_outliers(rng, source(size), 12 / window), gone.tolist()


STREAMS = {
    "stationary": stationary,
    "drift": drift,
    "sorted": sorted_insertion,
    "random": random_deletion,
}


def apply(model: DynamicKCenter, live: dict[int, Floats], step: Step) -> None:
    """One step, in the model and in the plain copy of its points."""
    ids, rows, gone = step
    model.insert(ids, rows)
    live.update(zip(ids, rows, strict=True))
    if gone:
        model.delete(gone)
        for name in gone:
            del live[name]
