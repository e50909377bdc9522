"""Uniform grids by group of columns, the usual baselines: round to nearest (RTN), or with error feedback (GPTQ).

Source of the feedback: Frantar, Ashkboos, Hoefler, Alistarh, "GPTQ: Accurate Post-Training Quantization for Generative
Pre-trained Transformers", ICLR 2023.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icml.tools.quantize import _kernel
from icml.tools.quantize.hessian import InputSpace
from icml.tools.quantize.linalg import matmul
from icml.tools.quantize.linear import (
    MANY,
    Gemm,
    Matrix,
    QuantizedLinear,
    Specs,
    Tensors,
    relative_error,
    restored_rotation,
    rotation_specs,
    to_float16,
    to_int8,
)
from icml.tools.quantize.options import ScalarOptions
from icml.tools.quantize.rotation import Rotation
from icml.tools.quantize.threads import thread_count

CLIPS = np.linspace(1.0, 0.4, 25)
ROWS = 1024  # decoded together for a matrix product


@dataclass(frozen=True, eq=False)
class ScalarLinear(QuantizedLinear):
    """Ŵ = (scale code + zero) R.

    Attributes:
        codes: uint8 [m, n], below 2^bits.
        scale, zero: float16 [m, ceil(n / group)].
        su, rotation: signs and Hadamard rotation of the input; None where there is none.
    """

    method: str
    shape: tuple[int, int]
    bits: int
    group: int
    codes: NDArray[np.uint8]
    scale: NDArray[np.float16]
    zero: NDArray[np.float16]
    su: NDArray[np.float16] | None = None
    rotation: Rotation | None = None
    proxy_error: float = float("nan")

    @property
    def meta(self) -> dict[str, Any]:
        return {"method": self.method, "shape": list(self.shape), "bits": self.bits, "group": self.group,
                "rotate": "none" if self.rotation is None else "hadamard"}  # fmt: skip

    def tensors(self) -> dict[str, NDArray[Any]]:
        out: dict[str, NDArray[Any]] = {"codes": pack_codes(self.codes, self.bits), "scale": self.scale,
                                        "zero": self.zero}  # fmt: skip
        if self.su is not None and self.rotation is not None:
            out["su"] = self.su
            if self.rotation.q is not None:
                out["qin"] = self.rotation.q
        return out

    @classmethod
    def specs(cls, meta: Mapping[str, Any]) -> Specs:
        m, n = meta["shape"]
        scales = ((m, -(-n // meta["group"])), "float16")
        specs: Specs = {"codes": ((-(-m * n * meta["bits"] // 8),), "uint8"), "scale": scales, "zero": scales}
        return specs if meta["rotate"] == "none" else specs | rotation_specs(n, "su", "qin")

    @classmethod
    def _restore(cls, meta: Mapping[str, Any], tensors: Tensors) -> ScalarLinear:
        m, n = meta["shape"]
        rotated = meta["rotate"] != "none"
        return cls(
            meta["method"], (m, n), meta["bits"], meta["group"],
            unpack_codes(tensors["codes"], meta["bits"], m * n).reshape(m, n), tensors["scale"], tensors["zero"],
            tensors["su"] if rotated else None,
            restored_rotation(n, tensors.get("qin")) if rotated else None,
        )  # fmt: skip

    @cached_property
    def _grid(self) -> tuple[NDArray[np.uint8], Matrix, Matrix, int, int]:
        return self.codes, self.scale.astype(np.float32), self.zero.astype(np.float32), self.group, self.bits

    def dequantize(self, *, threads: int | None = None) -> Matrix:
        w = _kernel.rows_decode(*self._grid, 0, self.shape[0], thread_count(threads))
        if self.rotation is not None and self.su is not None:
            w = self.rotation.apply(w, transpose=True, threads=threads) * self.su.astype(np.float32)
        return w

    def _products(self, x: Matrix, activations: str, threads: int | None, gemm: Gemm) -> Matrix:
        if self.rotation is not None and self.su is not None:
            x = self.rotation.apply(x * self.su.astype(np.float32), threads=threads)
        if activations == "int8":
            rounded, scale = to_int8(x)
            x = rounded * scale[:, None]
        count = thread_count(threads)
        if len(x) <= MANY:
            return _kernel.rows_product(*self._grid, x, count)
        m = self.shape[0]
        out = np.empty((len(x), m), np.float32)
        for first in range(0, m, ROWS):
            last = min(first + ROWS, m)
            gemm(x, _kernel.rows_decode(*self._grid, first, last, count).T, out[:, first:last])
        return out


def quantize_scalar(weight: Matrix, space: InputSpace, method: str, options: ScalarOptions) -> ScalarLinear:
    """Weights on uniform grids: `gptq` with error feedback in the space's metric, `rtn` without."""
    m, n = weight.shape
    w = space.into(weight)
    factor = space.inverse_factor if method == "gptq" else None
    most = 2**options.bits - 1
    codes = np.empty((m, n), np.uint8)
    grids = np.empty((2, m, -(-n // options.group)), np.float16)
    threads = thread_count(options.threads)
    for index, first in enumerate(range(0, n, options.group)):
        options.poll()
        last = min(first + options.group, n)
        part = np.ascontiguousarray(w[:, first:last])
        scale, zero = fit_grid(part, most, options.clip)
        grids[0, :, index], grids[1, :, index] = scale, zero
        corner = np.eye(last - first, dtype=np.float32) if factor is None else factor[first:last, first:last]
        half = 2 ** (options.bits - 1)  # codes are signed in the kernel
        shifted = zero.astype(np.float32) + scale.astype(np.float32) * half
        found, error = _kernel.walk(
            part, np.ascontiguousarray(corner), scale.astype(np.float32), shifted, -half, most - half, threads
        )
        codes[:, first:last] = found.astype(np.int16) + half
        if factor is not None and last < n:
            w[:, last:] -= matmul(error, np.ascontiguousarray(factor[first:last, last:]), options.threads)
    su = None if space.signs is None else to_float16(space.signs, "signs")
    found_linear = ScalarLinear(method, (m, n), options.bits, options.group, codes, grids[0], grids[1], su,
                                space.rotation)  # fmt: skip
    lost = relative_error(weight, found_linear.dequantize(threads=threads), space.hessian, options.threads)
    return replace(found_linear, proxy_error=lost)


def fit_grid(w: Matrix, most: int, clip: bool) -> tuple[NDArray[np.float16], NDArray[np.float16]]:
    """Scale and zero (the lowest value) of each row's grid of `most` + 1 values."""
    low, high = w.min(1), w.max(1)
    best = np.full(len(w), np.inf)
    scale, zero = np.zeros(len(w), np.float16), np.zeros(len(w), np.float16)
    for shrink in CLIPS if clip else CLIPS[:1]:
        step = to_float16((high - low) * (shrink / most), "scales")
        start = to_float16((high + low) / 2 - (high - low) * (shrink / 2), "zeros")
        s, z = step.astype(np.float32)[:, None], start.astype(np.float32)[:, None]
        code = np.clip(np.rint((w - z) / np.where(s > 0, s, 1)), 0, most)
        loss = np.square(w - (s * code + z), dtype=np.float64).sum(1)
        better = loss < best
        best[better], scale[better], zero[better] = loss[better], step[better], start[better]
    return scale, zero


def pack_codes(codes: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]:
    """Codes of `bits` bits end to end, least significant bit first."""
    if bits == 8:
        return codes.ravel()
    planes = (codes.ravel()[:, None] >> np.arange(bits, dtype=np.uint8)) & 1
    return np.packbits(planes.astype(np.uint8).ravel(), bitorder="little")


def unpack_codes(packed: NDArray[np.uint8], bits: int, count: int) -> NDArray[np.uint8]:
    if bits == 8:
        return packed[:count]
    planes = np.unpackbits(np.asarray(packed, np.uint8), bitorder="little", count=count * bits).reshape(
        count, bits
    )
    return np.asarray((planes << np.arange(bits, dtype=np.uint8)).sum(1), np.uint8)
