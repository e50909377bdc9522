"""The codes and kernels of `icml quantize`, without a model: one run prints every ratio that the man page quotes.

    python bench/quantize.py [SECTION ...]

Sections: code, vetting, encode, product, ternary (default: all). Products are compared in CPU seconds of one thread,
medians of interleaved repeats; encoding is in wall seconds of two threads. Peers: torch's linear in float32 and
bfloat16, and a decoder with a table (bench/gather.cpp, compiled on the spot; needs AVX-512).
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from icml.tools.quantize import Generator, QuantizedLinear, TrellisCode, best_generators, instruction_sets
from icml.tools.quantize.vetting import draw, gaussian_tiles, overlap_statistics, viterbi_error

SHAPE = (4096, 11008)
REPEATS = 9


def code() -> None:
    """Squared error on N(0,1); the bound at 2 bits is 0.0625, Lloyd-Max reaches 0.1175."""
    print("\nsquared error on N(0,1) at exactly 2 bits, ring of 256, mean and standard error over tiles")
    for L, count in ((12, 3000), (14, 1500), (16, 1500)):
        x = gaussian_tiles(count, 2026)
        trellis = TrellisCode(L)
        for tail, costs in (("window", "uint8"), ("full", "uint8"), ("full", "uint16"), ("refine", "uint16")):
            errors = np.square(x - trellis.encode(x, tail=tail, costs=costs)[1]).mean(1)
            spread = errors.std() / count**0.5
            print(f"  L={L} {tail:6s} {costs:6s} {errors.mean():.5f} +- {spread:.5f}", flush=True)


def vetting() -> None:
    """What tells good generators from bad ones, and what vetting is worth on tiles that chose nothing."""
    print("\n60 random multipliers (mul32, L=12): rank correlation with the squared error on fresh tiles")
    drawn = [g for g in draw("mul32", 60, 77) if g not in best_generators(12, 24)][-60:]
    x = gaussian_tiles(150, 78)
    errors = np.array([viterbi_error(g, 12, x) for g in drawn])
    rows = [
        (kurtosis_error(g), *vars(overlap_statistics(TrellisCode.of(g, 12).values, 12)).values())
        for g in drawn
    ]
    names = (
        "kurtosis error",
        "lag correlation",
        "leak low",
        "leak high",
        "successor spread",
        "merger spread",
    )
    for name, column in zip(names, np.array(rows).T, strict=True):
        print(f"  {name:18s} {rank_correlation(column, errors):+.2f}")
    for L, count in ((12, 300), (16, 60)):
        fresh = gaussian_tiles(count, 79)
        chosen = viterbi_error(best_generators(L, 1)[0], L, fresh)
        others = sorted(viterbi_error(g, L, fresh) for g in drawn[: 60 if L == 12 else 24])
        median, worst = statistics.median(others), others[-1]
        print(
            f"  L={L}: the pool's best {chosen:.4f}; random multipliers: median {median:.4f} "
            f"({100 * (median / chosen - 1):+.1f} %), worst {worst:.4f} ({100 * (worst / chosen - 1):+.1f} %)",
            flush=True,
        )


def kurtosis_error(generator: Generator) -> float:
    values = TrellisCode.of(generator, 12).values.astype(np.float64)
    return abs(float((values**4).mean()) - 3)


def rank_correlation(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    from scipy.stats import spearmanr

    return float(spearmanr(a, b).statistic)


def encode() -> None:
    """Weights a second of the encoder as the tool runs it (tail full, 8-bit costs), and with each instruction set."""
    print("\nencoding, million weights a second of wall time on two threads, best of 3")
    for L, count in ((12, 6000), (14, 1500), (16, 400)):
        x = gaussian_tiles(count, 1)
        trellis = TrellisCode(L)
        cells = []
        for isa in reversed(instruction_sets()):
            part = x if isa != "portable" else x[: count // 8]
            took = min(wall(partial(encoded, trellis, part, isa)) for _ in range(3))
            cells.append(f"{isa} {part.size / took / 1e6:.3g}")
        print(f"  L={L}: {', '.join(cells)}", flush=True)


def encoded(trellis: TrellisCode, x: NDArray[np.float32], isa: str) -> None:
    trellis.search(x, tail="full", costs="auto", isa=isa, threads=2)


def wall(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def interleaved(runs: dict[str, Callable[[int], object]]) -> dict[str, float]:
    """Median CPU seconds of this thread of each."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for i in range(REPEATS):
        for name, run in runs.items():
            start = time.thread_time()
            run(i)
            times[name].append(time.thread_time() - start)
    return {name: statistics.median(found) for name, found in times.items()}


