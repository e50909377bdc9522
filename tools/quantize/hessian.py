"""What calibration leaves of a linear's inputs: H = E[x xᵀ] and E[x].

The error of quantized weights on these inputs is tr((W - Ŵ) H (W - Ŵ)ᵀ). Linears that read the same input share one H,
one rotation and one factorization: an `InputSpace`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from icml.formats.errors import InputError
from icml.tools.quantize.linalg import cholesky, inverse_factor, workers
from icml.tools.quantize.rotation import Rotation, random_signs

BLOCK = 16
Matrix = NDArray[np.float32]
Seed = int | tuple[int, ...]


class Hessian:
    """Accumulates sum x xᵀ and sum x over tokens, n coordinates each."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.count = 0
        self._outer: Matrix = np.zeros((n, n), np.float32, order="F")
        self._sum = np.zeros(n)

    def update(self, x: NDArray[np.floating]) -> None:
        """Adds tokens x [tokens, n]."""
        from scipy.linalg.blas import ssyrk

        rows = np.ascontiguousarray(x, np.float32)
        if rows.ndim != 2 or rows.shape[1] != self.n:
            raise InputError(f"inputs of {self.n} coordinates expected, got {list(rows.shape)}")
        total = rows.sum(0, dtype=np.float64)
        if not np.isfinite(total).all():
            raise InputError("calibration inputs hold NaN or infinite values")
        # the transposed view is in Fortran order, so that BLAS copies nothing; it fills the upper triangle
        self._outer = ssyrk(1.0, rows.T, beta=1.0, c=self._outer, overwrite_c=True)
        self._sum += total
        self.count += len(rows)

    def merge(self, other: Hessian) -> None:
        """Adds what another has seen."""
        if other.n != self.n:
            raise InputError(f"Hessians of {self.n} and {other.n} coordinates")
        self._outer += other._outer
        self._sum += other._sum
        self.count += other.count

    def matrix(self) -> Matrix:
        """sum x xᵀ / count, symmetric; zero where nothing was seen."""
        upper = np.triu(self._outer)
        return (upper + np.triu(upper, 1).T) / np.float32(max(self.count, 1))

    @property
    def mean(self) -> NDArray[np.float64]:
        return self._sum / max(self.count, 1)

    def state(self) -> dict[str, NDArray[np.generic]]:
        """Arrays from which `from_state` restores this."""
        return {"outer": np.triu(self._outer), "sum": self._sum, "count": np.array(self.count)}

    @classmethod
    def from_state(cls, state: dict[str, NDArray[np.generic]]) -> Hessian:
        h = cls(len(state["sum"]))
        h._outer = np.asfortranarray(state["outer"], np.float32)
        h._sum = np.array(state["sum"], np.float64)
        h.count = int(state["count"])
        return h


@dataclass(frozen=True)
class InputSpace:
    """The input of one or more linears, rotated, with what error feedback needs.

    Attributes:
        n: coordinates.
        hessian: as calibrated, float32 [n, n]; None: the identity.
        signs, rotation: x' = V (signs x); None: not rotated.
        damp: added to the diagonal, relative to its mean.
    """

    n: int
    hessian: Matrix | None
    signs: Matrix | None
    rotation: Rotation | None
    damp: float
    threads: int | None = field(default=None, compare=False)

    @cached_property
    def rotated(self) -> Matrix | None:
        """V diag(signs) H diag(signs) Vᵀ, undamped."""
        if self.hessian is None or self.rotation is None or self.signs is None:
            return self.hessian
        signed = self.hessian * self.signs * self.signs[:, None]
        return self.rotation.conjugate(signed, self.threads)

    def into(self, weight: Matrix) -> Matrix:
        """Rows of a weight, in the rotated coordinates."""
        if self.rotation is None or self.signs is None:
            return np.array(weight, np.float32, order="C")
        return self.rotation.apply(weight * self.signs, threads=self.threads)

    @cached_property
    def block_factor(self) -> Matrix | None:
        """Unit block-lower L of H' + damping = L D Lᵀ, blocks of 16; padded to whole blocks. None: the identity."""
        return None if self.rotated is None else block_factor(damped(self.rotated, self.damp), self.threads)

    @cached_property
    def inverse_factor(self) -> Matrix | None:
        """Upper R with RᵀR = (H' + damping)⁻¹; None: the identity."""
        if self.rotated is None:
            return None
        return inverse_factor(damped(self.rotated, self.damp), self.threads).astype(np.float32)


def prepare_input(
    hessian: NDArray[np.floating] | None,
    n: int,
    method: str = "proteus",
    *,
    rotate: str | None = None,
    damp: float | None = None,
    seed: Seed = 0,
    threads: int | None = None,
) -> InputSpace:
    """The space of an input of n coordinates, for linears of one method that share it.

    Args:
        hessian: E[x xᵀ], [n, n]; None for the identity.
        rotate, damp: as the method's options; None for its defaults.
        seed: of the random signs and the rotation.
    """
    from icml.tools.quantize.options import options_for

    given = {name: value for name, value in (("rotate", rotate), ("damp", damp)) if value is not None}
    options = options_for(method, given)
    h = None if hessian is None else checked(hessian, n)
    if options.rotate in ("none", "kotms"):
        return InputSpace(n, h, None, None, options.damp, threads)
    generator = stream(seed, "input")
    return InputSpace(n, h, random_signs(n, generator), Rotation.random(n, generator), options.damp, threads)


def checked(hessian: NDArray[np.floating], n: int) -> Matrix:
    """A Hessian as float32 [n, n]; refuses what cannot be one."""
    h = np.ascontiguousarray(hessian, np.float32)
    if h.shape != (n, n):
        raise InputError(f"the Hessian of {n} inputs is [{n}, {n}], not {list(h.shape)}")
    if not np.isfinite(h).all():
        raise InputError("the Hessian holds NaN or infinite values")
    diagonal = np.diag(h)
    if (diagonal < 0).any() or np.abs(h - h.T).max(initial=0) > 1e-3 * max(
        float(diagonal.max(initial=0)), 1e-30
    ):
        raise InputError("the Hessian is not symmetric with a nonnegative diagonal")
    return h if diagonal.any() else np.eye(n, dtype=np.float32)


def stream(seed: Seed, purpose: str) -> np.random.Generator:
    """The counter-based generator of one purpose."""
    parts = [seed] if isinstance(seed, int) else list(seed)
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([*parts, *purpose.encode()])))


def damped(h: Matrix, damp: float) -> NDArray[np.float64]:
    """h made exactly symmetric, plus damp times its mean diagonal; float64."""
    wide = h.astype(np.float64)
    wide = (wide + wide.T) / 2
    wide[np.diag_indices_from(wide)] += max(damp, 1e-8) * float(np.diag(wide).mean())
    return wide


def block_factor(h: NDArray[np.float64], threads: int | None = None) -> Matrix:
    """Unit block-lower L with h = L D Lᵀ and D block-diagonal, blocks of 16; the last is padded with the identity."""
    n = len(h)
    size = -(-n // BLOCK) * BLOCK
    padded = np.eye(size)
    padded[:n, :n] = h
    c = cholesky(padded, threads)

    def columns(b: int) -> None:
        part = slice(b, b + BLOCK)
        c[b:, part] = c[b:, part] @ np.linalg.inv(c[part, part])
        c[part, part] = np.eye(BLOCK)

    with workers(threads) as each:
        each(columns, range(0, size, BLOCK))
    return c.astype(np.float32)
