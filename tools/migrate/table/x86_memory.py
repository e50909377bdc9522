"""x86: loads, stores, constants, and the 256-bit register's halves."""

from __future__ import annotations

from collections.abc import Callable

from icml.tools.migrate.table.expr import Expr, Imm, Store, const, imm_if
from icml.tools.migrate.table.neon_forms import Pointer
from icml.tools.migrate.table.types import Type, parse
from icml.tools.migrate.table.x86_forms import AVX, SCALARS, SSE, X86, Width, imm8, number, pointer

_LANES = {"s": ("float", "f32"), "d": ("double", "f64")}


def define(x86: X86, width: Width) -> None:
    _whole(x86, width)
    _constants(x86, width)
    if width == SSE:
        _parts(x86)
        _one_number(x86)
    else:
        _half_registers(x86)
        _broadcasts(x86)


def _whole(x86: X86, width: Width) -> None:
    size = width.bits // 8
    for letter, (ctype, t) in _LANES.items():
        n = width.type(t).lanes
        for stem, aligned in (("load", size), ("loadu", 0)):
            source = pointer("p", ctype, t, n, aligned=aligned)
            x86.op(
                width.name(f"{stem}_p{letter}"),
                "load",
                [source],
                width.register(letter),
                _load(width.type(t)),
            )
        for stem, aligned in (("store", size), ("storeu", 0), ("stream", size)):
            target = pointer("p", ctype, t, n, out=True, aligned=aligned)
            x86.op(width.name(f"{stem}_p{letter}"), "store", [target, width.arg("a", letter)], "void", _store)
    s, name = f"si{width.bits}", width.register("i")
    # An integer register is loaded from any address: as bytes, which need no alignment.
    bytes_ = width.type("u8")
    for stem in (f"loadu_{s}", f"lddqu_{s}"):
        source = pointer("p", name, "u8", size)
        x86.op(width.name(stem), "load", [source], name, lambda p: p.load(bytes_).cast(width.type("s64")))
    for stem in (f"load_{s}", f"stream_load_{s}"):
        ctype = "void" if stem.startswith("stream") else name
        source = pointer("p", ctype, "u64", size // 8, aligned=size)
        x86.op(
            width.name(stem),
            "load",
            [source],
            name,
            lambda p: p.load(width.type("u64")).cast(width.type("s64")),
        )
    target = pointer("p", name, "u8", size, out=True)
    x86.op(
        width.name(f"storeu_{s}"),
        "store",
        [target, width.arg("a")],
        "void",
        lambda p, a: _store(p, a.cast(bytes_)),
    )
    for stem in (f"store_{s}", f"stream_{s}"):
        aligned_target = pointer("p", name, "u64", size // 8, out=True, aligned=size)
        x86.op(
            width.name(stem),
            "store",
            [aligned_target, width.arg("a")],
            "void",
            lambda p, a: _store(p, a.as_kind("u")),
        )


def _load(type: Type) -> Callable[[Pointer], Expr]:
    return lambda p: p.load(type)


def _store(p: Pointer, a: Expr) -> list[Store]:
    return [Store(p.name, 0, a)]


def _constants(x86: X86, width: Width) -> None:
    for letter in "sd":
        zero = width.arg("a", letter).type
        x86.op(width.name(f"setzero_p{letter}"), "setzero", [], width.register(letter), _zero(zero))
        x86.op(
            width.name(f"undefined_p{letter}"),
            "undefined",
            [],
            width.register(letter),
            _zero(zero),
            defined=0,
        )
    integers = width.type("s64")
    x86.op(width.name(f"setzero_si{width.bits}"), "setzero", [], width.register("i"), _zero(integers))
    for stem, ctype, letter in (
        ("epi8", "char", "i"),
        ("epi16", "short", "i"),
        ("epi32", "int", "i"),
        ("epi64x", "long long", "i"),
        ("ps", "float", "s"),
        ("pd", "double", "d"),
    ):
        _set(x86, width, stem, ctype, letter)


def _zero(type: Type) -> Callable[[], Expr]:
    return lambda: const(type, 0)


def _set(x86: X86, width: Width, stem: str, ctype: str, letter: str) -> None:
    kind = width.type(SCALARS[ctype])
    held, result = width.arg("a", letter).type, width.register(letter)
    x86.op(width.name(f"set1_{stem}"), "set1", [number("x", ctype)], result, _spread(kind, held))
    if width == SSE and letter != "i":
        x86.op(f"_mm_set_{stem}1", "set1", [number("x", ctype)], result, _spread(kind, held))
        single = f"_mm_set_s{letter}"
        x86.op(single, "set", [number("x", ctype)], result, lambda x: const(kind, 0).insert(0, x))
    args = [number(f"x{i}", ctype) for i in range(kind.lanes)]
    x86.op(width.name(f"set_{stem}"), "set", args, result, lambda *x: _built(kind, x[::-1]).cast(held))
    if not (stem == "epi64x" and width == SSE):
        x86.op(width.name(f"setr_{stem}"), "setr", args, result, lambda *x: _built(kind, x).cast(held))


def _spread(kind: Type, held: Type) -> Callable[[Expr], Expr]:
    return lambda x: x.splat(kind.lanes).cast(held)


def _built(kind: Type, numbers: tuple[Expr, ...]) -> Expr:
    return Expr("build", kind, numbers)


def _parts(x86: X86) -> None:
    """Less than a register of memory; what is not loaded is zero or kept."""
    integers = SSE.type("s64")
    for stem, size in (("loadl_epi64", 8), ("loadu_si64", 8), ("loadu_si32", 4), ("loadu_si16", 2)):
        ctype = "__m128i" if stem == "loadl_epi64" else "void"
        part = Type("u", 8, size)
        x86.op(
            f"_mm_{stem}",
            "load_part",
            [pointer("p", ctype, "u8", size)],
            "__m128i",
            _load_low(part, integers),
        )
    for stem, size in (("storel_epi64", 8), ("storeu_si64", 8), ("storeu_si32", 4), ("storeu_si16", 2)):
        ctype = "__m128i" if stem == "storel_epi64" else "void"
        args = [pointer("p", ctype, "u8", size, out=True), SSE.arg("a")]
        x86.op(f"_mm_{stem}", "store_part", args, "void", _store_low(size))
    halves = (("s", "pi", "__m64", 2), ("d", "pd", "double", 1))
    for letter, stem, ctype, n in halves:
        t = _LANES[letter][1]
        kind, register = SSE.type(t), SSE.register(letter)
        low, high = list(range(n)), list(range(n, 2 * n))
        args = [SSE.arg("a", letter), pointer("p", ctype, t, n)]
        x86.op(f"_mm_loadl_{stem}", "load_part", args, register, _replace(kind, high=False))
        x86.op(f"_mm_loadh_{stem}", "load_part", args, register, _replace(kind, high=True))
        out = [pointer("p", ctype, t, n, out=True), SSE.arg("a", letter)]
        x86.op(f"_mm_storel_{stem}", "store_part", out, "void", _store_lanes(low))
        x86.op(f"_mm_storeh_{stem}", "store_part", out, "void", _store_lanes(high))


def _load_low(part: Type, held: Type) -> Callable[[Pointer], Expr]:
    def compute(p: Pointer) -> Expr:
        value = p.load(part)
        zero = part.lanes
        return value.take([min(i, zero) for i in range(16)], const(part, 0)).cast(held)

    return compute


def _store_low(size: int) -> Callable[[Pointer, Expr], list[Store]]:
    return lambda p, a: [Store(p.name, 0, a.cast(Type("u", 8, 16)).take(range(size)))]


def _replace(kind: Type, *, high: bool) -> Callable[[Expr, Pointer], Expr]:
    n = kind.lanes // 2

    def compute(a: Expr, p: Pointer) -> Expr:
        part = p.load(kind.of(n)).take([i % n for i in range(2 * n)])
        order = [*range(n), *range(2 * n, 3 * n)] if high else [*range(2 * n, 3 * n), *range(n, 2 * n)]
        return a.take(order, part)

    return compute


def _store_lanes(lanes: list[int]) -> Callable[[Pointer, Expr], list[Store]]:
    return lambda p, a: [Store(p.name, 0, a.take(lanes))]


def _one_number(x86: X86) -> None:
    for letter, (ctype, t) in _LANES.items():
        kind, register, suffix = SSE.type(t), SSE.register(letter), f"p{letter}"
        one, out = pointer("p", ctype, t, 1), pointer("p", ctype, t, 1, out=True)
        for name in (f"load1_{suffix}", f"load_{suffix}1", *(("loaddup_pd",) if letter == "d" else ())):
            x86.op(f"_mm_{name}", "load1", [one], register, _load_spread(kind))
        x86.op(f"_mm_load_s{letter}", "load1", [one], register, _load_first(kind))
        x86.op(
            f"_mm_store_s{letter}",
            "store1",
            [out, SSE.arg("a", letter)],
            "void",
            lambda p, a: _store(p, a.lane(0)),
        )
        whole = pointer("p", ctype, t, kind.lanes, out=True, aligned=16)
        for name in (f"store1_{suffix}", f"store_{suffix}1"):
            x86.op(
                f"_mm_{name}",
                "store",
                [whole, SSE.arg("a", letter)],
                "void",
                lambda p, a: _store(p, a.take([0] * a.type.lanes)),
            )
        backwards = list(reversed(range(kind.lanes)))
        source = pointer("p", ctype, t, kind.lanes, aligned=16)
        x86.op(f"_mm_loadr_{suffix}", "load", [source], register, _load_reversed(kind, backwards))
        x86.op(
            f"_mm_storer_{suffix}", "store", [whole, SSE.arg("a", letter)], "void", _store_lanes(backwards)
        )


def _load_spread(kind: Type) -> Callable[[Pointer], Expr]:
    return lambda p: p.load(kind.element).splat(kind.lanes)


def _load_first(kind: Type) -> Callable[[Pointer], Expr]:
    return lambda p: const(kind, 0).insert(0, p.load(kind.element))


def _load_reversed(kind: Type, order: list[int]) -> Callable[[Pointer], Expr]:
    return lambda p: p.load(kind).take(order)


def _half_registers(x86: X86) -> None:
    for letter, name, suffix in (
        ("s", "ps", "f"),
        ("d", "pd", "f"),
        ("i", "si256", "f"),
        ("i", "si256", "i"),
    ):
        whole, part = AVX.arg("a", letter), SSE.arg("b", letter)
        register, small = AVX.register(letter), SSE.register(letter)
        n = part.type.lanes
        stem = f"{suffix}128_{name}" if suffix == "f" else "i128_si256"
        choose = imm8(high=1)
        x86.op(f"_mm256_extract{stem}", "extract128", [whole, choose], small, _half_of(n))
        x86.op(f"_mm256_insert{stem}", "insert128", [whole, part, choose], register, _with_half(n))
        if suffix == "i":
            continue
        cast = {"s": ("ps128", "ps256"), "d": ("pd128", "pd256"), "i": ("si128", "si256")}[letter]
        x86.op(f"_mm256_cast{cast[1]}_{cast[0]}", "cast", [whole], small, lambda a: a.low)
        # The upper half is undefined or zero: zeros are both.
        for front, defined in (("cast", 16), ("zext", None)):
            name_ = f"_mm256_{front}{cast[0]}_{cast[1]}"
            x86.op(name_, front, [part], register, lambda b: b.concat(const(b.type, 0)), defined=defined)
        m = {"s": "m128", "d": "m128d", "i": "m128i"}[letter]
        halves = [SSE.arg("h", letter), SSE.arg("l", letter)]
        x86.op(f"_mm256_set_{m}", "set128", halves, register, lambda h, l: l.concat(h))  # noqa: E741
        x86.op(f"_mm256_setr_{m}", "set128", halves[::-1], register, lambda l, h: l.concat(h))  # noqa: E741
        x86.op(
            f"_mm256_permute2f128_{name}",
            "permute128",
            [whole, AVX.arg("b", letter), imm8()],
            register,
            _two_halves(n),
        )
        _two_pointers(x86, letter, m)
    args = [AVX.arg("a"), AVX.arg("b"), imm8()]
    x86.op("_mm256_permute2x128_si256", "permute128", args, "__m256i", _two_halves(2))


def _half_of(n: int) -> Callable[[Expr, Imm], Expr]:
    return lambda a, k: a.take([(k & 1) * n + i for i in range(n)])


def _with_half(n: int) -> Callable[[Expr, Expr, Imm], Expr]:
    def compute(a: Expr, b: Expr, k: Imm) -> Expr:
        whole = b.concat(b)
        return imm_if(
            k.equals(0), a.take([*range(2 * n, 3 * n), *range(n, 2 * n)], whole), a.take(range(n)).concat(b)
        )

    return compute


def _two_halves(n: int) -> Callable[[Expr, Expr, Imm], Expr]:
    """Each half of the result: 0..3 for the halves of a and b, bit 3 for zeros."""

    def compute(a: Expr, b: Expr, k: Imm) -> Expr:
        parts = []
        for shift in (0, 4):
            chosen = a.take([((k >> shift) & 3) * n + i for i in range(n)], b)
            parts.append(imm_if((k >> (shift + 3)) & 1, const(chosen.type, 0), chosen))
        return parts[0].concat(parts[1])

    return compute


def _two_pointers(x86: X86, letter: str, name: str) -> None:
    ctype, t = {"s": ("float", "f32"), "d": ("double", "f64"), "i": ("__m128i", "u8")}[letter]
    kind, held = SSE.type(t), AVX.arg("a", letter).type
    n = kind.lanes
    sources = [pointer("h", ctype, t, n), pointer("l", ctype, t, n)]
    x86.op(
        f"_mm256_loadu2_{name}",
        "loadu2",
        sources,
        AVX.register(letter),
        lambda h, l: l.load(kind).concat(h.load(kind)).cast(held),  # noqa: E741
    )
    targets = [pointer("h", ctype, t, n, out=True), pointer("l", ctype, t, n, out=True), AVX.arg("a", letter)]
    x86.op(
        f"_mm256_storeu2_{name}",
        "storeu2",
        targets,
        "void",
        lambda h, l, a: [Store(l.name, 0, a.low.cast(kind)), Store(h.name, 0, a.high.cast(kind))],  # noqa: E741
    )


def _broadcasts(x86: X86) -> None:
    for width in (SSE, AVX):
        if width == AVX:
            x86.op(
                "_mm256_broadcast_sd",
                "broadcast",
                [pointer("p", "double", "f64", 1)],
                "__m256d",
                _load_spread(width.type("f64")),
            )
        source = pointer("p", "float", "f32", 1)
        x86.op(
            width.name("broadcast_ss"),
            "broadcast",
            [source],
            width.register("s"),
            _load_spread(width.type("f32")),
        )
        for letter, bits in (("b", 8), ("w", 16), ("d", 32), ("q", 64)):
            x86.op(
                width.name(f"broadcast{letter}_epi{bits}"),
                "broadcast",
                [SSE.arg("a")],
                width.register("i"),
                _first_spread(bits, width),
            )
        for letter in "sd":
            n = width.arg("a", letter).type.lanes
            x86.op(
                width.name(f"broadcasts{letter}_p{letter}"),
                "broadcast",
                [SSE.arg("a", letter)],
                width.register(letter),
                _lane_spread(n),
            )
    for letter, ctype in (("s", "__m128"), ("d", "__m128d")):
        t = _LANES[letter][1]
        source = pointer("p", ctype, t, SSE.type(t).lanes)
        x86.op(
            f"_mm256_broadcast_p{letter}",
            "broadcast",
            [source],
            AVX.register(letter),
            _load_twice(SSE.type(t)),
        )
    x86.op("_mm256_broadcastsi128_si256", "broadcast", [SSE.arg("a")], "__m256i", lambda a: a.concat(a))


def _first_spread(bits: int, width: Width) -> Callable[[Expr], Expr]:
    n = width.bits // bits
    return lambda a: a.cast(parse(f"u{bits}", 128 // bits)).take([0] * n).cast(width.type("s64"))


def _lane_spread(n: int) -> Callable[[Expr], Expr]:
    return lambda a: a.take([0] * n)


def _load_twice(kind: Type) -> Callable[[Pointer], Expr]:
    def compute(p: Pointer) -> Expr:
        value = p.load(kind)
        return value.concat(value)

    return compute
