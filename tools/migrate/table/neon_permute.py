"""NEON: moving lanes: between halves, between two vectors, through tables, to and from scalar registers."""

from __future__ import annotations

from collections.abc import Callable

from icml.tools.migrate.table.expr import Expr, Imm, select
from icml.tools.migrate.table.neon_forms import (
    EVERY,
    WIDTHS,
    Neon,
    as_kind,
    bits,
    imm,
    lanes,
    scalar,
    scalar_name,
    suffix,
    tup,
    vec,
    vector_name,
)
from icml.tools.migrate.table.types import Type

_BYTES = ("s8", "u8", "p8")


def define(neon: Neon) -> None:
    for t in EVERY:
        _halves(neon, t)
        for q in WIDTHS:
            _scalars(neon, t, q)
            _reinterpret(neon, t, q)
            if t != "bf16":
                _extract(neon, t, q)
                _reverse(neon, t, q)
                if lanes(t, q) > 1:
                    _interleave(neon, t, q)
    _tables(neon)


def _halves(neon: Neon, t: str) -> None:
    whole, part = vec("a", t, True), vector_name(t, False)
    neon.op(f"vget_low_{t}", "get_low", [whole], part, lambda a: a.low)
    neon.op(f"vget_high_{t}", "get_high", [whole], part, lambda a: a.high)
    halves = [vec("a", t, False), vec("b", t, False)]
    neon.op(f"vcombine_{t}", "combine", halves, vector_name(t, True), lambda a, b: a.concat(b))
    bits64 = scalar("a", "u64")
    kind = vec("a", t, False).type
    neon.op(f"vcreate_{t}", "create", [bits64], part, lambda a: a.splat(1).cast(kind))


def _scalars(neon: Neon, t: str, q: bool) -> None:
    s, name, count = suffix(q), vector_name(t, q), lanes(t, q)
    whole = vec("a", t, q)
    place = imm("l", 0, count - 1)
    neon.op(f"vdup{s}_n_{t}", "dup_n", [scalar("a", t)], name, lambda a: a.splat(count))
    if t != "bf16":
        neon.op(f"vmov{s}_n_{t}", "dup_n", [scalar("a", t)], name, lambda a: a.splat(count))
    neon.op(f"vget{s}_lane_{t}", "get_lane", [whole, place], scalar_name(t), lambda a, k: a.lane(k))
    neon.op(
        f"vset{s}_lane_{t}", "set_lane", [scalar("x", t), whole, place], name, lambda x, a, k: a.insert(k, x)
    )
    for wide in WIDTHS:
        args = [vec("a", t, wide), imm("l", 0, lanes(t, wide) - 1)]
        form = "laneq" if wide else "lane"
        neon.op(f"vdup{s}_{form}_{t}", "dup_lane", args, name, lambda a, k: a.take([k] * count))
        if t == "f16":
            continue
        copy = [whole, place, vec("b", t, wide), imm("m", 0, lanes(t, wide) - 1)]
        neon.op(f"vcopy{s}_{form}_{t}", "copy_lane", copy, name, lambda a, k, b, m: a.insert(k, b.lane(m)))


def _reinterpret(neon: Neon, t: str, q: bool) -> None:
    kind = vec("a", t, q).type
    for other in EVERY:
        if other != t:
            neon.op(
                f"vreinterpret{suffix(q)}_{t}_{other}",
                "reinterpret",
                [vec("a", other, q)],
                vector_name(t, q),
                lambda a: a.cast(kind),
            )


def _extract(neon: Neon, t: str, q: bool) -> None:
    count = lanes(t, q)
    args = [vec("a", t, q), vec("b", t, q), imm("k", 0, count - 1)]

    def compute(a: Expr, b: Expr, k: Imm) -> Expr:
        return a.take([k + i for i in range(count)], b)

    neon.op(f"vext{suffix(q)}_{t}", "ext", args, vector_name(t, q), compute)


def _reverse(neon: Neon, t: str, q: bool) -> None:
    count, width = lanes(t, q), bits(t)
    for group_bits in (16, 32, 64):
        group = group_bits // width
        # Lanes of half precision are reversed within 64 bits alone.
        if group < 2 or (t == "f16" and group_bits == 32):
            continue
        order = [i // group * group + group - 1 - i % group for i in range(count)]
        neon.op(
            f"vrev{group_bits}{suffix(q)}_{t}",
            f"rev{group_bits}",
            [vec("a", t, q)],
            vector_name(t, q),
            _taken(order),
        )


def _taken(order: list[int]) -> Callable[[Expr], Expr]:
    return lambda a: a.take(order)


def _interleave(neon: Neon, t: str, q: bool) -> None:
    n = lanes(t, q)
    orders: dict[str, tuple[list[int], list[int]]] = {
        "trn": (
            [i if i % 2 == 0 else n + i - 1 for i in range(n)],
            [i + 1 if i % 2 == 0 else n + i for i in range(n)],
        ),
        "zip": (
            [i // 2 + (n if i % 2 else 0) for i in range(n)],
            [n // 2 + i // 2 + (n if i % 2 else 0) for i in range(n)],
        ),
        "uzp": (list(range(0, 2 * n, 2)), list(range(1, 2 * n, 2))),
    }
    args = [vec("a", t, q), vec("b", t, q)]
    for stem, pair in orders.items():
        for number, order in enumerate(pair, start=1):
            neon.op(f"v{stem}{number}{suffix(q)}_{t}", stem, args, vector_name(t, q), _taken_of_two(order))
        if bits(t) < 64:
            neon.op(f"v{stem}{suffix(q)}_{t}", stem, args, vector_name(t, q, 2), _both(pair))


def _taken_of_two(order: list[int]) -> Callable[[Expr, Expr], Expr]:
    return lambda a, b: a.take(order, b)


def _both(orders: tuple[list[int], list[int]]) -> Callable[[Expr, Expr], tuple[Expr, ...]]:
    return lambda a, b: tuple(a.take(order, b) for order in orders)


def _tables(neon: Neon) -> None:
    """Index past the table: 0, or the old lane in the `tbx` forms."""
    for t in _BYTES:
        for count in (1, 2, 3, 4):
            for q in WIDTHS:
                _table(neon, t, q, count, long=True)
            _table(neon, t, False, count, long=False)


def _table(neon: Neon, t: str, q: bool, count: int, *, long: bool) -> None:
    table = tup("t", t, long, count) if count > 1 else vec("t", t, long)
    # The old 64-bit forms take the index as the table's kind.
    index = vec("i", "s8" if t == "s8" and not long else as_kind(t, "u"), q)
    size = count * (16 if long else 8)

    def look_up(tables: list[Expr] | Expr, at: Expr) -> Expr:
        parts = tables if isinstance(tables, list) else [tables]
        held = tuple(part.as_kind("u") for part in parts)
        kind = Type("u", 8, at.type.lanes)
        return Expr("table", kind, (*held, at.as_kind("u"))).as_kind(parts[0].type.kind)

    def extend(old: Expr, tables: list[Expr] | Expr, at: Expr) -> Expr:
        inside = at.as_kind("u").compare("lt", size)
        return select(inside, look_up(tables, at), old)

    front = "vq" if long else "v"
    name = vector_name(t, q)
    neon.op(f"{front}tbl{count}{suffix(q)}_{t}", f"tbl{count}", [table, index], name, look_up)
    neon.op(f"{front}tbx{count}{suffix(q)}_{t}", f"tbx{count}", [vec("d", t, q), table, index], name, extend)
