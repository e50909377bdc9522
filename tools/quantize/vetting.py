"""Which generators are good: overlap statistics reject, Viterbi error ranks. `python -m icml.tools.quantize.vetting`.

Two states s_t and s_{t+τ} share L - K τ bits. A good code's values behave as if they shared none: knowing the shared
bits should fix little of either value, the two should not be correlated, and the 2^K successors of a state (and its 2^K
predecessors) should be spread out. The values' own distribution says next to nothing: it is Gaussian for all of them.
Run as a program, it draws candidates, vets them and writes the pool.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from icml.tools.quantize.generators import FAMILIES, Generator, parse_generator
from icml.tools.quantize.trellis import TILE_WEIGHTS, TrellisCode

SIZES = (12, 14, 16)
# Published multipliers and good ones from earlier runs, which compete with those drawn.
KNOWN = (
    "mul32:52252a1f", "mul32:a768614d", "mul32:46277d8d", "mul32:c9a548e1", "mul32:11298ea3", "mul32:83dcd12d",
    "mulx:b4251189", "mulx:3fc2a909", "mulx:70c6a5b9", "mul16:d741:8cd1", "mul16:854b:9167", "mul16:8aa9:c73d",
)  # fmt: skip
REJECTED = 0.5  # share of candidates that any one statistic turns away


@dataclass(frozen=True)
class OverlapStatistics:
    """How much overlapping states give away; each is for standardised values.

    Attributes:
        lag_correlation: largest |correlation| of the values of two overlapping states, at independent other bits.
        leak_low: largest share of a value that its low bits fix, times the number of states that share them (1 for
            independent values).
        leak_high: the same for its high bits.
        successor_spread: mean standard deviation among the 2^K successors of a state.
        merger_spread: mean standard deviation among the 2^K states with a common successor.
    """

    lag_correlation: float
    leak_low: float
    leak_high: float
    successor_spread: float
    merger_spread: float


def overlap_statistics(values: NDArray[np.floating], L: int, K: int = 2) -> OverlapStatistics:
    """Statistics of a code's values [2^L]."""
    c = np.asarray(values, np.float64)
    c = (c - c.mean()) / c.std()
    lag, low, high = 0.0, 0.0, 0.0
    for shared in range(L - K, 0, -K):
        others = 2 ** (L - shared)
        by_low = c.reshape(others, -1).mean(0)  # of states with these low bits, the earlier state's view
        by_high = c.reshape(-1, others).mean(1)
        lag = max(lag, abs(float((by_low * by_high).mean())))
        low = max(low, others * float((by_low**2).mean()))
        high = max(high, others * float((by_high**2).mean()))
    successors, mergers = c.reshape(-1, 2**K), c.reshape(2**K, -1)
    return OverlapStatistics(lag, low, high, float(successors.std(1).mean()), float(mergers.std(0).mean()))


def viterbi_error(
    generator: Generator, L: int, tiles: NDArray[np.float32], threads: int | None = None
) -> float:
    """Mean squared error at 2 bits a weight on the given tiles."""
    values = TrellisCode.of(generator, L).encode(tiles, tail="full", costs="auto", threads=threads)[1]
    return float(np.square(tiles - values, dtype=np.float64).mean())


def gaussian_tiles(count: int, seed: int) -> NDArray[np.float32]:
    """Tiles of N(0,1), together of exactly zero mean and unit variance."""
    x = np.random.Generator(np.random.Philox(seed)).standard_normal((count, TILE_WEIGHTS))
    return np.asarray((x - x.mean()) / x.std(), np.float32)


def draw(family: str, count: int, seed: int) -> list[Generator]:
    """Random odd multipliers; the known ones of the family come first."""
    rng = np.random.Generator(np.random.Philox([seed, FAMILIES.index(family)]))
    known = [g for g in map(parse_generator, KNOWN) if g.family == family]
    if family == "mul16":
        pairs = rng.integers(2**15, 2**16, (count, 2)) | 1
        return known + [Generator(family, int(a), int(b)) for a, b in pairs]
    return known + [Generator(family, int(a)) for a in rng.integers(2**24, 2**32, count) | 1]


def vet(candidates: Sequence[Generator], L: int = 12) -> list[Generator]:
    """Those that no statistic puts among the worst share."""
    codes = (TrellisCode.of(g, L).values for g in candidates)
    statistics = [overlap_statistics(values, L) for values in codes]
    kept = np.ones(len(candidates), bool)
    for name, sign in (("lag_correlation", 1), ("leak_low", 1), ("leak_high", 1),
                       ("successor_spread", -1), ("merger_spread", -1)):  # fmt: skip
        badness = sign * np.array([getattr(s, name) for s in statistics])
        kept &= badness <= np.quantile(badness, 1 - REJECTED / 2)
    return [g for g, keep in zip(candidates, kept, strict=True) if keep]


def build_pool(
    candidates: int,
    each: int,
    seed: int,
    threads: int | None = None,
    on_found: Callable[[str, tuple[float, ...]], None] | None = None,
) -> dict[str, tuple[float, ...]]:
    """The `each` best generators of each family and their errors at SIZES, on tiles that did not choose them."""
    rough, fine = gaussian_tiles(100, seed), gaussian_tiles(60, seed + 1)
    fresh = gaussian_tiles(600, seed + 2)
    pool = {}
    for family in FAMILIES:
        survivors = vet(draw(family, candidates, seed))
        survivors.sort(key=lambda g: viterbi_error(g, 12, rough, threads))
        survivors = survivors[: 8 * each]
        survivors.sort(
            key=lambda g: viterbi_error(g, 16, fine, threads) + viterbi_error(g, 12, fine, threads)
        )
        for g in survivors[:each]:
            pool[str(g)] = tuple(round(viterbi_error(g, L, fresh, threads), 5) for L in SIZES)
            if on_found is not None:
                on_found(str(g), pool[str(g)])
    return dict(sorted(pool.items(), key=lambda entry: sum(entry[1])))


def write_pool(pool: dict[str, tuple[float, ...]], path: Path) -> None:
    """The module `pool.py`."""
    lines = [
        '"""Vetted generators and their squared error on N(0,1) at 2 bits; by `icml.tools.quantize.vetting`."""',
        "",
        f"MEASURED_AT = {SIZES}",
        "POOL: dict[str, tuple[float, float, float]] = {",
        *(f'    "{name}": ({", ".join(f"{e:.5f}" for e in errors)}),' for name, errors in pool.items()),
        "}",
        "",
    ]
    path.write_text("\n".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m icml.tools.quantize.vetting", description="Rebuilds the pool."
    )
    parser.add_argument("output", type=Path, help="the pool.py to write")
    parser.add_argument("--candidates", type=int, default=4000, help="drawn for each family")
    parser.add_argument("--each", type=int, default=8, help="kept of each family")
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--threads", type=int, default=None)
    arguments = parser.parse_args()

    def tell(name: str, errors: tuple[float, ...]) -> None:
        sys.stderr.write(f"{name} {' '.join(map(str, errors))}\n")

    pool = build_pool(arguments.candidates, arguments.each, arguments.seed, arguments.threads, tell)
    write_pool(pool, arguments.output)


if __name__ == "__main__":
    main()
