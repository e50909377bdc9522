"""RISC-V "V" 1.0, as inline assembly.

Its intrinsics work on sizeless types, which values of fixed size cannot be cast to. LLVM keeps a vector of fixed size
in the low part of a register group, whatever the registers' length: assembly that sets its own vl computes there.
"""

from __future__ import annotations

from collections.abc import Sequence

from icml.tools.migrate.table.expr import Expr
from icml.tools.migrate.table.native_forms import (
    Rule,
    Rules,
    Temporary,
    immediate,
    in_register,
    named,
    one_table,
    same_width_conversion,
    unsigned,
)
from icml.tools.migrate.table.types import Type, c_name

# Values of vxrm.
_TO_NEAREST_UP, _DOWN = 0, 2


def _multiplier(type: Type) -> str:
    """The register group of a vector of fixed size, as LLVM lays it out for registers of at least 128 bits."""
    eighths = max(type.size // 2, type.bits // 8, 1)
    return f"m{eighths // 8}" if eighths >= 8 else f"mf{8 // eighths}"


def _set_length(type: Type) -> tuple[str, str]:
    """The instruction that sets vl, and the operand it needs."""
    shape = f"e{type.bits},{_multiplier(type)},ta,ma"
    if type.lanes < 32:
        return f"vsetivli zero,{type.lanes},{shape}", ""
    return f"vsetvli zero,%[n],{shape}", f',[n]"r"({type.lanes}L)'


def _assembly(type: Type, code: str, inputs: str, rounding: int | None = None) -> str:
    """One instruction on vectors of `type` that writes %[r]."""
    setting, length = _set_length(type)
    mode, clobbers = "", '"vl","vtype"'
    if rounding is not None:
        mode, clobbers = f"csrwi vxrm,{rounding}\\n\\t", clobbers + ',"vxrm"'
    text = f'__asm__("{setting}\\n\\t{mode}{code}":[r]"=vr"(icm_r):{inputs}{length}:{clobbers})'
    return f"({{ {c_name(type)} icm_r; {text}; icm_r; }})"


def _barrier(node: Expr, args: Sequence[str], temporary: Temporary) -> str:
    """Hides a value's origin, so that LLVM keeps the segment load that made it."""
    return f'({{ {c_name(node.type)} icm_r={args[0]}; __asm__("":"+vr"(icm_r)); icm_r; }})'


def _rounding_shift(node: Expr, args: Sequence[str], temporary: Temporary) -> str:
    (value,) = named(node, args, temporary)
    code = f"vssr{'a' if node.type.kind == 's' else 'l'}.vx %[r],%[a],%[k]"
    inputs = f'[a]"vr"({value}),[k]"r"((long){immediate(node.attr[0])})'
    return _assembly(node.type, code, inputs, _TO_NEAREST_UP)


def _high_product(node: Expr, args: Sequence[str], temporary: Temporary) -> str:
    a, b = named(node, args, temporary)
    rounding = _TO_NEAREST_UP if node.attr[0] else _DOWN
    return _assembly(node.type, "vsmul.vv %[r],%[a],%[b]", f'[a]"vr"({a}),[b]"vr"({b})', rounding)


def _to_integer(node: Expr, args: Sequence[str], temporary: Temporary) -> str:
    """The instruction saturates as Arm's does, but turns NaN into the largest number.

    clang 22 crashes on a float vector as an operand: it is handed over as integers.
    """
    (value,) = named(node, args, temporary)
    code = f"vfcvt.rtz.x{'u' if node.type.kind == 'u' else ''}.f.v %[r],%[a]"
    raw = _assembly(node.type, code, f'[a]"vr"(({c_name(node.type.unsigned)}){value})')
    return f"({raw}&(({c_name(node.type)})({value}=={value})))"


def _table(node: Expr, args: Sequence[str], temporary: Temporary) -> str:
    """Registers may be longer than the table: what lies beyond its bytes is masked away."""
    table, index = named(node, args, temporary)
    name = c_name(node.type)
    # A whole register even where the index has 8 bytes: half of one could not address the table's upper half.
    code = "vsetivli zero,16,e8,m1,ta,ma\\n\\tvrgather.vv %[r],%[a],%[b]"
    text = f'__asm__("{code}":[r]"=&vr"(icm_r):[a]"vr"({table}),[b]"vr"({index}):"vl","vtype")'
    inside = f"(({name})({unsigned(node.args[1].type, index)}<(uint8_t)16))"
    return f"({{ {name} icm_r; {text}; icm_r&{inside}; }})"


RULES: Rules = {
    "opaque": Rule(lambda node: in_register(node) and not node.type.is_float, _barrier),
    "rshri": Rule(in_register, _rounding_shift),
    "mulhd": Rule(lambda node: in_register(node) and node.type.bits in (16, 32), _high_product),
    "ftoi": Rule(same_width_conversion, _to_integer),
    "table": Rule(one_table, _table),
}
