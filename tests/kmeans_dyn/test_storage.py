"""Points stored in single precision: everything is as in double precision on the rounded points, in half the memory."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from icml.formats.errors import InputError
from icml.tools.kmeans_dyn import DynamicKCenter, KCenterOutliers, Result, _kernel, audit

from .oracles import STREAMS, Floats, apply, check_guarantee

METRICS = ("euclidean", "manhattan", "chebyshev")


def _rounded(x: Floats) -> Floats:
    return x.astype(np.float32).astype(np.float64)


def _pair(metric: str, d: int, instruction_set: str = "auto") -> tuple[_kernel.Structure, _kernel.Structure]:
    """A structure in single and one in double precision, otherwise the same."""
    single, double = (
        _kernel.Structure(metric, d, 4, 8.0, seed=2, instruction_set=instruction_set, single=single)
        for single in (True, False)
    )
    return single, double


def _assert_same(single: _kernel.Structure, double: _kernel.Structure) -> None:
    """Every array of the state has the same values, and only the coordinates have another type."""
    a, b = single.save(), double.save()
    assert a.keys() == b.keys()
    for name in a:
        narrow = name in ("coordinates", "sample")
        assert a[name].dtype == (np.float32 if narrow else b[name].dtype), name
        np.testing.assert_array_equal(a[name], b[name], name)


def _assert_same_answer(a: dict[str, object], b: dict[str, object]) -> None:
    assert a.keys() == b.keys()
    for name, value in a.items():
        np.testing.assert_array_equal(value, b[name], name)  # type: ignore[arg-type]


@pytest.mark.parametrize("instruction_set", _kernel.instruction_sets())
@pytest.mark.parametrize("d", [1, 3, 16, 70, 1100])
@pytest.mark.parametrize("metric", METRICS)
def test_equals_double_precision_on_the_rounded_points(metric: str, d: int, instruction_set: str) -> None:
    rng = np.random.default_rng(d)
    n = 900 if d < 100 else 300
    x = rng.normal(size=(n, d)) + 30 * rng.normal(size=(4, d))[rng.integers(4, size=n)]
    x[:12] *= 1e9
    single, double = _pair(metric, d, instruction_set)
    names = np.arange(n)
    single.insert(names, x)
    double.insert(names, _rounded(x))
    assert not np.array_equal(x, _rounded(x)), "or there is nothing to round"
    for structure in (single, double):
        structure.erase(names[50:150])
        structure.insert(names + 1000, _rounded(x))  # every distance again, those at a layer's radius too
    single.validate()
    _assert_same_answer(single.answer(4, 8), double.answer(4, 8))
    _assert_same(single, double)
    assert len(single.counters()["layers"]) > 1
    assert single.lower_bound_on_all(4, 8) == double.lower_bound_on_all(4, 8)
    for mine, reference in zip(
        single.nearest(single.words(), x), double.nearest(double.words(), _rounded(x)), strict=True
    ):
        np.testing.assert_array_equal(mine, reference)


@pytest.mark.parametrize("instruction_set", _kernel.instruction_sets())
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("exponents", [(-44, 30), (-44, -36), (15, 30), (-3, 3)])
def test_extreme_magnitudes_are_not_lost(
    exponents: tuple[int, int], metric: str, instruction_set: str
) -> None:
    """Squares beyond what single precision holds, and below."""
    rng = np.random.default_rng(5)
    x = rng.choice([-1.0, 1.0], size=(1500, 3)) * 10.0 ** rng.uniform(*exponents, size=(1500, 3))
    single, double = _pair(metric, 3, instruction_set)
    for begin in range(0, 1500, 500):
        names, rows = np.arange(begin, begin + 500), x[begin : begin + 500]
        single.insert(names, rows)
        double.insert(names, _rounded(rows))
        _assert_same_answer(single.answer(4, 8), double.answer(4, 8))
    _assert_same(single, double)


@pytest.mark.parametrize("instruction_set", _kernel.instruction_sets())
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("d", [2, 5, 40, 600, 1500])
def test_the_nearest_among_nearly_equals(d: int, metric: str, instruction_set: str) -> None:
    """Distances that differ by less than single precision can tell, so that skipping by it must allow for its error."""
    rng = np.random.default_rng(d)
    shell = rng.normal(size=(600, d))
    size = {
        "euclidean": np.sqrt((shell**2).sum(1)),
        "manhattan": np.abs(shell).sum(1),
        "chebyshev": np.abs(shell).max(1),
    }[metric]
    shell = _rounded(1000 + shell / size[:, None])
    single, double = _pair(metric, d, instruction_set)
    for structure in (single, double):
        structure.insert(np.arange(600), shell)
        structure.insert(np.arange(600, 900), np.full((300, d), 1000.0))
        structure.rebuild()
    _assert_same(single, double)
    found, expected = (s.nearest(s.words(), np.full((1, d), 1000.0)) for s in (single, double))
    np.testing.assert_array_equal(found, expected)


def test_angles_are_those_of_the_stored_vectors() -> None:
    x = np.random.default_rng(3).normal(size=(2500, 6)) + 2
    cosine = _kernel.Structure("cosine", 6, 5, 20.0, seed=3, single=True)
    cosine.insert(np.arange(2500), x)
    words = cosine.words()
    np.testing.assert_array_equal(words, _rounded(words))
    np.testing.assert_allclose(words, x / np.linalg.norm(x, axis=1, keepdims=True), atol=6e-8)
    chord = _kernel.Structure("euclidean", 6, 5, 20.0, seed=3)
    chord.insert(np.arange(2500), words)
    a, b = cosine.answer(5, 20), chord.answer(5, 20)
    assert a["ids"] == b["ids"]
    assert a["outliers"] == b["outliers"]
    assert a["radius"] == pytest.approx(2 * np.arcsin(b["radius"] / 2), rel=1e-15)


@pytest.mark.parametrize("stream", STREAMS)
def test_guarantee_for_the_points_as_stored(stream: str) -> None:
    model, live = DynamicKCenter(5, 12, eps=0.5, seed=1, dtype="float32"), {}
    for number, step in enumerate(STREAMS[stream](np.random.default_rng(4), 12, 400, 2500)):
        apply(model, live, (step[0], _rounded(step[1]), step[2]))
        if number % 4 == 3:
            check_guarantee(model, live, model.query())


@pytest.mark.parametrize("metric", [*METRICS, "cosine"])
def test_audits_hold(metric: str) -> None:
    rng = np.random.default_rng(12)
    x = rng.normal(size=(2500, 3)) + 10 * rng.normal(size=(5, 3))[rng.integers(5, size=2500)]
    model = DynamicKCenter(5, 20, metric=metric, seed=3, dtype="float32")
    model.insert(range(2500), x)
    found = audit(model, result := model.query())
    assert found.holds
    assert found.radius <= result.radius <= found.radius * (1 + 1e-9)
    np.testing.assert_array_equal(result.coordinates, _rounded(result.coordinates))


def test_scores_are_of_the_rounded_point() -> None:
    model = DynamicKCenter(1, 0, dtype="float32")
    model.insert([0, 1], [[0.1], [0.3]])
    model.query()
    scores = model.score([[0.1], [0.3]])
    assert scores.outlier.tolist() == [False, False]
    assert sorted(scores.distance.tolist()) == [0.0, float(np.float32(0.3)) - float(np.float32(0.1))]


def test_sticky_centers_and_windows() -> None:
    x = np.random.default_rng(8).normal(size=(4000, 5))

    def run(dtype: str, rows: Floats) -> list[Result]:
        model = DynamicKCenter(4, 5, dtype=dtype, sticky=0.3, window=1000, seed=2)
        answers = []
        for begin in range(0, 4000, 250):
            model.insert(range(begin, begin + 250), rows[begin : begin + 250])
            answers.append(model.query())
        return answers

    for a, b in zip(run("float32", x), run("float64", _rounded(x)), strict=True):
        assert (a.radius, a.recourse, list(a.centers)) == (b.radius, b.recourse, list(b.centers))


_FILL = """
import sys
import numpy as np
from icml.tools.kmeans_dyn import DynamicKCenter
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
model = DynamicKCenter(5, 10, dtype=sys.argv[1])
x = np.random.default_rng(0).normal(size=(500, 500))
model.insert(range(500), x)
before = resident()
for i in range(1, 17):
    model.insert(np.arange(500 * i, 500 * (i + 1)), x + i)
