"""x86: floating-point arithmetic, comparison and conversion."""

from __future__ import annotations

from collections.abc import Callable

from icml.tools.migrate.table import half
from icml.tools.migrate.table.expr import Expr, Imm, const, imm_if, select
from icml.tools.migrate.table.types import Type
from icml.tools.migrate.table.x86_forms import SSE, X86, Width, bit, imm8, number
from icml.tools.migrate.table.x86_integer import pairwise

# Relative error of the estimates (Intel: 1.5 * 2^-12).
ESTIMATE = 1.5 * 2.0**-12
_ARITHMETIC: dict[str, Callable[[Expr, Expr], Expr]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    # Where the operands are unordered or both zero, the second one is the result.
    "max": lambda a, b: select(a.compare("gt", b), a, b),
    "min": lambda a, b: select(a.compare("lt", b), a, b),
}
_COMPARISONS: dict[str, Callable[[Expr, Expr], Expr]] = {
    "eq": lambda a, b: a.compare("eq", b),
    "neq": lambda a, b: a.compare("ne", b),
    "lt": lambda a, b: a.compare("lt", b),
    "le": lambda a, b: a.compare("le", b),
    "gt": lambda a, b: a.compare("gt", b),
    "ge": lambda a, b: a.compare("ge", b),
    "nlt": lambda a, b: ~a.compare("lt", b),
    "nle": lambda a, b: ~a.compare("le", b),
    "ngt": lambda a, b: ~a.compare("gt", b),
    "nge": lambda a, b: ~a.compare("ge", b),
    "ord": lambda a, b: a.compare("eq", a) & b.compare("eq", b),
    "unord": lambda a, b: a.compare("ne", a) | b.compare("ne", b),
}


def define(x86: X86, width: Width) -> None:
    for letter in "sd":
        _arithmetic(x86, width, letter)
        _logic(x86, width, letter)
        _rounding(x86, width, letter)
        if width == SSE:
            _comparisons(x86, letter)
            _scalar_comparisons(x86, letter)
            _scalar_conversions(x86, letter)
    _conversions(x86, width)
    _estimates(x86, width)


def _packed(
    x86: X86,
    width: Width,
    stem: str,
    letter: str,
    count: int,
    compute: Callable[..., Expr],
    tolerance: float | None = None,
) -> None:
    args = [width.arg(name, letter) for name in "abc"[:count]]
    x86.add(
        width.name(f"{stem}_p{letter}"),
        stem,
        args,
        width.register(letter),
        lambda: compute(*(arg.expr for arg in args)).cast(args[0].type),
        tolerance=tolerance,
    )


def _scalar(
    x86: X86, stem: str, letter: str, count: int, compute: Callable[..., Expr], tolerance: float | None = None
) -> None:
    """On the lowest lane; the others are the first operand's."""
    args = [SSE.arg(name, letter) for name in "abc"[:count]]

    def lowest() -> Expr:
        values = [arg.expr for arg in args]
        result = compute(*values).cast(args[0].type)
        n = args[0].type.lanes
        return values[0].take([n, *range(1, n)], result)

    x86.add(f"_mm_{stem}_s{letter}", stem, args, SSE.register(letter), lowest, tolerance=tolerance)


def _arithmetic(x86: X86, width: Width, letter: str) -> None:
    for stem, compute in _ARITHMETIC.items():
        _packed(x86, width, stem, letter, 2, compute)
        if width == SSE:
            _scalar(x86, stem, letter, 2, compute)
    _packed(x86, width, "sqrt", letter, 1, lambda a: a.unary("sqrt"))
    if width == SSE:
        args = [SSE.arg("a", letter)] if letter == "s" else [SSE.arg("a", letter), SSE.arg("b", letter)]
        n = args[0].type.lanes
        x86.op(
            f"_mm_sqrt_s{letter}",
            "sqrt",
            args,
            SSE.register(letter),
            lambda a, b=None: a.take([n, *range(1, n)], (a if b is None else b).unary("sqrt")),
        )
    _packed(x86, width, "hadd", letter, 2, pairwise(lambda a, b: a + b, width))
    _packed(x86, width, "hsub", letter, 2, pairwise(lambda a, b: a - b, width))
    n = width.arg("a", letter).type.lanes
    _packed(
        x86, width, "addsub", letter, 2, lambda a, b: (a - b).take([i + (i % 2) * n for i in range(n)], a + b)
    )


