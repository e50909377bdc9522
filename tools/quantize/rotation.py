"""Incoherence: random signs, then a Hadamard transform, spread every outlier over all coordinates.

For n = 2^k q the transform is Q (x) Had / sqrt(2^k) with Q a random q x q orthogonal matrix. Signs and Q are stored
with the weights, never drawn again. Where q > 512, two overlapping Hadamard transforms of the largest power of two,
with fixed signs between them, take its place, and nothing but the signs is stored.

Source: Tseng, Chee, Sun, Kuleshov, De Sa, "QuIP#: Even Better LLM Quantization with Hadamard Incoherence and Lattice
Codebooks", ICML 2024.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from icml.formats.errors import InputError
from icml.tools.quantize import _kernel
from icml.tools.quantize.threads import thread_count

LARGEST_Q = 512
Matrix = NDArray[np.float32]


def power_of_two(n: int) -> int:
    """The largest power of two that divides n."""
    return n & -n


@dataclass(frozen=True)
class Rotation:
    """An orthogonal matrix V on n coordinates, applied fast; random signs are not part of it.

    Attributes:
        n: coordinates.
        q: the small orthogonal matrix, float32 [q, q]; None where q is 1 or above 512.
    """

    n: int
    q: Matrix | None = None

    def __post_init__(self) -> None:
        wanted = self.n // power_of_two(self.n)
        if wanted == 1 or wanted > LARGEST_Q:
            wanted = 0
        if wanted != (0 if self.q is None else len(self.q)):
            raise InputError(f"a rotation of {self.n} coordinates needs a q of {wanted} rows")

    @classmethod
    def random(cls, n: int, generator: np.random.Generator) -> Rotation:
        q = n // power_of_two(n)
        return cls(n, random_orthogonal(q, generator) if 1 < q <= LARGEST_Q else None)

    def apply(self, x: Matrix, *, transpose: bool = False, threads: int | None = None) -> Matrix:
        """V x (or Vᵀ x) for each row x of a float32 [rows, n]; a new array."""
        out = np.array(x, np.float32, order="C")
        count = thread_count(threads)
        block = power_of_two(self.n)
        if self.n // block > LARGEST_Q:
            width = 1 << (self.n.bit_length() - 1)
            starts = (0, self.n - width)
            _kernel.hadamard(out, starts[transpose], width, count)
            out *= fixed_signs(self.n)
            _kernel.hadamard(out, starts[not transpose], width, count)
            return out
        _kernel.hadamard(out, 0, block, count)
        if self.q is not None:
            _kernel.mix(out, self.q, transpose, count)
        return out

    def conjugate(self, h: Matrix, threads: int | None = None) -> Matrix:
        """V h Vᵀ."""
        half = self.apply(h, threads=threads)
        return self.apply(np.ascontiguousarray(half.T), threads=threads)


def fixed_signs(n: int) -> Matrix:
    """Signs that look random and depend on n alone: a bit of a hash of each index."""
    hashed = np.arange(1, n + 1, dtype=np.uint32) * np.uint32(0x9E3779B1)
    hashed = (hashed ^ hashed >> np.uint32(15)) * np.uint32(0x85EBCA6B)
    return np.where(hashed >> np.uint32(31), -1.0, 1.0).astype(np.float32)


def random_orthogonal(n: int, generator: np.random.Generator) -> Matrix:
    """Uniformly distributed, by QR with the signs of R made positive."""
    q, r = np.linalg.qr(generator.standard_normal((n, n)))
    return np.ascontiguousarray(q * np.sign(np.diag(r)), np.float32)


def random_signs(n: int, generator: np.random.Generator) -> Matrix:
    return np.where(generator.random(n) < 0.5, -1.0, 1.0).astype(np.float32)
