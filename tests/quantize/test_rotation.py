"""Rotations: orthogonal, the product they claim to be, and the same in torch."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import hadamard

from icml.formats.errors import InputError
from icml.tools.quantize import Rotation
from icml.tools.quantize.rotation import power_of_two

SIZES = [1, 2, 8, 16, 64, 15, 48, 576, 100, 513, 1031, 2062]


def rotation(n: int) -> Rotation:
    return Rotation.random(n, np.random.default_rng(n))


@pytest.mark.parametrize("n", SIZES)
def test_orthogonal_and_transpose_is_the_inverse(n: int) -> None:
    v = rotation(n)
    matrix = v.apply(np.eye(n, dtype=np.float32)).T.astype(float)
    assert np.abs(matrix @ matrix.T - np.eye(n)).max() < 1e-6
    assert np.allclose(v.apply(np.eye(n, dtype=np.float32), transpose=True).T, matrix.T, atol=1e-6)


@pytest.mark.parametrize("n", [8, 48, 576, 100])
def test_kronecker_product_of_q_and_hadamard(n: int) -> None:
    v = rotation(n)
    block = power_of_two(n)
    q = np.ones((1, 1)) if v.q is None else v.q
    expected = np.kron(q, hadamard(block) / np.sqrt(block))
    assert np.abs(v.apply(np.eye(n, dtype=np.float32)).T - expected).max() < 1e-6


def test_spreads_an_outlier_when_no_power_of_two_divides() -> None:
    spread = np.abs(rotation(2063).apply(np.eye(2063, dtype=np.float32)[[0, 1500, 2062]]))
    assert spread.max() < 0.15  # 1/sqrt(2063) is 0.022
    assert (spread > 0).sum(1).min() >= 1024


def test_conjugate_keeps_the_quadratic_form() -> None:
    rng = np.random.default_rng(0)
    v, x = rotation(48), rng.standard_normal((100, 48)).astype(np.float32)
    h = x.T @ x
    w = rng.standard_normal((3, 48)).astype(np.float32)
    turned = v.apply(w)
    assert np.allclose(turned @ v.conjugate(h) @ turned.T, w @ h @ w.T, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("n", [16, 48, 576, 1031])
def test_torch_agrees_and_differentiates(n: int) -> None:
    torch = pytest.importorskip("torch")
    from icml.tools.quantize import apply_rotation_torch

    v = rotation(n)
    x = np.random.default_rng(1).standard_normal((3, n)).astype(np.float32)
    q = None if v.q is None else torch.from_numpy(v.q)
    for transpose in (False, True):
        given = torch.from_numpy(x).requires_grad_()
        found = apply_rotation_torch(given, q, transpose)
        assert np.abs(found.detach().numpy() - v.apply(x, transpose=transpose)).max() < 1e-5
        found.square().sum().backward()
        assert np.abs(given.grad.numpy() - 2 * x).max() < 1e-5  # |V x| = |x|


def test_the_same_bits_whatever_threads_and_rows() -> None:
    x = np.random.default_rng(2).standard_normal((700, 1536)).astype(np.float32)
    v = rotation(1536)
    whole = v.apply(x, threads=1)
    assert np.array_equal(v.apply(x, threads=4), whole)
    assert np.array_equal(v.apply(x[5:6], threads=1), whole[5:6])


def test_a_q_that_does_not_belong_is_refused() -> None:
    for n, q in ((48, None), (16, np.eye(3, dtype=np.float32)), (48, np.eye(2, dtype=np.float32))):
        with pytest.raises(InputError):
            Rotation(n, q)
