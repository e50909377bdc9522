"""A fractional number of bits is a budget: each linear gets the bits with which all of them together err least.

What is bought is the sum of the linears' relative errors, the currency what is stored, scales and rotations included.
The choice is exact, by `allocate_bits`, but for the rounding of sizes where they have no common divisor to speak of.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from icml.formats.errors import InputError
from icml.tools.quantize.allocation import allocate_bits

FINEST = 20_000
"""Into so many parts the weights are divided, at most, for a choice of bits."""

Line = Mapping[str, Any]


def check_budget(budget: float, least: float) -> None:
    """Raises InputError if a budget of bits is less than what is stored at the fewest bits."""
    if budget < least:
        raise InputError(
            f"{budget:g} bits a weight are too few: scales and rotations counted, {least:.4f} are the least"
        )


@dataclass(frozen=True)
class Offer:
    """What there is to choose from.

    Attributes:
        names: of the linears that have a choice.
        bits: the choices.
        costs: the error of each linear with each.
        sizes: weights of each linear.
        fixed: linears that have no choice, and their bits.
        overhead: bits stored beyond the weights' own, of all linears.
        pinned: bits of the weights of the linears that have no choice.
        weights: of all linears.
    """

    names: list[str]
    bits: list[int]
    costs: list[list[float]]
    sizes: list[int]
    fixed: dict[str, int]
    overhead: float
    pinned: int
    weights: int

    @classmethod
    def of(cls, report: Sequence[Line]) -> Offer:
        """From a report with a line for each linear and number of bits."""
        lines: dict[str, dict[int, Line]] = {}
        for line in report:
            lines.setdefault(line["layer"], {})[line["bits"]] = line
        size = {name: math.prod(next(iter(found.values()))["shape"]) for name, found in lines.items()}
        free = [name for name, found in lines.items() if len(found) > 1]
        fixed = {name: next(iter(found)) for name, found in lines.items() if len(found) == 1}
        bits = sorted(lines[free[0]]) if free else []
        one = {name: next(iter(found.values())) for name, found in lines.items()}
        return cls(
            free, bits, [[float(lines[name][b]["error"]) for b in bits] for name in free],
            [size[name] for name in free], fixed,
            sum(size[name] * (line["bpw"] - line["bits"]) for name, line in one.items()),
            sum(size[name] * fixed[name] for name in fixed), sum(size.values()),
        )  # fmt: skip

    @property
    def least(self) -> float:
        """The smallest budget that can be kept, bits a weight."""
        if not self.names:
            return 0.0
        return (self.overhead + self.pinned + sum(self.sizes) * self.bits[0]) / self.weights

    def choose(self, budget: float) -> dict[str, int]:
        """Bits for each linear.

        Args:
            budget: bits a weight, everything that is stored of the linears counted.

        Raises:
            InputError: the budget is too small for any choice.
        """
        if not self.names:
            return self.fixed
        check_budget(budget, self.least)
        left = (budget * self.weights - self.overhead - self.pinned) / sum(self.sizes)
        unit = max(math.gcd(*self.sizes), -(-sum(self.sizes) // FINEST))
        sizes = [-(-size // unit) for size in self.sizes]
        share = sum(self.sizes) / (unit * sum(sizes))  # rounded up sizes must not be given more than there is
        left = self.bits[0] + (left - self.bits[0]) * share
        chosen = allocate_bits(self.costs, None, self.bits, left, sizes=sizes)
        return self.fixed | dict(zip(self.names, chosen, strict=True))

    def error(self, chosen: Mapping[str, int]) -> float:
        """Mean relative error of the linears that have a choice."""
        total = sum(
            cost[self.bits.index(chosen[name])] for name, cost in zip(self.names, self.costs, strict=True)
        )
        return total / max(len(self.names), 1)

    def frontier(self) -> list[tuple[float, float]]:
        """Least mean error for some budgets, from the smallest to the largest: (bits a weight, error)."""
        if not self.names:
            return []
        spread = sum(self.sizes) * (self.bits[-1] - self.bits[0]) / self.weights
        budgets = [self.least + spread * i / 8 for i in range(9)]
        return [(budget, self.error(self.choose(budget + 1e-9))) for budget in budgets]
