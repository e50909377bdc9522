"""Low-bit weights of a language model: Proteus (2-bit trellis codes), TWLA (ternary), and GPTQ and RTN beside them.

    >>> import numpy as np
    >>> from icml.tools.quantize import quantize_linear
    >>> weight = np.random.default_rng(0).standard_normal((64, 128)).astype(np.float32)
    >>> quantized = quantize_linear(weight, bits=2, L=12)
    >>> quantized.dequantize().shape, quantized.proxy_error < 0.08
    ((64, 128), True)

Sources: "Proteus" (ICML 2026, reconstructed from its abstract and the QTIP line of work); "TWLA: Achieving Ternary
Weights and Low-Bit Activations for LLMs via Post-Training Quantization", ICML 2026.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from icml.tools.lazy import attach

if TYPE_CHECKING:
    from icml.tools.quantize.activations import best_clip, quantize_activations
    from icml.tools.quantize.allocation import allocate_bits
    from icml.tools.quantize.core import quantize_linear
    from icml.tools.quantize.generators import Generator, best_generators, parse_generator
    from icml.tools.quantize.hessian import Hessian, InputSpace, prepare_input
    from icml.tools.quantize.linear import QuantizedLinear, tensor_specs
    from icml.tools.quantize.options import ProteusOptions, ScalarOptions, Stopped, TwlaOptions
    from icml.tools.quantize.proteus import ProteusLinear
    from icml.tools.quantize.rotation import Rotation
    from icml.tools.quantize.rotation_torch import apply_rotation_torch
    from icml.tools.quantize.scalar import ScalarLinear
    from icml.tools.quantize.ternary import TernaryLinear
    from icml.tools.quantize.trellis import TrellisCode, instruction_sets

# Imported on first use, so that the command's --help does not import numpy.
_HOMES = {
    "Generator": "generators",
    "Hessian": "hessian",
    "InputSpace": "hessian",
    "ProteusLinear": "proteus",
    "ProteusOptions": "options",
    "QuantizedLinear": "linear",
    "Rotation": "rotation",
    "ScalarLinear": "scalar",
    "ScalarOptions": "options",
    "Stopped": "options",
    "TernaryLinear": "ternary",
    "TrellisCode": "trellis",
    "TwlaOptions": "options",
    "allocate_bits": "allocation",
    "apply_rotation_torch": "rotation_torch",
    "best_clip": "activations",
    "best_generators": "generators",
    "instruction_sets": "trellis",
    "parse_generator": "generators",
    "prepare_input": "hessian",
    "quantize_activations": "activations",
    "quantize_linear": "core",
    "tensor_specs": "linear",
}

__all__ = [
    "Generator",
    "Hessian",
    "InputSpace",
    "ProteusLinear",
    "ProteusOptions",
    "QuantizedLinear",
    "Rotation",
    "ScalarLinear",
    "ScalarOptions",
    "Stopped",
    "TernaryLinear",
    "TrellisCode",
    "TwlaOptions",
    "allocate_bits",
    "apply_rotation_torch",
    "best_clip",
    "best_generators",
    "instruction_sets",
    "parse_generator",
    "prepare_input",
    "quantize_activations",
    "quantize_linear",
    "tensor_specs",
]


__getattr__ = attach(__name__, _HOMES)
