"""One operation of a lane expression as a C expression."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from math import isnan

from icml.tools.migrate.table.expr import Expr, Imm
from icml.tools.migrate.table.native import native
from icml.tools.migrate.table.types import Type, c_name, c_scalar, stored

_INFIX = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "and": "&",
    "or": "|",
    "xor": "^",
    "shl": "<<",
    "shr": ">>",
}
_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_ELEMENTWISE = {
    "max": "max",
    "min": "min",
    "addsat": "add_sat",
    "subsat": "sub_sat",
    "popcount": "popcount",
    "bitreverse": "bitreverse",
    "sqrt": "sqrt",
    "floor": "floor",
    "ceil": "ceil",
    "trunc": "trunc",
    "roundeven": "roundeven",
    "round": "round",
    "fma": "fma",
    "maximum": "maximum",
    "minimum": "minimum",
    "maximumnum": "maximumnum",
    "minimumnum": "minimumnum",
}
# Operations whose result is the same bits for signed and unsigned lanes and which may wrap: done on unsigned lanes,
# because C leaves signed overflow undefined.
_WRAPPING = {"add", "sub", "mul", "shl"}


class NodeWriter:
    """Writes nodes whose arguments are already written.

    Args:
        target: instruction set.
        leaf: writes parameters and loads.
        temporary: declares a variable of a C type with a value and returns its name.
    """

    def __init__(
        self, target: str, leaf: Callable[[Expr], str], temporary: Callable[[str, str], str]
    ) -> None:
        self.target = target
        self.leaf = leaf
        self.temporary = temporary
        self.writers: dict[str, Callable[[Expr, Sequence[str]], str]] = {
            **dict.fromkeys(("param", "member", "load", "pointer"), lambda node, args: leaf(node)),
            **dict.fromkeys(_INFIX, self._infix),
            **dict.fromkeys(("shli", "shri"), self._shift),
            **dict.fromkeys(_COMPARE, self._compare),
            **dict.fromkeys(_ELEMENTWISE, self._elementwise),
        }

    def write(self, node: Expr, args: Sequence[str]) -> str:
        own = native(self.target, node, args, self.temporary)
        if own is not None:
            return own
        writer: Callable[[Expr, Sequence[str]], str] = self.writers.get(node.op) or getattr(
            self, f"_{node.op}"
        )
        return writer(node, args)

    def _compare(self, node: Expr, args: Sequence[str]) -> str:
        return f"(({c_name(node.type)})({args[0]}{_COMPARE[node.op]}{self._operand(node, args)}))"

    def _elementwise(self, node: Expr, args: Sequence[str]) -> str:
        return f"__builtin_elementwise_{_ELEMENTWISE[node.op]}({','.join(args)})"

    def _operand(self, node: Expr, args: Sequence[str], type: Type | None = None) -> str:
        """The second operand; a constant as one number, which C spreads over the lanes."""
        constant = node.args[1]
        if constant.op == "const" and not constant.attr[1] and node.args[0].op != "const":
            return number(constant.attr[0], type or constant.type)
        return args[1] if type is None else f"(({c_name(type)}){args[1]})"

    def _infix(self, node: Expr, args: Sequence[str]) -> str:
        sign = _INFIX[node.op]
        if node.op in _WRAPPING and node.type.kind == "s":
            held = node.type.unsigned
            right = self._operand(node, args, held)
            return f"(({c_name(node.type)})((({c_name(held)}){args[0]}){sign}{right}))"
        return f"({args[0]}{sign}{self._operand(node, args)})"

    def _shift(self, node: Expr, args: Sequence[str]) -> str:
        amount = f"({c_scalar(node.type)}){constant_text(node.attr[0])}"
        if node.op == "shli" and node.type.kind == "s":
            held = node.type.unsigned
            return (
                f"(({c_name(node.type)})((({c_name(held)}){args[0]})<<{amount.replace('(int', '(uint', 1)}))"
            )
        return f"({args[0]}{'<<' if node.op == 'shli' else '>>'}{amount})"

    def _const(self, node: Expr, args: Sequence[str]) -> str:
        value, many = node.attr
        if not node.type.lanes:
            return number(value, node.type)
        parts = value if many else (value,) * node.type.lanes
        assert isinstance(parts, tuple)
        if not any(parts) and not node.type.is_float:
            return f"(({c_name(node.type)}){{0}})"
        return f"(({c_name(node.type)}){{{','.join(bare_number(part, node.type) for part in parts)}}})"

    def _imm(self, node: Expr, args: Sequence[str]) -> str:
        return f"(({c_scalar(node.type)}){constant_text(node.attr[0])})"

    def _not(self, node: Expr, args: Sequence[str]) -> str:
        return f"(~{args[0]})"

    def _neg(self, node: Expr, args: Sequence[str]) -> str:
        if node.type.kind == "s":
            return f"(({c_name(node.type)})(-(({c_name(node.type.unsigned)}){args[0]})))"
        return f"(-{args[0]})"

    def _abs(self, node: Expr, args: Sequence[str]) -> str:
        return f"__builtin_elementwise_abs({args[0]})"

    def _clz(self, node: Expr, args: Sequence[str]) -> str:
        held = c_name(node.type.unsigned)
        zero = f"(({held}){{{','.join([str(node.type.bits)] * node.type.lanes)}}})"
        return f"(({c_name(node.type)})__builtin_elementwise_clzg(({held}){args[0]},{zero}))"

    def _convert(self, node: Expr, args: Sequence[str]) -> str:
        if not node.type.lanes:
            return f"(({c_scalar(node.type)}){args[0]})"
        return f"__builtin_convertvector({args[0]},{c_name(node.type)})"

    def _bitcast(self, node: Expr, args: Sequence[str]) -> str:
        before, after = node.args[0].type, node.type
        if stored(before) == stored(after):
            return args[0]
        if before.lanes and after.lanes:
            return f"(({c_name(after)}){args[0]})"
        if not before.lanes and not after.lanes and not (stored(before).is_float or stored(after).is_float):
            return f"(({c_scalar(after)}){args[0]})"
        return f"__builtin_bit_cast({c_name(after)},{args[0]})"

    def _opaque(self, node: Expr, args: Sequence[str]) -> str:
        return args[0]

    def _shuffle(self, node: Expr, args: Sequence[str]) -> str:
        index = node.attr[0]
        assert isinstance(index, tuple)
        lanes = ",".join(constant_text(part) for part in index)
        return f"(({c_name(node.type)})__builtin_shufflevector({args[0]},{args[1]},{lanes}))"

    def _lane(self, node: Expr, args: Sequence[str]) -> str:
        return f"({args[0]}[{constant_text(node.attr[0])}])"

    def _splat(self, node: Expr, args: Sequence[str]) -> str:
        number_ = args[0] if re.fullmatch(r"\w+", args[0]) else self.temporary(c_scalar(node.type), args[0])
        return f"(({c_name(node.type)}){{{','.join([number_] * node.type.lanes)}}})"

    def _insert(self, node: Expr, args: Sequence[str]) -> str:
        # A temporary of its own: the vector may be used again. The assignment is made part of the declaration's
        # value by a statement expression, so that order stays that of the nodes.
        kind, name = c_name(node.type), "icm_v"
        number_ = args[1] if re.fullmatch(r"\w+", args[1]) else self.temporary(c_scalar(node.type), args[1])
        vector = args[0] if re.fullmatch(r"\w+", args[0]) else self.temporary(kind, args[0])
        index = constant_text(node.attr[0])
        return f"({{ {kind} {name}={vector}; {name}[{index}]={number_}; {name}; }})"

    def _select(self, node: Expr, args: Sequence[str]) -> str:
        mask, yes, no = args
        held = c_name(stored(node.type).unsigned)
        plain = re.fullmatch(r"\w+", mask)
        name = mask if plain else self.temporary(held, mask)
        joined = f"(({name}&(({held}){yes}))|(~{name}&(({held}){no})))"
        return joined if stored(node.type).kind == "u" else f"(({c_name(node.type)}){joined})"

    def _immif(self, node: Expr, args: Sequence[str]) -> str:
        return f"({constant_text(node.attr[0])}?{args[0]}:{args[1]})"

    def _reduce(self, node: Expr, args: Sequence[str], name: str) -> str:
        source = node.args[0].type
        if name == "add" and source.kind == "s":
            return f"(({c_scalar(node.type)})__builtin_reduce_add(({c_name(source.unsigned)}){args[0]}))"
        return f"__builtin_reduce_{name}({args[0]})"

    def _reduce_add(self, node: Expr, args: Sequence[str]) -> str:
        return self._reduce(node, args, "add")

    def _reduce_max(self, node: Expr, args: Sequence[str]) -> str:
        return self._reduce(node, args, "max")

    def _reduce_min(self, node: Expr, args: Sequence[str]) -> str:
        return self._reduce(node, args, "min")

    def _reduce_or(self, node: Expr, args: Sequence[str]) -> str:
        return self._reduce(node, args, "or")

    def _is_zero(self, node: Expr, args: Sequence[str]) -> str:
        return f"(({c_scalar(node.type)})({args[0]}==0))"

    def _build(self, node: Expr, args: Sequence[str]) -> str:
        return f"(({c_name(node.type)}){{{','.join(args)}}})"

    def _pick(self, node: Expr, args: Sequence[str]) -> str:
        return f"({args[0]}[{args[1]}])"

    def _signs(self, node: Expr, args: Sequence[str]) -> str:
        """Through a vector of bits, whose bytes are the mask; short ones are filled up with lanes that are 0."""
        source = node.args[0].type
        truth, lanes = f"(({c_name(source)})({args[0]}<0))", source.lanes
        if lanes < 8:
            zero = f"(({c_name(source)}){{0}})"
            order = ",".join(str(min(i, lanes)) for i in range(8))
            truth, lanes = f"__builtin_shufflevector({truth},{zero},{order})", 8
        return f"__builtin_bit_cast({c_scalar(node.type)},__builtin_convertvector({truth},icm_bits{lanes}))"

    def _gather(self, node: Expr, args: Sequence[str]) -> str:
        base, index = args
        index = index if re.fullmatch(r"\w+", index) else self.temporary(c_name(node.args[1].type), index)
        scale = constant_text(node.attr[1])
        scalar = f"icm_{stored(node.type.element)}_u"
        parts = (
            f"*(const {scalar}*)((const char*){base}+(int64_t){index}[{i}]*{scale})"
            for i in range(node.type.lanes)
        )
        return f"(({c_name(node.type)}){{{','.join(parts)}}})"


def constant_text(value: object) -> str:
    """An immediate as a constant expression over the macro's parameters."""
    if isinstance(value, Imm):
        return re.sub(r"\b([A-Za-z]\w*)\b", r"(\1_)", str(value))
    return str(value)


