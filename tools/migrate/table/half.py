"""Half precision in integer and single-precision operations, for targets whose vectors cannot compute with it.

Sums, products, quotients and roots of two halves are exact enough in single precision that rounding twice is rounding
once (24 >= 2 * 11 + 2); a fused multiply-add is rounded to odd first (Boldo and Melquiond, "Emulation of FMA and
correctly rounded sums", 2008). Signalling NaNs are not told from quiet ones.
"""

from __future__ import annotations

from icml.tools.migrate.table.expr import Expr, const, select
from icml.tools.migrate.table.types import Type

HALF, SINGLE = Type("f", 16, 0), Type("f", 32, 0)
WORD, HALFWORD = Type("u", 32, 0), Type("u", 16, 0)


def widen(value: Expr) -> Expr:
    """Half to single; exact."""
    bits = value.cast(HALFWORD.of(value.type.lanes)).convert(WORD)
    magnitude = (bits & 0x7FFF) << 13
    scaled = magnitude.cast(SINGLE.of(value.type.lanes)) * 2.0**112
    special = magnitude.compare("ge", 0x0F800000) & 0x7F800000
    sign = (bits & 0x8000) << 16
    return (scaled.cast(bits.type) | special | sign).cast(scaled.type)


def narrow(value: Expr) -> Expr:
    """Single to half, to nearest even."""
    lanes = value.type.lanes
    bits = value.cast(WORD.of(lanes))
    magnitude = bits & 0x7FFFFFFF
    # Adding one half aligns a subnormal's last bit with single's last bit.
    subnormal = (magnitude.cast(SINGLE.of(lanes)) + 0.5).cast(bits.type) - 0x3F000000
    odd = (magnitude >> 13) & 1
    normal = (magnitude + ((15 - 127) << 23) + 0xFFF + odd) >> 13
    special = select(magnitude.compare("gt", 0x7F800000), const(bits.type, 0x7E00), const(bits.type, 0x7C00))
    finite = select(magnitude.compare("lt", 0x38800000), subnormal, normal)
    result = select(magnitude.compare("ge", 0x47800000), special, finite)
    return (result | ((bits >> 16) & 0x8000)).convert(HALFWORD).cast(Type("f", 16, lanes))


def fused(a: Expr, b: Expr, c: Expr) -> Expr:
    """a * b + c of singles that hold halves, as a single that rounds to the right half."""
    product = a * b
    total = product + c
    part = total - product
    error = (product - (total - part)) + (c - part)
    bits, slip = total.as_kind("s"), error.as_kind("s")
    inexact = (error.compare("lt", 0.0) | error.compare("gt", 0.0)).as_kind("s")
    even = ((bits & 1) - 1) & inexact
    return (bits + (even & (((bits ^ slip) >> 31) | 1))).cast(total.type)


def key(value: Expr) -> Expr:
    """Signed numbers in the order of the halves; both zeros are 0."""
    bits = value.cast(Type("s", 16, value.type.lanes))
    sign = bits >> 15
    return ((bits & 0x7FFF) ^ sign) - sign


def is_nan(value: Expr) -> Expr:
    bits = value.cast(Type("u", 16, value.type.lanes))
    return (bits & 0x7FFF).compare("gt", 0x7C00)


def compare(op: str, a: Expr, b: Expr) -> Expr:
    mask = key(a).compare(op, key(b))
    unordered = is_nan(a) | is_nan(b)
    return mask | unordered if op == "ne" else mask & ~unordered


def extreme(op: str, a: Expr, b: Expr) -> Expr:
    """maximum, minimum and their `num` forms."""
    bits = [x.cast(Type("s", 16, x.type.lanes)) for x in (a, b)]
    total = [x ^ ((x >> 15) & 0x7FFF) for x in bits]
    best = total[0].max(total[1]) if op.startswith("max") else total[0].min(total[1])
    plain = best ^ ((best >> 15) & 0x7FFF)
    if op.endswith("num"):
        result = select(is_nan(a), bits[1], select(is_nan(b), bits[0], plain))
    else:
        result = select(is_nan(a), bits[0], select(is_nan(b), bits[1], plain))
    return result.cast(a.type)


