"""The model of the coalition values, and its hyper-parameters by maximum a posteriori with an analytic gradient.

v = smooth + rough: a Gaussian process whose kernel decays with the Hamming distance, one length scale a player, and a
part that is independent from coalition to coalition. Real games (retrainings) have such jumps; they are part of v, not
noise, so an evaluated coalition is still known exactly, and its rough part counts in the values by its semivalue
weight. The variance of the rough part is r w, where every coalition has its own w >= 1 with a density that falls as
w^-3: what stands alone, such as the one training that diverged, is not spread over its neighbours. (Heavy tails as a
scale mixture; Jylanki, Vanhatalo, Vehtari: Robust Gaussian Process Regression with a Student-t Likelihood, 2011.)
Without the rough part, as in the paper, the intervals are too short and the error is about twice as large.

With H = (K^-1 - a a^T)/2, a = K^-1 (y - m), and K0 the smooth part of K, all length-scale derivatives together
are two products with H o K0. At the maximum nearly all w are exactly 1. The fit is a function of the evaluations
alone, not of earlier fits, so that any process that reads the same study proposes the same coalition.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

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
_LOG_JUMP_BOUNDS = (0.0, math.log(1e5))
_LOG_NOISE_BOUNDS = (math.log(1e-4), math.log(10.0))
_LENGTH_PRIOR_SD = math.sqrt(3.0)
_ROUGHNESS_PRIOR_MEAN = math.log(1e-2)
_ROUGHNESS_PRIOR_SD = 0.5
_JUMP_DECAY = 2.0
"""The density of log w falls as exp(-2 log w): the rough part has tails like a Student t with 4 degrees of freedom."""
_FIT_WORK = 2 * 10**8
"""Evaluations squared times players that a fit may take: 447 evaluations of 1000 players, 1414 of 100."""
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
        jumps: w of the first evaluations, at least 1; of others it is 1.
    """

    lengthscale: Array
    outputscale: float = 1.0
    mean: float = 0.0
    roughness: float = math.exp(_ROUGHNESS_PRIOR_MEAN)
    noise: float = FIXED_NOISE
    jumps: Array = field(default_factory=lambda: np.ones(0))

    def jumps_of(self, count: int) -> Array:
        """w of the first `count` evaluations."""
        result = np.ones(count)
        known = min(count, len(self.jumps))
        result[:known] = self.jumps[:known]
        return result


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

    After every evaluation while there are few, then every 8th, 16th, 32nd, and in the end no more: at the last such
    count the first so many evaluations are fitted.

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
    most = max(256, math.isqrt(_FIT_WORK // players))
    evaluations = min(evaluations, most)
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

    players, count = data.X.shape[1], len(data.y)
    theta = [*np.log(start.lengthscale), math.log(start.outputscale), start.mean, math.log(start.roughness)]
    bounds = [_LOG_LENGTH_BOUNDS] * players + [_LOG_SCALE_BOUNDS, _MEAN_BOUNDS, _LOG_ROUGHNESS_BOUNDS]
    theta += np.log(start.jumps_of(count)).tolist()
    bounds += [_LOG_JUMP_BOUNDS] * count
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
        noise=math.exp(best[-1]) if learn_noise else start.noise,
        jumps=np.exp(best[players + 3 : players + 3 + count]),
    )


class NegativeLogPosterior:
    """-log p(y | theta) - log p(theta) up to a constant, and its gradient.

    theta is (log l_1 .. log l_p, log s, m, log r, log w_1 .. log w_t), followed by the log noise when that is
    learnt; how repeated observations scatter then counts too.

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
        X, (count, players) = self._X, self._X.shape
        scale, mean, roughness = theta[players : players + 3]
        jumps = slice(players + 3, players + 3 + count)
        rough = np.exp(roughness + theta[jumps])
        noise = self._shares * (math.exp(theta[-1]) if self._noise is None else self._noise)
        rates = np.minimum(np.exp(-theta[:players]) / players, 50.0)
        smooth = np.exp(scale - 0.5 * (rates.sum() - (X * rates) @ X.T))
        covariance = smooth.copy()
        covariance[self._diagonal] += rough + noise
        lower, fault = self._cholesky(covariance, lower=1, clean=1, overwrite_a=1)
        if fault:
            return 1e100, np.zeros_like(theta)
        half_determinant = np.log(np.diagonal(lower)).sum()
        inverse, _ = self._invert(lower, lower=1)
        inverse += inverse.T  # its upper triangle was zero
        inverse[self._diagonal] *= 0.5
        residual = self._y - mean
        alpha = inverse @ residual
        density = 0.5 * (residual @ alpha) + half_determinant

        # H is the derivative of the density by the covariance matrix.
        H = 0.5 * (inverse - np.outer(alpha, alpha))
        diagonal = H[self._diagonal]
        H *= smooth
        total = H.sum()
        gradient = np.empty_like(theta)
        gradient[:players] = 0.5 * (total - ((H @ X) * X).sum(axis=0)) * rates
        gradient[jumps] = diagonal * rough
        gradient[players : players + 3] = total, -alpha.sum(), gradient[jumps].sum()
        if self._noise is None:
            scatter = self._scatter * math.exp(-theta[-1])
            density += 0.5 * (self._freedom * theta[-1] + scatter)
            gradient[-1] = diagonal @ noise + 0.5 * (self._freedom - scatter)
        return float(density) + self._add_prior(theta, gradient), gradient

    def _add_prior(self, theta: Array, gradient: Array) -> float:
        """-log p(theta); its derivative is added to the gradient."""
        count, players = self._X.shape
        jumps = slice(players + 3, players + 3 + count)
        length = (theta[:players] - self._location) / _LENGTH_PRIOR_SD
        rough = (theta[players + 2] - _ROUGHNESS_PRIOR_MEAN) / _ROUGHNESS_PRIOR_SD
        gradient[:players] += 1.0 + length / _LENGTH_PRIOR_SD
        gradient[players + 2] += rough / _ROUGHNESS_PRIOR_SD
        gradient[jumps] += _JUMP_DECAY
        return float(
            (theta[:players] + 0.5 * length**2).sum() + 0.5 * rough**2 + _JUMP_DECAY * theta[jumps].sum()
        )
