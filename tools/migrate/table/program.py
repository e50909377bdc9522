"""The verification program: calls intrinsics, real or migrated, on the pool's inputs and hashes the results."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from itertools import product

from icml.tools.migrate.table.emit_types import user_type
from icml.tools.migrate.table.entry import Entry
from icml.tools.migrate.table.pool import CORNERS, SLOT, SLOTS, kind_of
from icml.tools.migrate.table.types import Type, parse

CANARY = 0xA5
_SCALARS = {
    **{f"int{b}_t": f"s{b}" for b in (8, 16, 32, 64)},
    **{f"uint{b}_t": f"u{b}" for b in (8, 16, 32, 64)},
    **{f"poly{b}_t": f"p{b}" for b in (8, 16, 64)},
    "float16_t": "f16",
    "float32_t": "f32",
    "float64_t": "f64",
    "bfloat16_t": "bf16",
    "float": "f32",
    "double": "f64",
    "int": "s32",
    "long long": "s64",
}

_PRELUDE = """\
#ifdef ICM_REAL
#include <{include}>
#define CALL(name) name
#else
#include "icm_simd.h"
#define CALL(name) icm_##name
#endif
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
static uint8_t pool[5][{bytes}];
static uint64_t hash;
static int dump;
static long rounds;
static uint8_t *edge[2];
static __attribute__((noinline)) int slot(long r, int i, int seed) {{
  if ((r & 3) == 3) return (int)((r / 4 + i * (r / 4 / {corners})) % {corners});
  return ((2 * i + 1) * r + (r >> 9) * 7 * i + seed + 37 * i) & {last};
}}
static __attribute__((noinline)) void get(void *to, int n, int kind, int at) {{
  for (int i = 0; i < n; i += {slot}, at = (at + 1) & {last})
    memcpy((uint8_t *)to + i, pool[kind] + at * {slot}, n - i < {slot} ? n - i : {slot});
}}
/* NaNs are made alike: instruction sets keep different payloads. */
#define QUIET(word, infinity, nan) \\
  for (int i = 0; i < n; i += (int)sizeof(word)) {{ \\
    word v; \\
    memcpy(&v, out + i, sizeof v); \\
    if ((v & (word)~((word)1 << (8 * sizeof v - 1))) > (word)(infinity)) v = (word)(nan); \\
    memcpy(out + i, &v, sizeof v); \\
  }}
static __attribute__((noinline)) void put(const void *from, int n, int kind) {{
  static uint8_t out[4096];
  memcpy(out, from, n);
  if (kind == 1) QUIET(uint16_t, 0x7c00, 0x7e00)
  if (kind == 2) QUIET(uint16_t, 0x7f80, 0x7fc0)
  if (kind == 3) QUIET(uint32_t, 0x7f800000, 0x7fc00000)
  if (kind == 4) QUIET(uint64_t, 0x7ff0000000000000, 0x7ff8000000000000)
  if (dump) {{ fwrite(out, 1, n, stdout); return; }}
  for (int i = 0; i < n; i++) {{ hash ^= out[i]; hash *= 1099511628211u; }}
}}
/* Memory that ends at a page that cannot be touched, or one element before it. */
static __attribute__((noinline)) uint8_t *place(int i, int n, int step, long r) {{
  return edge[i] - n - (r & 1) * step;
}}
static __attribute__((noinline)) void guard(uint8_t *p, int n, int step, long r) {{
  int bad = 0;
  for (int i = 1; i <= 32; i++) bad |= p[-i] != 0xA5;
  if (r & 1) for (int i = 0; i < step; i++) bad |= p[n + i] != 0xA5;
  if (bad) {{ fprintf(stderr, "wrote beyond its extent\\n"); exit(9); }}
}}
#define MASK(word) \\
  static void mask_##word(void *p, int n, uint64_t m) {{ \\
    word *q = (word *)p; \\
    for (int i = 0; i < n / (int)sizeof(word); i++) q[i] &= m; \\
  }}
