"""The model of the coalition values, and its hyper-parameters by maximum a posteriori with an analytic gradient.

v = smooth + rough: a Gaussian process whose kernel decays with the Hamming distance, one length scale a player,
and a part that is independent from coalition to coalition. Real games (retrainings) have such jumps; they are
part of v, not noise, so an evaluated coalition is still known exactly, and its rough part counts in the values
by its semivalue weight. Leaving it out, as the paper does, makes the intervals too short and the error about
twice as large.

With H = (K^-1 - a a^T)/2, a = K^-1 (y - m), and K0 the smooth part of K, all length-scale derivatives together
are two products with H o K0. The fit is a function of the evaluations alone, not of earlier fits, so that any
process that reads the same study proposes the same coalition.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from icml.tools.shapleig.candidates import signs
from icml.tools.shapleig.evaluations import Evaluations
from icml.tools.shapleig.semivalues import Array

FIXED_NOISE = 1e-6
"""Noise variance, in units of the sample variance, of evaluations that are taken to be exact."""
_LOG_LENGTH_BOUNDS = (math.log(1e-6), math.log(1e6))
_LOG_SCALE_BOUNDS = (math.log(1e-4), math.log(1e4))
_MEAN_BOUNDS = (-5.0, 5.0)
_LOG_ROUGHNESS_BOUNDS = (math.log(1e-6), math.log(10.0))
_LOG_NOISE_BOUNDS = (math.log(1e-4), math.log(10.0))
_LENGTH_PRIOR_SD = math.sqrt(3.0)
_ROUGHNESS_PRIOR_MEAN = math.log(1e-2)
_ROUGHNESS_PRIOR_SD = 1.5
_ANCHOR = 8
"""Fits start from a fit to the evaluations up to a multiple of this, which in turn starts from the prior."""


@dataclass(frozen=True)
class Hyperparameters:
    """Of the process over standardised values.

    Args:
        lengthscale: l_j, (p,).
        outputscale: variance s of the smooth part.
        mean: m.
        roughness: variance of the rough part.
        noise: variance of one observation around v.
    """

    lengthscale: Array
    outputscale: float = 1.0
    mean: float = 0.0
    roughness: float = math.exp(_ROUGHNESS_PRIOR_MEAN)
    noise: float = FIXED_NOISE


@dataclass(frozen=True)
class Fitted:
    """Hyper-parameters and the standardisation (y - centre) / scale that they belong to."""

    theta: Hyperparameters
    centre: float
    scale: float
    learn_noise: bool


@dataclass(frozen=True)
class Standardised:
    """Evaluations as the model takes them.

    Args:
        X: coalitions in +-1, (t, p).
        y: (values - centre) / scale, (t,).
        repeats: how many observations each y is the mean of, (t,).
        scatter: sum of squares of the observations around those means.
        freedom: its degrees of freedom.
        centre, scale: mean and standard deviation of the values; the scale is 1 while they are all equal.
        constant: they are all equal.
    """

    X: Array
    y: Array
    repeats: Array
    scatter: float = 0.0
    freedom: int = 0
    centre: float = 0.0
    scale: float = 1.0
    constant: bool = False

    @classmethod
    def first(cls, evaluations: Evaluations, count: int) -> Standardised:
        """The first `count` of the evaluations."""
        values = evaluations.values[:count]
        spread = float(values.std(ddof=1)) if count > 1 and np.ptp(values) > 0 else 0.0
        scale = spread or 1.0
        centre = float(values.mean()) if count else 0.0
        squares, freedom = evaluations.scatter(count)
        X = signs(evaluations.masks[:count])
        y = (values - centre) / scale
        repeats = evaluations.repeats[:count]
        return cls(X, y, repeats, squares / scale**2, freedom, centre, scale, spread == 0.0)


def prior_location(players: int) -> float:
    """Location of the log-normal prior of the length scales (Hvarfner, Hellsten, Nardi 2024.

    It grows with the dimension).
    """
    return math.sqrt(2.0) + 0.5 * math.log(players)


def prior_guess(players: int, *, learn_noise: bool = False) -> Hyperparameters:
    """Where fits start, and what is used before there is anything to fit."""
    length = math.exp(prior_location(players) - 1.0)
    return Hyperparameters(np.full(players, length), noise=1e-2 if learn_noise else FIXED_NOISE)


class MapFit:
    """Hyper-parameters as a function of the evaluations in their order; remembers what it has computed.

    After every evaluation while there are few, then every 8th, 16th, 32nd: at the last such count the first so
    many evaluations are fitted.

    Args:
        learn_noise: fit the noise too.
    """

    def __init__(self, *, learn_noise: bool) -> None:
        self._learn_noise = learn_noise
        self._anchor: tuple[object, Hyperparameters] | None = None
        self._latest: tuple[object, Fitted] | None = None

    def __call__(self, evaluations: Evaluations) -> Fitted:
        count = refit_at(len(evaluations), evaluations.players)
        key = (count, evaluations.version)
        if self._latest is None or self._latest[0] != key:
            self._latest = key, self._fit(evaluations, count)
        return self._latest[1]

    def _fit(self, evaluations: Evaluations, count: int) -> Fitted:
        data = Standardised.first(evaluations, count)
        start = prior_guess(evaluations.players, learn_noise=self._learn_noise)
        if data.constant:
            return Fitted(start, data.centre, data.scale, self._learn_noise)
        anchor = count - count % _ANCHOR
        if 1 < anchor < count:
            start = self._fit_anchor(evaluations, anchor, start)
        theta = maximise(data, start, learn_noise=self._learn_noise)
        if anchor == count:
            self._anchor = (anchor, evaluations.version), theta
        return Fitted(theta, data.centre, data.scale, self._learn_noise)

    def _fit_anchor(self, evaluations: Evaluations, count: int, start: Hyperparameters) -> Hyperparameters:
        key = (count, evaluations.version)
        if self._anchor is None or self._anchor[0] != key:
            data = Standardised.first(evaluations, count)
            theta = start if data.constant else maximise(data, start, learn_noise=self._learn_noise)
            self._anchor = key, theta
        return self._anchor[1]


def refit_at(evaluations: int, players: int) -> int:
    """How many of the first evaluations the hyper-parameters are fitted to."""
    free = 64 + players
    if evaluations <= free:
        return evaluations
    step = 8 if evaluations <= 2 * free else 16 if evaluations <= 4 * free else 32
    return max(free, evaluations - evaluations % step)


def maximise(data: Standardised, start: Hyperparameters, *, learn_noise: bool) -> Hyperparameters:
    """A local maximum of the posterior density, by L-BFGS-B.

    Args:
        data: what to fit.
        start: where to begin.
        learn_noise: fit the noise too, instead of keeping the start's.
    """
    from scipy.optimize import minimize

    players = data.X.shape[1]
    theta = [*np.log(start.lengthscale), math.log(start.outputscale), start.mean, math.log(start.roughness)]
    bounds = [_LOG_LENGTH_BOUNDS] * players + [_LOG_SCALE_BOUNDS, _MEAN_BOUNDS, _LOG_ROUGHNESS_BOUNDS]
    if learn_noise:
        theta.append(math.log(start.noise))
        bounds.append(_LOG_NOISE_BOUNDS)
    objective = NegativeLogPosterior(data, None if learn_noise else start.noise)
    result = minimize(
        objective, np.array(theta), jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 200}
    )
    best = result.x
    return replace(
        start,
        lengthscale=np.exp(best[:players]),
        outputscale=math.exp(best[players]),
        mean=float(best[players + 1]),
        roughness=math.exp(best[players + 2]),
        noise=math.exp(best[players + 3]) if learn_noise else start.noise,
    )


class NegativeLogPosterior:
    """-log p(y | theta) - log p(theta) up to a constant, and its gradient.

    theta is (log l_1 .. log l_p, log s, m, log roughness), followed by the log noise when that is learnt; how repeated
    observations scatter then counts too.

    Args:
        data: coalitions and values.
        noise: variance of one observation, None to learn it.
    """

    def __init__(self, data: Standardised, noise: float | None) -> None:
        from scipy.linalg.lapack import dpotrf, dpotri

        self._X, self._y, self._shares, self._noise = data.X, data.y, 1.0 / data.repeats, noise
        self._scatter, self._freedom = data.scatter, data.freedom
        self._cholesky, self._invert = dpotrf, dpotri
        self._diagonal = np.diag_indices(len(data.y))
        self._location = prior_location(data.X.shape[1])

    def __call__(self, theta: Array) -> tuple[float, Array]:
        X, players = self._X, self._X.shape[1]
        log_length = theta[:players]
        log_scale, mean, log_roughness = theta[players : players + 3].tolist()
        roughness = math.exp(log_roughness)
        noise = self._shares * (math.exp(theta[-1]) if self._noise is None else self._noise)
        rates = np.minimum(np.exp(-log_length) / players, 50.0)
        smooth = np.exp(log_scale - 0.5 * (rates.sum() - (X * rates) @ X.T))
        covariance = smooth.copy()
        covariance[self._diagonal] += roughness + noise
        lower, fault = self._cholesky(covariance, lower=1, clean=1, overwrite_a=1)
        if fault:
            return 1e100, np.zeros_like(theta)
        half_determinant = np.log(np.diagonal(lower)).sum()
        inverse, _ = self._invert(lower, lower=1)
        inverse += inverse.T  # its upper triangle was zero
        inverse[self._diagonal] *= 0.5
        residual = self._y - mean
        alpha = inverse @ residual
        deviation = (log_length - self._location) / _LENGTH_PRIOR_SD
        rough_deviation = (log_roughness - _ROUGHNESS_PRIOR_MEAN) / _ROUGHNESS_PRIOR_SD
        density = 0.5 * (residual @ alpha) + half_determinant + (log_length + 0.5 * deviation**2).sum()
        density += 0.5 * rough_deviation**2

        inner = 0.5 * (inverse - np.outer(alpha, alpha))
        diagonal = inner[self._diagonal]
        inner *= smooth
        total = inner.sum()
        gradient = np.empty_like(theta)
        gradient[:players] = (
            0.5 * (total - ((inner @ X) * X).sum(axis=0)) * rates + 1.0 + deviation / _LENGTH_PRIOR_SD
        )
        gradient[players] = total
        gradient[players + 1] = -alpha.sum()
        gradient[players + 2] = diagonal.sum() * roughness + rough_deviation / _ROUGHNESS_PRIOR_SD
        if self._noise is None:
            scatter = self._scatter * math.exp(-theta[-1])
            density += 0.5 * (self._freedom * theta[-1] + scatter)
            gradient[players + 3] = diagonal @ noise + 0.5 * (self._freedom - scatter)
        return float(density), gradient
