"""Posterior, criteria and fit against the textbook formulas on explicit matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icml.tools.shapleig import ShapleyDesign, exact_values
from icml.tools.shapleig.criteria import error_drop, information_gain
from icml.tools.shapleig.hyperparameters import (
    Hyperparameters,
    NegativeLogPosterior,
    Standardised,
    prior_guess,
)
from icml.tools.shapleig.posterior import Posterior
from icml.tools.shapleig.semivalues import SHAPLEY, Semivalue, parse_semivalue

from .oracles import Array, coalitions, hamming_kernel, random_game, semivalue_matrix


class Explicit:
    """The Gaussian process over all 2^p values, conditioned by brute force."""

    def __init__(self, theta: Hyperparameters, value: Semivalue = SHAPLEY, codes: Sequence[int] = ()) -> None:
        players = len(theta.lengthscale)
        self.K = hamming_kernel(coalitions(players), theta.lengthscale, theta.outputscale)
        jumps = np.ones(2**players)
        jumps[list(codes)[: len(theta.jumps)]] = theta.jumps
        self.K += theta.roughness * np.diag(jumps)
        self.A = semivalue_matrix(players, [float(weight) for weight in value.weights(players)])
        self.theta = theta

    def condition(self, codes: list[int], noise: Array) -> tuple[Array, Array]:
        """Posterior covariance of v, and the gain matrix that maps observations to it."""
        K, seen = self.K, np.array(codes)
        gain = np.linalg.solve(K[np.ix_(seen, seen)] + np.diag(noise), K[seen]).T
        return K - gain @ K[seen], gain


def random_theta(players: int, seed: int, jumps: int = 0) -> Hyperparameters:
    rng = np.random.default_rng(seed)
    return Hyperparameters(
        np.exp(rng.normal(1, 1, players)),
        float(np.exp(rng.normal())),
        float(rng.normal()),
        float(np.exp(rng.normal(-4, 1))),
        jumps=1.0 + np.exp(rng.normal(0, 3, jumps)),
    )


def posterior_of(
    theta: Hyperparameters, codes: list[int], repeats: Array, value: Semivalue = SHAPLEY
) -> Posterior:
    X = 2.0 * coalitions(len(theta.lengthscale))[codes] - 1.0
    return Posterior(theta, X, repeats, value)


@given(st.integers(2, 8), st.integers(0, 10**6), st.sampled_from(["shapley", "banzhaf", "beta:4,1"]))
@settings(max_examples=40, deadline=None)
def test_posterior_equals_conditioning_all_values(players: int, seed: int, index: str) -> None:
    rng = np.random.default_rng(seed)
    value = parse_semivalue(index)
    codes = rng.permutation(2**players)[: rng.integers(1, 2**players)].tolist()
    theta = random_theta(players, seed, jumps=rng.integers(len(codes) + 1))
    repeats = rng.integers(1, 4, len(codes)).astype(float)
    y = rng.normal(size=len(codes))
    exact = Explicit(theta, value, codes)
    covariance, gain = exact.condition(codes, theta.noise / repeats)
    posterior = posterior_of(theta, codes, repeats, value)
    scale = theta.outputscale
    np.testing.assert_allclose(
        posterior.covariance, exact.A @ covariance @ exact.A.T, rtol=1e-7, atol=1e-9 * scale
    )
    np.testing.assert_allclose(posterior.mean(y), exact.A @ gain @ (y - theta.mean), rtol=1e-6, atol=1e-7)
    rest = np.setdiff1d(np.arange(2**players), codes)
    if len(rest):
        terms = posterior.candidates(2.0 * coalitions(players)[rest] - 1.0)
        np.testing.assert_allclose(
            terms.cross, (exact.A @ covariance)[:, rest].T, rtol=1e-7, atol=1e-9 * scale
        )
        np.testing.assert_allclose(
            terms.variance, np.diag(covariance)[rest] + theta.noise, rtol=1e-7, atol=1e-9 * scale
        )


@given(st.integers(3, 7), st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_information_gain_is_the_log_determinant_ratio_of_really_adding_the_coalition(
    players: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    theta = random_theta(players, seed, jumps=3)
    order = (1 + rng.permutation(2**players - 2)).tolist()  # not both ends: then the covariance is regular
    codes, rest = order[: players + 1 if players > 3 else 3], order[players + 1 : players + 5] or order[-1:]
    posterior = posterior_of(theta, codes, np.ones(len(codes)))
    terms = posterior.candidates(2.0 * coalitions(players)[rest] - 1.0)
    gains = information_gain(terms, posterior)
    drops = error_drop(terms)
    before = posterior.covariance
    for code, gain, drop in zip(rest, gains, drops, strict=True):
        after = posterior_of(theta, [*codes, code], np.ones(len(codes) + 1)).covariance
        ratio = 0.5 * (np.linalg.slogdet(before)[1] - np.linalg.slogdet(after)[1])
        assert gain == pytest.approx(ratio, rel=1e-6, abs=1e-8)
        assert drop == pytest.approx(np.trace(before) - np.trace(after), rel=1e-6, abs=1e-10)


def test_information_gain_when_the_sum_is_known() -> None:
    """With v(0) and v(N) known without noise the covariance is singular along (1, .., 1).

    The gain is that of p - 1 contrasts.
    """
    theta = Hyperparameters(np.array([2.0, 3.0, 1.0, 5.0]), 1.3, 0.0, 0.02, 1e-15)
    codes, rest = [0, 15, 3, 12, 5], [1, 6, 9, 14]
    posterior = posterior_of(theta, codes, np.ones(5))
    assert np.ones(4) @ posterior.covariance @ np.ones(4) < 1e-12
    gains = information_gain(posterior.candidates(2.0 * coalitions(4)[rest] - 1.0), posterior)
    contrasts = np.linalg.qr(np.column_stack([np.ones(4), np.eye(4)[:, :3]]))[0][:, 1:]
    for code, gain in zip(rest, gains, strict=True):
        after = posterior_of(theta, [*codes, code], np.ones(6)).covariance
        dets = [np.linalg.slogdet(contrasts.T @ C @ contrasts)[1] for C in (posterior.covariance, after)]
        assert gain == pytest.approx(0.5 * (dets[0] - dets[1]), rel=1e-6)


@pytest.mark.parametrize("players", [3, 6])
def test_conditioning_one_by_one_equals_conditioning_at_once(players: int) -> None:
    theta = random_theta(players, 7, jumps=2)
    codes = [0, 2**players - 1, 1]
    rest = [code for code in range(2**players) if code not in codes]
    posterior = posterior_of(theta, codes, np.ones(3))
    terms = posterior.candidates(2.0 * coalitions(players)[rest] - 1.0)
    for position in (2, 0, 1):
        codes.append(rest.pop(position))
        terms = posterior.condition(terms, position)
        fresh = posterior_of(theta, codes, np.ones(len(codes)))
        expected = fresh.candidates(2.0 * coalitions(players)[rest] - 1.0)
        np.testing.assert_allclose(posterior.covariance, fresh.covariance, atol=1e-10)
        np.testing.assert_allclose(terms.cross, expected.cross, atol=1e-10)
        np.testing.assert_allclose(terms.variance, expected.variance, atol=1e-10)
        np.testing.assert_array_equal(terms.W, expected.W)


def test_leave_one_out_residuals() -> None:
    theta = random_theta(5, 3, jumps=4)
    codes = [0, 31, 3, 7, 12, 25, 18]
    y = np.random.default_rng(0).normal(size=7)
    exact = Explicit(theta, codes=codes)
    residuals = posterior_of(theta, codes, np.ones(7)).leave_one_out(y)
    for i, code in enumerate(codes):
        others = [c for c in codes if c != code]
        covariance, gain = exact.condition(others, np.full(6, theta.noise))
        predicted = theta.mean + (gain @ (np.delete(y, i) - theta.mean))[code]
        assert residuals[i] == pytest.approx(
            (y[i] - predicted) / math.sqrt(covariance[code, code] + theta.noise), rel=1e-6
        )


@pytest.mark.parametrize("learn", [False, True])
def test_density_and_gradient(learn: bool) -> None:
    rng = np.random.default_rng(4)
    players, t = 5, 14
    Z = coalitions(players)[rng.permutation(32)[:t]]
    X, y, repeats = 2.0 * Z - 1.0, rng.normal(size=t), rng.integers(1, 4, t).astype(float)
    objective = NegativeLogPosterior(Standardised(X, y, repeats, 3.7, 11), None if learn else 1e-3)
    jumps = rng.exponential(2, t)
    theta = np.concatenate([rng.normal(1, 1, players), [0.4, -0.2, -3.0], jumps, [-2.5] if learn else []])
    value, gradient = objective(theta)

    lengths, noise = np.exp(theta[:players]), math.exp(-2.5) if learn else 1e-3
    K = hamming_kernel(Z, lengths, math.exp(0.4)) + np.diag(np.exp(jumps - 3.0) + noise / repeats)
    r = y + 0.2
    mu = math.sqrt(2) + 0.5 * math.log(players)
    expected = 0.5 * r @ np.linalg.solve(K, r) + 0.5 * np.linalg.slogdet(K)[1]
    expected += np.sum(theta[:players] + 0.5 * ((theta[:players] - mu) / math.sqrt(3)) ** 2)
    expected += 0.5 * ((-3.0 - math.log(1e-2)) / 0.5) ** 2 + 2.0 * jumps.sum()
    if learn:
        expected += 0.5 * (11 * math.log(noise) + 3.7 / noise)
    assert value == pytest.approx(expected, rel=1e-10)
    for i in range(len(theta)):
        step = np.zeros(len(theta))
        step[i] = 1e-5
        numeric = (objective(theta + step)[0] - objective(theta - step)[0]) / 2e-5
        assert gradient[i] == pytest.approx(numeric, rel=1e-5, abs=1e-6)


def test_one_coalition_that_stands_alone_is_found_and_not_spread_over_its_neighbours() -> None:
    Z = coalitions(8)
    table = np.sqrt(1.0 + Z @ np.arange(1.0, 9.0)) + 0.3 * Z[:, 0] * Z[:, 1]
    codes = np.concatenate([[0, 255], 1 + np.random.default_rng(5).permutation(254)[:58]])
    table[codes[20]] -= 4.0
    design = ShapleyDesign(8)
    design.tell(Z[codes], table[codes])
    jumps = design.fitted.theta.jumps
    assert np.argmax(jumps) == 20
    assert jumps[20] > 100
    assert np.sum(jumps > 1) < 10
    exact = exact_values(table, SHAPLEY)
    assert np.abs(design.values_ - exact).max() < 0.08 * np.abs(exact).max()
    without = replace(design.fitted.theta, jumps=np.ones(60))
    data = Standardised.first(design.evaluations, 60)
    spread = Posterior(without, data.X, data.repeats, SHAPLEY).mean(data.y) * data.scale
    assert np.abs(spread - exact).max() > 2 * np.abs(design.values_ - exact).max()


def test_prior_grows_with_the_players() -> None:
    short, long = (prior_guess(players).lengthscale[0] for players in (8, 800))
    assert long == pytest.approx(10 * short)


def test_explicit_oracle_recovers_a_game_from_all_its_values() -> None:
    theta = random_theta(4, 0)
    table = random_game(4, 0)
    exact = Explicit(theta)
    _, gain = exact.condition(list(range(16)), np.full(16, 1e-9))
    np.testing.assert_allclose(theta.mean + gain @ (table - theta.mean), table, atol=1e-5)
