"""Least squares from the same evaluations, against exact values and against really leaving evaluations out."""

from __future__ import annotations

import math

import numpy as np
import pytest

from icml.formats.errors import InputError
from icml.tools.shapleig import ShapleyDesign, exact_values
from icml.tools.shapleig.baseline import least_squares
from icml.tools.shapleig.semivalues import BANZHAF, SHAPLEY, Semivalue

from .oracles import coalitions, random_game


def told(players: int, codes: np.ndarray, table: np.ndarray, index: str = "shapley") -> ShapleyDesign:
    design = ShapleyDesign(players, index=index)
    design.tell(coalitions(players)[codes], table[codes])
    return design


@pytest.mark.parametrize(("index", "value"), [("shapley", SHAPLEY), ("banzhaf", BANZHAF)])
def test_all_coalitions_give_the_exact_values(index: str, value: Semivalue) -> None:
    table = random_game(6, 4)
    fit = least_squares(told(6, np.arange(64), table, index))
    np.testing.assert_allclose(fit.values, exact_values(table, value), atol=1e-5)


def test_few_evaluations_still_give_something_and_no_error() -> None:
    fit = least_squares(told(8, np.array([0, 255, 7]), random_game(8, 0)))
    assert np.isfinite(fit.values).all()
    assert fit.error is None
    assert not fit.wins


def test_errors_are_those_of_leaving_each_evaluation_out() -> None:
    table = random_game(5, 1) + 40.0
    codes = np.array([0, 31, 3, 7, 12, 25, 18, 9, 21, 6, 14])
    fit = least_squares(told(5, codes, table))
    Z = coalitions(5)[codes].astype(float)
    sizes = Z.sum(axis=1).astype(int)
    kernel = [1 / (math.comb(5, s) * s * (5 - s)) if 0 < s < 5 else math.nan for s in sizes]
    weights = np.where(np.isnan(kernel), 1e6 * np.nanmax(kernel), kernel)
    errors = []
    for i in range(2, len(codes)):
        rest = np.delete(np.arange(len(codes)), i)
        root = np.sqrt(weights[rest])[:, None]
        A = np.column_stack([np.ones(len(codes)), Z])
        solution = np.linalg.lstsq(A[rest] * root, table[codes[rest]] * root[:, 0], rcond=None)[0]
        errors.append(table[codes[i]] - A[i] @ solution)
    assert fit.error == pytest.approx(math.sqrt(np.mean(np.square(errors))), rel=1e-5)
    assert fit.model_error is not None


def test_the_model_wins_where_players_interact_and_the_baseline_where_they_do_not() -> None:
    codes = np.concatenate([[0, 255], 1 + np.random.default_rng(3).permutation(254)[:60]])
    assert not least_squares(told(8, codes, random_game(8, 2))).wins
    worth = np.arange(1.0, 9.0)
    fit = least_squares(told(8, codes, coalitions(8) @ worth))
    assert fit.wins
    np.testing.assert_allclose(fit.values, worth, rtol=1e-6)


def test_other_indices_have_no_such_baseline() -> None:
    with pytest.raises(InputError, match="not for beta:4,1"):
        least_squares(told(4, np.arange(9), random_game(4, 0), "beta:4,1"))
