"""The kernels alone: exp and log, every instruction set, sizes around the tile edges, large ranks, threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from icml.tools.nneinfact import _kernel
from icml.tools.nneinfact.engine import rule_of
from icml.tools.nneinfact.losses import Divergence

from .oracles import LIMITS

PAIRS = [(1, 0), (1, 1), (1, -1), (1, 0.5), (0.7, 0.3), (0.7, 0.5), *LIMITS]
SETS = _kernel.instruction_sets()


@pytest.fixture(params=SETS)
def instructions(request: pytest.FixtureRequest) -> Iterator[str]:
    before = _kernel.use_instruction_set(request.param)
    yield request.param
    _kernel.use_instruction_set(before)


def in_ulps(got: NDArray[Any], exact: NDArray[Any]) -> float:
    return float(np.max(np.abs((got - exact) / np.spacing(np.abs(exact.astype(got.dtype))))))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_log_and_exp_are_good_to_an_ulp(instructions: str, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    for values in (np.exp(rng.uniform(-80, 80, 20_000)), 1 + rng.uniform(-0.3, 0.3, 20_000)):
        x = values.astype(dtype)
        assert in_ulps(_kernel.powers(x)[0][: len(x)], np.log(x.astype(np.longdouble))) < 1
    x = rng.uniform(-86, 87, 20_000).astype(dtype)
    assert in_ulps(_kernel.powers(x)[1][: len(x)], np.exp(x.astype(np.longdouble))) < 1.5
    extreme = np.array([-1e6, -700, 700, 1e6], dtype)
    assert np.isfinite(_kernel.powers(extreme)[1]).all()


def dense_case(p: int, q: int, rank: int, dtype: Any, seed: int = 0) -> tuple[Any, Any, Any, Any]:
    rng = np.random.default_rng(seed)
    y = (rng.gamma(2, 1, (p, q)) + 0.1).astype(dtype)
    left, right = ((rng.random(s) + 0.1).astype(dtype) for s in ((1, p, rank), (1, rank, q)))
    data = _kernel.DenseData(1, p, q)
    data.set_values(y, np.zeros(1, np.int64), np.arange(p, dtype=np.int64) * q, None)
    return data, y.astype(float), left, right


def dense_pass(data: Any, left: Any, right: Any, d: Divergence, threads: int = 2) -> Any:
    rule = rule_of(d)
    rest = 0.0 if rule == 1 or not d.alpha or not d.order else 1 / (d.alpha * d.order)
    return _kernel.dense_pass(
        data, left, right, int(rule), d.alpha, d.beta, 1e-12, rest, True, True, True, True, threads
    )


def expected(y: Any, left: Any, right: Any, d: Divergence, w: Any = 1.0) -> list[Any]:
    left, right = left[0].astype(float), right[0].astype(float)
    x = left @ right
    up, down = d.terms(y, x)
    return [up * w @ right.T, down * w @ right.T, left.T @ (up * w), left.T @ (down * w), (d(y, x) * w).sum()]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("pair", PAIRS)
def test_every_rule(instructions: str, dtype: Any, pair: tuple[float, float]) -> None:
    d = Divergence(*pair)
    data, y, left, right = dense_case(37, 1003, 10, dtype)
    tolerance = 3e-5 if dtype == np.float32 else 1e-12
    for got, want in zip(dense_pass(data, left, right, d), expected(y, left, right, d), strict=False):
        np.testing.assert_allclose(
            np.reshape(got, np.shape(want)), want, rtol=10 * tolerance, atol=tolerance * np.abs(want).max()
        )


@pytest.mark.parametrize(
    "shape", [(1, 1, 1), (1, 700, 3), (700, 1, 5), (8, 64, 4), (9, 65, 7), (300, 33, 64), (17, 1100, 129)]
)
def test_edges_of_tiles_and_large_ranks(instructions: str, shape: tuple[int, int, int]) -> None:
    d = Divergence(0.7, 0.5)
    data, y, left, right = dense_case(*shape, np.float64)
    for got, want in zip(dense_pass(data, left, right, d), expected(y, left, right, d), strict=False):
        np.testing.assert_allclose(np.reshape(got, np.shape(want)), want, rtol=1e-11)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bytes_do_not_depend_on_threads(dtype: Any) -> None:
    data, _, left, right = dense_case(1000, 900, 6, dtype)
    one, *others = (dense_pass(data, left, right, Divergence(1, 0), threads) for threads in (1, 2, 3, 7))
    for other in others:
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "shape", [(1, 1, 1, 1), (3, 5, 7, 2), (2, 130, 9, 70), (1, 4, 300, 33), (5, 64, 64, 64)]
)
def test_product(instructions: str, shape: tuple[int, int, int, int]) -> None:
    b, m, n, k = shape
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(b, m, k)), rng.normal(size=(b, k, n))
    np.testing.assert_allclose(_kernel.multiply(left, right, 2), left @ right, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rank", [1, 8, 10, 17, 40, 70])
def test_sparse_sums(instructions: str, dtype: Any, rank: int) -> None:
    rng = np.random.default_rng(rank)
    rows, columns = 70, 90
    dense = np.where(rng.random((rows, columns)) < 0.3, rng.integers(1, 9, (rows, columns)), 0)
    dense[3] = dense[:, 4] = 0
    dense[7] = 2
    row, column = np.nonzero(dense)
    start = np.searchsorted(row, np.arange(rows + 1)).astype(np.int64)
    lanes = 64 // np.dtype(dtype).itemsize
    left, right = (np.zeros((n, -(-rank // lanes) * lanes), dtype) for n in (rows, columns))
    left[:, :rank], right[:, :rank] = rng.random((rows, rank)) + 0.1, rng.random((columns, rank)) + 0.1
    values = dense[row, column].astype(dtype)
    index = column.astype(np.int32)
    num, terms, loss, model = _kernel.sparse_pass(
        start, index, values, left, right, rank, 0, 1, 0, 1e-12, True, True, True, 2
    )
    by_column = _kernel.column_pass(*_kernel.transpose(start, index, columns), terms, left, rank, 2)
    x = left.astype(float) @ right.T.astype(float)
    ratio = dense / x
    tolerance = 2e-5 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(num, (ratio @ right)[:, :rank], rtol=tolerance)
    np.testing.assert_allclose(by_column, (ratio.T @ left)[:, :rank], rtol=tolerance)
    y, fit = dense[row, column], x[row, column]
    assert loss == pytest.approx((y * np.log(y / fit) - y).sum(), rel=10 * tolerance)
    assert model == pytest.approx(fit.sum(), rel=tolerance)


def test_wrong_shapes_are_refused() -> None:
    data, _, left, right = dense_case(4, 5, 2, np.float64)
    with pytest.raises(ValueError, match="left does not fit"):
        dense_pass(data, left[:, :3].copy(), right, Divergence(1, 0))
    with pytest.raises(ValueError, match="right does not fit"):
        dense_pass(data, left, right[:, :, :3].copy(), Divergence(1, 0))
    with pytest.raises(TypeError):
        dense_pass(data, left, right.astype(np.float32), Divergence(1, 0))
    with pytest.raises(ValueError, match="no data"):
        dense_pass(_kernel.DenseData(1, 4, 5), left, right, Divergence(1, 0))
    with pytest.raises(ValueError, match="no such instruction set"):
        _kernel.use_instruction_set("mmx")
