"""One linear's quantized weights: what is stored of them, and products with them.

Every figure is of what is stored: `bpw` counts each byte of `tensors()`, scales and rotations included.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from icml.formats.errors import InputError
from icml.tools.quantize.hessian import InputSpace, checked
from icml.tools.quantize.linalg import row_forms
from icml.tools.quantize.rotation import LARGEST_Q, Rotation, power_of_two

Matrix = NDArray[np.float32]
Tensors = Mapping[str, NDArray[Any]]
Specs = dict[str, tuple[tuple[int, ...], str]]
Gemm = Callable[[Matrix, Matrix, Matrix], object]
"""Writes the product of its first two arguments into the third."""

MANY = 8  # vectors from which on decoding once and a matrix product is faster
_HOMES = {"proteus": ("proteus", "ProteusLinear"), "twla": ("ternary", "TernaryLinear"),
          "gptq": ("scalar", "ScalarLinear"), "rtn": ("scalar", "ScalarLinear")}  # fmt: skip


class QuantizedLinear(ABC):
    """Quantized weights [m, n] of one linear.

    Attributes:
        method: `proteus`, `twla`, `gptq` or `rtn`.
        shape: (m, n), outputs and inputs.
        bits: nominal bits a weight; 2 for ternary.
        proxy_error: tr((W-Ŵ)H(W-Ŵ)ᵀ) / tr(WHWᵀ) when quantized; nan if read from a file.
    """

    method: str
    shape: tuple[int, int]
    bits: int
    proxy_error: float = float("nan")
    kinds: ClassVar[dict[str, str]] = {}

    @property
    @abstractmethod
    def meta(self) -> dict[str, Any]:
        """Everything but the arrays, fit for JSON."""

    @abstractmethod
    def tensors(self) -> dict[str, NDArray[Any]]:
        """The arrays that are stored, by the suffix of their name."""

    @abstractmethod
    def dequantize(self, *, threads: int | None = None) -> Matrix:
        """The weights, float32 [m, n]; the same bits whatever `threads`."""

    @abstractmethod
    def _products(self, x: Matrix, activations: str, threads: int | None, gemm: Gemm) -> Matrix:
        """x Ŵᵀ for x [b, n]."""

    @classmethod
    @abstractmethod
    def _restore(cls, meta: Mapping[str, Any], tensors: Tensors) -> QuantizedLinear: ...

    @staticmethod
    def from_tensors(meta: Mapping[str, Any], tensors: Tensors) -> QuantizedLinear:
        """What `meta` and `tensors()` came from. Raises InputError where they do not fit each other."""
        for name, (shape, dtype) in tensor_specs(meta).items():
            if name not in tensors:
                raise InputError(f"{meta['method']} weights lack their tensor {name}")
            found = tensors[name]
            if tuple(found.shape) != shape or found.dtype.name != dtype:
                raise InputError(
                    f"tensor {name} is {found.dtype.name} {list(found.shape)}, not {dtype} {list(shape)}"
                )
        restored: QuantizedLinear = _class(meta)._restore(meta, tensors)
        return restored

    @property
    def bpw(self) -> float:
        """Bits a weight of everything stored."""
        return 8 * sum(t.nbytes for t in self.tensors().values()) / (self.shape[0] * self.shape[1])

    def matvec(
        self,
        x: NDArray[np.floating],
        *,
        activations: str = "float32",
        threads: int | None = None,
        gemm: Gemm = np.matmul,
    ) -> Matrix:
        """Ŵ x for x [n], or for each row of x [b, n].

        Args:
            activations: "float32", or "int8": each rotated vector is rounded to 255 levels first.
            gemm: what multiplies more than a few vectors by decoded weights.
        """
        if activations not in ("float32", "int8"):
            raise InputError(f"activations are float32 or int8, not {activations}")
        rows = np.atleast_2d(np.ascontiguousarray(x, np.float32))
        if rows.ndim != 2 or rows.shape[1] != self.shape[1]:
            raise InputError(f"vectors of {self.shape[1]} inputs expected, got {list(np.shape(x))}")
        products = self._products(rows, activations, threads, gemm)
        return products[0] if np.ndim(x) == 1 else products

    def error(self, weight: Matrix, hessian: Matrix | InputSpace | None = None) -> float:
        """tr((W-Ŵ)H(W-Ŵ)ᵀ) / tr(WHWᵀ); 0 for weights that are zero on these inputs and quantized so."""
        h = hessian.hessian if isinstance(hessian, InputSpace) else hessian
        return relative_error(weight, self.dequantize(), None if h is None else checked(h, self.shape[1]))

    def bias_shift(self, weight: Matrix, mean: NDArray[np.floating]) -> Matrix:
        """(W-Ŵ) E[x]: what to add to the linear's bias so that its mean output stays."""
        return np.asarray(
            (weight - self.dequantize()).astype(np.float64) @ np.asarray(mean, np.float64), np.float32
        )


