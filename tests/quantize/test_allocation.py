"""Bit allocation against trying everything, and low-bit activations."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icml.formats.errors import InputError
from icml.tools.quantize import allocate_bits, best_clip, quantize_activations

BITS = (2, 4, 6, 8)


def total(
    choice: tuple[int, ...], C: np.ndarray, K: np.ndarray | None, bits: tuple[int, ...], beta: float
) -> float:
    at = [bits.index(b) for b in choice]
    own = sum(C[i, b] for i, b in enumerate(at))
    return own + (0 if K is None else beta * sum(K[i, at[i], at[i + 1]] for i in range(len(at) - 1)))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 6), st.integers(0, 10**6), st.floats(2, 8.5), st.booleans(), st.booleans())
def test_is_the_best_of_all_choices(n: int, seed: int, avg: float, coupled: bool, sized: bool) -> None:
    rng = np.random.default_rng(seed)
    bits = BITS[: rng.integers(1, 5)]
    C = rng.standard_normal((n, len(bits)))
    K = rng.standard_normal((n - 1, len(bits), len(bits))) if coupled else None
    sizes = rng.integers(1, 5, n).tolist() if sized else None
    found = allocate_bits(C, K, bits, avg, 0.5, sizes)
    weights = np.array(sizes or [1] * n)
    allowed = [c for c in product(bits, repeat=n) if weights @ c <= avg * weights.sum() + 1e-9]
    assert tuple(found) in allowed
    assert total(tuple(found), C, K, bits, 0.5) == pytest.approx(
        min(total(c, C, K, bits, 0.5) for c in allowed)
    )


def test_of_equal_costs_it_spends_least() -> None:
    assert allocate_bits(np.zeros((3, 3)), None, (2, 3, 4), 4) == [2, 2, 2]


def test_real_sizes_are_quick() -> None:
    rng = np.random.default_rng(0)
    sizes = [576 * 576, 192 * 576, 192 * 576, 576 * 576, 1536 * 576, 1536 * 576, 576 * 1536] * 30
    C = np.abs(rng.standard_normal((210, 1))) * np.array([1, 0.25, 0.06])
    found = allocate_bits(C, None, (2, 3, 4), 2.3, sizes=sizes)
    spent = np.dot(found, sizes) / sum(sizes)
    assert 2.29 < spent <= 2.3


def test_refusals() -> None:
    with pytest.raises(InputError, match="below the fewest"):
        allocate_bits(np.zeros((2, 2)), None, (2, 4), 1.9)
    with pytest.raises(InputError, match="joint"):
        allocate_bits(np.zeros((3, 2)), np.zeros((3, 2, 2)), (2, 4), 3)
    with pytest.raises(InputError, match="NaN"):
        allocate_bits(np.full((2, 2), np.nan), None, (2, 4), 3)
    with pytest.raises(InputError, match="size"):
        allocate_bits(np.zeros((2, 2)), None, (2, 4), 3, sizes=[1, 0])


@settings(max_examples=50, deadline=None)
@given(st.integers(2, 8), st.floats(0.5, 1), st.integers(0, 10**6))
def test_activations_lie_on_a_grid_with_zero(bits: int, clip: float, seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal((4, 50)).astype(np.float32)
    x[0] = 0
    found = quantize_activations(x, bits, clip)
    assert not found[0].any()
    for row, given_row in zip(found[1:], x[1:], strict=True):
        step = clip * (given_row.max() - given_row.min()) / (2**bits - 1)
        codes = row / step
        assert np.abs(codes - np.rint(codes)).max() < 1e-3
        assert len(np.unique(np.rint(codes))) <= 2**bits
        inside = (given_row > clip * given_row.min() + step) & (given_row < clip * given_row.max() - step)
        assert np.abs(row - given_row)[inside].max(initial=0) <= 0.501 * step


def test_the_best_clip_is_the_best_of_the_grid() -> None:
    rng = np.random.default_rng(1)
    x, w = rng.standard_t(3, (60, 30)).astype(np.float32), rng.standard_normal((20, 30)).astype(np.float32)
    losses = {
        p: np.square((quantize_activations(x, 4, p) - x) @ w.T).sum() for p in (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    }
    assert best_clip(x, w, 4, tuple(losses)) == min(losses, key=losses.__getitem__)
    with pytest.raises(InputError):
        quantize_activations(x, 1)
    with pytest.raises(InputError):
        quantize_activations(x, 4, 1.5)
