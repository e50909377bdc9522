"""Activations of few bits, simulated: inputs are rounded token by token, in the basis that a linear rotates them to."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from icml.tools.quantize.activations import best_clip, quantize_activations
from icml.tools.quantize.linear import QuantizedLinear
from icml.tools.quantize.ternary import TernaryLinear

Matrix = NDArray[np.float32]

COARSE, FINE = 0.05, 0.005
"""Steps of the two rounds in which a clip factor between 0.5 and 1 is looked for."""


def basis(quantized: QuantizedLinear, x: Matrix) -> tuple[Matrix, Matrix]:
    """Inputs and weights in the coordinates in which the inputs are rounded."""
    if isinstance(quantized, TernaryLinear):
        return quantized.rotate_input(x), quantized.rotated()
    return x, quantized.dequantize()


def clip_for(quantized: QuantizedLinear, sample: Matrix, bits: int) -> float:
    """The clip factor with the least error of the outputs for some inputs."""
    return clip_in(*basis(quantized, sample), bits)


def clip_in(x: Matrix, weight: Matrix, bits: int) -> float:
    """`clip_for`, the basis being known: a coarse grid, then a fine one around its best point."""
    coarse = best_clip(x, weight, bits, [round(0.5 + i * COARSE, 3) for i in range(11)])
    fine = [round(coarse + i * FINE, 3) for i in range(-9, 10)]
    return float(best_clip(x, weight, bits, [c for c in fine if 0.5 <= c <= 1]))


class Rounded(nn.Module):
    """A quantized linear whose inputs are rounded to `bits`.

    Args:
        quantized: the weights.
        bias: of the outputs.
        sample: inputs on which the clip factor for each number of bits is chosen.
        choices: the numbers of bits.
    """

    def __init__(
        self, quantized: QuantizedLinear, bias: torch.Tensor | None, sample: Matrix, choices: tuple[int, ...]
    ) -> None:
        super().__init__()
        self.quantized = quantized
        self.bias = bias
        self.bits = choices[-1]
        x, weight = basis(quantized, sample)
        self.clips = {bits: clip_in(x, weight, bits) for bits in choices}
        self.weight_in_basis = torch.from_numpy(np.ascontiguousarray(weight))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Ŵ x + bias."""
        rows = x.reshape(-1, x.shape[-1]).numpy()
        if isinstance(self.quantized, TernaryLinear):
            rows = self.quantized.rotate_input(rows, threads=1)
        rounded = torch.from_numpy(quantize_activations(rows, self.bits, self.clips[self.bits]))
        out = functional.linear(rounded, self.weight_in_basis, self.bias)
        return out.reshape(*x.shape[:-1], out.shape[-1])
