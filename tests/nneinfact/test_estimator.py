"""Predict, reconstruct, fold-in, score, labels, the model file."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from icml.formats.errors import InputError
from icml.tools.nneinfact import NNEinFact, load_model, save_model
from icml.tools.nneinfact.losses import divergence

from .oracles import full

MODEL, SIZES = "ur,vr,trk,k->uvt", "r=3,k=2"


@pytest.fixture(scope="module")
def counts() -> np.ndarray:  # type: ignore[type-arg]
    rng = np.random.default_rng(0)
    return rng.poisson(np.einsum("ur,vr,tr->uvt", *(rng.gamma(0.7, 1.0, (n, 3)) for n in (12, 9, 7)))).astype(
        float
    )


@pytest.fixture(scope="module")
def fitted(counts: np.ndarray) -> NNEinFact:  # type: ignore[type-arg]
    labels = {"u": [f"user {i}" for i in range(12)], "t": ["mon", "tue", "wed", "thu", "fri", "sat", "süß"]}
    return NNEinFact(MODEL, SIZES, max_iter=50, holdout=0.1, labels=labels, seed=4).fit(counts)


def test_predict_and_reconstruct(fitted: NNEinFact) -> None:
    whole = full(fitted._model, fitted.factors_)
    np.testing.assert_allclose(fitted.reconstruct(), whole, rtol=1e-12)
    at = np.array([[0, 11, 5], [8, 0, 3], [6, 2, 2]])
    np.testing.assert_allclose(fitted.predict(at), whole[tuple(at)], rtol=1e-12)
    np.testing.assert_allclose(fitted.reconstruct({"u": 3, "t": slice(2, 5)}), whole[3, :, 2:5], rtol=1e-12)
    np.testing.assert_allclose(fitted.reconstruct({"v": [7, 1]}), whole[:, [7, 1]], rtol=1e-12)
    assert fitted.predict(np.empty((3, 0), int)).shape == (0,)
    for bad, message in (([[12], [0], [0]], "u=12 is outside 0..11"), ([[0], [0]], "shape")):
        with pytest.raises(InputError, match=message):
            fitted.predict(bad)
    with pytest.raises(InputError, match="not an observed letter"):
        fitted.reconstruct({"r": 0})
    with pytest.raises(InputError, match="outside"):
        fitted.reconstruct({"u": 12})
    with pytest.raises(InputError, match="not been fitted"):
        NNEinFact(MODEL, SIZES).predict(at)


def test_score(fitted: NNEinFact, counts: np.ndarray) -> None:  # type: ignore[type-arg]
    mask = np.random.default_rng(1).random(counts.shape) < 0.5
    cells = divergence(counts, fitted.reconstruct())
    assert fitted.score(counts) == pytest.approx(cells.mean(), rel=1e-10)
    assert fitted.score(counts, mask) == pytest.approx(cells[mask].mean(), rel=1e-10)
    assert fitted.score(counts, weights=mask * 2.0) == pytest.approx(cells[mask].mean(), rel=1e-10)


def test_null_loss_is_the_best_constant(counts: np.ndarray) -> None:  # type: ignore[type-arg]
    y = counts + 0.5
    for pair in ((1, 0), (1, 1), (0.7, 0.5), (1, -1), (0, 1), (0, 0), (-1, 0.5)):
        one = NNEinFact("ur,vr,tr->uvt", "r=2", *pair, max_iter=1).fit(y)
        best = min(float(divergence(y, c, *pair).mean()) for c in np.geomspace(y.min(), y.max(), 4001))
        assert one.null_loss_ == pytest.approx(best, rel=1e-4)


def test_fold_in(fitted: NNEinFact, counts: np.ndarray) -> None:  # type: ignore[type-arg]
    new = fitted.transform(counts[:5], "u")
    assert new.factors_[0].shape == (5, 3)
    for i in (1, 2, 3):
        np.testing.assert_array_equal(new.factors_[i], fitted.factors_[i])
    assert new.loss_ < 1.05 * divergence(counts[:5], fitted.reconstruct({"u": slice(0, 5)})).mean()
    assert new.labels == {"t": fitted.labels["t"]}  # type: ignore[index]
    with pytest.raises(InputError, match="letter 'v' has size 8 in the data but 9"):
        fitted.transform(counts[:, :8], "u")
    with pytest.raises(InputError, match="must be observed letters"):
        fitted.transform(counts, "r")


def test_labels(fitted: NNEinFact) -> None:
    np.testing.assert_array_equal(fitted.locate("u", ["user 3", "user 11"]), [3, 11])
    np.testing.assert_array_equal(fitted.locate("v", ["8", "0"]), [8, 0])
    for letter, name in (("u", "user 12"), ("v", "9"), ("t", "montag")):
        with pytest.raises(InputError, match=f"no {letter}='{name}'"):
            fitted.locate(letter, [name])


def test_model_file_round_trip(fitted: NNEinFact, tmp_path: Path) -> None:
    save_model(tmp_path / "m.npz", fitted)
    back = load_model(tmp_path / "m.npz")
    for a, b in zip(back.factors_, fitted.factors_, strict=True):
        np.testing.assert_array_equal(a, b)
    assert back.labels == fitted.labels
    assert (back.loss_, back.heldout_loss_, back.history_) == (
        fitted.loss_,
        fitted.heldout_loss_,
        fitted.history_,
    )
    assert back.all_sizes() == fitted.all_sizes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.npz"]


def test_model_file_needs_numpy_alone(fitted: NNEinFact, tmp_path: Path) -> None:
    save_model(tmp_path / "m.npz", fitted)
    script = """
