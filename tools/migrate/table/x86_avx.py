"""x86: shuffles by immediates and by registers, and gathers, that came with AVX and AVX2."""

from __future__ import annotations

from collections.abc import Callable

from icml.tools.migrate.table.expr import Expr, Imm
from icml.tools.migrate.table.neon_forms import Pointer
from icml.tools.migrate.table.types import Type
from icml.tools.migrate.table.x86_forms import AVX, SSE, X86, Width, imm8, pointer, two_bits


def define_permutes(x86: X86) -> None:
    for width in (SSE, AVX):
        n = 4 * width.halves
        args = [width.arg("a", "s"), imm8()]
        x86.op(
            width.name("permute_ps"),
            "permute",
            args,
            width.register("s"),
            lambda a, k: a.take([two_bits(k, i % 4) + i // 4 * 4 for i in range(a.type.lanes)]),
        )
        d = 2 * width.halves
        x86.op(
            width.name("permute_pd"),
            "permute",
            [width.arg("a", "d"), imm8(high=(1 << d) - 1)],
            width.register("d"),
            lambda a, k: a.take([((k >> i) & 1) + i // 2 * 2 for i in range(a.type.lanes)]),
        )
        kind = width.type("u32")
        x86.op(
            width.name("blend_epi32"),
            "blend",
            [width.arg("a"), width.arg("b"), imm8(high=(1 << n) - 1)],
            width.register("i"),
            _blend_words(kind),
        )
    four = [AVX.arg("a"), imm8()]
    x86.op("_mm256_permute4x64_epi64", "permute4", four, "__m256i", _quarters)
    x86.op("_mm256_permute4x64_pd", "permute4", [AVX.arg("a", "d"), imm8()], "__m256d", _quarters)
    words = AVX.type("u32")
    eight = [AVX.arg("a"), AVX.arg("i")]
    x86.op(
        "_mm256_permutevar8x32_epi32",
        "permutevar",
        eight,
        "__m256i",
        lambda a, i: _by_words(a.cast(words), i.cast(words)).cast(a.type),
    )
    singles = [AVX.arg("a", "s"), AVX.arg("i")]
    x86.op(
        "_mm256_permutevar8x32_ps",
        "permutevar",
        singles,
        "__m256",
        lambda a, i: _by_words(a.cast(words), i.cast(words)).cast(a.type),
    )


def _blend_words(kind: Type) -> Callable[[Expr, Expr, Imm], Expr]:
    n = kind.lanes
    return lambda a, b, k: (
        a.cast(kind).take([((k >> i) & 1) * n + i for i in range(n)], b.cast(kind)).cast(a.type)
    )


def _quarters(a: Expr, k: Imm) -> Expr:
    return a.take([two_bits(k, i) for i in range(4)])


def _by_words(a: Expr, index: Expr) -> Expr:
    """Each lane by the low three bits of its index."""
    return Expr(
        "build", a.type, tuple(Expr("pick", a.type.element, (a, (index & 7).lane(i))) for i in range(8))
    )


def define_gathers(x86: X86) -> None:
    """By 32-bit indices times a scale of 1, 2, 4 or 8 bytes."""
    scale = imm8("k", 8, choices=(1, 2, 4, 8))
    for width in (SSE, AVX):
        for stem, ctype, t, letter in (
            ("epi32", "int", "s32", "i"),
            ("ps", "float", "f32", "s"),
            ("epi64", "long long", "s64", "i"),
            ("pd", "double", "f64", "d"),
        ):
            kind, held = width.type(t), width.arg("a", letter).type
            index = width if kind.bits == 32 else SSE
            # Test indices are 0..15, in both words of a 64-bit lane.
            args = [
                pointer("p", ctype, t, 32 if kind.bits == 32 else 16),
                index.arg("i", mask=0xF0000000F),
                scale,
            ]
            x86.op(
                width.name(f"i32gather_{stem}"),
                "gather",
                args,
                width.register(letter),
                _gathered(kind, held, index),
            )


def _gathered(kind: Type, held: Type, index: Width) -> Callable[..., Expr]:
    def compute(p: Pointer, i: Expr, k: Imm) -> Expr:
        words = i.cast(index.type("s32")).take(range(kind.lanes))
        base = Expr("pointer", Type("u", 8, 0), (), (p.name,))
        return Expr("gather", kind, (base, words), (0, k)).cast(held)

    return compute
