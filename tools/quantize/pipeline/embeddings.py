"""The tensors outside the blocks: embeddings in 8 or 16 bits, everything else as it was.

An embedding in 8 bits has a scale and a zero for every row. Tied embeddings are one matrix and stay one, in the width
asked for the head: the head is read whole for every token, and would otherwise outweigh the blocks of a small model.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from icml.formats.safetensors import FLOATS, RawTensor, to_dtype
from icml.tools.quantize.core import quantize_linear
from icml.tools.quantize.pipeline.block import Unit
from icml.tools.quantize.pipeline.settings import EMBEDDING, HEAD, TIED, Settings
from icml.tools.quantize.pipeline.skeleton import Skeleton

ROWS = 4096
"""Converted at a time."""

LARGEST_F16 = 65504


def store_rest(skeleton: Skeleton, settings: Settings, threads: int) -> Unit:
    """Everything outside the blocks."""
    unit = Unit()
    first, last = skeleton.embedding_names()
    tied = first is not None and first == last
    for name in skeleton.other_tensors():
        if name == first:
            bits, role = settings.head_bits if tied else settings.embed_bits, EMBEDDING
        elif name == last:
            bits, role = settings.head_bits, HEAD
        else:
            unit.tensors[name] = skeleton.kept(name)
            continue
        biased = name.removesuffix("weight") + "bias" in skeleton.homes
        if bits == 8 and not (role == EMBEDDING and biased):
            _store_rows(unit, skeleton, name, role, threads)
        else:
            unit.tensors[name] = _in_16_bits(skeleton, name)
    if tied and first is not None and first.removesuffix(".weight") in unit.modules:
        head = _module_name(skeleton, skeleton.model.get_output_embeddings())
        unit.modules[head] = {"role": TIED, "to": first.removesuffix(".weight")}
    return unit


def _module_name(skeleton: Skeleton, module: Any) -> str:
    names: list[str] = [name for name, other in skeleton.model.named_modules() if other is module]
    return names[0]


def _store_rows(unit: Unit, skeleton: Skeleton, name: str, role: str, threads: int) -> None:
    """Rows in 8 bits, some at a time: they are independent of each other."""
    module = name.removesuffix(".weight")
    raw = skeleton.raw(name)
    rows, width = raw.shape
    parts = [
        quantize_linear(
            skeleton.rows(name, slice(first, first + ROWS)), None, "rtn", bits=8, group=width, clip=False,
            rotate="none", threads=threads,
        )
        for first in range(0, rows, ROWS)
    ]  # fmt: skip
    unit.modules[module] = {**parts[0].meta, "shape": [rows, width], "role": role}
    for suffix in parts[0].tensors():
        unit.tensors[f"{module}.{suffix}"] = np.concatenate([part.tensors()[suffix] for part in parts])


def _in_16_bits(skeleton: Skeleton, name: str) -> RawTensor:
    raw = skeleton.kept(name)
    if raw.dtype not in FLOATS or raw.bits.dtype.itemsize <= 2:
        return raw
    parts = [skeleton.rows(name, slice(first, first + ROWS)) for first in range(0, len(raw.bits), ROWS)]
    wide = any(np.abs(part).max(initial=0) > LARGEST_F16 for part in parts)
    dtype = "BF16" if wide else "F16"
    return RawTensor(dtype, np.concatenate([to_dtype(part, dtype).bits for part in parts]))
