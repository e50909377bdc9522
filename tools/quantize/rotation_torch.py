"""The rotations of `rotation` in torch, differentiable and on any device."""

from __future__ import annotations

import math

import torch

from icml.tools.quantize.rotation import LARGEST_Q, fixed_signs, power_of_two


def apply_rotation_torch(x: torch.Tensor, q: torch.Tensor | None, transpose: bool = False) -> torch.Tensor:
    """V x (or Vᵀ x) along the last axis; `q` as in `Rotation`."""
    n = x.shape[-1]
    block = power_of_two(n)
    if n // block > LARGEST_Q:
        width, signs = 1 << (n.bit_length() - 1), torch.from_numpy(fixed_signs(n)).to(x)
        first, last = slice(0, width), slice(n - width, n)
        inner, outer = (last, first) if transpose else (first, last)
        return _on_part(_on_part(x, inner) * signs, outer)
    blocks = _hadamard(x.reshape(*x.shape[:-1], n // block, block))
    if q is not None:
        blocks = (q.T if transpose else q).to(x.dtype) @ blocks
    return blocks.reshape(x.shape)


def _on_part(x: torch.Tensor, part: slice) -> torch.Tensor:
    """The Hadamard transform of some coordinates, the others as they are."""
    pieces = [x[..., : part.start], _hadamard(x[..., part]), x[..., part.stop :]]
    return torch.cat(pieces, -1)


def _hadamard(x: torch.Tensor) -> torch.Tensor:
    """The orthonormal Hadamard transform along the last axis, of a length that is a power of two."""
    n = x.shape[-1]
    shape = x.shape
    h = 1
    while h < n:
        pairs = x.reshape(*shape[:-1], n // (2 * h), 2, h)
        a, b = pairs[..., 0, :], pairs[..., 1, :]
        x = torch.stack([a + b, a - b], -2).reshape(shape)
        h *= 2
    return x / math.sqrt(n)
