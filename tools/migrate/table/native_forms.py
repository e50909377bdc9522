"""What native rules are made of: when one applies to a node, and how it writes it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from icml.tools.migrate.table.expr import Expr, Imm
from icml.tools.migrate.table.types import Type, c_name

# Declares a variable of a C type with a value and returns its name.
Temporary = Callable[[str, str], str]
Writer = Callable[[Expr, Sequence[str], Temporary], str]


@dataclass(frozen=True)
class Rule:
    """One operation on one target."""

    fits: Callable[[Expr], bool]
    write: Writer


Rules = dict[str, Rule]


def immediate(value: object) -> str:
    """An immediate as a constant expression over the macro's parameters."""
    if isinstance(value, Imm):
        return "(" + re.sub(r"\b([A-Za-z]\w*)\b", r"(\1_)", str(value)) + ")"
    return str(value)


def unsigned(type: Type, name: str) -> str:
    return name if type.kind == "u" else f"(({c_name(type.unsigned)}){name})"


def named(node: Expr, args: Sequence[str], temporary: Temporary) -> list[str]:
    """The vector arguments as names, which may be written more than once."""
    return [
        text if re.fullmatch(r"\w+", text) else temporary(c_name(arg.type), text)
        for arg, text in zip(node.args, args, strict=True)
        if arg.type.lanes
    ]


def in_register(node: Expr) -> bool:
    """At least half a vector register."""
    return node.type.size >= 8 and node.type.lanes & (node.type.lanes - 1) == 0


def same_width_conversion(node: Expr) -> bool:
    return in_register(node) and node.type.bits == node.args[0].type.bits and node.type.bits >= 32


def one_table(node: Expr) -> bool:
    """A lookup of 8 or 16 bytes in 16."""
    return len(node.args) == 2 and node.args[0].type.lanes == 16 and node.type.lanes in (8, 16)


def half_and_single(node: Expr) -> bool:
    kinds = {(type.kind, type.bits) for type in (node.type, node.args[0].type)}
    return kinds == {("f", 16), ("f", 32)} and node.type.lanes in (4, 8)
