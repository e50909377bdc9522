"""Which part of the intrinsic calls in real libraries the table knows, from counts of call sites."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from icml.formats.errors import InputError, MissingError
from icml.tools.migrate.table import load
from icml.tools.migrate.targets import REACHABLE

# Headers that define an instruction set's intrinsics.
_HEADERS = {
    "sse": ("xmmintrin", "emmintrin", "pmmintrin", "tmmintrin", "smmintrin"),
    "avx2": ("avxintrin", "avx2intrin", "fmaintrin", "f16cintrin"),
}
_SITES = "sites_"


@dataclass(frozen=True)
class Coverage:
    """Call sites of one library, or of all of them.

    Attributes:
        library: its name; "all" for the sum.
        sites: calls of intrinsics of the source ISA.
        covered: those of them that the table migrates.
        missing: names that it does not know, most called first, with their calls.
    """

    library: str
    sites: int
    covered: int
    missing: tuple[tuple[str, int], ...]

    @property
    def fraction(self) -> float:
        return self.covered / self.sites if self.sites else 1.0


def coverage_of(rows: Iterable[Mapping[str, str]], isa: str, target: str) -> list[Coverage]:
    """Coverage per library and in all.

    Args:
        rows: of a table with a column `intrinsic` and columns `sites_LIBRARY` of counts, as `csv.DictReader` gives.
        isa: "neon"; "sse" counts what the headers of SSE to SSE4.1 and SSSE3 define, "avx2" what those of AVX, AVX2,
            FMA and F16C do.
        target: where the calls are to go.

    Raises:
        InputError: nothing can be carried there, or a column is missing.
        MissingError: x86 counts need the compiler's headers.
    """
    if target not in REACHABLE.get(isa, ()):
        raise InputError(f"{isa} is not migrated to {target}")
    table = load(isa)
    kept = [row for row in rows if _belongs(_name(row), isa)]
    libraries = [key for key in (kept[0] if kept else {}) if key.startswith(_SITES) and "kernels" not in key]
    result = [_of(kept, table, key.removeprefix(_SITES), [key]) for key in libraries]
    return [*result, _of(kept, table, "all", libraries)]


def _name(row: Mapping[str, str]) -> str:
    if "intrinsic" not in row:
        raise InputError("a table of call sites needs a column named intrinsic")
    return row["intrinsic"]


def _of(
    rows: list[Mapping[str, str]], table: Mapping[str, object], library: str, keys: list[str]
) -> Coverage:
    counts = {row["intrinsic"]: sum(int(row[key]) for key in keys) for row in rows}
    missing = sorted(((n, c) for n, c in counts.items() if c and n not in table), key=lambda item: -item[1])
    total = sum(counts.values())
    return Coverage(library, total, total - sum(count for _, count in missing), tuple(missing))


def _belongs(name: str, isa: str) -> bool:
    return isa == "neon" or instruction_set(name) == isa


def instruction_set(name: str) -> str | None:
    """ "sse" or "avx2" by the header that defines an x86 intrinsic; None for later ones.

    Raises:
        MissingError: the headers come with zig.
    """
    return _homes().get(name)


@cache
def _homes() -> dict[str, str]:
    spec = find_spec("ziglang")
    if spec is None or spec.origin is None:
        raise MissingError(
            "telling SSE from AVX needs the headers of zig's compiler", "pip install 'icml-tools[migrate]'"
        )
    include = Path(spec.origin).parent / "lib" / "include"
    homes: dict[str, str] = {}
    for isa, headers in _HEADERS.items():
        for header in headers:
            text = re.sub(r"//.*", "", (include / f"{header}.h").read_text(errors="replace"))
            for name in re.findall(r"\b(_mm(?:256)?_\w+)\s*\(", text):
                homes.setdefault(name, isa)
    return homes
