"""LoongArch LSX and LASX builtins, which take vectors of fixed size by a cast.

An operation on a vector shorter than a register is done on a padded one, on a longer one piece by piece. LASX does
twice the bytes an instruction, in two halves that do not mix.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from icml.tools.migrate.table.expr import Expr
from icml.tools.migrate.table.native_forms import (
    Rule,
    Rules,
    Temporary,
    half_and_single,
    immediate,
    in_register,
    named,
    one_table,
    same_width_conversion,
    unsigned,
)
from icml.tools.migrate.table.types import Type, c_name, stored

_LETTER = {8: "b", 16: "h", 32: "w", 64: "d"}


@dataclass(frozen=True)
class Register:
    """A register's bytes and the front of the builtins that work on it."""

    size: int
    front: str

    def type(self, type: Type) -> Type:
        """As many lanes as fill it."""
        return type.of(8 * self.size // type.bits)

    def name(self, type: Type) -> str:
        return c_name(self.type(stored(type)))

    def signed(self, type: Type) -> str:
        return c_name(self.type(Type("s", type.bits, 0)))


SMALL, LARGE = Register(16, "__builtin_lsx_v"), Register(32, "__builtin_lasx_xv")
# Writes an operation on whole registers.
Piecewise = Callable[[Register, Expr, list[str]], str]


def _rounding_shift(register: Register, node: Expr, parts: list[str]) -> str:
    name = "srari" if node.type.kind == "s" else "srlri"
    value = f"({register.signed(node.type)}){parts[0]}"
    return f"{register.front}{name}_{_LETTER[node.type.bits]}({value},{immediate(node.attr[0])})"


def _population(register: Register, node: Expr, parts: list[str]) -> str:
    return f"{register.front}pcnt_{_LETTER[node.type.bits]}(({register.signed(node.type)}){parts[0]})"


def _average(register: Register, node: Expr, parts: list[str]) -> str:
    sign = "u" if node.type.kind == "u" else ""
    name = f"avg{'r' if node.attr[0] else ''}_{_LETTER[node.type.bits]}{sign}"
    return f"{register.front}{name}({parts[0]},{parts[1]})"


def _high_product(register: Register, node: Expr, parts: list[str]) -> str:
    """Products of even and of odd lanes, narrowed with saturation at once, and put back in turn."""
    bits, half = node.type.bits, 64 // node.type.bits
    wide, narrow = _LETTER[2 * bits], _LETTER[bits]
    even, odd = (
        f"{register.front}mulw{which}_{wide}_{narrow}({parts[0]},{parts[1]})" for which in ("ev", "od")
    )
    held = register.signed(node.type)
    step = f"{register.front}ssra{'r' if node.attr[0] else ''}ni_{narrow}_{wide}"
    lanes = range(register.size * 8 // bits)
    turn = ",".join(
        str(i // (2 * half) * 2 * half + i % (2 * half) // 2 + (half if i % 2 else 0)) for i in lanes
    )
    joined = f"{held} icm_n=({held}){step}(({held}){odd},({held}){even},{bits - 1});"
    return f"({{ {joined} ({held})__builtin_shufflevector(icm_n,icm_n,{turn}); }})"


def _long_pairs(register: Register, node: Expr, parts: list[str]) -> str:
    sign = "u" if node.type.kind == "u" else ""
    wide, narrow = _LETTER[node.type.bits], _LETTER[node.type.bits // 2]
    return f"{register.front}haddw_{wide}{sign}_{narrow}{sign}({parts[0]},{parts[0]})"


def _pair_products(register: Register, node: Expr, parts: list[str]) -> str:
    a, b = parts
    return f"{register.front}maddwod_w_h({register.front}mulwev_w_h({a},{b}),{a},{b})"


def _to_integer(register: Register, node: Expr, parts: list[str]) -> str:
    sign = "u" if node.type.kind == "u" else ""
    form = {32: f"w{sign}_s", 64: f"l{sign}_d"}[node.type.bits]
    return f"{register.front}ftintrz_{form}({parts[0]})"


def _table(node: Expr, args: Sequence[str], temporary: Temporary) -> str:
    """vshuf.b reads 32 bytes by the low 5 bits of an index: here twice the same 16."""
    table, index = named(node, args, temporary)
    inside = f"({unsigned(node.args[1].type, index)}<(uint8_t)16)"
    low = f"((icm_u8x16){_piece(SMALL, node.args[1].type, index, 0)}&(uint8_t)15)"
    raw = f"__builtin_lsx_vshuf_b((icm_s8x16){table},(icm_s8x16){table},(icm_s8x16){low})"
    return f"({_join(SMALL, node.type, [raw])}&(({c_name(node.type)}){inside}))"


def _half(node: Expr, args: Sequence[str], temporary: Temporary) -> str:
    """Half to single and back, four lanes an instruction."""
    source, count = node.args[0].type, node.type.lanes
    (name,) = named(node, args, temporary)
    if source.bits == 16:
        wide = _piece(SMALL, source, name, 0)
        halves = ("l", "h")[: max(1, count // 4)]
        return _join(
            SMALL, node.type, [f"__builtin_lsx_vfcvt{half}_s_h((icm_s16x8){wide})" for half in halves]
        )
    low = _piece(SMALL, source, name, 0)
    high = _piece(SMALL, source, name, 16) if count == 8 else low
    return _join(SMALL, node.type, [f"__builtin_lsx_vfcvt_h_s((icm_f32x4){high},(icm_f32x4){low})"])


def _piece(register: Register, type: Type, name: str, start: int) -> str:
    """A register's worth of a vector from byte `start` on."""
    if type.size == register.size:
        return name
    first = start * 8 // type.bits
    places = range(first, first + register.type(type).lanes)
    lanes = ",".join(str(i) if i < type.lanes else "-1" for i in places)
    return f"(({register.name(type)})__builtin_shufflevector({name},{name},{lanes}))"


def _join(register: Register, type: Type, pieces: list[str]) -> str:
    """The vector of `type` made of registers."""
    if type.size == register.size:
        return f"(({c_name(type)}){pieces[0]})"
    full = register.name(type)
    names = "".join(f"{full} icm_r{i}=({full}){piece}; " for i, piece in enumerate(pieces))
    joined = [f"icm_r{i}" for i in range(len(pieces))]
    lanes = register.type(type).lanes
    while len(joined) > 1:
        lanes *= 2
        order = ",".join(map(str, range(lanes)))
        joined = [
            f"__builtin_shufflevector({joined[i]},{joined[i + 1]},{order})" for i in range(0, len(joined), 2)
        ]
    whole = joined[0]
    if type.size < register.size:
        whole = f"__builtin_shufflevector({whole},{whole},{','.join(map(str, range(type.lanes)))})"
    return f"({{ {names}({c_name(type)}){whole}; }})"


def _by_pieces(write: Piecewise, large: bool) -> Callable[[Expr, Sequence[str], Temporary], str]:
    def whole(node: Expr, args: Sequence[str], temporary: Temporary) -> str:
        register = LARGE if large and node.type.size >= LARGE.size else SMALL
        held = named(node, args, temporary)
        pieces = []
        for start in range(0, max(node.type.size, register.size), register.size):
            parts = [
                _piece(register, arg.type, name, start) for arg, name in zip(node.args, held, strict=True)
            ]
            pieces.append(write(register, node, parts))
        return _join(register, node.type, pieces)

    return whole


def _rules(*, large: bool) -> Rules:
    return {
        "rshri": Rule(in_register, _by_pieces(_rounding_shift, large)),
        "popcount": Rule(in_register, _by_pieces(_population, large)),
        "average": Rule(in_register, _by_pieces(_average, large)),
        "mulhd": Rule(
            lambda node: in_register(node) and node.type.bits in (16, 32), _by_pieces(_high_product, large)
        ),
        "long_pairs": Rule(in_register, _by_pieces(_long_pairs, large)),
        "pair_products": Rule(in_register, _by_pieces(_pair_products, large)),
        "ftoi": Rule(same_width_conversion, _by_pieces(_to_integer, large)),
        "table": Rule(one_table, _table),
        "convert": Rule(half_and_single, _half),
    }


LSX, LASX = _rules(large=False), _rules(large=True)
