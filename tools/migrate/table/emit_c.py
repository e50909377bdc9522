"""Writes lane expressions as C: one statement-expression macro per intrinsic, in clang's vector extensions.

Statement expressions, because a helper function that takes vectors by value goes through integer registers on RISC-V
and LoongArch. Every name inside a macro is its own, so that macros nest in each other's arguments. A pointer is trusted
to be aligned to its element, no more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from hashlib import sha256

from icml.formats.errors import InputError
from icml.tools.migrate.table import emit_types
from icml.tools.migrate.table.emit_node import NodeWriter
from icml.tools.migrate.table.entry import Arg, Entry
from icml.tools.migrate.table.expr import Expr, Store, roots, walk
from icml.tools.migrate.table.lower import lowered
from icml.tools.migrate.table.types import c_name, c_scalar, stored

PREFIX = "icm_"


def header(
    names: Iterable[str],
    source_isa: str,
    target: str,
    *,
    types: Iterable[str] = (),
    unaligned: bool = False,
    entries: dict[str, Entry] | None = None,
) -> str:
    """The text of `icm_simd.h` for a kernel: the macros `icm_NAME` of these intrinsics and the types they need.

    Args:
        names: intrinsics used.
        source_isa: the table they are from.
        target: instruction set the header is for.
        types: vector types that the kernel names beside those of the intrinsics.
        unaligned: trust no alignment of pointers.
        entries: used instead of the table's own entries of the same names.

    Raises:
        InputError: an intrinsic is not in the table.
    """
    from icml.tools.migrate.table import load

    table = load(source_isa)
    chosen = [(entries or {}).get(name) or table[name] for name in sorted(set(names))]
    macros = [macro(entry, target) for entry in chosen]
    text = "\n".join(macros)
    parts = ["#pragma once", "#include <stdint.h>"]
    if target == "neon" and re.search(r"\bv(qtbl1|cvt)q?_\w+\(", text):
        parts.append("#include <arm_neon.h>")
    # Callers cast to the pointers' types, which the macros themselves do not name.
    named = {word for entry in chosen for arg in entry.args for word in re.findall(r"\w+", arg.ctype)}
    parts.append(emit_types.declarations(text, source_isa, target, {*types, *named}, unaligned=unaligned))
    return "\n".join([*parts, text, ""])


def macro(entry: Entry, target: str) -> str:
    """`#define icm_NAME(...)` for a target."""
    return _macro(entry, target)


@cache
def _macro(entry: Entry, target: str) -> str:
    params = ", ".join(f"{arg.name}_" for arg in entry.args)
    return f"#define {PREFIX}{entry.name}({params}) {_MacroWriter(entry, target).text()}"


def digest(source_isa: str, target: str) -> str:
    """Of every macro that the table gives a target: changes with the entries and with how they are written."""
    from icml.tools.migrate.table import load

    table = load(source_isa)
    return sha256("\n".join(macro(table[name], target) for name in sorted(table)).encode()).hexdigest()


def inline(entry: Entry, target: str, arguments: Sequence[str]) -> str:
    """The expression itself, its parameters replaced by the text of a call's arguments.

    Raises:
        InputError: the call has another number of arguments.
    """
    if len(arguments) != len(entry.args):
        raise InputError(f"{entry.name} takes {len(entry.args)} arguments, got {len(arguments)}")
    body = macro(entry, target).partition(") ")[2]
    texts = {f"{arg.name}_": f"({text})" for arg, text in zip(entry.args, arguments, strict=True)}
    if not texts:
        return body
    return re.sub(rf"\b({'|'.join(map(re.escape, texts))})\b", lambda found: texts[found[1]], body)


class _MacroWriter:
    """Writes one macro's body."""

    def __init__(self, entry: Entry, target: str) -> None:
        self.entry = entry
        self.args = {arg.name: arg for arg in entry.args}
        self.body = lowered(entry.body, target)
        self.statements: list[str] = []
        self.nodes = NodeWriter(target, self._leaf, self._temporary)
        self.uses: dict[int, int] = {}
        for node in walk(self.body):
            for arg in node.args:
                self.uses[id(arg)] = self.uses.get(id(arg), 0) + 1
        for node in roots(self.body):
            self.uses[id(node)] = self.uses.get(id(node), 0) + 1
        self.written: dict[int, str] = {}
        self.count = 0

    def text(self) -> str:
        declared = [self._declare(arg) for arg in self.entry.args if arg.kind != "imm"]
        for node in walk(self.body):
            self._write(node)
        if isinstance(self.body, list):
            ends = [self._store(part) for part in self.body] + ["(void)0;"]
        elif isinstance(self.body, Expr):
            ends = [self._returned(self.body) + ";"]
        else:
            result = self._name("r")
            ends = [f"{self.entry.result} {result};"]
            ends += [f"{result}.val[{i}]={self.written[id(part)]};" for i, part in enumerate(self.body)]
            ends.append(f"{result};")
        return "({ " + " ".join([*declared, *self.statements, *ends]) + " })"

    def _name(self, name: str) -> str:
        return f"{self.entry.name}_{name}"

    def _declare(self, arg: Arg) -> str:
        if arg.kind in ("in", "out"):
            scalar = c_scalar(arg.type)
            kind = f"const {scalar}*" if arg.kind == "in" else f"{scalar}*"
            return f"{kind} {self._name(arg.name)}=({kind})({arg.name}_);"
        return f"{arg.ctype} {self._name(arg.name)}=({arg.name}_);"

    def _write(self, node: Expr) -> None:
        text = self.nodes.write(node, [self.written[id(arg)] for arg in node.args])
        if self.uses.get(id(node), 0) > 1 and node.op not in ("param", "member", "const"):
            text = self._temporary(c_name(node.type), text)
        self.written[id(node)] = text

    def _temporary(self, kind: str, text: str) -> str:
        name = self._name(f"t{self.count}")
        self.count += 1
        self.statements.append(f"{kind} {name}={text};")
        return name

    def _leaf(self, node: Expr) -> str:
        """A parameter, read as the type that expressions hold."""
        arg = self.args[str(node.attr[0])]
        name = self._name(arg.name)
        if node.op == "load":
            return self._load(node, name)
        if node.op == "pointer":
            return name
        if node.op == "member":
            return self._as_held(arg, node, f"{name}.val[{node.attr[1]}]")
        if not node.type.lanes and stored(node.type) != node.type:
            return f"__builtin_bit_cast({c_scalar(node.type)},{name})"
        return self._as_held(arg, node, name)

    def _as_held(self, arg: Arg, node: Expr, text: str) -> str:
        """Cast unless the user's type is the same vector."""
        known = emit_types.user_type(arg.ctype)
        same = known is not None and known[0] == node.type == stored(node.type)
        return text if same or not node.type.lanes else f"(({c_name(node.type)}){text})"

    def _load(self, node: Expr, name: str) -> str:
        offset = int(str(node.attr[1]))
        place = f"({name}+{offset})" if offset else name
        return f"(*(const {c_name(node.type) if node.type.lanes else f'icm_{stored(node.type)}'}_u*){place})"

    def _store(self, part: Store) -> str:
        name = self._name(part.pointer)
        place = f"({name}+{part.offset})" if part.offset else name
        held = part.value.type
        kind = f"{c_name(held)}_u" if held.lanes else f"icm_{stored(held)}_u"
        return f"*({kind}*){place}={self.written[id(part.value)]};"

    def _returned(self, node: Expr) -> str:
        text = self.written[id(node)]
        if not node.type.lanes and stored(node.type) != node.type:
            return f"__builtin_bit_cast({self.entry.result},{text})"
        return f"({self.entry.result}){text}"
