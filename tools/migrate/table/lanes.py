"""Runs lane expressions in numpy: the table's own account of an intrinsic, to be held against real hardware.

Vectors are arrays whose last axis is the lanes; leading axes are a batch. bfloat16 lanes are their 16 bits as uint16.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icml.tools.migrate.table.entry import Arg, Entry
from icml.tools.migrate.table.expr import Expr, Imm, imm_value, walk
from icml.tools.migrate.table.floats import float_to_int, fused, maximum, maximum_number
from icml.tools.migrate.table.types import Type

Array = NDArray[Any]


def dtype(type: Type) -> np.dtype[Any]:
    """numpy's type of a lane."""
    kind = {"s": "i", "u": "u", "f": "f", "b": "u"}[type.kind]
    return np.dtype(f"{kind}{type.bits // 8}")


def evaluate(entry: Entry, values: Sequence[object]) -> Any:
    """What an intrinsic computes.

    Args:
        entry: the intrinsic.
        values: one per parameter: an array (..., lanes) for a vector, (...) for a number, a list of arrays for a tuple,
            an int for an immediate, the elements (..., n) behind a pointer.

    Returns:
        An array; a tuple of arrays where the intrinsic returns a struct or writes through several pointers; for a
        store the memory behind the pointer as it is afterwards.
    """
    results = evaluate_all(entry, values)
    return results[0] if len(results) == 1 else tuple(results)


def evaluate_all(entry: Entry, values: Sequence[object]) -> list[Array]:
    """`evaluate` as a list."""
    if len(values) != len(entry.args):
        raise TypeError(f"{entry.name} takes {len(entry.args)} arguments, got {len(values)}")
    run = _Run(entry, values)
    if not entry.stores:
        return [run.value(value) for value in entry.values]
    memory = {a.name: np.array(run.inputs[a.name], copy=True) for a in entry.args if a.kind == "out"}
    for store in entry.stores:
        value = run.value(store.value)
        target = memory[store.pointer]
        lanes = max(store.value.type.lanes, 1)
        part = value if store.value.type.lanes else value[..., None]
        target[..., store.offset : store.offset + lanes] = part.view(target.dtype)
    return list(memory.values())


class _Run:
    """One evaluation: inputs by name, results by node."""

    def __init__(self, entry: Entry, values: Sequence[object]) -> None:
        self.inputs: dict[str, Any] = {}
        self.imms: dict[str, int] = {}
        for arg, value in zip(entry.args, values, strict=True):
            if arg.kind == "imm":
                self.imms[arg.name] = int(np.asarray(value))
                if self.imms[arg.name] not in arg.numbers:
                    raise ValueError(f"{entry.name}: {arg.name} is not in {arg.low}..{arg.high}")
            else:
                self.inputs[arg.name] = _prepare(arg, value)
        self.done: dict[int, Array] = {}

    def value(self, root: Expr) -> Array:
        with np.errstate(all="ignore"):
            for node in walk(root):
                if id(node) not in self.done:
                    self.done[id(node)] = self._compute(node)
        return self.done[id(root)]

    def _compute(self, node: Expr) -> Array:
        args = [self.done[id(arg)] for arg in node.args]
        if not args and node.op != "const":
            return self._leaf(node)
        if node.op == "immif":
            return args[0] if self._imm(node.attr[0]) else args[1]
        if node.op in _INDEXED:
            return _INDEXED[node.op](node, args, self._imm)
        return _OPS[node.op](node, args)

    def _leaf(self, node: Expr) -> Array:
        if node.op == "load":
            return self._load(node)
        if node.op == "imm":
            return np.asarray(self._imm(node.attr[0])).astype(dtype(node.type))
        value = self.inputs[str(node.attr[0])]
        return np.asarray(value[int(str(node.attr[1]))] if node.op == "member" else value)

    def _imm(self, value: object) -> int:
        assert isinstance(value, int | Imm)
        return imm_value(value, self.imms)

    def _load(self, node: Expr) -> Array:
        pointer, offset = str(node.attr[0]), int(str(node.attr[1]))
        memory = self.inputs[pointer]
        if not node.type.lanes:
            return np.asarray(memory[..., offset]).view(dtype(node.type))
        part = np.ascontiguousarray(memory[..., offset : offset + node.type.lanes])
        return part.view(dtype(node.type))


