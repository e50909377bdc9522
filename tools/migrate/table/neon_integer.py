"""NEON: integer arithmetic lane by lane, within pairs and across a vector."""

from __future__ import annotations

from collections.abc import Callable

from icml.tools.migrate.table.expr import Expr, const, select
from icml.tools.migrate.table.neon_forms import (
    INTEGERS,
    SIGNED,
    SMALL,
    WIDTHS,
    Neon,
    as_kind,
    bits,
    lanes,
    resized,
    scalar_name,
    suffix,
    vec,
    vector_name,
)

_BYTES = ("s8", "u8", "p8")
_POLY_LOGIC = ("p8", "p16", "p64")


def define(neon: Neon) -> None:
    _arithmetic(neon)
    _logic(neon)
    _halving(neon)
    _saturating(neon)
    _counting(neon)
    _by_element(neon)
    _pairwise(neon)
    _across(neon)


def _arithmetic(neon: Neon) -> None:
    neon.binary("add", INTEGERS, lambda a, b: a + b)
    neon.binary("sub", INTEGERS, lambda a, b: a - b)
    neon.binary("mul", SMALL, lambda a, b: a * b)
    neon.ternary("mla", SMALL, lambda a, b, c: a + b * c)
    neon.ternary("mls", SMALL, lambda a, b, c: a - b * c)
    neon.binary("max", SMALL, lambda a, b: a.max(b))
    neon.binary("min", SMALL, lambda a, b: a.min(b))
    neon.binary("abd", SMALL, absolute_difference)
    neon.ternary("aba", SMALL, lambda a, b, c: a + absolute_difference(b, c))
    neon.unary("abs", SIGNED, lambda a: a.unary("abs"))
    neon.unary("neg", SIGNED, lambda a: -a)
    for op in ("eq", "ge", "gt", "le", "lt"):
        neon.binary(f"c{op}", (*INTEGERS, "p8", "p64") if op == "eq" else INTEGERS, _compare(op), "u")
        # Unsigned numbers are compared with zero for equality alone.
        zero = (*INTEGERS, "p8", "p64") if op == "eq" else SIGNED
        neon.unary(f"c{op}z", zero, _compare_zero(op), "u")
    neon.binary("tst", (*INTEGERS, "p8", "p16", "p64"), lambda a, b: (a & b).compare("ne", 0), "u")


def absolute_difference(a: Expr, b: Expr) -> Expr:
    return a.max(b) - a.min(b)


def _compare(op: str) -> Callable[[Expr, Expr], Expr]:
    return lambda a, b: a.compare(op, b)


def _compare_zero(op: str) -> Callable[[Expr], Expr]:
    return lambda a: a.compare(op, 0)


def _logic(neon: Neon) -> None:
    neon.binary("and", INTEGERS, lambda a, b: a & b)
    neon.binary("orr", INTEGERS, lambda a, b: a | b)
    neon.binary("eor", INTEGERS, lambda a, b: a ^ b)
    neon.binary("bic", INTEGERS, lambda a, b: a & ~b)
    neon.binary("orn", INTEGERS, lambda a, b: a | ~b)
    neon.unary("mvn", (*SMALL, "p8"), lambda a: ~a)
    for t in (*INTEGERS, *_POLY_LOGIC, "f16", "f32", "f64"):
        for q in WIDTHS:
            args = [vec("m", as_kind(t, "u"), q), vec("a", t, q), vec("b", t, q)]
            neon.op(f"vbsl{suffix(q)}_{t}", "bsl", args, vector_name(t, q), select)


def _halving(neon: Neon) -> None:
    neon.binary("hadd", SMALL, lambda a, b: Expr("average", a.type, (a, b), (0,)))
    neon.binary("rhadd", SMALL, lambda a, b: Expr("average", a.type, (a, b), (1,)))
    neon.binary("hsub", SMALL, _halved_difference)


def _halved_difference(a: Expr, b: Expr) -> Expr:
    wide = a.type.wide
    return ((a.convert(wide) - b.convert(wide)) >> 1).convert(a.type)


def _saturating(neon: Neon) -> None:
    neon.binary("qadd", INTEGERS, lambda a, b: a.add_sat(b))
    neon.binary("qsub", INTEGERS, lambda a, b: a.sub_sat(b))
    neon.unary("qneg", SIGNED, lambda a: const(a.type, 0).sub_sat(a))
    neon.unary("qabs", SIGNED, lambda a: a.max(const(a.type, 0).sub_sat(a)))
    for stem, rounding in (("qdmulh", False), ("qrdmulh", True)):
        neon.binary(stem, ("s16", "s32"), _doubling_high(rounding))
    for stem, sign in (("qrdmlah", 1), ("qrdmlsh", -1)):
        neon.ternary(stem, ("s16", "s32"), _accumulated_high(sign))


def _doubling_high(rounding: bool) -> Callable[[Expr, Expr], Expr]:
    """clamp((2ab + r) >> bits), r = 2^(bits-1) when rounding."""
    return lambda a, b: Expr("mulhd", a.type, (a, b), (rounding,))


