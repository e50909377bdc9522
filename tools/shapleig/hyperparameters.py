"""The kernel's hyper-parameters by maximum a posteriori, with an analytic gradient.

One length scale a player, the output scale, the constant mean, and on request the noise. With H = (K^-1 - a a^T)/2 o K0, where
a = K^-1 (y - m) and K0 is the kernel without noise, all length-scale derivatives together are two matrix products. The fit is
a function of the data alone, not of earlier fits, so that any process that reads the same study proposes the same coalition.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from icml.tools.shapleig.semivalues import Array

FIXED_NOISE = 1e-6
"""Noise variance, in units of the sample variance, of evaluations that are taken to be exact."""
NOISE_FLOOR = 1e-4
_LOG_LENGTH_BOUNDS = (math.log(1e-6), math.log(1e6))
_LOG_SCALE_BOUNDS = (math.log(1e-4), math.log(1e4))
_MEAN_BOUNDS = (-5.0, 5.0)
_LENGTH_PRIOR_SD = math.sqrt(3.0)


@dataclass(frozen=True)
class Hyperparameters:
    """Of the process over standardised values.

    Args:
        lengthscale: l_j, (p,).
        outputscale: s.
        mean: m.
        noise: variance of one observation.
    """

    lengthscale: Array
    outputscale: float = 1.0
    mean: float = 0.0
    noise: float = FIXED_NOISE


def prior_location(players: int) -> float:
    """Location of the log-normal prior of the length scales (Hvarfner, Hellsten, Nardi 2024: it grows with the dimension)."""
    return math.sqrt(2.0) + 0.5 * math.log(players)


def prior_guess(players: int, *, learn_noise: bool = False) -> Hyperparameters:
    """The mode of the prior, where every fit starts, and what is used before there is anything to fit."""
    length = math.exp(prior_location(players) - 1.0)
    return Hyperparameters(np.full(players, length), noise=1e-2 if learn_noise else FIXED_NOISE)


def fit(X: Array, y: Array, repeats: Array, start: Hyperparameters, *, learn_noise: bool) -> Hyperparameters:
    """A local maximum of the posterior density, by L-BFGS-B from `start`.

    Args:
        X: coalitions in +-1, (t, p).
        y: standardised values, (t,).
        repeats: how many observations each y is the mean of, (t,).
        start: where to begin.
        learn_noise: fit the noise too, instead of keeping the start's.
    """
    return fit_density(X, y, repeats, start, learn_noise=learn_noise)[0]


def fit_density(
    X: Array, y: Array, repeats: Array, start: Hyperparameters, *, learn_noise: bool
) -> tuple[Hyperparameters, float]:
    """`fit`, and the negative log density that it reached."""
    from scipy.optimize import minimize

    players = X.shape[1]
    theta = np.concatenate([np.log(start.lengthscale), [math.log(start.outputscale), start.mean]])
    bounds = [_LOG_LENGTH_BOUNDS] * players + [_LOG_SCALE_BOUNDS, _MEAN_BOUNDS]
    if learn_noise:
        theta = np.append(theta, math.log(start.noise))
        bounds.append((math.log(NOISE_FLOOR), 0.0))
    objective = NegativeLogPosterior(X, y, start.noise / repeats, 1.0 / repeats)
    result = minimize(objective, theta, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 200})
    best = result.x
    noise = math.exp(best[-1]) if learn_noise else start.noise
    found = replace(
        start, lengthscale=np.exp(best[:players]), outputscale=math.exp(best[players]), mean=float(best[players + 1]), noise=noise
    )
    return found, float(result.fun)


class NegativeLogPosterior:
    """-log p(y | theta) - log p(theta) up to a constant, and its gradient.

    theta is (log l_1 .. log l_p, log s, m), followed by the log noise when that is learnt.

    Args:
        X: coalitions in +-1, (t, p).
        y: standardised values, (t,).
        noise: fixed variance of each y, (t,); used when theta has no noise.
        shares: variance of each y in units of the noise, (t,).
    """

    def __init__(self, X: Array, y: Array, noise: Array, shares: Array) -> None:
        from scipy.linalg.lapack import dpotrf, dpotri

        self._X, self._y, self._noise, self._shares = X, y, noise, shares
        self._cholesky, self._invert = dpotrf, dpotri
        self._diagonal = np.diag_indices(len(y))
        self._location = prior_location(X.shape[1])

    def __call__(self, theta: Array) -> tuple[float, Array]:
        X, players = self._X, self._X.shape[1]
        log_length, log_scale, mean = theta[:players], theta[players], theta[players + 1]
        noise = self._shares * math.exp(theta[-1]) if len(theta) > players + 2 else self._noise
        rates = np.minimum(np.exp(-log_length) / players, 50.0)
        clean = np.exp(log_scale - 0.5 * (rates.sum() - (X * rates) @ X.T))
        covariance = clean.copy()
        covariance[self._diagonal] += noise
        lower, fault = self._cholesky(covariance, lower=1, clean=1, overwrite_a=1)
        if fault:
            return 1e100, np.zeros_like(theta)
        log_determinant = 2.0 * np.log(np.diagonal(lower)).sum()
        inverse, _ = self._invert(lower, lower=1)
        inverse = inverse + np.tril(inverse, -1).T
        residual = self._y - mean
        alpha = inverse @ residual
        deviation = (log_length - self._location) / _LENGTH_PRIOR_SD
        density = 0.5 * (residual @ alpha + log_determinant) + (log_length + 0.5 * deviation**2).sum()

        inner = 0.5 * (inverse - np.outer(alpha, alpha))
        if len(theta) > players + 2:
            gradient = np.empty(players + 3)
            gradient[-1] = inner[self._diagonal] @ noise
        else:
            gradient = np.empty(players + 2)
        inner *= clean
        total = inner.sum()
        gradient[:players] = 0.5 * (total - ((inner @ X) * X).sum(axis=0)) * rates + 1.0 + deviation / _LENGTH_PRIOR_SD
        gradient[players] = total
        gradient[players + 1] = -alpha.sum()
        return float(density), gradient
