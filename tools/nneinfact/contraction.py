"""Small einsums of many operands, contracted pairwise along the cheapest order.

Everything here is of the size of the factors, not of the data. Pairs that share a summed letter go through the
kernel's matrix product or `numpy.einsum`, never through BLAS, so that the bytes do not depend on its threads.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from icml.tools.nneinfact import _kernel

Array = NDArray[np.float64]

EXHAUSTIVE = 6
"""Up to this many operands the contraction order is the best one; beyond, a greedy one."""


@dataclass(frozen=True)
class Step:
    """Contract operands `left` and `right` (positions in the growing list) into letters `output`."""

    left: int
    right: int
    output: str


class Contraction:
    """`inputs -> output` as a callable with a fixed contraction order.

    Letters of the output that no input carries are filled in by broadcasting.

    Attributes:
        flops: multiply-adds of one call.
        largest: elements of the largest array it makes.
    """

    def __init__(self, inputs: Sequence[str], output: str, sizes: Mapping[str, int]) -> None:
        self.inputs = tuple(inputs)
        self.output = output
        self._sizes = {c: sizes[c] for c in set("".join(inputs)) | set(output)}
        self._reduced = tuple(self._needed_alone(i) for i in range(len(self.inputs)))
        self._steps, self.flops, self.largest = _order(self._reduced, output, self._sizes)

    def __call__(self, *arrays: NDArray[np.floating], threads: int = 1) -> Array:
        """The contraction of `arrays`, C-contiguous float64."""
        stack: list[tuple[Array, str] | None] = []
        for array, letters, kept in zip(arrays, self.inputs, self._reduced, strict=True):
            wide = np.asarray(array, np.float64)
            stack.append((wide if kept == letters else _einsum(kept, (wide, letters)), kept))
        for step in self._steps:
            a, b = stack[step.left], stack[step.right]
            assert a is not None
            assert b is not None
            stack[step.left] = stack[step.right] = None
            stack.append((_pair(a, b, step.output, threads), step.output))
        last = stack[-1]
        assert last is not None
        return self._finish(*last)

    def _needed_alone(self, i: int) -> str:
        """Letters of input `i` that the output or another input needs; the others are summed out at once."""
        others = set("".join(self.inputs[:i] + self.inputs[i + 1 :])) | set(self.output)
        return "".join(c for c in self.inputs[i] if c in others)

    def _finish(self, array: Array, letters: str) -> Array:
        held = "".join(c for c in self.output if c in letters)
        array = (
            _einsum(held, (array, letters))
            if set(held) != set(letters)
            else _transposed(array, letters, held)
        )
        shape = tuple(self._sizes[c] if c in held else 1 for c in self.output)
        full = tuple(self._sizes[c] for c in self.output)
        return np.asarray(np.broadcast_to(array.reshape(shape), full), order="C")


@functools.lru_cache(maxsize=4096)
def _compiled(inputs: tuple[str, ...], output: str, sizes: tuple[tuple[str, int], ...]) -> Contraction:
    return Contraction(inputs, output, dict(sizes))


def compile_contraction(inputs: Sequence[str], output: str, sizes: Mapping[str, int]) -> Contraction:
    """The `Contraction`, made once for the same letters and sizes."""
    used = sorted(set("".join(inputs)) | set(output))
    return _compiled(tuple(inputs), output, tuple((c, sizes[c]) for c in used))


def _order(inputs: Sequence[str], output: str, sizes: Mapping[str, int]) -> tuple[list[Step], int, int]:
    """Steps, their multiply-adds and the size of the largest result."""
    steps: list[Step] = []
    flops, largest = 0, 1
    alive = dict(enumerate(inputs))
    tree = _best_tree(inputs, output, sizes) if 2 < len(inputs) <= EXHAUSTIVE else None
    pairs = iter(tree) if tree is not None else None
    while len(alive) > 1:
        left, right = next(pairs) if pairs is not None else _greedy(alive, output, sizes)
        a, b = alive.pop(left), alive.pop(right)
        kept = _kept(a, b, [*alive.values(), output])
        flops += _volume(set(a) | set(b), sizes)
        largest = max(largest, _volume(kept, sizes))
        steps.append(Step(left, right, kept))
        alive[len(inputs) + len(steps) - 1] = kept
    return steps, flops, largest


def _kept(a: str, b: str, others: Sequence[str]) -> str:
    """Letters of the contraction of `a` and `b` that `others` still need, in an order that suits its execution."""
    needed = set("".join(others))
    batch = [c for c in a if c in b and c in needed]
    summed = any(c in b and c not in needed for c in a)
    free_a = [c for c in a if c not in b and c in needed]
    free_b = [c for c in b if c not in a and c in needed]
    if summed:
        return "".join(batch + free_a + free_b)
    wide, narrow = (a, free_b) if len(a) >= len(b) else (b, free_a)
    return "".join([c for c in narrow if c not in wide] + [c for c in wide if c in needed])


def _volume(letters: set[str] | str, sizes: Mapping[str, int]) -> int:
    return math.prod(sizes[c] for c in letters)


def _greedy(alive: Mapping[int, str], output: str, sizes: Mapping[str, int]) -> tuple[int, int]:
    """The pair whose contraction costs least, measured against the operands that it removes."""

    def price(pair: tuple[int, int]) -> float:
        i, j = pair
        rest = [s for k, s in alive.items() if k not in pair]
        a, b = alive[i], alive[j]
        return (
            _volume(set(a) | set(b), sizes) + _volume(_kept(a, b, [*rest, output]), sizes) - _volume(a, sizes)
        )

    return min(combinations(alive, 2), key=price)


def _best_tree(inputs: Sequence[str], output: str, sizes: Mapping[str, int]) -> list[tuple[int, int]]:
    """Pairs of the order with the fewest multiply-adds, by dynamic programming over sets of operands."""
    n = len(inputs)
    bit = {c: 1 << i for i, c in enumerate(sorted(set("".join(inputs)) | set(output)))}
    volume = functools.lru_cache(None)(lambda m: math.prod(sizes[c] for c, b in bit.items() if m & b))
    masks = [sum(bit[c] for c in s) for s in inputs]
    full = (1 << n) - 1
    covers = [0] * (full + 1)
    for s in range(1, full + 1):
        low = (s & -s).bit_length() - 1
        covers[s] = covers[s & (s - 1)] | masks[low]
    out = sum(bit[c] for c in output)
    letters = [covers[s] & (covers[full & ~s] | out) if s & (s - 1) else covers[s] for s in range(full + 1)]
    best: list[tuple[float, int]] = [(math.inf, 0)] * (full + 1)
    for s in range(1, full + 1):
        if s & (s - 1) == 0:
            best[s] = (0.0, 0)
            continue
        half = (s - 1) & s
        while half:
            other = s & ~half
            if half > other:
                cost = (
                    best[half][0]
                    + best[other][0]
                    + volume(letters[half] | letters[other])
                    + volume(letters[s])
                )
                if cost < best[s][0]:
                    best[s] = (cost, half)
            half = (half - 1) & s
    pairs: list[tuple[int, int]] = []

    def emit(s: int) -> int:
        if s & (s - 1) == 0:
            return s.bit_length() - 1
        a, b = emit(best[s][1]), emit(s & ~best[s][1])
        pairs.append((a, b))
        return n + len(pairs) - 1

    emit(full)
    return pairs


def _pair(a: tuple[Array, str], b: tuple[Array, str], output: str, threads: int) -> Array:
    (x, xs), (y, ys) = a, b
    summed = [c for c in xs if c in ys and c not in output]
    if not summed:
        return _aligned(x, xs, output) * _aligned(y, ys, output)
    batch = [c for c in xs if c in ys and c in output]
    rows = [c for c in xs if c not in ys]
    columns = [c for c in ys if c not in xs]
    size = {**dict(zip(xs, x.shape, strict=True)), **dict(zip(ys, y.shape, strict=True))}
    b_, m, n, k = (math.prod(size[c] for c in part) for part in (batch, rows, columns, summed))
    if min(m, n) < 4 or max(m, n) < 8 or b_ * m * n * k < 4096:
        return _einsum(output, a, b)
    left = _transposed(x, xs, "".join(batch + rows + summed)).reshape(b_, m, k)
    right = _transposed(y, ys, "".join(batch + summed + columns)).reshape(b_, k, n)
    product = _kernel.multiply(np.ascontiguousarray(left), np.ascontiguousarray(right), threads)
    natural = "".join(batch + rows + columns)
    return _transposed(product.reshape([size[c] for c in natural]), natural, output)


def _aligned(array: Array, letters: str, output: str) -> Array:
    """`array` with its axes in the order of `output` and axes of length 1 for the letters it lacks."""
    held = "".join(c for c in output if c in letters)
    shape = dict(zip(letters, array.shape, strict=True))
    return _transposed(array, letters, held).reshape([shape.get(c, 1) for c in output])


def _transposed(array: Array, letters: str, order: str) -> Array:
    return array if letters == order else array.transpose([letters.index(c) for c in order])


def _einsum(output: str, *operands: tuple[Array, str]) -> Array:
    number = {c: i for i, c in enumerate(dict.fromkeys("".join(s for _, s in operands)))}
    args: list[object] = []
    for array, letters in operands:
        args += [array, [number[c] for c in letters]]
    return np.asarray(np.einsum(*args, [number[c] for c in output]), np.float64)  # type: ignore[call-overload]
