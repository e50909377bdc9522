"""Says operations that a target lacks in those it has."""

from __future__ import annotations

from collections.abc import Callable

from icml.tools.migrate.table import half
from icml.tools.migrate.table.expr import Body, Expr, Imm, Store, const, imm_if, walk
from icml.tools.migrate.table.native import has_native
from icml.tools.migrate.table.types import Type

# Bits set in each 4-bit number.
_NIBBLES = tuple(bin(number).count("1") for number in range(16))


def lowered(body: Body, target: str) -> Body:
    """The body with every operation replaced that neither portable C nor the target's own instructions have."""
    run = _Lowering(target)
    replaced = {id(node): run.settle(node) for node in walk(body)}
    if isinstance(body, Expr):
        return replaced[id(body)]
    if isinstance(body, tuple):
        return tuple(replaced[id(part)] for part in body)
    return [Store(part.pointer, part.offset, replaced[id(part.value)]) for part in body]


class _Lowering:
    """One body's lowering: what is shared stays shared."""

    def __init__(self, target: str) -> None:
        self.target = target
        # By identity; the nodes are kept beside the results, for an identity is only good while its node lives.
        self.done: dict[int, tuple[Expr, Expr]] = {}

    def settle(self, node: Expr) -> Expr:
        if id(node) in self.done:
            return self.done[id(node)][1]
        args = tuple(self.settle(arg) for arg in node.args)
        same = all(new is old for new, old in zip(args, node.args, strict=True))
        current = node if same else Expr(node.op, node.type, args, node.attr)
        simpler = None if has_native(self.target, current) else _simpler(current, args, self.target)
        result = current if simpler is None else self.settle(simpler)
        self.done[id(node)] = (node, result)
        self.done[id(result)] = (result, result)
        return result


def _simpler(node: Expr, args: tuple[Expr, ...], target: str) -> Expr | None:
    by_half = half.lower(node, args)
    if by_half is not None:
        return by_half
    rule = _RULES.get(node.op)
    return rule(node, args, target) if rule else None


def _rounding_shift(node: Expr, args: tuple[Expr, ...], target: str) -> Expr:
    """rshr by 1..bits: the dead branch of the choice is given an amount that is legal too."""
    amount, bits = node.attr[0], node.type.bits
    value = args[0]
    if isinstance(amount, int):
        return _full_shift(value) if amount == bits else Expr("rshri", node.type, (value,), (amount,))
    assert isinstance(amount, Imm)
    inside = amount & (bits - 1)
    legal = inside + inside.equals(0)
    return imm_if(amount < bits, Expr("rshri", node.type, (value,), (legal,)), _full_shift(value))


def _full_shift(value: Expr) -> Expr:
    """(a + 2^(bits-1)) >> bits: 0 or -1 + carry = 0 for signed lanes, the top bit for unsigned ones."""
    return const(value.type, 0) if value.type.kind == "s" else value >> (value.type.bits - 1)


def _rounding_shift_inside(node: Expr, args: tuple[Expr, ...], target: str) -> Expr:
    amount = node.attr[0]
    assert isinstance(amount, int | Imm)
    return (args[0] >> amount) + ((args[0] >> (amount - 1)) & 1)


def _average(node: Expr, args: tuple[Expr, ...], target: str) -> Expr:
    """Through lanes twice as wide, the form in which LLVM sees an averaging instruction."""
    wide = Type(node.type.kind, 2 * node.type.bits, node.type.lanes)
    total = args[0].convert(wide) + args[1].convert(wide)
    return ((total + 1 if node.attr[0] else total) >> 1).convert(node.type)


def _mulhd(node: Expr, args: tuple[Expr, ...], target: str) -> Expr:
    wide = Type(node.type.kind, 2 * node.type.bits, node.type.lanes)
    product = args[0].convert(wide) * args[1].convert(wide)
    if node.attr[0]:
        product = product + (1 << (node.type.bits - 2))
    return (product >> (node.type.bits - 1)).min(node.type.max).convert(node.type)


def _ftoi(node: Expr, args: tuple[Expr, ...], target: str) -> Expr:
    """Lanes that a C conversion leaves undefined are zeroed before it and set after it."""
    value, type = args[0], node.type
    bound = 2.0 ** (type.bits - (1 if type.kind == "s" else 0))
    big = value.compare("ge", bound)
    masks = value.type.unsigned
    fine = ~big & value.compare("ge", -bound if type.kind == "s" else 0.0)
    inside = (value.cast(masks) & fine).cast(value.type).convert(type)
    if type.kind == "u":
        return inside | big
    small = value.compare("lt", -bound)
    limits = (big.cast(type) & type.max) | (small.cast(type) & type.min)
    return inside | limits


def _popcount(node: Expr, args: tuple[Expr, ...], target: str) -> Expr | None:
    """Bytes by two lookups of four bits where a lookup is one instruction."""
    if target != "rvv" or node.type.bits != 8:
        return None
    value = args[0].as_kind("u")
    table = const(Type("u", 8, 16), _NIBBLES)
    halves = [Expr("table", value.type, (table, part)) for part in (value & 15, value >> 4)]
    return (halves[0] + halves[1]).cast(node.type)


