"""The scans: every instruction set gives the same bits, and they are the distances."""

from __future__ import annotations

import numpy as np
import pytest

from icml.tools.kmeans_dyn import _kernel
from icml.tools.kmeans_dyn.metrics import distances

METRICS = ("euclidean", "manhattan", "chebyshev", "hamming", "cosine", "haversine", "precomputed")


def _points(metric: str, rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    if metric == "hamming":
        return rng.integers(0, 2, size=(n, d)).astype(float)
    if metric == "haversine":
        return np.stack([rng.uniform(-90, 90, n), rng.uniform(-180, 180, n)], axis=1)
    return rng.normal(size=(n, d)) * 10.0 ** rng.integers(-3, 6, size=(n, 1))


def _structure(metric: str, x: np.ndarray, instruction_set: str) -> _kernel.Structure:
    matrix = None
    if metric == "precomputed":
        matrix = np.ascontiguousarray(distances("euclidean", x, x))
        matrix = (matrix + matrix.T) / 2
    dimension = 0 if matrix is not None else x.shape[1]
    made = _kernel.Structure(
        metric, dimension, 3, 5.0, instruction_set=instruction_set, matrix=matrix, seed=4
    )
    made.insert(np.arange(len(x)), None if matrix is not None else x)
    return made


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("d", [1, 3, 8, 70])
def test_every_instruction_set_gives_the_same_state_and_answer(metric: str, d: int) -> None:
    rng = np.random.default_rng(d)
    x = _points(metric, rng, 700, d)
    gone = rng.choice(700, 200, replace=False)
    states = []
    for name in _kernel.instruction_sets():
        structure = _structure(metric, x, name)
        structure.erase(gone)
        structure.validate()
        answer = structure.answer(3, 5)
        states.append((structure.save(), answer))
    assert len(states[0][0]["layers"]) > 4, "more than one layer, or there is nothing to compare"
    for state, answer in states[1:]:
        assert state.keys() == states[0][0].keys()
        for name, values in state.items():
            assert values.tobytes() == states[0][0][name].tobytes(), name
        assert answer["ids"] == states[0][1]["ids"]
        assert answer["radius"] == states[0][1]["radius"]


def test_there_is_something_to_compare_on_x86() -> None:
    import platform

    assert "portable" in _kernel.instruction_sets()
    if platform.machine() == "x86_64":
        with open("/proc/cpuinfo") as info:
            flags = info.read()
        assert ("avx2" in _kernel.instruction_sets()) == (" avx2 " in flags)
        assert ("avx512" in _kernel.instruction_sets()) == (" avx512f " in flags)
    with pytest.raises(ValueError, match="no avx1024"):
        _kernel.Structure("euclidean", 2, 1, 0.0, instruction_set="avx1024")


@pytest.mark.parametrize("metric", [m for m in METRICS if m != "precomputed"])
@pytest.mark.parametrize("d", [2, 17, 64, 65])
def test_nearest_agrees_with_numpy(metric: str, d: int) -> None:
    rng = np.random.default_rng(d + 1)
    x, centers = _points(metric, rng, 300, d), _points(metric, rng, 21, d)
    structure = _kernel.Structure(metric, x.shape[1], 3, 0.0)
    structure.insert(np.arange(len(centers)), centers)
    index, distance = structure.nearest(structure.words(), x)
    expected = distances(metric, x, centers)
    np.testing.assert_allclose(distance, expected.min(axis=1), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(expected[np.arange(len(x)), index], distance, rtol=1e-9, atol=1e-9)


def test_haversine_is_the_great_circle() -> None:
    """Known distance: Berlin to Tokyo, 8918 km by the haversine formula with R = 6371 km."""
    berlin, tokyo = np.array([[52.52, 13.405]]), np.array([[35.6762, 139.6503]])
    a, b = np.radians(berlin[0]), np.radians(tokyo[0])
    h = np.sin((b[0] - a[0]) / 2) ** 2 + np.cos(a[0]) * np.cos(b[0]) * np.sin((b[1] - a[1]) / 2) ** 2
    structure = _kernel.Structure("haversine", 2, 1, 0.0)
    structure.insert(np.array([0]), berlin)
    _, distance = structure.nearest(structure.words(), tokyo)
    assert distance[0] == pytest.approx(2 * 6371.0 * np.arcsin(np.sqrt(h)), rel=1e-12)
    assert 8900 < distance[0] < 8930
    np.testing.assert_array_equal(structure.coordinates(), berlin)


def test_coordinates_come_back_as_given() -> None:
    rng = np.random.default_rng(2)
    for metric, d in (
        ("euclidean", 5),
        ("manhattan", 1),
        ("chebyshev", 9),
        ("hamming", 64),
        ("hamming", 130),
    ):
        x = _points(metric, rng, 50, d)
        structure = _kernel.Structure(metric, d, 2, 0.0)
        structure.insert(np.arange(50), x)
        np.testing.assert_array_equal(structure.coordinates(), x)
    places = np.round(_points("haversine", rng, 1000, 2), 6)
    structure = _kernel.Structure("haversine", 2, 2, 0.0)
    structure.insert(np.arange(1000), places)
    np.testing.assert_array_equal(structure.coordinates(), places)
