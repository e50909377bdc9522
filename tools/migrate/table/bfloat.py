"""bfloat16: conversions, and the products of Arm's BFDOT and BFMMLA with their own rounding.

Arm ARM, BFDotAdd without FEAT_EBF16: c + (a0 b0 + a1 b1), each step rounded to odd, subnormal inputs and results zero.
"""

from __future__ import annotations

from icml.tools.migrate.table.expr import Expr, const, select
from icml.tools.migrate.table.types import Type

SINGLE, WORD = Type("f", 32, 0), Type("u", 32, 0)


def zero(lanes: int) -> Expr:
    return const(Type("u", 16, lanes), 0).cast(Type("b", 16, lanes))


def widen(value: Expr) -> Expr:
    """To single; exact."""
    bits = value.as_kind("u").convert(WORD) << 16
    return bits.cast(SINGLE.of(value.type.lanes))


def narrow(value: Expr) -> Expr:
    """From single, to nearest even; NaNs stay NaNs."""
    bits = value.as_kind("u")
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    nan = (bits & 0x7FFFFFFF).compare("gt", 0x7F800000)
    result = select(nan, (bits >> 16) | 0x40, rounded)
    return result.convert(Type("u", 16, 0)).cast(Type("b", 16, value.type.lanes))


def _flushed(value: Expr) -> Expr:
    """Subnormals become zeros of their sign."""
    bits = value.as_kind("u")
    normal = (bits & 0x7F800000).compare("ne", 0)
    return (bits & (normal | 0x80000000)).cast(value.type)


def _product(a: Expr, b: Expr) -> Expr:
    """Exact but at the ends of the range: 8 bits times 8 bits fit 24; an overflow is infinity, an underflow zero."""
    return _flushed(_flushed(widen(a)) * _flushed(widen(b)))


def _sum(a: Expr, b: Expr) -> Expr:
    """Rounded to odd: truncated, and the last bit set if anything was lost."""
    total = a + b
    part = total - a
    error = (a - (total - part)) + (b - part)
    bits, slip = total.as_kind("s"), error.as_kind("s")
    inexact = (error.compare("lt", 0.0) | error.compare("gt", 0.0)).as_kind("s")
    even = ((bits & 1) - 1) & inexact
    return _flushed((bits + (even & (((bits ^ slip) >> 31) | 1))).cast(total.type))


def _dot_add(c: Expr, a0: Expr, b0: Expr, a1: Expr, b1: Expr) -> Expr:
    return _sum(_flushed(c), _sum(_product(a0, b0), _product(a1, b1)))


def dot(c: Expr, a: Expr, b: Expr) -> Expr:
    return _dot_add(c, a.even, b.even, a.odd, b.odd)


def matrix_product(c: Expr, a: Expr, b: Expr) -> Expr:
    """2x2 += 2x4 times the transpose of 2x4, two products at a time."""
    for start in (0, 2):
        rows = [a.take([4 * (i // 2) + start + k for i in range(4)]) for k in (0, 1)]
        columns = [b.take([4 * (i % 2) + start + k for i in range(4)]) for k in (0, 1)]
        c = _dot_add(c, rows[0], columns[0], rows[1], columns[1])
    return c
