"""The descent: never up, exact cases, agreement with the plain method and with scikit-learn."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from icml.formats.errors import WorkError
from icml.tools.nneinfact import NNEinFact
from icml.tools.nneinfact.dense_data import load_dense
from icml.tools.nneinfact.fit import Descent, Options, State, normalized
from icml.tools.nneinfact.losses import Divergence
from icml.tools.nneinfact.model import Model

from .oracles import GRID, LIMITS, engine_for, full, plain_sweep, random_factors

CUSTOM = "wr,hr,ikr,jkr->whij"


def gamma_tensor(shape: tuple[int, ...], seed: int = 0) -> NDArray[np.float64]:
    return np.random.default_rng(seed).gamma(2.0, 1.0, shape) + 0.05


def never_up(values: list[float], slack: float = 1e-12) -> bool:
    return all(b <= a + slack * abs(a) for a, b in itertools.pairwise(values))


@pytest.mark.parametrize(
    ("alpha", "beta", "scale"),
    [(1, -1, 1e-150), (-0.5, -1, 1e-150), (-1, 0.5, 1e-250), (1, -0.5, 1e250), (-1, -1, 1e-150)],
)
def test_a_scale_at_which_nothing_moves_is_refused(alpha: float, beta: float, scale: float) -> None:
    """Powers that overflow left the factors where they were, with a loss that was wrong, or even negative."""
    with pytest.raises(WorkError, match="rescale the data"):
        NNEinFact("ir,jr->ij", "r=2", alpha, beta, max_iter=3).fit(gamma_tensor((6, 5)) * scale)


@pytest.mark.parametrize(("alpha", "beta"), GRID + LIMITS)
def test_plain_updates_never_raise_the_loss(alpha: float, beta: float) -> None:
    """Without over-relaxation and without anything to take a step back: the update itself is monotone."""
    model, d = Model.parse("ir,jr->ij"), Divergence(alpha, beta)
    sizes = {"i": 12, "j": 10, "r": 3}
    y = gamma_tensor((12, 10))
    engine = engine_for(model, sizes, load_dense(y, d), d, path="dense")
    descent = Descent(engine, Options(relax=1.0, tol=0, sweep="block"), (0, 1))
    factors = random_factors(model, sizes, 1)
    losses = [engine.losses(factors).train]
    for _ in range(40):
        factors = descent.sweep(factors, 1.0)
        losses.append(engine.losses(factors).train)
    backtracks = d.alpha == 0 and d.beta != 1  # a descent direction whose step may need halving
    assert never_up(losses, 1e-12) or backtracks
    assert losses[-1] < losses[0]


@pytest.mark.parametrize(("alpha", "beta"), [*GRID[::7], *LIMITS])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_fits_never_go_up(alpha: float, beta: float, dtype: str) -> None:
    y = gamma_tensor((5, 4, 6, 7))
    fitted = NNEinFact(CUSTOM, "r=3,k=2", alpha, beta, max_iter=40, tol=0, dtype=dtype, threads=2).fit(y)
    slack = 1e-12 if dtype == "float64" else 1e-6
    assert never_up(fitted.history_, slack)
    reported = float(Divergence(alpha, beta)(y, fitted.reconstruct()).mean())
    assert fitted.loss_ == pytest.approx(reported, rel=1e-9)
    assert fitted.loss_ == pytest.approx(fitted.history_[-1], rel=1e-3 if dtype == "float32" else 1e-8)
    assert fitted.history_[-1] < fitted.history_[0]


@pytest.mark.parametrize(
    "pair", [(1, 0), (1, 1), (1, -1), (0.7, 0.5), (0.5, 0.5), (1.5, 0.5), (0, 1), (-1, 2), (2, -2)]
)
def test_block_sweeps_are_the_plain_method(pair: tuple[float, float]) -> None:
    model, d = Model.parse("wr,hr,dr,ikr,jkr->whdij"), Divergence(*pair)
    sizes = dict(zip("whdijkr", (3, 4, 2, 5, 6, 2, 3), strict=True))
    y = gamma_tensor((3, 4, 2, 5, 6))
    mask = np.random.default_rng(1).random(y.shape) < 0.9
    for weight in (None, mask):
        engine = engine_for(model, sizes, load_dense(y, d, mask=weight), d, path="dense")
        descent = Descent(engine, Options(relax=1.0, sweep="block"), range(5))
        ours = plain = random_factors(model, sizes, 0)
        for _ in range(10):
            if engine.groups_by_side:  # Euclid takes side after side
                order = [model.factors[i] for i in descent.order]
                turned = Model.parse(",".join(order) + "->" + model.output)
                plain = plain_sweep(turned, [plain[i] for i in descent.order], y, d, weight)
                plain = [plain[descent.order.index(i)] for i in range(5)]
            else:
                plain = plain_sweep(model, plain, y, d, weight)
            ours = descent.sweep(ours, 1.0)
        for a, b in zip(ours, plain, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-8)


@pytest.mark.parametrize("path", ["dense", "sparse"])
def test_rank_one_kl_is_the_product_of_marginals(path: str) -> None:
    y = np.random.default_rng(0).poisson(2.0, (6, 7, 8)).astype(float)
    for sweep in ("block", "joint"):
        fitted = NNEinFact(
            "ar,br,cr->abc", "r=1", max_iter=1, relax=1, sweep=sweep, path=path, dtype="float64"
        ).fit(y)
        marginals = [y.sum(axis=axes) for axes in ((1, 2), (0, 2), (0, 1))]
        np.testing.assert_allclose(
            fitted.reconstruct(), np.einsum("a,b,c->abc", *marginals) / y.sum() ** 2, rtol=1e-10
        )


@pytest.mark.parametrize("path", ["dense", "sparse"])
def test_rank_one_euclid_is_the_leading_singular_pair(path: str) -> None:
    y = gamma_tensor((15, 20))
    fitted = NNEinFact(
        "ir,jr->ij", "r=1", loss="euclidean", tol=0, max_iter=200, path=path, dtype="float64"
    ).fit(y)
    u, s, v = np.linalg.svd(y)
    np.testing.assert_allclose(fitted.reconstruct(), np.abs(s[0] * np.outer(u[:, 0], v[0])), rtol=1e-7)


def test_kl_keeps_the_sum() -> None:
    """After any factor's plain update Σ ŷ = Σ y."""
    model, d = Model.parse(CUSTOM), Divergence(1, 0)
    sizes = dict(zip("whijkr", (3, 4, 5, 6, 2, 3), strict=True))
    y = gamma_tensor((3, 4, 5, 6))
    engine = engine_for(model, sizes, load_dense(y, d), d)
    factors = random_factors(model, sizes, 0)
    for i in range(4):
        factors = Descent(engine, Options(sweep="block"), (i,)).sweep(factors, 1.0)
        assert full(model, factors).sum() == pytest.approx(y.sum(), rel=1e-12)


