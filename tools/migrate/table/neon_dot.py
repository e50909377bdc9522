"""NEON: dot and matrix products of bytes, half-precision products to single, and bfloat16.

Sources: Arm ACLE; Arm ARM, pseudocode BFDotAdd for processors without FEAT_EBF16.
"""

from __future__ import annotations

from collections.abc import Callable

from icml.tools.migrate.table import bfloat
from icml.tools.migrate.table.expr import Body, Expr, Imm
from icml.tools.migrate.table.neon_forms import WIDTHS, Neon, imm, lanes, scalar, suffix, vec, vector_name
from icml.tools.migrate.table.types import Type


def define(neon: Neon) -> None:
    for result, left, right in (("s32", "s8", "s8"), ("u32", "u8", "u8"), ("s32", "u8", "s8")):
        _dot(neon, result, left, right)
    _mixed_lane(neon)
    _matrices(neon)
    _half_products(neon)
    _bfloat_conversions(neon)
    _bfloat_products(neon)


def _sum_of_four(c: Expr, a: Expr, b: Expr) -> Expr:
    """c plus the dot product of each group of four bytes."""
    kind = "u" if a.type.kind == b.type.kind == "u" else "s"
    wide = Type(kind, 16, 0)
    products = a.convert(wide) * b.convert(wide)
    pairs = Expr("long_pairs", Type(kind, 32, products.type.lanes // 2), (products,))
    return c + (pairs.even + pairs.odd).cast(c.type)


def _quad(vector: Expr, at: Imm, spread: int) -> Expr:
    """Four bytes of a vector, repeated."""
    return vector.take([at * 4 + i % 4 for i in range(spread)])


def _dot(neon: Neon, result: str, left: str, right: str) -> None:
    stem = "dot" if left == right else "usdot"
    for q in WIDTHS:
        s, name, spread = suffix(q), vector_name(result, q), lanes("s8", q)
        front = [vec("c", result, q), vec("a", left, q)]
        neon.op(f"v{stem}{s}_{result}", stem, [*front, vec("b", right, q)], name, _sum_of_four)
        for wide in WIDTHS:
            form = "laneq" if wide else "lane"
            args = [*front, vec("v", right, wide), imm("l", 0, lanes(result, wide) - 1)]
            neon.op(f"v{stem}{s}_{form}_{result}", f"{stem}_lane", args, name, _dot_lane(spread))


def _dot_lane(spread: int) -> Callable[..., Expr]:
    return lambda c, a, v, k: _sum_of_four(c, a, _quad(v, k, spread))


def _mixed_lane(neon: Neon) -> None:
    for q in WIDTHS:
        for wide in WIDTHS:
            args = [
                vec("c", "s32", q),
                vec("a", "s8", q),
                vec("v", "u8", wide),
                imm("l", 0, lanes("s32", wide) - 1),
            ]
            name = f"vsudot{suffix(q)}_{'laneq' if wide else 'lane'}_s32"
            neon.op(name, "sudot_lane", args, vector_name("s32", q), _dot_lane(lanes("s8", q)))


def _matrices(neon: Neon) -> None:
    for stem, result, left, right in (
        ("mmla", "s32", "s8", "s8"),
        ("mmla", "u32", "u8", "u8"),
        ("usmmla", "s32", "u8", "s8"),
    ):
        args = [vec("c", result, True), vec("a", left, True), vec("b", right, True)]
        neon.op(f"v{stem}q_{result}", stem, args, vector_name(result, True), _matrix_product)


def _matrix_product(c: Expr, a: Expr, b: Expr) -> Expr:
    """2x2 += 2x8 times the transpose of 2x8: two sums of four for each of the four results."""
    for start in (0, 4):
        rows = a.take([start + i % 4 + 8 * (i // 8) for i in range(16)])
        columns = b.take([start + i % 4 + 8 * (i // 4 % 2) for i in range(16)])
        c = _sum_of_four(c, rows, columns)
    return c


def _half_products(neon: Neon) -> None:
    """FMLAL, FMLSL: the product of two halves is exact in single precision, so a sum after it is the fused one."""

    def product(sign: int, upper: bool) -> Callable[[Expr, Expr, Expr], Expr]:
        def compute(c: Expr, a: Expr, b: Expr) -> Expr:
            half = c.type.lanes
            start = half if upper else 0
            x, y = (part.take(range(start, start + half)).convert(c.type) for part in (a, b))
            return c + x * y if sign > 0 else c - x * y

        return compute

    def lane(sign: int, upper: bool) -> Callable[..., Body]:
        return lambda c, a, v, k: product(sign, upper)(c, a, v.take([k] * a.type.lanes))

    for q in WIDTHS:
        s, name = suffix(q), vector_name("f32", q)
        front = [vec("c", "f32", q), vec("a", "f16", q)]
        for stem, sign in (("fmlal", 1), ("fmlsl", -1)):
            for part in ("low", "high"):
                upper = part == "high"
                args = [*front, vec("b", "f16", q)]
                neon.op(f"v{stem}{s}_{part}_f16", stem, args, name, product(sign, upper))
                for wide in WIDTHS:
                    form = "laneq" if wide else "lane"
                    by_lane = [*front, vec("v", "f16", wide), imm("l", 0, lanes("f16", wide) - 1)]
                    neon.op(f"v{stem}{s}_{form}_{part}_f16", stem, by_lane, name, lane(sign, upper))


def _bfloat_conversions(neon: Neon) -> None:
    low, full, single = vec("a", "bf16", False), vec("a", "bf16", True), vec("a", "f32", True)
    wide, narrow = vector_name("f32", True), vector_name("bf16", False)
    neon.op("vcvt_f32_bf16", "cvt_bf16", [low], wide, bfloat.widen)
    neon.op("vcvtq_low_f32_bf16", "cvt_bf16", [full], wide, lambda a: bfloat.widen(a.low))
    neon.op("vcvtq_high_f32_bf16", "cvt_bf16", [full], wide, lambda a: bfloat.widen(a.high))
    neon.op("vcvt_bf16_f32", "cvt_bf16", [single], narrow, bfloat.narrow)
    both = vector_name("bf16", True)
    neon.op(
        "vcvtq_low_bf16_f32",
        "cvt_bf16",
        [single],
        both,
        lambda a: bfloat.narrow(a).concat(bfloat.zero(a.type.lanes)),
    )
    neon.op(
        "vcvtq_high_bf16_f32",
        "cvt_bf16",
        [full, vec("b", "f32", True)],
        both,
        lambda a, b: a.low.concat(bfloat.narrow(b)),
    )
    neon.op(
        "vcvtah_f32_bf16",
        "cvt_bf16",
        [scalar("a", "bf16")],
        "float32_t",
        lambda a: bfloat.widen(a.splat(4)).lane(0),
    )
    neon.op(
        "vcvth_bf16_f32",
        "cvt_bf16",
        [scalar("a", "f32")],
        "bfloat16_t",
        lambda a: bfloat.narrow(a.splat(4)).lane(0),
    )


def _bfloat_products(neon: Neon) -> None:
    for q in WIDTHS:
        s, name = suffix(q), vector_name("f32", q)
        front = [vec("c", "f32", q), vec("a", "bf16", q)]
        neon.op(f"vbfdot{s}_f32", "bfdot", [*front, vec("b", "bf16", q)], name, bfloat.dot)
        for wide in WIDTHS:
            args = [*front, vec("v", "bf16", wide), imm("l", 0, lanes("f32", wide) - 1)]
            form = "laneq" if wide else "lane"
            neon.op(f"vbfdot{s}_{form}_f32", "bfdot_lane", args, name, _pair_lane(lanes("bf16", q)))
    args = [vec("c", "f32", True), vec("a", "bf16", True), vec("b", "bf16", True)]
    neon.op("vbfmmlaq_f32", "bfmmla", args, vector_name("f32", True), bfloat.matrix_product)
    for number, part in enumerate("bt"):
        neon.op(f"vbfmlal{part}q_f32", "bfmlal", args, vector_name("f32", True), _fused_half(number))
        for wide in WIDTHS:
            by_lane = [*args[:2], vec("v", "bf16", wide), imm("l", 0, lanes("bf16", wide) - 1)]
            form = "laneq" if wide else "lane"
            neon.op(
                f"vbfmlal{part}q_{form}_f32",
                "bfmlal",
                by_lane,
                vector_name("f32", True),
                _fused_half_lane(number),
            )


def _pair_lane(spread: int) -> Callable[..., Expr]:
    return lambda c, a, v, k: bfloat.dot(c, a, v.take([k * 2 + i % 2 for i in range(spread)]))


def _fused_half(number: int) -> Callable[[Expr, Expr, Expr], Expr]:
    """Even (b) or odd (t) lanes, widened; one ordinary fused multiply-add."""

    def compute(c: Expr, a: Expr, b: Expr) -> Expr:
        x, y = (bfloat.widen(part.take(range(number, 8, 2))) for part in (a, b))
        return Expr("fma", c.type, (x, y, c))

    return compute


def _fused_half_lane(number: int) -> Callable[..., Expr]:
    return lambda c, a, v, k: _fused_half(number)(c, a, v.take([k] * 8))
