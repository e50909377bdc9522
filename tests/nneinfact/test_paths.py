"""The same numbers however the data are held and however many threads work; and fits that stop and go on."""

from __future__ import annotations

import itertools
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from icml.formats.errors import InputError
from icml.tools.nneinfact import Checkpoint, NNEinFact, load_checkpoint, load_model, save_checkpoint
from icml.tools.nneinfact import dense_engine as dense_engine_module
from icml.tools.nneinfact import sparse_engine as sparse_engine_module

MODEL, SIZES = "wr,hr,ikr,jkr->whij", "r=3,k=2"
PAIRS = [(1, 0), (1, 1), (0.5, 0.5), (1, 0.5), (0.7, 0.5)]


def counts(shape: tuple[int, ...] = (6, 5, 9, 11), share: float = 0.3) -> Any:
    rng = np.random.default_rng(0)
    return np.where(rng.random(shape) < share, rng.poisson(4.0, shape), 0).astype(float)


def fit(y: Any, pair: tuple[float, float], **options: Any) -> NNEinFact:
    return NNEinFact(MODEL, SIZES, *pair, **{"max_iter": 12, "tol": 0, "dtype": "float64", **options}).fit(y)


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("holdout", [None, 0.2])
def test_dense_sparse_and_streamed_agree(
    pair: tuple[float, float], holdout: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    y = counts()
    np.save(tmp_path / "y.npy", y)
    dense = fit(y, pair, path="dense", holdout=holdout)
    others = [fit((np.array(np.nonzero(y)), y[y != 0], y.shape), pair, holdout=holdout)]
    if pair in PAIRS[:3]:
        others.append(fit(y, pair, path="sparse", holdout=holdout))
        assert [o.path_ for o in others] == ["sparse", "sparse"]
    for most in (2000, 9000, 1 << 20):  # bytes held at once: part of a slice, some slices, all
        monkeypatch.setattr(dense_engine_module, "MAPPED_BYTES", most)
        others.append(fit(np.load(tmp_path / "y.npy", mmap_mode="r"), pair, holdout=holdout))
        assert others[-1].path_ == "stream"
    for other in others:
        np.testing.assert_allclose(other.history_, dense.history_, rtol=1e-10)
        np.testing.assert_allclose(other.heldout_history_, dense.heldout_history_, rtol=1e-10)
        for a, b in zip(other.factors_, dense.factors_, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-8)


def test_a_pass_reads_the_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    y = counts()
    np.save(tmp_path / "y.npy", y)
    monkeypatch.setattr(dense_engine_module, "MAPPED_BYTES", 2000)
    read: list[tuple[slice, ...]] = []
    forget = dense_engine_module._forget
    monkeypatch.setattr(
        dense_engine_module, "_forget", lambda array, at: (read.append(at), forget(array, at))
    )
    fitted = fit(np.load(tmp_path / "y.npy", mmap_mode="r"), (1, 0), max_iter=3)
    met = np.zeros(y.shape, int)
    for at in read:
        met[at] += 1
    # Start, three joint sweeps and what is reported in the end (two passes for the constant model).
    assert fitted.passes_ == 1 + 3 + 1
    assert (met == fitted.passes_ + 2).all()


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("path", ["dense", "auto"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_same_bytes_for_any_number_of_threads(pair: tuple[float, float], path: str, dtype: str) -> None:
    y = counts((8, 9, 30, 40), 0.05 if path == "auto" else 0.4)
    one, two = (fit(y, pair, path=path, dtype=dtype, threads=n, holdout=0.1, max_iter=6) for n in (1, 2))
    assert one.history_ == two.history_
    assert one.loss_ == two.loss_
    for a, b in zip(one.factors_, two.factors_, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"holdout": 0.2, "patience": 50},
        {"restarts": 3},
        {"path": "sparse"},
        {"alpha": 1.0, "beta": 1.0},
        {"alpha": 0.0, "beta": 0.5},
        {"minibatch": 2},
        {"alpha": 0.7, "beta": 0.5, "relax": 1.8},
    ],
)
def test_resume_gives_the_same_bytes(options: dict[str, Any], tmp_path: Path) -> None:
    y = counts() + (1.0 if options.get("alpha") == 0 else 0.0)

    def estimator(**more: Any) -> NNEinFact:
        return NNEinFact(MODEL, SIZES, **{"max_iter": 9, "tol": 0, **options, **more})

    whole = estimator().fit(y)
    files: list[Path] = []

    def keep(checkpoint: Checkpoint) -> None:
        files.append(tmp_path / f"{len(files)}.npz")
        save_checkpoint(files[-1], checkpoint)

    estimator(on_checkpoint=keep).fit(y)
    for file in (files[0], files[5], files[-2]):
        resumed = estimator().fit(y, resume=load_checkpoint(file))
        assert resumed.history_ == whole.history_
        assert resumed.loss_ == whole.loss_
        for a, b in zip(resumed.factors_, whole.factors_, strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_checkpoint_of_something_else_is_refused(tmp_path: Path) -> None:
    kept: list[Checkpoint] = []
    fit(counts(), (1, 0), on_checkpoint=kept.append)
    with pytest.raises(InputError, match="of other data"):
        NNEinFact(MODEL, SIZES).fit(counts() + 1, resume=kept[-1])
    (tmp_path / "x.npz").write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"x\.npz"):
        load_checkpoint(tmp_path / "x.npz")


@pytest.mark.parametrize(
    "changes",
    [
        {"state.numbers": np.arange(2)},
        {"state.numbers": np.array(["a", "b", "c", "d"])},
        {"state.numbers": np.array([10**6, 0, 0, 4])},
        {"state.numbers": np.array([3, 99, 0, 4])},
        {"state.numbers": np.array([3, 0, 0, 3])},
        {"state.factor_0": np.ones((2, 2))},
        {"state.factor_0": np.full((6, 3), np.nan)},
        {"state.factor_0": np.full((6, 3), -1.0)},
        {"state.history": np.array("x")},
        {"state.history": np.empty(0)},
        {"state.omega": np.float64("nan")},
        {"restart": np.int64(-1)},
        {"fingerprint": np.array("")},
    ],
    ids=str,
)
def test_a_damaged_checkpoint_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    kept: list[Checkpoint] = []
    NNEinFact(MODEL, SIZES, max_iter=3, on_checkpoint=kept.append).fit(counts())
    save_checkpoint(tmp_path / "c.npz", kept[-1])
    with np.load(tmp_path / "c.npz") as file:
        arrays = {**file, **changes}
    np.savez(tmp_path / "c.npz", **arrays)
    with pytest.raises(InputError, match="the checkpoint"):
        NNEinFact(MODEL, SIZES, max_iter=3).fit(counts(), resume=load_checkpoint(tmp_path / "c.npz"))


@pytest.mark.parametrize(
    "changes",
    [
        {"labels_a": np.array(["x", "y"])},
        {"labels_a": np.array([["x"], ["y"], ["z"]])},
        {"labels_a": np.array(["x", "x", "y"])},
        {"labels_z": np.array(["x", "y", "z"])},
        {"factor_0": np.ones((3, 1), complex)},
        {"factor_0": np.array([["1"], ["2"], ["3"]])},
        {"factor_0": np.ones((0, 1))},
        {"iterations": np.float64("inf")},
    ],
    ids=str,
)
def test_a_damaged_model_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    arrays = {
        "model": np.array("ar,br->ab"), "alpha": np.float64(1), "beta": np.float64(0), "factor_0": np.ones((3, 1)),
        "factor_1": np.ones((2, 1)),
    }  # fmt: skip
    np.savez(tmp_path / "m.npz", **arrays)
    load_model(tmp_path / "m.npz")
    np.savez(tmp_path / "m.npz", **{**arrays, **changes})
    with pytest.raises(InputError, match=r"m\.npz: not a model file"):
        load_model(tmp_path / "m.npz")


def test_time_limit_and_should_stop_give_a_valid_best_so_far() -> None:
    y = np.random.default_rng(0).gamma(2.0, 1.0, (40, 50, 60)) + 0.1
    began = time.monotonic()
    fitted = NNEinFact(
        "ar,br,cr->abc", "r=8", alpha=0.7, beta=0.5, tol=0, max_iter=10**6, time_limit=1.0
    ).fit(y)
    assert time.monotonic() - began < 10
    assert fitted.reason_ == "stopped"
    assert not fitted.converged_
    assert fitted.loss_ == pytest.approx(fitted.history_[-1], rel=1e-3)
    polls = itertools.count()
    stopped = NNEinFact(
        "ar,br,cr->abc", "r=8", tol=0, max_iter=10**6, should_stop=lambda: next(polls) > 20
    ).fit(y)
    assert stopped.reason_ == "stopped"
    assert stopped.history_ == sorted(stopped.history_, reverse=True)
    assert stopped.loss_ == pytest.approx(stopped.history_[-1], rel=1e-3)

    def angry() -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        NNEinFact("ar,br,cr->abc", "r=8", should_stop=angry).fit(y)


@pytest.mark.parametrize("holdout", [None, 0.2])
def test_no_time_at_all_gives_the_start(holdout: float | None) -> None:
    options: dict[str, Any] = {"holdout": holdout, "restarts": 3}
    stopped = fit(counts(), (0.7, 0.5), time_limit=0, **options)
    start = fit(counts(), (0.7, 0.5), max_iter=0, holdout=holdout)
    assert stopped.reason_ == "stopped"
    assert stopped.loss_ == stopped.objective_ == start.loss_
    assert stopped.history_ == pytest.approx(start.history_)
    assert stopped.heldout_history_ == pytest.approx(start.heldout_history_)


def test_ranges_of_rows_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    y = counts()
    whole = fit(y, (1, 0), path="sparse", holdout=0.2)
    monkeypatch.setattr(sparse_engine_module, "PIECE_WORK", 5000)
    asked = itertools.count()
    pieces = fit(y, (1, 0), path="sparse", holdout=0.2, should_stop=lambda: next(asked) < 0)
    assert next(asked) > 100
    np.testing.assert_allclose(pieces.history_, whole.history_, rtol=1e-12)
    for a, b in zip(pieces.factors_, whole.factors_, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


def test_polled_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large pass is cut into pieces, between which the caller is asked."""
    monkeypatch.setattr(dense_engine_module, "PIECE_WORK", 1e5)
    asked = itertools.count()
    NNEinFact(MODEL, SIZES, max_iter=1, path="dense", should_stop=lambda: next(asked) < 0).fit(
        counts((20, 20, 20, 20))
    )
    assert next(asked) > 20


def test_minibatch_gets_where_full_sweeps_get(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = rng.poisson(
        3 * np.einsum("ar,br,cr->abc", *(rng.gamma(0.5, 1.0, (n, 3)) for n in (40, 12, 15)))
    ).astype(float)
    np.save(tmp_path / "y.npy", y)
    for pair in ((1, 0), (1, 1), (0.7, 0.5)):
        full = NNEinFact("ar,br,cr->abc", "r=3", *pair, max_iter=40, restarts=2).fit(y)
        some = NNEinFact("ar,br,cr->abc", "r=3", *pair, max_iter=40, restarts=2, minibatch=8)
        some.fit(np.load(tmp_path / "y.npy", mmap_mode="r"))
        assert some.loss_ < 1.3 * full.loss_
        assert some.loss_ < 0.5 * some.null_loss_
    with pytest.raises(InputError, match="minibatches are for dense data"):
        NNEinFact("ar,br,cr->abc", "r=3", minibatch=5).fit((np.array(np.nonzero(y)), y[y != 0], y.shape))


@pytest.mark.skipif("ICML_KERNELS" in os.environ, reason="a sanitizer's own memory is in the account")
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's account of memory")
@pytest.mark.parametrize("zeros", [False, True], ids=["dense", "auto"])
def test_memory_stays_near_the_data(zeros: bool) -> None:
    """A fit holds no dense temporary: peak memory within a tenth of the data's size, and no copy of the data; the list
    of the non-zeros, where one is made, is no more than that."""
    import subprocess
    import sys

    script = r"""
import re, sys
import numpy as np
from icml.tools.nneinfact import NNEinFact
# Not ru_maxrss, in which what the parent held before exec counts too.
peak = lambda: int(re.search(r"VmHWM:\s*(\d+) kB", open("/proc/self/status").read())[1]) * 1024
zeros = sys.argv[1] == "True"
y = np.empty((80, 50, 10000), np.float32)
rng = np.random.default_rng(0)
for part in y:
    draw = rng.random(part.shape, np.float32)
    part[:] = draw < 0.006 if zeros else draw + 0.1
pairs = ((1, 0),) if zeros else ((1, 0), (.7, .5))
small = y[:40, :40, :40].copy() if zeros else y[:4, :4, :4]
for alpha, beta in pairs: NNEinFact("ar,br,cr->abc", "r=4", alpha, beta, max_iter=1).fit(small)
before = peak()
paths = []
for alpha, beta in pairs:
    for holdout in (None, .1):
        fitted = NNEinFact("ar,br,cr->abc", "r=4", alpha, beta, max_iter=1, holdout=holdout, threads=2).fit(y)
        paths.append(fitted.path_)
print((peak() - before) / y.nbytes, *paths)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(zeros)], capture_output=True, text=True, check=True
    )
    share, *paths = done.stdout.split()
    assert float(share) < 0.1
    assert paths == (["sparse", "dense"] if zeros else ["dense"] * 4)
