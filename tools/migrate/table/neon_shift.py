"""NEON: shifts by immediates and by registers, with rounding, saturation, accumulation and insertion."""

from __future__ import annotations

from collections.abc import Callable

from icml.tools.migrate.table.expr import Expr, Imm, const, imm_if, select
from icml.tools.migrate.table.neon_forms import (
    INTEGERS,
    WIDTHS,
    Neon,
    as_kind,
    bits,
    imm,
    is_signed,
    resized,
    scalar,
    scalar_name,
    suffix,
    vec,
    vector_name,
)

_SHIFTABLE_POLY = ("p8", "p16", "p64")
_NARROWABLE = tuple(t for t in INTEGERS if bits(t) > 8)


def define(neon: Neon) -> None:
    _immediate(neon)
    _insert(neon)
    _long(neon)
    _narrowing(neon)
    _register(neon)


def shift_right(a: Expr, k: Imm) -> Expr:
    """By 1..bits; by all bits it leaves the sign or nothing."""
    width = a.type.bits
    if a.type.kind == "s":
        return a >> k.equals(width).choose(width - 1, k)
    return imm_if(k.equals(width), const(a.type, 0), a >> (k & (width - 1)))


def rounding_shift_right(a: Expr, k: Imm) -> Expr:
    """(a + 2^(k-1)) >> k in unbounded numbers, k in 1..bits."""
    return Expr("rshr", a.type, (a,), (k,))


def _immediate(neon: Neon) -> None:
    for t in INTEGERS:
        for q in WIDTHS:
            s, name, width = suffix(q), vector_name(t, q), bits(t)
            left, right = imm("k", 0, width - 1), imm("k", 1, width)
            a, c = vec("a", t, q), vec("c", t, q)
            neon.op(f"vshl{s}_n_{t}", "shl_n", [a, left], name, lambda a, k: a << k)
            neon.op(f"vqshl{s}_n_{t}", "qshl_n", [a, left], name, _saturating_left)
            neon.op(f"vshr{s}_n_{t}", "shr_n", [a, right], name, shift_right)
            neon.op(f"vrshr{s}_n_{t}", "rshr_n", [a, right], name, rounding_shift_right)
            neon.op(f"vsra{s}_n_{t}", "sra_n", [c, a, right], name, lambda c, a, k: c + shift_right(a, k))
            neon.op(
                f"vrsra{s}_n_{t}",
                "rsra_n",
                [c, a, right],
                name,
                lambda c, a, k: c + rounding_shift_right(a, k),
            )
            if is_signed(t):
                unsigned = vector_name(as_kind(t, "u"), q)
                neon.op(f"vqshlu{s}_n_{t}", "qshlu_n", [a, left], unsigned, _saturating_left_unsigned)


def _saturating_left(a: Expr, k: Imm) -> Expr:
    shifted = a << k
    same = (shifted >> k).compare("eq", a)
    return select(same, shifted, _limit(a))


def _limit(a: Expr) -> Expr:
    """The number that a's multiples saturate to."""
    if a.type.kind == "u":
        return const(a.type, a.type.max)
    return (a >> (a.type.bits - 1)) ^ a.type.max


def _saturating_left_unsigned(a: Expr, k: Imm) -> Expr:
    return _saturating_left(a.max(0).as_kind("u"), k)


def _insert(neon: Neon) -> None:
    for t in (*INTEGERS, *_SHIFTABLE_POLY):
        for q in WIDTHS:
            s, name, width = suffix(q), vector_name(t, q), bits(t)
            a, b = vec("a", t, q), vec("b", t, q)
            neon.op(f"vsli{s}_n_{t}", "sli_n", [a, b, imm("k", 0, width - 1)], name, _insert_left)
            neon.op(f"vsri{s}_n_{t}", "sri_n", [a, b, imm("k", 1, width)], name, _insert_right)


def _insert_left(a: Expr, b: Expr, k: Imm) -> Expr:
    kept = (~const(a.type.unsigned, 0)) << k
    return select(kept, (b.as_kind("u") << k).cast(a.type), a)


def _insert_right(a: Expr, b: Expr, k: Imm) -> Expr:
    inside = k & (a.type.bits - 1)
    mask = (~const(a.type.unsigned, 0)) >> inside
    joined = select(mask, (b.as_kind("u") >> inside).cast(a.type), a)
    return imm_if(k.equals(a.type.bits), a, joined)


def _long(neon: Neon) -> None:
    for t in INTEGERS:
        if bits(t) == 64:
            continue
        name, k = vector_name(resized(t, 2), True), imm("k", 0, bits(t) - 1)
        neon.op(
            f"vshll_n_{t}", "shll_n", [vec("a", t, False), k], name, lambda a, k: a.convert(a.type.wide) << k
        )
        neon.op(
            f"vshll_high_n_{t}",
            "shll_n",
            [vec("a", t, True), k],
            name,
            lambda a, k: a.high.convert(a.type.wide) << k,
        )


def saturate(a: Expr, kind: str) -> Expr:
    """Clamped to lanes half as wide of a kind."""
    narrow = a.type.narrow.as_kind(kind)
    clamped = a.min(narrow.max)
    if a.type.kind == "s":
        clamped = a.max(narrow.min).min(narrow.max)
    return clamped.convert(narrow)


