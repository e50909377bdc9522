"""The semantics table: what intrinsics compute, and the C, the numpy, the proof and the figures made from that.

>>> from icml.tools.migrate import table
>>> int(table.load("neon")["vqrdmulhq_n_s16"].lanes([16384] * 8, 16384)[0])
8192
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from icml.formats.errors import InputError
from icml.tools.lazy import attach

if TYPE_CHECKING:
    from icml.tools.migrate.table.coverage import Coverage, coverage_of
    from icml.tools.migrate.table.emit_c import header, inline, macro
    from icml.tools.migrate.table.entry import Entry, Table

_HOMES = {
    "Coverage": "coverage",
    "Entry": "entry",
    "Table": "entry",
    "coverage_of": "coverage",
    "header": "emit_c",
    "inline": "emit_c",
    "macro": "emit_c",
}

__all__ = ["Coverage", "Entry", "Table", "coverage_of", "header", "inline", "load", "macro"]


@cache
def load(isa: str) -> Table:
    """The table of a source instruction set.

    Args:
        isa: "neon", "sse" (with what SSE2 to SSE4.1 and SSSE3 define) or "avx2" (those and AVX, AVX2, FMA, F16C).

    Raises:
        InputError: there is no such table.
    """
    if isa == "neon":
        from icml.tools.migrate.table import neon

        return neon.table()
    if isa in ("sse", "avx2"):
        from icml.tools.migrate.table import x86

        return x86.table(isa)
    raise InputError(f"there is no table of {isa!r}; there are neon, sse and avx2")


__getattr__ = attach(__name__, _HOMES)
