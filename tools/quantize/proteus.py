"""Proteus: 2-bit trellis-coded weights whose decoder computes every value from the packed bits.

The weight is rotated on both sides, its blocks of 16 columns are quantized with error feedback by the tail-biting
trellis, and a gain for each output is fitted in closed form. Reconstructed from the abstract of the ICML 2026 paper and
from QTIP; the generators' constants are our own (see `pool`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icml.tools.quantize import _kernel
from icml.tools.quantize.generators import CENTRE, Generator, best_generators
from icml.tools.quantize.hessian import BLOCK, InputSpace, stream
from icml.tools.quantize.ldlq import quantize_with_feedback
from icml.tools.quantize.linalg import matmul, row_forms, workers
from icml.tools.quantize.linear import (
    MANY,
    Gemm,
    Matrix,
    QuantizedLinear,
    Specs,
    Tensors,
    padded,
    relative_error,
    restored_rotation,
    rotation_specs,
    to_float16,
    to_int8,
)
from icml.tools.quantize.options import ProteusOptions
from icml.tools.quantize.rotation import Rotation, random_signs
from icml.tools.quantize.threads import thread_count
from icml.tools.quantize.trellis import TILE, TrellisCode

ROWS = 64  # quantized together; fixed, so that threads do not change the result
SCALES = (0.98, 1.0, 1.03, 1.06)
STRIPES = 64  # decoded together for a matrix product


@dataclass(frozen=True, eq=False)
class ProteusLinear(QuantizedLinear):
    """Ŵ = diag(sv) Uᵀ (a (B - 510) + b) V diag(su), B the byte sums that `qweight` decodes to.

    Attributes:
        qweight: int32 [ceil(m/16), ceil(n/16), 8 K].
        su, sv: float16 [n], [m]: random signs times gains.
        affine: float32 [2]: a and b.
        rotation_in, rotation_out: V and U; None where not rotated.
    """

    shape: tuple[int, int]
    bits: int
    L: int
    generator: Generator
    qweight: NDArray[np.int32]
    su: NDArray[np.float16]
    sv: NDArray[np.float16]
    affine: NDArray[np.float32]
    rotation_in: Rotation | None
    rotation_out: Rotation | None
    proxy_error: float = float("nan")

    method = "proteus"

    @property
    def meta(self) -> dict[str, Any]:
        g = self.generator
        return {"method": self.method, "shape": list(self.shape), "bits": self.bits, "L": self.L,
                "family": g.family, "A": g.A, "B": g.B,
                "rotate": "none" if self.rotation_in is None else "hadamard"}  # fmt: skip

    def tensors(self) -> dict[str, NDArray[Any]]:
        out: dict[str, NDArray[Any]] = {
            "qweight": self.qweight,
            "su": self.su,
            "sv": self.sv,
            "affine": self.affine,
        }
        for name, rotation in (("qin", self.rotation_in), ("qout", self.rotation_out)):
            if rotation is not None and rotation.q is not None:
                out[name] = rotation.q
        return out

    @classmethod
    def specs(cls, meta: Mapping[str, Any]) -> Specs:
        m, n = meta["shape"]
        specs: Specs = {"qweight": ((-(-m // TILE), -(-n // TILE), 8 * meta["bits"]), "int32"),
                        "su": ((n,), "float16"), "sv": ((m,), "float16"), "affine": ((2,), "float32")}  # fmt: skip
        if meta["rotate"] != "none":
            specs |= rotation_specs(n, "su", "qin") | rotation_specs(m, "sv", "qout")
        return specs

    @classmethod
    def _restore(cls, meta: Mapping[str, Any], tensors: Tensors) -> ProteusLinear:
        m, n = meta["shape"]
        rotated = meta["rotate"] != "none"
        return cls(
            (m, n), meta["bits"], meta["L"], Generator(meta["family"], meta["A"], meta["B"]),
            np.ascontiguousarray(tensors["qweight"]), tensors["su"], tensors["sv"], tensors["affine"],
            restored_rotation(n, tensors.get("qin")) if rotated else None,
            restored_rotation(m, tensors.get("qout")) if rotated else None,
        )  # fmt: skip

    @cached_property
    def _packed(self) -> _kernel.Trellis:
        g = self.generator
        return _kernel.Trellis(self.qweight, g.family_number, g.A, g.B, self.L, self.bits)

    def replace(
        self, su: Matrix | None = None, sv: Matrix | None = None, affine: Matrix | None = None
    ) -> ProteusLinear:
        """The same codes with other gains, e.g. after distillation."""
        return replace(
            self,
            su=self.su if su is None else to_float16(su, "input gains"),
            sv=self.sv if sv is None else to_float16(sv, "output gains"),
            affine=self.affine if affine is None else np.asarray(affine, np.float32),
            proxy_error=float("nan"),
        )

    def rotated_codes(self, threads: int | None = None) -> Matrix:
        """B - 510, float32 [m, n]."""
        m, n = self.shape
        decoded = self._packed.decode(0, len(self.qweight), thread_count(threads))
        return np.ascontiguousarray(decoded[:n, :m].T)

    def dequantize(self, *, threads: int | None = None) -> Matrix:
        a, b = self.affine
        w: Matrix = a * self.rotated_codes(threads) + b
        if self.rotation_in is not None:
            w = self.rotation_in.apply(w, transpose=True, threads=threads)
        w *= self.su.astype(np.float32)
        if self.rotation_out is not None:
            turned = self.rotation_out.apply(np.ascontiguousarray(w.T), transpose=True, threads=threads)
            w = np.ascontiguousarray(turned.T)
        w *= self.sv.astype(np.float32)[:, None]
        return w

    @cached_property
    def _gains(self) -> tuple[Matrix, Matrix, np.float32, np.float32]:
        return (self.su.astype(np.float32), self.sv.astype(np.float32), *self.affine)

    def _products(self, x: Matrix, activations: str, threads: int | None, gemm: Gemm) -> Matrix:
        su, sv, a, b = self._gains
        x = x * su
        if self.rotation_in is not None:
            x = self.rotation_in.apply(x, threads=threads)
        x = padded(x, TILE)
        sums = self._code_products(x, activations, thread_count(threads), gemm)
        sums *= a
        if b:
            sums += b * x.sum(1, keepdims=True)
        z = np.ascontiguousarray(sums[:, : self.shape[0]])
        if self.rotation_out is not None:
            z = self.rotation_out.apply(z, transpose=True, threads=threads)
        z *= sv
        return z

    def _code_products(self, x: Matrix, activations: str, threads: int, gemm: Gemm) -> Matrix:
        """Sums of (B - 510) times rotated, padded x, [b, padded m]."""
        if activations == "int8":
            rounded, scale = to_int8(x)
            if len(x) <= MANY:
                return self._packed.integer(rounded, threads).astype(np.float32) * scale[:, None]
            x = rounded * scale[:, None]
        if len(x) <= MANY:
            return self._packed.exact(x, threads)
        out = np.empty((len(x), TILE * len(self.qweight)), np.float32)
        for first in range(0, len(self.qweight), STRIPES):
            last = min(first + STRIPES, len(self.qweight))
            gemm(x, self._packed.decode(first, last, threads), out[:, TILE * first : TILE * last])
        return out


def quantize_proteus(weight: Matrix, space: InputSpace, options: ProteusOptions) -> ProteusLinear:
    """Trellis-coded weights for an input space."""
    m, n = weight.shape
    rotated, signs_out, rotation_out = _rotate(weight, space, options)
    rms = float(np.sqrt(np.square(rotated, dtype=np.float64).mean()))
    unit = padded(padded(rotated / np.float32(rms if rms > 0 else 1.0), TILE).T, TILE).T
    unit = np.ascontiguousarray(unit)
    code = _choose_code(unit, options)
    scale = _choose_scale(unit, code, space, options) if options.scale == "auto" else float(options.scale)
    qweight = _encode(unit / np.float32(scale), code, space, options)[0]
    sd = rms * scale
    signs_in = np.ones(n, np.float32) if space.signs is None else space.signs
    affine = np.array([sd / code.sd, sd * (CENTRE - code.mean) / code.sd], np.float32)
    plain = ProteusLinear((m, n), options.bits, options.L, code.generator, qweight, to_float16(signs_in, "signs"),
                          to_float16(signs_out, "signs"), affine, space.rotation, rotation_out)  # fmt: skip
    return _with_gains(plain, weight, space, options)


def _rotate(
    weight: Matrix, space: InputSpace, options: ProteusOptions
) -> tuple[Matrix, Matrix, Rotation | None]:
    """U diag(signs) W diag(signs) Vᵀ, and the output's signs and U."""
    m = len(weight)
    rotated = space.into(weight)
    if space.rotation is None:
        return rotated, np.ones(m, np.float32), None
    generator = stream(options.seed, "output")
    signs, rotation = random_signs(m, generator), Rotation.random(m, generator)
    columns = rotation.apply(np.ascontiguousarray((rotated * signs[:, None]).T), threads=options.threads)
    return np.ascontiguousarray(columns.T), signs, rotation


