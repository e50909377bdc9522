"""Which operations a target has an instruction for that clang does not find in portable C, and how each is written."""

from __future__ import annotations

from collections.abc import Sequence

from icml.tools.migrate.table import native_lsx, native_neon, native_rvv
from icml.tools.migrate.table.expr import Expr
from icml.tools.migrate.table.native_forms import Rules, Temporary

_RULES: dict[str, Rules] = {
    "rvv": native_rvv.RULES,
    "lsx": native_lsx.LSX,
    "lasx": native_lsx.LASX,
    "neon": native_neon.RULES,
}


def has_native(target: str, node: Expr) -> bool:
    """Whether `native` has a form of this node for the target."""
    rule = _RULES.get(target, {}).get(node.op)
    return rule is not None and rule.fits(node)


def native(target: str, node: Expr, args: Sequence[str], temporary: Temporary) -> str | None:
    """The node as C for one target, or None.

    Args:
        target: instruction set.
        node: the operation.
        args: its arguments, written.
        temporary: declares a variable of a C type with a value and returns its name.
    """
    if not has_native(target, node):
        return None
    return _RULES[target][node.op].write(node, args, temporary)