@pytest.mark.parametrize(
    ("loss", "beta"), [("kl", 1), ("euclidean", 2), ("is", 0), ("beta:1.5", 1.5), ("beta:3", 3)]
)
def test_parity_with_scikit_learn(loss: str, beta: float) -> None:
    from sklearn.decomposition import NMF

    y = gamma_tensor((30, 40))
    rng = np.random.default_rng(2)
    w, h = rng.random((30, 5)) + 0.1, rng.random((5, 40)) + 0.1
    peer = NMF(5, init="custom", solver="mu", beta_loss=beta, tol=0, max_iter=25)
    theirs = peer.fit_transform(y, W=w.copy(), H=h.copy()) @ peer.components_
    ours = NNEinFact(
        "ir,jr->ij", "r=5", loss=loss, relax=1, tol=0, max_iter=25, sweep="block", dtype="float64"
    )
    ours.fit(y, init=[w, h.T])
    np.testing.assert_allclose(ours.reconstruct(), theirs, rtol=1e-6)


def test_planted_factors_come_back() -> None:
    rng = np.random.default_rng(5)
    planted = [np.kron(np.eye(3), np.ones((n, 1))) + 0.02 * rng.random((3 * n, 3)) for n in (5, 6, 7)]
    y = rng.poisson(40 * np.einsum("ar,br,cr->abc", *planted))
    fitted = NNEinFact("ar,br,cr->abc", "r=3", restarts=5, seed=1).fit(y)
    for got, want in zip(fitted.factors_, planted, strict=True):
        cosine = got.T @ want / np.outer(np.linalg.norm(got, axis=0), np.linalg.norm(want, axis=0))
        assert (cosine.max(axis=0) > 0.99).all()


def test_overrelaxation_needs_fewer_sweeps() -> None:
    y = gamma_tensor((20, 30))

    def loss(relax: float) -> float:
        return NNEinFact("ir,jr->ij", "r=6", loss="is", relax=relax, tol=0, max_iter=60).fit(y).loss_

    assert loss(1.8) < loss(1.0)


