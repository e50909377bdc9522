"""The types that lane expressions are written in, and the names C code knows them by."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Type:
    """A vector of `lanes` equal lanes, or one number where `lanes` is 0.

    Attributes:
        kind: "s" signed, "u" unsigned (polynomials too), "f" IEEE binary, "b" bfloat16 (held as its 16 bits).
        bits: width of a lane.
        lanes: number of lanes; 0 for a number that lives in a scalar register.
    """

    kind: str
    bits: int
    lanes: int

    @property
    def is_float(self) -> bool:
        return self.kind in "fb"

    @property
    def size(self) -> int:
        """Bytes."""
        return self.bits // 8 * max(self.lanes, 1)

    @property
    def element(self) -> Type:
        return replace(self, lanes=0)

    def of(self, lanes: int) -> Type:
        """The same lane, `lanes` times."""
        return replace(self, lanes=lanes)

    def as_kind(self, kind: str) -> Type:
        return replace(self, kind=kind)

    @property
    def unsigned(self) -> Type:
        return self.as_kind("u")

    @property
    def signed(self) -> Type:
        return self.as_kind("s")

    @property
    def wide(self) -> Type:
        """Lanes twice as wide, as many of them."""
        return replace(self, bits=2 * self.bits)

    @property
    def narrow(self) -> Type:
        """Lanes half as wide, as many of them."""
        return replace(self, bits=self.bits // 2)

    @property
    def max(self) -> int:
        """Largest integer that a lane holds."""
        return (1 << (self.bits - 1)) - 1 if self.kind == "s" else (1 << self.bits) - 1

    @property
    def min(self) -> int:
        return -(1 << (self.bits - 1)) if self.kind == "s" else 0

    def __str__(self) -> str:
        name = f"{'bf' if self.kind == 'b' else self.kind}{self.bits}"
        return f"{name}x{self.lanes}" if self.lanes else name


def parse(text: str, lanes: int = 0) -> Type:
    """`"s16"`, `"bf16"`, `"p8"` -> its type with that many lanes; polynomials are unsigned numbers."""
    if text.startswith("bf"):
        return Type("b", int(text[2:]), lanes)
    return Type("u" if text[0] == "p" else text[0], int(text[1:]), lanes)


_SCALARS = {
    ("s", 8): "int8_t",
    ("u", 8): "uint8_t",
    ("s", 16): "int16_t",
    ("u", 16): "uint16_t",
    ("s", 32): "int32_t",
    ("u", 32): "uint32_t",
    ("s", 64): "int64_t",
    ("u", 64): "uint64_t",
    ("f", 32): "float",
    ("f", 64): "double",
}


def stored(type: Type) -> Type:
    """How expressions hold a type: half-precision lanes as their bits, for most targets cannot compute with them."""
    return type.unsigned if type.is_float and type.bits == 16 else type


def c_scalar(type: Type) -> str:
    """C's name of a lane, as expressions hold it."""
    held = stored(type)
    return _SCALARS[held.kind, held.bits]


def c_name(type: Type) -> str:
    """The name in emitted code of a type as expressions hold it."""
    return f"icm_{stored(type)}" if type.lanes else c_scalar(type)
