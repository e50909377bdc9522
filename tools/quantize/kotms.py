"""KOTMS: a rotation learned so that each row's weights gather around three values.

R = C (x) Bᵀ acts on a vector as C mat(x) B; C and B are Cayley transforms (I + A)⁻¹(I - A) of antisymmetric
matrices, moved by Adam up the likelihood of a mixture of three Gaussians at -c, 0 and c, c the row's mean absolute
value. Gradients are in closed form. Source: TWLA (ICML 2026).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from icml.tools.quantize.linalg import workers

RATE = 3e-2  # for the default of 25 steps
BALANCE = 0.1  # weight of keeping the three clusters equally full
ROWS = 128
FEW = 8
Matrix = NDArray[np.float32]
Matrix64 = NDArray[np.float64]


@dataclass(frozen=True)
class Kronecker:
    """x -> C mat(x) B; `left` is C [l, l], `right` B [r, r], both float16 as stored."""

    left: NDArray[np.float16]
    right: NDArray[np.float16]

    def apply(self, x: Matrix, *, transpose: bool = False, threads: int | None = None) -> Matrix:
        """R x (or Rᵀ x) for each row of x [rows, l r]; the same bits whatever `threads`."""
        c, b = self.left.astype(np.float32), self.right.astype(np.float32)
        if transpose:
            c, b = c.T, b.T
        out = np.empty(x.shape, np.float32)

        def rows(first: int) -> None:
            part = x[first : first + ROWS].reshape(-1, len(c), len(b))
            out[first : first + ROWS] = (c @ (part @ b)).reshape(-1, x.shape[1])

        if len(x) <= FEW:  # activations, for which making threads takes longer than the work
            rows(0)
            return out
        with workers(threads) as each:
            each(rows, range(0, len(x), ROWS))
        return out

    def conjugate(self, h: Matrix, threads: int | None = None) -> Matrix:
        """R h Rᵀ."""
        half = self.apply(h, threads=threads)
        return self.apply(np.ascontiguousarray(half.T), threads=threads)


def factor_sizes(m: int, n: int) -> tuple[int, int]:
    """(l, r) with l r = n: r is the largest divisor of n not above sqrt(m n / 64), so that the factors stay small."""
    limit = max((m * n / 64) ** 0.5, 1.0)
    r = max(d for d in range(1, min(n, int(limit)) + 1) if n % d == 0)
    return n // r, r


def learn_rotation(weight: Matrix, steps: int, poll: Callable[[], None] = lambda: None) -> Kronecker:
    """The rotation learned for a weight [m, n] in `steps` steps; deterministic."""
    m, n = weight.shape
    rms = float(np.sqrt(np.square(weight, dtype=np.float64).mean()))
    x = (weight / np.float32(rms if rms > 0 else 1.0)).reshape(m, *factor_sizes(m, n))
    sides = [_Adam(np.zeros((k, k))) for k in x.shape[1:]]
    for step in range(1, steps + 1):
        poll()
        _, *gradients = loss_and_gradients(x, cayley(sides[0].at), cayley(sides[1].at))
        for side, gradient in zip(sides, gradients, strict=True):
            side.step(cayley_gradient(side.at, gradient), step)
    return Kronecker(*(cayley(side.at).astype(np.float16) for side in sides))


class _Adam:
    """Adam (Kingma and Ba, 2015) on one matrix."""

    def __init__(self, start: Matrix64) -> None:
        self.at = start
        self.first, self.second = np.zeros_like(start), np.zeros_like(start)

    def step(self, gradient: Matrix64, number: int) -> None:
        self.first += 0.1 * (gradient - self.first)
        self.second += 0.001 * (gradient * gradient - self.second)
        first, second = self.first / (1 - 0.9**number), self.second / (1 - 0.999**number)
        self.at -= RATE * first / (np.sqrt(second) + 1e-8)


def cayley(s: Matrix64) -> Matrix64:
    """(I + A)⁻¹(I - A), orthogonal, for A = s - sᵀ."""
    a, one = s - s.T, np.eye(len(s))
    return np.asarray(np.linalg.solve(one + a, one - a), np.float64)


def cayley_gradient(s: Matrix64, grad: Matrix64) -> Matrix64:
    """The gradient in s, given that in the Cayley transform O: dO = -(I + A)⁻¹ dA (I + O)."""
    one = np.eye(len(s))
    o = cayley(s)
    inner = -np.linalg.solve((one + s - s.T).T, grad) @ (one + o).T
    return inner - inner.T


def loss_and_gradients(
    x: NDArray[np.floating],
    c: Matrix64,
    b: Matrix64,
    centre: NDArray[np.floating] | None = None,
) -> tuple[float, Matrix64, Matrix64]:
    """The loss of weights x [m, l, r] under C and B, and its gradients in C and B.

    Loss: minus the mean log likelihood of w = C x B less its row mean, plus 0.1 times the squared distance of the mean
    responsibilities from 1/3. The centres ±mean|w| and the width, a quarter of them, are not differentiated; `centre`
    [m, 1] gives others.
    """
    c, b = c.astype(x.dtype), b.astype(x.dtype)
    xb = x @ b
    w = c @ xb
    rows = w.reshape(len(w), -1)
    centred = rows - rows.mean(1, keepdims=True)
    loss, grad = mixture_gradient(
        centred, np.abs(centred).mean(1, keepdims=True) if centre is None else centre
    )
    grad -= grad.mean(1, keepdims=True)
    g = grad.reshape(w.shape)
    grad_c = np.matmul(g, xb.transpose(0, 2, 1)).sum(0, dtype=np.float64)
    grad_b = np.tensordot(c @ x, g, axes=([0, 1], [0, 1]))
    return loss, grad_c, grad_b.astype(np.float64)


def mixture_gradient(
    w: NDArray[np.floating], centre: NDArray[np.floating]
) -> tuple[float, NDArray[np.floating]]:
    """The loss of centred rows and its gradient in them."""
    centre = np.where(centre > 0, centre, 1)
    inverse = 16 / centre**2  # 1 / sigma²
    means = np.stack([-centre, np.zeros_like(centre), centre])
    pull = (w - means) * inverse  # minus each component's score
    exponent = -0.5 * (w - means) * pull
    top = exponent.max(0)
    share = np.exp(exponent - top)
    total = share.sum(0)
    share /= total
    log_mix = top + np.log(total) - np.log(3 * np.sqrt(2 * np.pi) * centre / 4)
    mean_share = share.mean((1, 2), dtype=np.float64)
    loss = -float(log_mix.mean(dtype=np.float64)) + BALANCE * float(np.square(mean_share - 1 / 3).sum())
    average = (share * pull).sum(0)
    weight = (2 * BALANCE * (mean_share - 1 / 3)).astype(w.dtype)[:, None, None]
    grad = average + (weight * share * (average - pull)).sum(0)
    return loss, grad / w.size
