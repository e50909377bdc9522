"""The inputs that verification feeds to every instruction set: random numbers in which the corners are common.

One pool of bytes per kind of number, made here once and given to each program, so that all see the same.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icml.tools.migrate.table.types import Type

# The first slots hold one corner each.
SLOTS, SLOT, CORNERS = 512, 64, 20
# Kinds in the order of the pools; a number's kind is also how its NaNs are made alike before comparison.
KINDS = ("int", "f16", "bf16", "f32", "f64")
_WORDS = (
    0,
    1,
    0xFFFFFFFFFFFFFFFF,
    0x8000000000000000,
    0x7FFFFFFFFFFFFFFF,
    0x8080808080808080,
    0x7F7F7F7F7F7F7F7F,
    0x8000800080008000,
    0x7FFF7FFF7FFF7FFF,
    0x8000000080000000,
    0x7FFFFFFF7FFFFFFF,
    0x0001000100010001,
    0xFFFF0000FFFF0001,
    0x0101010101010101,
    2,
    0x4000400040004000,
    0xC000C000C000C000,
    0xFEFEFEFEFEFEFEFE,
    0x5555555555555555,
    0x00FF00FF00FF00FF,
)


def kind_of(type: Type) -> int:
    """The pool that a type's test inputs come from."""
    if type.kind == "b":
        return KINDS.index("bf16")
    return KINDS.index(f"f{type.bits}") if type.kind == "f" else 0


def slot(round_: int, parameter: int, seed: int) -> int:
    """Where in the pool a parameter's value starts; `slot` of the C program is the same.

    Every fourth round is one corner throughout: the same for all parameters first, then pairs further apart.
    """
    if round_ & 3 == 3:
        step = round_ >> 2
        return (step + parameter * (step // CORNERS)) % CORNERS
    return ((2 * parameter + 1) * round_ + (round_ >> 9) * 7 * parameter + seed + 37 * parameter) & (
        SLOTS - 1
    )


@cache
def pools(seed: int = 1) -> tuple[bytes, ...]:
    """One pool per kind, `SLOTS * SLOT` bytes each."""
    rng = np.random.Generator(np.random.Philox(seed))
    floats = [_floats(rng, name) for name in KINDS[1:]]
    return tuple(
        _with_corners(pool, name) for name, pool in zip(KINDS, [_integers(rng), *floats], strict=True)
    )


def _with_corners(pool: NDArray[Any], name: str) -> bytes:
    """The pool, its first slots made one corner each."""
    corners = np.array(_WORDS, np.uint64) if name == "int" else _encoded([*_SPECIAL, *_EDGES[name]], name)
    front = np.repeat(corners[:CORNERS], SLOT // corners.itemsize)
    return front.tobytes() + pool.tobytes()[front.nbytes :]


def digest(seed: int = 1) -> str:
    return sha256(b"".join(pools(seed))).hexdigest()


def _integers(rng: np.random.Generator) -> NDArray[np.uint64]:
    """Words: three of eight mix corners with noise bit by bit, one is a corner, two are small numbers."""
    count = SLOTS * SLOT // 8
    noise = rng.integers(0, 1 << 64, count, dtype=np.uint64)
    corner = np.array(_WORDS, dtype=np.uint64)[rng.integers(0, len(_WORDS), count)]
    mask = rng.integers(0, 1 << 64, count, dtype=np.uint64) & rng.integers(0, 1 << 64, count, dtype=np.uint64)
    choice = rng.integers(0, 8, count)
    small = noise & np.uint64(0x0F0F0F0F0F0F0F0F)
    signed = np.where(noise >> np.uint64(63) == 1, ~small, small)
    # Whole bytes, not bits, of the corner in two of the three mixed cases.
    bytewise = (np.repeat(rng.integers(0, 2, count * 8, dtype=np.uint8), 1) * np.uint8(255)).view(np.uint64)
    mixed = np.where(
        choice == 0, (corner & ~mask) | (noise & mask), (corner & bytewise) | (noise & ~bytewise)
    )
    return np.select(
        [choice < 3, choice == 3, choice == 4, choice == 5], [mixed, corner, small, signed], noise
    )


_SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 3.5]
_EDGES = {
    "f16": [65504.0, -65504.0, 32767.0, 32768.0, -32769.0, 2.0**-14, 2.0**-24, 2.0**-15, 1023.5, 2047.0],
    "bf16": [3.0e38, 1e-40, 2.0**-126, 256.0, 255.0, 1.0078125],
    "f32": [
        2.0**31,
        -(2.0**31),
        2.0**32,
        2147483520.0,
        -2147483904.0,
        4294967040.0,
        1e-40,
        -1e-40,
        3.4e38,
        65504.0,
        65519.0,
        65520.0,
        8388607.5,
        0.49999997,
        2.0**-25,
        2.0**-24,
        6.1e-5,
        2.0**-128,
        2.0**-129,
        2.0**126,
        2.0**127,
    ],
    "f64": [
        2.0**63,
        -(2.0**63),
        2.0**64,
        9.2e18,
        1e-310,
        1.7e308,
        2.0**31,
        2.0**52 + 0.5,
        0.49999999999999994,
    ],
}


def _floats(rng: np.random.Generator, name: str) -> NDArray[Any]:
    """A quarter special or random bits, the rest numbers of ordinary size, with ties and cancellation among them."""
    bases: dict[str, Any] = {"f16": np.float16, "bf16": np.float32, "f32": np.float32, "f64": np.float64}
    base = bases[name]
    count = SLOTS * SLOT // (2 if name == "bf16" else np.dtype(base).itemsize)
    corners = np.array([*_SPECIAL, *_EDGES[name]], dtype=base)
    special = corners[rng.integers(0, len(corners), count)]
    words: dict[int, Any] = {2: np.uint16, 4: np.uint32, 8: np.uint64}
    word = words[np.dtype(base).itemsize]
    raw = rng.integers(0, np.iinfo(word).max, count, dtype=word, endpoint=True).view(base)
    scale = 2.0 ** rng.integers(0, 12 if name in ("f16", "bf16") else 20, count)
    limit = 2000 if name in ("f16", "bf16") else 1_000_000
    plain = (rng.integers(-limit, limit + 1, count) / scale).astype(base)
    choice = rng.integers(0, 8, count)
    values = np.select([choice == 0, choice == 1], [special, raw], plain)
    return _encoded(np.where(np.isnan(values), base(np.nan), values), name)


def _encoded(values: Any, name: str) -> NDArray[Any]:
    """Numbers in a format; every NaN must be quiet, for instruction sets differ on signalling ones."""
    if name != "bf16":
        return np.asarray(values, dtype=f"f{int(name[1:]) // 8}")
    return np.asarray((np.asarray(values, np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16))


# The word a number is in, its infinity and its quiet NaN.
_QUIET: dict[str, tuple[Any, int, int]] = {
    "f16": (np.uint16, 0x7C00, 0x7E00),
    "bf16": (np.uint16, 0x7F80, 0x7FC0),
    "f32": (np.uint32, 0x7F800000, 0x7FC00000),
    "f64": (np.uint64, 0x7FF0000000000000, 0x7FF8000000000000),
}


def canonical(data: NDArray[Any], kind: int) -> NDArray[Any]:
    """The bits with every NaN made the same one."""
    if KINDS[kind] == "int":
        return data
    word, infinity, nan = _QUIET[KINDS[kind]]
    bits = data.view(word)
    magnitude = bits & word(np.iinfo(word).max >> 1)
    return np.asarray(np.where(magnitude > infinity, word(nan), bits).astype(word))