def _prepare(arg: Arg, value: object) -> Any:
    if arg.kind == "tuple":
        return [np.asarray(part, dtype=dtype(arg.type)) for part in value]  # type: ignore[attr-defined]
    return np.asarray(value, dtype=dtype(arg.type))


def _integers(node: Expr) -> bool:
    return not node.args[0].type.is_float


def _const(node: Expr, args: list[Array]) -> Array:
    value, many = node.attr
    kind = dtype(node.type)
    if many:
        return np.array([_wrap(item, kind) for item in value], dtype=kind)  # type: ignore[attr-defined]
    return np.full(node.type.lanes or (), _wrap(value, kind), dtype=kind)


def _wrap(value: object, kind: np.dtype[Any]) -> Any:
    if kind.kind == "f":
        return kind.type(value)
    bits = 8 * kind.itemsize
    number = int(str(value)) & ((1 << bits) - 1)
    return number - (1 << bits) if kind.kind == "i" and number >> (bits - 1) else number


def _convert(node: Expr, args: list[Array]) -> Array:
    return args[0].astype(dtype(node.type))


def _bitcast(node: Expr, args: list[Array]) -> Array:
    source, kind = args[0], dtype(node.type)
    before, after = node.args[0].type.lanes, node.type.lanes
    data = np.ascontiguousarray(source)
    if not before:
        data = data[..., None]
    data = data.view(kind)
    return data if after else data[..., 0]


def _mask(node: Expr, truth: Array) -> Array:
    kind = dtype(node.type)
    return np.where(truth, _wrap(-1, kind), 0).astype(kind)


def _select(node: Expr, args: list[Array]) -> Array:
    kind = dtype(node.args[0].type)
    mask, yes, no = args[0], args[1].view(kind), args[2].view(kind)
    return np.asarray((mask & yes) | (~mask & no)).view(dtype(node.type))


def _saturate(node: Expr, wide: Array) -> Array:
    return np.clip(wide, node.type.min, node.type.max).astype(dtype(node.type))


def _add_sat(node: Expr, args: list[Array], sign: int) -> Array:
    a, b = args
    bits = node.type.bits
    if bits < 64:
        return _saturate(node, a.astype(np.int64) + sign * b.astype(np.int64))
    total = a + b if sign > 0 else a - b
    if node.type.kind == "u":
        over, limit = (total < a, node.type.max) if sign > 0 else (a < b, 0)
        return np.where(over, dtype(node.type).type(limit), total)
    flipped = b ^ total if sign > 0 else a ^ b
    over = ((a ^ total) & flipped) < 0
    return np.where(over, np.where(a < 0, np.int64(node.type.min), np.int64(node.type.max)), total)


def _rshr(node: Expr, args: list[Array], imm: Callable[[object], int]) -> Array:
    amount, bits = imm(node.attr[0]), node.type.bits
    value = args[0]
    carry = (value >> dtype(node.type).type(amount - 1)) & dtype(node.type).type(1)
    shifted = value >> dtype(node.type).type(min(amount, bits - 1))
    if amount >= bits and node.type.kind == "u":
        shifted = np.zeros_like(value)
    return np.asarray(shifted + carry)


def _average(node: Expr, args: list[Array]) -> Array:
    total = args[0].astype(np.int64) + args[1].astype(np.int64) + int(str(node.attr[0]))
    return np.asarray(total >> 1).astype(dtype(node.type))


def _long_pairs(node: Expr, args: list[Array]) -> Array:
    wide = args[0].astype(dtype(node.type))
    return np.asarray(wide[..., ::2] + wide[..., 1::2])


def _pair_products(node: Expr, args: list[Array]) -> Array:
    product = args[0].astype(np.int32) * args[1].astype(np.int32)
    return np.asarray(product[..., ::2] + product[..., 1::2])


def _unweave(node: Expr, args: list[Array]) -> Array:
    number, count = (int(str(part)) for part in node.attr)
    return np.ascontiguousarray(args[0][..., number::count])


def _weave(node: Expr, args: list[Array]) -> Array:
    stacked = np.stack(np.broadcast_arrays(*args), axis=-1)
    return np.asarray(stacked.reshape(*stacked.shape[:-2], -1))


