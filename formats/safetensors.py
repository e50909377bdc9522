"""Safetensors files: eight bytes of length, a JSON header, raw tensors; read by memory mapping, written whole or not
at all.

Nothing in a header is believed before it is checked, so that a hostile or damaged file ends in an InputError and
never in a huge allocation or in another tensor's bytes. bfloat16 and the float8 types, which numpy lacks, are handed
out as raw tensors and read as float32.
"""

from __future__ import annotations

import contextlib
import json
import math
import mmap
import os
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from icml.formats.errors import InputError
from icml.formats.output import atomic_output

MAX_HEADER_BYTES = 100_000_000
"""What the reference implementation accepts, too."""

_METADATA = "__metadata__"

_NUMPY = {
    "U64": "<u8", "I64": "<i8", "F64": "<f8", "F32": "<f4", "U32": "<u4", "I32": "<i4", "BF16": "<u2", "F16": "<f2",
    "U16": "<u2", "I16": "<i2", "F8_E4M3": "u1", "F8_E5M2": "u1", "I8": "i1", "U8": "u1", "BOOL": "?",
}  # fmt: skip
"""The numpy type that holds each dtype; for those that numpy lacks, an integer type that holds the bits.

In the order in which the reference implementation writes tensors.
"""

_RANK = {name: rank for rank, name in enumerate(_NUMPY)}
_BITS_ONLY = frozenset({"BF16", "F8_E4M3", "F8_E5M2"})
_NAMES = {np.dtype(code): name for name, code in _NUMPY.items() if name not in _BITS_ONLY}
FLOATS = frozenset({"F16", "F32", "F64"}) | _BITS_ONLY


@dataclass(frozen=True)
class RawTensor:
    """A tensor of any dtype: its bits in a numpy array.

    Attributes:
        dtype: the name the format uses: "BF16", "F32", "I8", …
        bits: the values, or for the types that numpy lacks unsigned integers of their size.
    """

    dtype: str
    bits: NDArray[Any]

    @classmethod
    def of(cls, array: NDArray[Any]) -> RawTensor:
        """A numpy array as it is.

        Raises:
            TypeError: the format has no such dtype.
        """
        name = _NAMES.get(array.dtype.newbyteorder("<"))
        if name is None:
            raise TypeError(f"safetensors has no way to hold {array.dtype}")
        return cls(name, np.asarray(array, array.dtype.newbyteorder("<"), order="C"))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.bits.shape

    @property
    def nbytes(self) -> int:
        return self.bits.nbytes

    def float32(self) -> NDArray[np.float32]:
        """The values of a floating-point tensor.

        Raises:
            TypeError: the dtype is not a floating-point one.
        """
        if self.dtype == "BF16":
            wide: NDArray[np.uint32] = self.bits.astype(np.uint32) << np.uint32(16)
            return wide.view(np.float32)
        if self.dtype in _FLOAT8:
            return np.asarray(_float8_values(*_FLOAT8[self.dtype])[self.bits], np.float32)
        if self.dtype not in FLOATS:
            raise TypeError(f"{self.dtype} is not a floating-point type")
        with np.errstate(over="ignore"):
            return self.bits.astype(np.float32)


def to_dtype(values: NDArray[np.float32], dtype: str) -> RawTensor:
    """float32 values rounded to F16, BF16 or F32, to nearest and ties to even.

    Raises:
        ValueError: another dtype.
    """
    if dtype == "BF16":
        bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
        rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
        rounded = np.where(np.isnan(values), np.uint32(0x7FC0), rounded)
        return RawTensor("BF16", rounded.astype("<u2"))
    if dtype not in ("F16", "F32"):
        raise ValueError(f"expected F16, BF16 or F32, got {dtype}")
    with np.errstate(over="ignore"):
        return RawTensor(dtype, np.ascontiguousarray(values, _NUMPY[dtype]))


_FLOAT8 = {"F8_E4M3": (4, 3, 7), "F8_E5M2": (5, 2, 15)}


def _float8_values(exponent_bits: int, mantissa_bits: int, bias: int) -> NDArray[np.float32]:
    """All 256 values of a float8 type; E4M3 (the "fn" kind) has no infinities and one NaN a sign."""
    code = np.arange(256)
    exponent = code >> mantissa_bits & (1 << exponent_bits) - 1
    mantissa = (code & (1 << mantissa_bits) - 1) / (1 << mantissa_bits)
    magnitude = np.where(exponent == 0, np.ldexp(mantissa, 1 - bias), np.ldexp(1 + mantissa, exponent - bias))
    if exponent_bits == 4:
        magnitude[code & 0x7F == 0x7F] = np.nan
    else:
        top = exponent == (1 << exponent_bits) - 1
        magnitude[top] = np.where(mantissa[top] == 0, np.inf, np.nan)
    return np.where(code >> 7, -magnitude, magnitude).astype(np.float32)


