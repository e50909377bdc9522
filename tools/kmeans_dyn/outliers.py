"""How many points may be outliers: a number, or a share of the points that are live."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

from icml.formats.errors import InputError


@dataclass(frozen=True)
class Outliers:
    """z of the problem.

    Attributes:
        value: a number of points, or their share of the live points.
        share: whether it is a share.
    """

    value: float
    share: bool = False

    @classmethod
    def of(cls, z: int | float | str | Outliers) -> Self | Outliers:
        """From a number of points, a share in (0, 1), or text as the command line has it: "100", "0.1%".

        Raises:
            InputError: it is none of these, or negative.
        """
        if isinstance(z, Outliers):
            return z
        if isinstance(z, str):
            return cls._parse(z)
        if isinstance(z, bool) or not math.isfinite(z) or z < 0 or (z >= 1 and z != int(z)):
            raise InputError(f"z must be a number of points at least 0 or a share of them below 1, got {z!r}")
        return cls(float(z), share=0 < z < 1)

    @classmethod
    def _parse(cls, text: str) -> Self:
        match = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)%", text)
        if match and float(match[1]) < 100:
            return cls(float(Fraction(match[1]) / 100), share=True)
        if re.fullmatch(r"\d{1,15}", text):
            return cls(float(text))
        raise InputError(
            f"z must be a number of points such as 100 or a percentage such as 0.1%, got {text!r}"
        )

    def count(self, n: int) -> int:
        """The number of outliers among n points; a share counts as the decimal number that it is written as."""
        return math.floor(Fraction(str(self.value)) * n) if self.share else int(self.value)

    def allowed(self, n: int, eps: float) -> int:
        """How many points an answer may discard: floor((1 + eps) z), but never all."""
        return min(math.floor((1 + eps) * self.count(n)), max(n - 1, 0))
