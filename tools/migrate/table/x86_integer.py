"""x86: integer arithmetic, comparison, logic and shifts."""

from __future__ import annotations

from collections.abc import Callable

from icml.tools.migrate.table.expr import Expr, Imm, const, imm_if, select
from icml.tools.migrate.table.types import Type
from icml.tools.migrate.table.x86_forms import SSE, X86, Width, by_halves, imm8

_LETTERS = {8: "epi8", 16: "epi16", 32: "epi32", 64: "epi64"}


def define(x86: X86, width: Width) -> None:
    _sums(x86, width)
    _products(x86, width)
    _extremes(x86, width)
    _compare(x86, width)
    _logic(x86, width)
    _shift_imm(x86, width)
    _shift_register(x86, width)
    _horizontal(x86, width)


def _sums(x86: X86, width: Width) -> None:
    for bits, name in _LETTERS.items():
        x86.integers(width, f"add_{name}", f"s{bits}", lambda a, b: a + b)
        x86.integers(width, f"sub_{name}", f"s{bits}", lambda a, b: a - b)
    for kind in ("s8", "s16", "u8", "u16"):
        name = f"ep{'i' if kind[0] == 's' else 'u'}{kind[1:]}"
        x86.integers(width, f"adds_{name}", kind, lambda a, b: a.add_sat(b))
        x86.integers(width, f"subs_{name}", kind, lambda a, b: a.sub_sat(b))
    for kind in ("u8", "u16"):
        x86.integers(width, f"avg_ep{kind}", kind, lambda a, b: Expr("average", a.type, (a, b), (1,)))
    for bits in (8, 16, 32):
        x86.integers(width, f"abs_epi{bits}", f"s{bits}", lambda a: a.unary("abs"), 1)
        x86.integers(width, f"sign_epi{bits}", f"s{bits}", _sign)
    x86.integers(width, "sad_epu8", "u8", _sum_of_differences)


def _sign(a: Expr, b: Expr) -> Expr:
    negative, zero = b.compare("lt", 0), b.compare("eq", 0)
    return select(negative, -a, a) & ~zero.cast(a.type)


