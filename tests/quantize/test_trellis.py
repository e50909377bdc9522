"""The trellis code: brute force in Python integers, every instruction set and torch bit for bit, packing, the error."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from icml.formats.errors import InputError
from icml.tools.quantize import Generator, TrellisCode, best_generators, instruction_sets, parse_generator

from .oracles import GENERATORS, BruteViterbi, byte_sum, closed_paths, state_after

COSTS = ("uint8", "uint16")


def tiles(count: int, length: int = 256, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, length)).astype(np.float32)


@pytest.mark.parametrize("generator", GENERATORS, ids=lambda g: g.family)
def test_values_are_byte_sums_of_the_hash(generator: Generator) -> None:
    code = TrellisCode.of(generator, 9)
    sums = np.array([byte_sum(generator, s) for s in range(512)])
    assert np.array_equal(np.rint(code.values * code.sd + code.mean), sums)
    assert abs(code.values.mean()) < 1e-5
    assert code.values.std() == pytest.approx(1, abs=1e-5)
    assert parse_generator(str(generator)) == generator


@pytest.mark.parametrize("costs", COSTS)
def test_search_is_brute_force_viterbi(costs: str) -> None:
    code = TrellisCode(6, 2, "mul32", 0x52252A1F)
    brute = BruteViterbi(code, costs == "uint8")
    x = np.concatenate([tiles(30, 16), 3 * tiles(10, 16, 1), np.zeros((1, 16), np.float32)])
    for isa in instruction_sets():
        found = code.search(x, tail="full", costs=costs, isa=isa)
        assert found.tolist() == [brute.closed(tile) for tile in x], isa
        refined = code.search(x, tail="refine", costs=costs, isa=isa)
        assert refined.tolist() == [brute.refined(tile) for tile in x], isa


@pytest.mark.parametrize(("K", "L"), [(1, 5), (3, 7), (4, 9)])
def test_search_is_brute_force_viterbi_at_other_bits(K: int, L: int) -> None:
    code = TrellisCode(L, K, "mulx", 0xB4251189)
    x = tiles(6, 16)
    brute = BruteViterbi(code, False)
    assert code.search(x, tail="full").tolist() == [brute.closed(tile) for tile in x]
    assert code.search(x).tolist() == [brute.refined(tile) for tile in x]


def test_search_is_brute_force_viterbi_where_vectors_are_used() -> None:
    code = TrellisCode(9, 2, "mul32", 0x52252A1F)  # 128 groups: two vectors of 64
    x = tiles(2, 32)
    for costs in COSTS:
        expected = [BruteViterbi(code, costs == "uint8").closed(tile) for tile in x]
        for isa in instruction_sets():
            found = code.search(x, tail="full", costs=costs, isa=isa)
            assert found.tolist() == expected, (costs, isa)


def test_never_better_than_the_best_ring_and_often_it() -> None:
    length, L, K = 6, 5, 2
    code = TrellisCode(L, K, "mul32", 0x52252A1F)
    x = tiles(40, length)
    rings = np.array(list(closed_paths(length, L, K)))
    best = np.array([np.square(code.values[rings] - tile).sum(1).min() for tile in x])
    full, refined = (np.square(code.values[code.search(x, tail=t)] - x).sum(1) for t in ("full", "refine"))
    assert (full >= best - 1e-6).all()
    assert (refined >= best - 1e-6).all()
    assert (full < best + 1e-3).mean() > 0.5
    assert full.mean() < 1.35 * best.mean()
    assert (refined < best + 1e-3).mean() > (full < best + 1e-3).mean()
    assert (refined <= full + 1e-3).all()


def test_a_free_search_of_five_is_exhaustive() -> None:
    """The recursion itself: without a seam the brute-force search finds the optimum over all states and symbols."""
    code = TrellisCode(4, 2, "mul32", 0x52252A1F)
    brute = BruteViterbi(code, False)
    for tile in tiles(5, 5):
        x = [brute.fixed(v, False) for v in tile]
        path = brute.path(x, None, inf, brute.squared)
        cost = sum(brute.squared(a, s) for a, s in zip(x, path, strict=True))
        paths = ([s0, *rest] for s0 in range(16) for rest in _continuations(s0, 4))
        assert cost == min(sum(brute.squared(a, s) for a, s in zip(x, p, strict=True)) for p in paths)


def _continuations(state: int, steps: int) -> list[list[int]]:
    if steps == 0:
        return [[]]
    following = [(state << 2 | b) % 16 for b in range(4)]
    return [[s, *rest] for s in following for rest in _continuations(s, steps - 1)]


@pytest.mark.parametrize(
    ("L", "K", "costs"),
    [(8, 2, "uint8"), (12, 2, "uint8"), (12, 2, "uint16"), (14, 2, "uint8"), (10, 1, "uint16"), (13, 3, "uint16"),
     (12, 4, "uint16")],
)  # fmt: skip
def test_every_instruction_set_and_torch_give_the_same_bits(L: int, K: int, costs: str) -> None:
    code = TrellisCode(L, K, "mul32", 0x52252A1F)
    x = np.concatenate(
        [tiles(3), 5 * tiles(1, seed=1), np.full((1, 256), 9, np.float32), np.zeros((1, 256), np.float32)]
    )
    for tail in ("full", "window", "refine"):
        expected = code.encode(x, costs=costs, isa="portable", tail=tail)[0]
        for isa in instruction_sets():
            for threads in (1, 3):
                found = code.encode(x, costs=costs, isa=isa, tail=tail, threads=threads)[0]
                assert np.array_equal(found, expected), (isa, tail)
    torch = pytest.importorskip("torch")
    assert torch.get_num_threads() >= 1
    few = x[:2] if L > 12 else x
    assert np.array_equal(code.encode(few, costs=costs, device="cpu:0")[0], code.encode(few, costs=costs)[0])


@pytest.mark.slow
@pytest.mark.parametrize("costs", COSTS)
def test_every_instruction_set_gives_the_same_bits_at_16(costs: str) -> None:
    code = TrellisCode(16)
    x = tiles(8)
    expected = code.encode(x, costs=costs, isa="portable")[0]
    for isa in instruction_sets():
        assert np.array_equal(code.encode(x, costs=costs, isa=isa)[0], expected)


@settings(max_examples=30, deadline=None)
@given(
    arrays(np.float32, (2, 256), elements=st.floats(-30, 30, width=32)),
    st.sampled_from([(5, 2), (12, 2), (7, 1), (12, 3), (13, 4)]),
)
def test_paths_are_rings_whatever_the_input(x: np.ndarray, size: tuple[int, int]) -> None:
    L, K = size
    code = TrellisCode(L, K)
    states = code.search(x)
    assert np.array_equal(states[:, 0] >> K, states[:, -1] & (2 ** (L - K) - 1))
    steps = (states[:, :-1].astype(int) << K) & (2**L - 1)
    assert np.array_equal(states[:, 1:] >> K, steps >> K)
    packed, values = code.encode(x)
    assert packed.shape == (2, 8 * K)
    assert np.array_equal(code.states(packed), states)
    assert np.array_equal(values, code.decode(packed))


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**32), st.sampled_from([(12, 2), (14, 2), (16, 2), (16, 1), (15, 3), (16, 4), (11, 4)])
)
def test_any_bits_decode_to_the_states_of_their_ring(seed: int, size: tuple[int, int]) -> None:
    L, K = size
    code = TrellisCode(L, K)
    words = np.random.default_rng(seed).integers(0, 2**32, (1, 8 * K), np.uint32)
    ring = int("".join(f"{int(w):032b}" for w in words[0]), 2)
    states = code.states(words)
    assert states[0].tolist() == [state_after(ring, 256, t, L, K) for t in range(256)]
    sums = [byte_sum(code.generator, int(s)) - 510 for s in states[0]]
    assert code.byte_sums(words)[0].tolist() == sums


def test_a_row_of_two_bits_is_a_word_with_its_first_weight_on_top() -> None:
    code = TrellisCode(12)
    packed, _ = code.encode(tiles(1))
    lane, before = packed[0].astype(np.uint64), np.roll(packed[0], 1).astype(np.uint64)
    for c in range(16):
        window = (before << np.uint64(32) | lane) >> np.uint64(30 - 2 * c)
        assert np.array_equal(window & np.uint64(4095), code.states(packed).reshape(16, 16)[:, c])


@pytest.mark.parametrize(("L", "highest"), [(12, 0.0735), (14, 0.0715)])
def test_error_on_gaussian_weights(L: int, highest: float) -> None:
    x = tiles(150, seed=3)
    x = (x / x.std()).astype(np.float32)
    code = TrellisCode(L)
    wide, narrow = (np.square(code.encode(x, costs=c)[1] - x).mean() for c in ("uint16", "uint8"))
    assert 0.0625 < wide < highest
    assert wide < narrow < 1.012 * wide
    full, window = (np.square(code.encode(x, tail=t)[1] - x).mean() for t in ("full", "window"))
    assert wide < full < window < 1.012 * wide


def test_error_on_gaussian_weights_at_16() -> None:
    x = tiles(24, seed=3)
    x = (x / x.std()).astype(np.float32)
    assert 0.0625 < np.square(TrellisCode(16).encode(x, costs="uint16")[1] - x).mean() < 0.069


def test_more_bits_come_near_their_bound() -> None:
    x = tiles(30)
    x = (x / x.std()).astype(np.float32)
    for K, limit in ((1, 0.29), (3, 0.0205), (4, 0.0065)):
        error = np.square(TrellisCode(12, K).encode(x)[1] - x).mean()
        assert 4.0**-K < error < limit, K


def test_the_pool_is_ordered_and_beats_random_multipliers() -> None:
    rng = np.random.default_rng(5)
    x = tiles(60, seed=9)
    errors = [np.square(TrellisCode.of(g, 12).encode(x)[1] - x).mean() for g in best_generators(12, 4)]
    drawn = [Generator("mul32", int(a)) for a in rng.integers(2**24, 2**32, 25) | 1]
    others = [np.square(TrellisCode.of(g, 12).encode(x)[1] - x).mean() for g in drawn]
    assert max(errors) < 0.99 * np.median(others)
    assert [g.family for g in best_generators(16, 3, "mul16")] == ["mul16"] * 3
    assert TrellisCode(16).generator == best_generators(16, 1)[0]


def test_refusals() -> None:
    for arguments in ((2, 2), (17, 2), (12, 5), (12, 0)):
        with pytest.raises(InputError):
            TrellisCode(*arguments)
    with pytest.raises(InputError, match="family"):
        TrellisCode(12, 2, "mul8")
    code = TrellisCode(12)
    with pytest.raises(InputError, match="NaN"):
        code.encode(np.full((1, 256), np.nan, np.float32))
    with pytest.raises(InputError, match="uint8"):
        TrellisCode(12, 3).encode(tiles(1), costs="uint8")
    with pytest.raises(ValueError, match="instruction set"):
        code.encode(tiles(1), isa="sse9")
    assert code.encode(np.empty((0, 256), np.float32))[0].shape == (0, 16)
