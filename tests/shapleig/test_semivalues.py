"""Semivalues against their definitions."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icml.formats.errors import InputError
from icml.tools.shapleig.semivalues import BANZHAF, SHAPLEY, exact_values, parse_semivalue

from .oracles import random_game, semivalue_matrix, shapley_by_permutations

INDICES = ["shapley", "banzhaf", "beta:4,1", "beta:0.5,2", "binomial:0.3"]


@pytest.mark.parametrize("name", INDICES)
@pytest.mark.parametrize("players", [2, 3, 7, 12])
def test_weights_are_a_distribution_over_the_coalitions_of_the_others(name: str, players: int) -> None:
    weights = parse_semivalue(name).weights(players)
    total = sum(math.comb(players - 1, k) * weight for k, weight in enumerate(weights))
    assert total == 1
    assert all(weight > 0 for weight in weights)


def test_weights_of_shapley_and_banzhaf() -> None:
    assert SHAPLEY.weights(4) == [Fraction(1, 4), Fraction(1, 12), Fraction(1, 12), Fraction(1, 4)]
    assert BANZHAF.weights(4) == [Fraction(1, 8)] * 4
    assert parse_semivalue("beta:1,1").weights(6) == SHAPLEY.weights(6)
    assert parse_semivalue("binomial:0.5").weights(6) == BANZHAF.weights(6)


def test_larger_alpha_weighs_small_coalitions() -> None:
    by_size = [math.comb(4, k) * weight for k, weight in enumerate(parse_semivalue("beta:4,1").weights(5))]
    assert all(small > large for small, large in pairwise(by_size))


@pytest.mark.parametrize("name", INDICES)
@pytest.mark.parametrize("players", [2, 3, 6, 11, 40])
def test_rules_have_the_moments_of_the_walsh_coefficients(name: str, players: int) -> None:
    """c_s = 2 sum_k w_k sum over T of size k of chi_{S - i}(T): a Krawtchouk sum, computed here in rationals."""
    value = parse_semivalue(name)
    weights = value.weights(players)
    nodes, masses = value.rule(players)
    squared_nodes, squared_masses = value.squared_rule(players)
    for s in range(1, players + 1):
        exact = Fraction(0)
        for k in range(players):
            inner = sum(
                (-1) ** (s - 1 - j) * math.comb(s - 1, j) * math.comb(players - s, k - j)
                for j in range(max(0, k - players + s), min(s - 1, k) + 1)
            )
            exact += 2 * weights[k] * inner
        assert masses @ nodes ** (s - 1) == pytest.approx(float(exact), abs=2e-13)
        assert squared_masses @ squared_nodes ** (s - 1) == pytest.approx(float(exact) ** 2, abs=2e-13)


@pytest.mark.parametrize("players", [2, 3, 5, 7])
def test_exact_shapley_values_are_the_average_over_orders(players: int) -> None:
    table = random_game(players, players)
    np.testing.assert_allclose(
        exact_values(table, SHAPLEY), shapley_by_permutations(table), rtol=0, atol=1e-13
    )


@pytest.mark.parametrize("name", INDICES)
def test_exact_values_of_every_index(name: str) -> None:
    value = parse_semivalue(name)
    table = random_game(6, 1)
    A = semivalue_matrix(6, [float(weight) for weight in value.weights(6)])
    np.testing.assert_allclose(exact_values(table, value), A @ table, rtol=0, atol=1e-13)


@given(st.lists(st.integers(-1000, 1000), min_size=16, max_size=16))
@settings(max_examples=60, deadline=None)
def test_integer_games_are_exact(table: list[int]) -> None:
    values = exact_values(np.array(table, dtype=float), SHAPLEY)
    for i in range(4):
        exact = sum(
            Fraction(math.factorial(s) * math.factorial(3 - s), 24) * (table[code | 1 << i] - table[code])
            for code in range(16)
            if not code >> i & 1
            for s in [code.bit_count()]
        )
        assert values[i] == float(exact)


@pytest.mark.parametrize(
    "text",
    ["", "shapely", "beta:1", "beta:0,1", "beta:a,b", "binomial:0", "binomial:1", "banzhaf:2", "beta:nan,1"],
)
def test_unknown_indices(text: str) -> None:
    with pytest.raises(InputError, match="unknown index"):
        parse_semivalue(text)
