"""Model directories as Hugging Face lays them out: config.json, weights in one file or in shards with an index.

Tensors are looked at one by one and never all at once. A single safetensors file is a model without a configuration.
Pickles can run code, so that they are refused unless the caller allows them; even then torch unpickles nothing but
tensors.
"""

from __future__ import annotations

import json
import os
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icml.formats.errors import InputError, MissingError
from icml.formats.safetensors import FLOATS, RawTensor, SafetensorsFile

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
PICKLE, PICKLE_INDEX = "pytorch_model.bin", "pytorch_model.bin.index.json"

_WEIGHT_SUFFIXES = frozenset(
    {".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".onnx", ".ot", ".ckpt"}
)
_FLOAT8 = ("F8_E4M3", "F8_E5M2")


@dataclass(frozen=True)
class ModelDir(Mapping[str, RawTensor]):
    """An opened model.

    Attributes:
        path: the directory, or the file of a model that is one.
        config: what config.json says; None for a bare safetensors file.
        homes: for every tensor the file it is in.
    """

    path: Path
    config: dict[str, Any] | None
    homes: Mapping[str, Mapping[str, RawTensor]]

    def __getitem__(self, name: str) -> RawTensor:
        return self.homes[name][name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.homes)

    def __len__(self) -> int:
        return len(self.homes)

    @property
    def name(self) -> str:
        """What error messages call it."""
        return os.fspath(self.path)

    @property
    def quantization(self) -> dict[str, Any] | None:
        """The configuration's quantization_config."""
        found = (self.config or {}).get("quantization_config")
        return found if isinstance(found, dict) else None

    def float32(self, name: str) -> NDArray[np.float32]:
        """A tensor's values; those in float8 multiplied by the scales that stand beside them.

        Raises:
            InputError: it is not of a floating-point type, or its scales do not fit it.
        """
        raw = self[name]
        if raw.dtype not in FLOATS:
            raise InputError(f"tensor {name!r} is {raw.dtype}, not floating point", self.name)
        values = raw.float32()
        return values if raw.dtype not in _FLOAT8 else values * self._float8_scales(name, raw.shape)

    def _float8_scales(self, name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
        """One for the tensor, for every row, or for every tile of 128 x 128."""
        found = next((name + end for end in ("_scale_inv", "_scale") if name + end in self), None)
        if found is None:
            raise InputError(f"tensor {name!r} is float8 without scales", self.name)
        scales = self[found].float32()
        if scales.size == 1 or scales.shape == (shape[0], 1):
            return scales
        tiles = tuple(-(-size // 128) for size in shape)
        if scales.shape != tiles:
            raise InputError(f"tensor {found!r}: scales {scales.shape} do not fit {shape}", self.name)
        for axis in range(len(shape)):
            scales = np.repeat(scales, 128, axis)
        return scales[tuple(slice(size) for size in shape)]

    def side_files(self) -> list[Path]:
        """Everything that is not weights, relative to the directory: tokenizer, generation settings, read-me."""
        if self.config is None:
            return []
        found = (path for path in self.path.rglob("*") if path.is_file())
        return sorted(
            path.relative_to(self.path)
            for path in found
            if path.suffix not in _WEIGHT_SUFFIXES
            and not path.name.endswith(".index.json")
            and path.relative_to(self.path) != Path(CONFIG)
            and not any(part.startswith(".") for part in path.relative_to(self.path).parts)
        )


def open_model(path: str | Path, *, allow_pickle: bool = False) -> ModelDir:
    """Opens a model directory or a safetensors file.

    Args:
        path: the directory or file.
        allow_pickle: read pytorch_model.bin where there are no safetensors.

    Raises:
        InputError: there is no model; a shard is missing or damaged; there are only pickles.
        MissingError: pickles are allowed, and torch is not installed.
    """
    path = Path(path)
    if not path.exists():
        raise InputError("no such file or directory", os.fspath(path))
    if path.is_file():
        return ModelDir(path, None, _homes(_only_file(path)))
    config = read_json(path / CONFIG) if (path / CONFIG).is_file() else None
    if config is None:
        raise InputError(f"not a model directory: it has no {CONFIG}", os.fspath(path))
    if (path / INDEX).is_file():
        return ModelDir(path, config, _indexed(path, INDEX, SafetensorsFile))
    if (path / WEIGHTS).is_file():
        return ModelDir(path, config, _homes(SafetensorsFile(path / WEIGHTS)))
    return ModelDir(path, config, _pickled(path, allow_pickle))


def _only_file(path: Path) -> SafetensorsFile:
    try:
        with open(path, "rb") as stream:
            head = stream.read(4)
    except OSError as error:
        raise InputError(error.strerror or str(error), os.fspath(path)) from error
    if head == b"GGUF":
        raise InputError("a GGUF file has to be converted first", os.fspath(path))
    if path.suffix in (".bin", ".pt", ".pth") or head[:2] in (b"PK", b"\x80\x02"):
        raise InputError("a pickle; give the model's directory and --allow-pickle", os.fspath(path))
    return SafetensorsFile(path)


def _homes(file: Mapping[str, RawTensor]) -> dict[str, Mapping[str, RawTensor]]:
    return dict.fromkeys(file, file)


def read_json(path: Path) -> dict[str, Any]:
    """A file that holds one JSON object.

    Raises:
        InputError: it cannot be read or holds something else.
    """
    try:
        found = json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(error.strerror or str(error), os.fspath(path)) from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"not sound JSON: {error}", os.fspath(path)) from error
    if not isinstance(found, dict):
        raise InputError("expected a JSON object", os.fspath(path))
    return found


def _indexed(path: Path, index: str, opener: Any) -> dict[str, Mapping[str, RawTensor]]:
    """The tensors that an index distributes over shards."""
    places = read_json(path / index).get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(file, str) for file in places.values()):
        raise InputError("no weight_map of file names", os.fspath(path / index))
    shards = sorted(set(places.values()))
    if any(Path(shard).name != shard for shard in shards):
        raise InputError("a shard lies outside the directory", os.fspath(path / index))
    missing = [shard for shard in shards if not (path / shard).is_file()]
    if missing:
        raise InputError(f"missing {', '.join(missing)}, which {index} names", os.fspath(path))
    opened = {shard: opener(path / shard) for shard in shards}
    for name, shard in places.items():
        if name not in opened[shard]:
            raise InputError(f"no tensor {name!r}, which {index} says is here", os.fspath(path / shard))
    return {name: opened[shard] for name, shard in places.items()}


def _pickled(path: Path, allowed: bool) -> dict[str, Mapping[str, RawTensor]]:
    index = (path / PICKLE_INDEX).is_file()
    if not index and not (path / PICKLE).is_file():
        raise InputError(f"not a model directory: it has neither {WEIGHTS} nor {INDEX}", os.fspath(path))
    if not allowed:
        raise InputError(
            "has its weights as pickles only, which can run code; allow that with --allow-pickle",
            os.fspath(path),
        )
    return _indexed(path, PICKLE_INDEX, _read_pickle) if index else _homes(_read_pickle(path / PICKLE))


def _read_pickle(path: Path) -> dict[str, RawTensor]:
    """The tensors of a file that torch saved, mapped into memory."""
    try:
        import torch
    except ImportError as error:
        raise MissingError("reading pickles needs torch", "pip install 'icml-tools[quantize]'") from error
    try:
        mapped = zipfile.is_zipfile(path)  # not so in files of before 2020
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
    except Exception as error:
        named = re.search(r"GLOBAL (\S+)", str(error))
        reason = f"it would run {named[1]}" if named else str(error).strip().split("\n")[0]
        raise InputError(f"torch cannot read it safely: {reason}", os.fspath(path)) from error
    if not isinstance(state, dict) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise InputError("expected a dictionary of tensors", os.fspath(path))
    try:
        return {name: from_torch(value) for name, value in state.items()}
    except TypeError as error:
        raise InputError(str(error), os.fspath(path)) from error


def from_torch(tensor: Any) -> RawTensor:
    """A torch tensor on the CPU, its memory shared.

    Raises:
        TypeError: safetensors have no such dtype.
    """
    import torch

    tensor = tensor.detach().contiguous()
    if tensor.dtype == torch.bfloat16:
        return RawTensor("BF16", tensor.view(torch.uint16).numpy())
    float8 = {torch.float8_e4m3fn: "F8_E4M3", torch.float8_e5m2: "F8_E5M2"}.get(tensor.dtype)
    if float8 is not None:
        return RawTensor(float8, tensor.view(torch.uint8).numpy())
    return RawTensor.of(tensor.numpy())


def to_torch(raw: RawTensor) -> Any:
    """A copy as a torch tensor, of the dtype it is stored in; the float8 types as float32."""
    import torch

    if raw.dtype == "BF16":
        return torch.from_numpy(np.array(raw.bits)).view(torch.bfloat16)
    if raw.dtype in _FLOAT8:
        return torch.from_numpy(raw.float32())
    return torch.from_numpy(np.array(raw.bits))
