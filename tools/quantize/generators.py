"""Generators of the trellis code: a state's value is the sum of the four bytes of a hash, so decoding needs no table.

`mul32`: p = A s mod 2^32. `mulx`: the same, then p ^= p >> 15. `mul16`: p = (A s mod 2^16) + 2^16 (B s mod 2^16).
The sum of four bytes is nearly Gaussian for almost any multiplier; what makes a multiplier good is how little
overlapping states share (see `vetting`). Reconstructed from the abstract of Proteus (ICML 2026), whose constants are
not public, and from QTIP (Tseng et al., 2024).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from icml.formats.errors import InputError

FAMILIES = ("mul32", "mulx", "mul16")
CENTRE = 510  # four bytes of mean 127.5


@dataclass(frozen=True)
class Generator:
    """A hash of trellis states.

    Attributes:
        family: `mul32`, `mulx` or `mul16`.
        A: the multiplier, odd, below 2^32 (2^16 for `mul16`).
        B: the second multiplier of `mul16`; 0 for the others.
    """

    family: str
    A: int
    B: int = 0

    def __post_init__(self) -> None:
        if self.family not in FAMILIES:
            raise InputError(f"no such generator family: {self.family}; there are {', '.join(FAMILIES)}")
        if not 0 < self.A < 2**self.multiplier_bits or not 0 <= self.B < 2**16:
            raise InputError(f"a multiplier of {self.family} is between 1 and 2^{self.multiplier_bits} - 1")

    @property
    def multiplier_bits(self) -> int:
        return 16 if self.family == "mul16" else 32

    @property
    def family_number(self) -> int:
        return FAMILIES.index(self.family)

    def byte_sums(self, states: NDArray[np.integer]) -> NDArray[np.int16]:
        """The sum of the hash's four bytes, 0..1020, for each state."""
        s = np.asarray(states, np.uint64)
        if self.family == "mul16":
            p = (s * np.uint64(self.A) & np.uint64(0xFFFF)) | (
                s * np.uint64(self.B) & np.uint64(0xFFFF)
            ) << np.uint64(16)
        else:
            p = s * np.uint64(self.A) & np.uint64(0xFFFFFFFF)
            if self.family == "mulx":
                p ^= p >> np.uint64(15)
        total = sum((p >> np.uint64(8 * i)) & np.uint64(255) for i in range(4))
        return np.asarray(total, np.int16)

    def __str__(self) -> str:
        return f"{self.family}:{self.A:x}" + (f":{self.B:x}" if self.family == "mul16" else "")


def parse_generator(text: str) -> Generator:
    """`mul32:83dcd12d` or `mul16:d741:8cd1`, multipliers in hexadecimal, as `str(generator)` writes it."""
    family, *multipliers = text.split(":")
    try:
        return Generator(family, *(int(m, 16) for m in multipliers))
    except (ValueError, TypeError) as error:
        raise InputError(f"not a generator like mul32:83dcd12d: {text}") from error


def best_generators(L: int, count: int = 8, family: str | None = None) -> list[Generator]:
    """The pool's generators for states of L bits, lowest Viterbi error first.

    Args:
        L: bits of a state; each pool entry was measured at 12, 14 and 16, the nearest of these decides the order.
        count: at most so many.
        family: only this family.
    """
    from icml.tools.quantize.pool import MEASURED_AT, POOL

    if family is not None and family not in FAMILIES:
        raise InputError(f"no such generator family: {family}; there are {', '.join(FAMILIES)}")
    column = int(np.argmin([abs(L - measured) for measured in MEASURED_AT]))
    entries = [(errors[column], parse_generator(text)) for text, errors in POOL.items()]
    chosen = [(error, g) for error, g in entries if family in (None, g.family)]
    return [g for _, g in sorted(chosen, key=lambda entry: entry[0])][:count]