def _accumulated_high(sign: int) -> Callable[[Expr, Expr, Expr], Expr]:
    """clamp((a 2^bits + 2bc + 2^(bits-1)) >> bits), clamped once; halved throughout it fits lanes twice as wide."""

    def compute(a: Expr, b: Expr, c: Expr) -> Expr:
        wide, width = a.type.wide, a.type.bits
        product = b.convert(wide) * c.convert(wide)
        base = a.convert(wide) << (width - 1)
        total = base + product if sign > 0 else base - product
        rounded = (total + (1 << (width - 2))) >> (width - 1)
        return rounded.max(a.type.min).min(a.type.max).convert(a.type)

    return compute


def _counting(neon: Neon) -> None:
    neon.unary("clz", SMALL, lambda a: a.unary("clz"))
    neon.unary("cls", SMALL, _leading_signs, "s")
    neon.unary("cnt", _BYTES, lambda a: a.unary("popcount"))
    neon.unary("rbit", _BYTES, lambda a: a.unary("bitreverse"))


def _leading_signs(a: Expr) -> Expr:
    value = a.as_kind("s")
    return ((value ^ (value >> 1)).as_kind("u").unary("clz") - 1).as_kind("s")


def _by_element(neon: Neon) -> None:
    table: dict[str, tuple[tuple[str, ...], int, Callable[..., Expr]]] = {
        "mul": (("s16", "s32", "u16", "u32"), 1, lambda a, b: a * b),
        "mla": (("s16", "s32", "u16", "u32"), 2, lambda a, b, c: a + b * c),
        "mls": (("s16", "s32", "u16", "u32"), 2, lambda a, b, c: a - b * c),
        "qdmulh": (("s16", "s32"), 1, _doubling_high(False)),
        "qrdmulh": (("s16", "s32"), 1, _doubling_high(True)),
        "qrdmlah": (("s16", "s32"), 2, _accumulated_high(1)),
        "qrdmlsh": (("s16", "s32"), 2, _accumulated_high(-1)),
    }
    for stem, (kinds, front, compute) in table.items():
        for t in kinds:
            for q in WIDTHS:
                args = [vec(name, t, q) for name in ("a", "b")[:front]]
                forms = ("lane", "laneq") if "qrdml" in stem else ("n", "lane", "laneq")
                neon.by_element(
                    stem,
                    t,
                    args,
                    vector_name(t, q),
                    compute,
                    spread=lanes(t, q),
                    name_q=suffix(q),
                    forms=forms,
                )


def _pairwise(neon: Neon) -> None:
    def paired(change: Callable[[Expr, Expr], Expr]) -> Callable[[Expr, Expr], Expr]:
        def compute(a: Expr, b: Expr) -> Expr:
            count = a.type.lanes
            return change(a.take(range(0, 2 * count, 2), b), a.take(range(1, 2 * count, 2), b))

        return compute

    neon.binary("padd", SMALL, paired(lambda a, b: a + b))
    for t in ("s64", "u64"):
        args = [vec("a", t, True), vec("b", t, True)]
        neon.op(f"vpaddq_{t}", "padd", args, vector_name(t, True), paired(lambda a, b: a + b))
    neon.binary("pmax", SMALL, paired(lambda a, b: a.max(b)))
    neon.binary("pmin", SMALL, paired(lambda a, b: a.min(b)))
    for t in SMALL:
        for q in WIDTHS:
            wide = resized(t, 2)
            name = vector_name(wide, q)
            neon.op(f"vpaddl{suffix(q)}_{t}", "paddl", [vec("a", t, q)], name, _long_pairs)
            args = [vec("c", wide, q), vec("a", t, q)]
            neon.op(f"vpadal{suffix(q)}_{t}", "padal", args, name, lambda c, a: c + _long_pairs(a))


def _long_pairs(a: Expr) -> Expr:
    return Expr("long_pairs", a.type.wide.of(a.type.lanes // 2), (a,))


def _across(neon: Neon) -> None:
    for t in (*SMALL, "s64", "u64"):
        for q in WIDTHS:
            if bits(t) == 64 and not q:
                continue
            arg = [vec("a", t, q)]
            neon.op(f"vaddv{suffix(q)}_{t}", "addv", arg, scalar_name(t), _reduce("add"))
            if bits(t) == 64:
                continue
            neon.op(f"vmaxv{suffix(q)}_{t}", "maxv", arg, scalar_name(t), _reduce("max"))
            neon.op(f"vminv{suffix(q)}_{t}", "minv", arg, scalar_name(t), _reduce("min"))
            name = scalar_name(resized(t, 2))
            neon.op(
                f"vaddlv{suffix(q)}_{t}", "addlv", arg, name, lambda a: _reduce("add")(a.convert(a.type.wide))
            )


def _reduce(op: str) -> Callable[[Expr], Expr]:
    return lambda a: Expr(f"reduce_{op}", a.type.element, (a,))
