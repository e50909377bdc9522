"""The semantics table of NEON: what each intrinsic of Arm's C Language Extensions computes."""

from __future__ import annotations

from icml.tools.migrate.table import (
    neon_dot,
    neon_float,
    neon_integer,
    neon_memory,
    neon_permute,
    neon_shift,
    neon_widening,
)
from icml.tools.migrate.table.entry import Table, Unsupported
from icml.tools.migrate.table.neon_forms import Neon

_AES = "AES instructions have no counterpart; keep the C path"
_SHA = "SHA instructions have no counterpart; keep the C path"
_POLY = "polynomial products have no counterpart; keep the C path"
_NAMES = {
    _AES: ("vaeseq_u8", "vaesdq_u8", "vaesmcq_u8", "vaesimcq_u8"),
    _SHA: (
        *(f"vsha1{part}_u32" for part in ("cq", "pq", "mq", "su0q", "su1q", "h")),
        *(f"vsha256{part}_u32" for part in ("hq", "h2q", "su0q", "su1q")),
        *(f"vsha512{part}_u64" for part in ("hq", "h2q", "su0q", "su1q")),
    ),
    _POLY: ("vmull_p64", "vmull_high_p64", "vmull_p8", "vmull_high_p8", "vmul_p8", "vmulq_p8"),
}


def table() -> Table:
    neon = Neon()
    for part in (
        neon_integer,
        neon_shift,
        neon_widening,
        neon_permute,
        neon_memory,
        neon_float,
        neon_dot,
    ):
        part.define(neon)
    unsupported = {name: Unsupported(name, reason) for reason, names in _NAMES.items() for name in names}
    return Table("neon", neon.entries, unsupported)
