"""Low-bit activations, simulated: each token is rounded to an asymmetric grid of its own.

On a CPU this saves no time, the smallest dot product being of 8 bits; it shows what 4-bit hardware would do.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from icml.formats.errors import InputError

CLIPS = tuple(float(p) for p in np.round(np.arange(0.5, 1.0025, 0.005), 3))
Matrix = NDArray[np.float32]


def quantize_activations(x: NDArray[np.floating], bits: int, clip: float = 1.0) -> Matrix:
    """x [tokens, n] rounded to 2^bits values from clip * min to clip * max of each token.

    Args:
        bits: 2..8.
        clip: of both ends, in (0, 1].
    """
    if not 2 <= bits <= 8:
        raise InputError(f"activations have 2 to 8 bits, not {bits}")
    if not 0 < clip <= 1:
        raise InputError(f"a clip factor is in (0, 1], not {clip:g}")
    rows = np.asarray(x, np.float32)
    low = np.minimum(rows.min(-1, keepdims=True), 0) * np.float32(clip)
    high = np.maximum(rows.max(-1, keepdims=True), 0) * np.float32(clip)
    scale = (high - low) / np.float32(2**bits - 1)
    safe = np.where(scale > 0, scale, np.float32(1))
    zero = np.rint(-low / safe)  # so that 0 stays 0
    return np.asarray((np.clip(np.rint(rows / safe) + zero, 0, 2**bits - 1) - zero) * safe, np.float32)


def best_clip(
    x: NDArray[np.floating], weight: NDArray[np.floating], bits: int, grid: Sequence[float] = CLIPS
) -> float:
    """The clip factor with the least squared error of the outputs x Wᵀ; the largest of equals.

    Args:
        x: calibration inputs [tokens, n], rotated as the linear sees them.
        weight: [m, n], in the same coordinates.
    """
    gram = weight.T.astype(np.float64) @ weight.astype(np.float64)

    def loss(clip: float) -> float:
        error = (quantize_activations(x, bits, clip) - x).astype(np.float64)
        return float(np.einsum("ij,ij->", error @ gram, error))

    return min(sorted(grid, reverse=True), key=loss)
