"""Checkpoints: a resumed run equals an uninterrupted one bit for bit, and bad files are refused."""

from __future__ import annotations

import functools
import io
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icml.formats.errors import InputError
from icml.tools.kmeans_dyn import DynamicKCenter, Result

from .oracles import STREAMS, apply


def _model(**options: object) -> DynamicKCenter:
    return DynamicKCenter(**({"k": 5, "z": 12, "eps": 0.5, "sticky": 0.05, "seed": 7} | options))  # type: ignore[arg-type]


def _same(a: Result, b: Result) -> None:
    assert (a.updates, a.n, a.radius, a.opt_lower, a.layers, a.coreset, a.recourse) == (
        b.updates,
        b.n,
        b.radius,
        b.opt_lower,
        b.layers,
        b.coreset,
        b.recourse,
    )
    assert list(a.centers) == list(b.centers)
    assert list(a.outliers) == list(b.outliers)
    np.testing.assert_array_equal(a.sizes, b.sizes)
    np.testing.assert_array_equal(a.coordinates, b.coordinates)


def _bytes(model: DynamicKCenter) -> bytes:
    stream = io.BytesIO()
    model.save(stream)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("schedule", "dtype"), [("lazy", "float64"), ("strict", "float64"), ("lazy", "float32")]
)
@pytest.mark.parametrize("stream", STREAMS)
def test_resumed_equals_uninterrupted(stream: str, schedule: str, dtype: str) -> None:
    model, live = _model(schedule=schedule, dtype=dtype), {}
    steps = list(STREAMS[stream](np.random.default_rng(3), 24, 400, 3000))
    for number, step in enumerate(steps):
        apply(model, live, step)
        model.query()
        if number % 7 == 3:
            before = _bytes(model)
            resumed = _model(schedule=schedule, dtype=dtype)
            resumed.load(io.BytesIO(before))
            assert _bytes(resumed) == before
            for later in steps[number + 1 : number + 8]:
                apply(model, live, later)
                resumed.insert(later[0], later[1])
                if later[2]:
                    resumed.delete(later[2])
                _same(model.query(), resumed.query())
                np.testing.assert_array_equal(model.score(later[1]).score, resumed.score(later[1]).score)
            assert _bytes(resumed) == _bytes(model)
            return


def test_empty_and_string_ids_and_windows(tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    _model().save(path)
    model = _model(window=100)
    model.load(path)
    model.insert([f"p{i}" for i in range(150)], np.arange(150.0)[:, None])
    model.save(path)
    resumed = _model(window=100)
    resumed.load(path)
    resumed.insert(["new"], [[-5.0]])
    model.insert(["new"], [[-5.0]])
    assert list(resumed.live()[0]) == list(model.live()[0])
    assert next(iter(resumed.live()[0])) == "p51"
    _same(model.query(), resumed.query())


def _saved(tmp_path: Path, **options: object) -> Path:
    model = _model(**options)
    model.insert(range(3000), np.random.default_rng(0).normal(size=(3000, 3)))
    model.query()
    model.save(tmp_path / "state.npz")
    return tmp_path / "state.npz"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 6}, "made with k 5, not 6"),
        ({"metric": "manhattan"}, "made with metric euclidean"),
        ({"dtype": "float32"}, "made with dtype float64, not float32"),
    ],
)
def test_another_problem_is_refused(tmp_path: Path, options: dict[str, object], message: str) -> None:
    path = _saved(tmp_path)
    with pytest.raises(InputError, match=message):
        _model(**options).load(path)


def test_storage_is_kept(tmp_path: Path) -> None:
    path = _saved(tmp_path, dtype="float32")
    with np.load(path) as arrays:
        assert arrays["state_coordinates"].dtype == arrays["state_sample"].dtype == np.float32
    with pytest.raises(InputError, match="made with dtype float32, not float64"):
        _model().load(path)
    _model(dtype="float32").load(path)


@pytest.mark.parametrize(("saved", "loaded"), [("float32", "float64"), ("float64", "float32")])
def test_arrays_of_the_other_storage_are_damage(tmp_path: Path, saved: str, loaded: str) -> None:
    path = _saved(tmp_path, dtype=saved)
    for name in ("state_coordinates", "state_sample"):
        with pytest.raises(InputError, match=f"damaged checkpoint: no array '{name[6:]}'"):
            _model(dtype=saved).load(_tampered(path, name, lambda a: a.astype(loaded)))
        _saved(tmp_path, dtype=saved)


def test_a_checkpoint_from_before_there_was_a_choice(tmp_path: Path) -> None:
    path = _saved(tmp_path)
    meta = json.loads(np.load(path)["meta"].tobytes())
    del meta["dtype"]
    _tampered(path, "meta", np.frombuffer(json.dumps(meta).encode(), np.uint8))
    _model().load(path)
    with pytest.raises(InputError, match="made with dtype float64, not float32"):
        _model(dtype="float32").load(path)


def test_another_dimension_is_refused(tmp_path: Path) -> None:
    path = _saved(tmp_path)
    model = _model()
    model.prepare(2)
    with pytest.raises(InputError, match="expected 2 coordinates, got 3"):
        model.load(path)
    full = _model()
    full.insert([1], [[0.0, 0.0, 0.0]])
    with pytest.raises(InputError, match="without points"):
        full.load(path)


