"""Products with packed matrices: every instruction set against the decoded matrix in float64."""

from __future__ import annotations

import numpy as np
import pytest

from icml.tools.quantize import Generator, TrellisCode, _kernel, instruction_sets

from .oracles import GENERATORS


def packed_matrix(K: int, stripes: int = 3, tiles: int = 5, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.integers(-(2**31), 2**31, (stripes, tiles, 8 * K)).astype(np.int32)


def decoded(packed: np.ndarray, generator: Generator, L: int, K: int) -> np.ndarray:
    stripes, tiles, _ = packed.shape
    sums = TrellisCode.of(generator, L, K).byte_sums(packed.reshape(-1, 8 * K).view(np.uint32))
    return (
        sums.reshape(stripes, tiles, 16, 16)
        .transpose(0, 2, 1, 3)
        .reshape(16 * stripes, 16 * tiles)
        .astype(float)
    )


@pytest.mark.parametrize("isa", instruction_sets())
@pytest.mark.parametrize("K", [1, 2, 3, 4])
@pytest.mark.parametrize("generator", GENERATORS, ids=lambda g: g.family)
def test_trellis_products(generator: Generator, K: int, isa: str) -> None:
    rng = np.random.default_rng(K)
    packed = packed_matrix(K)
    for L in (9, 12, 14, 16):
        w = decoded(packed, generator, L, K)
        matrix = _kernel.Trellis(packed, generator.family_number, generator.A, generator.B, L, K, isa)
        assert np.array_equal(matrix.decode(1, 3, 2).T, w[16:48])
        for vectors in (1, 2, 3, 7):
            x8 = rng.integers(-128, 128, (vectors, 80)).astype(np.int8)
            assert np.array_equal(matrix.integer(x8, 2), x8.astype(float) @ w.T)
            x = rng.standard_normal((vectors, 80)).astype(np.float32)
            found = matrix.exact(x, 2)
            assert np.abs(found - x @ w.T).max() < 1e-5 * np.abs(x @ w.T).max()


@pytest.mark.parametrize("isa", instruction_sets())
@pytest.mark.parametrize("generator", GENERATORS, ids=lambda g: g.family)
def test_integer_sums_do_not_overflow_on_long_rows(generator: Generator, isa: str) -> None:
    packed = packed_matrix(2, 1, 2100)
    w = decoded(packed, generator, 16, 2)
    matrix = _kernel.Trellis(packed, generator.family_number, generator.A, generator.B, 16, 2, isa)
    x8 = np.full((1, 16 * 2100), -128, np.int8)
    assert np.array_equal(matrix.integer(x8, 1), x8.astype(float) @ w.T)


@pytest.mark.parametrize("isa", instruction_sets())
@pytest.mark.parametrize(("columns", "group"), [(16, 16), (272, 64), (384, 128), (400, 128)])
def test_ternary_products(columns: int, group: int, isa: str) -> None:
    rng = np.random.default_rng(columns)
    codes = rng.integers(0, 3, (32, columns)).astype(np.uint8)
    groups = -(-columns // group)
    alpha, mu = (rng.standard_normal((32, groups)).astype(np.float32) for _ in range(2))
    expand = np.repeat(np.arange(groups), group)[:columns]
    w = (codes.astype(float) - 1) * alpha[:, expand] + mu[:, expand]
    striped = [np.ascontiguousarray(s.reshape(2, 16, groups).transpose(0, 2, 1)) for s in (alpha, mu)]
    matrix = _kernel.Ternary(_kernel.ternary_pack(codes), *striped, group, isa)
    for vectors in (1, 3):
        x = rng.standard_normal((vectors, columns)).astype(np.float32)
        assert np.allclose(matrix.exact(x, 2), x @ w.T, rtol=1e-4, atol=1e-4 * np.abs(x @ w.T).max())
        x8 = rng.integers(-128, 128, (vectors, columns)).astype(np.int8)
        scale = rng.uniform(0.01, 0.1, vectors).astype(np.float32)
        expected = (x8 * scale[:, None].astype(float)) @ w.T
        assert np.allclose(
            matrix.integer(x8, scale, 2), expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max()
        )


def test_shapes_that_do_not_fit_are_refused() -> None:
    packed = packed_matrix(2)
    matrix = _kernel.Trellis(packed, 0, 0x52252A1F, 0, 12, 2)
    with pytest.raises(ValueError, match="each column"):
        matrix.exact(np.zeros((1, 79), np.float32), 1)
    with pytest.raises(ValueError, match="stripes"):
        matrix.decode(0, 4, 1)
    with pytest.raises(ValueError, match="words"):
        _kernel.Trellis(packed, 0, 1, 0, 12, 3)
