"""An entry of the table: an intrinsic's name, its parameters and the lane expression it computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING

from icml.formats.errors import InputError
from icml.tools.migrate.table.expr import Body, Expr, Imm, Store, describe, walk
from icml.tools.migrate.table.types import Type

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Operations through which a value of one lane can reach another lane.
CROSSING = frozenset(
    {
        "shuffle",
        "lane",
        "insert",
        "reduce_add",
        "reduce_max",
        "reduce_min",
        "reduce_or",
        "table",
        "weave",
        "unweave",
        "long_pairs",
        "pair_products",
        "gather",
        "signs",
        "build",
        "pick",
    }
)


@dataclass(frozen=True, slots=True)
class Arg:
    """A parameter.

    Attributes:
        name: as the macro names it.
        kind: "value" (vector or number), "tuple" (a struct of `count` vectors in `val`), "imm", "in" or "out" pointer.
        ctype: its C type as callers of the intrinsic write it.
        type: what it holds; for a pointer the element.
        count: vectors of a tuple, or elements that a pointer's target has at least.
        low, high: range of an immediate.
        mask: keeps test inputs of this parameter in bounds: every lane is and-ed with it.
        aligned: bytes that a pointer must be aligned to beyond its element.
        choices: the only legal numbers of an immediate, where they are not all of its range.
    """

    name: str
    kind: str
    ctype: str
    type: Type
    count: int = 1
    low: int = 0
    high: int = 0
    mask: int | None = None
    aligned: int = 0
    choices: tuple[int, ...] = ()

    @property
    def numbers(self) -> tuple[int, ...]:
        """The legal numbers of an immediate."""
        return self.choices or tuple(range(self.low, self.high + 1))

    @property
    def expr(self) -> Expr:
        """The parameter's value in an expression."""
        return Expr("param", self.type, (), (self.name,))

    @property
    def imm(self) -> Imm:
        return Imm("var", (self.name,))

    def member(self, index: int) -> Expr:
        """Vector `index` of a tuple."""
        return Expr("member", self.type, (), (self.name, index))


@dataclass(frozen=True)
class Entry:
    """One intrinsic.

    Attributes:
        name: the intrinsic.
        isa: "neon", "sse" or "avx2".
        family: what it does, without element type and width; the unit that reports count.
        args: parameters in order.
        result: the C type it returns; "void" for stores.
        make: builds the lane expression.
        tolerance: relative error that is allowed against the source ISA; None demands equality.
        defined: bytes of the result that the source ISA defines, from the first; None for all.
    """

    name: str
    isa: str
    family: str
    args: tuple[Arg, ...]
    result: str
    make: Callable[[], Body]
    tolerance: float | None = None
    defined: int | None = None

    @cached_property
    def body(self) -> Body:
        return self.make()

    @property
    def values(self) -> tuple[Expr, ...]:
        """What it returns: one expression, or one per vector of a tuple; empty for stores."""
        if isinstance(self.body, list):
            return ()
        return (self.body,) if isinstance(self.body, Expr) else self.body

    @property
    def stores(self) -> list[Store]:
        return self.body if isinstance(self.body, list) else []

    @property
    def exactness(self) -> str:
        return "exact" if self.tolerance is None else "tolerance"

    @cached_property
    def elementwise(self) -> bool:
        """Whether lane i of the result depends on lane i of the arguments alone: the ones wide fusion may widen."""
        return not any(node.op in CROSSING for node in walk(self.body))

    @cached_property
    def text(self) -> str:
        """Canonical: two entries with the same text are the same entry."""
        args = ", ".join(
            f"{a.kind} {a.ctype} {a.name}:{a.type}*{a.count}[{a.low},{a.high}]&{a.mask}|{a.aligned}{a.choices or ''}"
            for a in self.args
        )
        return f"{self.name}({args}) -> {self.result} ~{self.tolerance}/{self.defined}: {describe(self.body)}"

    def lanes(self, *values: object) -> object:
        """What the intrinsic computes, in numpy; see `lanes.evaluate`."""
        from icml.tools.migrate.table.lanes import evaluate

        return evaluate(self, values)

    def arrays(self, *values: object) -> list[NDArray[np.generic]]:
        """The same as a flat list: the vectors returned, or the memory written behind each pointer."""
        from icml.tools.migrate.table.lanes import evaluate_all

        return evaluate_all(self, values)


@dataclass(frozen=True)
class Unsupported:
    """An intrinsic that is recognised and not migrated."""

    name: str
    reason: str


@dataclass(frozen=True)
class Table(Mapping[str, Entry]):
    """All entries of a source ISA by name."""

    isa: str
    entries: dict[str, Entry]
    unsupported: dict[str, Unsupported] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Entry:
        if name in self.entries:
            return self.entries[name]
        if name in self.unsupported:
            raise InputError(f"{name} is not migrated: {self.unsupported[name].reason}")
        raise InputError(f"{name} is not in the table of {self.isa}{self._hint(name)}")

    def _hint(self, name: str) -> str:
        from difflib import get_close_matches

        near = get_close_matches(name, self.entries, n=1, cutoff=0.85)
        return f"; its nearest name there is {near[0]}" if near else ""

    def __contains__(self, name: object) -> bool:
        return name in self.entries

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    @cached_property
    def hash(self) -> str:
        """Of every entry's text: what a certificate names."""
        digest = sha256()
        for name in sorted(self.entries):
            digest.update(self.entries[name].text.encode())
            digest.update(b"\n")
        return digest.hexdigest()


class Builder:
    """Collects entries; families call `add`."""

    def __init__(self, isa: str) -> None:
        self.isa = isa
        self.entries: dict[str, Entry] = {}

    def add(
        self,
        name: str,
        family: str,
        args: Sequence[Arg],
        result: str,
        make: Callable[[], Body],
        *,
        tolerance: float | None = None,
        defined: int | None = None,
    ) -> None:
        if name in self.entries:
            raise ValueError(f"{name} is defined twice")
        self.entries[name] = Entry(name, self.isa, family, tuple(args), result, make, tolerance, defined)