def _tampered(path: Path, name: str, change: object) -> Path:
    arrays = dict(np.load(path))
    arrays[name] = change(arrays[name]) if callable(change) else change
    np.savez(path, **arrays)
    return path


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("state_members", lambda a: a[:-1]),
        ("state_members", lambda a: np.append(a, 0)),
        ("state_members", lambda a: np.concatenate([a[1:], a[1:2]])),
        ("state_members", lambda a: a + 10_000_000),
        ("state_member_counts", lambda a: a[::-1].copy()),
        ("state_slot", np.zeros_like),
        ("state_slot", lambda a: a - 1),
        ("state_coordinates", lambda a: a + 1.0),
        ("state_coordinates", lambda a: a.astype(np.float16)),
        ("state_limits", np.zeros_like),
        ("state_far", np.zeros_like),
        ("state_ids", lambda a: a[:-1]),
        ("state_ids_length", lambda a: -a),
        ("state_counters", lambda a: a[:2]),
        ("state_layers", lambda a: a * 1_000_000),
        ("state_division", lambda a: a[:0]),
        ("state_far", lambda a: a * np.nan),
        ("state_limits", lambda a: a * np.nan),
        ("state_coordinates", lambda a: a * np.inf),
        ("latest_words", lambda a: a[:-1]),
        ("latest_words", lambda a: a[:, 0]),
        ("latest_words", lambda a: a * np.nan),
        ("meta", lambda a: a[:-3]),
    ],
)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_damage_is_found(tmp_path: Path, name: str, change: object, dtype: str) -> None:
    path = _tampered(_saved(tmp_path, dtype=dtype), name, change)
    with pytest.raises(InputError, match="checkpoint"):
        _model(dtype=dtype).load(path)


def test_a_member_that_is_a_free_slot_is_found(tmp_path: Path) -> None:
    model = _model()
    model.insert(range(3000), np.zeros((3000, 3)))
    model.delete([5])
    model.save(tmp_path / "state.npz")
    free = np.load(tmp_path / "state.npz")["state_free"][0]
    path = _tampered(
        tmp_path / "state.npz", "state_members", lambda a: np.where(np.arange(len(a)) == 7, free, a)
    )
    with pytest.raises(InputError, match="a member that is no live point"):
        _model().load(path)


def test_rows_beyond_the_matrix_are_found(tmp_path: Path) -> None:
    matrix = 1.0 - np.eye(50)
    model = _model(metric="precomputed", matrix=matrix)
    model.insert(range(50))
    model.query()
    model.save(tmp_path / "state.npz")
    for name in ("state_coordinates", "state_sample"):
        path = _tampered(tmp_path / "state.npz", name, lambda a: a + 1e9)
        with pytest.raises(InputError, match="damaged checkpoint"):
            _model(metric="precomputed", matrix=matrix).load(path)
        model.save(path)
    resumed = _model(metric="precomputed", matrix=matrix)
    resumed.load(_tampered(tmp_path / "state.npz", "latest_words", lambda a: a + 1e9))
    with pytest.raises(InputError, match="a center is no point"):
        resumed.score([[3.0]])


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_any_damage_is_found_or_does_no_harm(data: st.DataObject) -> None:
    """Whatever loads keeps the invariants and goes on working; the sanitizers see what it touches."""
    dtype = data.draw(st.sampled_from(["float64", "float32"]))
    saved = _small_state(dtype)
    name = data.draw(st.sampled_from(sorted(saved)))
    values = saved[name].copy()
    if not len(values):
        return
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(values) - 1))
        if values.dtype == np.float64:
            values[at] = data.draw(st.floats() | st.sampled_from(values.tolist()))
        elif values.dtype == np.float32:
            values[at] = data.draw(st.floats(width=32) | st.sampled_from(values.tolist()))
        elif values.dtype == np.int64:
            values[at] = data.draw(st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3010))
        else:
            values[at] = data.draw(st.integers(0, 255))
    model = _model(dtype=dtype)
    structure = model.prepare(2)
    try:
        structure.load(saved | {name: values})
    except ValueError:
        return
    structure.validate()
    ids = structure.ids()
    structure.erase(ids[:50], 0)
    structure.insert([f"new {i}" for i in range(300)], np.arange(600.0).reshape(300, 2))
    structure.answer(3, 12, 0.1)
    structure.validate()


@functools.cache
def _small_state(dtype: str) -> dict[str, np.ndarray]:
    model = _model(dtype=dtype)
    model.insert([f"p{i}" for i in range(600)], np.random.default_rng(1).normal(size=(600, 2)))
    model.delete([f"p{i}" for i in range(0, 200, 3)])
    model.query()
    assert model._structure is not None
    return model._structure.save()


def test_other_files_and_versions_are_refused(tmp_path: Path) -> None:
    path = _saved(tmp_path)
    meta = json.loads(np.load(path)["meta"].tobytes())
    meta["version"] = 2
    _tampered(path, "meta", np.frombuffer(json.dumps(meta).encode(), np.uint8))
    with pytest.raises(InputError, match="version 2; this program reads 1"):
        _model().load(path)
    np.savez(path, x=np.zeros(3))
    with pytest.raises(InputError, match="not a checkpoint"):
        _model().load(path)
    path.write_bytes(b"hello")
    with pytest.raises(InputError, match="NPZ"):
        _model().load(path)
    with pytest.raises(InputError, match="No such file"):
        _model().load(tmp_path / "none.npz")
