"""Overlap statistics tell good generators from bad ones; the values' distribution does not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from icml.tools.quantize import TrellisCode
from icml.tools.quantize.vetting import (
    build_pool,
    draw,
    gaussian_tiles,
    overlap_statistics,
    vet,
    viterbi_error,
    write_pool,
)


def test_statistics_of_an_ideal_random_code() -> None:
    values = np.random.default_rng(0).standard_normal(2**14)
    found = overlap_statistics(values, 14)
    assert found.lag_correlation < 0.05
    assert 0.9 < found.leak_low < 1.6
    assert 0.9 < found.leak_high < 1.6
    expected = np.random.default_rng(1).standard_normal((10**5, 4)).std(1).mean()
    assert found.successor_spread == pytest.approx(expected, rel=0.02)
    assert found.merger_spread == pytest.approx(expected, rel=0.02)


def test_statistics_of_codes_that_give_everything_away() -> None:
    states = np.arange(2**12)
    by_high_bits = overlap_statistics(states >> 2, 12)
    assert by_high_bits.successor_spread == 0
    assert by_high_bits.leak_high > 3.9
    by_low_bits = overlap_statistics(states & 1023, 12)
    assert by_low_bits.merger_spread == 0
    assert by_low_bits.leak_low > 3.9


def test_overlap_ranks_codes_and_kurtosis_does_not() -> None:
    tiles = gaussian_tiles(24, 3)
    codes = [TrellisCode.of(g, 12) for g in draw("mul32", 60, 5)]
    errors = [viterbi_error(c.generator, 12, tiles) for c in codes]
    overlap = [overlap_statistics(c.values, 12) for c in codes]
    kurtosis = [abs(np.mean(c.values.astype(float) ** 4) - 3) for c in codes]
    assert spearmanr([s.leak_high for s in overlap], errors)[0] > 0.3
    assert spearmanr([-s.successor_spread for s in overlap], errors)[0] > 0.2
    assert spearmanr(kurtosis, errors)[0] < 0.25


def test_vetting_turns_away_the_bad_tail() -> None:
    tiles = gaussian_tiles(24, 4)
    drawn = draw("mulx", 60, 6)
    kept = vet(drawn)
    assert 0 < len(kept) < len(drawn)
    errors = {g: viterbi_error(g, 12, tiles) for g in drawn}
    assert np.mean([errors[g] for g in kept]) < np.mean(list(errors.values()))


def test_the_pool_is_written_as_a_module(tmp_path: Path) -> None:
    pool = {"mul32:83dcd12d": (0.07, 0.069, 0.068), "mul16:d741:8cd1": (0.08, 0.07, 0.07)}
    write_pool(pool, tmp_path / "pool.py")
    found: dict[str, object] = {}
    exec((tmp_path / "pool.py").read_text(), found)
    assert found["POOL"] == pool
    assert found["MEASURED_AT"] == (12, 14, 16)


@pytest.mark.slow
def test_the_pool_is_rebuilt() -> None:
    pool = build_pool(20, 1, 7)
    assert {name.split(":")[0] for name in pool} == {"mul32", "mulx", "mul16"}
    assert all(0.0625 < e < 0.08 for errors in pool.values() for e in errors)
