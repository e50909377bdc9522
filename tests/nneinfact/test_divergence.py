"""The (alpha, beta)-divergence against its definition, its limits and finite differences."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icml.formats.errors import InputError
from icml.tools.nneinfact.losses import Divergence, divergence

from .oracles import GRID, LIMITS

positive = st.floats(0.05, 20.0)
parameter = st.floats(-3, 3).filter(lambda v: abs(v) > 0.05)


def definition(y: float, x: float, a: float, b: float) -> float:
    """The formula of the paper, its limits written out."""
    if a == 0 and b == 0:
        return 0.5 * (math.log(y) - math.log(x)) ** 2
    if a == 0:
        return (x**b * math.log(x**b / y**b) - x**b + y**b) / b**2
    if b == 0:
        return (y**a * math.log(y**a / x**a) - y**a + x**a) / a**2
    if a + b == 0:
        return (math.log(x**a / y**a) + y**a / x**a - 1) / a**2
    return -(y**a * x**b - a / (a + b) * y ** (a + b) - b / (a + b) * x ** (a + b)) / (a * b)


@given(positive, positive, parameter, parameter)
def test_definition(y: float, x: float, a: float, b: float) -> None:
    if abs(a + b) < 0.05:
        b = -a
    scale = (
        max(1.0, y ** (a + b), x ** (a + b), y**a * x**b)
        / min(abs(a * b), 1)
        / (1 if a + b == 0 else min(abs(a + b), 1))
    )
    assert divergence(y, x, a, b) == pytest.approx(definition(y, x, a, b), rel=1e-9, abs=1e-12 * scale)


@pytest.mark.parametrize(("a", "b"), LIMITS)
def test_limits_are_written_out_and_continuous(a: float, b: float) -> None:
    y, x = np.meshgrid([0.1, 0.9, 1.0, 3.0], [0.2, 1.0, 2.5])
    here = divergence(y, x, a, b)
    expected = np.vectorize(lambda p, q: definition(p, q, a, b))(y, x)
    np.testing.assert_allclose(here, expected, rtol=1e-12, atol=1e-14)
    for da, db in ((3e-6, 0), (0, 3e-6), (-3e-6, 4e-6)):
        np.testing.assert_allclose(divergence(y, x, a + da, b + db), here, rtol=1e-3, atol=1e-4)


@given(positive, positive, st.floats(-2, 2), st.floats(-2, 2), st.floats(0.1, 10))
def test_nonnegative_zero_at_equality_and_scaling(y: float, x: float, a: float, b: float, c: float) -> None:
    d = Divergence(a, b)
    assert float(d(y, y)) == pytest.approx(0, abs=1e-12)
    assert float(d(y, x)) >= -1e-12
    assert float(d(c * y, c * x)) == pytest.approx(c**d.order * float(d(y, x)), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(("a", "b"), GRID + LIMITS)
def test_slope_is_the_derivative(a: float, b: float) -> None:
    y, x = np.meshgrid([0.3, 1.0, 2.0], [0.4, 1.1, 3.0])
    h = 1e-6
    numeric = (divergence(y, x + h, a, b) - divergence(y, x - h, a, b)) / (2 * h)
    np.testing.assert_allclose(Divergence(a, b).slope(y, x), numeric, rtol=1e-5, atol=1e-7)


def test_zeros() -> None:
    assert float(divergence(0, 2, 1, 0)) == 2
    assert float(divergence(0, 2, 1, 1)) == 2
    assert float(divergence(0, 4, 0.5, 0.5)) == pytest.approx(8)
    assert float(divergence(3, 0, 1, 0)) == math.inf
    assert float(divergence(3, 0, 1, 1)) == pytest.approx(4.5)
    for a, b in ((1, -1), (0, 1), (-1, 3), (0.5, -1), (0, 0)):
        assert not Divergence(a, b).admits_zeros
        assert float(divergence(0, 1, a, b)) == math.inf


def test_names_and_bad_parameters() -> None:
    assert Divergence.named("euclidean") == Divergence(1, 1)
    assert Divergence.named("beta:0") == Divergence.named("is") == Divergence(1, -1)
    assert Divergence.named("beta:1") == Divergence.named("kl")
    assert Divergence(1e-9, 1 - 1e-9).alpha == 0
    for bad in ("", "kl2", "beta:", "beta:x"):
        with pytest.raises(InputError, match="unknown loss"):
            Divergence.named(bad)
    for a, b in ((math.nan, 0), (1, math.inf)):
        with pytest.raises(InputError, match="must be finite"):
            Divergence(a, b)
