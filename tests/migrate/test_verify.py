"""The table against real instruction sets: Arm's under QEMU, x86's own, and every target at every vector length."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from migrate.needs import needs_run

from icml.formats.errors import MissingError
from icml.tools.migrate import emulator, toolchain
from icml.tools.migrate.table import header, load, verify
from icml.tools.migrate.table.expr import Expr, Store
from icml.tools.migrate.table.pool import KINDS, SLOT, SLOTS, canonical, pools, slot
from icml.tools.migrate.table.program import program
from icml.tools.migrate.table.types import Type
from icml.tools.migrate.targets import TARGETS

# At least one of every kind of operation, and the ones with instructions of their own on a target.
NEON = [
    "vaddq_s16",
    "vsubq_u64",
    "vmlaq_s32",
    "vabdq_u8",
    "vabaq_s8",
    "vqabsq_s16",
    "vclsq_s32",
    "vcntq_u8",
    "vrbitq_u8",
    "vtstq_s16",
    "vbslq_f32",
    "vrhaddq_u8",
    "vhsubq_s16",
    "vqsubq_u16",
    "vqdmulhq_s16",
    "vqrdmulhq_s32",
    "vqrdmlahq_lane_s16",
    "vpadalq_u8",
    "vaddlvq_s16",
    "vshlq_s8",
    "vqrshlq_u64",
    "vrshrq_n_s16",
    "vrshrn_n_s32",
    "vqrshrun_n_s16",
    "vsriq_n_u16",
    "vqshluq_n_s8",
    "vshll_n_u8",
    "vmlal_lane_s16",
    "vqdmull_high_s16",
    "vmull_high_u8",
    "vsubhn_s32",
    "vqmovun_s16",
    "vextq_u8",
    "vrev64_u8",
    "vtrn_u8",
    "vzipq_s32",
    "vqtbl4q_s8",
    "vqtbx2q_u8",
    "vtbl3_u8",
    "vreinterpretq_u8_f16",
    "vget_lane_u16",
    "vsetq_lane_f16",
    "vld1q_u16_x4",
    "vld2q_u8",
    "vld3q_u8",
    "vld4q_u8",
    "vld3_u64",
    "vst2q_u16",
    "vst3_u8",
    "vst4q_f32",
    "vld4_lane_u8",
    "vst3_lane_u8",
    "vld3q_dup_s16",
    "vfmaq_f32",
    "vfmaq_laneq_f16",
    "vmulq_f16",
    "vmaxq_f16",
    "vminnmq_f32",
    "vcgeq_f16",
    "vrndaq_f32",
    "vrndnq_f16",
    "vcvtq_s32_f32",
    "vcvtaq_u32_f32",
    "vcvt_f16_f32",
    "vcvt_f32_f16",
    "vrecpeq_f32",
    "vrsqrteq_f16",
    "vrsqrtsq_f32",
    "vaddvq_f32",
    "vpmaxq_f16",
    "vdotq_laneq_s32",
    "vusdotq_s32",
    "vmmlaq_s32",
    "vfmlalq_lane_high_f16",
    "vbfdotq_f32",
    "vbfmmlaq_f32",
    "vcvt_bf16_f32",
]
X86 = [
    "_mm_adds_epi8",
    "_mm_avg_epu8",
    "_mm_sign_epi16",
    "_mm_sad_epu8",
    "_mm_mulhrs_epi16",
    "_mm_madd_epi16",
    "_mm_maddubs_epi16",
    "_mm_mul_epu32",
    "_mm_testnzc_si128",
    "_mm_srai_epi16",
    "_mm_srl_epi32",
    "_mm_slli_si128",
    "_mm_alignr_epi8",
    "_mm_hadds_epi16",
    "_mm_packus_epi16",
    "_mm_unpackhi_epi8",
    "_mm_shuffle_epi8",
    "_mm_shufflehi_epi16",
    "_mm_shuffle_ps",
    "_mm_blendv_epi8",
    "_mm_blend_epi16",
    "_mm_cvtepi8_epi16",
    "_mm_movemask_epi8",
    "_mm_movemask_ps",
    "_mm_insert_epi16",
    "_mm_setr_epi8",
    "_mm_loadl_epi64",
    "_mm_storeh_pd",
    "_mm_max_ps",
    "_mm_cmpord_ps",
    "_mm_comilt_ss",
    "_mm_cvtps_epi32",
    "_mm_cvttsd_si32",
    "_mm_round_ps",
    "_mm_dp_ps",
    "_mm_rcp_ps",
    "_mm_rsqrt_ss",
    "_mm256_packs_epi32",
    "_mm256_shuffle_epi8",
    "_mm256_permute2x128_si256",
    "_mm256_permutevar8x32_epi32",
    "_mm256_cmp_ps",
    "_mm256_fmaddsub_ps",
    "_mm256_cvtps_ph",
    "_mm256_cvtph_ps",
    "_mm256_i32gather_ps",
    "_mm256_madd_epi16",
    "_mm256_movemask_epi8",
    "_mm256_srlv_epi32",
    "_mm256_storeu2_m128i",
]


def told(result: verify.Verification) -> str:
    return "\n".join(f"{m.name} on {m.place}: {m.detail}" for m in result.mismatches[:5])


@needs_run("neon", "rvv", "lsx")
def test_a_sample_of_neon_is_arms_own() -> None:
    result = verify.verify("neon", ("rvv", "lsx"), names=NEON, rounds=100)
    assert result.ok, told(result)
    assert result.places == ["lanes", "rvv vlen 128", "rvv vlen 256", "rvv vlen 512", "lsx"]


@needs_run("avx2", "neon", "rvv", "lsx")
def test_a_sample_of_x86_is_intels_own() -> None:
    result = verify.verify("avx2", ("neon", "rvv", "lsx"), names=X86, rounds=100)
    assert result.ok, told(result)


@pytest.mark.slow
@needs_run("neon", "rvv", "lsx", "lasx")
def test_all_of_neon() -> None:
    result = verify.verify("neon", ("rvv", "lsx", "lasx"))
    assert result.ok, told(result)


@pytest.mark.slow
@needs_run("avx2", "neon", "rvv", "lsx", "lasx")
def test_all_of_x86() -> None:
    result = verify.verify("avx2", ("neon", "rvv", "lsx", "lasx"))
    assert result.ok, told(result)


@needs_run("neon", "rvv")
def test_wrong_entries_are_caught_with_the_lane_and_the_inputs() -> None:
    """Errors that tests of ordinary numbers miss: a saturation left out, a shift by a whole lane, a lane too far."""
    table = load("neon")

    def plain_product(entry_name: str) -> Expr:
        a, b = (arg.expr for arg in table[entry_name].args)
        wide = a.type.wide
        return ((a.convert(wide) * b.convert(wide) + (1 << 14)) >> 15).convert(a.type)

    a, b = (arg.expr for arg in table["vmaxq_f32"].args)
    first = table["vextq_u8"].args[0].expr
    bodies = {
        "vqrdmulhq_s16": plain_product("vqrdmulhq_s16"),
        "vmaxq_f32": Expr("maximumnum", a.type, (a, b)),
        "vextq_u8": first.take([i % 16 for i in range(1, 17)]),
    }
    wrong = {
        name: dataclasses.replace(table[name], make=lambda body=body: body) for name, body in bodies.items()
    }
    names = [*wrong, "vaddq_u8"]
    result = verify.verify("neon", ("rvv",), names=names, rounds=100, entries=wrong)
    for place in ("lanes", "rvv vlen 128", "rvv vlen 512"):
        assert {m.name for m in result.mismatches if m.place == place} == set(wrong)
    detail = next(m.detail for m in result.mismatches if m.name == "vqrdmulhq_s16")
    assert re.match(r"lane \d is -32768, not 32767, for a=\[.*-32768.*\], b=\[.*-32768.*\]", detail), detail


@needs_run("lsx")
@pytest.mark.parametrize(("offset", "message"), [(0, b"wrote beyond its extent"), (8, b"")])
def test_a_write_beyond_the_extent_ends_the_program(offset: int, message: bytes) -> None:
    """One element beyond is seen in the canary, or stopped by the page behind it."""
    entry = load("neon")["vst1_u8"]
    value = entry.args[1].expr
    value = value.concat(value) if offset else value.take([*range(8), 0, 0, 0, 0, 0, 0, 0, 0])
    wrong = dataclasses.replace(entry, make=lambda: [Store("p", offset - 8, value)])
    sources = {
        "v.c": program([wrong], "neon"),
        "icm_simd.h": header(["vst1_u8"], "neon", "lsx", entries={"vst1_u8": wrong}),
    }
    built = toolchain.compile(sources, TARGETS["lsx"], flags=["-w"])
    assert built.path is not None, built.stderr
    run = emulator.run(built.path, TARGETS["lsx"], ["4"], stdin=b"".join(pools()))
    assert run.rc not in (0, None)
    assert message in run.stderr


@needs_run("neon", "rvv")
def test_an_entry_that_does_not_compile_is_named() -> None:
    entry = load("neon")["vaddq_u8"]
    odd = Expr(
        "add",
        entry.args[0].type,
        (entry.args[0].expr, Expr("param", entry.args[1].type, (), ("a",)).convert(Type("u", 16, 0))),
    )
    wrong = dataclasses.replace(entry, make=lambda: odd)
    shard = verify._Shard("neon", ("rvv",), [load("neon")["vsubq_u8"], wrong, load("neon")["veorq_u8"]], 4)
    built, failed = shard._programs(TARGETS["rvv"], shard.entries)
    assert [mismatch.name for mismatch in failed] == ["vaddq_u8"]
    assert "does not compile" in failed[0].detail
    assert sorted(e.name for _, entries in built for e in entries) == ["veorq_u8", "vsubq_u8"]


def test_a_missing_emulator_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    emulator.find.cache_clear()
    try:
        with pytest.raises(
            MissingError,
            match="riscv64 programs needs qemu-riscv64; get it with: icml migrate doctor",
        ):
            emulator.command(Path("x"), TARGETS["rvv"])
    finally:
        emulator.find.cache_clear()


def test_the_pool_is_rich_in_corners() -> None:
    import numpy as np

    words = np.frombuffer(pools()[0], np.int16)
    for corner in (-32768, 32767, 0, -1, 1):
        assert (words == corner).mean() > 0.005
    pairs = [(words[slot(r, 0, 0) * 32], words[slot(r, 1, 0) * 32]) for r in range(SLOTS)]
    assert len(set(pairs)) > SLOTS // 2
    for kind, name, word in ((1, "f16", np.float16), (3, "f32", np.float32), (4, "f64", np.float64)):
        values = np.frombuffer(pools()[kind], word)
        assert KINDS[kind] == name
        assert len(values) * values.itemsize == SLOTS * SLOT
        finite = values[np.isfinite(values)]
        assert np.isnan(values).any()
        assert np.isinf(values).any()
        assert (np.abs(finite[finite != 0]) < np.finfo(word).tiny).any()
        assert len(np.unique(canonical(values[np.isnan(values)], kind))) == 1
