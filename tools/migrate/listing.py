"""Reads compilers' assembly: which instructions each function has, and which of them work on vectors."""

from __future__ import annotations

import re

from icml.tools.migrate.targets import Target

_LABEL = re.compile(r'^"?([A-Za-z_$][\w$.]*)"?:')
_INSTRUCTION = re.compile(r"^\s+([a-z][\w.]*)(.*)")
# Vector instructions by target: by their name, or on Arm and x86 by a vector register among the operands.
_BY_NAME = {
    "riscv64": re.compile(r"v(?!set)\w+\."),
    "loongarch64": re.compile(r"x?v[a-z]\w*(\.|$)|x?v(ld|st)x?$"),
}
_BY_OPERAND = {"aarch64": re.compile(r"\bv\d+\.|\bq\d+\b"), "x86_64": re.compile(r"%[xyz]mm\d+")}


def instructions(text: str) -> dict[str, list[str]]:
    """Instructions with their operands, by function, in order."""
    result: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in text.splitlines():
        label = _LABEL.match(line)
        if label:
            current = result.setdefault(label[1], [])
        elif current is not None and (found := _INSTRUCTION.match(line)):
            current.append(" ".join((found[1] + found[2]).split("#")[0].split()))
    return {name: body for name, body in result.items() if body}


def vector_instructions(lines: list[str], target: Target) -> list[str]:
    """Those that compute on, load or store vectors."""
    if target.arch in _BY_NAME:
        return [line for line in lines if _BY_NAME[target.arch].match(line.split()[0])]
    return [line for line in lines if _BY_OPERAND[target.arch].search(line)]