print(resident() - before)
"""


@pytest.mark.skipif(
    sys.platform != "linux" or "ICML_KERNELS" in os.environ,
    reason="reads /proc; sanitizers keep what is freed",
)
def test_memory_is_halved() -> None:
    used = {
        dtype: int(subprocess.check_output([sys.executable, "-c", _FILL, dtype]))
        for dtype in ("float32", "float64")
    }
    coordinates = 16 * 500 * 500 * 8
    assert used["float64"] > coordinates
    assert used["float32"] < 0.6 * used["float64"]


def test_the_largest_coordinate_survives_a_checkpoint() -> None:
    """1e30 rounds to a little more."""
    single, _ = _pair("euclidean", 1)
    single.insert([str(i) for i in range(3)], np.array([[1e30], [-1e30], [0.0]]))
    other, _ = _pair("euclidean", 1)
    other.load(single.save())
    np.testing.assert_array_equal(other.words()[:2, 0], [float(np.float32(1e30)), -float(np.float32(1e30))])
    with pytest.raises(ValueError, match="beyond 1e30"):
        single.insert(["x"], np.array([[1.001e30]]))


@pytest.mark.parametrize("metric", ["haversine", "hamming", "precomputed"])
def test_metrics_that_store_no_coordinates(metric: str) -> None:
    with pytest.raises(InputError, match=f"float32 goes with metrics .* not with {metric}"):
        DynamicKCenter(
            1, 0, metric=metric, dtype="float32", matrix=[[0.0]] if metric == "precomputed" else None
        )
    with pytest.raises(ValueError, match="float32 does not go with"):
        _kernel.Structure(
            metric, 2, 1, 0.0, single=True, matrix=np.zeros((1, 1)) if metric == "precomputed" else None
        )


def test_unknown_dtype() -> None:
    with pytest.raises(InputError, match="unknown dtype 'float16'; there are float32, float64"):
        DynamicKCenter(1, 0, dtype="float16")


@pytest.mark.parametrize("metric", [*METRICS, "cosine"])
def test_estimator(metric: str) -> None:
    x = np.random.default_rng(9).normal(size=(5000, 4)) + 1
    single = KCenterOutliers(4, 10, metric=metric, dtype="float32", random_state=0).fit(x)
    double = KCenterOutliers(4, 10, metric=metric, random_state=0).fit(_rounded(x))
    assert single.cluster_centers_.dtype == np.float32
    if metric != "cosine":  # unit vectors are rounded once more
        assert single.radius_ == double.radius_
        np.testing.assert_array_equal(single.labels_, double.labels_)
    assert single.radius_ == pytest.approx(double.radius_, rel=0.3)
    np.testing.assert_array_equal(single.predict(x), single.labels_)