def relative_error(weight: Matrix, quantized: Matrix, h: Matrix | None, threads: int | None = None) -> float:
    """tr((W-Ŵ)H(W-Ŵ)ᵀ) / tr(WHWᵀ)."""
    difference = weight - quantized
    lost = float(row_forms(difference, difference, h, threads).sum())
    whole = float(row_forms(weight, weight, h, threads).sum())
    return lost / whole if whole > 0 else (0.0 if lost <= 0 else float("inf"))


def _class(meta: Mapping[str, Any]) -> Any:
    method = meta.get("method")
    if method not in _HOMES:
        raise InputError(f"weights of an unknown method: {method}")
    module, name = _HOMES[method]
    return getattr(import_module(f"icml.tools.quantize.{module}"), name)


def tensor_specs(meta: Mapping[str, Any]) -> Specs:
    """Shape and dtype of every tensor of weights with this `meta`."""
    specs: Specs = _class(meta).specs(meta)
    return specs


def rotation_specs(n: int, signs: str, q: str) -> Specs:
    """Of a stored rotation of n coordinates: the signs' vector, and the small orthogonal matrix where there is one."""
    count = n // power_of_two(n)
    specs: Specs = {signs: ((n,), "float16")}
    if 1 < count <= LARGEST_Q:
        specs[q] = ((count, count), "float32")
    return specs


def restored_rotation(n: int, q: NDArray[Any] | None) -> Rotation:
    return Rotation(n, None if q is None else np.ascontiguousarray(q, np.float32))


def padded(x: Matrix, multiple: int) -> Matrix:
    """x with zero columns up to a multiple."""
    extra = -x.shape[1] % multiple
    return np.ascontiguousarray(np.pad(x, ((0, 0), (0, extra))) if extra else x, np.float32)


def to_int8(x: Matrix) -> tuple[NDArray[np.int8], Matrix]:
    """Each row as scale * integers of -127..127."""
    scale = np.abs(x).max(1, initial=0).astype(np.float32) / np.float32(127)
    safe = np.where(scale > 0, scale, np.float32(1))
    return np.rint(x / safe[:, None]).astype(np.int8), scale


def checked_weight(weight: NDArray[np.floating]) -> Matrix:
    """Weights as float32 [m, n]; refuses what is not finite or not a matrix."""
    w = np.ascontiguousarray(weight, np.float32)
    if w.ndim != 2 or 0 in w.shape:
        raise InputError(f"weights are a matrix [outputs, inputs], not {list(w.shape)}")
    if not np.isfinite(w).all():
        raise InputError("weights hold NaN or infinite values")
    return w


def to_float16(values: NDArray[np.floating], what: str) -> NDArray[np.float16]:
    """Rounded to float16; refuses what it cannot hold."""
    if np.abs(values).max(initial=0) > 65504:
        raise InputError(f"{what} are too large for 16-bit floats")
    return np.asarray(values, np.float16)
