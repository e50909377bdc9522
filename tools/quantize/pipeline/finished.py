"""A finished directory: its quantized modules, what is known of each, and the plain model they stand for."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from icml.formats.errors import InputError
from icml.formats.model_dir import CONFIG, INDEX, ModelDir, open_model
from icml.formats.output import write_json
from icml.formats.safetensors import FLOATS, RawTensor, to_dtype, write_safetensors
from icml.tools.quantize.linear import QuantizedLinear, tensor_specs
from icml.tools.quantize.pipeline.control import Control
from icml.tools.quantize.pipeline.settings import TIED
from icml.tools.quantize.pipeline.workspace import METADATA, REPORT, check_out, check_space, put_in_place


def restored(name: str, meta: Mapping[str, Any], tensors: Mapping[str, RawTensor]) -> QuantizedLinear:
    """The quantized weights of a module, from the stored tensors.

    Raises:
        InputError: tensors are missing or do not fit.
    """
    found = {
        suffix: tensors[f"{name}.{suffix}"].bits
        for suffix in tensor_specs(meta)
        if f"{name}.{suffix}" in tensors
    }
    return QuantizedLinear.from_tensors(meta, found)


@dataclass(frozen=True)
class Finished:
    """What `icml quantize` has made.

    Attributes:
        source: the files.
        quantization: what the configuration says of it.
    """

    source: ModelDir
    quantization: dict[str, Any]

    @classmethod
    def open(cls, path: Path) -> Finished:
        """Opens a directory.

        Raises:
            InputError: it was not made by `icml quantize`, or files are missing or damaged.
        """
        source = open_model(path)
        found = source.quantization
        if found is None or found.get("quant_method") != "icml":
            raise InputError("was not made by icml quantize", source.name)
        return cls(source, found)

    @property
    def modules(self) -> dict[str, dict[str, Any]]:
        """What is known of each quantized module but its tensors."""
        found: dict[str, dict[str, Any]] = self.quantization["modules"]
        return found

    def linear(self, name: str) -> QuantizedLinear:
        """The weights of a quantized module."""
        return restored(name, self.modules[name], self.source)

    def report(self) -> list[dict[str, Any]]:
        """The report that was written with it; empty if it has been lost."""
        path = self.source.path / REPORT
        if not path.is_file():
            return []
        return [json.loads(line) for line in path.read_text().splitlines()]


@dataclass(frozen=True)
class Kind:
    """Quantized modules that have the name's last part, the shape and the bits in common.

    Attributes:
        name: that last part.
        count: how many there are.
        shape: outputs and inputs.
        bits: of a weight, without scales; for embeddings too.
        bpw: with everything stored.
        error: geometric mean of the relative errors, None if not known.
    """

    name: str
    count: int
    shape: tuple[int, int]
    bits: int | None
    bpw: float
    error: float | None


def kinds(finished: Finished) -> list[Kind]:
    """What there is in a directory, in the order of the model."""
    errors = {line["layer"]: line["error"] for line in finished.report()}
    groups: dict[tuple[str, tuple[int, int], int | None], list[str]] = {}
    for name, meta in finished.modules.items():
        if meta.get("role") != TIED:
            m, n = meta["shape"]
            groups.setdefault((name.rpartition(".")[2], (m, n), meta.get("bits")), []).append(name)
    found = []
    for (last, shape, bits), names in groups.items():
        stored = sum(_stored_bits(finished, name) for name in names)
        known = [max(errors[name], 1e-30) for name in names if errors.get(name) is not None]
        error = math.exp(sum(map(math.log, known)) / len(known)) if known else None
        found.append(Kind(last, len(names), shape, bits, stored / (len(names) * math.prod(shape)), error))
    return found


def _stored_bits(finished: Finished, name: str) -> int:
    suffixes = tensor_specs(finished.modules[name])
    return sum(
        8 * finished.source[f"{name}.{s}"].nbytes for s in suffixes if f"{name}.{s}" in finished.source
    )


def dequantize(finished: Finished, out: Path, control: Control, *, force: bool = False) -> int:
    """Writes the plain model, in the 16-bit type of its other tensors, for programs that know nothing of the format.

    One quantized module is in memory at a time, beside the output of one file.

    Returns:
        bytes of the weight files.

    Raises:
        InputError: `out` is there, or cannot be made.
        WorkError: the disk is full.
    """
    check_out(out, force=force)
    modules = {name: meta for name, meta in finished.modules.items() if meta.get("role") != TIED}
    check_space(out, sum(2 * math.prod(meta["shape"]) for meta in modules.values()))
    dtype = _dtype(finished)
    folder = out.with_name(f".icml-{os.urandom(8).hex()}.tmp")
    try:
        folder.mkdir()
    except OSError as error:
        raise InputError(error.strerror or str(error), os.fspath(folder)) from error
    try:
        size = _write_plain(finished, folder, dtype, modules, control)
        put_in_place(folder, out, replace=force)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return size


def _dtype(finished: Finished) -> str:
    """BF16 if the configuration says so, or if most other tensors are; else F16."""
    config = finished.source.config or {}
    said = config.get("dtype") or config.get("torch_dtype")
    counts = Counter(finished.source[name].dtype for name in finished.source)
    return "BF16" if said == "bfloat16" or (said is None and counts["BF16"]) else "F16"


def _write_plain(
    finished: Finished, folder: Path, dtype: str, modules: Mapping[str, Mapping[str, Any]], control: Control
) -> int:
    source = finished.source
    owner = {f"{name}.{suffix}": name for name, meta in modules.items() for suffix in tensor_specs(meta)}
    files: dict[int, list[str]] = {}
    for name in source:
        files.setdefault(id(source.homes[name]), []).append(name)
    places: dict[str, str] = {}
    total = 0
    for number, names in enumerate(files.values(), 1):
        tensors = {name: _converted(source[name], dtype) for name in names if name not in owner}
        for module in dict.fromkeys(owner[name] for name in names if name in owner):
            control.poll()
            weight_name = modules[module].get("tensor", f"{module}.weight")
            if weight_name not in places:  # a module whose tensors are in two files
                weight = finished.linear(module).dequantize(threads=control.threads)
                tensors[weight_name] = to_dtype(weight, dtype)
        file = f"model-{number:05d}-of-{len(files):05d}.safetensors"
        write_safetensors(folder / file, tensors, METADATA)
        control.on_block((number, file, len(files)))
        places.update(dict.fromkeys(tensors, file))
        total += sum(tensor.nbytes for tensor in tensors.values())
    _write_plain_config(finished, folder, dtype, places, total)
    return total


def _converted(raw: RawTensor, dtype: str) -> RawTensor:
    if raw.dtype not in FLOATS or raw.dtype == dtype:
        return raw
    return to_dtype(np.asarray(raw.float32()), dtype)


def _write_plain_config(
    finished: Finished, folder: Path, dtype: str, places: Mapping[str, str], total: int
) -> None:
    config = dict(finished.source.config or {})
    config.pop("quantization_config")
    config["dtype"] = "bfloat16" if dtype == "BF16" else "float16"
    config.pop("torch_dtype", None)
    if any(meta.get("role") == TIED for meta in finished.modules.values()):
        config["tie_word_embeddings"] = True
    write_json(folder / CONFIG, config, indent=2)
    write_json(
        folder / INDEX,
        {"metadata": {"total_size": total}, "weight_map": dict(sorted(places.items()))},
        indent=2,
    )
    for path in finished.source.side_files():
        if path.name != REPORT:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(finished.source.path / path, folder / path)