_THROUGH_SINGLE = ("add", "sub", "mul", "div", "sqrt", "floor", "ceil", "trunc", "roundeven", "round")


def lower(node: Expr, args: tuple[Expr, ...]) -> Expr | None:
    """The node in operations without half-precision arithmetic; None if it has none."""
    if node.op == "convert":
        return _convert(node, args[0])
    if not args or not _is_half(args[0].type):
        return None
    if node.op in ("eq", "ne", "lt", "le", "gt", "ge"):
        return compare(node.op, *args)
    if node.op == "ftoi":
        return _to_integer(node, args[0])
    return _arithmetic(node, args) if _is_half(node.type) else None


def _arithmetic(node: Expr, args: tuple[Expr, ...]) -> Expr | None:
    bits = HALFWORD.of(node.type.lanes)
    if node.op in ("neg", "abs"):
        held = args[0].cast(bits)
        return (held ^ 0x8000 if node.op == "neg" else held & 0x7FFF).cast(node.type)
    if node.op in ("maximum", "minimum", "maximumnum", "minimumnum"):
        return extreme(node.op, *args)
    wide = tuple(arg.convert(SINGLE) for arg in args)
    if node.op == "fma":
        return fused(*wide).convert(HALF)
    return Expr(node.op, wide[0].type, wide, node.attr).convert(HALF) if node.op in _THROUGH_SINGLE else None


def _is_half(type: Type) -> bool:
    return type.kind == "f" and type.bits == 16


def _convert(node: Expr, value: Expr) -> Expr | None:
    if _is_half(value.type):
        if node.type == SINGLE.of(node.type.lanes):
            return widen(value)
        return value.convert(SINGLE).convert(node.type)
    if not _is_half(node.type):
        return None
    if value.type == SINGLE.of(value.type.lanes):
        return narrow(value)
    # 16-bit integers are exact in single precision.
    return value.convert(Type(value.type.kind, 32, 0)).convert(SINGLE).convert(HALF)


def _to_integer(node: Expr, value: Expr) -> Expr:
    wide = Expr("ftoi", Type("s", 32, node.type.lanes), (value.convert(SINGLE),))
    return wide.max(node.type.min).min(node.type.max).convert(node.type)


def directed(value: Expr, direction: int) -> Expr:
    """The bits of a single as a half, rounded towards zero (0), up (1) or down (-1)."""
    lanes = value.type.lanes
    bits = value.cast(WORD.of(lanes))
    magnitude, sign = bits & 0x7FFFFFFF, (bits >> 16) & 0x8000
    # Subnormal halves: the fraction with its leading one, in units of 2^-24.
    shift = (const(bits.type, 126) - (magnitude >> 23)).min(31)
    subnormal = ((magnitude & 0x7FFFFF) | 0x800000) >> (shift & 31)
    normal = (magnitude + ((15 - 127) << 23)) >> 13
    result = select(magnitude.compare("lt", 0x38800000), subnormal, normal)
    result = select(magnitude.compare("ge", 0x47800000), const(bits.type, 0x7BFF), result)
    if direction:
        back = widen(result.convert(HALFWORD).cast(Type("f", 16, lanes))).cast(bits.type)
        away = sign.compare("eq", 0) if direction > 0 else sign.compare("ne", 0)
        result = result + (back.compare("ne", magnitude) & away & 1)
    result = select(magnitude.compare("eq", 0x7F800000), const(bits.type, 0x7C00), result)
    result = select(magnitude.compare("gt", 0x7F800000), const(bits.type, 0x7E00), result)
    return (result | sign).convert(HALFWORD)
