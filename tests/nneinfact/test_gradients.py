"""Numerators, denominators and losses of every engine against explicit loops, for random model strings."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icml.tools.nneinfact.cells import draw_cells
from icml.tools.nneinfact.data import Holdout
from icml.tools.nneinfact.dense_data import load_dense
from icml.tools.nneinfact.engine import Engine
from icml.tools.nneinfact.losses import Divergence
from icml.tools.nneinfact.model import Model
from icml.tools.nneinfact.sparse_data import load_sparse

from .oracles import LIMITS, engine_for, full, loop_gradient, models, random_factors

PAIRS = [(1, 0), (1, 1), (1, -1), (1, 0.5), (0.7, 0.3), (0.7, 0.5), (-1, 1.5), (1.5, 0.5), *LIMITS]
SUM_PAIRS = [(1, 0), (1, 1), (0.5, 0.5), (0.7, 0.3), (1.5, 0.5), (2, 0)]
_needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
on_every_engine = pytest.mark.parametrize("device", ["cpu", pytest.param("torch-cpu", marks=_needs_torch)])


def check(engine: Engine, factors: list[Any], y: Any, weight: Any, held: Any = None) -> None:
    """Compares all an engine says with the loops."""
    model, d = engine.plan.model, engine.kernel.divergence
    for i in range(len(factors)):
        num, den = loop_gradient(model, factors, i, y=y, weight=weight, d=d)
        np.testing.assert_allclose(
            engine.numerator(i, factors), num, rtol=1e-12, atol=1e-12 * max(1, np.abs(num).max())
        )
        np.testing.assert_allclose(
            engine.denominator(i, factors), den, rtol=1e-12, atol=1e-12 * max(1, np.abs(den).max())
        )
    cells = d(y, full(model, factors))
    for losses in (engine.losses(factors, (0,)), engine.losses(factors), engine.exact_losses(factors)):
        assert losses.train == pytest.approx((weight * cells)[weight > 0].sum(), rel=1e-9, abs=1e-10)
        if held is not None:
            assert losses.held == pytest.approx((held * cells)[held > 0].sum(), rel=1e-9, abs=1e-10)
    assert engine.weighted_model(factors) == pytest.approx((weight * full(model, factors)).sum(), rel=1e-10)


@on_every_engine
@settings(max_examples=60, deadline=None)
@given(drawn=models(), pair=st.sampled_from(PAIRS), seed=st.integers(0, 2**30))
def test_dense(
    device: str, drawn: tuple[Model, dict[str, int]], pair: tuple[float, float], seed: int
) -> None:
    model, sizes = drawn
    shape = tuple(sizes[c] for c in model.output)
    y = np.random.default_rng(seed).gamma(2.0, 1.0, shape) + 0.1
    d = Divergence(*pair)
    factors = random_factors(model, sizes, seed)
    engine = engine_for(model, sizes, load_dense(y, d), d, device=device)
    check(engine, factors, y, np.ones(shape))


@on_every_engine
@settings(max_examples=60, deadline=None)
@given(
    drawn=models(),
    pair=st.sampled_from(PAIRS),
    seed=st.integers(0, 2**30),
    weighted=st.booleans(),
    holdout=st.booleans(),
)
def test_dense_with_weights_masks_nan_and_holdout(
    device: str,
    drawn: tuple[Model, dict[str, int]],
    pair: tuple[float, float],
    seed: int,
    weighted: bool,
    holdout: bool,
) -> None:
    model, sizes = drawn
    rng = np.random.default_rng(seed)
    shape = tuple(sizes[c] for c in model.output)
    y = rng.gamma(2.0, 1.0, shape) + 0.1
    mask, gaps = rng.random(shape) < 0.8, rng.random(shape) < 0.1
    weights = rng.random(shape) if weighted else np.ones(shape)
    drawn_cells = np.zeros(y.size, bool)
    if holdout:
        for numbers in draw_cells(y.size, 0.3, 5):
            drawn_cells[numbers] = True
    known = mask & ~gaps
    held = known & drawn_cells.reshape(shape)
    train = known & ~held
    if not (weights * train).any():
        return
    given_y = np.where(gaps, np.nan, np.where(mask, y, -1e9))  # masked cells may hold anything
    d = Divergence(*pair)
    data = load_dense(
        given_y,
        d,
        mask=mask,
        weights=weights if weighted else None,
        holdout=Holdout(0.3, 5) if holdout else None,
    )
    assert data.stats.weight == pytest.approx((weights * train).sum())
    assert data.stats.mean == pytest.approx((weights * train * y).sum() / (weights * train).sum())
    assert data.stats.held_weight == pytest.approx((weights * held).sum() if holdout else 0)
    factors = random_factors(model, sizes, seed)
    engine = engine_for(model, sizes, data, d, path="dense", device=device)
    assert engine.device == device
    check(engine, factors, y, weights * train, weights * held if holdout else None)


def sparse_counts(shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    return np.where(rng.random(shape) < 0.4, rng.poisson(3.0, shape), 0).astype(float)


@on_every_engine
@settings(max_examples=60, deadline=None)
@given(
    drawn=models(),
    pair=st.sampled_from([*SUM_PAIRS, (1, 0.5), (0.7, 0.5)]),
    seed=st.integers(0, 2**30),
    excluded=st.booleans(),
)
def test_sparse(
    device: str, drawn: tuple[Model, dict[str, int]], pair: tuple[float, float], seed: int, excluded: bool
) -> None:
    model, sizes = drawn
    shape = tuple(sizes[c] for c in model.output)
    y = sparse_counts(shape, seed)
    rng = np.random.default_rng(seed + 1)
    mask = rng.random(shape) < 0.85 if excluded else np.ones(shape, bool)
    held = np.zeros(y.size, bool)
    if excluded:
        for numbers in draw_cells(y.size, 0.25, 3):
            held[numbers] = True
    held = mask & held.reshape(shape)
    train = mask & ~held
    if not train.any():
        return
    d = Divergence(*pair)
    data = load_sparse(
        np.array(np.nonzero(y)),
        y[y != 0],
        shape,
        d,
        missing=np.array(np.nonzero(~mask)) if excluded else None,
        holdout=Holdout(0.25, 3) if excluded else None,
    )
    factors = random_factors(model, sizes, seed)
    engine = engine_for(model, sizes, data, d, device=device)
    assert engine.path == ("sparse" if d.order in (1, 2) else "dense")
    check(engine, factors, y, train.astype(float), held.astype(float) if excluded else None)


@pytest.mark.parametrize("text", ["ur,vr,tr->uvt", "uvr,tr,vs,rs->uvt", "ur,vtr,vr->uvt"])
def test_sparse_with_keyed_sides(text: str) -> None:
    """Few entries in a large tensor: the matrices hold only the rows and columns that occur."""
    model = Model.parse(text)
    sizes = {"u": 60, "v": 70, "t": 50, "r": 3, "s": 2}
    rng = np.random.default_rng(1)
    shape = tuple(sizes[c] for c in model.output)
    y = np.zeros(shape)
    at = tuple(rng.integers(0, n, 30) for n in shape)
    y[at] = rng.integers(1, 5, 30)
    for pair in SUM_PAIRS:
        d = Divergence(*pair)
        data = load_sparse(np.array(np.nonzero(y)), y[y != 0], shape, d, holdout=Holdout(0.0002, 1))
        assert 0 < len(data.excluded) < 100
        engine = engine_for(model, sizes, data, d)
        assert any(engine.plan.keyed)
        factors = random_factors(model, sizes, 2)
        weight, held = np.ones(y.size), np.zeros(y.size)
        weight[data.excluded], held[data.excluded] = 0, 1
        weight = weight.reshape(shape)
        x = full(model, factors)
        up, down = d.terms(y, x)
        for i in range(len(factors)):
            rest = [f for k, f in enumerate(factors) if k != i]
            spec = (
                ",".join([model.output, *(s for k, s in enumerate(model.factors) if k != i)])
                + "->"
                + model.factors[i]
            )
            np.testing.assert_allclose(
                engine.numerator(i, factors), np.einsum(spec, weight * up, *rest), rtol=1e-10, atol=1e-12
            )
            np.testing.assert_allclose(
                engine.denominator(i, factors), np.einsum(spec, weight * down, *rest), rtol=1e-10
            )
        losses = engine.losses(factors, (0, 1))
        assert losses.train == pytest.approx((weight * d(y, x)).sum(), rel=1e-10)
        assert losses.held == pytest.approx((held.reshape(shape) * d(y, x)).sum(), rel=1e-9)


@settings(max_examples=40, deadline=None)
@given(models(), st.sampled_from(PAIRS), st.integers(0, 2**30))
def test_slope_of_the_loss(drawn: tuple[Model, dict[str, int]], pair: tuple[float, float], seed: int) -> None:
    """(den - num)/α is the gradient of the engine's own loss, by finite differences."""
    model, sizes = drawn
    shape = tuple(sizes[c] for c in model.output)
    rng = np.random.default_rng(seed)
    y = rng.gamma(2.0, 1.0, shape) + 0.3
    d = Divergence(*pair)
    engine = engine_for(model, sizes, load_dense(y, d), d)
    factors = [f + 0.3 for f in random_factors(model, sizes, seed)]
    i = int(rng.integers(len(factors)))
    at = tuple(int(rng.integers(n)) for n in factors[i].shape)
    num, den = engine.numerator(i, factors), engine.denominator(i, factors)
    slope = -num[at] if d.alpha == 0 else (den[at] - num[at]) / d.alpha
    h = 1e-5 * factors[i][at]

    def loss(step: float) -> float:
        moved = [np.array(f) for f in factors]
        moved[i][at] += step
        return engine.exact_losses(moved).train

    numeric = (loss(h) - loss(-h)) / (2 * h)
    scale = (abs(num[at]) + abs(den[at])) / max(abs(d.alpha), 0.1)
    assert slope == pytest.approx(numeric, rel=1e-4, abs=1e-5 * scale)


