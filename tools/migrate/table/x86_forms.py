"""How x86 names and types are formed (Intel Intrinsics Guide): `_mm_` of 128 bits, `_mm256_` of twice that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from icml.tools.migrate.table.entry import Arg, Builder
from icml.tools.migrate.table.expr import Body, Expr, Imm
from icml.tools.migrate.table.neon_forms import value_of
from icml.tools.migrate.table.types import Type, parse

BYTE_ORDER = tuple[int | Imm, ...]


@dataclass(frozen=True)
class Width:
    """128 or 256 bits."""

    wide: bool

    @property
    def prefix(self) -> str:
        return "_mm256" if self.wide else "_mm"

    @property
    def bits(self) -> int:
        return 256 if self.wide else 128

    @property
    def halves(self) -> int:
        return self.bits // 128

    def type(self, t: str) -> Type:
        """`type("s16")`: a whole register of such lanes."""
        kind = parse(t)
        return kind.of(self.bits // kind.bits)

    def register(self, letter: str) -> str:
        """`__m128i` for "i", `__m128` for "s", `__m128d` for "d"."""
        return f"__m{self.bits}{'' if letter == 's' else letter}"

    def arg(self, name: str, letter: str = "i", mask: int | None = None) -> Arg:
        held = {"i": "s64", "s": "f32", "d": "f64"}[letter]
        return Arg(name, "value", self.register(letter), self.type(held), mask=mask)

    def name(self, stem: str) -> str:
        return f"{self.prefix}_{stem}"


SSE, AVX = Width(False), Width(True)
SCALARS = {
    "char": "s8",
    "short": "s16",
    "int": "s32",
    "long long": "s64",
    "float": "f32",
    "double": "f64",
}


def number(name: str, ctype: str) -> Arg:
    return Arg(name, "value", ctype, parse(SCALARS[ctype]))


def imm8(name: str = "k", high: int = 255, choices: Sequence[int] = ()) -> Arg:
    return Arg(name, "imm", "int", Type("s", 32, 0), 1, 0, high, choices=tuple(choices))


def pointer(name: str, ctype: str, t: str, count: int, *, out: bool = False, aligned: int = 0) -> Arg:
    """A pointer of a C type behind which `count` elements are touched."""
    star = f"{ctype}*" if out else f"const {ctype}*"
    return Arg(name, "out" if out else "in", star, parse(t), count, aligned=aligned)


class X86(Builder):
    """Adds x86 entries; an entry is a function of its parameters."""

    def op(
        self,
        name: str,
        family: str,
        args: Sequence[Arg],
        result: str,
        compute: Callable[..., Body],
        *,
        defined: int | None = None,
    ) -> None:
        self.add(
            name, family, args, result, lambda: compute(*(value_of(arg) for arg in args)), defined=defined
        )

    def integers(self, width: Width, stem: str, t: str, compute: Callable[..., Expr], count: int = 2) -> None:
        """A function of registers of integer lanes of type `t`; the result is a register too."""
        args = [width.arg(name) for name in "abc"[:count]]
        kind = width.type(t)
        self.op(
            width.name(stem),
            stem.rpartition("_")[0] or stem,
            args,
            width.register("i"),
            lambda *values: compute(*(value.cast(kind) for value in values)).cast(width.type("s64")),
        )


def by_halves(order: Sequence[int | Imm], width: Width, lanes: int) -> list[int | Imm]:
    """An order within 128 bits, applied in each half.

    Args:
        order: indices 0..m-1 into the first operand's half and m..2m-1 into the second's, m lanes per 128 bits.
        width: of the registers.
        lanes: m.
    """
    total = lanes * width.halves
    result: list[int | Imm] = []
    for half in range(width.halves):
        for index in order:
            if isinstance(index, Imm):
                result.append(index + half * lanes)
            else:
                second = index >= lanes
                result.append(index % lanes + half * lanes + (total if second else 0))
    return result


def two_bits(k: Imm, field: int) -> Imm:
    """Field `field` of a selector of 2-bit fields."""
    return (k >> (2 * field)) & 3


def bit(k: Imm, place: int) -> Imm:
    return (k >> place) & 1