def _narrowing(neon: Neon) -> None:
    forms: dict[str, tuple[Callable[[Expr, Imm], Expr], str]] = {
        "shrn": (lambda a, k: shift_right(a, k).convert(a.type.narrow), "same"),
        "rshrn": (_rounded_narrow, "same"),
        "qshrn": (lambda a, k: saturate(shift_right(a, k), a.type.kind), "same"),
        "qrshrn": (lambda a, k: saturate(rounding_shift_right(a, k), a.type.kind), "same"),
        "qshrun": (lambda a, k: saturate(shift_right(a, k), "u"), "u"),
        "qrshrun": (lambda a, k: saturate(rounding_shift_right(a, k), "u"), "u"),
    }
    for stem, (compute, result) in forms.items():
        for t in _NARROWABLE:
            if result == "u" and not is_signed(t):
                continue
            narrow = as_kind(resized(t, 0.5), "u") if result == "u" else resized(t, 0.5)
            k = imm("k", 1, bits(t) // 2)
            a = vec("a", t, True)
            neon.op(f"v{stem}_n_{t}", f"{stem}_n", [a, k], vector_name(narrow, False), compute)
            low = vec("l", narrow, False)
            neon.op(
                f"v{stem}_high_n_{t}", f"{stem}_n", [low, a, k], vector_name(narrow, True), _high(compute)
            )
            if stem[0] == "q":
                _scalar_narrowing(neon, stem, t, narrow, compute)


def _scalar_narrowing(
    neon: Neon, stem: str, t: str, narrow: str, compute: Callable[[Expr, Imm], Expr]
) -> None:
    letter = {16: "h", 32: "s", 64: "d"}[bits(t)]
    args = [scalar("a", t), imm("k", 1, bits(t) // 2)]
    neon.op(
        f"v{stem}{letter}_n_{t}",
        f"{stem}_n",
        args,
        scalar_name(narrow),
        lambda a, k: compute(a.splat(128 // bits(t)), k).lane(0),
    )


def _high(compute: Callable[[Expr, Imm], Expr]) -> Callable[[Expr, Expr, Imm], Expr]:
    return lambda low, a, k: low.concat(compute(a, k))


def _rounded_narrow(a: Expr, k: Imm) -> Expr:
    """The carry out of the rounding is above the bits that are kept: no wider lane is needed."""
    rounded = a.as_kind("u") + Expr("imm", a.type.unsigned.element, (), (_power(k - 1),)).splat(a.type.lanes)
    return (rounded >> k).convert(a.type.narrow).as_kind(a.type.kind)


def _power(k: Imm) -> Imm:
    return Imm("const", (1,)) << k


def _register(neon: Neon) -> None:
    for t in INTEGERS:
        for q in WIDTHS:
            args = [vec("a", t, q), vec("b", as_kind(t, "s"), q)]
            name, s = vector_name(t, q), suffix(q)
            neon.op(f"vshl{s}_{t}", "shl", args, name, _by_register(rounding=False, saturating=False))
            neon.op(f"vrshl{s}_{t}", "rshl", args, name, _by_register(rounding=True, saturating=False))
            neon.op(f"vqshl{s}_{t}", "qshl", args, name, _by_register(rounding=False, saturating=True))
            neon.op(f"vqrshl{s}_{t}", "qrshl", args, name, _by_register(rounding=True, saturating=True))


def _by_register(*, rounding: bool, saturating: bool) -> Callable[[Expr, Expr], Expr]:
    """Left by the signed low byte of each lane, right where it is negative."""

    def compute(a: Expr, b: Expr) -> Expr:
        width = a.type.bits
        amount = (b << (width - 8)) >> (width - 8) if width > 8 else b
        right_amount = (const(b.type, 0) - amount).as_kind("u")
        right = _right_rounded(a, right_amount) if rounding else _right(a, right_amount)
        left = _left_saturated(a, amount) if saturating else _left(a, amount)
        return select(amount.compare("lt", 0), right, left)

    return compute


def _left(a: Expr, amount: Expr) -> Expr:
    width = a.type.bits
    count = amount.as_kind("u")
    shifted = a.as_kind("u") << (count & (width - 1))
    return (shifted & count.compare("lt", width)).cast(a.type)


def _left_saturated(a: Expr, amount: Expr) -> Expr:
    width = a.type.bits
    count = amount.as_kind("u")
    shifted = a << (count & (width - 1))
    same = (shifted >> (count & (width - 1))).compare("eq", a) & count.compare("lt", width)
    return select(same | a.compare("eq", 0), shifted & a.compare("ne", 0).cast(a.type), _limit(a))


def _right(a: Expr, count: Expr) -> Expr:
    width = a.type.bits
    if a.type.kind == "s":
        return a >> count.min(width - 1)
    return (a >> (count & (width - 1))) & count.compare("lt", width)


def _right_rounded(a: Expr, count: Expr) -> Expr:
    """(a + 2^(n-1)) >> n for n > 0: the last bit shifted out is the carry; beyond all bits nothing is left."""
    width = a.type.bits
    carry = (a >> ((count - 1) & (width - 1))) & 1
    total = _right(a, count) + carry
    return total & count.compare("le", width).cast(a.type)