@pytest.mark.parametrize(
    "dtype", ["uint8", "int16", "uint32", "int64", "float32", "float64", ">f4", "float16", "bool"]
)
def test_types_of_data(dtype: str) -> None:
    model = Model.parse("ir,jr->ij")
    y = np.random.default_rng(0).integers(0, 2, (37, 85)).astype(dtype)
    d = Divergence(1, 0.5)
    factors = random_factors(model, {"i": 37, "j": 85, "r": 3}, 0)
    engine = engine_for(model, {"i": 37, "j": 85, "r": 3}, load_dense(y, d), d)
    up, _ = d.terms(y.astype(float), full(model, factors))
    np.testing.assert_allclose(engine.numerator(0, factors), up @ factors[1], rtol=1e-11)


def test_views_that_are_not_contiguous() -> None:
    """Transposed, reversed and strided views are read where they lie."""
    model, d = Model.parse("ar,br,cr->abc"), Divergence(0.7, 0.5)
    base = np.random.default_rng(0).gamma(2.0, 1.0, (8, 9, 20)) + 0.1
    for view in (base.transpose(2, 0, 1), base[::-1, :, ::2], base[:, ::3].transpose(1, 2, 0)):
        sizes = {**dict(zip("abc", view.shape, strict=True)), "r": 4}
        factors = random_factors(model, sizes, 1)
        data = load_dense(view, d)
        assert data.array is view
        engine, copied = (engine_for(model, sizes, load_dense(a, d), d) for a in (view, view.copy()))
        for i in range(3):
            np.testing.assert_array_equal(engine.numerator(i, factors), copied.numerator(i, factors))