def number(value: object, type: Type) -> str:
    """A constant as an expression of its lane's C type."""
    if stored(type).is_float:
        return bare_number(value, type)
    return f"(({c_scalar(type)}){bare_number(value, type)})"


def bare_number(value: object, type: Type) -> str:
    """A constant as a literal that converts to its lane's type without loss."""
    if type.is_float and type.bits == 16:
        assert isinstance(value, int | float)
        code = "<e" if type.kind == "f" else "<f"
        raw = struct.pack(code, value)
        return hex(int.from_bytes(raw[-2:], "little"))
    if type.is_float:
        return _float_text(float(str(value)), type.bits)
    held = int(str(value)) & ((1 << type.bits) - 1)
    if type.kind == "s":
        signed = held - (1 << type.bits) if held >> (type.bits - 1) else held
        if signed == type.min and type.bits >= 32:
            return f"(-{type.max}{'LL' if type.bits == 64 else ''}-1)"
        return f"{signed}{'LL' if type.bits == 64 else ''}"
    return f"{held:#x}{'ULL' if type.bits == 64 else 'u'}" if held > 9 else f"{held}u"


def _float_text(value: float, bits: int) -> str:
    suffix = "f" if bits == 32 else ""
    if isnan(value):
        return f'__builtin_nan{suffix}("")'
    if value in (float("inf"), float("-inf")):
        return f"{'-' if value < 0 else ''}__builtin_inf{suffix}()"
    return f"({value.hex()}{suffix})" if value < 0 else f"{value.hex()}{suffix}"
