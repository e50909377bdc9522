"""The vector types that emitted C needs: those of expressions and those by which the source's code knows them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from icml.tools.migrate.table.types import Type, c_scalar, parse

_WORD = re.compile(r"\b[A-Za-z_]\w*\b")
_HELD = re.compile(r"icm_([su]\d+|f32|f64|h16)(?:x(\d+))?(_u)?")
_USER = re.compile(r"(int|uint|float|poly|bfloat)(\d+)x(\d+)(?:x([234]))?_t")
_X86 = {
    "__m64": ("s64", 1),
    "__m128i": ("s64", 2),
    "__m128": ("f32", 4),
    "__m128d": ("f64", 2),
    "__m256i": ("s64", 4),
    "__m256": ("f32", 8),
    "__m256d": ("f64", 4),
}
_KINDS = {"int": "s", "uint": "u", "float": "f", "poly": "p", "bfloat": "bf"}


def user_type(name: str) -> tuple[Type, int] | None:
    """A NEON or x86 vector type by name: its lanes and how many vectors it is of; None if it is no such name."""
    if name in _X86:
        kind, lanes = _X86[name]
        return parse(kind, lanes), 1
    match = _USER.fullmatch(name)
    if not match:
        return None
    base, bits, lanes_text, count = match.groups()
    return parse(f"{_KINDS[base]}{bits}", int(lanes_text)), int(count or 1)


def declarations(text: str, isa: str, target: str, extra: Iterable[str], *, unaligned: bool = False) -> str:
    """Typedefs for every type that occurs in `text` or is named in `extra`."""
    words = set(_WORD.findall(text)) | set(extra)
    # On NEON itself the user's types come with its header, where that is included.
    own = not (target == "neon" and isa == "neon")
    lines = _scalars(isa) if own else []
    for word in sorted(words):
        held = _HELD.fullmatch(word)
        if held:
            lines.append(_held(held, unaligned=unaligned))
    lines += [
        f"typedef ICM_BOOL {word} __attribute__((ext_vector_type({word[8:]})));"
        for word in sorted(words)
        if re.fullmatch(r"icm_bits\d+", word)
    ]
    if own:
        lines += _user_types(word for word in words if not (target == "neon" and word.endswith("_t")))
    if isa != "neon":
        lines += _x86_macros(words)
    if any("ICM_BOOL" in line for line in lines):
        lines.insert(0, "#ifdef __cplusplus\n#define ICM_BOOL bool\n#else\n#define ICM_BOOL _Bool\n#endif")
    return "\n".join(dict.fromkeys(lines))


def _scalars(isa: str) -> list[str]:
    if isa != "neon":
        return []
    return [
        "typedef float float32_t;",
        "typedef double float64_t;",
        "typedef uint8_t poly8_t;",
        "typedef uint16_t poly16_t;",
        "typedef uint64_t poly64_t;",
        "typedef _Float16 float16_t;",
        "typedef __bf16 bfloat16_t;",
    ]


def _held(match: re.Match[str], *, unaligned: bool) -> str:
    kind, lanes, loose = match.groups()
    type = parse("f16" if kind == "h16" else kind, int(lanes or 0))
    scalar = "_Float16" if kind == "h16" else c_scalar(type)
    size = type.bits // 8
    attributes = []
    if lanes:
        power_of_two = type.lanes & (type.lanes - 1) == 0
        attributes.append(f"vector_size({type.size})" if power_of_two else f"ext_vector_type({type.lanes})")
    if loose:
        attributes += [f"aligned({1 if unaligned else size})", "may_alias"]
    return f"typedef {scalar} {match.group(0)} __attribute__(({','.join(attributes)}));"


def _user_types(words: Iterable[str]) -> list[str]:
    lines: list[str] = []
    for word in sorted(words):
        found = user_type(word)
        if found is None:
            continue
        type, count = found
        single = re.sub(r"x[234]_t$", "_t", word) if count > 1 else word
        lines.append(_vector(single, type))
        if count > 1:
            lines.append(f"typedef struct {{ {single} val[{count}]; }} {word};")
    return lines


@cache
def _vector(name: str, type: Type) -> str:
    scalar = {("f", 16): "_Float16", ("b", 16): "__bf16"}.get((type.kind, type.bits)) or c_scalar(type)
    alias = "" if type.lanes and not name.startswith("__m") else ",may_alias"
    return f"typedef {scalar} {name} __attribute__((vector_size({type.size}){alias}));"


_X86_CONSTANTS = {
    "_MM_SHUFFLE": "#define _MM_SHUFFLE(z, y, x, w) (((z) << 6) | ((y) << 4) | ((x) << 2) | (w))",
    "_MM_SHUFFLE2": "#define _MM_SHUFFLE2(x, y) (((x) << 1) | (y))",
    "_MM_FROUND_TO_NEAREST_INT": "#define _MM_FROUND_TO_NEAREST_INT 0",
    "_MM_FROUND_TO_NEG_INF": "#define _MM_FROUND_TO_NEG_INF 1",
    "_MM_FROUND_TO_POS_INF": "#define _MM_FROUND_TO_POS_INF 2",
    "_MM_FROUND_TO_ZERO": "#define _MM_FROUND_TO_ZERO 3",
    "_MM_FROUND_CUR_DIRECTION": "#define _MM_FROUND_CUR_DIRECTION 4",
    "_MM_FROUND_NO_EXC": "#define _MM_FROUND_NO_EXC 8",
    "_MM_FROUND_RAISE_EXC": "#define _MM_FROUND_RAISE_EXC 0",
    "_MM_FROUND_NINT": "#define _MM_FROUND_NINT 0",
    "_MM_FROUND_FLOOR": "#define _MM_FROUND_FLOOR 1",
    "_MM_FROUND_CEIL": "#define _MM_FROUND_CEIL 2",
    "_MM_FROUND_TRUNC": "#define _MM_FROUND_TRUNC 3",
    "_MM_FROUND_RINT": "#define _MM_FROUND_RINT 4",
    "_MM_FROUND_NEARBYINT": "#define _MM_FROUND_NEARBYINT 12",
}
_PREDICATES = (
    *("EQ_OQ", "LT_OS", "LE_OS", "UNORD_Q", "NEQ_UQ", "NLT_US", "NLE_US", "ORD_Q"),
    *("EQ_UQ", "NGE_US", "NGT_US", "FALSE_OQ", "NEQ_OQ", "GE_OS", "GT_OS", "TRUE_UQ"),
    *("EQ_OS", "LT_OQ", "LE_OQ", "UNORD_S", "NEQ_US", "NLT_UQ", "NLE_UQ", "ORD_S"),
    *("EQ_US", "NGE_UQ", "NGT_UQ", "FALSE_OS", "NEQ_OS", "GE_OQ", "GT_OQ", "TRUE_US"),
)


def _x86_macros(words: set[str]) -> list[str]:
    """The constants of x86 headers that a kernel names: it has those headers no longer."""
    known = _X86_CONSTANTS | {
        f"_CMP_{name}": f"#define _CMP_{name} {number}" for number, name in enumerate(_PREDICATES)
    }
    return [text for name, text in known.items() if name in words]
