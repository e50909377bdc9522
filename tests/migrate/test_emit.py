"""The emitted C: its form, that it compiles as C and C++, and that the idioms it counts on become instructions."""

from __future__ import annotations

import re

import pytest
from migrate.needs import needs_zig

from icml.formats.errors import InputError
from icml.tools.migrate import toolchain
from icml.tools.migrate.table import header, inline, load, macro
from icml.tools.migrate.targets import TARGETS

TARGETS_OF = {"neon": ("rvv", "lsx", "lasx"), "avx2": ("neon", "rvv", "lsx", "lasx")}


def test_a_header_holds_what_is_used_and_no_more() -> None:
    text = header(["vaddq_u8", "vld1q_u8"], "neon", "rvv")
    assert re.findall(r"#define icm_(\w+)\(", text) == ["vaddq_u8", "vld1q_u8"]
    assert "typedef uint8_t uint8x16_t" in text
    assert "int16x8_t" not in text
    assert "int16x8x2_t" in header(["vaddq_u8"], "neon", "rvv", types=["int16x8x2_t"])


def test_a_pointer_is_trusted_to_its_element_or_not_at_all() -> None:
    assert "icm_u16x8_u __attribute__((vector_size(16),aligned(2),may_alias))" in header(
        ["vld1q_u16"], "neon", "rvv"
    )
    loose = header(["vld1q_u16"], "neon", "rvv", unaligned=True)
    assert "icm_u16x8_u __attribute__((vector_size(16),aligned(1),may_alias))" in loose


@pytest.mark.parametrize("isa", ["neon", "avx2"])
def test_macros_are_closed(isa: str) -> None:
    """One statement expression each; no variable of one can be captured by another; no vector helper functions."""
    for target in TARGETS_OF[isa][:2]:
        for name, entry in load(isa).items():
            text = macro(entry, target)
            found = re.fullmatch(rf"#define icm_{name}\([^)]*\) (.*)", text)
            assert found is not None, name
            body = found[1]
            assert body.startswith("({ ")
            assert body.endswith(" })")
            assert "static" not in body
            for arg in entry.args:
                uses = len(re.findall(rf"\b{arg.name}_\b", body))
                assert uses == 1 or (arg.kind == "imm" and uses >= 1), (name, arg.name)
            for variable in re.findall(r"(?:icm_\w+|_t\*?) (\w+)=", body):
                assert variable.startswith((f"{name}_", "icm_")), (name, variable)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(InputError, match="vaddq_u9"):
        header(["vaddq_u9"], "neon", "rvv")


def test_an_expression_in_place_of_a_call() -> None:
    entry = load("neon")["vext_u8"]
    text = inline(entry, "lsx", ["x + k_", "f(l)", "3"])
    assert "vext_u8_a=((x + k_))" in text
    assert "vext_u8_b=((f(l)))" in text
    assert "(((3))+7)" in text
    assert "k_)+" not in text
    assert inline(load("sse")["_mm_setzero_si128"], "neon", []).startswith("({ ")
    with pytest.raises(InputError, match="vext_u8 takes 3 arguments, got 2"):
        inline(entry, "lsx", ["x", "y"])


KERNEL = """\
#include "icm_simd.h"
extern "C" int f(const uint8_t *p, uint8_t *q, int n);
int f(const uint8_t *p, uint8_t *q, int n) {
  for (int i = 0; i < n; i += 16) {
    uint8x16x2_t x = icm_vld2q_u8((p + 2 * i));
    uint8x16_t y = icm_vrhaddq_u8((icm_vrhaddq_u8((x.val[0]), (x.val[1]))), (icm_vdupq_n_u8((3))));
    icm_vst1q_u8((q + i), (icm_vqtbl1q_u8((y), (y))));
  }
  return icm_vget_lane_s16((icm_vdup_n_s16((7))), 2);
}
"""
NAMES = ("vld2q_u8", "vrhaddq_u8", "vdupq_n_u8", "vst1q_u8", "vqtbl1q_u8", "vget_lane_s16", "vdup_n_s16")


@needs_zig
@pytest.mark.parametrize("target", ["rvv", "lsx"])
@pytest.mark.parametrize("language", ["c", "cpp"])
def test_a_kernel_compiles_without_warnings(target: str, language: str) -> None:
    text = KERNEL if language == "cpp" else KERNEL.replace('extern "C" ', "")
    sources = {f"k.{language}": text, "icm_simd.h": header(NAMES, "neon", target)}
    flags = ["-Wall", "-Werror", "-Wno-gnu-statement-expression", "-Wno-psabi"]
    result = toolchain.compile(sources, TARGETS[target], mode="object", flags=flags)
    assert result.ok, result.stderr


IDIOMS = [
    # Target, operation, an instruction that must be there, and the most vector instructions beside loads and stores.
    ("rvv", "uint8x16_t", "icm_vrhaddq_u8(*a, *b)", r"vaaddu\.vv", 3),
    ("rvv", "int16x8_t", "icm_vqrdmulhq_s16(*a, *b)", r"vsmul\.vv", 3),
    ("rvv", "int16x8_t", "icm_vqaddq_s16(*a, *b)", r"vsadd\.vv", 2),
    ("rvv", "uint8x16_t", "icm_vqtbl1q_u8(*a, *b)", r"vrgather\.vv", 6),
    ("rvv", "uint16x8_t", "icm_vrshrq_n_u16(*a, 3)", r"vssrl\.v", 3),
    ("rvv", "uint8x16_t", "icm_vbslq_u8(*a, *b, *a)", r"vand\.vv|vmerge", 5),
    ("lsx", "uint8x16_t", "icm_vrhaddq_u8(*a, *b)", r"vavgr\.bu", 2),
    ("lsx", "int16x8_t", "icm_vqaddq_s16(*a, *b)", r"vsadd\.h", 2),
    ("lsx", "uint8x16_t", "icm_vqtbl1q_u8(*a, *b)", r"vshuf\.b", 5),
    ("lsx", "int16x8_t", "icm_vrshrq_n_s16(*a, 3)", r"vsrari\.h", 2),
    ("lsx", "uint8x16_t", "icm_vcntq_u8(*a)", r"vpcnt\.b", 2),
]
MEMORY = re.compile(r"^(vle|vse|vl\d|vs\d|vld$|vst$)")


@needs_zig
@pytest.mark.parametrize(("target", "type", "call", "instruction", "most"), IDIOMS)
def test_an_idiom_becomes_its_instruction(
    target: str, type: str, call: str, instruction: str, most: int
) -> None:
    names = re.findall(r"icm_(v\w+)\(", call)
    text = f'#include "icm_simd.h"\nvoid f(const {type} *a, const {type} *b, {type} *r) {{ *r = {call}; }}\n'
    sources = {"f.c": text, "icm_simd.h": header(names, "neon", target)}
    result = toolchain.compile(sources, TARGETS[target], mode="assembly")
    assert result.path is not None, result.stderr
    body = re.search(r"^f:(.*?)\.Lfunc_end", result.path.read_text(), re.S | re.M)
    assert body is not None
    opcodes = re.findall(r"^\t(v[\w.]+)", body[1], re.M)
    assert any(re.fullmatch(f"({instruction}).*", opcode) for opcode in opcodes), opcodes
    work = [opcode for opcode in opcodes if not MEMORY.match(opcode) and not opcode.startswith("vset")]
    assert len(work) <= most, work