def _logic(x86: X86, width: Width, letter: str) -> None:
    for stem, compute in (
        ("and", lambda a, b: a & b),
        ("or", lambda a, b: a | b),
        ("xor", lambda a, b: a ^ b),
        ("andnot", lambda a, b: ~a & b),
    ):
        _packed(x86, width, stem, letter, 2, _on_bits(compute))


def _on_bits(compute: Callable[[Expr, Expr], Expr]) -> Callable[[Expr, Expr], Expr]:
    return lambda a, b: compute(a.as_kind("u"), b.as_kind("u"))


def _rounding(x86: X86, width: Width, letter: str) -> None:
    _packed(x86, width, "floor", letter, 1, lambda a: a.unary("floor"))
    _packed(x86, width, "ceil", letter, 1, lambda a: a.unary("ceil"))
    # Bit 3 only keeps an exception flag from being set; 4 is the current direction, which is to nearest.
    args = [width.arg("a", letter), imm8(high=15)]
    x86.op(width.name(f"round_p{letter}"), "round", args, width.register(letter), _rounded)


def _rounded(a: Expr, k: Imm) -> Expr:
    mode = k & 7
    down_or_up = imm_if(mode.equals(1), a.unary("floor"), a.unary("ceil"))
    directed = imm_if(mode.equals(3), a.unary("trunc"), down_or_up)
    return imm_if(
        (mode & 3).equals(0), a.unary("roundeven"), imm_if(mode < 4, directed, a.unary("roundeven"))
    )


def _comparisons(x86: X86, letter: str) -> None:
    for stem, compute in _COMPARISONS.items():
        _packed(x86, SSE, f"cmp{stem}", letter, 2, compute)
        _scalar(x86, f"cmp{stem}", letter, 2, compute)


def _scalar_comparisons(x86: X86, letter: str) -> None:
    """1 or 0; inequality holds for unordered operands."""
    args = [SSE.arg("a", letter), SSE.arg("b", letter)]
    for stem in ("eq", "lt", "le", "gt", "ge", "neq"):
        for front in ("comi", "ucomi"):
            x86.op(f"_mm_{front}{stem}_s{letter}", front, args, "int", _as_truth(_COMPARISONS[stem]))


def _as_truth(compute: Callable[[Expr, Expr], Expr]) -> Callable[[Expr, Expr], Expr]:
    truth = Type("s", 32, 4)
    return lambda a, b: compute(a, b).cast(truth).lane(0) & 1


# For each predicate 0..15 of `cmp_ps`: whether it holds of operands that are less, equal, greater, unordered.
_RELATIONS = {"lt": (1, 2, 4, 7, 9, 10, 12, 15), "eq": (0, 2, 5, 7, 8, 10, 13, 15)}
_RELATIONS |= {"gt": (4, 5, 6, 7, 12, 13, 14, 15), "unord": (3, 4, 5, 6, 8, 9, 10, 15)}


def define_predicates(x86: X86, width: Width) -> None:
    """AVX: the comparison is an immediate; 16..31 are 0..15 with other exception flags."""
    for letter in "sd":
        args = [width.arg("a", letter), width.arg("b", letter), imm8(high=31)]
        x86.op(width.name(f"cmp_p{letter}"), "cmp", args, width.register(letter), _by_predicate)


def _by_predicate(a: Expr, b: Expr, k: Imm) -> Expr:
    result = const(a.type.unsigned, 0)
    for relation, predicates in _RELATIONS.items():
        table = Imm("const", (sum(1 << place for place in predicates),))
        holds = (table >> (k & 15)) & 1
        result = result | imm_if(holds, _COMPARISONS[relation](a, b), const(a.type.unsigned, 0))
    return result.cast(a.type)


def indefinite(value: Expr, type: Type) -> Expr:
    """Truncates; what does not fit, and NaN, is the smallest number."""
    bound = 2.0 ** (type.bits - 1)
    fits = value.compare("ge", -bound) & value.compare("lt", bound)
    whole = Expr("ftoi", type, (value,))
    if value.type.bits != type.bits:
        fits = fits.convert(type.unsigned)
    return select(fits, whole, const(type, type.min))


