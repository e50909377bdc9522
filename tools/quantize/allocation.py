"""ILA-AMP: bits for each block under an average, neighbours' joint cost included; exact by dynamic programming.

D_i(spent, b) = min over b' of D_{i-1}(spent - b, b') + C_i(b) + beta K_i(b', b). Source: TWLA (ICML 2026).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

import numpy as np
from numpy.typing import ArrayLike, NDArray

from icml.formats.errors import InputError


def allocate_bits(
    C: ArrayLike,
    K: ArrayLike | None,
    bits: Sequence[int],
    avg: float,
    beta: float = 0.5,
    sizes: Sequence[int] | None = None,
) -> list[int]:
    """The choice of bits with the least cost among those within the budget.

    Args:
        C: [N, B], cost of block i at bits[b].
        K: [N-1, B, B], joint cost of block i at bits[b'] and block i + 1 at bits[b]; None for none.
        bits: the B choices, positive.
        avg: mean bits allowed, weighted by `sizes`.
        beta: weight of the joint costs.
        sizes: of the blocks, e.g. their weights; all equal by default. The time grows with the budget over their
            greatest common divisor.

    Returns:
        Bits of each block. Of equal costs, the choice that spends least.

    Raises:
        InputError: even the fewest bits exceed the budget, or shapes do not fit.
    """
    own = np.asarray(C, np.float64)
    if own.ndim != 2 or own.shape[0] == 0 or own.shape[1] != len(bits) or min(bits, default=0) <= 0:
        raise InputError("costs are [blocks, choices], one column for each positive number of bits")
    n = len(own)
    joint = np.zeros((n - 1, len(bits), len(bits))) if K is None else beta * np.asarray(K, np.float64)
    if joint.shape != (n - 1, len(bits), len(bits)):
        raise InputError(f"joint costs are [{n - 1}, {len(bits)}, {len(bits)}], not {list(joint.shape)}")
    if not np.isfinite(own).all() or not np.isfinite(joint).all():
        raise InputError("costs hold NaN or infinite values")
    weights = np.ones(n, int) if sizes is None else np.asarray(sizes, int)
    if weights.shape != (n,) or (weights <= 0).any():
        raise InputError("one positive size for each block")
    return _solve(own, joint, np.asarray(bits, int), weights, avg)


def _solve(
    own: NDArray[np.float64],
    joint: NDArray[np.float64],
    bits: NDArray[np.int_],
    sizes: NDArray[np.int_],
    avg: float,
) -> list[int]:
    n, choices = own.shape
    price = sizes[:, None] * (bits - bits.min())  # above the fewest bits everywhere
    unit = gcd(*(int(p) for p in price.ravel())) or 1
    price //= unit
    budget = int(np.floor(float(sizes.sum()) * (avg - bits.min()) / unit + 1e-9))
    if budget < 0:
        raise InputError(f"an average of {avg:g} bits is below the fewest of the choices, {bits.min()}")
    budget = min(budget, int(price.max(1).sum()))
    best = np.full((choices, budget + 1), np.inf)
    for b in range(choices):
        if price[0, b] <= budget:
            best[b, price[0, b]] = own[0, b]
    came = np.zeros((n, choices, budget + 1), np.int8)
    for i in range(1, n):
        step = best[:, None, :] + joint[i - 1][:, :, None]  # [b', b, spent before]
        came_from = step.argmin(0)
        least = np.take_along_axis(step, came_from[None], 0)[0]
        best = np.full_like(best, np.inf)
        for b in range(choices):
            p = price[i, b]
            if p <= budget:
                best[b, p:] = least[b, : budget + 1 - p] + own[i, b]
                came[i, b, p:] = came_from[b, : budget + 1 - p]
    return _trace(best, came, price, bits)


def _trace(
    best: NDArray[np.float64], came: NDArray[np.int8], price: NDArray[np.int_], bits: NDArray[np.int_]
) -> list[int]:
    spent = int(best.min(0).argmin())
    b = int(best[:, spent].argmin())
    chosen = []
    for i in range(len(price) - 1, -1, -1):
        chosen.append(int(bits[b]))
        before = int(came[i, b, spent])
        spent -= int(price[i, b])
        b = before
    return chosen[::-1]
