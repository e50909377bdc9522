"""What a sweep needs from the data: numerators and denominators of every factor, and the loss.

Sums over the data are kept until a factor they depend on is replaced. Where theory allows it they need no pass: the
denominators of α+β = 1 and α+β = 2 with equal weights are contractions of the factors, and the Euclidean numerator
does not depend on the model's values, so that one pass serves a whole side.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from icml.tools.nneinfact.contraction import Array
from icml.tools.nneinfact.data import Statistics
from icml.tools.nneinfact.losses import Divergence
from icml.tools.nneinfact.sides import FreeSums, Side
from icml.tools.nneinfact.split import Plan

FLOOR = 1e-12
"""The model's values are never taken below this times the mean of the data."""


class Rule(IntEnum):
    """Kernel rules, in the order of job.hpp."""

    KL = 0
    EUCLIDEAN = 1
    IS = 2
    BETA = 3
    SUM_ONE = 4
    GENERAL = 5
    BETA_ZERO = 6
    SUM_ZERO = 7
    ALPHA_ZERO = 8
    BOTH_ZERO = 9
    DATA = 10
    WEIGHT = 11
    MODEL = 12


_SPECIAL = {(1.0, 0.0): Rule.KL, (1.0, 1.0): Rule.EUCLIDEAN, (1.0, -1.0): Rule.IS, (0.0, 0.0): Rule.BOTH_ZERO}


def rule_of(d: Divergence) -> Rule:
    """The kernel's rule for a divergence."""
    special = _SPECIAL.get((d.alpha, d.beta))
    if special is not None:
        return special
    if d.alpha == 0:
        return Rule.ALPHA_ZERO
    if d.beta == 0:
        return Rule.BETA_ZERO
    if d.order == 0:
        return Rule.SUM_ZERO
    if d.order == 1:
        return Rule.SUM_ONE
    return Rule.BETA if d.alpha == 1 else Rule.GENERAL


@dataclass(frozen=True)
class Kernel:
    """How the kernels are called for one fit.

    Attributes:
        divergence: what is minimised.
        dtype: type of the arithmetic on data, float32 or float64.
        threads: number of threads.
        floor: least value of the model.
        poll: called between pieces of work; may raise to stop.
    """

    divergence: Divergence
    dtype: np.dtype[Any]
    threads: int
    floor: float
    poll: Callable[[], None]

    @property
    def rule(self) -> Rule:
        return rule_of(self.divergence)

    @property
    def den_loss(self) -> float:
        """The loss holds this times Σ ŷ^(α+β) beside what vanishes with y."""
        d = self.divergence
        return 1 / (d.alpha * d.order) if d.alpha and d.order else 0.0


@dataclass(frozen=True)
class Losses:
    """Weighted sums of the divergence over the observed and over the held-out cells."""

    train: float
    held: float


K = TypeVar("K")


class Memo(Generic[K]):
    """The last value computed from a group of arrays, as long as the very same arrays are asked for."""

    def __init__(self) -> None:
        self._arrays: list[Array] = []
        self._value: K | None = None

    def get(self, arrays: Sequence[Array]) -> K | None:
        same = len(arrays) == len(self._arrays) and all(
            a is b for a, b in zip(arrays, self._arrays, strict=True)
        )
        return self._value if same else None

    def put(self, arrays: Sequence[Array], value: K) -> K:
        self._arrays, self._value = list(arrays), value
        return value


class Engine(abc.ABC):
    """One data set under one plan and divergence. Factors are never changed in place, only replaced."""

    path: str
    """How the data are walked: dense, sparse or stream."""
    device: str = "cpu"
    """Where the passes are computed."""

    def __init__(self, plan: Plan, kernel: Kernel, stats: Statistics, sides: tuple[Side, Side]) -> None:
        self.plan, self.kernel, self.stats, self.sides = plan, kernel, stats, sides
        self.free = FreeSums(plan)
        self.passes = 0
        self._num: tuple[Memo[Array], Memo[Array]] = (Memo(), Memo())
        self._weight: tuple[Memo[Array], Memo[Array]] = (Memo(), Memo())
        self._square: float | None = None  # of all y, where the loss may be made of parts

    @property
    def groups_by_side(self) -> bool:
        """Whether one pass serves all factors of a side, so that a sweep should take them one after another."""
        return self.kernel.rule is Rule.EUCLIDEAN

    @abc.abstractmethod
    def losses(self, factors: Sequence[Array], sides: tuple[int, ...] = ()) -> Losses:
        """The losses of these factors; the pass that gives them also makes the numerators of `sides`, to come."""

    @abc.abstractmethod
    def numerator(self, factor: int, factors: Sequence[Array]) -> Array:
        """Wᵀ(w y^α ŷ^(β-1)) for one factor."""

    @abc.abstractmethod
    def denominator(self, factor: int, factors: Sequence[Array]) -> Array:
        """Wᵀ(w ŷ^(α+β-1)) for one factor."""

    @abc.abstractmethod
    def weighted_model(self, factors: Sequence[Array]) -> float:
        """Σ w ŷ over the observed cells."""

    @abc.abstractmethod
    def exact_losses(self, factors: Sequence[Array]) -> Losses:
        """The losses, cell by cell in float64: what is reported in the end."""

    def _euclidean_losses(self, factors: Sequence[Array], sides: tuple[int, ...]) -> Losses | None:
        """½ Σ y² - Σ y ŷ + ½ Σ ŷ², from what the updates need anyway; None where it is not made of parts, or if too
        little is left of it to be exact."""
        if self._square is None:
            return None
        loss = self._square / 2 + self._cross(factors, sides)
        precise = loss > self._square / 2 * (1e-3 if self.kernel.dtype == np.float32 else 1e-9)
        return Losses(loss, 0.0) if precise else None

    def _cross(self, factors: Sequence[Array], sides: tuple[int, ...]) -> float:
        """½ Σ ŷ² - Σ y ŷ, both linear in any one factor."""
        group = (self.plan.left, self.plan.right)[sides[0]] if sides else ()
        first = group[0] if group else 0
        num, den = self.numerator(first, factors), self.denominator(first, factors)
        return float((factors[first] * (den / 2 - num)).sum())

    def _group(self, side: int, factors: Sequence[Array]) -> list[Array]:
        return [factors[i] for i in (self.plan.left, self.plan.right)[side]]

    def _free_total(self, factors: Sequence[Array], order: float) -> float:
        """Σ ŷ (order 1) or Σ ŷ² (order 2) over all cells."""
        sums = self.free.ones if order == 1 else self.free.model
        return float((factors[0] * sums(0, factors, self.kernel.threads)).sum())


def wanted(sums: Array | None) -> Array:
    """Sums that a pass was asked for."""
    assert sums is not None
    return sums


def make_floor(stats: Statistics) -> float:
    """The least value of the model, in the unit of the data."""
    return FLOOR * stats.mean if stats.mean > 0 else FLOOR


def contiguous(array: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """The array as the kernels take it."""
    return np.ascontiguousarray(array, dtype)
