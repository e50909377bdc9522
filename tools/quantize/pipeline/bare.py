"""Files of tensors without a model: each matrix is quantized by itself, nothing being known of its inputs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np

from icml.formats.errors import InputError
from icml.formats.model_dir import ModelDir
from icml.formats.safetensors import FLOATS
from icml.tools.quantize.pipeline.block import Quantizer, Unit
from icml.tools.quantize.pipeline.control import Control
from icml.tools.quantize.pipeline.settings import Settings
from icml.tools.quantize.pipeline.workspace import Workspace


def bare_tensors(source: ModelDir, settings: Settings) -> Iterator[tuple[str, bool]]:
    """The tensors of a file without a model, and whether each is a matrix to quantize."""
    for name in source:
        raw = source[name]
        matrix = len(raw.shape) == 2 and raw.dtype in FLOATS and 0 not in raw.shape
        yield name, matrix and not settings.skips(name)


def run_bare(source: ModelDir, settings: Settings, space: Workspace, control: Control) -> None:
    """Quantizes each matrix of a file by itself, its inputs taken for independent; a unit each, then the rest."""
    listed = list(bare_tensors(source, settings))
    matrices = [name for name, matrix in listed if matrix]
    for unit_index, name in enumerate(matrices):
        control.poll()
        raw = source[name]
        content = f"{settings.digest()} {name} {raw.dtype} {raw.shape}".encode()
        hashed = hashlib.blake2b(content, digest_size=16)
        hashed.update(np.ascontiguousarray(raw.bits).reshape(-1).view(np.uint8).data)
        if space.finished(unit_index, hashed.hexdigest()) is not None:
            continue
        values = source.float32(name)
        if not np.isfinite(values).all():
            raise InputError(f"tensor {name!r} holds NaN or infinite values", source.name)
        unit = Unit()
        Quantizer(settings, control).group(unit, {name.removesuffix(".weight"): np.array(values)}, None, {})
        for meta in unit.modules.values():
            meta["tensor"] = name
        space.save(
            unit_index,
            unit.tensors,
            unit.info(hashed.hexdigest(), values.size),
            candidates=settings.fractional,
        )
        control.on_block((unit_index + 1, name, len(matrices)))
    rest = {name: source[name] for name, matrix in listed if not matrix}
    space.save(len(matrices), rest, Unit().info("rest", 0))
