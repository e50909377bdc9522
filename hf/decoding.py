"""Stored tensors to weights in torch operations alone, for devices that the compiled kernels do not reach."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from icml.tools.quantize import apply_rotation_torch
from icml.tools.quantize.generators import CENTRE

SIDE = 16
"""Of a tile."""

STRIPES = 64
"""Rows of tiles unpacked at a time: what is unpacked takes many times the memory of the weights."""

Tensors = Mapping[str, torch.Tensor]


def dequantize(meta: Mapping[str, Any], tensors: Tensors) -> torch.Tensor:
    """Ŵ, float32 [m, n], on the device of the tensors; `QuantizedLinear.dequantize` but for rounding."""
    return {"proteus": _proteus, "twla": _ternary, "gptq": _scalar, "rtn": _scalar}[meta["method"]](
        meta, tensors
    )


def _proteus(meta: Mapping[str, Any], tensors: Tensors) -> torch.Tensor:
    m, n = meta["shape"]
    a, b = tensors["affine"]
    stripes = torch.split(tensors["qweight"], STRIPES)
    w = torch.cat([_byte_sums(meta, _states(meta, part)) for part in stripes])[:m, :n]
    w = a * (w - CENTRE) + b
    if meta["rotate"] != "none":
        w = apply_rotation_torch(w, tensors.get("qin"), transpose=True)
    w = w * tensors["su"].float()
    if meta["rotate"] != "none":
        w = apply_rotation_torch(w.T, tensors.get("qout"), transpose=True).T
    return (w * tensors["sv"].float()[:, None]).contiguous()


def _states(meta: Mapping[str, Any], packed: torch.Tensor) -> torch.Tensor:
    """The L bits of a tile's ring up to and with each weight's own, int64 [16 stripes, 16 tiles]."""
    ends = (torch.arange(SIDE * SIDE, device=packed.device) + 1) * meta["bits"]
    word = (ends - 1) // 32
    words = packed.long() & 0xFFFFFFFF
    double = words.roll(1, -1) << 32 | words
    mask: int = (1 << meta["L"]) - 1
    states = double[..., word] >> (32 * (word + 1) - ends) & mask
    stripes, tiles = packed.shape[:2]
    square: torch.Tensor = states.view(stripes, tiles, SIDE, SIDE).transpose(1, 2)
    return square.reshape(SIDE * stripes, SIDE * tiles)


def _byte_sums(meta: Mapping[str, Any], states: torch.Tensor) -> torch.Tensor:
    """`Generator.byte_sums`, float32."""
    if meta["family"] == "mul16":
        hashed = (states * meta["A"] & 0xFFFF) | (states * meta["B"] & 0xFFFF) << 16
    else:
        hashed = states * meta["A"] & 0xFFFFFFFF
        if meta["family"] == "mulx":
            hashed = hashed ^ hashed >> 15
    total: torch.Tensor = (hashed & 255) + (hashed >> 8 & 255) + (hashed >> 16 & 255) + (hashed >> 24 & 255)
    return total.float()


def _ternary(meta: Mapping[str, Any], tensors: Tensors) -> torch.Tensor:
    m, n = meta["shape"]
    powers = 3 ** torch.arange(5, device=tensors["trits"].device)
    trits = (tensors["trits"][:, None].int() // powers % 3 - 1).flatten()[: m * n].view(m, n)
    w = _spread(tensors["alpha"], meta["group"], n) * trits + _spread(tensors["mu"], meta["group"], n)
    if "rotl" in tensors:
        left, right = tensors["rotl"].float(), tensors["rotr"].float()
        w = (left.T @ (w.view(m, len(left), len(right)) @ right.T)).reshape(m, n)
    return _turned_back(w, tensors)


def _scalar(meta: Mapping[str, Any], tensors: Tensors) -> torch.Tensor:
    (m, n), bits = meta["shape"], meta["bits"]
    device = tensors["codes"].device
    planes = tensors["codes"][:, None] >> torch.arange(8, dtype=torch.uint8, device=device) & 1
    digits = planes.flatten()[: m * n * bits].view(m, n, bits).int()
    codes = (digits << torch.arange(bits, device=device)).sum(-1)
    w = _spread(tensors["scale"], meta["group"], n) * codes + _spread(tensors["zero"], meta["group"], n)
    return _turned_back(w, tensors)


def _spread(scales: torch.Tensor, group: int, n: int) -> torch.Tensor:
    """A scale for each column out of one for each group of columns."""
    return scales.float().repeat_interleave(min(group, n), 1)[:, :n]


def _turned_back(w: torch.Tensor, tensors: Tensors) -> torch.Tensor:
    if "su" not in tensors:
        return w
    return apply_rotation_torch(w, tensors.get("qin"), transpose=True) * tensors["su"].float()