def random_trellis(family: str, seed: int) -> tuple[QuantizedLinear, NDArray[np.int32]]:
    rng = np.random.default_rng(seed)
    m, n = SHAPE
    g = best_generators(16, 1, family)[0]
    words = rng.integers(-(2**31), 2**31, (m // 16, n // 16, 16)).astype(np.int32)
    meta = {"method": "proteus", "shape": [m, n], "bits": 2, "L": 16, "family": g.family, "A": g.A, "B": g.B,
            "rotate": "none"}  # fmt: skip
    tensors = {"qweight": words, "su": np.ones(n, np.float16), "sv": np.ones(m, np.float16),
               "affine": np.array([0.01, 0], np.float32)}  # fmt: skip
    return QuantizedLinear.from_tensors(meta, tensors), words


def gather_library() -> ctypes.CDLL:
    source = Path(__file__).with_name("gather.cpp")
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / "gather.so"
        subprocess.run(["g++", "-O3", "-march=native", "-shared", "-fPIC", source, "-o", built], check=True)
        return ctypes.CDLL(built)


def product() -> None:
    """One vector times a matrix of 4096 x 11008 beyond the cache, one thread."""
    torch.set_num_threads(1)
    m, n = SHAPE
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, n)).astype(np.float32)
    runs: dict[str, Callable[[int], object]] = {}
    words: list[NDArray[np.int32]] = []
    for family in ("mul32", "mulx", "mul16"):
        matrices = [random_trellis(family, seed) for seed in range(3)]
        words = [w for _, w in matrices]
        for activations in ("int8", "float32"):
            runs[f"{family} {activations}"] = lambda i, q=matrices, a=activations: q[i % 3][0].matvec(
                x, activations=a, threads=1
            )
    weights = [torch.randn(m, n) for _ in range(2)]
    halves = [w.bfloat16() for w in weights]
    wide, half = torch.from_numpy(x), torch.from_numpy(x).bfloat16()
    runs["torch float32"] = lambda i: torch.nn.functional.linear(wide, weights[i % 2])
    runs["torch bfloat16"] = lambda i: torch.nn.functional.linear(half, halves[i % 2])
    if "avx512" in instruction_sets():
        runs["table by gather"] = gathering(words, x[0])
    took = interleaved(runs)
    tell_products(f"product with {m} x {n} at 2 bits, L=16", took)


def gathering(words: list[NDArray[np.int32]], x: NDArray[np.float32]) -> Callable[[int], object]:
    """The table decoder, checked against the tool's decoder on the way."""
    library, trellis = gather_library(), TrellisCode(16)
    table = np.ascontiguousarray(trellis.values)
    m, n = SHAPE
    y = np.empty(m, np.float32)

    def run(i: int) -> NDArray[np.float32]:
        library.product(
            words[i % 3].ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(m // 16), ctypes.c_int64(n // 16), 16,
            table.ctypes.data_as(ctypes.c_void_p), x.ctypes.data_as(ctypes.c_void_p), y.ctypes.data_as(ctypes.c_void_p),
        )  # fmt: skip
        return y

    run(0)
    first = trellis.decode(words[0][0].view(np.uint32)).reshape(-1, 16, 16)  # the first stripe's tiles
    expected = np.einsum("trc,tc->r", first, x.reshape(-1, 16))
    assert np.allclose(y[:16], expected, rtol=1e-3, atol=1e-2)
    return run


def tell_products(title: str, took: dict[str, float]) -> None:
    print(f"\n{title}, CPU time of one thread")
    peers = [name for name in took if name.startswith(("torch", "table"))]
    for name, seconds in took.items():
        ratios = ", ".join(f"{took[p] / seconds:5.1f}x {p}" for p in peers if p != name)
        print(
            f"  {name:16s} {1e3 * seconds:7.2f} ms  {SHAPE[0] * SHAPE[1] / seconds / 1e9:6.1f} G weights/s   {ratios}"
        )


def ternary() -> None:
    """The ternary product, and the machine's memory bandwidth."""
    torch.set_num_threads(1)
    m, n = SHAPE
    rng = np.random.default_rng(0)
    meta = {"method": "twla", "shape": [m, n], "group": 128, "rotate": "none"}
    groups = -(-n // 128)
    matrices = [
        QuantizedLinear.from_tensors(meta, {
            "trits": rng.integers(0, 243, -(-m * n // 5)).astype(np.uint8),
            "alpha": np.ones((m, groups), np.float16), "mu": np.zeros((m, groups), np.float16),
        })
        for _ in range(3)
    ]  # fmt: skip
    x = rng.standard_normal((1, n)).astype(np.float32)
    weights = [torch.randn(m, n) for _ in range(2)]
    halves = [w.bfloat16() for w in weights]
    wide, half = torch.from_numpy(x), torch.from_numpy(x).bfloat16()
    big = np.ones(2**27, np.int64)
    runs: dict[str, Callable[[int], object]] = {
        "ternary int8": lambda i: matrices[i % 3].matvec(x, activations="int8", threads=1),
        "ternary float32": lambda i: matrices[i % 3].matvec(x, activations="float32", threads=1),
        "torch float32": lambda i: torch.nn.functional.linear(wide, weights[i % 2]),
        "torch bfloat16": lambda i: torch.nn.functional.linear(half, halves[i % 2]),
    }
    took = interleaved(runs)
    tell_products("ternary product", took)
    read = statistics.median(wall(big.sum) for _ in range(5))
    reached = m * n / 4 / took["ternary int8"] / 1e9
    print(f"  reads {reached:.1f} GB/s; a plain sum of 1 GiB reads {big.nbytes / read / 1e9:.1f} GB/s")


SECTIONS = {f.__name__: f for f in (code, vetting, encode, product, ternary)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sections", nargs="*", default=list(SECTIONS))
    for name in parser.parse_args().sections:
        if name not in SECTIONS:
            sys.exit(f"no such section: {name}; there are {', '.join(SECTIONS)}")
        SECTIONS[name]()


if __name__ == "__main__":
    main()
