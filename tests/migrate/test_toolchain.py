"""Compiling and running: results kept by content, time limits, errors that name what is missing."""

from __future__ import annotations

import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest
from migrate.needs import needs_run, needs_zig

from icml.formats.errors import InputError, MissingError
from icml.tools.migrate import elf, emulator, listing, toolchain
from icml.tools.migrate.targets import REACHABLE, TARGETS, source_flags, target

HELLO = """\
#include <stdio.h>
#include "n.h"
int main(int c, char **v) { printf("%d %s", N, c > 1 ? v[1] : ""); return N; }
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of ours; zig keeps its own, for it takes half a minute to fill."""
    import os

    home = Path.home() / ".cache" / "zig"
    monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", os.environ.get("ZIG_GLOBAL_CACHE_DIR", str(home)))
    monkeypatch.setenv("ICML_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@needs_zig
def test_a_result_is_kept_until_a_header_changes(cache: Path, tmp_path: Path) -> None:
    source, header = tmp_path / "a.c", tmp_path / "n.h"
    source.write_text('#include "n.h"\nint f(void) { return N; }\n')
    header.write_text("#define N 3\n")
    compile = toolchain.compile
    first = compile([source], TARGETS["rvv"], mode="object")
    assert first.ok
    assert not first.cached
    again = compile([source], TARGETS["rvv"], mode="object")
    assert again.cached
    assert again.path == first.path
    header.write_text("#define N 4\n")
    changed = compile([source], TARGETS["rvv"], mode="object")
    assert not changed.cached
    assert changed.path is not None
    assert first.path is not None
    assert changed.path.read_bytes() != first.path.read_bytes()
    assert not compile([source], TARGETS["lsx"], mode="object").cached
    assert not compile([source], TARGETS["rvv"], mode="object", flags=["-DX"]).cached


@needs_zig
def test_texts_are_found_again_wherever_they_are_written(cache: Path) -> None:
    sources = {"a.c": '#include "n.h"\nint f(void) { return N; }\n', "n.h": "#define N 3\n"}
    assert not toolchain.compile(sources, TARGETS["rvv"], mode="assembly").cached
    assert toolchain.compile(sources, TARGETS["rvv"], mode="assembly").cached
    assert not toolchain.compile({**sources, "n.h": "#define N 4\n"}, TARGETS["rvv"], mode="assembly").cached


@needs_zig
def test_an_error_is_returned_with_the_text_that_the_compiler_wrote(cache: Path) -> None:
    result = toolchain.compile({"a.c": "int f( {\n"}, TARGETS["rvv"], mode="object")
    assert not result.ok
    assert result.path is None
    assert "a.c:1:8: error" in result.stderr
    assert "icml-migrate-" not in result.stderr


@needs_zig
def test_a_compiler_is_stopped_at_its_limit(cache: Path) -> None:
    names = "ABCDEF"
    lines = [f"#define {name}(x) {after}({after}({after}({after}(x))))" for name, after in pairwise(names)]
    deep = "\n".join([*lines, "#define F(x) ((x)+(x)+(x)+(x))", "int y = A(A(1));", ""])
    start = time.monotonic()
    result = toolchain.compile({"a.c": deep}, TARGETS["rvv"], mode="object", timeout=2)
    assert "took more than 2 s" in result.stderr
    assert time.monotonic() - start < 20


@pytest.mark.parametrize(
    "name",
    [
        "neon",
        "rvv",
        "lsx",
        "avx2",
        pytest.param("lasx", marks=pytest.mark.slow),
        pytest.param("sse", marks=pytest.mark.slow),
    ],
)
@needs_zig
def test_a_program_runs_on_every_target(name: str) -> None:
    trouble = emulator.problem(TARGETS[name])
    if trouble is not None:
        pytest.skip(trouble[0])
    built = toolchain.compile({"a.c": HELLO, "n.h": "#define N 5\n"}, TARGETS[name])
    assert built.path is not None, built.stderr
    for vlen in TARGETS[name].vlens or (None,):
        run = emulator.run(built.path, TARGETS[name], ["x"], vlen=vlen)
        assert (run.rc, run.stdout) == (5, b"5 x")


@needs_run("rvv")
def test_the_vector_length_is_the_one_asked_for() -> None:
    text = 'int main(void) { long n; __asm__("csrr %0, vlenb" : "=r"(n)); return (int)n; }\n'
    built = toolchain.compile({"a.c": text}, TARGETS["rvv"])
    assert built.path is not None
    for vlen in (128, 256, 512):
        assert emulator.run(built.path, TARGETS["rvv"], vlen=vlen).rc == vlen // 8
    with pytest.raises(InputError, match="rvv does not run at a vector length of 64 bits"):
        emulator.run(built.path, TARGETS["rvv"], vlen=64)


@needs_run("rvv")
def test_a_program_is_stopped_at_its_limit() -> None:
    built = toolchain.compile({"a.c": "int main(void) { for (volatile int i = 0;;) i++; }\n"}, TARGETS["rvv"])
    assert built.path is not None
    run = emulator.run(built.path, TARGETS["rvv"], timeout=1)
    assert run.rc is None
    assert not run.ok


def test_a_compiler_that_is_not_there() -> None:
    with pytest.raises(MissingError, match="no-such-gcc is not on PATH"):
        toolchain.find_compiler("no-such-gcc -march=rv64gcv")


def test_another_compiler_is_taken_with_its_flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ICML_CACHE", str(tmp_path))
    fake = tmp_path / "some-gcc"
    fake.write_text(
        f"#!{sys.executable}\nimport sys\nif '--version' in sys.argv: print('some-gcc 14'); raise SystemExit\n"
        "open(sys.argv[sys.argv.index('-o') + 1], 'w').write(' '.join(sys.argv[1:]))\n"
    )
    fake.chmod(0o755)
    result = toolchain.compile({"a.c": ""}, TARGETS["rvv"], mode="object", cc=f"{fake} -march=rv64gcv")
    assert result.path is not None
    words = result.path.read_text().split()
    assert words[0] == "-march=rv64gcv"
    assert "-target" not in words
    assert "-fno-sanitize=all" not in words
    assert "-ffp-contract=off" in words


def test_unknown_targets_are_refused() -> None:
    with pytest.raises(
        InputError, match="unknown instruction set 'vsx'; known are neon, rvv, lsx, lasx, sse, avx2"
    ):
        target("vsx")
    assert set(REACHABLE) == {"neon", "sse", "avx2"}
    assert "bf16" in source_flags("neon")[0]


def test_work_is_done_in_order_and_in_parallel() -> None:
    start = time.monotonic()
    assert toolchain.in_parallel(lambda x: (time.sleep(0.2), x)[1], [3, 1, 2, 0]) == [3, 1, 2, 0]
    assert time.monotonic() - start < 0.75


VECTOR = """\
typedef int v4 __attribute__((vector_size(16)));
void twice(v4 *p) { *p = *p + *p; }
int plain(int x) { return x * 3; }
"""


@needs_zig
@pytest.mark.parametrize("name", ["neon", "rvv", "lsx", "avx2"])
def test_functions_and_their_vector_instructions_are_found(name: str) -> None:
    built = toolchain.compile({"a.c": VECTOR}, TARGETS[name], mode="assembly")
    assert built.path is not None, built.stderr
    code = listing.instructions(built.path.read_text())
    assert {"twice", "plain"} <= set(code)
    # A load, an addition and a store; x86 may add from memory.
    assert 2 <= len(listing.vector_instructions(code["twice"], TARGETS[name])) <= 4, code["twice"]
    assert listing.vector_instructions(code["plain"], TARGETS[name]) == []


@needs_zig
def test_symbols_of_an_object(tmp_path: Path) -> None:
    built = toolchain.compile({"a.c": VECTOR}, TARGETS["rvv"], mode="object")
    assert built.path is not None
    found = {symbol.name: symbol for symbol in elf.functions(built.path)}
    assert set(found) == {"twice", "plain"}
    assert 4 <= found["plain"].size <= 12
    cut = tmp_path / "cut.o"
    cut.write_bytes(built.path.read_bytes()[:200])
    with pytest.raises(InputError, match="cut short"):
        elf.functions(cut)
    cut.write_bytes(b"hello")
    with pytest.raises(InputError, match=r"cut\.o: not a 64-bit little-endian ELF file"):
        elf.functions(cut)
