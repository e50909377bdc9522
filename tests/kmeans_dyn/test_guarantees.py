"""What the method promises, on streams that are meant to break it; the long versions are marked slow."""

from __future__ import annotations

import csv
import gzip

import numpy as np
import pytest
from sklearn.datasets import load_digits
from support import EXAMPLES

from icml.tools.kmeans_dyn import DynamicKCenter, KCenterOutliers, _kernel, audit, greedy_disks
from icml.tools.kmeans_dyn.baselines import farthest_first
from icml.tools.kmeans_dyn.metrics import distances

from .oracles import STREAMS, apply, check_guarantee, clusters, nearest, radius_after, with_outliers


def _cities(count: int) -> np.ndarray:
    """Latitude and longitude of that many places, the most populous first."""
    with gzip.open(EXAMPLES / "kcenter-cities.csv.gz", "rt") as stream:
        rows = list(csv.DictReader(stream))
    rows.sort(key=lambda row: -int(row["population"]))
    return np.array([[float(row["lat"]), float(row["lon"])] for row in rows[:count]])


def _planted(rng: np.random.Generator, n: int, k: int, outliers: int, d: int) -> np.ndarray:
    x = clusters(rng, k, d)(n)
    far = rng.choice(n, outliers, replace=False)
    x[far] = rng.normal(size=(outliers, d)) * 10 ** rng.uniform(2, 9, size=(outliers, 1))
    return x


def _instances(full: bool) -> list[tuple[str, str, np.ndarray, int, int]]:
    rng = np.random.default_rng(1)
    digits = load_digits().data.astype(float)
    places = _cities(3000 if full else 1500)
    found = [
        ("planted", "euclidean", _planted(rng, 2000, 10, 20, 5), 10, 20),
        ("digits", "euclidean", digits, 10, 30),
        ("cities", "haversine", places, 20, 30),
    ]
    if full:
        found += [
            ("planted, 10-d", "euclidean", _planted(rng, 3000, 20, 30, 10), 20, 30),
            ("digits", "euclidean", digits, 30, 50),
            ("cities", "haversine", places, 50, 30),
        ]
    return found


def _quality(metric: str, x: np.ndarray, k: int, z: int, seeds: int) -> list[float]:
    """Exact radius over that of greedy disks and polish on all points, for several seeds."""
    d = distances(metric, x, x)
    d = np.maximum(d, d.T)
    np.fill_diagonal(d, 0)
    allowed = int(1.2 * z)
    peer = radius_after(d[:, greedy_disks(d, None, k, allowed).centers].min(axis=1), allowed)
    ratios = []
    for seed in range(seeds):
        model = DynamicKCenter(k, z, metric=metric, seed=seed)
        model.insert(range(len(x)), x)
        model.rebuild()
        found = audit(model, model.query(), bound=False)
        assert found.holds
        ratios.append(found.radius / peer)
    return ratios


@pytest.mark.parametrize("instance", range(3))
def test_quality_against_greedy_on_all_points(instance: int) -> None:
    _, metric, x, k, z = _instances(full=False)[instance]
    ratios = _quality(metric, x, k, z, seeds=5)
    assert np.mean(ratios) <= 1.15
    assert max(ratios) <= 1.3


@pytest.mark.slow
@pytest.mark.parametrize("instance", range(6))
def test_quality_over_twenty_seeds(instance: int) -> None:
    _, metric, x, k, z = _instances(full=True)[instance]
    ratios = _quality(metric, x, k, z, seeds=20)
    assert np.mean(ratios) <= 1.15
    assert max(ratios) <= 1.3


def _guarantee_on_stream(stream: str, *, seed: int, steps: int, size: int, window: int, every: int) -> None:
    """At every query the guarantee; at the end a radius like that of a fresh build."""
    model = DynamicKCenter(10, 20, seed=seed)
    live: dict[int, np.ndarray] = {}
    exact = 0.0
    for number, step in enumerate(STREAMS[stream](np.random.default_rng(seed), steps, size, window)):
        apply(model, live, step)
        if number % every == every - 1:
            exact = check_guarantee(model, live, model.query())
    fresh = DynamicKCenter(10, 20, seed=seed + 1)
    fresh.insert(list(live), list(live.values()))
    fresh.rebuild()
    exact = check_guarantee(model, live, model.query())
    assert exact <= 1.3 * check_guarantee(fresh, live, fresh.query())


@pytest.mark.parametrize("stream", STREAMS)
def test_guarantee_along_a_stream(stream: str) -> None:
    _guarantee_on_stream(stream, seed=2, steps=40, size=400, window=5000, every=4)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("stream", STREAMS)
def test_guarantee_along_long_streams(stream: str, seed: int) -> None:
    """20 streams of 1e5 updates and more."""
    _guarantee_on_stream(stream, seed=seed, steps=150, size=500, window=20_000, every=5)


def test_optimum_shrinks_a_million_times_when_wide_clusters_leave() -> None:
    rng = np.random.default_rng(3)
    wide = clusters(rng, 10, 5)(20_000) * 100
    tight = rng.normal(size=(10, 5))[rng.integers(10, size=20_000)] * 10 + rng.normal(size=(20_000, 5)) * 1e-4
    far = rng.normal(size=(40, 5)) * 1e8
    x = np.concatenate([wide, tight, far])
    model = DynamicKCenter(20, 50, seed=1)
    live: dict[int, np.ndarray] = {}
    apply(model, live, (list(range(len(x))), x, []))
    before = check_guarantee(model, live, model.query())
    apply(model, live, ([], x[:0], list(range(20_000))))
    result = model.query()
    after = check_guarantee(model, live, result)
    assert before > 100
    assert after < 1e-3
    assert result.radius < 1e-2, "the certificate follows"


