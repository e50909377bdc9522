"""The quadrature form against explicit sums over all coalitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icml.tools.shapleig import shapley_covariances
from icml.tools.shapleig.covariances import coalition_weights, kernel, weight_products
from icml.tools.shapleig.semivalues import SHAPLEY, parse_semivalue

from .oracles import coalitions, hamming_kernel, semivalue_matrix

INDICES = ["shapley", "banzhaf", "beta:4,1", "beta:0.5,2", "binomial:0.3"]


@pytest.mark.parametrize("name", INDICES)
@pytest.mark.parametrize("players", range(2, 11))
def test_equal_to_sums_over_all_coalitions(players: int, name: str) -> None:
    value = parse_semivalue(name)
    Z = coalitions(players)
    A = semivalue_matrix(players, [float(weight) for weight in value.weights(players)])
    for spread, seed in ((0.3, 0), (1.5, 1), (3.0, 2)):
        lengthscale = np.exp(np.random.default_rng(seed).normal(0, spread, players))
        K = hamming_kernel(Z, lengthscale, 1.7)
        G, C = shapley_covariances(Z, lengthscale, 1.7, value)
        np.testing.assert_allclose(G, A @ K, rtol=0, atol=1e-13)
        np.testing.assert_allclose(C, A @ K @ A.T, rtol=0, atol=1e-13)


@given(st.lists(st.floats(-13, 13), min_size=2, max_size=9), st.floats(-4, 4))
@settings(max_examples=60, deadline=None)
def test_any_length_scales_within_the_bounds_of_the_fit(log_lengths: list[float], log_scale: float) -> None:
    lengthscale, scale = np.exp(log_lengths), float(np.exp(log_scale))
    Z = coalitions(len(log_lengths))
    A = semivalue_matrix(len(log_lengths), [float(weight) for weight in SHAPLEY.weights(len(log_lengths))])
    K = hamming_kernel(Z, lengthscale, scale)
    G, C = shapley_covariances(Z, lengthscale, scale)
    np.testing.assert_allclose(G, A @ K, rtol=1e-9, atol=2e-13 * scale)
    np.testing.assert_allclose(C, A @ K @ A.T, rtol=1e-9, atol=2e-13 * scale)


def test_long_length_scales_keep_relative_precision() -> None:
    """With l = 1e6 the variances are 1e-7 of s; plain 1 - b would lose half their digits."""
    lengthscale = np.full(4, 1e6)
    _, C = shapley_covariances(coalitions(4), lengthscale, 1.0)
    r = -np.expm1(-1 / (4 * lengthscale[0])) / 2
    assert C[0, 0] == pytest.approx(4 * r * (1 - r) ** 3 * (1 + (r / (1 - r)) ** 2 / 3), rel=1e-12)


@pytest.mark.parametrize("players", [100, 300])
def test_many_players_symmetric_positive_and_additive(players: int) -> None:
    """The row sums of C are cov(sum of values, phi) = cov(v(N) - v(0), phi), which the cross covariance says too."""
    lengthscale = np.exp(np.random.default_rng(players).normal(4, 1.5, players))
    ends = np.array([np.zeros(players, dtype=bool), np.ones(players, dtype=bool)])
    G, C = shapley_covariances(ends, lengthscale, 1.0)
    np.testing.assert_array_equal(C, C.T)
    assert np.linalg.eigvalsh(C)[0] > -1e-15
    np.testing.assert_allclose(C.sum(axis=1), G[:, 1] - G[:, 0], rtol=1e-9)


@pytest.mark.parametrize("name", INDICES)
@pytest.mark.parametrize("players", [2, 3, 6])
def test_weights_of_single_coalitions(players: int, name: str) -> None:
    value = parse_semivalue(name)
    A = semivalue_matrix(players, [float(weight) for weight in value.weights(players)])
    X = 2.0 * coalitions(players) - 1.0
    np.testing.assert_allclose(coalition_weights(X, value), A.T, rtol=1e-14, atol=1e-17)
    same, other = weight_products(players, value)
    products = A @ A.T
    np.testing.assert_allclose(np.diag(products), same, rtol=1e-13)
    np.testing.assert_allclose(products[~np.eye(players, dtype=bool)], other, rtol=1e-11, atol=1e-16)


def test_kernel_is_the_hamming_kernel() -> None:
    Z = coalitions(5)
    lengthscale = np.array([0.3, 1.0, 2.0, 5.0, 1e-4])
    X = 2.0 * Z - 1.0
    np.testing.assert_allclose(
        kernel(X, X, lengthscale, 2.5), hamming_kernel(Z, lengthscale, 2.5), rtol=1e-12, atol=1e-14
    )
