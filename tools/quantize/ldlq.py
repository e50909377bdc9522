"""Error feedback by blocks of columns (block LDLQ).

With H = L D Lᵀ, L unit block-lower, the error tr(E H Eᵀ) is the sum over blocks of
|(E_b + E_{>b} L_{>b,b}) D_b^{1/2}|²: quantizing blocks from the last to the first, each with what the later ones left
over added to its target, makes every term a plain rounding error. Sources: Chee et al., "QuIP", 2023; Tseng et al.,
"QuIP#", 2024.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from icml.tools.quantize.hessian import BLOCK

PANEL = 128  # columns between two updates of everything to their left
Matrix = NDArray[np.float32]


def quantize_with_feedback(
    weight: Matrix,
    factor: Matrix | None,
    quantize: Callable[[int, Matrix], Matrix],
) -> Matrix:
    """Quantizes blocks of 16 columns from the last to the first.

    Args:
        weight: [m, n], n a multiple of 16.
        factor: L [n, n]; None for the identity (no feedback).
        quantize: given the index of a block and its target [m, 16] (contiguous), the values it becomes.

    Returns:
        The quantized weight [m, n].
    """
    n = weight.shape[1]
    target = weight.copy()
    error = np.zeros_like(weight)
    for panel in range((n - 1) // PANEL * PANEL, -1, -PANEL):
        end = min(panel + PANEL, n)
        for first in range(end - BLOCK, panel - 1, -BLOCK):
            block, later = slice(first, first + BLOCK), slice(first + BLOCK, end)
            wanted = target[:, block]
            if factor is not None and first + BLOCK < end:
                wanted = wanted + error[:, later] @ factor[later, block]
            error[:, block] = weight[:, block] - quantize(first // BLOCK, np.ascontiguousarray(wanted))
        if factor is not None and panel:
            target[:, :panel] += error[:, panel:end] @ factor[panel:end, :panel]
    return weight - error
