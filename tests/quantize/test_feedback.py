"""Calibration statistics, factorizations, and both kinds of error feedback."""

from __future__ import annotations

import numpy as np
import pytest

from icml.formats.errors import InputError
from icml.tools.quantize import Hessian, _kernel, prepare_input
from icml.tools.quantize.hessian import block_factor, checked
from icml.tools.quantize.ldlq import quantize_with_feedback
from icml.tools.quantize.linalg import cholesky, inverse_factor, matmul, row_forms

from .oracles import proxy, random_hessian


def weights(m: int, n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((m, n)).astype(np.float32)


def test_hessian_is_the_mean_outer_product_in_any_split() -> None:
    x = weights(50, 7)
    whole, first, second = Hessian(7), Hessian(7), Hessian(7)
    whole.update(x)
    first.update(x[:20])
    first.update(x[20:21])
    second.update(x[21:])
    first.merge(Hessian.from_state(second.state()))
    for h in (whole, first):
        assert np.allclose(h.matrix(), x.T @ x / 50, rtol=1e-5, atol=1e-5)
        assert np.allclose(h.mean, x.mean(0), atol=1e-6)
        assert h.count == 50
    assert not Hessian(3).matrix().any()
    with pytest.raises(InputError, match="NaN"):
        whole.update(np.full((1, 7), np.nan))
    with pytest.raises(InputError, match="7"):
        whole.update(x[:, :3])


@pytest.mark.parametrize("n", [5, 256, 300, 700])
def test_factorizations(n: int) -> None:
    h = random_hessian(n, np.random.default_rng(n)).astype(float) + 0.1 * np.eye(n)
    c = cholesky(h, 2)
    assert np.allclose(c @ c.T, h, rtol=1e-9, atol=1e-9 * np.abs(h).max())
    assert not np.triu(c, 1).any()
    assert np.array_equal(cholesky(h, 1), c)
    r = inverse_factor(h, 2)
    assert np.allclose(r.T @ r @ h, np.eye(n), atol=1e-6)
    assert not np.tril(r, -1).any()
    with pytest.raises(InputError, match="positive definite"):
        cholesky(-h)


def test_products_do_not_depend_on_threads() -> None:
    a, b = weights(300, 200), weights(200, 130, 1)
    assert np.allclose(matmul(a, b), a @ b, atol=1e-4)
    assert np.array_equal(matmul(a, b, 1), matmul(a, b, 3))
    h = random_hessian(200, np.random.default_rng(1))
    assert np.allclose(row_forms(a, a, h), np.diag(a @ h @ a.T), rtol=1e-4)


def test_block_factor_is_a_unit_block_ldl() -> None:
    n = 40
    h = random_hessian(n, np.random.default_rng(3)).astype(float) + 0.1 * np.eye(n)
    factor = block_factor(h).astype(float)
    assert factor.shape == (48, 48)
    d = np.linalg.solve(factor[:n, :n], np.linalg.solve(factor[:n, :n], h).T)
    for i in range(0, n, 16):
        part = slice(i, i + 16)
        assert np.array_equal(factor[part, part], np.eye(16)), "unit blocks"
        assert np.abs(d[i : i + 16, i + 16 :]).max(initial=0) < 1e-4 * np.abs(h).max()
    assert not np.triu(factor, 16).any()


def test_an_exact_quantizer_returns_the_weights() -> None:
    w = weights(32, 288)
    factor = block_factor(random_hessian(288, np.random.default_rng(4)).astype(float) + 0.1 * np.eye(288))
    assert np.array_equal(quantize_with_feedback(w, factor, lambda block, target: target), w)


@pytest.mark.parametrize("factor", [None, np.eye(48, dtype=np.float32)])
def test_without_correlations_feedback_does_nothing(factor: np.ndarray | None) -> None:
    w = weights(16, 48)
    found = quantize_with_feedback(w, factor, lambda block, target: np.rint(target))
    assert np.array_equal(found, np.rint(w))


def test_block_feedback_is_the_recursion_it_says_and_pays() -> None:
    n = 304  # more than two panels, the last one short
    rng = np.random.default_rng(5)
    h = random_hessian(n, rng) + 0.05 * np.eye(n, dtype=np.float32)
    w = weights(20, n)
    factor = block_factor(h.astype(float))
    found = quantize_with_feedback(w, factor, lambda block, target: np.rint(target))
    error = np.zeros((20, n))
    for b in range(n - 16, -1, -16):
        target = w[:, b : b + 16] + error[:, b + 16 :] @ factor[b + 16 :, b : b + 16]
        error[:, b : b + 16] = w[:, b : b + 16] - np.rint(target)
    agree = np.abs((w - error) - found) < 1e-3
    assert agree.mean() > 0.999  # a rounding may tip over
    assert proxy(w, found, h) < 0.6 * proxy(w, np.rint(w), h)


def test_column_walk_is_gptq_in_float64() -> None:
    rng = np.random.default_rng(6)
    n = 40
    h = random_hessian(n, rng).astype(float) + 0.1 * np.eye(n)
    r = inverse_factor(h)
    w = weights(30, n)
    scale, zero = rng.uniform(0.2, 0.5, 30).astype(np.float32), rng.normal(0, 0.1, 30).astype(np.float32)
    codes, errors = _kernel.walk(w, r.astype(np.float32), scale, zero, -3, 4, 2)
    rest = w.astype(float)
    expected = np.empty((30, n), int)
    for j in range(n):
        expected[:, j] = np.clip(np.rint((rest[:, j] - zero) / scale), -3, 4)
        error = (rest[:, j] - (scale * expected[:, j] + zero)) / r[j, j]
        assert np.allclose(errors[:, j], error, atol=1e-3) or (codes[:, j] != expected[:, j]).any()
        rest[:, j + 1 :] -= error[:, None] * r[j, j + 1 :]
    assert (codes == expected).mean() > 0.995
    assert not _kernel.walk(w, r.astype(np.float32), 0 * scale, zero, -3, 4, 1)[0].any()


def test_input_space_is_the_rotated_problem() -> None:
    h = random_hessian(48, np.random.default_rng(7))
    space = prepare_input(h, 48, seed=(3, 4))
    w = weights(5, 48)
    turned = space.into(w)
    assert space.rotated is not None
    assert np.allclose(turned @ space.rotated @ turned.T, w @ h @ w.T, rtol=1e-3, atol=1e-2)
    again = prepare_input(h, 48, seed=(3, 4))
    assert np.array_equal(again.into(w), turned)
    assert not np.array_equal(prepare_input(h, 48, seed=(3, 5)).into(w), turned)
    assert np.array_equal(prepare_input(h, 48, rotate="none").into(w), w)


def test_bad_hessians_are_refused() -> None:
    h = random_hessian(4, np.random.default_rng(8))
    for bad in (h[:3], np.full((4, 4), np.nan), -h, h + np.triu(np.ones((4, 4)), 1)):
        with pytest.raises(InputError):
            checked(bad, 4)
    assert np.array_equal(checked(np.zeros((4, 4)), 4), np.eye(4))
    with pytest.raises(InputError, match="rotate"):
        prepare_input(h, 4, "rtn", rotate="kotms")
