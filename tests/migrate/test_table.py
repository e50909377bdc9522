"""The table as a whole: what it covers, that its names exist, what it refuses, and that it knows itself."""

from __future__ import annotations

import csv
import json
import re
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import pytest

from icml.formats.errors import InputError
from icml.tools.migrate.table import coverage_of, load
from icml.tools.migrate.table.emit_c import digest
from icml.tools.migrate.table.expr import walk

DATA = Path(__file__).parents[1] / "data" / "migrate"
needs_zig = pytest.mark.skipif(
    find_spec("ziglang") is None, reason="ziglang is not installed: its headers name intrinsics"
)


def rows(name: str) -> list[dict[str, str]]:
    with (DATA / f"{name}_intrinsic_frequency.csv").open() as file:
        return list(csv.DictReader(file))


def headers(*names: str) -> str:
    spec = find_spec("ziglang")
    assert spec is not None
    assert spec.origin is not None
    include = Path(spec.origin).parent / "lib" / "include"
    return " ".join((include / f"{name}.h").read_text() for name in names)


def test_call_sites_of_neon_that_are_covered() -> None:
    found = {part.library: part for part in coverage_of(rows("neon"), "neon", "rvv")}
    for library in ("libjpeg-turbo", "libwebp", "zlib-ng"):
        assert found[library].fraction >= 0.99, found[library].missing[:5]
    assert found["ncnn"].fraction >= 0.95
    assert found["ncnn"].sites == 67057


@needs_zig
def test_call_sites_of_x86_that_are_covered() -> None:
    sse = coverage_of(rows("x86"), "sse", "neon")[-1]
    avx2 = coverage_of(rows("x86"), "avx2", "lasx")[-1]
    assert sse.library == avx2.library == "all"
    assert sse.fraction >= 0.95
    assert avx2.fraction >= 0.85
    # The two sets share no site, and AVX-512's are in neither.
    assert sse.sites + avx2.sites < sum(int(row["total_sites"]) for row in rows("x86"))


def test_coverage_counts_sites_not_names() -> None:
    some = [
        {"intrinsic": "vaddq_u8", "sites_a": "3", "sites_b": "0"},
        {"intrinsic": "vnothing_u8", "sites_a": "1", "sites_b": "0"},
    ]
    a, b, both = coverage_of(some, "neon", "lsx")
    assert (a.library, a.sites, a.covered, a.missing) == ("a", 4, 3, (("vnothing_u8", 1),))
    assert b.fraction == 1.0
    assert both.fraction == 0.75


def test_coverage_of_an_impossible_way() -> None:
    with pytest.raises(InputError, match="neon is not migrated to avx2"):
        coverage_of([], "neon", "avx2")


@needs_zig
def test_every_neon_name_is_in_arms_header() -> None:
    real = set(re.findall(r"\bv[a-z0-9_]+", headers("arm_neon", "arm_bf16", "arm_fp16")))
    assert sorted(set(load("neon")) - real) == []


@needs_zig
def test_every_x86_name_is_in_intels_headers() -> None:
    names = ("xmmintrin", "emmintrin", "pmmintrin", "tmmintrin", "smmintrin")
    sse = set(re.findall(r"_mm(?:256)?_\w+", headers(*names)))
    avx = set(re.findall(r"_mm(?:256)?_\w+", headers("avxintrin", "avx2intrin", "fmaintrin", "f16cintrin")))
    assert sorted(set(load("sse")) - sse) == []
    assert sorted(set(load("avx2")) - sse - avx) == []
    assert set(load("sse")) <= set(load("avx2"))


@pytest.mark.parametrize("isa", ["neon", "sse", "avx2"])
def test_every_body_fits_its_signature(isa: str) -> None:
    """Parameters that are read exist, stores stay within the extent that is promised."""
    for entry in load(isa).values():
        args = {arg.name: arg for arg in entry.args}
        for node in walk(entry.body):
            if node.op in ("param", "member", "load", "pointer"):
                assert str(node.attr[0]) in args, entry.name
            if node.op == "load":
                arg = args[str(node.attr[0])]
                elements = node.type.size // arg.type.size
                assert int(str(node.attr[1])) + elements <= arg.count, entry.name
        for store in entry.stores:
            arg = args[store.pointer]
            assert store.offset + store.value.type.size // arg.type.size <= arg.count, entry.name
        assert entry.stores or entry.values


def test_an_unknown_name_gets_its_nearest() -> None:
    with pytest.raises(
        InputError, match="vaddq_u9 is not in the table of neon; its nearest name there is vaddq_u"
    ):
        load("neon")["vaddq_u9"]
    with pytest.raises(InputError, match="there is no table of 'vsx'"):
        load("vsx")


@pytest.mark.parametrize(
    ("isa", "name", "word"),
    [
        ("neon", "vaeseq_u8", "AES"),
        ("neon", "vmull_p64", "polynomial"),
        ("sse", "_mm_clmulepi64_si128", "carry-less"),
        ("avx2", "_mm_crc32_u32", "CRC"),
    ],
)
def test_what_is_not_migrated_says_why(isa: str, name: str, word: str) -> None:
    table = load(isa)
    assert name not in table
    assert name in table.unsupported
    with pytest.raises(InputError, match=f"{name} is not migrated: .*{word}"):
        table[name]


def test_the_hash_is_of_what_entries_compute() -> None:
    from icml.tools.migrate.table import neon
    from icml.tools.migrate.table.entry import Table

    first, second = neon.table(), neon.table()
    assert first.hash == second.hash
    changed = dict(first.entries)
    changed["vaddq_u8"] = first.entries["vsubq_u8"]
    assert Table("neon", changed).hash != first.hash


def test_what_is_elementwise() -> None:
    neon = load("neon")
    for name in ("vaddq_u8", "vqrdmulhq_s16", "vmovl_u8", "vbslq_u8", "vfmaq_f16", "vrshrn_n_s32"):
        assert neon[name].elementwise, name
    for name in ("vpaddq_u8", "vget_low_u8", "vqtbl1q_u8", "vaddvq_u8", "vmulq_lane_s16", "vzip1q_u8"):
        assert not neon[name].elementwise, name


def test_what_sse_has_avx2_has_unchanged() -> None:
    sse, avx2 = load("sse"), load("avx2")
    assert [name for name in sse if sse[name].text != avx2[name].text] == []


@pytest.mark.parametrize("isa", ["neon", "avx2"])
def test_the_record_of_the_last_full_verification_is_of_this_table(isa: str) -> None:
    """Made by `verify.write_summary`: whoever changes an entry verifies all of them again."""
    record = json.loads((files("icml.tools.migrate.table") / "verified.json").read_text())[isa]
    assert record["table"] == load(isa).hash
    assert record["emitted"] == {name: digest(isa, name) for name in record["emitted"]}
    assert record["names"] == len(load(isa))
    assert record["mismatches"] == []
    vlens = {f"rvv vlen {vlen}" for vlen in (128, 256, 512)}
    assert {"lanes", "lsx", "lasx"} | vlens <= set(record["places"])
    assert {"rvv", "lsx", "lasx"} <= set(record["emitted"])