def _narrow_indefinite(value: Expr, count: int) -> Expr:
    """Doubles to 32-bit numbers through 64-bit ones."""
    wide = Type("s", 64, count)
    whole = Expr("ftoi", wide, (value,))
    fits = whole.compare("ge", -(1 << 31)) & whole.compare("lt", 1 << 31) & value.compare("eq", value)
    return select(fits, whole, const(wide, -(1 << 31))).convert(Type("s", 32, 0))


def _conversions(x86: X86, width: Width) -> None:
    ints, singles, doubles = (width.arg("a", letter) for letter in "isd")
    s32 = width.type("s32")
    r = width.register
    x86.op(width.name("cvtepi32_ps"), "cvt", [ints], r("s"), lambda a: a.cast(s32).convert(singles.type))
    for stem, op in (("cvtps_epi32", "roundeven"), ("cvttps_epi32", "trunc")):
        x86.op(width.name(stem), "cvt", [singles], r("i"), _to_int(op, s32, ints.type))
    lanes = doubles.type.lanes
    x86.op(
        width.name("cvtepi32_pd"),
        "cvt",
        [SSE.arg("a")],
        r("d"),
        lambda a: a.cast(SSE.type("s32")).take(range(lanes)).convert(doubles.type),
    )
    x86.op(
        width.name("cvtps_pd"),
        "cvt",
        [SSE.arg("a", "s")],
        r("d"),
        lambda a: a.take(range(lanes)).convert(doubles.type),
    )
    x86.op(
        width.name("cvtpd_ps"), "cvt", [doubles], "__m128", lambda a: _filled(a.convert(Type("f", 32, 0)), 4)
    )
    for stem, op in (("cvtpd_epi32", "roundeven"), ("cvttpd_epi32", "trunc")):
        x86.op(width.name(stem), "cvt", [doubles], "__m128i", _pd_to_int(op))


def _to_int(op: str, lanes: Type, held: Type) -> Callable[[Expr], Expr]:
    return lambda a: indefinite(a if op == "trunc" else a.unary(op), lanes).cast(held)


def _pd_to_int(op: str) -> Callable[[Expr], Expr]:
    def compute(a: Expr) -> Expr:
        value = a if op == "trunc" else a.unary(op)
        return _filled(_narrow_indefinite(value, a.type.lanes), 4).cast(SSE.type("s64"))

    return compute


def _filled(value: Expr, lanes: int) -> Expr:
    """Zeros above."""
    missing = lanes - value.type.lanes
    return value if not missing else value.concat(const(value.type, 0))


def _scalar_conversions(x86: X86, letter: str) -> None:
    floating = SSE.arg("a", letter)
    scalar = "float" if letter == "s" else "double"
    suffix = f"s{letter}"
    x86.op(f"_mm_cvt{suffix}_f{floating.type.bits}", "cvt", [floating], scalar, lambda a: a.lane(0))
    for bits, ctype in ((32, "int"), (64, "long long")):
        for stem, op in (("cvt", "roundeven"), ("cvtt", "trunc")):
            x86.op(f"_mm_{stem}{suffix}_si{bits}", "cvt", [floating], ctype, _lowest_to_int(op, bits))
        x86.op(
            f"_mm_cvtsi{bits}_{suffix}",
            "cvt",
            [floating, number("x", ctype)],
            SSE.register(letter),
            lambda a, x: a.insert(0, x.convert(a.type.element)),
        )
    if letter == "s":
        singles, doubles = SSE.arg("a", "s"), SSE.arg("b", "d")
        x86.op(
            "_mm_cvtsd_ss",
            "cvt",
            [singles, doubles],
            "__m128",
            lambda a, b: a.insert(0, b.lane(0).convert(a.type.element)),
        )
        x86.op(
            "_mm_cvtss_sd",
            "cvt",
            [SSE.arg("a", "d"), SSE.arg("b", "s")],
            "__m128d",
            lambda a, b: a.insert(0, b.lane(0).convert(a.type.element)),
        )


def _lowest_to_int(op: str, bits: int) -> Callable[[Expr], Expr]:
    def compute(a: Expr) -> Expr:
        value = a.take([0, 1]).convert(Type("f", 64, 0))
        value = value if op == "trunc" else value.unary(op)
        if bits == 64:
            return indefinite(value, Type("s", 64, 2)).lane(0)
        return _narrow_indefinite(value, 2).lane(0)

    return compute


