"""TWLA's ternary weights: a row's group of columns is mu + alpha t with t in {-1, 0, 1}.

E2M-ATQ: a Euclidean warm start finds the signs, then (alpha, mu) are solved for in the metric of the inputs. Unlike the
published loop, signs are chosen column by column on weights that already carry the earlier columns' errors, and scales
and signs take turns. Source: "TWLA: Achieving Ternary Weights and Low-Bit Activations for LLMs via Post-Training
Quantization", ICML 2026.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icml.tools.quantize import _kernel
from icml.tools.quantize.activations import quantize_activations
from icml.tools.quantize.hessian import InputSpace, damped
from icml.tools.quantize.kotms import Kronecker, factor_sizes, learn_rotation
from icml.tools.quantize.linalg import inverse_factor, matmul, single_blas
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
from icml.tools.quantize.options import TwlaOptions
from icml.tools.quantize.rotation import Rotation
from icml.tools.quantize.threads import thread_count

TILE = 16
WARM_ROUNDS = 8
POWERS = np.array([1, 3, 9, 27, 81], np.uint8)
Codes = NDArray[np.int8]


@dataclass(frozen=True, eq=False)
class TernaryLinear(QuantizedLinear):
    """Ŵ = (mu + alpha t) R, R the input's rotation.

    Attributes:
        codes: int8 [m, n] in {-1, 0, 1}.
        alpha, mu: float16 [m, ceil(n / group)].
        group: columns to a scale, a multiple of 16.
        su, rotation: signs and Hadamard rotation of the input; None where there is none.
        kronecker: the learned rotation after it; None where there is none.
    """

    shape: tuple[int, int]
    codes: Codes
    alpha: NDArray[np.float16]
    mu: NDArray[np.float16]
    group: int
    su: NDArray[np.float16] | None = None
    rotation: Rotation | None = None
    kronecker: Kronecker | None = None
    proxy_error: float = float("nan")

    method = "twla"
    bits = 2

    @property
    def meta(self) -> dict[str, Any]:
        rotate = {
            (False, False): "none",
            (True, False): "hadamard",
            (False, True): "kotms",
            (True, True): "both",
        }[self.rotation is not None, self.kronecker is not None]
        return {"method": self.method, "shape": list(self.shape), "group": self.group, "rotate": rotate}

    def tensors(self) -> dict[str, NDArray[Any]]:
        out: dict[str, NDArray[Any]] = {"trits": pack_trits(self.codes), "alpha": self.alpha, "mu": self.mu}
        if self.su is not None and self.rotation is not None:
            out["su"] = self.su
            if self.rotation.q is not None:
                out["qin"] = self.rotation.q
        if self.kronecker is not None:
            out |= {"rotl": self.kronecker.left, "rotr": self.kronecker.right}
        return out

    @classmethod
    def specs(cls, meta: Mapping[str, Any]) -> Specs:
        m, n = meta["shape"]
        scales = ((m, -(-n // meta["group"])), "float16")
        specs: Specs = {"trits": ((-(-m * n // 5),), "uint8"), "alpha": scales, "mu": scales}
        if meta["rotate"] in ("hadamard", "both"):
            specs |= rotation_specs(n, "su", "qin")
        if meta["rotate"] in ("kotms", "both"):
            left, right = factor_sizes(m, n)
            specs |= {"rotl": ((left, left), "float16"), "rotr": ((right, right), "float16")}
        return specs

    @classmethod
    def _restore(cls, meta: Mapping[str, Any], tensors: Tensors) -> TernaryLinear:
        m, n = meta["shape"]
        hadamard = meta["rotate"] in ("hadamard", "both")
        return cls(
            (m, n), unpack_trits(tensors["trits"], m * n).reshape(m, n), tensors["alpha"], tensors["mu"],
            meta["group"], tensors["su"] if hadamard else None,
            restored_rotation(n, tensors.get("qin")) if hadamard else None,
            Kronecker(tensors["rotl"], tensors["rotr"]) if meta["rotate"] in ("kotms", "both") else None,
        )  # fmt: skip

    def rotated(self) -> Matrix:
        """mu + alpha t, float32 [m, n], in the rotated coordinates."""
        n = self.shape[1]
        alpha, mu = (
            np.repeat(s.astype(np.float32), self.group, axis=1)[:, :n] for s in (self.alpha, self.mu)
        )
        return alpha * self.codes + mu

    def dequantize(self, *, threads: int | None = None) -> Matrix:
        w = self.rotated()
        if self.kronecker is not None:
            w = self.kronecker.apply(w, transpose=True, threads=threads)
        if self.rotation is not None and self.su is not None:
            w = self.rotation.apply(w, transpose=True, threads=threads) * self.su.astype(np.float32)
        return w

    def matvec(
        self,
        x: NDArray[np.floating],
        *,
        activations: str = "float32",
        threads: int | None = None,
        gemm: Gemm = np.matmul,
        act_bits: int | None = None,
        act_clip: float = 1.0,
    ) -> Matrix:
        """As `QuantizedLinear.matvec`; with `act_bits` rotated activations are first rounded to so many bits.

        Rounding is simulated (see `quantize_activations`): it shows the accuracy, not the speed, of 4-bit hardware.
        """
        if act_bits is None:
            return super().matvec(x, activations=activations, threads=threads, gemm=gemm)
        rows = np.atleast_2d(np.ascontiguousarray(x, np.float32))
        rounded = quantize_activations(self.rotate_input(rows, threads), act_bits, act_clip)
        products = self._rotated_products(rounded, activations, threads, gemm)
        return products[0] if np.ndim(x) == 1 else products

    def rotate_input(self, x: Matrix, threads: int | None = None) -> Matrix:
        """R x for each row of x."""
        if self.rotation is not None and self.su is not None:
            x = self.rotation.apply(x * self.su.astype(np.float32), threads=threads)
        return x if self.kronecker is None else self.kronecker.apply(x, threads=threads)

    def _products(self, x: Matrix, activations: str, threads: int | None, gemm: Gemm) -> Matrix:
        return self._rotated_products(self.rotate_input(x, threads), activations, threads, gemm)

    def _rotated_products(self, x: Matrix, activations: str, threads: int | None, gemm: Gemm) -> Matrix:
        if len(x) > MANY:
            if activations == "int8":
                rounded, scale = to_int8(x)
                x = rounded * scale[:, None]
            products = np.empty((len(x), self.shape[0]), np.float32)
            gemm(x, self.rotated().T, products)
            return products
        x = padded(x, TILE)
        if activations == "int8":
            out = self._packed.integer(*to_int8(x), thread_count(threads))
        else:
            out = self._packed.exact(x, thread_count(threads))
        return np.ascontiguousarray(out[:, : self.shape[0]])

    @cached_property
    def _packed(self) -> _kernel.Ternary:
        m, n = self.shape
        rows, columns = -(-m // TILE) * TILE, -(-n // TILE) * TILE
        codes = np.ones((rows, columns), np.uint8)
        codes[:m, :n] = self.codes + 1
        scales = np.zeros((2, rows, self.alpha.shape[1]), np.float32)
        scales[0, :m], scales[1, :m] = self.alpha, self.mu
        alpha, mu = (
            np.ascontiguousarray(s.reshape(rows // TILE, TILE, -1).transpose(0, 2, 1)) for s in scales
        )
        return _kernel.Ternary(_kernel.ternary_pack(codes), alpha, mu, self.group)


def quantize_twla(weight: Matrix, space: InputSpace, options: TwlaOptions) -> TernaryLinear:
    """Ternary weights for an input space."""
    with single_blas():
        return _quantize(weight, space, options)


def _quantize(weight: Matrix, space: InputSpace, options: TwlaOptions) -> TernaryLinear:
    w = space.into(weight)
    kronecker, h, factor = None, space.rotated, None
    if options.rotate in ("kotms", "both"):
        kronecker = learn_rotation(w, options.kotms_steps, options.poll)
        w = kronecker.apply(w, threads=options.threads)
        if h is not None:
            h = kronecker.conjugate(h, options.threads)
            factor = inverse_factor(damped(h, space.damp), options.threads).astype(np.float32)
    else:
        factor = space.inverse_factor
    codes, alpha, mu = quantize_groups(w, factor, options)
    su = None if space.signs is None else to_float16(space.signs, "signs")
    found = TernaryLinear(weight.shape, codes, alpha, mu, options.group, su, space.rotation, kronecker)
    error = relative_error(weight, found.dequantize(threads=options.threads), space.hessian, options.threads)
    return replace(found, proxy_error=error)


def quantize_groups(
    weight: Matrix, factor: Matrix | None, options: TwlaOptions
) -> tuple[Codes, NDArray[np.float16], NDArray[np.float16]]:
    """Codes, alpha and mu of every group, each group's error pushed on to the next.

    Args:
        weight: [m, n], in the coordinates of `factor`.
        factor: upper R with RᵀR the inverse Hessian; None for the identity.
    """
    m, n = weight.shape
    rest = weight.copy()
    codes = np.empty((m, n), np.int8)
    scales = np.zeros((2, m, -(-n // options.group)), np.float16)
    for index, first in enumerate(range(0, n, options.group)):
        options.poll()
        last = min(first + options.group, n)
        corner = np.eye(last - first, dtype=np.float32) if factor is None else factor[first:last, first:last]
        part = np.ascontiguousarray(rest[:, first:last])
        found, alpha, mu, error = quantize_group(part, np.ascontiguousarray(corner), options)
        codes[:, first:last], scales[0, :, index], scales[1, :, index] = found, alpha, mu
        if factor is not None and last < n:
            rest[:, last:] -= matmul(error, np.ascontiguousarray(factor[first:last, last:]), options.threads)
    return codes, scales[0], scales[1]


def quantize_group(
    w: Matrix, corner: Matrix, options: TwlaOptions
) -> tuple[Codes, NDArray[np.float16], NDArray[np.float16], Matrix]:
    """Codes, alpha, mu and errors (over the factor's diagonal) of one group: the best of its walks for each row.

    Signs follow from scales by walking the columns with error feedback, scales from signs by least squares in the
    Schur metric (RᵀR)⁻¹, in which later columns are free to make up for the group's error.
    """
    wide = corner.astype(np.float64)
    metric = np.asarray(np.linalg.inv(wide.T @ wide), np.float64)
    codes, alpha, mu = euclidean_ternary(w.astype(np.float64))
    alpha, mu = relocate(codes, w, metric)
    best = np.full(len(w), np.inf)
    kept_codes, kept_error = np.zeros_like(codes), np.zeros_like(w)
    kept_alpha, kept_mu = np.zeros(len(w), np.float16), np.zeros(len(w), np.float16)
    for _ in range(options.walks):
        a, b = to_float16(alpha, "scales"), to_float16(mu, "means")
        codes, error = _kernel.walk(
            w, corner, a.astype(np.float32), b.astype(np.float32), -1, 1, thread_count(options.threads)
        )
        loss = np.square(error, dtype=np.float64).sum(1)
        better = loss < best
        best[better], kept_codes[better], kept_error[better] = loss[better], codes[better], error[better]
        kept_alpha[better], kept_mu[better] = a[better], b[better]
        alpha, mu = relocate(codes, w, metric)
    return kept_codes, kept_alpha, kept_mu, kept_error


def euclidean_ternary(
    w: NDArray[np.float64], rounds: int = WARM_ROUNDS
) -> tuple[Codes, NDArray[np.float64], NDArray[np.float64]]:
    """Codes, alpha and mu near the least squared error of each row.

    For a given mu the best codes keep the k largest |w - mu|, k maximising (their sum)² / k, and alpha is their mean.
    """
    mu = np.zeros(len(w))
    k = np.arange(1, w.shape[1] + 1)
    for _ in range(rounds):
        centred = w - mu[:, None]
        size = np.abs(centred)
        falling = -np.sort(-size, axis=1)
        total = np.cumsum(falling, axis=1)
        count = np.argmax(total**2 / k, axis=1)
        row = np.arange(len(w))
        alpha = total[row, count] / (count + 1)
        kept = (size >= falling[row, count][:, None]) & (size > 0)
        codes = (np.sign(centred) * kept).astype(np.int8)
        mu = mu + (centred - alpha[:, None] * codes).mean(1)
    return codes, alpha, mu


def relocate(
    codes: Codes, w: Matrix, metric: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The (alpha, mu) of each row that minimise (w - alpha t - mu 1) S (w - alpha t - mu 1)ᵀ, S the metric.

    Where t is all ones (or all minus ones) the two say the same: mu is 0.
    """
    t, wide = codes.astype(np.float64), w.astype(np.float64)
    ts, ones = t @ metric, metric.sum(0)
    tt, t1, one = np.einsum("ij,ij->i", ts, t), ts.sum(1), float(metric.sum())
    tw, w1 = np.einsum("ij,ij->i", ts, wide), wide @ ones
    determinant = tt * one - t1 * t1
    regular = determinant > 1e-12 * np.maximum(tt * one, 1e-300)
    safe = np.where(regular, determinant, 1.0)
    alpha = np.where(regular, (one * tw - t1 * w1) / safe, tw / np.where(tt > 0, tt, 1.0))
    mu = np.where(regular, (tt * w1 - t1 * tw) / safe, 0.0)
    return np.where(tt > 0, alpha, 0.0), np.where(tt > 0, mu, w1 / one)


def pack_trits(codes: Codes) -> NDArray[np.uint8]:
    """Codes as base-3 digits, five to a byte, the first the least significant."""
    flat = (codes.ravel() + 1).astype(np.uint8)
    digits = np.pad(flat, (0, -len(flat) % 5)).reshape(-1, 5)
    return np.asarray((digits * POWERS).sum(1), np.uint8)


def unpack_trits(packed: NDArray[np.uint8], count: int) -> Codes:
    """The first `count` codes."""
    digits = np.asarray(packed, np.uint8)[:, None] // POWERS % 3
    return (digits.ravel()[:count].astype(np.int8) - 1).astype(np.int8)