import sys, numpy as np
with np.load(sys.argv[1], allow_pickle=False) as f:
    model, sizes = str(f["model"]), dict(zip(f["letters"].tolist(), f["sizes"].tolist()))
    x = np.einsum(model, *(f[f"factor_{i}"] for i in range(model.count(",") + 1)))
    print(x.shape, float(x.sum()), sizes["r"], f["labels_t"][-1], float(f["loss"]) == f["loss"], "icml" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", script, str(tmp_path / "m.npz")],
        capture_output=True,
        text=True,
        check=True,
        encoding="utf8",
    )
    total = fitted.reconstruct().sum()
    words = done.stdout.rsplit(maxsplit=5)
    assert words[0] == "(12, 9, 7)"
    assert float(words[1]) == pytest.approx(total, rel=1e-12)
    assert words[2:] == ["3", "süß", "True", "False"]


def test_model_file_is_the_same_bytes(fitted: NNEinFact, counts: np.ndarray) -> None:  # type: ignore[type-arg]
    files = [io.BytesIO() for _ in range(2)]
    again = NNEinFact(MODEL, SIZES, max_iter=50, holdout=0.1, labels=fitted.labels, seed=4, threads=1).fit(
        counts
    )
    for file, one in zip(files, (fitted, again), strict=True):
        save_model(file, one)
    assert files[0].getvalue() == files[1].getvalue()


def test_other_files_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "other.npz", x=np.ones(3))
    with pytest.raises(InputError, match=r"other\.npz: not a model file: it has no array 'model'"):
        load_model(tmp_path / "other.npz")
    np.savez(
        tmp_path / "bad.npz",
        model="ir,jr->ij",
        alpha=1.0,
        beta=0.0,
        factor_0=np.ones((3, 2)),
        factor_1=np.ones((4, 3)),
    )
    with pytest.raises(InputError, match="letter 'r' has sizes 2 and 3"):
        load_model(tmp_path / "bad.npz")
    np.savez(tmp_path / "few.npz", model="ir,jr->ij", alpha=1.0, beta=0.0, factor_0=np.ones((3, 2)))
    with pytest.raises(InputError, match="not a model file"):
        load_model(tmp_path / "few.npz")


def test_kinds_of_data() -> None:
    import scipy.sparse

    y = np.random.default_rng(0).poisson(0.4, (20, 30)).astype(float)
    want = NNEinFact("ir,jr->ij", "r=2", max_iter=10, path="sparse").fit(y)

    class Coo:  # as in the `sparse` package
        coords, data, shape = np.array(np.nonzero(y)), y[y != 0], y.shape

    class Tensor:  # as in torch
        def detach(self) -> Tensor:
            return self

        cpu = detach

        def numpy(self) -> np.ndarray:  # type: ignore[type-arg]
            return y

    for data in (
        scipy.sparse.csr_matrix(y),
        scipy.sparse.csc_array(y),
        Coo(),
        Tensor(),
        y.astype(np.int16),
        y[:, ::-1][:, ::-1],
    ):
        got = NNEinFact("ir,jr->ij", "r=2", max_iter=10, path="sparse").fit(data)
        np.testing.assert_allclose(got.reconstruct(), want.reconstruct(), rtol=1e-5)