def _estimates(x86: X86, width: Width) -> None:
    for stem, compute in (("rcp", _reciprocal), ("rsqrt", _reciprocal_root)):
        _packed(x86, width, stem, "s", 1, compute, ESTIMATE)
        if width == SSE:
            _scalar(x86, stem, "s", 1, compute, ESTIMATE)


def _reciprocal(a: Expr) -> Expr:
    return const(a.type, 1.0) / a


def _reciprocal_root(a: Expr) -> Expr:
    """Subnormals count as zeros."""
    bits = a.as_kind("u")
    normal = (bits & 0x7F800000).compare("ne", 0)
    return const(a.type, 1.0) / (bits & (normal | 0x80000000)).cast(a.type).unary("sqrt")


def define_fused(x86: X86, width: Width) -> None:
    """FMA: one rounding."""
    forms: dict[str, Callable[[Expr, Expr, Expr], Expr]] = {
        "fmadd": lambda a, b, c: Expr("fma", a.type, (a, b, c)),
        "fmsub": lambda a, b, c: Expr("fma", a.type, (a, b, -c)),
        "fnmadd": lambda a, b, c: Expr("fma", a.type, (-a, b, c)),
        "fnmsub": lambda a, b, c: Expr("fma", a.type, (-a, b, -c)),
    }
    for letter in "sd":
        for stem, compute in forms.items():
            _packed(x86, width, stem, letter, 3, compute)
            if width == SSE:
                _scalar(x86, stem, letter, 3, compute)
        _packed(x86, width, "fmaddsub", letter, 3, _alternating(odd_adds=True))
        _packed(x86, width, "fmsubadd", letter, 3, _alternating(odd_adds=False))


def _alternating(*, odd_adds: bool) -> Callable[[Expr, Expr, Expr], Expr]:
    """c is added in one half of the lanes and subtracted in the other."""

    def compute(a: Expr, b: Expr, c: Expr) -> Expr:
        bits = c.type.unsigned
        flip = [1 << (c.type.bits - 1) if (i % 2 == 0) == odd_adds else 0 for i in range(c.type.lanes)]
        signed = (c.as_kind("u") ^ const(bits, flip)).cast(c.type)
        return Expr("fma", a.type, (a, b, signed))

    return compute


def define_half(x86: X86, width: Width) -> None:
    """F16C: the immediate is the rounding: 0 nearest, 1 down, 2 up, 3 towards zero, 4 the current one, nearest."""
    n = 4 * width.halves
    halves = Type("f", 16, 8)
    x86.op(
        width.name("cvtph_ps"),
        "cvtph",
        [SSE.arg("a")],
        width.register("s"),
        lambda a: a.cast(halves).take(range(n)).convert(Type("f", 32, 0)),
    )
    args = [width.arg("a", "s"), imm8(high=7, choices=(0, 1, 2, 3, 4))]
    x86.op(width.name("cvtps_ph"), "cvtph", args, "__m128i", _to_half)


def _to_half(a: Expr, k: Imm) -> Expr:
    nearest = a.convert(Type("f", 16, 0)).cast(Type("u", 16, a.type.lanes))
    mode = k & 7
    directed = imm_if(
        mode.equals(3), half.directed(a, 0), imm_if(mode.equals(2), half.directed(a, 1), half.directed(a, -1))
    )
    result = imm_if((mode & 3).equals(0), nearest, directed)
    return _filled(result, 8).cast(SSE.type("s64"))


def dot_products(x86: X86, width: Width) -> None:
    """dp_ps: products chosen by the high four bits, (0 + 1) + (2 + 3), to the lanes of the low four."""
    args = [width.arg("a", "s"), width.arg("b", "s"), imm8()]

    def compute(a: Expr, b: Expr, k: Imm) -> Expr:
        n = a.type.lanes
        zero = const(a.type, 0.0)
        product = zero.take([bit(k, 4 + i % 4) * n + i for i in range(n)], a * b)
        pairs = product + product.take([i ^ 1 for i in range(n)])
        total = pairs.take([i // 4 * 4 for i in range(n)]) + pairs.take([i // 4 * 4 + 2 for i in range(n)])
        return zero.take([bit(k, i % 4) * n + i for i in range(n)], total)

    x86.op(width.name("dp_ps"), "dp", args, width.register("s"), compute)