def _mulhd(node: Expr, args: list[Array]) -> Array:
    bits, rounding = node.type.bits, node.attr[0]
    product = args[0].astype(np.int64) * args[1].astype(np.int64)
    if rounding:
        product = product + (1 << (bits - 2))
    return _saturate(node, product >> (bits - 1))


def _table(node: Expr, args: list[Array]) -> Array:
    *parts, index = args
    table = np.concatenate(np.broadcast_arrays(*parts), axis=-1) if len(parts) > 1 else parts[0]
    table = np.broadcast_to(
        table, (*np.broadcast_shapes(table.shape[:-1], index.shape[:-1]), table.shape[-1])
    )
    index = np.broadcast_to(index, (*table.shape[:-1], index.shape[-1])).astype(np.int64) & 255
    inside = index < table.shape[-1]
    found = np.take_along_axis(table, np.where(inside, index, 0), axis=-1)
    return np.where(inside, found, 0).astype(dtype(node.type))


def _gather(node: Expr, args: list[Array], imm: Callable[[object], int]) -> Array:
    memory, index = args
    scale, step = imm(node.attr[1]), node.type.bits // 8
    data = np.ascontiguousarray(memory).view(np.uint8)
    start = index.astype(np.int64) * scale
    offsets = (start[..., None] + np.arange(step)).reshape(*start.shape[:-1], -1)
    return np.ascontiguousarray(np.take_along_axis(data, offsets, axis=-1)).view(dtype(node.type))


def _shuffle(node: Expr, args: list[Array], imm: Callable[[object], int]) -> Array:
    index = [imm(part) for part in node.attr[0]]  # type: ignore[attr-defined]
    both = np.concatenate(np.broadcast_arrays(*args), axis=-1)
    return np.ascontiguousarray(both[..., index])


def _insert(node: Expr, args: list[Array], imm: Callable[[object], int]) -> Array:
    vector, number = args
    batch = np.broadcast_shapes(vector.shape[:-1], number.shape)
    result = np.array(np.broadcast_to(vector, (*batch, vector.shape[-1])))
    result[..., imm(node.attr[0])] = number
    return result


def _shift_imm(left: bool) -> Callable[[Expr, list[Array], Callable[[object], int]], Array]:
    def shift(node: Expr, args: list[Array], imm: Callable[[object], int]) -> Array:
        amount = imm(node.attr[0])
        # Out of range only in the branch of an immif that is not taken.
        amount = min(max(amount, 0), node.type.bits - 1)
        by = dtype(node.type).type(amount)
        return np.asarray(args[0] << by if left else args[0] >> by)

    return shift