def _tiles(unit: Matrix) -> Matrix:
    """The 16 x 16 tiles of a padded matrix, [tiles, 256], row stripe major."""
    m, n = unit.shape
    return unit.reshape(m // TILE, TILE, n // TILE, TILE).transpose(0, 2, 1, 3).reshape(-1, TILE * TILE)


def _choose_code(unit: Matrix, options: ProteusOptions) -> TrellisCode:
    """The pool's generator with the least error on a sample of the layer's own tiles; the first of equals."""
    L, K = options.L, options.bits
    if isinstance(options.generator, Generator):
        return TrellisCode.of(options.generator, L, K)
    family = None if options.generator == "auto" else options.generator
    candidates = [TrellisCode.of(g, L, K) for g in best_generators(L, options.pool, family)]
    if len(candidates) == 1:
        return candidates[0]
    tiles = _tiles(unit)
    size = min(16 if L > 14 else 64, max(4, len(tiles) // (4 * len(candidates))))
    sample = tiles[np.linspace(0, len(tiles) - 1, min(size, len(tiles))).astype(int)]
    errors = []
    for code in candidates:
        options.poll()
        values = _search(code, sample, options, options.threads)[1]
        errors.append(float(np.square(sample - values, dtype=np.float64).sum()))
    return candidates[int(np.argmin(errors))]


def _choose_scale(unit: Matrix, code: TrellisCode, space: InputSpace, options: ProteusOptions) -> float:
    """The scale with the least error, feedback included, on up to 64 rows."""
    stripes = len(unit) // TILE
    chosen = np.unique(np.linspace(0, stripes - 1, min(4, stripes)).astype(int))
    rows = unit.reshape(stripes, TILE, -1)[chosen].reshape(-1, unit.shape[1])
    errors = []
    for scale in SCALES:
        values = _encode(rows / np.float32(scale), code, space, options)[1] * np.float32(scale)
        errors.append(
            relative_error(rows[:, : space.n], values[:, : space.n], space.rotated, options.threads)
        )
    return SCALES[int(np.argmin(errors))]


def _search(
    code: TrellisCode, tiles: Matrix, options: ProteusOptions, threads: int | None
) -> tuple[Any, Matrix]:
    return code.encode(tiles, tail=options.tail, costs=options.costs, threads=threads, device=options.device)


def _encode(
    unit: Matrix, code: TrellisCode, space: InputSpace, options: ProteusOptions
) -> tuple[NDArray[np.int32], Matrix]:
    """Packed tiles and values of a padded matrix of unit variance, with feedback."""
    m, n = unit.shape
    packed = np.empty((m // TILE, n // TILE, 8 * code.K), np.int32)
    values = np.empty_like(unit)
    factor = space.block_factor
    chunk = ROWS if options.device == "cpu" else m

    def rows(first: int) -> None:
        last = min(first + chunk, m)

        def quantize(block: int, target: Matrix) -> Matrix:
            options.poll()
            words, found = _search(code, target.reshape(-1, TILE * BLOCK), options, 1)
            packed[first // TILE : last // TILE, block] = words.view(np.int32)
            return found.reshape(target.shape)

        values[first:last] = quantize_with_feedback(unit[first:last], factor, quantize)

    with workers(options.threads) as each:
        each(rows, range(0, m, chunk))
    return packed, values


def _with_gains(
    plain: ProteusLinear, weight: Matrix, space: InputSpace, options: ProteusOptions
) -> ProteusLinear:
    """Each output's gain (w H ŵᵀ)/(ŵ H ŵᵀ) folded into sv, and the error that remains."""
    found = plain.dequantize(threads=options.threads)
    h = space.hessian
    image = found if h is None else matmul(found, h, options.threads)
    cross = np.einsum("ij,ij->i", image, weight, dtype=np.float64)
    own = np.einsum("ij,ij->i", image, found, dtype=np.float64)
    gain = np.where(own > 0, cross / np.where(own > 0, own, 1.0), 1.0)
    sv = to_float16(plain.sv.astype(np.float64) * np.clip(gain, 0.0, 4.0), "output gains")
    gain = sv.astype(np.float64) * plain.sv.astype(np.float64)  # as stored; the signs cancel
    whole = float(row_forms(weight, weight, h, options.threads).sum())
    lost = whole + float((gain * gain * own - 2 * gain * cross).sum())
    return replace(plain, sv=sv, proxy_error=max(lost, 0.0) / whole if whole > 0 else 0.0)
