"""Arm's reciprocal and reciprocal square root estimates, to the bit, for any binary format (Arm ARM, RecipEstimate)."""

from __future__ import annotations

from dataclasses import dataclass

from icml.tools.migrate.table.expr import Expr, const, select
from icml.tools.migrate.table.types import Type


@dataclass(frozen=True)
class _Format:
    """Field widths of a format; `word` is the unsigned type that its bits are computed with."""

    fraction: int
    exponent: int
    word: Type

    @property
    def bias(self) -> int:
        return (1 << (self.exponent - 1)) - 1

    @property
    def infinity(self) -> int:
        return ((1 << self.exponent) - 1) << self.fraction

    @property
    def nan(self) -> int:
        return self.infinity | (1 << (self.fraction - 1))

    @property
    def sign(self) -> int:
        return 1 << (self.fraction + self.exponent)


def _format(type: Type) -> _Format:
    sizes = {16: (10, 5), 32: (23, 8), 64: (52, 11)}
    fraction, exponent = sizes[type.bits]
    return _Format(fraction, exponent, Type("u", max(type.bits, 32), type.lanes))


def _normalised(magnitude: Expr, form: _Format) -> tuple[Expr, Expr]:
    """Fraction with its leading one removed, and exponent field, which is below 1 for subnormals."""
    stored = magnitude >> form.fraction
    field = magnitude & ((1 << form.fraction) - 1)
    shift = field.unary("clz") - (form.word.bits - 1 - form.fraction)
    # A field of 0 would shift by all bits; its result is not used.
    shift = shift.min(form.fraction)
    subnormal = stored.compare("eq", 0)
    fraction = select(subnormal, (field << shift) & ((1 << form.fraction) - 1), field)
    exponent = select(subnormal, const(form.word, 1) - shift, stored)
    return fraction, exponent


def reciprocal(value: Expr) -> Expr:
    """FRECPE: 8 bits of 1/x."""
    form = _format(value.type)
    bits = value.as_kind("u").convert(form.word)
    magnitude, sign = bits & (form.sign - 1), bits & form.sign
    fraction, exponent = _normalised(magnitude, form)
    scaled = (fraction >> (form.fraction - 8)) | 256
    estimate = (((const(form.word, 1 << 19) / (scaled + scaled + 1)) + 1) >> 1) & 255
    wide = estimate << (form.fraction - 8)
    power = (const(form.word, 2 * form.bias - 1) - exponent).as_kind("s")
    # Results below the normal range are shifted into a subnormal.
    one = 1 << form.fraction
    tiny = select(power.compare("eq", 0), (wide | one) >> 1, ((wide | one) >> 2))
    normal = wide | (power.as_kind("u") << form.fraction)
    result = select(power.compare("le", 0), tiny, normal)
    # |x| below 2^-(bias + 1) has a reciprocal beyond the largest number.
    small = magnitude.compare("lt", 1 << (form.fraction - 2))
    result = select(small, const(form.word, form.infinity), result) | sign
    result = select(magnitude.compare("eq", form.infinity), sign, result)
    result = select(magnitude.compare("gt", form.infinity), const(form.word, form.nan), result)
    return result.convert(value.type.unsigned).cast(value.type)


def reciprocal_root(value: Expr) -> Expr:
    """FRSQRTE: 8 bits of 1/sqrt(x)."""
    form = _format(value.type)
    bits = value.as_kind("u").convert(form.word)
    magnitude, sign = bits & (form.sign - 1), bits & form.sign
    fraction, exponent = _normalised(magnitude, form)
    odd = (exponent & 1).compare("ne", 0)
    scaled = select(odd, (fraction >> (form.fraction - 7)) | 128, (fraction >> (form.fraction - 8)) | 256)
    a = select(scaled.compare("lt", 256), scaled + scaled + 1, ((scaled >> 1) << 2) + 2)
    estimate = ((_largest_root(a, form) + 1) >> 1) & 255
    power = ((const(form.word, 3 * form.bias - 1) - exponent).as_kind("s") >> 1).as_kind("u")
    result = (estimate << (form.fraction - 8)) | (power << form.fraction)
    result = select(magnitude.compare("eq", 0), sign | form.infinity, result)
    finite = sign.compare("eq", 0) | magnitude.compare("eq", 0)
    result = select(finite, result, const(form.word, form.nan))
    result = select(bits.compare("eq", form.infinity), const(form.word, 0), result)
    result = select(magnitude.compare("gt", form.infinity), const(form.word, form.nan), result)
    return result.convert(value.type.unsigned).cast(value.type)


def _largest_root(a: Expr, form: _Format) -> Expr:
    """The largest b with a b^2 < 2^28: a root in floating point, then corrected by at most one."""
    single = Type("f", form.word.bits, a.type.lanes)
    signed = a.as_kind("s")
    guess = (
        (const(single, float(1 << 28)) / signed.convert(single))
        .unary("sqrt")
        .convert(signed.type)
        .as_kind("u")
    )
    too_large = (a * guess * guess).compare("ge", 1 << 28)
    guess = guess + too_large
    more = guess + 1
    return guess - (a * more * more).compare("lt", 1 << 28)
