"""The model string: which letters are observed, which are latent, and which factor carries what.

`wr,hr,dr,ikr,jkr->whdij` says that cell (w,h,d,i,j) is modelled as the sum over r and k of
w[w,r] h[h,r] d[d,r] i[i,k,r] j[j,k,r]: one tensor contraction, linear in each factor, which is all that the
multiplicative updates of Hood and Schein, "Near-Universal Multiplicative Updates for Nonnegative Einsum
Factorization" (ICML 2026), need.
"""

from __future__ import annotations

import math
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from icml.formats.errors import InputError

MAX_FACTORS = 14
MAX_SIZE = 2**31 - 1
"""Largest size that can be asked for."""
MAX_CHOICES = 10_000
"""Most sizes of one letter that a search tries."""


@dataclass(frozen=True)
class Model:
    """A parsed model string.

    Attributes:
        factors: letters of each factor, in the order of the string.
        output: letters of the data's axes.
    """

    factors: tuple[str, ...]
    output: str

    @classmethod
    def parse(cls, text: str) -> Model:
        """Reads `f1,f2,…->o`; whitespace does not count.

        Raises:
            InputError: not of that form, a letter repeated inside a factor or the output, an output letter in no
                factor, two factors with the same letters, or more than 14 factors.
        """
        compact = "".join(text.split())
        left, arrow, output = compact.partition("->")
        if not arrow or "->" in output:
            raise InputError(f"model {text!r} has no single '->'; write it as 'ir,jr->ij'")
        model = cls(tuple(left.split(",")), output)
        model._check(text)
        return model

    @property
    def text(self) -> str:
        """The model string without whitespace."""
        return f"{','.join(self.factors)}->{self.output}"

    @property
    def latent(self) -> str:
        """Latent letters in order of first appearance."""
        return "".join(dict.fromkeys(c for factor in self.factors for c in factor if c not in self.output))

    @property
    def letters(self) -> str:
        """All letters, the observed ones first."""
        return self.output + self.latent

    def carrying(self, letters: str) -> tuple[int, ...]:
        """Numbers of the factors that carry any of `letters`."""
        return tuple(i for i, factor in enumerate(self.factors) if set(factor) & set(letters))

    def bind(self, shape: Sequence[int], latent: Mapping[str, int]) -> dict[str, int]:
        """Sizes of all letters, from the data's shape and the sizes given for latent letters.

        Sizes given for observed letters are allowed and must agree with the shape.

        Raises:
            InputError: wrong number of axes, a latent letter without size, a size below 1 or in contradiction, or a
                letter that the model does not have.
        """
        if len(shape) != len(self.output):
            raise InputError(
                f"the model's output {self.output!r} has {len(self.output)} letters, "
                f"the data have {len(shape)} axes of sizes {tuple(shape)}"
            )
        sizes = dict(zip(self.output, map(int, shape), strict=True))
        for letter, size in latent.items():
            if letter not in self.letters:
                raise InputError(
                    f"a size is given for letter {letter!r}, which the model {self.text!r} does not have"
                )
            if not isinstance(size, int) or isinstance(size, bool) or size < 1:
                raise InputError(
                    f"the size of letter {letter!r} must be a whole number of at least 1, got {size!r}"
                )
            if sizes.setdefault(letter, size) != size:
                raise InputError(
                    f"letter {letter!r} has size {sizes[letter]} in the data but {size} was asked for"
                )
        for letter in self.latent:
            if letter not in sizes:
                raise InputError(f"latent letter {letter!r} has no size; give one, as in {letter}=10")
        for letter in self.output:
            if sizes[letter] < 1:
                raise InputError(f"axis {letter!r} of the data is empty")
        return sizes

    def shape(self, factor: int, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Shape of one factor."""
        return tuple(sizes[c] for c in self.factors[factor])

    def parameters(self, sizes: Mapping[str, int]) -> int:
        """Number of parameters of all factors."""
        return sum(math.prod(self.shape(i, sizes)) for i in range(len(self.factors)))

    def _check(self, text: str) -> None:
        allowed = set(string.ascii_letters)
        if not self.output:
            raise InputError(f"model {text!r} has no letters after '->'")
        for part in (*self.factors, self.output):
            if not part:
                raise InputError(f"model {text!r} has an empty factor")
            bad = next((c for c in part if c not in allowed), None)
            if bad is not None:
                raise InputError(f"model {text!r}: {bad!r} is not a letter a-z or A-Z")
            twice = next((c for c in part if part.count(c) > 1), None)
            if twice is not None:
                raise InputError(f"model {text!r}: letter {twice!r} is repeated in {part!r}")
        covered = set("".join(self.factors))
        missing = next((c for c in self.output if c not in covered), None)
        if missing is not None:
            raise InputError(f"model {text!r}: no factor carries the output letter {missing!r}")
        seen: dict[frozenset[str], str] = {}
        for factor in self.factors:
            other = seen.get(frozenset(factor))
            if other is not None:
                raise InputError(
                    f"model {text!r}: factors {other!r} and {factor!r} carry the same letters; tied factors would make "
                    "the model nonlinear in them, free ones are no more than one factor"
                )
            seen[frozenset(factor)] = factor
        if len(self.factors) > MAX_FACTORS:
            raise InputError(
                f"model {text!r} has {len(self.factors)} factors; at most {MAX_FACTORS} are supported"
            )


def parse_sizes(text: str) -> dict[str, int]:
    """Reads `r=10,k=6`.

    Raises:
        InputError: a part that is not LETTER=NUMBER, or a letter twice.
    """
    sizes: dict[str, int] = {}
    for part in filter(None, "".join(text.split()).split(",")):
        letter, equals, number = part.partition("=")
        if not equals or len(letter) != 1 or not number.isdecimal() or not number.strip("0"):
            raise InputError(f"sizes {text!r}: expected LETTER=NUMBER such as r=10, got {part!r}")
        if letter in sizes:
            raise InputError(f"sizes {text!r}: letter {letter!r} has two sizes")
        sizes[letter] = _size(number, letter)
    return sizes


def _size(digits: str, letter: str) -> int:
    """A number of decimal digits, of which there may be too many to be read."""
    number = int(digits) if len(digits) <= 20 else MAX_SIZE + 1
    if number > MAX_SIZE:
        shown = digits if len(digits) <= 20 else f"{digits[:20]}..."
        raise InputError(f"the size of letter {letter!r} must be at most {MAX_SIZE}, got {shown}")
    return number


def parse_grid(text: str) -> dict[str, list[int]]:
    """Reads sizes to try: `r=10`, or `r=5:50:5` for 5, 10, …, 50; several letters with commas.

    Raises:
        InputError: a part that is not of this form.
    """
    grid: dict[str, list[int]] = {}
    for part in filter(None, "".join(text.split()).split(",")):
        letter, equals, span = part.partition("=")
        numbers = span.split(":")
        if not equals or len(letter) != 1 or not all(n.isdecimal() for n in numbers) or len(numbers) > 3:
            raise InputError(f"sizes {text!r}: expected r=10 or r=5:50:5, got {part!r}")
        low, high = (_size(numbers[k], letter) for k in (0, min(1, len(numbers) - 1)))
        step = _size(numbers[2], letter) if len(numbers) == 3 else 1
        if low < 1 or high < low or step < 1 or letter in grid:
            raise InputError(f"sizes {text!r}: {part!r} names no sizes, or letter {letter!r} twice")
        choices = range(low, high + 1, step)
        if len(choices) > MAX_CHOICES:
            raise InputError(
                f"sizes {text!r}: {part!r} names {len(choices)} sizes; at most {MAX_CHOICES} are tried"
            )
        grid[letter] = list(choices)
    return grid
