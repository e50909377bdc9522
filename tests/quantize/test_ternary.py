"""TWLA's parts: closed forms against least squares, recovery, the learned rotation's gradients, packing."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icml.tools.quantize import TernaryLinear, quantize_linear
from icml.tools.quantize.kotms import (
    cayley,
    cayley_gradient,
    factor_sizes,
    learn_rotation,
    loss_and_gradients,
)
from icml.tools.quantize.ternary import euclidean_ternary, pack_trits, relocate, unpack_trits

from .oracles import proxy, random_hessian


def trits(m: int, n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-1, 2, (m, n)).astype(np.int8)


def test_relocation_is_least_squares() -> None:
    rng = np.random.default_rng(0)
    n = 32
    metric = random_hessian(n, rng).astype(float) + 0.1 * np.eye(n)
    root = np.linalg.cholesky(metric).T
    w, codes = rng.standard_normal((20, n)).astype(np.float32), trits(20, n)
    alpha, mu = relocate(codes, w, metric)
    for i in range(20):
        design = root @ np.stack([codes[i].astype(float), np.ones(n)], 1)
        expected = np.linalg.lstsq(design, root @ w[i].astype(float), rcond=None)[0]
        assert np.allclose((alpha[i], mu[i]), expected, rtol=1e-8, atol=1e-10)


def test_relocation_of_degenerate_rows() -> None:
    n = 16
    w = np.random.default_rng(1).standard_normal((2, n)).astype(np.float32)
    codes = np.stack([np.ones(n), np.zeros(n)]).astype(np.int8)
    alpha, mu = relocate(codes, w, np.eye(n))
    assert mu[0] == 0
    assert alpha[0] == pytest.approx(w[0].mean())
    assert alpha[1] == 0
    assert mu[1] == pytest.approx(w[1].mean())


def test_warm_start_finds_the_best_codes_for_its_mean() -> None:
    w = np.random.default_rng(2).standard_normal((12, 7))
    codes, alpha, _ = euclidean_ternary(w, rounds=1)  # mean 0
    for i in range(12):
        best = min(
            float(np.square(w[i]).sum() - (w[i] @ t) ** 2 / max(t @ t, 1))
            for t in map(np.array, product((-1, 0, 1), repeat=7))
        )
        assert np.square(w[i] - alpha[i] * codes[i]).sum() == pytest.approx(best)


def test_ternary_weights_are_recovered_exactly() -> None:
    rng = np.random.default_rng(3)
    codes = trits(24, 256)
    codes[:, :3] = (-1, 0, 1)
    alpha = rng.integers(1, 9, (24, 2)) / 16
    w = (codes * np.repeat(alpha, 128, 1)).astype(np.float32)
    for hessian in (None, random_hessian(256, rng)):
        found = quantize_linear(w, hessian, "twla", rotate="none")
        assert isinstance(found, TernaryLinear)
        assert np.abs(found.dequantize() - w).max() < 1e-3
        assert np.array_equal(found.codes, codes)


def test_each_part_lowers_the_error() -> None:
    rng = np.random.default_rng(4)
    w = rng.standard_t(5, (96, 256)).astype(np.float32)
    h = random_hessian(256, rng)
    errors = {
        name: quantize_linear(w, h, "twla", **options).proxy_error
        for name, options in {
            "one walk": {"rotate": "none", "walks": 1},
            "none": {"rotate": "none"},
            "hadamard": {"rotate": "hadamard"},
            "both": {"rotate": "both"},
        }.items()
    }
    assert errors["none"] < errors["one walk"]
    assert errors["hadamard"] < 0.8 * errors["none"]
    assert errors["both"] < errors["hadamard"]
    blind = quantize_linear(w, None, "twla", rotate="none").error(w, h)
    assert errors["none"] < 0.75 * blind


def test_a_learned_rotation_gathers_the_weights() -> None:
    w = np.random.default_rng(5).standard_normal((64, 96)).astype(np.float32)
    left, right = factor_sizes(64, 96)
    assert (left, right) == (12, 8)
    start, learned = (learn_rotation(w, steps) for steps in (0, 25))
    x = w.reshape(64, left, right)
    losses = [loss_and_gradients(x, k.left.astype(float), k.right.astype(float))[0] for k in (start, learned)]
    assert losses[1] < losses[0] - 0.02
    for k in (learned.left, learned.right):
        assert np.abs(k.astype(float) @ k.T.astype(float) - np.eye(len(k))).max() < 2e-3
    assert np.abs(learned.apply(learned.apply(w), transpose=True) - w).max() < 1e-2
    dense = learned.apply(np.eye(96, dtype=np.float32)).T
    assert np.allclose(dense, np.kron(learned.left.astype(float), learned.right.astype(float).T), atol=1e-6)


def test_gradients_are_finite_differences() -> None:
    rng = np.random.default_rng(6)
    x = rng.standard_normal((5, 3, 4))
    s = [0.3 * rng.standard_normal((k, k)) for k in (3, 4)]

    def loss(first: np.ndarray, second: np.ndarray) -> float:
        # centres are constants of the gradient: hold them by differencing around the same point
        return loss_and_gradients(x, cayley(first), cayley(second), centres)[0]

    c, b = map(cayley, s)
    centres = _centres(x, c, b)
    _, grad_c, grad_b = loss_and_gradients(x, c, b)
    for which, grad in enumerate((grad_c, grad_b)):
        analytic = cayley_gradient(s[which], grad)
        for i, j in ((0, 1), (2, 0), (1, 2)):
            step = np.zeros_like(s[which])
            step[i, j] = 1e-5
            up, down = [list(s), list(s)]
            up[which], down[which] = s[which] + step, s[which] - step
            assert (loss(*up) - loss(*down)) / 2e-5 == pytest.approx(analytic[i, j], rel=1e-4, abs=1e-8)


def _centres(x: np.ndarray, c: np.ndarray, b: np.ndarray) -> np.ndarray:
    rows = (c @ x @ b).reshape(len(x), -1)
    return np.abs(rows - rows.mean(1, keepdims=True)).mean(1, keepdims=True)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 40), st.integers(0, 1000))
def test_trits_pack_five_to_a_byte(count: int, seed: int) -> None:
    codes = trits(1, count, seed)[0]
    packed = pack_trits(codes)
    assert len(packed) == -(-count // 5)
    assert np.array_equal(unpack_trits(packed, count), codes)


def test_low_bit_activations_are_simulated_in_the_rotated_space() -> None:
    rng = np.random.default_rng(7)
    w = rng.standard_normal((32, 64)).astype(np.float32)
    x = rng.standard_normal((40, 64)).astype(np.float32)
    x[:, 3] *= 30  # an outlier channel
    plain, turned = (quantize_linear(w, None, "twla", rotate=r, group=64) for r in ("none", "hadamard"))
    errors = []
    for found in (plain, turned):
        assert isinstance(found, TernaryLinear)
        exact = found.matvec(x)
        errors.append(np.square(found.matvec(x, act_bits=4) - exact).sum() / np.square(exact).sum())
        assert np.square(found.matvec(x, act_bits=8) - exact).sum() < 0.01 * np.square(exact).sum()
    assert errors[1] < errors[0] / 3


def test_proxy_error_is_of_what_is_stored() -> None:
    rng = np.random.default_rng(8)
    w, h = rng.standard_normal((20, 40)).astype(np.float32), random_hessian(40, rng)
    found = quantize_linear(w, h, "twla", group=16)
    assert found.proxy_error == pytest.approx(proxy(w, found.dequantize(), h), rel=1e-3)
