"""NEON: loads and stores: whole vectors, several at once, interleaved, one lane, one element to all lanes."""

from __future__ import annotations

from icml.tools.migrate.table.expr import Expr, Imm, Store, load
from icml.tools.migrate.table.neon_forms import (
    EVERY,
    WIDTHS,
    Neon,
    Pointer,
    imm,
    lanes,
    source,
    suffix,
    target,
    tup,
    vec,
    vector,
    vector_name,
)

COUNTS = (2, 3, 4)


def define(neon: Neon) -> None:
    for t in EVERY:
        for q in WIDTHS:
            _plain(neon, t, q)
            _one_lane(neon, t, q)
            for count in COUNTS:
                _several(neon, t, q, count)
                _interleaved(neon, t, q, count)
                _interleaved_lane(neon, t, q, count)


def _plain(neon: Neon, t: str, q: bool) -> None:
    n, s, name, kind = lanes(t, q), suffix(q), vector_name(t, q), vector(t, q)
    neon.op(f"vld1{s}_{t}", "ld1", [source("p", t, n)], name, lambda p: p.load(kind))
    neon.op(
        f"vst1{s}_{t}", "st1", [target("p", t, n), vec("a", t, q)], "void", lambda p, a: [Store(p.name, 0, a)]
    )
    neon.op(f"vld1{s}_dup_{t}", "ld1_dup", [source("p", t, 1)], name, lambda p: p.load(kind.element).splat(n))


def _one_lane(neon: Neon, t: str, q: bool) -> None:
    n, s, name = lanes(t, q), suffix(q), vector_name(t, q)
    place = imm("l", 0, n - 1)
    args = [source("p", t, 1), vec("a", t, q), place]
    neon.op(f"vld1{s}_lane_{t}", "ld1_lane", args, name, lambda p, a, k: a.insert(k, p.load(a.type.element)))
    out = [target("p", t, 1), vec("a", t, q), place]
    neon.op(f"vst1{s}_lane_{t}", "st1_lane", out, "void", lambda p, a, k: [Store(p.name, 0, a.lane(k))])


def _several(neon: Neon, t: str, q: bool, count: int) -> None:
    n, s, kind = lanes(t, q), suffix(q), vector(t, q)

    def loads(p: Pointer) -> tuple[Expr, ...]:
        return tuple(p.load(kind, i * n) for i in range(count))

    def stores(p: Pointer, a: list[Expr]) -> list[Store]:
        return [Store(p.name, i * n, part) for i, part in enumerate(a)]

    struct = vector_name(t, q, count)
    neon.op(f"vld1{s}_{t}_x{count}", "ld1_x", [source("p", t, n * count)], struct, loads)
    args = [target("p", t, n * count), tup("a", t, q, count)]
    neon.op(f"vst1{s}_{t}_x{count}", "st1_x", args, "void", stores)


def _interleaved(neon: Neon, t: str, q: bool, count: int) -> None:
    n, s, kind = lanes(t, q), suffix(q), vector(t, q)

    def loads(p: Pointer) -> tuple[Expr, ...]:
        if n == 1:
            return tuple(p.load(kind, i) for i in range(count))
        whole = p.load(kind.of(n * count))
        return tuple(Expr("unweave", kind, (whole,), (i, count)) for i in range(count))

    def stores(p: Pointer, a: list[Expr]) -> list[Store]:
        if n == 1:
            return [Store(p.name, i, part) for i, part in enumerate(a)]
        return [Store(p.name, 0, Expr("weave", kind.of(n * count), tuple(a)))]

    def spread(p: Pointer) -> tuple[Expr, ...]:
        return tuple(p.load(kind.element, i).splat(n) for i in range(count))

    struct = vector_name(t, q, count)
    pointer, whole = source("p", t, n * count), tup("a", t, q, count)
    # 64-bit lanes are interleaved in 128-bit vectors or stand alone.
    neon.op(f"vld{count}{s}_{t}", f"ld{count}", [pointer], struct, loads)
    neon.op(f"vst{count}{s}_{t}", f"st{count}", [target("p", t, n * count), whole], "void", stores)
    neon.op(f"vld{count}{s}_dup_{t}", f"ld{count}_dup", [source("p", t, count)], struct, spread)


def _interleaved_lane(neon: Neon, t: str, q: bool, count: int) -> None:
    s, place = suffix(q), imm("l", 0, lanes(t, q) - 1)

    def loads(p: Pointer, a: list[Expr], k: Imm) -> tuple[Expr, ...]:
        return tuple(part.insert(k, load(p.name, part.type.element, i)) for i, part in enumerate(a))

    def stores(p: Pointer, a: list[Expr], k: Imm) -> list[Store]:
        return [Store(p.name, i, part.lane(k)) for i, part in enumerate(a)]

    whole = tup("a", t, q, count)
    args = [source("p", t, count), whole, place]
    neon.op(f"vld{count}{s}_lane_{t}", f"ld{count}_lane", args, vector_name(t, q, count), loads)
    out = [target("p", t, count), whole, place]
    neon.op(f"vst{count}{s}_lane_{t}", f"st{count}_lane", out, "void", stores)
