"""How NEON names and types are formed (Arm C Language Extensions, "Advanced SIMD intrinsics")."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from icml.tools.migrate.table.entry import Arg, Builder
from icml.tools.migrate.table.expr import Body, Expr, load
from icml.tools.migrate.table.types import Type, parse

SIGNED = ("s8", "s16", "s32", "s64")
UNSIGNED = ("u8", "u16", "u32", "u64")
INTEGERS = SIGNED + UNSIGNED
POLYNOMIALS = ("p8", "p16", "p64")
FLOATS = ("f16", "f32", "f64")
EVERY = (*INTEGERS, *FLOATS, *POLYNOMIALS, "bf16")
SMALL = tuple(t for t in INTEGERS if not t.endswith("64"))
WIDTHS = (False, True)

_BASES = {"s": "int", "u": "uint", "f": "float", "p": "poly", "bf": "bfloat"}


def split(t: str) -> tuple[str, int]:
    """`"bf16"` -> `("bf", 16)`."""
    kind = t.rstrip("0123456789")
    return kind, int(t[len(kind) :])


def bits(t: str) -> int:
    return split(t)[1]


def is_signed(t: str) -> bool:
    return t[0] == "s"


def resized(t: str, factor: float) -> str:
    """`resized("s8", 2)` is `"s16"`."""
    kind, width = split(t)
    return f"{kind}{int(width * factor)}"


def as_kind(t: str, kind: str) -> str:
    return f"{kind}{bits(t)}"


def suffix(q: bool) -> str:
    return "q" if q else ""


def lanes(t: str, q: bool) -> int:
    return (128 if q else 64) // bits(t)


def vector(t: str, q: bool) -> Type:
    return parse(t, lanes(t, q))


def scalar_name(t: str) -> str:
    """The C type of one lane."""
    kind, width = split(t)
    return f"{_BASES[kind]}{width}_t"


def vector_name(t: str, q: bool, count: int = 1) -> str:
    """`"uint8x16_t"`, or `"uint8x16x3_t"` for a struct of three."""
    kind, width = split(t)
    return f"{_BASES[kind]}{width}x{lanes(t, q)}{f'x{count}' if count > 1 else ''}_t"


def vec(name: str, t: str, q: bool) -> Arg:
    return Arg(name, "value", vector_name(t, q), vector(t, q))


def scalar(name: str, t: str) -> Arg:
    return Arg(name, "value", scalar_name(t), parse(t))


def tup(name: str, t: str, q: bool, count: int) -> Arg:
    return Arg(name, "tuple", vector_name(t, q, count), vector(t, q), count)


def imm(name: str, low: int, high: int) -> Arg:
    return Arg(name, "imm", "int", Type("s", 32, 0), 1, low, high)


def source(name: str, t: str, count: int) -> Arg:
    return Arg(name, "in", f"const {scalar_name(t)}*", parse(t), count)


def target(name: str, t: str, count: int) -> Arg:
    return Arg(name, "out", f"{scalar_name(t)}*", parse(t), count)


@dataclass(frozen=True)
class Pointer:
    """A pointer parameter in a lane expression."""

    name: str

    def load(self, type: Type, offset: int = 0) -> Expr:
        return load(self.name, type, offset)


def value_of(arg: Arg) -> Any:
    """What an entry's function is given for a parameter."""
    if arg.kind == "imm":
        return arg.imm
    if arg.kind == "tuple":
        return [arg.member(i) for i in range(arg.count)]
    return Pointer(arg.name) if arg.kind in ("in", "out") else arg.expr


class Neon(Builder):
    """Adds NEON entries; an entry is a function of its parameters."""

    def __init__(self) -> None:
        super().__init__("neon")

    def op(
        self, name: str, family: str, args: Sequence[Arg], result: str, compute: Callable[..., Body]
    ) -> None:
        self.add(name, family, args, result, lambda: compute(*(value_of(arg) for arg in args)))

    def unary(
        self, stem: str, kinds: Sequence[str], compute: Callable[[Expr], Body], result: str = ""
    ) -> None:
        """`v{stem}_t` and `v{stem}q_t`; `result` is a kind ("u") if it is not the argument's."""
        for t in kinds:
            for q in WIDTHS:
                name = vector_name(as_kind(t, result) if result else t, q)
                self.op(f"v{stem}{suffix(q)}_{t}", stem, [vec("a", t, q)], name, compute)

    def binary(
        self, stem: str, kinds: Sequence[str], compute: Callable[[Expr, Expr], Body], result: str = ""
    ) -> None:
        for t in kinds:
            for q in WIDTHS:
                name = vector_name(as_kind(t, result) if result else t, q)
                self.op(f"v{stem}{suffix(q)}_{t}", stem, [vec("a", t, q), vec("b", t, q)], name, compute)

    def ternary(self, stem: str, kinds: Sequence[str], compute: Callable[[Expr, Expr, Expr], Body]) -> None:
        for t in kinds:
            for q in WIDTHS:
                args = [vec("a", t, q), vec("b", t, q), vec("c", t, q)]
                self.op(f"v{stem}{suffix(q)}_{t}", stem, args, vector_name(t, q), compute)

    def by_element(
        self,
        stem: str,
        t: str,
        front: Sequence[Arg],
        result: str,
        compute: Callable[..., Body],
        *,
        spread: int,
        name_q: str = "",
        forms: Sequence[str] = ("n", "lane", "laneq"),
    ) -> None:
        """The forms whose last operand is one number: `_n`, or a lane of a 64-bit or 128-bit vector.

        `compute` gets the operands with that number spread over `spread` lanes.
        """
        for form in forms:
            name = f"v{stem}{name_q}_{form}_{t}"
            if form == "n":
                self.op(name, f"{stem}_n", [*front, scalar("n", t)], result, _spread_last(compute, spread))
            else:
                wide = form == "laneq"
                args = [*front, vec("v", t, wide), imm("l", 0, lanes(t, wide) - 1)]
                self.op(name, f"{stem}_lane", args, result, _lane_last(compute, spread))


def _spread_last(compute: Callable[..., Body], count: int) -> Callable[..., Body]:
    return lambda *args: compute(*args[:-1], args[-1].splat(count))


def _lane_last(compute: Callable[..., Body], count: int) -> Callable[..., Body]:
    return lambda *args: compute(*args[:-2], args[-2].take([args[-1]] * count))
