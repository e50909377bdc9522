"""x86: moving lanes: packing, unpacking, shuffles, blends, extraction, insertion, widening, masks to integers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from icml.tools.migrate.table.expr import Expr, Imm, const, select
from icml.tools.migrate.table.types import Type
from icml.tools.migrate.table.x86_forms import (
    AVX,
    SSE,
    X86,
    Width,
    bit,
    by_halves,
    imm8,
    number,
    two_bits,
)
from icml.tools.migrate.table.x86_integer import align_right

Order = Sequence[int | Imm]


def define(x86: X86, width: Width) -> None:
    _packs(x86, width)
    _unpacks(x86, width)
    _shuffles(x86, width)
    _float_shuffles(x86, width)
    _blends(x86, width)
    _widening(x86, width)
    _masks(x86, width)
    _casts(x86, width)
    _elements(x86, width)


def _packs(x86: X86, width: Width) -> None:
    for stem, source, narrow in (
        ("packs_epi16", "s16", "s8"),
        ("packs_epi32", "s32", "s16"),
        ("packus_epi16", "s16", "u8"),
        ("packus_epi32", "s32", "u16"),
    ):
        x86.integers(width, stem, source, _packed(width, Type(narrow[0], int(narrow[1:]), 0)))


def _packed(width: Width, narrow: Type) -> Callable[[Expr, Expr], Expr]:
    def compute(a: Expr, b: Expr) -> Expr:
        parts = [part.max(narrow.min).min(narrow.max).convert(narrow) for part in (a, b)]
        half = 128 // a.type.bits
        total = half * width.halves
        order = [
            i + h * half + (total if second else 0)
            for h in range(width.halves)
            for second in (0, 1)
            for i in range(half)
        ]
        return parts[0].take(order, parts[1])

    return compute


def _unpacks(x86: X86, width: Width) -> None:
    for bits in (8, 16, 32, 64):
        lanes = 128 // bits
        for stem, start in (("unpacklo", 0), ("unpackhi", lanes // 2)):
            x86.integers(width, f"{stem}_epi{bits}", f"u{bits}", _woven(width, lanes, start))
    for letter, lanes in (("s", 4), ("d", 2)):
        for stem, start in (("unpacklo", 0), ("unpackhi", lanes // 2)):
            pair = [width.arg("a", letter), width.arg("b", letter)]
            x86.op(
                width.name(f"{stem}_p{letter}"),
                stem,
                pair,
                width.register(letter),
                _woven(width, lanes, start),
            )


def _woven(width: Width, lanes: int, start: int) -> Callable[[Expr, Expr], Expr]:
    order = by_halves([start + i // 2 + (lanes if i % 2 else 0) for i in range(lanes)], width, lanes)
    return lambda a, b: a.take(order, b)


def _shuffles(x86: X86, width: Width) -> None:
    args = [width.arg("a"), imm8()]
    name = width.register("i")

    def by(t: str, fields: Callable[[Imm], Order]) -> Callable[[Expr, Imm], Expr]:
        kind = width.type(t)
        return lambda a, k: a.cast(kind).take(by_halves(fields(k), width, 128 // kind.bits)).cast(a.type)

    x86.op(width.name("shuffle_epi32"), "shuffle", args, name, by("u32", _four))
    x86.op(width.name("shufflelo_epi16"), "shuffle", args, name, by("u16", lambda k: [*_four(k), 4, 5, 6, 7]))
    x86.op(
        width.name("shufflehi_epi16"),
        "shuffle",
        args,
        name,
        by("u16", lambda k: [0, 1, 2, 3, *(two_bits(k, i) + 4 for i in range(4))]),
    )
    x86.integers(width, "shuffle_epi8", "u8", _byte_shuffle(width))
    pair = [width.arg("a"), width.arg("b"), imm8()]
    kind = width.type("u8")
    x86.op(
        width.name("alignr_epi8"),
        "alignr",
        pair,
        name,
        lambda a, b, k: align_right(a.cast(kind), b.cast(kind), k, width).cast(a.type),
    )


def _four(k: Imm) -> list[int | Imm]:
    return [two_bits(k, i) for i in range(4)]


def _byte_shuffle(width: Width) -> Callable[[Expr, Expr], Expr]:
    """Bit 7 gives 0, else the low four bits choose: as a lookup, indices past 15 give 0."""

    def compute(a: Expr, i: Expr) -> Expr:
        index = i & 0x8F
        if not width.wide:
            return Expr("table", a.type, (a, index))
        half = Type("u", 8, 16)
        low, high = (
            Expr("table", half, (table, at)) for table, at in ((a.low, index.low), (a.high, index.high))
        )
        return low.concat(high)

    return compute


def _float_shuffles(x86: X86, width: Width) -> None:
    pair = {letter: [width.arg("a", letter), width.arg("b", letter)] for letter in "sd"}
    x86.op(
        width.name("shuffle_ps"),
        "shuffle",
        [*pair["s"], imm8()],
        width.register("s"),
        lambda a, b, k: _quad(a, b, k, width),
    )
    fields = 2 * width.halves
    x86.op(
        width.name("shuffle_pd"),
        "shuffle",
        [*pair["d"], imm8(high=(1 << fields) - 1)],
        width.register("d"),
        lambda a, b, k: a.take([bit(k, i) + (i // 2 * 2 + (i % 2) * a.type.lanes) for i in range(fields)], b),
    )
    for letter, order in (("movehdup_ps", (1, 1, 3, 3)), ("moveldup_ps", (0, 0, 2, 2))):
        x86.op(
            width.name(letter),
            "movedup",
            pair["s"][:1],
            width.register("s"),
            _ordered(by_halves(order, width, 4)),
        )
    x86.op(
        width.name("movedup_pd"),
        "movedup",
        pair["d"][:1],
        width.register("d"),
        _ordered(by_halves((0, 0), width, 2)),
    )
    if width == SSE:
        x86.op("_mm_movehl_ps", "movehl", pair["s"], "__m128", lambda a, b: b.take([2, 3, 6, 7], a))
        x86.op("_mm_movelh_ps", "movelh", pair["s"], "__m128", lambda a, b: a.take([0, 1, 4, 5], b))
        x86.op("_mm_move_ss", "move", pair["s"], "__m128", lambda a, b: a.take([4, 1, 2, 3], b))
        x86.op("_mm_move_sd", "move", pair["d"], "__m128d", lambda a, b: a.take([2, 1], b))


def _quad(a: Expr, b: Expr, k: Imm, width: Width) -> Expr:
    order: list[int | Imm] = []
    for half in range(width.halves):
        base = 4 * half
        order += [two_bits(k, i) + (base + (a.type.lanes if i > 1 else 0)) for i in range(4)]
    return a.take(order, b)


def _ordered(order: Order) -> Callable[[Expr], Expr]:
    return lambda a: a.take(order)


def _blends(x86: X86, width: Width) -> None:
    n = 8 * width.halves
    kind = width.type("u16")
    x86.op(
        width.name("blend_epi16"),
        "blend",
        [width.arg("a"), width.arg("b"), imm8()],
        width.register("i"),
        lambda a, b, k: (
            a.cast(kind).take([bit(k, i % 8) * n + i for i in range(n)], b.cast(kind)).cast(a.type)
        ),
    )
    for letter, lanes in (("s", 4 * width.halves), ("d", 2 * width.halves)):
        pair = [width.arg("a", letter), width.arg("b", letter)]
        x86.op(
            width.name(f"blend_p{letter}"),
            "blend",
            [*pair, imm8(high=(1 << lanes) - 1)],
            width.register(letter),
            _blended(lanes),
        )
        x86.op(
            width.name(f"blendv_p{letter}"),
            "blendv",
            [*pair, width.arg("m", letter)],
            width.register(letter),
            lambda a, b, m: select(m.as_kind("s").compare("lt", 0), b, a),
        )
    x86.integers(width, "blendv_epi8", "s8", lambda a, b, m: select(m.compare("lt", 0), b, a), 3)


def _blended(lanes: int) -> Callable[[Expr, Expr, Imm], Expr]:
    return lambda a, b, k: a.take([bit(k, i) * lanes + i for i in range(lanes)], b)


def _widening(x86: X86, width: Width) -> None:
    """The low lanes of a register, or for 256 bits a whole 128-bit one or its low part."""
    for source in ("s8", "s16", "s32", "u8", "u16", "u32"):
        bits = int(source[1:])
        for wide in (16, 32, 64):
            if wide <= bits:
                continue
            lanes = width.bits // wide
            name = f"cvtep{'i' if source[0] == 's' else 'u'}{bits}_epi{wide}"
            x86.op(
                width.name(name),
                "cvtepi",
                [SSE.arg("a")],
                width.register("i"),
                _widened(source, wide, lanes, width),
            )


def _widened(source: str, wide: int, lanes: int, width: Width) -> Callable[[Expr], Expr]:
    kind = SSE.type(source)
    target = Type(kind.kind, wide, 0)
    return lambda a: a.cast(kind).take(range(lanes)).convert(target).cast(width.type("s64"))


def signs(a: Expr) -> Expr:
    """Bit i of an int is the sign of lane i."""
    bits = max(a.type.lanes, 8)
    return (
        Expr("signs", Type("u", bits, 0), (a.as_kind("s"),)).convert(Type("u", 32, 0)).cast(Type("s", 32, 0))
    )


def _masks(x86: X86, width: Width) -> None:
    kind = width.type("s8")
    x86.op(width.name("movemask_epi8"), "movemask", [width.arg("a")], "int", lambda a: signs(a.cast(kind)))
    x86.op(width.name("movemask_ps"), "movemask", [width.arg("a", "s")], "int", signs)
    x86.op(width.name("movemask_pd"), "movemask", [width.arg("a", "d")], "int", signs)


def _casts(x86: X86, width: Width) -> None:
    kinds = {"ps": "s", "pd": "d", f"si{width.bits}": "i"}
    for source, s in kinds.items():
        for target, t in kinds.items():
            if source != target:
                type = width.arg("a", t).type
                x86.op(
                    width.name(f"cast{source}_{target}"),
                    "cast",
                    [width.arg("a", s)],
                    width.register(t),
                    _cast(type),
                )


def _cast(type: Type) -> Callable[[Expr], Expr]:
    return lambda a: a.cast(type)


def _elements(x86: X86, width: Width) -> None:
    for bits, ctype in ((8, "char"), (16, "short"), (32, "int"), (64, "long long")):
        lanes = width.bits // bits
        kind = width.type(f"u{bits}")
        result = "long long" if bits == 64 else "int"
        # Small lanes are extracted without sign.
        x86.op(
            width.name(f"extract_epi{bits}"),
            "extract",
            [width.arg("a"), imm8(high=lanes - 1)],
            result,
            _extracted(kind, Type("s", max(bits, 32), 0)),
        )
        taken = number("x", "int" if bits < 32 else ctype)
        x86.op(
            width.name(f"insert_epi{bits}"),
            "insert",
            [width.arg("a"), taken, imm8(high=lanes - 1)],
            width.register("i"),
            _inserted(kind),
        )
    if width == AVX:
        return
    x86.op("_mm_cvtsi128_si32", "cvtsi", [width.arg("a")], "int", lambda a: a.cast(width.type("s32")).lane(0))
    x86.op("_mm_cvtsi128_si64", "cvtsi", [width.arg("a")], "long long", lambda a: a.lane(0))
    x86.op("_mm_cvtsi32_si128", "cvtsi", [number("x", "int")], "__m128i", lambda x: _first(x, width))
    x86.op("_mm_cvtsi64_si128", "cvtsi", [number("x", "long long")], "__m128i", lambda x: _first(x, width))
    x86.op("_mm_move_epi64", "move", [width.arg("a")], "__m128i", lambda a: a.take([0, 2], const(a.type, 0)))
    x86.op(
        "_mm_extract_ps",
        "extract",
        [width.arg("a", "s"), imm8(high=3)],
        "int",
        lambda a, k: a.cast(width.type("s32")).lane(k),
    )


def _first(x: Expr, width: Width) -> Expr:
    """One number, zeros above it."""
    kind = width.type(str(x.type))
    return const(kind, 0).insert(0, x).cast(width.type("s64"))


def _extracted(kind: Type, result: Type) -> Callable[[Expr, Imm], Expr]:
    return lambda a, k: a.cast(kind).lane(k).convert(result.unsigned.element).cast(result)


def _inserted(kind: Type) -> Callable[[Expr, Expr, Imm], Expr]:
    return lambda a, x, k: a.cast(kind).insert(k, x.convert(kind.element)).cast(a.type)
