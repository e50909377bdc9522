"""The torch path against the CPU kernels (and in test_gradients.py the loops); on a GPU too where there is one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from icml.formats.errors import InputError, MissingError, WorkError
from icml.tools.nneinfact import NNEinFact, device

from .oracles import GRID, LIMITS
from .test_paths import MODEL, SIZES, counts

torch = pytest.importorskip("torch", reason="torch is not installed")
DEVICES = ["torch-cpu"] + (["cuda"] if torch.cuda.is_available() else [])
on_devices = pytest.mark.parametrize("where", DEVICES)


def fit(y: Any, where: str, pair: tuple[float, float] = (1, 0), **options: Any) -> NNEinFact:
    given_options = {"max_iter": 6, "tol": 0, "dtype": "float64", "threads": 1, **options}
    return NNEinFact(MODEL, SIZES, *pair, device=where, **given_options).fit(y)


def assert_same(one: NNEinFact, other: NNEinFact, rtol: float = 1e-10) -> None:
    np.testing.assert_allclose(one.history_, other.history_, rtol=rtol)
    np.testing.assert_allclose(one.heldout_history_, other.heldout_history_, rtol=rtol)
    assert one.loss_ == pytest.approx(other.loss_, rel=rtol)
    assert one.null_loss_ == pytest.approx(other.null_loss_, rel=rtol)
    for a, b in zip(one.factors_, other.factors_, strict=True):
        np.testing.assert_allclose(a, b, rtol=100 * rtol, atol=rtol)


@on_devices
@pytest.mark.parametrize("pair", GRID + LIMITS)
def test_every_divergence_as_on_the_cpu(pair: tuple[float, float], where: str) -> None:
    y = np.random.default_rng(3).gamma(2.0, 1.0, (4, 5, 6, 7)) + 0.1
    options: dict[str, Any] = {"holdout": 0.2, "max_iter": 3, "patience": 50}
    assert_same(fit(y, where, pair, **options), fit(y, "cpu", pair, **options))


@on_devices
@pytest.mark.parametrize("pair", [(1, 0), (1, 1), (0.5, 0.5), (1, 0.5), (0.7, 0.5)])
def test_every_kind_of_data_as_on_the_cpu(pair: tuple[float, float], where: str, tmp_path: Path) -> None:
    y = counts()
    np.save(tmp_path / "y.npy", y)
    listed = (np.array(np.nonzero(y)), y[y != 0], y.shape)
    weights = np.random.default_rng(0).random(y.shape[1:])
    for data, options in (
        (y, {"path": "dense"}),
        (y.astype(np.uint16), {"holdout": 0.2}),
        (np.load(tmp_path / "y.npy", mmap_mode="r"), {"holdout": 0.1}),
        (listed, {}),
        (listed, {"holdout": 0.2}),
        (y.transpose(2, 0, 3, 1).copy().transpose(1, 3, 0, 2), {"path": "dense"}),
    ):
        one, other = fit(data, where, pair, **options), fit(data, "cpu", pair, **options)
        assert one.device_ == ("cuda:0" if where == "cuda" else where)
        assert other.device_ == "cpu"
        assert one.path_ == other.path_
        assert_same(one, other)
    estimators = (
        NNEinFact(MODEL, SIZES, *pair, max_iter=4, dtype="float64", device=d) for d in (where, "cpu")
    )
    assert_same(*(e.fit(listed, weights=weights) for e in estimators))


@on_devices
@pytest.mark.parametrize("pair", [(1, 0), (1, 1), (0.7, 0.5)])
def test_single_precision(pair: tuple[float, float], where: str) -> None:
    y = counts()
    for data in (y, (np.array(np.nonzero(y)), y[y != 0], y.shape)):
        one, other = (fit(data, d, pair, dtype="float32", holdout=0.1) for d in (where, "cpu"))
        assert one.dtype_ == "float32"
        assert_same(one, other, rtol=1e-5)


@pytest.mark.parametrize("most", [8, 300, 5000])
def test_tiles_of_any_size(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from icml.tools.nneinfact import torch_pass

    y = counts((3, 4, 5, 6))
    listed = (np.array(np.nonzero(y)), y[y != 0], y.shape)
    options: dict[str, Any] = {"max_iter": 2, "holdout": 0.1}
    whole = [fit(data, "torch-cpu", pair, **options) for data in (y, listed) for pair in ((1, 0), (0.7, 0.5))]
    monkeypatch.setitem(torch_pass.TILE_BYTES, "cpu", most)
    cut = [fit(data, "torch-cpu", pair, **options) for data in (y, listed) for pair in ((1, 0), (0.7, 0.5))]
    for one, other in zip(cut, whole, strict=True):
        assert_same(one, other)


def test_data_that_stay_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles that are kept are the same as tiles made anew, and are not made twice."""
    from icml.tools.nneinfact import torch_pass

    y = counts()
    made: list[np.dtype[Any]] = []
    placed = torch_pass.Tiles._tile
    monkeypatch.setattr(
        torch_pass.Tiles, "_tile", lambda self, *args: (made.append(args[-1]), placed(self, *args))[1]
    )
    anew = fit(y, "torch-cpu", (0.7, 0.5), holdout=0.1, dtype="float32")
    often = len(made)
    made.clear()
    monkeypatch.setattr(torch_pass.Tiles, "_fits", lambda self, dtype: True)
    kept = fit(y, "torch-cpu", (0.7, 0.5), holdout=0.1, dtype="float32")
    assert_same(kept, anew, rtol=1e-15)
    assert made.count(np.dtype(np.float32)) < often / 6
    assert made[-1] == np.float64  # what is reported is computed from the data as they were given


