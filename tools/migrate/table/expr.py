"""Lane expressions: what an intrinsic computes, written once, from which C, numpy and proofs are made.

An expression is a DAG of operations on vectors. Integer arithmetic is modulo 2^bits; shifts need amounts in
0..bits-1; comparisons give all-ones or zero; `shuffle` is the only way to move lanes. A few operations have no portable
C operator and are named after what they compute (`rshr`, `mulhd`, `table`, `ftoi`, ...): a target may have
an instruction for them, and lower.py says them in simpler ones for targets without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from icml.tools.migrate.table.types import Type

Attr = object


@dataclass(frozen=True, slots=True)
class Imm:
    """Arithmetic on an immediate: known to the C compiler, so written as a constant expression.

    `op` is "var" (args: name), "const" (args: value) or a C operator on two immediates; "?" takes three.
    """

    op: str
    args: tuple[object, ...]

    def _with(self, op: str, other: Imm | int) -> Imm:
        return Imm(op, (self, other if isinstance(other, Imm) else Imm("const", (other,))))

    def __add__(self, other: Imm | int) -> Imm:
        return self._with("+", other)

    def __sub__(self, other: Imm | int) -> Imm:
        return self._with("-", other)

    def __mul__(self, other: Imm | int) -> Imm:
        return self._with("*", other)

    def __and__(self, other: Imm | int) -> Imm:
        return self._with("&", other)

    def __rshift__(self, other: Imm | int) -> Imm:
        return self._with(">>", other)

    def __lshift__(self, other: Imm | int) -> Imm:
        return self._with("<<", other)

    def __lt__(self, other: Imm | int) -> Imm:
        return self._with("<", other)

    def equals(self, other: Imm | int) -> Imm:
        return self._with("==", other)

    def choose(self, yes: Imm | int, no: Imm | int) -> Imm:
        """`yes` where this is not 0, else `no`."""
        as_imm = [x if isinstance(x, Imm) else Imm("const", (x,)) for x in (yes, no)]
        return Imm("?", (self, *as_imm))

    def __str__(self) -> str:
        if self.op in ("var", "const"):
            return str(self.args[0])
        if self.op == "?":
            return f"({self.args[0]}?{self.args[1]}:{self.args[2]})"
        # Shifted as 64 bits in C, whatever the width of the immediate.
        return f"({'1ULL*' if self.op == '<<' else ''}{self.args[0]}{self.op}{self.args[1]})"


_IMM_OPS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "&": lambda a, b: a & b,
    ">>": lambda a, b: a >> b,
    "<<": lambda a, b: a << b,
    "<": lambda a, b: int(a < b),
    "==": lambda a, b: int(a == b),
}


def imm_value(imm: Imm | int, values: dict[str, int]) -> int:
    """The number an immediate expression stands for under an assignment of the immediates."""
    if isinstance(imm, int):
        return imm
    if imm.op == "const":
        return int(str(imm.args[0]))
    if imm.op == "var":
        return values[str(imm.args[0])]
    parts = [imm_value(arg, values) for arg in imm.args if isinstance(arg, Imm)]
    if imm.op == "?":
        return parts[1] if parts[0] else parts[2]
    return _IMM_OPS[imm.op](*parts)


@dataclass(frozen=True, slots=True, eq=False)
class Expr:
    """One operation. Identity is the node, so that a value used twice is computed once."""

    op: str
    type: Type
    args: tuple[Expr, ...] = ()
    attr: tuple[Attr, ...] = ()

    # -- arithmetic -------------------------------------------------------------------------------
    def _binary(self, op: str, other: Expr | int | float) -> Expr:
        right = other if isinstance(other, Expr) else const(self.type, other)
        if right.type != self.type:
            raise TypeError(f"{op}: {self.type} with {right.type}")
        return Expr(op, self.type, (self, right))

    def __add__(self, other: Expr | int | float) -> Expr:
        return self._binary("add", other)

    def __sub__(self, other: Expr | int | float) -> Expr:
        return self._binary("sub", other)

    def __mul__(self, other: Expr | int | float) -> Expr:
        return self._binary("mul", other)

    def __truediv__(self, other: Expr | int | float) -> Expr:
        return self._binary("div", other)

    def __and__(self, other: Expr | int) -> Expr:
        return self._binary("and", other)

    def __or__(self, other: Expr | int) -> Expr:
        return self._binary("or", other)

    def __xor__(self, other: Expr | int) -> Expr:
        return self._binary("xor", other)

    def __invert__(self) -> Expr:
        return Expr("not", self.type, (self,))

    def __neg__(self) -> Expr:
        return Expr("neg", self.type, (self,))

    def _shift(self, op: str, amount: Expr | Imm | int) -> Expr:
        if isinstance(amount, Expr):
            return Expr(op, self.type, (self, amount.cast(self.type)))
        return Expr(f"{op}i", self.type, (self,), (amount,))

    def __lshift__(self, amount: Expr | Imm | int) -> Expr:
        return self._shift("shl", amount)

    def __rshift__(self, amount: Expr | Imm | int) -> Expr:
        """Arithmetic on signed lanes, logical on unsigned ones."""
        return self._shift("shr", amount)

    def max(self, other: Expr | int | float) -> Expr:
        return self._binary("max", other)

    def min(self, other: Expr | int | float) -> Expr:
        return self._binary("min", other)

    def add_sat(self, other: Expr | int) -> Expr:
        return self._binary("addsat", other)

    def sub_sat(self, other: Expr | int) -> Expr:
        return self._binary("subsat", other)

    def unary(self, op: str) -> Expr:
        return Expr(op, self.type, (self,))

    # -- comparison -------------------------------------------------------------------------------
    def compare(self, op: str, other: Expr | int | float) -> Expr:
        """`op` is eq, ne, lt, le, gt or ge; all-ones where it holds (ordered: false on NaN, except `ne`)."""
        right = other if isinstance(other, Expr) else const(self.type, other)
        if right.type != self.type:
            raise TypeError(f"{op}: {self.type} with {right.type}")
        return Expr(op, self.type.unsigned, (self, right))

    # -- types ------------------------------------------------------------------------------------
    def convert(self, type: Type) -> Expr:
        """The nearest value of another lane type: truncation modulo 2^bits, widening, rounding to even."""
        lanes = self.type.lanes
        return self if type.of(lanes) == self.type else Expr("convert", type.of(lanes), (self,))

    def cast(self, type: Type) -> Expr:
        """The same bytes as another type."""
        if type.size != self.type.size:
            raise TypeError(f"cast: {self.type} as {type}")
        return self if type == self.type else Expr("bitcast", type, (self,))

    def as_kind(self, kind: str) -> Expr:
        return self.cast(self.type.as_kind(kind))

    # -- lanes ------------------------------------------------------------------------------------
    def take(self, lanes: Iterable[int | Imm], other: Expr | None = None) -> Expr:
        """The lanes with these numbers, counted through this vector and then `other`."""
        index = tuple(lanes)
        second = self if other is None else other
        if second.type != self.type:
            raise TypeError(f"take: {self.type} with {second.type}")
        return Expr("shuffle", self.type.of(len(index)), (self, second), (index,))

    def lane(self, index: int | Imm) -> Expr:
        return Expr("lane", self.type.element, (self,), (index,))

    def insert(self, index: int | Imm, number: Expr) -> Expr:
        return Expr("insert", self.type, (self, number), (index,))

    def splat(self, lanes: int) -> Expr:
        return Expr("splat", self.type.of(lanes), (self,))

    @property
    def low(self) -> Expr:
        return self.take(range(self.type.lanes // 2))

    @property
    def high(self) -> Expr:
        return self.take(range(self.type.lanes // 2, self.type.lanes))

    @property
    def even(self) -> Expr:
        return self.take(range(0, self.type.lanes, 2))

    @property
    def odd(self) -> Expr:
        return self.take(range(1, self.type.lanes, 2))

    def concat(self, other: Expr) -> Expr:
        return self.take(range(2 * self.type.lanes), other)


@dataclass(frozen=True, slots=True)
class Store:
    """`value` written at `offset` elements behind the pointer parameter `pointer`."""

    pointer: str
    offset: int
    value: Expr


Body = Expr | tuple[Expr, ...] | list[Store]


def const(type: Type, value: int | float | Sequence[int | float]) -> Expr:
    """The same number in every lane, or one number per lane."""
    many = isinstance(value, Sequence)
    return Expr("const", type, (), (tuple(value) if isinstance(value, Sequence) else value, many))


def select(mask: Expr, yes: Expr, no: Expr) -> Expr:
    """Bitwise: bits of `yes` where the mask has ones, else those of `no`."""
    return Expr("select", yes.type, (mask.cast(yes.type.unsigned), yes, no))


def imm_if(condition: Imm, yes: Expr, no: Expr) -> Expr:
    """One of two expressions, chosen by an immediate."""
    return Expr("immif", yes.type, (yes, no), (condition,))


def load(pointer: str, type: Type, offset: int = 0) -> Expr:
    """Consecutive elements behind a pointer parameter; one number where the type is scalar."""
    return Expr("load", type, (), (pointer, offset))


def roots(body: Body) -> tuple[Expr, ...]:
    """The expressions a body computes."""
    if isinstance(body, Expr):
        return (body,)
    return tuple(part.value if isinstance(part, Store) else part for part in body)


def walk(body: Body) -> list[Expr]:
    """Every node once, arguments before their users."""
    order: list[Expr] = []
    seen: set[int] = set()
    stack = [(node, False) for node in reversed(roots(body))]
    while stack:
        node, expanded = stack.pop()
        if expanded:
            order.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack.extend((arg, False) for arg in reversed(node.args))
    return order


def describe(body: Body) -> str:
    """A canonical text of a body: equal texts compute the same."""
    numbers: dict[int, int] = {}
    lines = []
    for node in walk(body):
        numbers[id(node)] = len(numbers)
        inputs = ",".join(str(numbers[id(arg)]) for arg in node.args)
        attrs = ",".join(_attr_text(attr) for attr in node.attr)
        lines.append(f"{node.op}:{node.type}({inputs})[{attrs}]")
    ends = ",".join(str(numbers[id(node)]) for node in roots(body))
    places = ",".join(f"{part.pointer}+{part.offset}" for part in body) if isinstance(body, list) else ""
    return "; ".join([*lines, f"-> {ends} {places}".strip()])


def _attr_text(attr: Attr) -> str:
    return "(" + " ".join(str(part) for part in attr) + ")" if isinstance(attr, tuple) else str(attr)
