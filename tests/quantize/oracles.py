"""Slow, obvious versions of what the quantizers do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from math import inf

import numpy as np
from numpy.typing import NDArray

from icml.tools.quantize import Generator, TrellisCode

GENERATORS = (
    Generator("mul32", 0x52252A1F),
    Generator("mulx", 0xB4251189),
    Generator("mul16", 0xD741, 0x8CD1),
)


def state_after(ring: int, length: int, t: int, L: int, K: int) -> int:
    """State of weight t, read off a ring of length * K bits as a Python integer, first bit the most significant."""
    bits = length * K
    doubled = ring << bits | ring
    return doubled >> (bits - (t + 1) * K) & (2**L - 1)


def byte_sum(generator: Generator, state: int) -> int:
    if generator.family == "mul16":
        parts = [state * generator.A % 2**16, state * generator.B % 2**16]
        return sum(h // 256 + h % 256 for h in parts)
    p = state * generator.A % 2**32
    if generator.family == "mulx":
        p ^= p >> 15
    return sum(p // 256**i % 256 for i in range(4))


class BruteViterbi:
    """The specified arithmetic in Python integers.

    Costs saturate, so what a seam forbids is only very dear; where a path takes it all the same, exact costs decide.
    """

    def __init__(self, code: TrellisCode, narrow: bool) -> None:
        self.L, self.K, self.narrow = code.L, code.K, narrow
        self.exact = [int(v) for v in code.q13]
        self.values = [int(v) for v in code.level_value[code.level]] if narrow else self.exact
        self.most = 255 if narrow else 65535

    def fixed(self, x: float, narrow: bool) -> int:
        one, edge = (1024, 4096) if narrow else (8192, 32767)
        return int(np.clip(round(float(np.float32(x)) * one), -edge, edge))

    def rounded(self, x: int, state: int) -> int:
        d = min(max(x - self.values[state], -32768), 32767)
        return min((d * d + 2**14) >> 15, self.most)

    def squared(self, x: int, state: int) -> int:
        return (x - self.exact[state]) ** 2

    def path(
        self, x: list[int], seam: int | None, most: float, distance: Callable[[int, int], int]
    ) -> list[int]:
        """Best states; with a seam, the first state's old bits and the last state's low bits are the seam's."""
        low = 2 ** (self.L - self.K)
        cost: list[float] = [
            most if seam not in (None, s >> self.K) else distance(x[0], s) for s in range(2**self.L)
        ]
        back: list[list[int]] = []
        floor = 0.0
        for t, xt in enumerate(x[1:], 1):
            come = [min(range(j, 2**self.L, low), key=lambda s: (cost[s], s)) for j in range(low)]
            least = [max(cost[s] - (floor if t % 2 else 0), 0) for s in come]
            floor = min(least)
            cost = [min(least[s >> self.K] + distance(xt, s), most) for s in range(2**self.L)]
            back.append(come)
        ends = [s for s in range(2**self.L) if seam in (None, s % low)]
        states = [min(ends, key=lambda s: (cost[s], s))]
        for come in reversed(back):
            states.append(come[states[-1] >> self.K])
        return states[::-1]

    def closed(self, tile: NDArray[np.float32]) -> list[int]:
        x = [self.fixed(v, self.narrow) for v in tile]
        half = len(x) // 2
        seam = self.path(x[-half:] + x[:-half], None, self.most, self.rounded)[half] >> self.K
        states = self.path(x, seam, self.most, self.rounded)
        if states[0] >> self.K == seam:
            return states
        return self.path([self.fixed(v, False) for v in tile], seam, inf, self.squared)

    def refined(self, tile: NDArray[np.float32]) -> list[int]:
        """The closed path, opened in turn where it stands in the middle, at one and at three quarters, at an eighth."""
        x = [self.fixed(v, self.narrow) for v in tile]
        states = self.closed(tile)
        for place in (len(x) // 2, len(x) // 4, 3 * len(x) // 4, len(x) // 8):
            seam = states[place] >> self.K
            found = self.path(x[place:] + x[:place], seam, self.most, self.rounded)
            if found[0] >> self.K == seam:
                states = found[-place:] + found[:-place]
        return states


def closed_paths(length: int, L: int, K: int) -> Iterator[list[int]]:
    """The states of every ring of `length` weights."""
    for symbols in product(range(2**K), repeat=length):
        ring = 0
        for b in symbols:
            ring = ring << K | b
        yield [state_after(ring, length, t, L, K) for t in range(length)]


def random_hessian(n: int, rng: np.random.Generator, tokens: int | None = None) -> NDArray[np.float32]:
    """Inputs of uneven scale and some common directions."""
    x = rng.standard_normal((tokens or 2 * n, n)) * np.exp(0.7 * rng.standard_normal(n))
    x += rng.standard_normal((len(x), 1)) * rng.standard_normal(n)
    return (x.T @ x / len(x)).astype(np.float32)


def proxy(weight: NDArray[np.floating], found: NDArray[np.floating], h: NDArray[np.floating]) -> float:
    """tr((W-Ŵ)H(W-Ŵ)ᵀ)/tr(WHWᵀ) in float64."""
    w, e, h64 = weight.astype(float), (weight - found).astype(float), h.astype(float)
    return float(np.trace(e @ h64 @ e.T) / np.trace(w @ h64 @ w.T))