@on_devices
def test_minibatch_fold_in_and_score(where: str) -> None:
    y = counts()
    one, other = (fit(y, d, (0.7, 0.5), minibatch=2) for d in (where, "cpu"))
    assert_same(one, other)
    assert one.score(y) == pytest.approx(other.score(y), rel=1e-10)
    assert_same(one.transform(y[:3], "w"), other.transform(y[:3], "w"))


def test_stops_between_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    from icml.tools.nneinfact import torch_pass

    monkeypatch.setitem(torch_pass.TILE_BYTES, "cpu", 2000)
    asked: list[None] = []

    def stop() -> bool:
        asked.append(None)
        return len(asked) > 100

    stopped = fit(counts(), "torch-cpu", (0.7, 0.5), max_iter=10**6, should_stop=stop)
    assert stopped.reason_ == "stopped"
    assert len(asked) == 101
    assert stopped.loss_ == pytest.approx(stopped.history_[-1], rel=1e-9)


def test_a_full_device_is_said_in_one_sentence() -> None:
    from icml.tools.nneinfact.torch_pass import memory_errors

    with pytest.raises(WorkError, match="memory of cuda:0 is too small"), memory_errors("cuda:0"):
        raise torch.OutOfMemoryError("CUDA out of memory")


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_no_gpu_here() -> None:
    for name in ("cuda", "cuda:0", "cuda:3"):
        with pytest.raises(MissingError, match="needs a GPU") as raised:
            fit(counts(), name)
        assert raised.value.exit_code == 3


def test_choice_of_device(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="device must be auto, cpu, cuda or cuda:N"):
        fit(counts(), "gpu")
    monkeypatch.setattr(device, "cuda_devices", lambda: 2)
    monkeypatch.setattr(device, "gpu_in_sight", lambda: True)
    choose = device.choose_device
    assert choose("auto", 1e12) == "cuda:0"
    assert choose("auto", 1e12, 3) == "cuda:1"  # the fourth process of a machine with two GPUs
    assert choose("auto", 1e5) == "cpu"  # over before torch is imported
    assert choose("cpu", 1e12) == "cpu"
    assert choose("cuda", 10) == "cuda:0"
    assert choose("cuda", 10, 1) == "cuda:1"
    assert choose("cuda:1", 10) == "cuda:1"
    with pytest.raises(MissingError, match="cuda:2 is not here"):
        choose("cuda:2", 10)
    monkeypatch.setattr(device, "cuda_devices", lambda: 0)
    assert choose("auto", 1e12) == "cpu"


def test_torch_is_imported_only_where_it_is_wanted() -> None:
    """A CPU fit never imports torch, even a large one; without torch, asking for a GPU is exit code 3."""
    script = """
import sys
import numpy as np
from icml.tools.nneinfact import NNEinFact, device
device.WORTH = 0
NNEinFact("ir,jr->ij", "r=2", max_iter=2).fit(np.ones((4, 5)))
assert "torch" not in sys.modules, "torch was imported"
device.find_spec = lambda name: None
device._GPU_FILES = ("/",)
NNEinFact("ir,jr->ij", "r=2", max_iter=2).fit(np.ones((4, 5)))
try:
    NNEinFact("ir,jr->ij", "r=2", device="cuda").fit(np.ones((4, 5)))
except Exception as error:
    print(type(error).__name__, error.exit_code, error)
"""
    if torch.cuda.is_available():
        pytest.skip("with a GPU, torch is wanted")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("MissingError 3 device cuda needs torch; get it with: pip install torch")
