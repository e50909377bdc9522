"""Semivalues as mixtures over participation rates: the one place that knows which index is estimated.

A semivalue gives player i the mean of v(T + i) - v(T) where every other player joins T with the same
probability q, and q is drawn from a mixing distribution on [0, 1] (Dubey, Neyman, Weber: Value theory without
efficiency, 1981). Shapley draws q uniformly, Banzhaf fixes q = 1/2, Beta-Shapley (Kwon, Zou 2022) draws it from
a beta law. In the Walsh basis chi_S(x) = prod_{j in S} x_j, x = +-1, it weights the coefficient of S by c_|S| =
2 E[(2q - 1)^(|S| - 1)]; both c_s and c_s^2 are moments of measures on [-1, 1], so that sums over all coalitions
become quadrature rules with about as many nodes as players.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from icml.formats.errors import InputError

Array = NDArray[np.float64]


class Rule(NamedTuple):
    """A quadrature rule on [-1, 1]: sum(weights * f(nodes))."""

    nodes: Array
    weights: Array


@dataclass(frozen=True)
class Semivalue:
    """A semivalue, by the parameters (alpha, beta) of its mixing distribution or by one fixed rate.

    Args:
        name: its text form: "shapley", "banzhaf", "beta:ALPHA,BETA", "binomial:RATE".
        alpha: the larger, the more weight on small coalitions.
        beta: the larger, the more weight on large coalitions.
        rate: the one probability of joining, instead of a beta law.
    """

    name: str
    alpha: float = 1.0
    beta: float = 1.0
    rate: float | None = None

    @property
    def efficient(self) -> bool:
        """Whether the values of all players add up to v(all) - v(none)."""
        return self.rate is None and self.alpha == self.beta == 1

    def rule(self, players: int) -> Rule:
        """Integrates polynomials of degree < players against twice the mixing distribution: c_s = sum(w * t^(s-1))."""
        return _rule(self, players)

    def squared_rule(self, players: int) -> Rule:
        """The same for the law of the product of two independent draws: c_s^2 = sum(w * t^(s-1))."""
        return _squared_rule(self, players)

    def weights(self, players: int) -> list[Fraction]:
        """Probability of each single coalition T of the other players, by its size 0 .. players - 1."""
        others = players - 1
        if self.rate is not None:
            q = Fraction(self.rate)
            return [q**k * (1 - q) ** (others - k) for k in range(players)]
        if self.efficient:
            return [Fraction(1, players * math.comb(others, k)) for k in range(players)]
        a, b = Fraction(self.alpha), Fraction(self.beta)
        base = math.prod((a + b + k for k in range(others)), start=Fraction(1))
        up = [math.prod((b + k for k in range(n)), start=Fraction(1)) for n in range(players)]
        down = [math.prod((a + k for k in range(n)), start=Fraction(1)) for n in range(players)]
        return [up[k] * down[others - k] / base for k in range(players)]


SHAPLEY = Semivalue("shapley")
BANZHAF = Semivalue("banzhaf", rate=0.5)


def parse_semivalue(text: str) -> Semivalue:
    """Reads "shapley", "banzhaf", "beta:ALPHA,BETA" (ALPHA, BETA > 0) or "binomial:RATE" (0 < RATE < 1)."""
    kind, _, rest = text.partition(":")
    try:
        numbers = [float(part) for part in rest.split(",")] if rest else []
    except ValueError:
        numbers = [math.nan]
    match kind, numbers:
        case "shapley", []:
            return SHAPLEY
        case "banzhaf", []:
            return BANZHAF
        case "beta", [a, b] if 0 < a < math.inf and 0 < b < math.inf:
            return Semivalue(f"beta:{a:g},{b:g}", alpha=a, beta=b)
        case "binomial", [q] if 0 < q < 1:
            return Semivalue(f"binomial:{q:g}", rate=q)
    raise InputError(f"unknown index '{text}': expected shapley, banzhaf, beta:ALPHA,BETA or binomial:RATE")


def exact_values(table: Array, semivalue: Semivalue) -> Array:
    """The values from all 2^p coalitions, correctly rounded when the sums of the table are exact (integer games are).

    Args:
        table: v of every coalition, (2^p,); bit i of the index set = player i takes part.
        semivalue: the index.
    """
    players = len(table).bit_length() - 1
    weights = semivalue.weights(players)
    codes = np.arange(len(table) // 2)
    sizes = np.bitwise_count(codes)
    order = np.argsort(sizes, kind="stable")
    ends = np.cumsum(np.bincount(sizes, minlength=players))[:-1]
    values = np.empty(players)
    for i in range(players):
        low = codes & ((1 << i) - 1)
        without = ((codes - low) << 1) | low
        groups_with = np.split(table[without | (1 << i)][order], ends)
        groups_without = np.split(table[without][order], ends)
        sums = (
            Fraction(math.fsum(a)) - Fraction(math.fsum(b))
            for a, b in zip(groups_with, groups_without, strict=True)
        )
        values[i] = float(sum((w * d for w, d in zip(weights, sums, strict=True)), Fraction(0)))
    return values


@lru_cache(maxsize=64)
def _rule(semivalue: Semivalue, players: int) -> Rule:
    if semivalue.rate is not None:
        return Rule(np.array([2 * semivalue.rate - 1]), np.array([2.0]))
    count = (players + 1) // 2
    if semivalue.efficient:
        return _gauss_legendre(count)
    from scipy.special import roots_jacobi

    nodes, weights = roots_jacobi(count, semivalue.alpha - 1, semivalue.beta - 1)
    return Rule(nodes, 2 * weights / weights.sum())


@lru_cache(maxsize=64)
def _squared_rule(semivalue: Semivalue, players: int) -> Rule:
    """Interpolatory on Gauss-Legendre nodes, from the Legendre moments of the product law."""
    u, w = _rule(semivalue, players)
    if semivalue.rate is not None:
        return Rule(u**2, w**2)
    i, j = np.triu_indices(len(u))
    moments = _legendre_moments(u[i] * u[j], w[i] * w[j] * np.where(i == j, 1, 2), players)
    nodes, weights = _gauss_legendre(players)
    basis = np.polynomial.legendre.legvander(nodes, players - 1)
    return Rule(nodes, weights * (basis @ (moments * (np.arange(players) + 0.5))))


def _gauss_legendre(count: int) -> Rule:
    from scipy.special import roots_legendre

    return Rule(*roots_legendre(count))


def _legendre_moments(points: Array, masses: Array, count: int) -> Array:
    """sum(masses * P_k(points)) for k < count, by the three-term recurrence."""
    moments = np.empty(count)
    previous, current = np.zeros_like(points), np.ones_like(points)
    for k in range(count):
        moments[k] = masses @ current
        previous, current = current, ((2 * k + 1) * points * current - k * previous) / (k + 1)
    return moments
