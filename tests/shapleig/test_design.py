"""The method as a whole, in memory: what it asks, what it concludes.

And that both depend on nothing but the evaluations.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icml.formats.errors import InputError
from icml.tools.shapleig import ShapleyDesign, estimate, exact_values
from icml.tools.shapleig.costs import CostModel, parse_cost
from icml.tools.shapleig.criteria import information_gain, resolve
from icml.tools.shapleig.estimates import Stopping, inflation, share_out, stable_probability
from icml.tools.shapleig.semivalues import BANZHAF, SHAPLEY

from .oracles import Array, coalitions, random_game


def code_of(mask: np.ndarray) -> int:
    return int(mask @ (1 << np.arange(len(mask))))


def play(design: ShapleyDesign, table: Array, evaluations: int) -> ShapleyDesign:
    while len(design.evaluations) < evaluations:
        following = design.ask()
        design.tell(following, [table[code_of(mask)] for mask in following])
    return design


def test_the_first_coalitions_are_none_all_and_complementary_pairs() -> None:
    first = ShapleyDesign(9).ask(10)
    assert not first[0].any()
    assert first[1].all()
    for a, b in zip(first[2::2], first[3::2], strict=True):
        np.testing.assert_array_equal(a, ~b)
    assert len({code_of(mask) for mask in first}) == 10


def test_the_first_coalitions_are_of_uniform_size() -> None:
    sizes = np.concatenate([ShapleyDesign(8, seed=seed).ask(9)[2:].sum(axis=1) for seed in range(300)])
    counts = np.bincount(sizes, minlength=8)[1:8]
    assert counts.min() > 0.75 * counts.mean()


@pytest.mark.parametrize("criterion", ["auto", "eig", "trace", "variance", "random"])
def test_asks_every_coalition_once_and_then_no_more(criterion: str) -> None:
    table = random_game(4, 2)
    design = ShapleyDesign(4, criterion=criterion)  # type: ignore[arg-type]
    seen = set()
    while len(following := design.ask()):
        seen.add(code_of(following[0]))
        design.tell(following, table[code_of(following[0])])
    assert seen == set(range(16))
    assert len(design.evaluations) == 16
    np.testing.assert_array_equal(design.values_, exact_values(table, SHAPLEY))
    assert design.covariance_.max() == 0


def test_a_full_table_of_integers_gives_exact_values() -> None:
    majority = np.array([float(code.bit_count() >= 2) for code in range(8)])
    design = ShapleyDesign(3)
    design.tell(coalitions(3), majority)
    assert design.values_.tolist() == [1 / 3, 1 / 3, 1 / 3]
    banzhaf = ShapleyDesign(3, index="banzhaf")
    banzhaf.tell(coalitions(3), majority)
    assert banzhaf.values_.tolist() == [0.5, 0.5, 0.5]


def test_what_is_asked_depends_on_the_evaluations_alone() -> None:
    """A design that has been asked all along, and one that was told everything at once, as after a restart."""
    table = random_game(6, 0)
    old = ShapleyDesign(6, seed=3)
    for count in range(1, 31):
        play(old, table, count)
        if count % 5 == 0 or 6 < count < 12:
            new = ShapleyDesign(6, seed=3)
            new.tell(old.evaluations.masks, old.evaluations.values)
            np.testing.assert_array_equal(new.ask(2), old.ask(2))
            np.testing.assert_array_equal(new.values_, old.values_)


def test_seeds_differ() -> None:
    assert (ShapleyDesign(8, seed=0).ask(9) != ShapleyDesign(8, seed=1).ask(9)).any()


@pytest.mark.parametrize("criterion", ["eig", "trace", "variance"])
def test_a_batch_is_what_asking_one_by_one_with_the_same_hyperparameters_gives(criterion: str) -> None:
    """Pending coalitions count as evaluated whatever their values will be."""
    design = play(ShapleyDesign(7, criterion=criterion), random_game(7, 1), 20)  # type: ignore[arg-type]
    batch = design.ask(5)
    for mask in batch:
        following = design.ask(1)
        np.testing.assert_array_equal(following[0], mask)
        design.mark_pending(following)
    assert len(design.pending) == 5


def test_pending_coalitions_come_back_as_evaluations() -> None:
    design = ShapleyDesign(5)
    asked = design.ask(6)
    design.mark_pending(asked)
    assert not {code_of(m) for m in design.ask(3)} & {code_of(m) for m in asked}
    design.tell(asked, np.arange(6.0))
    assert not design.pending


def test_failed_coalitions_are_asked_again_only_on_request() -> None:
    table = random_game(3, 0)
    design = ShapleyDesign(3)
    design.mark_failed([0, 1, 0])
    for mask in design.ask(8):
        design.tell(mask, table[code_of(mask)])
    assert len(design.evaluations) == 7
    assert len(design.ask()) == 0
    assert design.ask(retry=True).tolist() == [[False, True, False]]
    design.tell([0, 1, 0], table[2])
    assert design.estimate.exact


def test_additive_games_are_recovered_with_small_intervals() -> None:
    for seed in range(3):
        weights = np.random.default_rng(seed).normal(size=8)
        design = play(ShapleyDesign(8, seed=seed), coalitions(8) @ weights, 28)
        assert np.abs(design.values_ - weights).max() < 0.01 * np.abs(weights).max()
        assert design.estimate.sd.max() < 0.06 * np.abs(weights).max()


def test_a_player_without_influence_has_no_value_and_the_longest_length_scale() -> None:
    Z = coalitions(6).astype(float)
    table = np.sqrt(Z @ np.array([3.0, 2.0, 2.0, 1.0, 4.0, 0.0])) + Z[:, 0] * Z[:, 1]
    design = play(ShapleyDesign(6), table, 32)
    assert abs(design.values_[5]) < min(0.04, design.estimate.halfwidth()[5])
    assert np.argmax(design.estimate.lengthscale) == 5


def test_equal_players_give_equal_information() -> None:
    """All length scales equal and nothing but both ends known: coalitions of one size are as good as each other."""
    design = ShapleyDesign(5)
    design.tell(coalitions(5)[[0, 31]], [0.0, 0.0])
    posterior = design._posterior([])
    Z = coalitions(5)[1:31]
    gains = information_gain(posterior.candidates(2.0 * Z - 1.0), posterior)
    for size in range(1, 5):
        of_size = gains[Z.sum(axis=1) == size]
        np.testing.assert_allclose(of_size, of_size[0], rtol=1e-8)


@given(st.integers(2, 7), st.integers(0, 10**6), st.floats(-3, 3))
@settings(max_examples=25, deadline=None)
def test_values_add_up_to_the_last_digit(players: int, seed: int, magnitude: float) -> None:
    table = random_game(players, seed) * 10**magnitude
    design = play(ShapleyDesign(players, seed=seed), table, min(players + 3, 2**players - 1))
    total, values = table[-1] - table[0], np.abs(design.values_)
    rest = abs(math.fsum(design.values_) - total)
    assert rest <= np.spacing(values.min())
    if values.min() <= abs(total):  # otherwise no value has digits that fine
        assert rest == 0


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30), st.floats(-1e6, 1e6))
@settings(max_examples=100, deadline=None)
def test_sharing_out(values: list[float], total: float) -> None:
    shared = share_out(np.array(values), total)
    assert math.fsum(shared) == pytest.approx(total, rel=0, abs=1e-9 * (1 + max(map(abs, values))))
    assert np.ptp(shared - np.array(values)) <= 1e-9 * (1 + max(map(abs, [*values, total])))


@pytest.mark.parametrize(("index", "value"), [("shapley", SHAPLEY), ("banzhaf", BANZHAF)])
def test_the_estimate_nears_the_exact_values_and_says_how_near(index: str, value: object) -> None:
    table = random_game(7, 5)
    exact = exact_values(table, value)  # type: ignore[arg-type]
    errors = []
    design = ShapleyDesign(7, index=index)
    for count in (16, 40, 80):
        play(design, table, count)
        errors.append(float(np.abs(design.values_ - exact).max()))
        low, high = design.interval()
        assert np.mean((low <= exact) & (exact <= high)) >= 5 / 7
    assert errors[2] < errors[1] < errors[0]
    assert errors[2] < 0.05 * np.abs(exact).max()


def test_noise_is_learnt_and_repeats_are_averaged() -> None:
    rng = np.random.default_rng(0)
    weights = np.array([3.0, 1.0, 0.0, 2.0, 1.0])
    Z = coalitions(5)
    noisy = ShapleyDesign(5, noise="learn")
    for _ in range(4):
        noisy.tell(Z, Z @ weights + rng.normal(0, 0.5, 32))
    assert len(noisy.evaluations) == 32
    assert not noisy.estimate.exact
    variance = noisy.fitted.theta.noise * noisy.fitted.scale**2
    assert 0.05 < variance < 0.75
    assert np.abs(noisy.values_ - weights).max() < 0.5
    low, high = noisy.interval(0.99)
    assert ((low < weights) & (weights < high)).all()


def test_contradictions_need_learnt_noise() -> None:
    design = ShapleyDesign(3)
    design.tell([1, 0, 0], 1.0)
    design.tell([1, 0, 0], 1.0)
    with pytest.raises(InputError, match=r"another value, 1\.0, now 2\.0; .*--noise learn"):
        design.tell([1, 0, 0], 2.0)
    assert design.evaluations.values.tolist() == [1.0]


def test_equal_values_mean_zeros() -> None:
    design = ShapleyDesign(4)
    design.tell(coalitions(4)[:9], np.full(9, 2.5))
    assert design.values_.tolist() == [0.0] * 4
    assert design.estimate.constant
    assert not design.stop("50%")
    assert len(design.ask(2)) == 2


def test_cheap_coalitions_are_preferred() -> None:
    table = random_game(8, 3)
    sizes = {}
    for name, cost in (("plain", None), ("dear", CostModel(0.1, (1.0,)))):
        design = ShapleyDesign(8, criterion="eig", cost=cost)
        play(design, table, 40)
        sizes[name] = design.evaluations.masks[9:].sum(axis=1).mean()
    assert sizes["dear"] < sizes["plain"] - 0.5


def test_costs_are_learnt_from_what_was_paid() -> None:
    design = ShapleyDesign(6, cost=CostModel())
    Z = coalitions(6)[np.random.default_rng(0).permutation(64)[:30]]
    design.tell(Z, Z.sum(axis=1), 2.0 + Z @ np.array([1.0, 0.0, 5.0, 0.0, 0.0, 3.0]))
    predicted = CostModel().predict(coalitions(6), design.evaluations)
    exact = 2.0 + coalitions(6) @ np.array([1.0, 0.0, 5.0, 0.0, 0.0, 3.0])
    np.testing.assert_allclose(predicted, exact, rtol=0.03)


@pytest.mark.parametrize(
    ("text", "base", "parts"),
    [
        ("1+2*size", 1, (2,)), ("size", 0, (1,)), ("5+size", 5, (1,)), ("0.5*size", 0, (0.5,)),
        ("3+1,2,0", 3, (1, 2, 0)), ("1,2,3", 0, (1, 2, 3)), ("measured", 0, None),
    ],
)  # fmt: skip
def test_cost_models(text: str, base: float, parts: tuple[float, ...] | None) -> None:
    assert parse_cost(text, 3) == CostModel(base, parts)


@pytest.mark.parametrize(
    "text", ["", "size*2", "1+", "-1+size", "1,2", "0*size", "0,0,0", "a+b*size", "1+2", "2*"]
)
def test_bad_cost_models(text: str) -> None:
    with pytest.raises(InputError):
        parse_cost(text, 3)


def test_stopping_rules() -> None:
    table = random_game(5, 9)
    design = play(ShapleyDesign(5), table, 31)
    widest, largest = design.estimate.halfwidth().max(), np.abs(design.values_).max()
    assert design.stop(tol=widest * 1.001)
    assert not design.stop(tol=widest * 0.999)
    assert design.stop(tol=f"{100.1 * widest / largest}%")
    assert not design.stop(tol=f"{99.9 * widest / largest}%")
    assert not design.stop()
    assert Stopping.parse(None, 2).reason(play(design, table, 32).estimate, seed=0) == "complete"


def test_the_probability_of_a_stable_top_is_that_of_the_posterior() -> None:
    """Two players, difference normal: P(a > b) = Phi(mean / sd)."""
    design = play(ShapleyDesign(2), np.array([0.0, 1.0, 0.9, 2.0]), 3)
    got = stable_probability(design.estimate, 1, 0)
    a, C = design.values_, design.covariance_
    sd = math.sqrt(C[0, 0] + C[1, 1] - 2 * C[0, 1])
    assert got == pytest.approx(0.5 * math.erfc(-abs(a[0] - a[1]) / sd / math.sqrt(2)), abs=0.03)
    assert stable_probability(design.estimate, 2, 0) == 1


@pytest.mark.parametrize("text", ["", "x", "-1", "0", "5 percent", "5%%", "nan", "inf"])
def test_bad_tolerances(text: str) -> None:
    with pytest.raises(InputError, match="tolerance"):
        Stopping.parse(text)


def test_inflation() -> None:
    assert inflation(np.zeros(100), 7) == pytest.approx(1.5 * 100 / 90)
    assert inflation(np.full(100, 2.0), 7) == pytest.approx(1.5 * 400 / 90)
    assert inflation(np.zeros(10), 7) == 3


def test_auto_goes_from_trace_to_eig() -> None:
    chosen = [resolve("auto", t, 10) for t in range(11, 100)]
    assert chosen == ["trace"] * 53 + ["eig"] * 36
    assert resolve("random", 30, 10) == "random"


def test_estimate_function_and_its_reasons() -> None:
    table = random_game(5, 2)

    def value(mask: np.ndarray) -> float:
        return float(table[code_of(mask)])

    assert estimate(value, 5, 12).stop_reason == "budget"
    assert len(estimate(value, 5, 12).observed) == 12
    complete = estimate(value, 5, 100)
    assert complete.stop_reason == "complete"
    np.testing.assert_array_equal(complete.values, exact_values(table, SHAPLEY))
    early = estimate(value, 5, 100, tol="40%")
    assert early.stop_reason == "tol"
    assert len(early.observed) < 32
    calls = iter([False] * 4 + [True])
    assert estimate(value, 5, 12, should_stop=lambda: next(calls)).stop_reason == "stopped"


@pytest.mark.parametrize("players", [20, 60])
def test_more_coalitions_than_can_be_looked_at(players: int) -> None:
    strength = np.random.default_rng(players).exponential(size=players)
    design = ShapleyDesign(players, candidates=256)
    for _ in range(players + 8):
        mask = design.ask()
        design.tell(mask, float(mask[0] @ strength + 0.1 * np.sqrt(mask[0].sum())))
    chosen = {mask.tobytes() for mask in design.evaluations.masks}
    assert len(chosen) == players + 8
    batch = design.ask(4)
    assert len({mask.tobytes() for mask in batch} - chosen) == 4
    again = ShapleyDesign(players, candidates=256)
    again.tell(design.evaluations.masks, design.evaluations.values)
    np.testing.assert_array_equal(again.ask(4), batch)


def test_a_thousand_players() -> None:
    players = 1000
    rng = np.random.default_rng(0)
    design = ShapleyDesign(players, candidates=64)
    Z = rng.random((40, players)) < rng.random((40, 1))
    design.tell(Z, Z @ rng.exponential(size=players))
    start = time.process_time()
    following = design.ask()
    assert following.shape == (1, players)
    assert np.isfinite(design.values_).all()
    assert time.process_time() - start < 60


BAD: list[tuple[Callable[[], object], str]] = [
    (lambda: ShapleyDesign(1), "at least 2 players"),
    (lambda: ShapleyDesign(3, noise="some"), "unknown noise"),
    (lambda: ShapleyDesign(3, criterion="best"), "unknown criterion"),  # type: ignore[arg-type]
    (lambda: ShapleyDesign(3, index="core"), "unknown index"),
    (lambda: ShapleyDesign(3, seed=-1), "seed"),
    (lambda: ShapleyDesign(3).tell([1, 0], 1.0), "3 players in a coalition, got 2"),
    (lambda: ShapleyDesign(3).tell([1, 0, 2], 1.0), "0 and 1 only"),
    (lambda: ShapleyDesign(3).tell([1, 0, 1], math.nan), "finite"),
    (lambda: ShapleyDesign(3).tell([1, 0, 1], math.inf), "finite"),
    (lambda: ShapleyDesign(3).tell([1, 0, 1], 1.0, -2.0), "cost"),
    (lambda: ShapleyDesign(3).tell([[1, 0, 1]], [1.0, 2.0]), "as many values"),
    (lambda: estimate(lambda z: 0.0, 3, 2), "budget"),
    (lambda: Stopping.parse(None, 0), "stable top"),
    (lambda: play(ShapleyDesign(2), np.arange(4.0), 3).interval(1.5), "level"),
]


@pytest.mark.parametrize(("use", "message"), BAD)
def test_bad_input(use: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        use()