def _sum_of_differences(a: Expr, b: Expr) -> Expr:
    """Of each eight bytes, in 64-bit lanes."""
    total = a.max(b) - a.min(b)
    for _ in range(3):
        total = Expr("long_pairs", total.type.wide.of(total.type.lanes // 2), (total,))
    return total


def _products(x86: X86, width: Width) -> None:
    x86.integers(width, "mullo_epi16", "s16", lambda a, b: a * b)
    x86.integers(width, "mullo_epi32", "s32", lambda a, b: a * b)
    x86.integers(width, "mulhi_epi16", "s16", _high_product)
    x86.integers(width, "mulhi_epu16", "u16", _high_product)
    x86.integers(width, "mulhrs_epi16", "s16", _rounded_product)
    x86.integers(width, "madd_epi16", "s16", _pair_products)
    x86.integers(width, "mul_epu32", "u32", lambda a, b: _wide_product(a.even, b.even))
    x86.integers(width, "mul_epi32", "s32", lambda a, b: _wide_product(a.even, b.even))
    args = [width.arg("a"), width.arg("b")]
    x86.op(
        width.name("maddubs_epi16"),
        "maddubs",
        args,
        width.register("i"),
        lambda a, b: _mixed_pairs(a.cast(width.type("u8")), b.cast(width.type("s8"))).cast(a.type),
    )


def _wide_product(a: Expr, b: Expr) -> Expr:
    return a.convert(a.type.wide) * b.convert(b.type.wide)


def _high_product(a: Expr, b: Expr) -> Expr:
    return (_wide_product(a, b) >> a.type.bits).convert(a.type)


def _rounded_product(a: Expr, b: Expr) -> Expr:
    return (((_wide_product(a, b) >> 14) + 1) >> 1).convert(a.type)


def _pair_products(a: Expr, b: Expr) -> Expr:
    """Sums of two neighbouring products, modulo 2^32."""
    return Expr("pair_products", Type("s", 32, a.type.lanes // 2), (a, b))


def _mixed_pairs(a: Expr, b: Expr) -> Expr:
    """Unsigned times signed bytes; the sum of two products saturates, which only 32-bit sums could not."""
    wide = Type("s", 16, 0)
    product = a.convert(wide) * b.convert(wide)
    return product.even.add_sat(product.odd)


def _extremes(x86: X86, width: Width) -> None:
    for kind in ("s8", "u8", "s16", "u16", "s32", "u32"):
        name = f"ep{'i' if kind[0] == 's' else 'u'}{kind[1:]}"
        x86.integers(width, f"max_{name}", kind, lambda a, b: a.max(b))
        x86.integers(width, f"min_{name}", kind, lambda a, b: a.min(b))


def _compare(x86: X86, width: Width) -> None:
    for bits, name in _LETTERS.items():
        kind = f"s{bits}"
        x86.integers(width, f"cmpeq_{name}", kind, lambda a, b: a.compare("eq", b))
        # 64-bit "greater" came with SSE4.2.
        if not (width == SSE and bits == 64):
            x86.integers(width, f"cmpgt_{name}", kind, lambda a, b: a.compare("gt", b))
        if width == SSE and bits < 64:
            x86.integers(width, f"cmplt_{name}", kind, lambda a, b: a.compare("lt", b))
    pair = [width.arg("a"), width.arg("b")]
    s, name = f"si{width.bits}", "test"
    x86.op(width.name(f"testz_{s}"), name, pair, "int", lambda a, b: _none(a & b))
    x86.op(width.name(f"testc_{s}"), name, pair, "int", lambda a, b: _none(~a & b))
    x86.op(width.name(f"testnzc_{s}"), name, pair, "int", lambda a, b: (_none(a & b) | _none(~a & b)) ^ 1)
    if width == SSE:
        x86.op("_mm_test_all_zeros", name, pair, "int", lambda a, b: _none(a & b))
        x86.op("_mm_test_all_ones", name, pair[:1], "int", lambda a: _none(~a))
        x86.op("_mm_test_mix_ones_zeros", name, pair, "int", lambda a, b: (_none(a & b) | _none(~a & b)) ^ 1)


def _none(a: Expr) -> Expr:
    """1 if no bit is set, else 0."""
    joined = Expr("reduce_or", a.type.unsigned.element, (a.as_kind("u"),))
    return Expr("is_zero", Type("s", 32, 0), (joined,))


def _logic(x86: X86, width: Width) -> None:
    s = f"si{width.bits}"
    x86.integers(width, f"and_{s}", "s64", lambda a, b: a & b)
    x86.integers(width, f"or_{s}", "s64", lambda a, b: a | b)
    x86.integers(width, f"xor_{s}", "s64", lambda a, b: a ^ b)
    x86.integers(width, f"andnot_{s}", "s64", lambda a, b: ~a & b)


def _shift_imm(x86: X86, width: Width) -> None:
    """Counts of at least the lane's width shift everything out."""
    for bits in (16, 32, 64):
        _by_imm(x86, width, f"slli_epi{bits}", f"u{bits}", _left)
        _by_imm(x86, width, f"srli_epi{bits}", f"u{bits}", _right)
        if bits < 64:
            _by_imm(x86, width, f"srai_epi{bits}", f"s{bits}", _arithmetic)
    s = f"si{width.bits}"
    for stem in (f"slli_{s}", "bslli_si128" if width == SSE else "bslli_epi128"):
        _by_imm(x86, width, stem, "u8", lambda a, k: _bytes_up(a, k, width))
    for stem in (f"srli_{s}", "bsrli_si128" if width == SSE else "bsrli_epi128"):
        _by_imm(x86, width, stem, "u8", lambda a, k: _bytes_down(a, k, width))


def _by_imm(x86: X86, width: Width, stem: str, t: str, compute: Callable[[Expr, Imm], Expr]) -> None:
    kind = width.type(t)
    x86.op(
        width.name(stem),
        stem.rpartition("_")[0],
        [width.arg("a"), imm8()],
        width.register("i"),
        lambda a, k: compute(a.cast(kind), k).cast(a.type),
    )


def _left(a: Expr, k: Imm) -> Expr:
    return imm_if(k < a.type.bits, a << (k & (a.type.bits - 1)), const(a.type, 0))


def _right(a: Expr, k: Imm) -> Expr:
    return imm_if(k < a.type.bits, a >> (k & (a.type.bits - 1)), const(a.type, 0))


def _arithmetic(a: Expr, k: Imm) -> Expr:
    return a >> (k < a.type.bits).choose(k, a.type.bits - 1)


def _bytes_up(a: Expr, k: Imm, width: Width) -> Expr:
    """Towards higher lanes within 128 bits; lanes of the zero vector come in below."""
    count = (k < 16).choose(k, 16)
    return const(a.type, 0).take(_window(width, lambda i: Imm("const", (16 + i,)) - count), a)


def _bytes_down(a: Expr, k: Imm, width: Width) -> Expr:
    count = (k < 16).choose(k, 16)
    return a.take(_window(width, lambda i: count + i), const(a.type, 0))


def _window(width: Width, place: Callable[[int], Imm]) -> list[int | Imm]:
    """16 bytes of the 32 that two halves make, in each half: `place(i)` is 0..31."""
    result: list[int | Imm] = []
    total = 16 * width.halves
    for half in range(width.halves):
        for i in range(16):
            at = place(i)
            second = at < 16
            result.append(second.choose(at + 16 * half, at + (total - 16 + 16 * half)))
    return result


def align_right(a: Expr, b: Expr, k: Imm, width: Width) -> Expr:
    """Bytes k.. of a's half above b's half; beyond both there are zeros."""
    zero = const(a.type, 0)
    count = (k < 32).choose(k, 32)
    inside = (count < 16).choose(count, 16)
    low = b.take(_window(width, lambda i: inside + i), a)
    above = (count < 16).choose(0, count - 16)
    high = a.take(_window(width, lambda i: above + i), zero)
    return imm_if(k < 16, low, high)


def _shift_register(x86: X86, width: Width) -> None:
    """By the low 64 bits of a register, the same for all lanes."""
    for bits in (16, 32, 64):
        for stem, kind, compute in (
            ("sll", "u", _left_by),
            ("srl", "u", _right_by),
            ("sra", "s", _arithmetic_by),
        ):
            if kind == "s" and bits == 64:
                continue
            lane = Type(kind, bits, 0)
            args = [width.arg("a"), SSE.arg("c", mask=0x7F)]
            x86.op(
                width.name(f"{stem}_epi{bits}"),
                stem,
                args,
                width.register("i"),
                _spread_count(compute, width.type(str(lane))),
            )


def _spread_count(compute: Callable[[Expr, Expr], Expr], kind: Type) -> Callable[[Expr, Expr], Expr]:
    def shift(a: Expr, c: Expr) -> Expr:
        clamped = c.as_kind("u").min(kind.bits).cast(Type("u", kind.bits, 128 // kind.bits))
        return compute(a.cast(kind), clamped.take([0] * kind.lanes)).cast(a.type)

    return shift


def _left_by(a: Expr, n: Expr) -> Expr:
    """n in 0..bits or beyond."""
    return (a << (n & (a.type.bits - 1))) & n.compare("lt", a.type.bits)


def _right_by(a: Expr, n: Expr) -> Expr:
    return (a >> (n & (a.type.bits - 1))) & n.compare("lt", a.type.bits)


def _arithmetic_by(a: Expr, n: Expr) -> Expr:
    return a >> n.min(a.type.bits - 1)


def define_variable_shifts(x86: X86, width: Width) -> None:
    """AVX2: a count per lane."""
    for stem, kind, sizes, compute in (
        ("sllv", "u", (32, 64), _left_by),
        ("srlv", "u", (32, 64), _right_by),
        ("srav", "s", (32,), _arithmetic_by),
    ):
        for bits in sizes:
            lane, count = width.type(f"{kind}{bits}"), width.type(f"u{bits}")
            x86.op(
                width.name(f"{stem}_epi{bits}"),
                stem,
                [width.arg("a"), width.arg("b")],
                width.register("i"),
                _per_lane(compute, lane, count),
            )


def _per_lane(compute: Callable[[Expr, Expr], Expr], lane: Type, count: Type) -> Callable[[Expr, Expr], Expr]:
    return lambda a, b: compute(a.cast(lane), b.cast(count)).cast(a.type)


def _horizontal(x86: X86, width: Width) -> None:
    for stem, t, change in (
        ("hadd_epi16", "s16", lambda a, b: a + b),
        ("hadd_epi32", "s32", lambda a, b: a + b),
        ("hadds_epi16", "s16", lambda a, b: a.add_sat(b)),
        ("hsub_epi16", "s16", lambda a, b: a - b),
        ("hsub_epi32", "s32", lambda a, b: a - b),
        ("hsubs_epi16", "s16", lambda a, b: a.sub_sat(b)),
    ):
        x86.integers(width, stem, t, pairwise(change, width))


def pairwise(change: Callable[[Expr, Expr], Expr], width: Width) -> Callable[[Expr, Expr], Expr]:
    """Neighbours of a's half, then of b's half, in each half."""

    def compute(a: Expr, b: Expr) -> Expr:
        lanes = 128 // a.type.bits
        even = by_halves(range(0, 2 * lanes, 2), width, lanes)
        odd = by_halves(range(1, 2 * lanes, 2), width, lanes)
        return change(a.take(even, b), a.take(odd, b))

    return compute
