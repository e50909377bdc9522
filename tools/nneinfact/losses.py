"""The (alpha, beta)-divergence family: its values, its limits, the data it admits and the exponents of its updates.

d(y, x) = -(1/(αβ)) [y^α x^β - α/(α+β) y^(α+β) - β/(α+β) x^(α+β)], continued to α, β and α+β = 0 (Cichocki, Cruces,
Amari, "Generalized alpha-beta divergences and their application to robust nonnegative matrix factorization", 2011).
With u = ln(x/y) and φ(k) = (e^(ku) - 1)/k it reads d = y^(α+β) (φ(α+β) - φ(β))/α, which holds in every limit and does
not cancel when x is close to y.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from icml.formats.errors import InputError

LIMIT = 1e-6
"""Below this size α, β or α+β counts as zero."""

NAMED_LOSSES: dict[str, tuple[float, float]] = {
    "euclidean": (1.0, 1.0),
    "kl": (1.0, 0.0),
    "is": (1.0, -1.0),
    "hellinger": (0.5, 0.5),
    "reverse-kl": (0.0, 1.0),
    "log": (0.0, 0.0),
}


@dataclass(frozen=True)
class Divergence:
    """One member of the family.

    Attributes:
        alpha, beta: its parameters; those within `LIMIT` of a limit are moved onto it.
    """

    alpha: float
    beta: float

    def __post_init__(self) -> None:
        for name, value in (("alpha", self.alpha), ("beta", self.beta)):
            if not math.isfinite(value):
                raise InputError(f"{name} must be finite, got {value}")
        alpha = 0.0 if abs(self.alpha) < LIMIT else float(self.alpha)
        beta = 0.0 if abs(self.beta) < LIMIT else float(self.beta)
        if alpha and beta and abs(alpha + beta) < LIMIT:
            beta = -alpha
        object.__setattr__(self, "alpha", alpha)
        object.__setattr__(self, "beta", beta)

    @classmethod
    def named(cls, loss: str) -> Divergence:
        """A named loss, or `beta:b` for the β-divergence d_b of the NMF literature, which is (1, b-1).

        Raises:
            InputError: no such name.
        """
        if loss in NAMED_LOSSES:
            return cls(*NAMED_LOSSES[loss])
        head, colon, number = loss.partition(":")
        if head == "beta" and colon:
            try:
                return cls(1.0, float(number) - 1.0)
            except ValueError:
                pass
        raise InputError(f"unknown loss {loss!r}; use {', '.join(NAMED_LOSSES)} or beta:B")

    @property
    def order(self) -> float:
        """α+β: how the divergence scales, d(cy, cx) = c^order d(y, x)."""
        return 0.0 if abs(self.alpha + self.beta) < LIMIT else self.alpha + self.beta

    @property
    def admits_zeros(self) -> bool:
        """Whether a zero in the data has a finite loss."""
        return self.alpha > 0 and self.order > 0

    @property
    def is_kl(self) -> bool:
        """Whether this is the Kullback-Leibler divergence, the loss of Poisson counts."""
        return self.alpha == 1 and self.beta == 0

    @property
    def exponent(self) -> float:
        """γ of the monotone update θ ← θ (num/den)^γ; for α = 0 the step of θ ← θ exp(γ num/den)."""
        a, b = self.alpha, self.beta
        if a == 0:
            return 1.0
        low, high = 1 / a - 1, 1 / a
        slack = 1e-12 * max(1.0, abs(high))
        if b / a < low - slack:
            return 1 / (1 - b)
        if b / a > high + slack:
            return 1 / (a + b - 1)
        return 1 / a

    def __call__(self, y: ArrayLike, x: ArrayLike) -> NDArray[np.float64]:
        """Divergence of each cell; infinite where the data are not admissible or x is 0 and y is not."""
        y, x = np.broadcast_arrays(np.asarray(y, np.float64), np.asarray(x, np.float64))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            u = np.where(y > 0, np.log(x) - np.log(np.where(y > 0, y, 1.0)), 0.0)
            out = np.asarray(self._positive(y, u), np.float64)
            at_zero = (
                x**self.order / (self.alpha * self.order) if self.admits_zeros else np.full_like(x, np.inf)
            )
        return np.where(y > 0, out, at_zero)

    def _positive(self, y: NDArray[np.float64], u: NDArray[np.float64]) -> NDArray[np.float64]:
        a, b, s = self.alpha, self.beta, self.order
        if a == 0 and b == 0:
            return u * u / 2
        if a == 0:  # derivative of φ at β
            return y**b * (np.exp(b * u) * b * u - np.expm1(b * u)) / b**2
        return y**s * (_phi(s, u) - _phi(b, u)) / a

    def slope(self, y: ArrayLike, x: ArrayLike) -> NDArray[np.float64]:
        """∂d/∂x of each cell."""
        y, x = np.asarray(y, np.float64), np.asarray(x, np.float64)
        up, down = self.terms(y, x)
        return np.asarray((down - up) / self.alpha if self.alpha else -up)

    def terms(self, y: NDArray[np.float64], x: NDArray[np.float64]) -> tuple[NDArray[Any], NDArray[Any]]:
        """What the numerator and the denominator of an update sum up: y^α x^(β-1) and x^(α+β-1).

        For α = 0: x^(β-1) ln(y/x) and x^(β-1).
        """
        a, b = self.alpha, self.beta
        if a == 0:
            down = x ** (b - 1)
            return down * np.log(y / x), down
        return y**a * x ** (b - 1), x ** (self.order - 1)


def divergence(y: ArrayLike, yhat: ArrayLike, alpha: float = 1.0, beta: float = 0.0) -> NDArray[np.float64]:
    """The (alpha, beta)-divergence of each cell of `y` from `yhat`."""
    return Divergence(alpha, beta)(y, yhat)


def _phi(k: float, u: NDArray[np.float64]) -> NDArray[np.float64]:
    return u if k == 0 else np.expm1(k * u) / k
