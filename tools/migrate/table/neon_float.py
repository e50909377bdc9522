"""NEON: floating-point arithmetic in half, single and double precision."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from icml.tools.migrate.table import estimate
from icml.tools.migrate.table.expr import Body, Expr, Imm, const, select
from icml.tools.migrate.table.neon_forms import (
    FLOATS,
    WIDTHS,
    Neon,
    as_kind,
    bits,
    imm,
    lanes,
    scalar_name,
    suffix,
    vec,
    vector_name,
)
from icml.tools.migrate.table.types import Type

# Before half precision came multiplication and addition that round separately, for these alone.
_OLD = ("f32", "f64")


def define(neon: Neon) -> None:
    _arithmetic(neon)
    _fused(neon)
    _comparisons(neon)
    _rounding(neon)
    _conversions(neon)
    _estimates(neon)
    _pairs(neon)


def _arithmetic(neon: Neon) -> None:
    neon.binary("add", FLOATS, lambda a, b: a + b)
    neon.binary("sub", FLOATS, lambda a, b: a - b)
    neon.binary("mul", FLOATS, lambda a, b: a * b)
    neon.binary("div", FLOATS, lambda a, b: a / b)
    neon.binary("abd", FLOATS, lambda a, b: (a - b).unary("abs"))
    neon.unary("abs", FLOATS, lambda a: a.unary("abs"))
    neon.unary("neg", FLOATS, lambda a: -a)
    neon.unary("sqrt", FLOATS, lambda a: a.unary("sqrt"))
    neon.ternary("mla", _OLD, lambda a, b, c: a + b * c)
    neon.ternary("mls", _OLD, lambda a, b, c: a - b * c)
    for stem, op in EXTREMES.items():
        neon.binary(stem, FLOATS, _named(op))
    elements: dict[str, tuple[int, Callable[..., Body], Sequence[str]]] = {
        "mul": (1, lambda a, b: a * b, FLOATS),
        "mla": (2, lambda a, b, c: a + b * c, ("f32",)),
        "mls": (2, lambda a, b, c: a - b * c, ("f32",)),
    }
    for stem, (front, compute, kinds) in elements.items():
        _by_element(neon, stem, kinds, front, compute)


EXTREMES = {"max": "maximum", "min": "minimum", "maxnm": "maximumnum", "minnm": "minimumnum"}


def _named(op: str) -> Callable[[Expr, Expr], Expr]:
    return lambda a, b: Expr(op, a.type, (a, b))


def _by_element(
    neon: Neon, stem: str, kinds: Sequence[str], front: int, compute: Callable[..., Body]
) -> None:
    for t in kinds:
        for q in WIDTHS:
            args = [vec(name, t, q) for name in ("a", "b")[:front]]
            neon.by_element(stem, t, args, vector_name(t, q), compute, spread=lanes(t, q), name_q=suffix(q))


def fused(a: Expr, b: Expr, c: Expr) -> Expr:
    """a + b * c, rounded once."""
    return Expr("fma", a.type, (b, c, a))


def _fused(neon: Neon) -> None:
    for stem, compute in (("fma", fused), ("fms", lambda a, b, c: fused(a, -b, c))):
        neon.ternary(stem, FLOATS, compute)
        _by_element(neon, stem, FLOATS, 2, compute)


def _comparisons(neon: Neon) -> None:
    for op in ("eq", "ge", "gt", "le", "lt"):
        neon.binary(f"c{op}", FLOATS, _compare(op), "u")
        neon.unary(f"c{op}z", FLOATS, _compare_zero(op), "u")
        if op != "eq":
            neon.binary(f"ca{op}", FLOATS, _compare_magnitude(op), "u")


def _compare(op: str) -> Callable[[Expr, Expr], Expr]:
    return lambda a, b: a.compare(op, b)


def _compare_zero(op: str) -> Callable[[Expr], Expr]:
    return lambda a: a.compare(op, 0.0)


def _compare_magnitude(op: str) -> Callable[[Expr, Expr], Expr]:
    return lambda a, b: a.unary("abs").compare(op, b.unary("abs"))


_ROUNDINGS = {"": "trunc", "n": "roundeven", "m": "floor", "p": "ceil", "a": "round"}


def _rounding(neon: Neon) -> None:
    for letter, op in {**_ROUNDINGS, "x": "roundeven", "i": "roundeven"}.items():
        neon.unary(f"rnd{letter}", FLOATS, _unary(op))


def _unary(op: str) -> Callable[[Expr], Expr]:
    return lambda a: a.unary(op)


def _conversions(neon: Neon) -> None:
    for t in FLOATS:
        for kind in "su":
            whole = as_kind(t, kind)
            for q in WIDTHS:
                s, floating, integer = suffix(q), vec("a", t, q), vec("a", whole, q)
                to_float = f"vcvt{s}_{t}_{whole}"
                neon.op(to_float, "cvt_float", [integer], vector_name(t, q), _converted(floating.type))
                n = imm("k", 1, bits(t))
                if t != "f16":
                    neon.op(
                        f"vcvt{s}_n_{t}_{whole}",
                        "cvt_n",
                        [integer, n],
                        vector_name(t, q),
                        _scaled(floating.type),
                    )
                    neon.op(
                        f"vcvt{s}_n_{whole}_{t}",
                        "cvt_n",
                        [floating, n],
                        vector_name(whole, q),
                        _unscaled(integer.type),
                    )
                for letter, op in _ROUNDINGS.items():
                    neon.op(
                        f"vcvt{letter}{s}_{whole}_{t}",
                        f"cvt{letter}_int",
                        [floating],
                        vector_name(whole, q),
                        _to_integer(op, integer.type),
                    )
    for wide, narrow in (("f32", "f16"), ("f64", "f32")):
        _resize(neon, wide, narrow)


def _converted(type: Type) -> Callable[[Expr], Expr]:
    return lambda a: a.convert(type)


def _to_integer(op: str, type: Type) -> Callable[[Expr], Expr]:
    """The conversion truncates by itself."""
    return lambda a: Expr("ftoi", type, (a if op == "trunc" else a.unary(op),))


def _power_of_two(type: Type, exponent: Imm) -> Expr:
    """2^exponent in every lane, built from its bits."""
    fraction, bias = {32: (23, 127), 64: (52, 1023)}[type.bits]
    number = Expr("imm", type.unsigned.element, (), ((exponent + bias) << fraction,))
    return number.splat(type.lanes).cast(type)


def _scaled(type: Type) -> Callable[[Expr, Imm], Expr]:
    return lambda a, k: a.convert(type) * _power_of_two(type, Imm("const", (0,)) - k)


def _unscaled(type: Type) -> Callable[[Expr, Imm], Expr]:
    return lambda a, k: Expr("ftoi", type, (a * _power_of_two(a.type, k),))


def _resize(neon: Neon, wide: str, narrow: str) -> None:
    large, small = vec("a", wide, True), vec("a", narrow, False)
    both = vec("a", narrow, True)
    neon.op(f"vcvt_{wide}_{narrow}", "cvt_width", [small], vector_name(wide, True), _converted(large.type))
    high = f"vcvt_high_{wide}_{narrow}"
    neon.op(high, "cvt_width", [both], vector_name(wide, True), lambda a: a.high.convert(large.type))
    neon.op(f"vcvt_{narrow}_{wide}", "cvt_width", [large], vector_name(narrow, False), _converted(small.type))
    low = vec("l", narrow, False)
    neon.op(
        f"vcvt_high_{narrow}_{wide}",
        "cvt_width",
        [low, large],
        vector_name(narrow, True),
        lambda l, a: l.concat(a.convert(small.type)),  # noqa: E741
    )


def _estimates(neon: Neon) -> None:
    neon.unary("recpe", FLOATS, estimate.reciprocal)
    neon.unary("rsqrte", FLOATS, estimate.reciprocal_root)
    neon.binary("recps", FLOATS, _step(2.0, 2.0))
    neon.binary("rsqrts", FLOATS, _step(3.0, 1.5))


def _step(start: float, at_zero_infinity: float) -> Callable[[Expr, Expr], Expr]:
    """Newton's factor: 2 - ab, or (3 - ab)/2 halved after the one rounding; (0, inf) counts as ab = 0."""

    def compute(a: Expr, b: Expr) -> Expr:
        exact = Expr("fma", a.type, (-a, b, const(a.type, start)))
        if start == 3.0:
            exact = _halved(a, b, exact)
        infinite = float("inf")
        size_a, size_b = a.unary("abs"), b.unary("abs")
        first = size_a.compare("eq", infinite) & size_b.compare("eq", 0.0)
        second = size_b.compare("eq", infinite) & size_a.compare("eq", 0.0)
        return select(first | second, const(a.type, at_zero_infinity), exact)

    return compute


