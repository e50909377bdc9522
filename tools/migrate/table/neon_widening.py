"""NEON: operations whose result has lanes twice or half as wide."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from icml.tools.migrate.table.expr import Body, Expr
from icml.tools.migrate.table.neon_forms import (
    INTEGERS,
    SMALL,
    Neon,
    as_kind,
    bits,
    is_signed,
    lanes,
    resized,
    scalar,
    scalar_name,
    vec,
    vector_name,
)
from icml.tools.migrate.table.neon_integer import absolute_difference
from icml.tools.migrate.table.neon_shift import saturate

_WIDE = tuple(t for t in INTEGERS if bits(t) > 8)


def define(neon: Neon) -> None:
    for t in SMALL:
        _moved(neon, t)
        for form in _LONG:
            if not (form.stem.startswith("qd") and t not in ("s16", "s32")):
                _long(neon, form, t)
        _wide(neon, "addw", t, lambda a, b: a + b.convert(a.type))
        _wide(neon, "subw", t, lambda a, b: a - b.convert(a.type))
    for t in _WIDE:
        _narrowed(neon, t)
        for stem, sign, rounding in (("addhn", 1, 0), ("subhn", -1, 0), ("raddhn", 1, 1), ("rsubhn", -1, 1)):
            _high_half(neon, stem, t, sign, rounding)


def _moved(neon: Neon, t: str) -> None:
    name = vector_name(resized(t, 2), True)
    neon.op(f"vmovl_{t}", "movl", [vec("a", t, False)], name, lambda a: a.convert(a.type.wide))
    neon.op(f"vmovl_high_{t}", "movl", [vec("a", t, True)], name, lambda a: a.high.convert(a.type.wide))


@dataclass(frozen=True)
class _Form:
    """Two narrow operands, and for some an accumulator before them, to a wide result."""

    stem: str
    accumulates: bool
    by_element: bool
    compute: Callable[..., Expr]


def _product(a: Expr, b: Expr) -> Expr:
    return a.convert(a.type.wide) * b.convert(a.type.wide)


def _doubled(a: Expr, b: Expr) -> Expr:
    product = _product(a, b)
    return product.add_sat(product)


def _difference(a: Expr, b: Expr) -> Expr:
    distance = absolute_difference(a, b).as_kind("u")
    return distance.convert(distance.type.wide).as_kind(a.type.kind)


_LONG = (
    _Form("addl", False, False, lambda a, b: a.convert(a.type.wide) + b.convert(a.type.wide)),
    _Form("subl", False, False, lambda a, b: a.convert(a.type.wide) - b.convert(a.type.wide)),
    _Form("abdl", False, False, _difference),
    _Form("mull", False, True, _product),
    _Form("qdmull", False, True, _doubled),
    _Form("abal", True, False, lambda c, a, b: c + _difference(a, b)),
    _Form("mlal", True, True, lambda c, a, b: c + _product(a, b)),
    _Form("mlsl", True, True, lambda c, a, b: c - _product(a, b)),
    _Form("qdmlal", True, True, lambda c, a, b: c.add_sat(_doubled(a, b))),
    _Form("qdmlsl", True, True, lambda c, a, b: c.sub_sat(_doubled(a, b))),
)


def _long(neon: Neon, form: _Form, t: str) -> None:
    name = vector_name(resized(t, 2), True)
    front = [vec("c", resized(t, 2), True)] if form.accumulates else []
    low = [*front, vec("a", t, False), vec("b", t, False)]
    neon.op(f"v{form.stem}_{t}", form.stem, low, name, form.compute)
    high = [*front, vec("a", t, True), vec("b", t, True)]
    neon.op(f"v{form.stem}_high_{t}", form.stem, high, name, _upper(form.compute, len(front)))
    if form.by_element and bits(t) > 8:
        half = lanes(t, False)
        neon.by_element(form.stem, t, [*front, vec("a", t, False)], name, form.compute, spread=half)
        neon.by_element(
            f"{form.stem}_high",
            t,
            [*front, vec("a", t, True)],
            name,
            _upper_first(form.compute, len(front)),
            spread=half,
        )


def _upper(compute: Callable[..., Body], kept: int) -> Callable[..., Body]:
    return lambda *args: compute(*args[:kept], *(arg.high for arg in args[kept:]))


def _upper_first(compute: Callable[..., Body], kept: int) -> Callable[..., Body]:
    return lambda *args: compute(*args[:kept], args[kept].high, *args[kept + 1 :])


def _wide(neon: Neon, stem: str, t: str, compute: Callable[[Expr, Expr], Expr]) -> None:
    wide = resized(t, 2)
    name = vector_name(wide, True)
    neon.op(f"v{stem}_{t}", stem, [vec("a", wide, True), vec("b", t, False)], name, compute)
    args = [vec("a", wide, True), vec("b", t, True)]
    neon.op(f"v{stem}_high_{t}", stem, args, name, lambda a, b: compute(a, b.high))


def _narrowed(neon: Neon, t: str) -> None:
    forms: list[tuple[str, str, Callable[[Expr], Expr]]] = [
        ("movn", t[0], lambda a: a.convert(a.type.narrow)),
        ("qmovn", t[0], lambda a: saturate(a, a.type.kind)),
    ]
    if is_signed(t):
        forms.append(("qmovun", "u", lambda a: saturate(a, "u")))
    for stem, kind, compute in forms:
        half = as_kind(resized(t, 0.5), kind)
        neon.op(f"v{stem}_{t}", stem, [vec("a", t, True)], vector_name(half, False), compute)
        args = [vec("l", half, False), vec("a", t, True)]
        neon.op(f"v{stem}_high_{t}", stem, args, vector_name(half, True), _appended(compute))
        if stem[0] == "q":
            letter = {16: "h", 32: "s", 64: "d"}[bits(t)]
            neon.op(
                f"v{stem}{letter}_{t}",
                stem,
                [scalar("a", t)],
                scalar_name(half),
                _on_one_lane(compute, lanes(t, True)),
            )


def _on_one_lane(compute: Callable[[Expr], Expr], count: int) -> Callable[[Expr], Expr]:
    return lambda a: compute(a.splat(count)).lane(0)


def _appended(compute: Callable[..., Expr]) -> Callable[..., Expr]:
    return lambda low, *rest: low.concat(compute(*rest))


def _high_half(neon: Neon, stem: str, t: str, sign: int, rounding: int) -> None:
    half = resized(t, 0.5)
    width = bits(t)

    def compute(a: Expr, b: Expr) -> Expr:
        x, y = a.as_kind("u"), b.as_kind("u")
        total = x + y if sign > 0 else x - y
        if rounding:
            total = total + (1 << (width // 2 - 1))
        return (total >> (width // 2)).convert(a.type.narrow).as_kind(a.type.kind)

    args = [vec("a", t, True), vec("b", t, True)]
    neon.op(f"v{stem}_{t}", stem, args, vector_name(half, False), compute)
    neon.op(
        f"v{stem}_high_{t}", stem, [vec("l", half, False), *args], vector_name(half, True), _appended(compute)
    )
