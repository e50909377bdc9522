"""L1 and the Gamma prior: the penalised objective never rises and ends where scipy ends."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from icml.formats.errors import InputError
from icml.tools.nneinfact import NNEinFact
from icml.tools.nneinfact.losses import Divergence

Y = np.random.default_rng(0).gamma(2.0, 1.0, (6, 7)) + 0.05
L1_PAIRS = [(1, 0), (1, -1), (1, 1), (0.5, 0.5), (0.5, -1), (1.5, 0.5), (2, 2.5), (0.3, 0.2)]


def objective(x: NDArray[np.float64], d: Divergence, l1: float, shape: float, rate: float) -> float:
    """Summed loss plus penalties of a 6 x 7 matrix model of rank 2."""
    a, b = x[:12].reshape(6, 2), x[12:].reshape(7, 2)
    return float(d(Y, a @ b.T).sum()) + (l1 + rate) * x.sum() - (shape - 1) * np.log(x).sum()


def reference(x: NDArray[np.float64], d: Divergence, l1: float, shape: float, rate: float) -> float:
    """The minimum that L-BFGS-B finds from x, in the logarithms of the entries."""
    from scipy.optimize import minimize

    found = minimize(lambda z: objective(np.exp(z), d, l1, shape, rate), np.log(x), method="L-BFGS-B",
                     options={"maxiter": 300, "maxfun": 10_000, "ftol": 1e-13})  # fmt: skip
    return float(found.fun)


@pytest.mark.parametrize("pair", L1_PAIRS)
@pytest.mark.parametrize("relax", [1.0, 1.8])
def test_l1_never_rises(pair: tuple[float, float], relax: float) -> None:
    d = Divergence(*pair)
    seen: list[float] = []
    fitted = NNEinFact("ir,jr->ij", "r=2", *pair, l1=0.7, relax=relax, tol=0, max_iter=80, dtype="float64",
                       raw_scale=True, on_progress=lambda p: seen.append(p["objective"])).fit(Y)  # fmt: skip
    assert all(b <= a * (1 + 1e-12) for a, b in itertools.pairwise(seen))
    x = np.concatenate([f.ravel() for f in fitted.factors_])
    assert fitted.objective_ * Y.size == pytest.approx(objective(x, d, 0.7, 1, 0), rel=1e-10)
    assert seen[-1] == fitted.objective_


@pytest.mark.parametrize("pair", L1_PAIRS[::2])
def test_l1_ends_in_a_stationary_point(pair: tuple[float, float]) -> None:
    """Where the updates end, scipy finds nothing lower nearby."""
    d = Divergence(*pair)
    fitted = NNEinFact(
        "ir,jr->ij", "r=2", *pair, l1=0.5, tol=0, max_iter=1000, dtype="float64", raw_scale=True
    )
    x = np.concatenate([f.ravel() for f in fitted.fit(Y).factors_])
    here = objective(x, d, 0.5, 1, 0)
    assert here == pytest.approx(reference(np.maximum(x, 1e-8), d, 0.5, 1, 0), rel=1e-3)


@pytest.mark.parametrize(("sweep", "path"), [("joint", "dense"), ("joint", "sparse"), ("block", "dense")])
def test_gamma_prior(sweep: str, path: str) -> None:
    d = Divergence(1, 0)
    seen: list[float] = []
    fitted = NNEinFact("ir,jr->ij", "r=2", prior_shape=1.5, prior_rate=0.8, sweep=sweep, path=path, tol=0, max_iter=800,
                       dtype="float64", raw_scale=True, on_progress=lambda p: seen.append(p["objective"]))  # fmt: skip
    x = np.concatenate([f.ravel() for f in fitted.fit(Y).factors_])
    assert all(b <= a + 1e-12 * abs(a) for a, b in itertools.pairwise(seen))
    here = objective(x, d, 0, 1.5, 0.8)
    assert fitted.objective_ * Y.size == pytest.approx(here, rel=1e-10)
    assert here == pytest.approx(reference(x, d, 0, 1.5, 0.8), rel=1e-5)


def test_l1_makes_factors_sparser() -> None:
    y = np.random.default_rng(1).poisson(2.0, (20, 20)).astype(float)

    def small(l1: float) -> float:
        factors = NNEinFact("ir,jr->ij", "r=4", l1=l1, max_iter=400, tol=0, raw_scale=True).fit(y).factors_
        return float(np.mean([(f < 1e-3 * f.max()).mean() for f in factors]))

    assert small(8.0) > small(0.0)


def test_a_row_without_data_takes_the_priors_mode() -> None:
    mask = np.ones(Y.shape, bool)
    mask[2] = False
    fitted = NNEinFact("ir,jr->ij", "r=2", prior_shape=3, prior_rate=4, max_iter=50, raw_scale=True).fit(
        Y, mask=mask
    )
    np.testing.assert_allclose(fitted.factors_[0][2], 0.5, rtol=1e-6)
    assert any("i=2" in note for note in fitted.notes_)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"l1": -1.0}, "L1 weight"),
        ({"l1": 1.0, "alpha": -1.0, "beta": 1.5}, "needs alpha > 0"),
        ({"l1": 1.0, "alpha": 0.0, "beta": 1.0}, "needs alpha > 0"),
        ({"prior_shape": 0.5}, "shape must be at least 1"),
        ({"prior_rate": -1.0}, "rate must not be negative"),
        ({"prior_shape": 2.0, "beta": 1.0}, "Kullback-Leibler"),
        ({"sweep": "joint", "beta": 1.0}, "joint sweeps"),
    ],
)
def test_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        NNEinFact("ir,jr->ij", "r=2", **options)  # type: ignore[arg-type]
