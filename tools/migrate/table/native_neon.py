"""Arm's own intrinsics, for kernels that come to NEON from x86 (Arm ACLE)."""

from __future__ import annotations

from collections.abc import Sequence

from icml.tools.migrate.table.expr import Expr
from icml.tools.migrate.table.native_forms import (
    Rule,
    Rules,
    Temporary,
    half_and_single,
    one_table,
    same_width_conversion,
)
from icml.tools.migrate.table.types import c_name


def _table(node: Expr, args: Sequence[str], temporary: Temporary) -> str:
    q = "q" if node.type.size == 16 else ""
    call = f"vqtbl1{q}_u8((uint8x16_t){args[0]},(uint8x{node.type.lanes}_t){args[1]})"
    return f"(({c_name(node.type)}){call})"


def _to_integer(node: Expr, args: Sequence[str], temporary: Temporary) -> str:
    bits, lanes = node.type.bits, node.type.lanes
    q = "q" if node.type.size == 16 else ""
    return f"(({c_name(node.type)})vcvt{q}_{node.type.kind}{bits}_f{bits}((float{bits}x{lanes}_t){args[0]}))"


def _half(node: Expr, args: Sequence[str], temporary: Temporary) -> str:
    """Half to single and back are base instructions there, which clang knows as conversions."""
    half = f"icm_h16x{node.type.lanes}"
    if node.type.bits == 16:
        return f"(({c_name(node.type)})__builtin_convertvector({args[0]},{half}))"
    return f"__builtin_convertvector((({half}){args[0]}),{c_name(node.type)})"


RULES: Rules = {
    "table": Rule(one_table, _table),
    "ftoi": Rule(lambda node: same_width_conversion(node) and node.type.size <= 16, _to_integer),
    "convert": Rule(half_and_single, _half),
}