def test_all_representatives_are_deleted() -> None:
    rng = np.random.default_rng(4)
    x = with_outliers(rng, clusters(rng, 10, 4)(20_000), 0.001)
    model = DynamicKCenter(10, 20, seed=1)
    live: dict[int, np.ndarray] = {}
    apply(model, live, (list(range(len(x))), x, []))
    for _ in range(8):
        model.rebuild()
        assert model._structure is not None
        state = model._structure.save()
        sample = {row.tobytes() for row in state["sample"].reshape(-1, 4)}
        gone = [name for name, row in live.items() if row.tobytes() in sample]
        assert len(gone) > 100
        apply(model, live, ([], x[:0], gone))
        model._structure.validate()
        exact = check_guarantee(model, live, model.query())
        assert exact < 10
    fresh = DynamicKCenter(10, 20, seed=2)
    fresh.insert(list(live), list(live.values()))
    assert exact <= 1.3 * check_guarantee(fresh, live, fresh.query())


def test_a_whole_cluster_is_deleted() -> None:
    rng = np.random.default_rng(5)
    centers = rng.normal(size=(10, 3)) * 100
    owner = rng.integers(10, size=20_000)
    x = centers[owner] + rng.normal(size=(20_000, 3)) * 10.0 ** -owner[:, None]
    model = DynamicKCenter(10, 5, seed=1)
    live: dict[int, np.ndarray] = {}
    apply(model, live, (list(range(len(x))), x, []))
    for gone in range(9):  # the widest first: every time the optimum shrinks tenfold
        apply(model, live, ([], x[:0], np.flatnonzero(owner == gone).tolist()))
        exact = check_guarantee(model, live, model.query())
        assert exact <= 6 * 10.0 ** -(gone + 1), f"after cluster {gone}"


def test_nothing_depends_on_the_ratio_of_distances() -> None:
    """Outliers from 1e3 to 1e12 times as far: layers, coreset, distances and radius stay within 10 %."""
    seen = []
    for scale in (1e3, 1e6, 1e9, 1e12):
        rng = np.random.default_rng(6)
        x = with_outliers(rng, clusters(rng, 10, 5)(30_000), 0.002, scale)
        model = DynamicKCenter(10, 75, seed=1)
        live: dict[int, np.ndarray] = {}
        apply(model, live, (list(range(len(x))), x, []))
        result = model.query()
        exact = check_guarantee(model, live, result)
        assert model._structure is not None
        seen.append([result.layers, result.coreset, model._structure.counters()["distances"], exact])
    ratio = np.max(seen, axis=0) / np.min(seen, axis=0)
    assert ratio.max() <= 1.1, seen


def test_the_ladder_of_guesses_does_depend_on_it() -> None:
    guesses = [_kernel.RadiusLadder(5, 10, 75, 0.2, 0.1, scale).guesses for scale in (1e3, 1e6, 1e9, 1e12)]
    assert np.all(np.diff(guesses) >= 36), "log(1000) / log(1.2) more guesses every time"


def test_random_pick_greedy_needs_many_restarts() -> None:
    """The usual static baseline, five restarts, on planted outliers that are very far."""
    rng = np.random.default_rng(7)
    x = _planted(rng, 2000, 10, 20, 5)
    model = DynamicKCenter(10, 20, seed=1)
    model.insert(range(2000), x)
    ours = audit(model, model.query(), bound=False).radius
    picks = [
        radius_after(farthest_first("euclidean", x, 10, 24, rng=np.random.default_rng(seed)), 24)
        for seed in range(5)
    ]
    assert min(picks) > 5 * ours


def test_live_cities() -> None:
    """Places enter by population and leave at random; the radius stays that of a computation from scratch."""
    places = _cities(2500)
    rng = np.random.default_rng(8)
    model = DynamicKCenter(20, 25, metric="haversine", seed=1)
    live: list[int] = []
    for begin in range(0, 2500, 250):
        model.insert(range(begin, begin + 250), places[begin : begin + 250])
        live += range(begin, begin + 250)
        gone = rng.choice(live, 80, replace=False)
        model.delete(gone)
        live = sorted(set(live) - set(gone.tolist()))
        found = audit(model, model.query(), bound=False)
        assert found.holds
    x = places[live]
    d = distances("haversine", x, x)
    d = np.maximum(d, d.T)
    np.fill_diagonal(d, 0)
    allowed = int(1.2 * 25)
    scratch = radius_after(d[:, greedy_disks(d, None, 20, allowed).centers].min(axis=1), allowed)
    assert found.radius <= 1.3 * scratch


def test_strict_schedule_keeps_up_with_fresh_builds() -> None:
    """On the worst-case schedule no layer is older than half as many updates as it was built from."""
    model = DynamicKCenter(5, 10, schedule="strict", seed=1)
    live: dict[int, np.ndarray] = {}
    for step in STREAMS["drift"](np.random.default_rng(9), 30, 200, 2000):
        apply(model, live, step)
        assert model._structure is not None
        state = model._structure.save()
        _, _, offered, updates = state["layers"].reshape(-1, 4).T
        sizes = np.maximum(offered // 2, 64)
        sizes[-1] = max(sizes[-1], model._structure.counters()["fine_sample"])
        assert np.all(updates <= sizes)
    check_guarantee(model, live, model.query())


def test_estimator_agrees_with_the_structure() -> None:
    rng = np.random.default_rng(10)
    x = with_outliers(rng, clusters(rng, 6, 3)(4000), 0.002)
    fitted = KCenterOutliers(6, 10, random_state=1).fit(x)
    distance = nearest(x, fitted.cluster_centers_)
    assert fitted.radius_ == pytest.approx(radius_after(distance, 12))
