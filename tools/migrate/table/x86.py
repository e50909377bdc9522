"""The semantics table of SSE2 to SSE4.1 with SSSE3, and of AVX, AVX2, FMA and F16C (Intel Intrinsics Guide)."""

from __future__ import annotations

from icml.tools.migrate.table import x86_avx, x86_float, x86_integer, x86_memory, x86_permute
from icml.tools.migrate.table.entry import Table, Unsupported
from icml.tools.migrate.table.x86_forms import AVX, SSE, X86

_REASONS = {
    "AES instructions have no counterpart; keep the C path": (
        "_mm_aesdec_si128",
        "_mm_aesdeclast_si128",
        "_mm_aesenc_si128",
        "_mm_aesenclast_si128",
        "_mm_aesimc_si128",
        "_mm_aeskeygenassist_si128",
    ),
    "SHA instructions have no counterpart; keep the C path": (
        "_mm_sha1msg1_epu32",
        "_mm_sha1msg2_epu32",
        "_mm_sha1nexte_epu32",
        "_mm_sha1rnds4_epu32",
        "_mm_sha256msg1_epu32",
        "_mm_sha256msg2_epu32",
        "_mm_sha256rnds2_epu32",
    ),
    "carry-less products have no counterpart; keep the C path": ("_mm_clmulepi64_si128",),
    "CRC instructions have no counterpart; keep the C path": (
        "_mm_crc32_u8",
        "_mm_crc32_u16",
        "_mm_crc32_u32",
        "_mm_crc32_u64",
    ),
}


def table(isa: str) -> Table:
    """`isa` is "sse", or "avx2", which has all of "sse" too."""
    x86 = X86(isa)
    for width in (SSE, AVX) if isa == "avx2" else (SSE,):
        for part in (x86_integer, x86_permute, x86_float, x86_memory):
            part.define(x86, width)
        x86_float.dot_products(x86, width)
    if isa == "avx2":
        for width in (SSE, AVX):
            x86_integer.define_variable_shifts(x86, width)
            x86_float.define_predicates(x86, width)
            x86_float.define_fused(x86, width)
            x86_float.define_half(x86, width)
        x86_avx.define_permutes(x86)
        x86_avx.define_gathers(x86)
        _lowest(x86)
    unsupported = {name: Unsupported(name, reason) for reason, names in _REASONS.items() for name in names}
    return Table(isa, x86.entries, unsupported)


def _lowest(x86: X86) -> None:
    """The first number of a 256-bit register."""
    x86.op("_mm256_cvtsi256_si32", "cvtsi", [AVX.arg("a")], "int", lambda a: a.cast(AVX.type("s32")).lane(0))
    x86.op("_mm256_cvtss_f32", "cvt", [AVX.arg("a", "s")], "float", lambda a: a.lane(0))
    x86.op("_mm256_cvtsd_f64", "cvt", [AVX.arg("a", "d")], "double", lambda a: a.lane(0))
