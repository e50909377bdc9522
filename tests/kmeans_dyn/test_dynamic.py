"""The dynamic structure: closed forms, brute force, invariants under any sequence of updates, bad input."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icml.formats.errors import InputError
from icml.tools.kmeans_dyn import DynamicKCenter, Outliers, audit, greedy_disks
from icml.tools.kmeans_dyn.metrics import distances

from .oracles import check_guarantee, nearest, optimum, pairwise, radius_after


def test_no_more_distinct_points_than_centers() -> None:
    model = DynamicKCenter(4, 0)
    model.insert(range(9), [[float(i % 4)] for i in range(9)])
    result = model.query()
    assert result.radius == 0
    assert sorted(result.coordinates[:, 0]) == [0, 1, 2, 3]
    assert sorted(result.sizes) == [2, 2, 2, 3]


def test_equal_points_only() -> None:
    model = DynamicKCenter(3, 2)
    model.insert(range(5000), np.ones((5000, 2)))
    result = model.query()
    assert (result.radius, len(result.outliers), result.n) == (0.0, 0, 5000)
    model.delete(range(4990))
    assert model.query().radius == 0


def test_blobs_and_a_far_point() -> None:
    """k identical blobs with one far point, z = 1: the radius is the blob's."""
    blob = np.array([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    x = np.concatenate([np.add(blob, [1000.0 * i, 0]) for i in range(6)] + [[[1e9, 1e9]]])
    model = DynamicKCenter(6, 1)
    model.insert(range(len(x)), x)
    result = model.query()
    assert result.radius == pytest.approx(1.0)
    assert list(result.outliers) == [30]
    assert np.sort(result.coordinates[:, 0]).tolist() == [1000.0 * i for i in range(6)]


def test_no_more_points_than_outliers() -> None:
    model = DynamicKCenter(2, 5)
    assert (model.query().n, model.query().radius) == (0, 0.0)
    model.insert(range(5), np.arange(5.0)[:, None])
    result = model.query()
    assert (result.radius, len(result.centers), len(result.outliers)) == (0.0, 0, 5)
    assert result.note is not None
    model.insert([7], [[7.0]])
    result = model.query()
    assert len(result.centers) >= 1
    assert len(result.outliers) <= 5
    assert result.note is None


def test_zero_outliers_is_plain_k_center() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4000, 3))
    model = DynamicKCenter(8, 0, seed=1)
    model.insert(range(len(x)), x)
    result = model.query()
    exact = nearest(x, result.coordinates).max()
    gonzalez, distance = 0, np.full(len(x), np.inf)
    for _ in range(8):
        distance = np.minimum(distance, nearest(x, x[[gonzalez]]))
        gonzalez = int(distance.argmax())
    assert exact <= 3 * distance.max()
    assert len(result.outliers) == 0
    assert exact <= result.radius


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("shift", [0.0, 1e3])
def test_scaling_and_moving_all_points(scale: float, shift: float) -> None:
    rng = np.random.default_rng(3)
    x = np.round(rng.normal(size=(3000, 2)) * 2**10) / 2**10  # exact in binary, also after moving
    base = DynamicKCenter(5, 10, seed=2)
    base.insert(range(3000), x)
    other = DynamicKCenter(5, 10, seed=2)
    factor = 2.0 ** round(np.log2(scale))
    other.insert(range(3000), (x + shift) * factor)
    a, b = base.query(), other.query()
    assert b.radius == pytest.approx(a.radius * factor, rel=1e-6)
    assert list(a.centers) == list(b.centers)


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=9),
    st.integers(1, 3),
    st.integers(0, 3),
    st.sampled_from([0.2, 0.5, 1.0]),
)
@settings(max_examples=150, deadline=None)
def test_small_inputs_against_brute_force(points: list[tuple[int, int]], k: int, z: int, eps: float) -> None:
    x = np.array(points, float)
    model = DynamicKCenter(k, z, eps=eps)
    model.insert(range(len(x)), x)
    result = model.query()
    d = pairwise(x, x)
    best = optimum(d, k, z)
    assert result.radius <= 3.04 * best + 1e-12, "greedy disks are 3-approximate, the bisection ends at 1 %"
    assert result.opt_lower is None or result.opt_lower <= best * (1 + 1e-12)
    if len(x) > z:
        check_guarantee(model, dict(enumerate(x)), result)
        found = audit(model, result)
        assert found.holds
        assert found.opt_lower is None or found.opt_lower <= best * (1 + 1e-12)
        disks = greedy_disks(d, None, k, z)
        assert disks.lower <= best * (1 + 1e-6)
        assert disks.radius <= 3.04 * best + 1e-6
        given_up = disks.owner < 0
        assert given_up.sum() <= z
        assert d[:, disks.centers].min(axis=1)[~given_up].max(initial=0) <= disks.radius * (1 + 1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_lower_bound_with_real_layers_against_brute_force(seed: int) -> None:
    """Two centers among 220 points, all pairs tried; with k = 2 and eps = 1 that many points make several layers."""
    rng = np.random.default_rng(seed)
    x = np.concatenate([rng.normal(size=(110, 2)), np.add(rng.normal(size=(110, 2)), [40, 0])])
    x[:3] = rng.normal(size=(3, 2)) * 10.0 ** rng.uniform(1, 6, size=(3, 1))
    model = DynamicKCenter(2, 3, eps=1.0, seed=seed)
    model.insert(range(220), x)
    result = model.query()
    assert result.layers > 1
    d = distances("euclidean", x, x)
    best = optimum(d, 2, 3)
    exact = check_guarantee(model, dict(enumerate(x)), result)
    assert exact <= 3.5 * best
    assert result.opt_lower is None or result.opt_lower <= best
    found = audit(model, result).opt_lower
    assert found is not None
    assert best / 3.1 <= found <= best


@pytest.mark.parametrize("seed", range(8))
def test_lower_bound_accounts_for_points_that_no_sample_holds(seed: int) -> None:
    """One center among 3000 points, all of them tried: the best one is hardly a representative."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(3000, 2 + 4 * (seed % 2)))
    z = seed // 2 % 2
    model = DynamicKCenter(1, z, eps=1.0, seed=seed)
    model.insert(range(3000), x)
    result = model.query()
    assert result.layers > 4
    best = optimum(distances("euclidean", x, x), 1, z)
    assert result.opt_lower is None or result.opt_lower <= best


def test_greedy_needs_three_times_the_radius() -> None:
    """The heaviest disk lies between two clusters, and the far ends of both are three radii away."""
    x = np.array([-3.0, -2, -1, 0, 1, 2, 3])
    weights = [2, 1, 5, 1, 5, 1, 2]
    disks = greedy_disks(np.abs(x[:, None] - x[None]), weights, 2, 1)
    assert disks.lower <= 1, "centers -2 and 2 reach all but one point within 1"
    assert disks.radius <= 3


def test_a_layer_that_lost_its_points_is_rebuilt_at_the_next_query() -> None:
    x = np.random.default_rng(1).normal(size=(20_000, 3))
    model = DynamicKCenter(5, 10, seed=1)
    model.insert(range(20_000), x)
    model.rebuild()
    model.query()
    assert model._structure is not None
    state, before = model._structure.save(), model._structure.counters()
    first_reps, members = state["layers"][0], state["members"]
    slots = members[: state["member_counts"][:first_reps].sum()]
    ids = np.array(model._structure.ids(), np.int64)[np.argsort(state["slot"])][slots]
    model.delete(ids[: int(0.7 * len(ids))])
    model.query()
    assert model._structure.counters()["full_rebuilds"] == before["full_rebuilds"]
    model.delete(ids[int(0.7 * len(ids)) : int(0.8 * len(ids))])
    model.query()
    assert model._structure.counters()["full_rebuilds"] == before["full_rebuilds"] + 1


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_any_sequence_of_updates(data: st.DataObject) -> None:
    """Invariants against a dict: members, counts, distances and radii, and the guarantee at every query."""
    seed = data.draw(st.integers(0, 2**32))
    rng = np.random.default_rng(seed)
    k, z = data.draw(st.integers(1, 3)), data.draw(st.sampled_from([0, 1, 4, "3%"]))
    model = DynamicKCenter(
        k,
        z,
        eps=data.draw(st.sampled_from([0.2, 1.0])),
        schedule=data.draw(st.sampled_from(["lazy", "strict"])),
        sticky=data.draw(st.sampled_from([0.0, 0.3])),
        seed=seed,
    )
    live: dict[int, np.ndarray] = {}
    fresh = 0
    for _ in range(data.draw(st.integers(1, 12))):
        size, scale = int(rng.integers(1, 120)), 10.0 ** rng.integers(-3, 7)
        if rng.random() < 0.6 or not live:
            rows = np.round(rng.normal(size=(size, 2)) * rng.integers(1, 4)) * scale
            model.insert(range(fresh, fresh + size), rows)
            live.update(zip(range(fresh, fresh + size), rows, strict=True))
            fresh += size
        else:
            gone = rng.choice(list(live), min(size, len(live)), replace=False).tolist()
            model.delete(gone)
            for name in gone:
                del live[name]
        assert model._structure is not None
        model._structure.validate()
        if live:
            result = model.query()
            if result.n > result.z:
                check_guarantee(model, live, result)
    ids, x = model.live()
    assert dict(zip(np.asarray(ids).tolist(), x.tolist(), strict=True)) == {
        i: v.tolist() for i, v in live.items()
    }


def test_insert_and_delete_in_any_order_leaves_nothing() -> None:
    rng = np.random.default_rng(5)
    model = DynamicKCenter(3, 5)
    x = rng.normal(size=(3000, 2))
    for _ in range(3):
        model.insert(range(3000), x)
        model.delete(rng.permutation(3000))
        assert len(model) == 0
        assert model._structure is not None
        model._structure.validate()
        assert model.query().n == 0


def test_threads_change_nothing() -> None:
    rng = np.random.default_rng(6)
    x = rng.normal(size=(30_000, 5))
    found = []
    for threads in (1, 2, 3):
        model = DynamicKCenter(10, 50, seed=3, threads=threads)
        model.insert(range(len(x)), x)
        model.rebuild()
        found.append(model.query())
    for other in found[1:]:
        assert other.radius == found[0].radius
        assert list(other.centers) == list(found[0].centers)
        assert list(other.outliers) == list(found[0].outliers)


def test_seed_matters_and_repeats() -> None:
    rng = np.random.default_rng(7)
    x = rng.normal(size=(20_000, 4))
    radii = {}
    for seed in (1, 2, 1):
        model = DynamicKCenter(10, 20, seed=seed)
        model.insert(range(len(x)), x)
        radius = model.query().radius
        assert radii.setdefault(seed, radius) == radius
    assert radii[1] != radii[2]


def test_sticky_keeps_centers_and_says_how_many_changed() -> None:
    rng = np.random.default_rng(8)
    x = rng.normal(size=(60_000, 3))
    changed = {}
    for sticky in (0.0, 0.5):
        model = DynamicKCenter(6, 30, sticky=sticky, seed=1)
        model.insert(range(20_000), x[:20_000])
        previous = set(model.query().centers)
        changed[sticky] = 0
        for begin in range(20_000, 60_000, 4000):
            model.insert(range(begin, begin + 4000), x[begin : begin + 4000])
            result = model.query()
            now = set(result.centers)
            assert result.recourse == len(now - previous)
            changed[sticky] += result.recourse
            previous = now
    assert changed[0.5] == 0
    assert changed[0.0] > 0


def test_windows_by_count_and_time() -> None:
    model = DynamicKCenter(2, 0, window=3)
    model.insert(range(10), np.arange(10.0)[:, None])
    assert list(model.live()[0]) == [7, 8, 9]
    model.delete([8])
    model.insert([10, 11], [[10.0], [11.0]])
    assert list(model.live()[0]) == [9, 10, 11]
    with pytest.raises(InputError, match="either by count or by time"):
        DynamicKCenter(2, 0, window=3, window_time=1.0)


def test_fewer_centers_and_other_outliers_in_a_query() -> None:
    rng = np.random.default_rng(9)
    x = rng.normal(size=(5000, 2))
    model = DynamicKCenter(10, 40)
    model.insert(range(5000), x)
    radii = [model.query(k, z).radius for k, z in ((10, 40), (3, 40), (1, 40))]
    assert radii == sorted(radii)
    assert model.query(10, 10).radius >= model.query(10, 400).radius
    live = dict(enumerate(x))
    for k, z in ((1, 10), (10, 4000), (5, "1%")):
        check_guarantee(model, live, model.query(k, z))
    with pytest.raises(InputError, match="k of a query"):
        model.query(11)
    with pytest.raises(InputError, match="z of a query"):
        model.query(10, 9)


def test_score_compares_with_the_answer() -> None:
    model = DynamicKCenter(2, 0)
    model.insert([0, 1, 2, 3], [[0.0], [1.0], [10.0], [12.0]])
    result = model.query()
    scores = model.score([[1.0], [11.5], [100.0]])
    centers = result.coordinates[:, 0]
    expected = np.abs(np.array([1.0, 11.5, 100.0])[:, None] - centers)
    np.testing.assert_allclose(scores.distance, expected.min(axis=1))
    np.testing.assert_array_equal(scores.center, expected.argmin(axis=1))
    np.testing.assert_allclose(scores.score, scores.distance / result.radius)
    assert scores.outlier.tolist() == [False, False, True]
    with pytest.raises(InputError, match="coordinates"):
        model.score([[1.0, 2.0]])
    with pytest.raises(InputError, match="no centers"):
        DynamicKCenter(2, 0).score([[1.0]])


def test_score_of_a_new_structure_answers_first() -> None:
    model = DynamicKCenter(1, 0)
    model.insert(["a"], [[3.0, 4.0]])
    scores = model.score([[0.0, 0.0], [3.0, 4.0]])
    assert scores.distance.tolist() == [5.0, 0.0]
    assert scores.outlier.tolist() == [True, False]
    assert model.latest_centers == ["a"]


@pytest.mark.parametrize("kind", [int, str])
def test_conflicts_are_all_or_nothing(kind: type) -> None:
    model = DynamicKCenter(1, 0)
    names = [kind(i) for i in range(5)]
    model.insert(names, np.zeros((5, 1)))
    for bad, message in (
        ([kind(9), names[2]], "is there already"),
        ([kind(9), kind(8), kind(9)], "occurs twice"),
    ):
        with pytest.raises(InputError, match=message):
            model.insert(bad, np.ones((len(bad), 1)))
        assert len(model) == 5
    assert model.updates == 5
    for bad, message in (
        ([names[0], kind(9)], "is not there"),
        ([names[0], names[1], names[0]], "occurs twice"),
    ):
        with pytest.raises(InputError, match=message):
            model.delete(bad)
        assert len(model) == 5
    assert model.insert([names[0], kind(7)], [[5.0], [6.0]], on_conflict="skip") == 1
    assert model.insert([names[1]], [[8.0]], on_conflict="replace") == 1
    live = dict(zip(map(str, model.live()[0]), model.live()[1][:, 0], strict=True))
    assert live == {"0": 0, "2": 0, "3": 0, "4": 0, "7": 6, "1": 8}
    assert model.delete([names[0], kind(99), names[0]], on_conflict="skip") == 1


def test_ids_are_kept_as_spelled() -> None:
    model = DynamicKCenter(9, 0)
    names = ["7", "007", "ü", "a b", "x" * 100, "-0", ""]
    model.insert(names, np.arange(7.0)[:, None])
    assert set(model.query().centers) == set(names)
    model.delete(["007", "x" * 100])
    assert set(model.live()[0]) == set(names) - {"007", "x" * 100}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"k": 0}, "k must be"),
        ({"z": -1}, "z must be"),
        ({"z": 1.5}, "z must be"),
        ({"z": "100%"}, "z must be"),
        ({"eps": 0.0}, "eps must be"),
        ({"eps": 1.1}, "eps must be"),
        ({"metric": "edit"}, "unknown metric"),
        ({"schedule": "eager"}, "unknown schedule"),
        ({"sticky": -0.1}, "sticky must be"),
        ({"window": 0}, "a window must"),
        ({"matrix": np.zeros((2, 2))}, "goes with metric precomputed"),
        ({"metric": "precomputed"}, "goes with metric precomputed"),
        ({"metric": "precomputed", "matrix": np.zeros((2, 3))}, "square"),
        ({"metric": "precomputed", "matrix": np.array([[0.0, 1], [2, 0]])}, "not symmetric"),
        ({"metric": "precomputed", "matrix": np.array([[0.0, -1], [-1, 0]])}, "negative"),
        ({"metric": "precomputed", "matrix": np.array([[0.0, np.nan], [np.nan, 0]])}, "not finite"),
        ({"metric": "precomputed", "matrix": np.ones((2, 2))}, "itself"),
    ],
)
def test_bad_arguments(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        DynamicKCenter(**({"k": 2, "z": 1} | arguments))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("metric", "row", "message"),
    [
        ("euclidean", [np.nan, 0.0], "not a finite"),
        ("euclidean", [np.inf, 0.0], "not a finite"),
        ("euclidean", [1e31, 0.0], "beyond 1e30"),
        ("cosine", [0.0, 0.0], "zero vector"),
        ("haversine", [91.0, 0.0], "latitude"),
        ("haversine", [0.0, 361.0], "longitude"),
        ("hamming", [0.5, 1.0], "0 and 1"),
    ],
)
def test_bad_points_leave_nothing(metric: str, row: list[float], message: str) -> None:
    model = DynamicKCenter(2, 0, metric=metric)
    with pytest.raises(InputError, match=f"point 1.*{message}"):
        model.insert([1, 2, 3], [[1.0, 0.0], row, [0.0, 1.0]])
    assert len(model) == 0


def test_precomputed_equals_euclidean() -> None:
    rng = np.random.default_rng(11)
    x = rng.integers(0, 50, size=(400, 2)).astype(float)
    matrix = distances("euclidean", x, x)
    matrix = np.maximum(matrix, matrix.T)
    given_points, given_matrix = (
        DynamicKCenter(4, 6, seed=5),
        DynamicKCenter(4, 6, metric="precomputed", matrix=matrix, seed=5),
    )
    given_points.insert(range(400), x)
    given_matrix.insert(range(400))
    a, b = given_points.query(), given_matrix.query()
    assert a.radius == pytest.approx(b.radius, rel=1e-9)
    assert audit(given_matrix, b).holds
    assert given_matrix.score([[float(b.centers[0])]]).distance[0] == 0
    with pytest.raises(InputError, match="not a row"):
        given_matrix.insert([400])


@pytest.mark.parametrize("metric", ["cosine", "manhattan", "chebyshev", "hamming", "haversine"])
def test_other_metrics_keep_the_guarantee(metric: str) -> None:
    rng = np.random.default_rng(12)
    if metric == "hamming":
        x = (rng.random((2500, 70)) < rng.random((5, 70))[rng.integers(5, size=2500)]).astype(float)
    elif metric == "haversine":
        x = np.stack([rng.uniform(-89, 89, 2500), rng.uniform(-180, 180, 2500)], axis=1)
    else:
        x = rng.normal(size=(2500, 3)) + 10 * rng.normal(size=(5, 3))[rng.integers(5, size=2500)]
    model = DynamicKCenter(5, 20, metric=metric, seed=3)
    model.insert(range(2500), x)
    model.delete(range(0, 2500, 3))
    result = model.query()
    found = audit(model, result)
    assert result.layers > 1
    assert found.holds
    assert found.radius <= result.radius * (1 + 1e-9)
    assert found.opt_lower is not None
    assert found.radius <= 4 * found.opt_lower


def test_certificate_is_never_below_the_exact_radius_at_extreme_ratios() -> None:
    rng = np.random.default_rng(13)
    scale = 10.0 ** rng.uniform(-9, 9, size=(6000, 1))
    x = rng.normal(size=(6000, 3)) * scale + 1e6
    model = DynamicKCenter(5, 20, seed=1)
    model.insert(range(6000), x)
    check_guarantee(model, dict(enumerate(x)), model.query())


def test_certificate_is_exact_where_that_is_cheap_and_holds_where_it_is_not() -> None:
    rng = np.random.default_rng(14)
    for n, d, k in ((20_000, 4, 10), (20_000, 300, 40)):
        x = rng.normal(size=(n, d)) + 20 * rng.normal(size=(5, d))[rng.integers(5, size=n)]
        model = DynamicKCenter(k, 50, seed=1)
        model.insert(range(n), x)
        result = model.query()
        exact = check_guarantee(model, dict(enumerate(x)), result)
        if d == 4:
            assert result.radius == pytest.approx(exact, rel=1e-12)
            owner = distances("euclidean", x, result.coordinates).argmin(axis=1)
            kept = ~np.isin(np.arange(n), result.outliers)
            assert np.abs(np.bincount(owner[kept], minlength=len(result.centers)) - result.sizes).sum() < n
        else:
            assert result.radius > 1.01 * exact, "too much work to be exact, or this tests nothing"


def test_the_first_answer_builds_anew_only_if_it_is_bad() -> None:
    rng = np.random.default_rng(15)
    calm = rng.normal(size=(20_000, 3))
    shrunk = np.concatenate([calm, calm * 1e-9])
    for x, gone, more in ((calm, 0, 0), (shrunk, 20_000, 1)):
        model = DynamicKCenter(10, 20, seed=1)
        model.insert(range(len(x)), x)
        model.delete(range(gone))
        before = model.counters()["full_rebuilds"]
        result = model.query()
        assert model.counters()["full_rebuilds"] == before + more
        fresh = DynamicKCenter(10, 20, seed=2)
        fresh.insert(range(len(x) - gone), x[gone:])
        fresh.rebuild()
        assert result.radius <= 1.3 * fresh.query().radius


def test_eps_next_to_nothing() -> None:
    x = np.random.default_rng(16).normal(size=(1500, 2))
    model = DynamicKCenter(3, 100, eps=1e-12)
    model.insert(range(1500), x)
    result = model.query()
    check_guarantee(model, dict(enumerate(x)), result)
    assert (len(result.outliers), result.coreset) == (100, 1500)


def test_more_pairs_than_memory_are_refused() -> None:
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    n = int((memory / 8) ** 0.5 * 1.02)
    model = DynamicKCenter(100, 0, eps=1e-6)
    model.insert(range(n), np.arange(float(n))[:, None])
    with pytest.raises(
        InputError, match=rf"comparing {n} points pairwise takes \d+ GB of memory; a smaller k"
    ):
        model.query()


def test_outliers_as_number_share_and_text() -> None:
    assert Outliers.of("0.7%").count(1000) == Outliers.of(0.007).count(1000) == 7
    assert Outliers.of("28.99%").count(10_000) == 2899
    assert Outliers.of("0.1%").count(5000) == 5
    assert Outliers.of("12").count(5) == 12
    assert Outliers.of(0.01).count(250) == 2
    assert Outliers.of(10).allowed(100, 0.2) == 12
    assert Outliers.of(99).allowed(100, 0.2) == 99
    for bad in ("-1", "1e3", "x", "101%", True, float("nan")):
        with pytest.raises(InputError):
            Outliers.of(bad)


def test_radius_of_everything_discarded_but_one() -> None:
    model = DynamicKCenter(1, 2, eps=1.0)
    model.insert(range(3), [[0.0], [5.0], [100.0]])
    result = model.query()
    assert result.radius == radius_after(np.array([0.0, 5.0, 100.0]), 2)
    assert len(result.centers) == 1