MASK(uint8_t) MASK(uint16_t) MASK(uint32_t) MASK(uint64_t)
"""

_MAIN = """\
int main(int argc, char **argv) {
  rounds = atol(argv[1]);
  dump = argc > 2;
  if (fread(pool, 1, sizeof pool, stdin) != sizeof pool) return 8;
  for (int i = 0; i < 2; i++) {
    uint8_t *area = (uint8_t *)mmap(0, 131072, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    edge[i] = area + 65536;
    if (area == MAP_FAILED || mprotect(edge[i], 65536, PROT_NONE)) return 7;
  }
  for (unsigned i = 0; i < sizeof tests / sizeof *tests; i++) {
    if (dump && strcmp(argv[2], "-") && strcmp(argv[2], tests[i].name)) continue;
    hash = 1469598103934665603u;
    tests[i].run();
    if (!dump) printf("%s %016llx\\n", tests[i].name, (unsigned long long)hash);
  }
  return 0;
}
"""


def program(entries: Sequence[Entry], isa: str) -> str:
    """The C text. Run as `program ROUNDS [NAME|-]` with the pools on stdin; with a name it writes raw results."""
    include = "arm_neon.h" if isa == "neon" else "immintrin.h"
    parts = [_PRELUDE.format(include=include, bytes=SLOTS * SLOT, last=SLOTS - 1, slot=SLOT, corners=CORNERS)]
    parts += [_test(number, entry) for number, entry in enumerate(entries)]
    rows = ",\n".join(f'  {{"{entry.name}", t{number}}}' for number, entry in enumerate(entries))
    parts.append(f"static const struct {{ const char *name; void (*run)(void); }} tests[] = {{\n{rows}}};")
    return "\n".join([*parts, _MAIN])


def seed_of(entry: Entry) -> int:
    """Shifts the inputs, so that intrinsics do not all see the same pairs."""
    return zlib.crc32(entry.name.encode()) % SLOTS


def variants(entry: Entry) -> list[tuple[int, ...]]:
    """The immediates that are tried: all of one, and of two each with a partner that varies."""
    ranges = [arg.numbers for arg in entry.args if arg.kind == "imm"]
    if len(ranges) < 2:
        return [tuple(values) for values in product(*ranges)]
    count = max(len(part) for part in ranges)
    return [tuple(part[(i * (2 * k + 1)) % len(part)] for k, part in enumerate(ranges)) for i in range(count)]


def result_type(entry: Entry) -> tuple[Type, int]:
    """Lanes of a result by its C type, and how many vectors."""
    found = user_type(entry.result)
    return found if found is not None else (parse(_SCALARS[entry.result]), 1)


def output_layout(entry: Entry) -> list[tuple[int, int]]:
    """Bytes and NaN kind of each piece that one call puts out."""
    if entry.stores:
        return [(arg.count * arg.type.size, kind_of(arg.type)) for arg in entry.args if arg.kind == "out"]
    return [(compared(entry), kind_of(result_type(entry)[0]))]


def compared(entry: Entry) -> int:
    """Bytes of a result that are defined: its first ones."""
    type, count = result_type(entry)
    return type.size * count if entry.defined is None else entry.defined


def _test(number: int, entry: Entry) -> str:
    seed = seed_of(entry)
    lines = [f"static void t{number}(void) {{ for (long r = 0; r < rounds; r++) {{"]
    calls: list[str] = []
    fills: list[str] = []
    ends: list[str] = []
    pointers = 0
    for index, arg in enumerate(entry.args):
        at = f"slot(r,{index},{seed})"
        if arg.kind == "imm":
            calls.append("%s")
        elif arg.kind in ("in", "out"):
            size = arg.count * arg.type.size
            step = 0 if arg.aligned else arg.type.size
            lines.append(f"uint8_t *p{index} = place({pointers},{size},{step},r);")
            pointers += 1
            if arg.kind == "in":
                lines.append(f"get(p{index},{size},{kind_of(arg.type)},{at});")
            else:
                fills.append(f"memset(p{index}-32,{CANARY},32+{size}+(r&1)*{step});")
                ends.append(f"guard(p{index},{size},{step},r); put(p{index},{size},{kind_of(arg.type)});")
            calls.append(f"({arg.ctype})(void *)p{index}")
        else:
            lines.append(f"{arg.ctype} x{index}; get(&x{index},sizeof x{index},{kind_of(arg.type)},{at});")
            if arg.mask is not None:
                lines.append(f"mask_uint{arg.type.bits}_t(&x{index},sizeof x{index},{arg.mask}ULL);")
            calls.append(f"x{index}")
    for values in variants(entry):
        text = ",".join(calls) % values if values else ",".join(calls)
        lines.append(_call(entry, text, fills, ends))
    return " ".join([*lines, "} }"])


def _call(entry: Entry, arguments: str, fills: list[str], ends: list[str]) -> str:
    call = f"CALL({entry.name})({arguments})"
    if entry.stores:
        return f"{{ {' '.join(fills)} {call}; {' '.join(ends)} }}"
    kind = kind_of(result_type(entry)[0])
    return f"{{ {entry.result} y = {call}; put(&y,{compared(entry)},{kind}); }}"