def test_joint_sweeps_are_worth_their_pass() -> None:
    """Per read of the data the joint sweep gets further than the block sweep."""
    rng = np.random.default_rng(0)
    y = rng.poisson(np.einsum("ar,br,cr->abc", *(rng.gamma(0.3, 1.0, (n, 4)) for n in (12, 13, 14))))
    joint = NNEinFact("ar,br,cr->abc", "r=4", sweep="joint", tol=0, max_iter=30).fit(y)
    block = NNEinFact("ar,br,cr->abc", "r=4", sweep="block", tol=0, max_iter=10).fit(y)
    assert joint.passes_ <= block.passes_ + 5
    assert joint.loss_ < block.loss_


def test_zeros_of_the_start_stay_and_nothing_else_dies() -> None:
    y = np.random.default_rng(0).poisson(1.0, (8, 9)).astype(float)
    y[2] = 0
    init = [np.random.default_rng(1).random((n, 3)) + 0.1 for n in (8, 9)]
    init[1][4, 1] = 0
    fitted = NNEinFact("ir,jr->ij", "r=3", max_iter=300, tol=0, raw_scale=True).fit(y, init=init)
    assert fitted.factors_[1][4, 1] == 0
    assert (np.delete(fitted.factors_[1].ravel(), 4 * 3 + 1) > 0).all()
    assert (fitted.factors_[0] > 0).all()


def test_scale_of_the_data_does_not_matter() -> None:
    y = gamma_tensor((9, 8))
    one = NNEinFact("ir,jr->ij", "r=2", max_iter=30, tol=1e-6).fit(y)
    for scale in (1e-25, 1e25):
        other = NNEinFact("ir,jr->ij", "r=2", max_iter=30, tol=1e-6).fit(y * scale)
        np.testing.assert_allclose(other.reconstruct() / scale, one.reconstruct(), rtol=1e-3)
        assert other.loss_ / scale == pytest.approx(one.loss_, rel=1e-4)


@pytest.mark.parametrize("text", [CUSTOM, "wr,hs,rs->wh", "w,hr,wr->wh", "wr->w", "wrk,hr,ik->whi"])
def test_normalization_keeps_the_values(text: str) -> None:
    model = Model.parse(text)
    sizes = dict(zip("whijkrs", (3, 4, 5, 6, 2, 3, 2), strict=True))
    factors = random_factors(model, sizes, 0)
    scaled = normalized(model, factors)
    np.testing.assert_allclose(full(model, scaled), full(model, factors), rtol=1e-12)
    if text == CUSTOM:
        for factor in scaled[:2]:
            np.testing.assert_allclose(factor.sum(axis=0), 1)
        np.testing.assert_allclose(scaled[2].sum(axis=0), 1)


def test_restarts_keep_the_best() -> None:
    y = gamma_tensor((10, 12))
    losses: list[float] = []
    several = NNEinFact("ir,jr->ij", "r=4", restarts=4, max_iter=15, tol=0, dtype="float64").fit(y)

    def alone(restart: int) -> float:
        from icml.tools.nneinfact.fit import start

        model, d = Model.parse("ir,jr->ij"), Divergence(1, 0)
        engine = engine_for(model, {"i": 10, "j": 12, "r": 4}, load_dense(y, d), d)
        state = State(start(model, engine, (0, restart)))
        return Descent(engine, Options(max_iter=15, tol=0), (0, 1)).run(state).history[-1]

    losses = [alone(r) for r in range(4)]
    assert several.objective_ == pytest.approx(min(losses), rel=1e-12)
    assert len(set(losses)) == 4


def test_validation_stops_and_restores_the_best() -> None:
    rng = np.random.default_rng(0)
    y = rng.poisson(np.einsum("ir,jr->ij", rng.gamma(0.5, 1, (30, 2)), rng.gamma(0.5, 1, (25, 2))) * 2)
    fitted = NNEinFact(
        "ir,jr->ij", "r=12", holdout=0.3, patience=6, tol=0, max_iter=400, seed=3, dtype="float64"
    ).fit(y)
    assert fitted.reason_ == "patience"
    best = int(np.argmin(fitted.heldout_history_))
    assert fitted.n_iter_ == best + 6
    assert fitted.heldout_loss_ == pytest.approx(fitted.heldout_history_[best], rel=1e-10)
    assert fitted.loss_ == pytest.approx(fitted.history_[best], rel=1e-10)


def test_all_cells_are_fitted_unless_asked() -> None:
    """No cell is set aside behind the user's back, and the result does not change from run to run."""
    y = gamma_tensor((6, 7))
    one, two = (NNEinFact("ir,jr->ij", "r=2", max_iter=20).fit(y) for _ in range(2))
    assert one.stats_.weight == 42
    assert one.heldout_loss_ is None
    for a, b in zip(one.factors_, two.factors_, strict=True):
        np.testing.assert_array_equal(a, b)