def _long_pairs(node: Expr, args: tuple[Expr, ...], target: str) -> Expr:
    """Sums of neighbours in lanes twice as wide."""
    return args[0].even.convert(node.type) + args[0].odd.convert(node.type)


def _pair_products(node: Expr, args: tuple[Expr, ...], target: str) -> Expr:
    product = args[0].convert(node.type) * args[1].convert(node.type)
    return product.even + product.odd


def _signs(node: Expr, args: tuple[Expr, ...], target: str) -> Expr | None:
    """Masks of longer vectors than a register of LSX holds, register by register."""
    value = args[0]
    if target != "lsx" or value.type.size <= 16 or value.type.lanes <= 8:
        return None
    half = Type("u", max(value.type.lanes // 2, 8), 0)
    low, high = (Expr("signs", half, (part,)).convert(node.type) for part in (value.low, value.high))
    return low | (high << (value.type.lanes // 2))


def _unweave(node: Expr, args: tuple[Expr, ...], target: str) -> Expr:
    """Every count-th lane of interleaved vectors.

    A strided shuffle of one wide load, kept apart from its neighbours, is what LLVM makes a segment load of on RISC-V;
    elsewhere four vectors are parted by halving twice, which is an instruction a step.
    """
    # As integers: of floating-point lanes LLVM does not make segment loads.
    whole = args[0].cast(args[0].type.unsigned)
    number, count = (int(str(part)) for part in node.attr)
    if target.startswith("l") and count == 4 and node.type.size == 16:
        n = node.type.lanes
        parts = [whole.take(range(i * n, (i + 1) * n)) for i in range(4)]
        step = [2 * i + number % 2 for i in range(n)]
        low, high = parts[0].take(step, parts[1]), parts[2].take(step, parts[3])
        return low.take([2 * i + number // 2 for i in range(n)], high).cast(node.type)
    part = whole.take(range(number, whole.type.lanes, count))
    return Expr("opaque", part.type, (part,)).cast(node.type)


def _weave(node: Expr, args: tuple[Expr, ...], target: str) -> Expr:
    """Lane i of each vector, then lane i + 1 of each."""
    n, count = args[0].type.lanes, len(args)
    if target.startswith("l") and count == 4 and args[0].type.size == 16:
        zips = (
            [i // 2 + (n if i % 2 else 0) for i in range(n)],
            [n // 2 + i // 2 + (n if i % 2 else 0) for i in range(n)],
        )
        parts: list[Expr] = []
        for order in zips:
            even, odd = args[0].take(order, args[2]), args[1].take(order, args[3])
            parts += [even.take(final, odd) for final in zips]
        return parts[0].concat(parts[1]).concat(parts[2].concat(parts[3]))
    order = [i % count * n + i // count for i in range(n * count)]
    if count == 2:
        return args[0].take(order, args[1])
    return args[0].concat(args[1]).take(order, args[2].concat(args[-1]))


def _table(node: Expr, args: tuple[Expr, ...], target: str) -> Expr | None:
    """Tables longer than one register: each looked up at its own offset, out of range giving 0."""
    *parts, index = args
    if has_native(target, Expr("table", node.type, (parts[0], index))) is False:
        return _by_halves(node, args)
    result: Expr | None = None
    for number, part in enumerate(parts):
        shifted = index - number * part.type.lanes if number else index
        found = Expr("table", node.type, (part, shifted))
        result = found if result is None else result | found
    return result


def _by_halves(node: Expr, args: tuple[Expr, ...]) -> Expr:
    """Looks up 8 bytes in a table of 16, or splits an index of 32 bytes."""
    *parts, index = args
    if len(parts) == 1 and parts[0].type.lanes == 8:
        # Beyond the table's 8 bytes there are zeros.
        wide = parts[0].concat(const(parts[0].type, 0))
        return Expr("table", node.type, (wide, index))
    if len(parts) > 1 and parts[0].type.lanes == 8:
        padded = [*parts, *([const(parts[0].type, 0)] if len(parts) % 2 else [])]
        pairs = tuple(padded[i].concat(padded[i + 1]) for i in range(0, len(padded), 2))
        return Expr("table", node.type, (*pairs, index))
    if index.type.lanes > 16:
        low, high = (
            Expr("table", node.type.of(index.type.lanes // 2), (*parts, x)) for x in (index.low, index.high)
        )
        return low.concat(high)
    raise AssertionError(f"no form of {node.op} on {node.type}")


_RULES: dict[str, Callable[[Expr, tuple[Expr, ...], str], Expr | None]] = {
    "rshr": _rounding_shift,
    "rshri": _rounding_shift_inside,
    "average": _average,
    "long_pairs": _long_pairs,
    "pair_products": _pair_products,
    "signs": _signs,
    "unweave": _unweave,
    "weave": _weave,
    "mulhd": _mulhd,
    "ftoi": _ftoi,
    "popcount": _popcount,
    "table": _table,
}