@dataclass(frozen=True)
class TensorInfo:
    """Where a tensor is in its file, checked."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


class SafetensorsFile(Mapping[str, RawTensor]):
    """A file, mapped into memory; tensors are views of it, read from the disk when they are looked at.

    Args:
        path: the file.

    Attributes:
        info: dtype, shape and place of each tensor, in the file's order.
        metadata: the header's strings.

    Raises:
        InputError: it cannot be opened, or it is no sound safetensors file, with the reason.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.name = os.fspath(path)
        try:
            with open(path, "rb") as stream:
                size = os.fstat(stream.fileno()).st_size
                if size < 8:
                    raise self._error("not a safetensors file, or truncated: shorter than 8 bytes")
                self._map = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise InputError(error.strerror or str(error), self.name) from error
        length = struct.unpack("<Q", self._map[:8])[0]
        if length > min(MAX_HEADER_BYTES, size - 8):
            raise self._error(
                f"not a safetensors file, or truncated: a header of {length} bytes in a file of {size}"
            )
        self._base = 8 + length
        header = self._header(self._map[8 : self._base])
        self.metadata = self._metadata(header.pop(_METADATA, {}))
        self.info = {name: self._entry(name, entry) for name, entry in header.items()}
        self._check_layout(size - self._base)

    def __getitem__(self, name: str) -> RawTensor:
        info = self.info[name]
        flat = np.frombuffer(self._map, _NUMPY[info.dtype], math.prod(info.shape), self._base + info.start)
        return RawTensor(info.dtype, (flat if flat.flags.aligned else flat.copy()).reshape(info.shape))

    def __iter__(self) -> Iterator[str]:
        return iter(self.info)

    def __len__(self) -> int:
        return len(self.info)

    def _error(self, message: str) -> InputError:
        return InputError(message, self.name)

    def _header(self, data: bytes) -> dict[str, Any]:
        try:
            header = json.loads(data.decode("utf-8"), object_pairs_hook=_unique)
        except (ValueError, RecursionError) as error:
            raise self._error(f"not a safetensors file: the header is not sound JSON ({error})") from error
        if not isinstance(header, dict):
            raise self._error("not a safetensors file: the header is not a JSON object")
        return header

    def _metadata(self, found: Any) -> dict[str, str]:
        if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
            raise self._error("the header's metadata are not strings")
        return found

    def _entry(self, name: str, entry: Any) -> TensorInfo:
        if not isinstance(entry, dict):
            raise self._error(f"tensor {name!r}: not described by a JSON object")
        found: tuple[Any, ...] = tuple(entry.get(key) for key in ("dtype", "shape", "data_offsets"))
        dtype, shape, offsets = found
        if not isinstance(dtype, str) or dtype not in _NUMPY:
            raise self._error(f"tensor {name!r}: unknown dtype {dtype!r}")
        if not _are_counts(shape) or len(shape) > 32:
            raise self._error(f"tensor {name!r}: the shape {shape!r} is not a list of sizes")
        if not _are_counts(offsets) or len(offsets) != 2:
            raise self._error(f"tensor {name!r}: data_offsets {offsets!r} are not two offsets")
        need = math.prod(shape) * np.dtype(_NUMPY[dtype]).itemsize
        if offsets[1] - offsets[0] != need:
            raise self._error(
                f"tensor {name!r}: {dtype} of shape {shape} takes {need} bytes, its offsets give "
                f"{offsets[1] - offsets[0]}"
            )
        return TensorInfo(dtype, tuple(shape), offsets[0], offsets[1])

    def _check_layout(self, data_bytes: int) -> None:
        """Tensors must fill the data without overlap or hole, as the format has it."""
        end, before = 0, "the header"
        for name, info in sorted(self.info.items(), key=lambda item: (item[1].start, item[1].stop)):
            if info.start != end:
                what = "overlaps" if info.start < end else "leaves a hole after"
                raise self._error(f"tensor {name!r} {what} {before}")
            end, before = info.stop, f"tensor {name!r}"
        if end > data_bytes:
            raise self._error(f"truncated: {before} ends {end - data_bytes} bytes after the end of the file")
        if end < data_bytes:
            raise self._error(f"{data_bytes - end} bytes after the last tensor that belong to none")

    def close(self) -> None:
        """Gives the mapping back, once no view of it is left."""
        self._map.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(BufferError):  # views of it live on, and it with them
            self.close()


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _are_counts(value: Any) -> bool:
    """Whether it is a list of integers from 0 on."""
    return isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)


def write_safetensors(
    path: str | Path,
    tensors: Mapping[str, NDArray[Any] | RawTensor],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Writes a file, whole or not at all; the same tensors give the same bytes whatever their order.

    The file is the one that the reference implementation writes: tensors in the order of their dtypes, then by name.

    Raises:
        InputError: the file cannot be written there.
        WorkError: writing failed, e.g. on a full disk.
        TypeError: a dtype that the format lacks.
    """
    raw = {
        name: value if isinstance(value, RawTensor) else RawTensor.of(value)
        for name, value in tensors.items()
    }
    order = sorted(raw, key=lambda name: (_RANK[raw[name].dtype], name.encode()))
    header: dict[str, Any] = {_METADATA: dict(sorted(metadata.items()))} if metadata else {}
    end = 0
    for name in order:
        start, end = end, end + raw[name].nbytes
        header[name] = {
            "dtype": raw[name].dtype,
            "shape": list(raw[name].shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with atomic_output(path, "wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text)
        for name in order:
            stream.write(np.ascontiguousarray(raw[name].bits).reshape(-1).view(np.uint8).data)
