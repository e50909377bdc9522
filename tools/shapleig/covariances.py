"""Covariances of semivalues under a Hamming-kernel Gaussian process, without summing over coalitions.

The kernel k(z, z') = s exp(-(1/p) sum_j [z_j != z'_j] / l_j) is diagonal in the Walsh basis: the coefficient of
S has variance s prod_{j not in S} (1 + b_j)/2 prod_{j in S} (1 - b_j)/2 with b_j = exp(-1/(p l_j)). With F_j(t)
= ((1 + b_j) + (1 - b_j) t)/2

    cov(phi_i, v(x))   = s (1 - b_i)/2 x_i  int prod_{j != i} F_j(x_j t) dm(t)
    cov(phi_i, phi_j)  = s (1 - b_i)(1 - b_j)/4  int t prod_{l != i, j} F_l(t) dn(t),      i != j
    cov(phi_i, phi_i)  = s (1 - b_i)/2  int prod_{l != i} F_l(t) dn(t)

where m and n have the moments c_s and c_s^2 of the semivalue. The integrands are polynomials of degree < p, so
the rules of `semivalues` are exact, and everything is a few matrix products. (The paper - Rundel, Fumagalli,
Muschalik, Bischl, Feurer: ShaplEIG, 2026 - gets the Shapley case from tables of elementary symmetric
polynomials in O(p^4).)
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from icml.tools.shapleig.semivalues import SHAPLEY, Array, Semivalue


def shapley_covariances(
    X: NDArray[np.bool_] | Array, lengthscale: Array, outputscale: float, semivalue: Semivalue = SHAPLEY
) -> tuple[Array, Array]:
    """Prior covariances of the values with v(X) and among themselves.

    Args:
        X: coalitions, (t, p) bool or 0/1.
        lengthscale: l_j > 0 of every player, (p,).
        outputscale: prior variance s of v.
        semivalue: the index.

    Returns:
        G (p, t) and C0 (p, p).
    """
    scales = np.asarray(lengthscale, dtype=float)
    signs = 2.0 * np.asarray(X, dtype=float) - 1.0
    return cross_covariance(signs, scales, outputscale, semivalue).T, value_covariance(
        scales, outputscale, semivalue
    )


def coalition_weights(X: Array, semivalue: Semivalue = SHAPLEY) -> Array:
    """d phi_i / d v(x) for rows x in +-1: how much the value of each single coalition counts, (t, p)."""
    joined, left = _weights_by_size(X.shape[1], semivalue)
    inside = X > 0
    sizes = inside.sum(axis=1)
    result: Array = np.where(inside, joined[sizes, None], left[sizes, None])
    return result


@lru_cache(maxsize=64)
def _weights_by_size(players: int, semivalue: Semivalue) -> tuple[Array, Array]:
    """What the value of a coalition of 0 .. p players counts for its members, and for the others."""
    weights = np.array([float(weight) for weight in semivalue.weights(players)])
    return np.append(0.0, weights), -np.append(weights, 0.0)


@lru_cache(maxsize=64)
def weight_products(players: int, semivalue: Semivalue = SHAPLEY) -> tuple[float, float]:
    """sum over all coalitions of (d phi_i / d v)(d phi_j / d v), for i = j and for i != j."""
    weights = semivalue.weights(players)
    same = sum((2 * math.comb(players - 1, k) * weights[k] ** 2 for k in range(players)), Fraction(0))
    steps = (math.comb(players - 2, k) * (weights[k + 1] - weights[k]) ** 2 for k in range(players - 1))
    return float(same), float(sum(steps, Fraction(0)))


def kernel(A: Array, B: Array, lengthscale: Array, outputscale: float) -> Array:
    """k of every row of A (n, p) with every row of B (m, p); both in +-1."""
    rates = _rates(lengthscale)
    result: Array = outputscale * np.exp(-0.5 * (rates.sum() - (A * rates) @ B.T))
    return result


def cross_covariance(
    X: Array, lengthscale: Array, outputscale: float, semivalue: Semivalue = SHAPLEY
) -> Array:
    """cov(v(x), phi_i) for rows x in +-1: (t, p), in O(t p^2 / 2)."""
    mean, half = _factors(lengthscale)
    nodes, weights = semivalue.rule(len(mean))
    plus, minus = mean + half * nodes, mean - half * nodes
    log_plus, log_minus = np.log(plus), np.log(minus)
    # prod_j F_j(x_j t) for all rows and nodes; every F_j takes two values only, so its logarithm is linear in x_j.
    product = np.exp(X @ (0.5 * (log_plus - log_minus)) + 0.5 * (log_plus + log_minus).sum(axis=0)) * weights
    even = product @ (0.5 / plus + 0.5 / minus).T
    odd = product @ (0.5 / plus - 0.5 / minus).T
    result: Array = (outputscale * half[:, 0]) * (X * even + odd)
    return result


def value_covariance(lengthscale: Array, outputscale: float, semivalue: Semivalue = SHAPLEY) -> Array:
    """cov(phi_i, phi_j), (p, p), in O(p^3)."""
    mean, half = _factors(lengthscale)
    nodes, weights = semivalue.squared_rule(len(mean))
    factors = mean + half * nodes
    mass = outputscale * weights * np.exp(np.log(factors).sum(axis=0))
    ratios = half / factors
    result: Array = (ratios * (mass * nodes)) @ ratios.T
    result = 0.5 * (result + result.T)
    np.fill_diagonal(result, ratios @ mass)
    return result


def _factors(lengthscale: Array) -> tuple[Array, Array]:
    """(1 + b)/2 and (1 - b)/2 as columns; expm1 keeps the second exact for long length scales."""
    half = -0.5 * np.expm1(-_rates(lengthscale))
    return (1.0 - half)[:, None], half[:, None]


def _rates(lengthscale: Array) -> Array:
    """1/(p l_j); beyond 50 the kernel is zero anyway, and larger ones would cancel in sums over players."""
    return np.minimum(1.0 / (len(lengthscale) * lengthscale), 50.0)