def _divide(node: Expr, args: list[Array]) -> Array:
    if node.type.is_float:
        return np.asarray(args[0] / args[1])
    return np.asarray(args[0] // args[1])


def _bit_count(node: Expr, args: list[Array]) -> Array:
    """Of bytes."""
    bits = np.unpackbits(args[0].view(np.uint8)[..., None], axis=-1)
    return np.asarray(bits.sum(axis=-1).astype(dtype(node.type)))


def _leading_zeros(node: Expr, args: list[Array]) -> Array:
    value = args[0].view(dtype(node.type.unsigned))
    count = np.zeros(value.shape, dtype=np.int64)
    live = np.ones(value.shape, dtype=bool)
    for bit in reversed(range(node.type.bits)):
        live = live & ((value >> value.dtype.type(bit)) & value.dtype.type(1) == 0)
        count += live
    return count.astype(dtype(node.type))


def _reverse_bits(node: Expr, args: list[Array]) -> Array:
    value = args[0].view(np.uint8)
    return np.packbits(np.unpackbits(value[..., None], axis=-1)[..., ::-1], axis=-1)[..., 0].view(
        dtype(node.type)
    )


_INDEXED: dict[str, Callable[[Expr, list[Array], Callable[[object], int]], Array]] = {
    "shuffle": _shuffle,
    "insert": _insert,
    "lane": lambda n, a, imm: a[0][..., imm(n.attr[0])],
    "shli": _shift_imm(left=True),
    "shri": _shift_imm(left=False),
    "rshr": _rshr,
    "gather": _gather,
}

_OPS: dict[str, Callable[[Expr, list[Array]], Array]] = {
    "const": _const,
    "convert": _convert,
    "bitcast": _bitcast,
    "opaque": lambda n, a: a[0],
    "splat": lambda n, a: np.repeat(a[0][..., None], n.type.lanes, axis=-1),
    "add": lambda n, a: a[0] + a[1],
    "sub": lambda n, a: a[0] - a[1],
    "mul": lambda n, a: a[0] * a[1],
    "div": _divide,
    "and": lambda n, a: a[0] & a[1],
    "or": lambda n, a: a[0] | a[1],
    "xor": lambda n, a: a[0] ^ a[1],
    "not": lambda n, a: ~a[0],
    "neg": lambda n, a: -a[0],
    "abs": lambda n, a: np.abs(a[0]),
    "shl": lambda n, a: a[0] << a[1],
    "shr": lambda n, a: a[0] >> a[1],
    "max": lambda n, a: np.maximum(a[0], a[1]),
    "min": lambda n, a: np.minimum(a[0], a[1]),
    "addsat": lambda n, a: _add_sat(n, a, 1),
    "subsat": lambda n, a: _add_sat(n, a, -1),
    "eq": lambda n, a: _mask(n, a[0] == a[1]),
    "ne": lambda n, a: _mask(n, a[0] != a[1]),
    "lt": lambda n, a: _mask(n, a[0] < a[1]),
    "le": lambda n, a: _mask(n, a[0] <= a[1]),
    "gt": lambda n, a: _mask(n, a[0] > a[1]),
    "ge": lambda n, a: _mask(n, a[0] >= a[1]),
    "select": _select,
    "average": _average,
    "long_pairs": _long_pairs,
    "pair_products": _pair_products,
    "unweave": _unweave,
    "weave": _weave,
    "mulhd": _mulhd,
    "table": _table,
    "popcount": _bit_count,
    "clz": _leading_zeros,
    "bitreverse": _reverse_bits,
    "pick": lambda n, a: np.take_along_axis(a[0], a[1].astype(np.int64)[..., None], axis=-1)[..., 0],
    "build": lambda n, a: np.stack(np.broadcast_arrays(*a), axis=-1),
    "signs": lambda n, a: _signs(n, a[0]),
    "is_zero": lambda n, a: (a[0] == 0).astype(dtype(n.type)),
    "reduce_or": lambda n, a: np.bitwise_or.reduce(a[0], axis=-1),
    "reduce_add": lambda n, a: a[0].sum(axis=-1, dtype=a[0].dtype),
    "reduce_max": lambda n, a: a[0].max(axis=-1),
    "reduce_min": lambda n, a: a[0].min(axis=-1),
    "sqrt": lambda n, a: np.sqrt(a[0]),
    "floor": lambda n, a: np.floor(a[0]),
    "ceil": lambda n, a: np.ceil(a[0]),
    "trunc": lambda n, a: np.trunc(a[0]),
    "roundeven": lambda n, a: np.rint(a[0]),
    "round": lambda n, a: np.copysign(np.floor(np.abs(a[0]) + _half_below(a[0])), a[0]),
    "fma": lambda n, a: fused(a[0], a[1], a[2]),
    "maximum": lambda n, a: maximum(a[0], a[1], 1),
    "minimum": lambda n, a: maximum(a[0], a[1], -1),
    "maximumnum": lambda n, a: maximum_number(a[0], a[1], 1),
    "minimumnum": lambda n, a: maximum_number(a[0], a[1], -1),
    "ftoi": lambda n, a: float_to_int(a[0], dtype(n.type)),
}


def _signs(node: Expr, value: Array) -> Array:
    """Bit i is the sign of lane i."""
    weights = np.left_shift(np.uint64(1), np.arange(value.shape[-1], dtype=np.uint64))
    mask = np.where(value < 0, weights, np.uint64(0)).sum(axis=-1, dtype=np.uint64)
    return np.asarray(mask.astype(dtype(node.type)))


def _half_below(value: Array) -> Array:
    """0.5, or the number below it where |x| + 0.5 would round up past the integer."""
    magnitude = np.abs(value)
    exact = magnitude - np.floor(magnitude) >= 0.5
    return np.where(exact, np.array(0.5, value.dtype), np.array(0, value.dtype))
