"""Intervals: their width is that of theory, differences are paired, and the seed decides."""

from __future__ import annotations

import math

import numpy as np
import pytest

from icml.tools.perplexity.report import Estimate, Report, Sums, conclude

EMPTY = Estimate(math.nan)


def sums(nll: np.ndarray, tokens: np.ndarray, **more: np.ndarray) -> Sums:
    found = Sums()
    for i in range(len(tokens)):
        found.add(tokens=float(tokens[i]), nll=float(nll[i]), **{k: float(v[i]) for k, v in more.items()})
    return found


def report(tokens: int, size: int | None = None) -> Report:
    return Report("m", "t", tokens, size, 1, 4, 4, EMPTY, EMPTY, None)


def test_the_interval_is_that_of_the_central_limit() -> None:
    rng = np.random.default_rng(0)
    tokens = np.full(400, 32.0)
    nll = rng.normal(2.5, 0.4, 400) * tokens
    found = conclude(report(400 * 32), sums(nll, tokens), None, seed=0).nll
    error = np.std(nll / tokens) / math.sqrt(400)
    assert found.value == pytest.approx(np.mean(nll / tokens), rel=1e-12)
    assert found.low == pytest.approx(found.value - 1.96 * error, abs=0.15 * error)
    assert found.high == pytest.approx(found.value + 1.96 * error, abs=0.15 * error)


def test_it_covers_the_truth_as_often_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("icml.tools.perplexity.report.RESAMPLES", (1000, 1000))
    rng = np.random.default_rng(1)
    hits = 0
    for trial in range(200):
        tokens = np.full(60, 10.0)
        found = conclude(report(600), sums(rng.gamma(2.0, 1.0, 60) * 10, tokens), None, seed=trial).nll
        hits += found.low <= 2.0 <= found.high
    assert 0.88 <= hits / 200 <= 0.99


def test_windows_count_by_their_tokens() -> None:
    found = conclude(report(11), sums(np.array([10.0, 33.0]), np.array([10.0, 1.0])), None, seed=0)
    assert found.nll.value == pytest.approx(43 / 11)
    assert found.nll.low == pytest.approx(1.0)
    assert found.nll.high == pytest.approx(33.0)
    assert found.perplexity.value == pytest.approx(math.exp(43 / 11))


def test_differences_are_paired() -> None:
    rng = np.random.default_rng(2)
    tokens = np.full(50, 20.0)
    theirs = rng.normal(3, 1, 50) * tokens
    shift = rng.normal(0.2, 0.01, 50) * tokens
    columns = {"baseline_nll": theirs, "kl": shift, "agree": tokens}
    found = conclude(report(1000), sums(theirs + shift, tokens, **columns), "b", seed=0).comparison
    assert found is not None
    width = found.nll_difference.high - found.nll_difference.low
    assert width < 0.02
    assert found.nll.high - found.nll.low > 0.3
    assert found.kl.low == pytest.approx(found.nll_difference.low, rel=1e-9)
    assert found.kl.high == pytest.approx(found.nll_difference.high, rel=1e-9)
    assert (found.top1_agreement.value, found.top1_agreement.low, found.top1_agreement.high) == (1, 1, 1)


def test_the_seed_decides_and_one_window_has_no_interval() -> None:
    rng = np.random.default_rng(3)
    data = sums(rng.normal(3, 1, 30), np.ones(30))
    first, same, other = (conclude(report(30), data, None, seed=s).nll for s in (0, 0, 1))
    assert first == same
    assert first != other
    alone = conclude(report(5), sums(np.array([4.0]), np.array([5.0])), None, seed=0).nll
    assert alone.value == pytest.approx(0.8)
    assert math.isnan(alone.low)


def test_many_windows_are_resampled_in_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    from icml.tools.perplexity import report as module

    rng = np.random.default_rng(4)
    data = sums(rng.normal(3, 1, 100), np.ones(100))
    whole = conclude(report(100), data, None, seed=0).nll
    monkeypatch.setattr(module, "BATCH", 700)
    assert conclude(report(100), data, None, seed=0).nll == whole


def test_bits_per_byte() -> None:
    found = conclude(report(10, 40), sums(np.array([20.0]), np.array([10.0])), None, seed=0)
    assert found.bits_per_byte is not None
    assert found.bits_per_byte.value == pytest.approx(20 / math.log(2) / 40)
    assert (
        conclude(report(10, None), sums(np.array([20.0]), np.array([10.0])), None, seed=0).bits_per_byte
        is None
    )


def test_huge_losses_do_not_overflow() -> None:
    assert Estimate(1e6).exp().value == math.inf