def _halved(a: Expr, b: Expr, exact: Expr) -> Expr:
    """(3 - ab) / 2 is rounded once: halving before or after the rounding differs near overflow and underflow alone.

    3 - ab is never subnormal unless it is 0, for 3 is far above; near overflow ab is halved instead of the sum.
    """
    infinite = float("inf")
    finite = a.unary("abs").compare("lt", infinite) & b.unary("abs").compare("lt", infinite)
    large = exact.unary("abs").compare("eq", infinite) & finite
    early = Expr("fma", a.type, (-(a * 0.5), b, const(a.type, 1.5)))
    return select(large, early, exact * 0.5)


def _pairs(neon: Neon) -> None:
    for t in FLOATS:
        for q in WIDTHS:
            if lanes(t, q) == 1:
                continue
            args, name = [vec("a", t, q), vec("b", t, q)], vector_name(t, q)
            neon.op(f"vpadd{suffix(q)}_{t}", "padd", args, name, _paired(lambda a, b: a + b))
            for stem, op in EXTREMES.items():
                neon.op(f"vp{stem}{suffix(q)}_{t}", f"p{stem}", args, name, _paired(_named(op)))
                neon.op(f"v{stem}v{suffix(q)}_{t}", f"{stem}v", args[:1], scalar_name(t), _across(_named(op)))
            if t != "f16":
                neon.op(
                    f"vaddv{suffix(q)}_{t}", "addv", args[:1], scalar_name(t), _across(lambda a, b: a + b)
                )


def _paired(change: Callable[[Expr, Expr], Expr]) -> Callable[[Expr, Expr], Expr]:
    def compute(a: Expr, b: Expr) -> Expr:
        n = a.type.lanes
        return change(a.take(range(0, 2 * n, 2), b), a.take(range(1, 2 * n, 2), b))

    return compute


def _across(change: Callable[[Expr, Expr], Expr]) -> Callable[[Expr], Expr]:
    """(a0 + a1) + (a2 + a3), the order of the instruction's pairs."""

    def compute(a: Expr) -> Expr:
        while a.type.lanes > 1:
            a = change(a.even, a.odd)
        return a.lane(0)

    return compute
