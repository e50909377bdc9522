"""Floating-point operations that numpy lacks: fused multiply-add, Arm's minima and maxima, saturating casts."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def fused(a: Array, b: Array, c: Array) -> Array:
    """a * b + c rounded once (IEEE 754 fusedMultiplyAdd)."""
    with np.errstate(all="ignore"):
        return _fused(*np.broadcast_arrays(a, b, c))


def _fused(a: Array, b: Array, c: Array) -> Array:
    if a.dtype == np.float16:
        # Exact in double wherever the product could decide the rounding.
        return np.asarray(a.astype(np.float64) * b.astype(np.float64) + c.astype(np.float64)).astype(
            np.float16
        )
    if a.dtype == np.float32:
        return _fused_single(a, b, c)
    plain = np.asarray(a * b + c)
    finite = np.isfinite(a) & np.isfinite(b) & np.isfinite(c)
    for place in zip(*np.nonzero(finite), strict=True):
        exact = Fraction(float(a[place])) * Fraction(float(b[place])) + Fraction(float(c[place]))
        if exact:
            plain[place] = _nearest(exact)
    return plain


def _nearest(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return np.inf if exact > 0 else -np.inf


def _fused_single(a: Array, b: Array, c: Array) -> Array:
    """The product is exact in double; the sum is rounded to odd there, so that the last rounding is the only one."""
    product, addend = a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64)
    total = np.asarray(product + addend)
    part = total - product
    error = (product - (total - part)) + (addend - part)
    bits = total.view(np.int64).copy()
    inexact = ((error < 0) | (error > 0)) & (bits & 1 == 0)
    step = np.where((error < 0) == (total < 0), 1, -1)
    bits += np.where(inexact, step, 0)
    return bits.view(np.float64).astype(np.float32)


def maximum(a: Array, b: Array, sign: int) -> Array:
    """FMAX (sign 1) or FMIN (-1) of Arm: NaN if any is NaN, -0 below +0."""
    a, b = np.broadcast_arrays(a, b)
    better = (a > b) if sign > 0 else (a < b)
    zeros = (a == 0) & (b == 0)
    wanted = ~np.signbit(a) if sign > 0 else np.signbit(a)
    result = np.where(better | (zeros & wanted), a, b)
    return np.where(np.isnan(a), a, np.where(np.isnan(b), b, result))


def maximum_number(a: Array, b: Array, sign: int) -> Array:
    """FMAXNM / FMINNM: a quiet NaN loses against a number."""
    a, b = np.broadcast_arrays(a, b)
    return np.where(np.isnan(a), b, np.where(np.isnan(b), a, maximum(a, b, sign)))


def float_to_int(value: Array, kind: np.dtype[Any]) -> Array:
    """Truncates; saturates out of range; NaN gives 0 (FCVTZS, FCVTZU)."""
    limits = np.iinfo(kind)
    bound = 2.0 ** (limits.bits - (1 if kind.kind == "i" else 0))
    whole = np.trunc(value)
    low = -bound if kind.kind == "i" else 0.0
    inside = (whole >= low) & (whole < bound)
    result = np.where(inside, whole, 0).astype(kind)
    result = np.where(whole >= bound, kind.type(limits.max), result)
    result = np.where(whole < low, kind.type(limits.min), result)
    return result.astype(kind)
