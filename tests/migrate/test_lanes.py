"""The numpy executor against arithmetic written out in unbounded Python integers and against numpy's own types."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icml.tools.migrate.table import load
from icml.tools.migrate.table.floats import float_to_int, fused, maximum, maximum_number

NEON = load("neon")
SSE = load("sse")
AVX2 = load("avx2")


def clamp(value: int, low: int, high: int) -> int:
    return max(low, min(high, value))


def signed(bits: int) -> st.SearchStrategy[list[int]]:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    number = st.one_of(st.sampled_from([low, low + 1, -1, 0, 1, high]), st.integers(low, high))
    return st.lists(number, min_size=128 // bits, max_size=128 // bits)


@given(signed(16), signed(16))
def test_rounding_doubling_high_product_saturates_at_one_pair_alone(a: list[int], b: list[int]) -> None:
    got = NEON["vqrdmulhq_s16"].lanes(a, b)
    want = [clamp((2 * x * y + (1 << 15)) >> 16, -32768, 32767) for x, y in zip(a, b, strict=True)]
    assert list(got) == want


@given(signed(32), signed(32), signed(32))
def test_accumulating_high_product_is_clamped_once(a: list[int], b: list[int], c: list[int]) -> None:
    got = NEON["vqrdmlahq_s32"].lanes(a, b, c)
    want = [
        clamp(((x << 32) + 2 * y * z + (1 << 31)) >> 32, -(1 << 31), (1 << 31) - 1)
        for x, y, z in zip(a, b, c, strict=True)
    ]
    assert list(got) == want


@given(signed(8), signed(8))
def test_a_register_shift_reads_the_signed_low_byte(a: list[int], b: list[int]) -> None:
    def one(x: int, by: int) -> int:
        if by >= 8:
            return 0
        if by >= 0:
            return ((x << by) + 128) % 256 - 128
        return x >> min(-by, 7)

    assert list(NEON["vshlq_s8"].lanes(a, b)) == [one(x, y) for x, y in zip(a, b, strict=True)]


@given(signed(64), signed(64))
def test_saturating_rounding_shifts_of_the_widest_lanes(a: list[int], b: list[int]) -> None:
    def one(x: int, by: int) -> int:
        by = (by + 128) % 256 - 128
        exact = x << by if by >= 0 else (x + (1 << (-by - 1))) >> -by
        return clamp(exact, -(1 << 63), (1 << 63) - 1)

    assert list(NEON["vqrshlq_s64"].lanes(a, b)) == [one(x, y) for x, y in zip(a, b, strict=True)]


@given(signed(16), st.integers(1, 16))
def test_rounding_right_shifts_keep_the_carry(a: list[int], k: int) -> None:
    assert list(NEON["vrshrq_n_s16"].lanes(a, k)) == [(x + (1 << (k - 1))) >> k for x in a]


@given(signed(32), st.integers(1, 16))
def test_saturating_unsigned_narrowing(a: list[int], k: int) -> None:
    got = NEON["vqrshrun_n_s32"].lanes(a, k)
    assert list(got) == [clamp((x + (1 << (k - 1))) >> k, 0, 65535) for x in a]


@given(
    st.lists(st.integers(0, 255), min_size=16, max_size=16),
    st.lists(st.integers(0, 255), min_size=32, max_size=32),
)
def test_table_lookup_out_of_range(index: list[int], table: list[int]) -> None:
    parts = [table[:16], table[16:]]
    got = NEON["vqtbl2q_u8"].lanes(parts, index)
    assert list(got) == [table[i] if i < 32 else 0 for i in index]
    kept = NEON["vqtbx2q_u8"].lanes([7] * 16, parts, index)
    assert list(kept) == [table[i] if i < 32 else 7 for i in index]


def test_interleaved_memory() -> None:
    memory = np.arange(48, dtype=np.uint8)
    parts = NEON["vld3q_u8"].lanes(memory)
    assert [list(part) for part in parts] == [list(range(i, 48, 3)) for i in range(3)]
    written = NEON["vst3q_u8"].lanes(np.zeros(48, np.uint8), parts)
    assert list(written) == list(memory)


def test_a_lane_store_leaves_the_rest() -> None:
    written = NEON["vst2_lane_u8"].lanes(
        [9, 9], [[1, 2, 3, 4, 5, 6, 7, 8], [11, 12, 13, 14, 15, 16, 17, 18]], 2
    )
    assert list(written) == [3, 13]


def test_a_batch_is_the_same_as_one_by_one() -> None:
    rng = np.random.default_rng(5)
    a, b = rng.integers(-(2**15), 2**15, (2, 7, 8), dtype=np.int16)
    entry = NEON["vhsubq_s16"]
    together = entry.lanes(a, b)
    for row in range(7):
        assert np.array_equal(together[row], entry.lanes(a[row], b[row]))


@given(signed(16), signed(16))
def test_madd_wraps_at_the_four_minima_alone(a: list[int], b: list[int]) -> None:
    exact = [a[2 * i] * b[2 * i] + a[2 * i + 1] * b[2 * i + 1] for i in range(4)]
    got = SSE["_mm_madd_epi16"].lanes(
        np.array(a, np.int16).view(np.int64), np.array(b, np.int16).view(np.int64)
    )
    wrapped = [(x + (1 << 31)) % (1 << 32) - (1 << 31) for x in exact]
    assert list(got.view(np.int32)) == wrapped


def test_maxps_takes_the_second_operand_when_unordered_or_both_zero() -> None:
    a = np.array([np.nan, 1, 0.0, -0.0], np.float32)
    b = np.array([2, np.nan, -0.0, 0.0], np.float32)
    got = SSE["_mm_max_ps"].lanes(a, b)
    assert got.view(np.uint32).tolist() == b.view(np.uint32).tolist()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (2.5, 2),
        (3.5, 4),
        (-0.5, 0),
        (2.0**31, -(2**31)),
        (math.nan, -(2**31)),
        (-(2.0**31), -(2**31)),
        (-3e9, -(2**31)),
    ],
)
def test_cvtps_rounds_to_even_and_marks_what_does_not_fit(value: float, expected: int) -> None:
    got = SSE["_mm_cvtps_epi32"].lanes(np.full(4, value, np.float32))
    assert got.view(np.int32).tolist() == [expected] * 4


def test_256_bit_shuffles_stay_in_their_halves() -> None:
    a = np.arange(32, dtype=np.uint8)
    index = np.tile(np.array([15, 0, 0x80, 0x1F] * 4, np.uint8), 2)
    got = AVX2["_mm256_shuffle_epi8"].lanes(a.view(np.int64), index.view(np.int64)).view(np.uint8)
    assert got.tolist() == [15, 0, 0, 15] * 4 + [31, 16, 0, 31] * 4
    packed = AVX2["_mm256_packs_epi32"].lanes(
        np.arange(8, dtype=np.int32).view(np.int64), np.arange(10, 18, dtype=np.int32).view(np.int64)
    )
    assert packed.view(np.int16).tolist() == [0, 1, 2, 3, 10, 11, 12, 13, 4, 5, 6, 7, 14, 15, 16, 17]


floats32 = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(floats32, floats32, floats32)
def test_single_fused_multiply_add_rounds_once(a: float, b: float, c: float) -> None:
    got = float(fused(*(np.array([x], np.float32) for x in (a, b, c)))[0])
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    with np.errstate(over="ignore"):
        low, high = np.nextafter(np.float32(got), np.float32([-np.inf, np.inf]))
    if not math.isfinite(got):
        assert abs(exact) >= Fraction(float(np.finfo(np.float32).max))
        return
    distance = abs(exact - Fraction(got))
    neighbours = [Fraction(float(x)) for x in (low, high) if np.isfinite(x)]
    assert all(distance <= abs(exact - x) for x in neighbours)


@given(st.integers(0, 0xFFFF), st.integers(0, 0xFFFF), st.integers(0, 0xFFFF))
def test_half_fused_multiply_add_is_the_exact_sum_rounded(x: int, y: int, z: int) -> None:
    a, b, c = (np.array([v], np.uint16).view(np.float16) for v in (x, y, z))
    if not (np.isfinite(a[0]) and np.isfinite(b[0]) and np.isfinite(c[0])):
        return
    exact = Fraction(float(a[0])) * Fraction(float(b[0])) + Fraction(float(c[0]))
    got = fused(a, b, c)[0]
    # Every half is a multiple of 2^-24 with 11 bits: the nearest can be found in integers.
    scaled = exact * 2**24
    magnitude = abs(scaled)
    unit = max(0, math.floor(magnitude).bit_length() - 11)
    quotient = magnitude / 2**unit
    rounded = math.floor(quotient)
    rest = quotient - rounded
    if rest > Fraction(1, 2) or (rest == Fraction(1, 2) and rounded % 2):
        rounded += 1
    want = float(Fraction(rounded * 2**unit, 2**24)) if rounded * 2**unit < 65520 * 2**24 else math.inf
    assert abs(float(got)) == want
    assert want == 0 or (got < 0) == (exact < 0)


def test_minima_and_maxima_of_zeros_and_nans() -> None:
    zeros = np.array([0.0, -0.0], np.float32), np.array([-0.0, 0.0], np.float32)
    assert np.signbit(maximum(*zeros, 1)).tolist() == [False, False]
    assert np.signbit(maximum(*zeros, -1)).tolist() == [True, True]
    one, nan = np.array([1.0]), np.array([np.nan])
    assert np.isnan(maximum(one, nan, 1))[0]
    assert maximum_number(nan, one, -1)[0] == 1.0


def test_conversion_saturates() -> None:
    values = np.array([np.nan, np.inf, -np.inf, 2.0**31, -1.9, 3e9], np.float32)
    assert float_to_int(values, np.dtype("i4")).tolist() == [0, 2**31 - 1, -(2**31), 2**31 - 1, -1, 2**31 - 1]
    assert float_to_int(values, np.dtype("u4")).tolist() == [0, 2**32 - 1, 0, 2**31, 0, 3000000000]


def test_the_estimate_is_what_the_manual_says() -> None:
    """Eight bits of 1/x: the manual's own loop in integers."""
    for numerator in range(1, 400):
        x = np.float32(numerator / 7)
        bits = int(x.view(np.uint32))
        a = 256 | ((bits >> 15) & 255)
        estimate = ((1 << 19) // (2 * a + 1) + 1) // 2
        exponent = 253 - (bits >> 23 & 255)
        want = np.uint32(exponent << 23 | (estimate & 255) << 15).view(np.float32)
        assert NEON["vrecpeq_f32"].lanes(np.full(4, x))[0] == want


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match=r"k is not in 1\.\.16"):
        NEON["vshrq_n_s16"].lanes([0] * 8, 17)
    with pytest.raises(TypeError, match="takes 2 arguments"):
        NEON["vaddq_s16"].lanes([0] * 8)
