"""One call quantizes one linear, by any method."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from icml.formats.errors import InputError
from icml.tools.quantize.hessian import InputSpace, prepare_input
from icml.tools.quantize.linear import QuantizedLinear, checked_weight
from icml.tools.quantize.options import ProteusOptions, ScalarOptions, TwlaOptions, options_for


def quantize_linear(
    weight: NDArray[np.floating],
    hessian: NDArray[np.floating] | InputSpace | None = None,
    method: str = "proteus",
    **options: Any,
) -> QuantizedLinear:
    """Quantized weights of one linear.

    Args:
        weight: [m, n], outputs by inputs.
        hessian: E[x xᵀ] of the linear's inputs [n, n], or the `InputSpace` it shares with others; None knows nothing of
            the inputs (identity), at about three times the error.
        method: `proteus` (trellis code), `twla` (ternary), `gptq` or `rtn` (uniform grids).
        options: of the method: `ProteusOptions`, `TwlaOptions`, `ScalarOptions`.

    Raises:
        InputError: weights or Hessian not finite or not fitting, an unknown method, option or value.
        Stopped: `should_stop` said so.
    """
    chosen = options_for(method, options)
    w = checked_weight(weight)
    if isinstance(hessian, InputSpace):
        space = hessian
        if space.n != w.shape[1]:
            raise InputError(f"an input space of {space.n} coordinates for weights of {w.shape[1]} inputs")
    else:
        space = prepare_input(hessian, w.shape[1], method, rotate=chosen.rotate, damp=chosen.damp, seed=chosen.seed,
                              threads=chosen.threads)  # fmt: skip
    if isinstance(chosen, ProteusOptions):
        from icml.tools.quantize.proteus import quantize_proteus

        return quantize_proteus(w, space, chosen)
    if isinstance(chosen, TwlaOptions):
        from icml.tools.quantize.ternary import quantize_twla

        return quantize_twla(w, space, chosen)
    from icml.tools.quantize.scalar import quantize_scalar

    assert isinstance(chosen, ScalarOptions)
    return quantize_scalar(w, space, method, chosen)
