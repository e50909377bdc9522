"""The posterior of the values given evaluated coalitions, as matrices that grow by one row at a time.

The covariance does not depend on the observed numbers, only on which coalitions were evaluated. So a coalition
that is still being evaluated can be conditioned on at once, and a batch chosen greedily in this way is exact
for fixed hyper-parameters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from icml.tools.shapleig.covariances import (
    coalition_weights,
    cross_covariance,
    kernel,
    value_covariance,
    weight_products,
)
from icml.tools.shapleig.hyperparameters import Hyperparameters
from icml.tools.shapleig.semivalues import Array, Semivalue

_UPDATED_WHITENER = 1e-4
"""Share of the variance in some direction that must be left for the whitener to be updated, not made anew."""


class Posterior:
    """Gaussian posterior over the values of all players, in standardised units.

    Args:
        theta: hyper-parameters.
        X: coalitions conditioned on, in +-1, all different, (t, p).
        repeats: observations behind each of them, (t,).
        semivalue: the index.

    Attributes:
        covariance: of the values, (p, p).
    """

    def __init__(self, theta: Hyperparameters, X: Array, repeats: Array, semivalue: Semivalue) -> None:
        from scipy.linalg import cholesky, solve_triangular

        self.theta = theta
        self.semivalue = semivalue
        self._X = X
        self._whitener: Array | None = None
        jumps = theta.roughness * (theta.jumps_of(len(X)) - 1.0)
        counts = coalition_weights(X, semivalue)
        matrix = self._kernel(X, X)
        matrix[np.diag_indices(len(X))] += theta.roughness + jumps + theta.noise / repeats
        self._lower: Array = cholesky(matrix, lower=True, check_finite=False) if len(X) else matrix
        cross = self._cross(X) + jumps[:, None] * counts
        # Rows of `_loadings` are L^-1 cov(v(X), phi).
        self._loadings: Array = (
            solve_triangular(self._lower, cross, lower=True, check_finite=False) if len(X) else cross
        )
        covariance = self._prior_covariance() + (counts.T * jumps) @ counts
        covariance -= self._loadings.T @ self._loadings
        self.covariance: Array = 0.5 * (covariance + covariance.T)

    def _kernel(self, A: Array, B: Array) -> Array:
        """Prior covariance of the smooth part, (n, m)."""
        return kernel(A, B, self.theta.lengthscale, self.theta.outputscale)

    def _cross(self, X: Array) -> Array:
        """Prior cov(v(x), phi), (n, p), where no jump is known."""
        theta = self.theta
        smooth = cross_covariance(X, theta.lengthscale, theta.outputscale, self.semivalue)
        result: Array = smooth + theta.roughness * coalition_weights(X, self.semivalue)
        return result

    def _prior_covariance(self) -> Array:
        """Prior cov(phi, phi), (p, p), where no jump is known."""
        theta, players = self.theta, len(self.theta.lengthscale)
        same, other = weight_products(players, self.semivalue)
        rough = np.full((players, players), theta.roughness * other)
        np.fill_diagonal(rough, theta.roughness * same)
        smooth = value_covariance(theta.lengthscale, theta.outputscale, self.semivalue)
        result: Array = smooth + rough
        return result

    @property
    def whitener(self) -> Array:
        """W (p, k) with W W^T the inverse of the covariance, in the k <= p dimensions that are not known already."""
        if self._whitener is None:
            eigenvalues, vectors = np.linalg.eigh(self.covariance)
            kept = eigenvalues > 1e-9 * max(float(eigenvalues[-1]), 1e-300)
            self._whitener = vectors[:, kept] / np.sqrt(eigenvalues[kept])
        return self._whitener

    def _whitener_without(self, loading: Array) -> Array | None:
        """The whitener when l l^T is taken from the covariance: one more column; None where that would not be exact."""
        if self._whitener is None:
            return None
        projected = self._whitener.T @ loading
        rest = 1.0 - float(projected @ projected)
        if rest < _UPDATED_WHITENER:
            return None
        return np.column_stack([self._whitener, self._whitener @ projected / math.sqrt(rest)])

    def whiten(self, y: Array) -> Array:
        """L^-1 (y - m) for the values y of the first len(y) coalitions."""
        from scipy.linalg import solve_triangular

        t = len(y)
        result: Array = solve_triangular(
            self._lower[:t, :t], y - self.theta.mean, lower=True, check_finite=False
        )
        return result

    def mean(self, y: Array) -> Array:
        """Posterior mean of the values, (p,), from the standardised values y of the first len(y) coalitions."""
        result: Array = self._loadings[: len(y)].T @ self.whiten(y)
        return result

    def leave_one_out(self, y: Array) -> Array:
        """How many standard deviations each y is off its prediction from all the others, (t,)."""
        alpha, precision = self._precision(y)
        result: Array = alpha / np.sqrt(precision)
        return result

    def prediction_errors(self, y: Array) -> Array:
        """How far each y is off its prediction from all the others, (t,)."""
        alpha, precision = self._precision(y)
        result: Array = alpha / precision
        return result

    def _precision(self, y: Array) -> tuple[Array, Array]:
        """K^-1 (y - m) and the diagonal of K^-1."""
        from scipy.linalg import solve_triangular

        inverse = solve_triangular(
            self._lower[: len(y), : len(y)], np.eye(len(y)), lower=True, check_finite=False
        )
        return inverse.T @ self.whiten(y), (inverse**2).sum(axis=0)

    def candidates(self, W: Array) -> Candidates:
        """What can be known of the coalitions W (n, p) in +-1 before they are evaluated."""
        from scipy.linalg import solve_triangular

        theta = self.theta
        cross = self._cross(W)
        variance = np.full(len(W), theta.outputscale + theta.roughness + theta.noise)
        if not len(self._X):
            return Candidates(W, cross, variance, np.empty((0, len(W))))
        prior = self._kernel(self._X, W)
        whitened = solve_triangular(self._lower, prior, lower=True, check_finite=False, overwrite_b=True)
        cross -= whitened.T @ self._loadings
        variance -= np.einsum("tn,tn->n", whitened, whitened)
        return Candidates(W, cross, np.maximum(variance, self._least_variance), whitened)

    @property
    def _least_variance(self) -> float:
        return 0.5 * (self.theta.roughness + self.theta.noise)

    def condition(self, candidates: Candidates, index: int) -> Candidates:
        """Adds one candidate to what is conditioned on; returns the others given it too, without those equal to it."""
        W = candidates.W
        scale = math.sqrt(candidates.variance[index])
        loading = candidates.cross[index] / scale
        t = len(self._X)
        lower = np.zeros((t + 1, t + 1))
        lower[:t, :t] = self._lower
        lower[t, :t] = candidates.whitened[:, index]
        lower[t, t] = scale
        self._lower = lower
        self._X = np.vstack([self._X, W[index]])
        self._loadings = np.vstack([self._loadings, loading])
        self.covariance = self.covariance - np.outer(loading, loading)
        self._whitener = self._whitener_without(loading)
        rest = (W[index] != W).any(axis=1)
        row = self._kernel(W[index : index + 1], W[rest])[0]
        row = (row - candidates.whitened[:, index] @ candidates.whitened[:, rest]) / scale
        return Candidates(
            W[rest],
            candidates.cross[rest] - np.outer(row, loading),
            np.maximum(candidates.variance[rest] - row**2, self._least_variance),
            np.vstack([candidates.whitened[:, rest], row]),
        )


@dataclass(frozen=True)
class Candidates:
    """Coalitions that may be evaluated next, none of which is conditioned on.

    Args:
        W: in +-1, (n, p).
        cross: posterior covariance of each with the values, (n, p).
        variance: posterior variance of an observation of each, (n,).
        whitened: L^-1 k(X, W), (t, n).
    """

    W: Array
    cross: Array
    variance: Array
    whitened: Array

    def joined(self, other: Candidates) -> Candidates:
        """These and the others."""
        return Candidates(
            np.vstack([self.W, other.W]),
            np.vstack([self.cross, other.cross]),
            np.concatenate([self.variance, other.variance]),
            np.hstack([self.whitened, other.whitened]),
        )
