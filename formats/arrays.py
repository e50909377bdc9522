"""Arrays in NPY and NPZ files, read without ever unpickling anything."""

from __future__ import annotations

import io
import math
import struct
import tokenize
import zipfile
import zlib
from typing import IO, Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from icml.formats.errors import InputError
from icml.formats.source import Content

# What numpy and zipfile raise on damaged or hostile files. A pickled array is a ValueError.
_DAMAGE = (
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    OSError,
    EOFError,
    RuntimeError,
    OverflowError,
    MemoryError,
    SyntaxError,
    RecursionError,
    AttributeError,
    UnicodeError,
    struct.error,
    tokenize.TokenError,
    zlib.error,
    zipfile.BadZipFile,
)

_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_HEADER_BYTES = 1 << 17
"""More than numpy lets a header have."""


def load_npy(content: Content) -> NDArray[Any]:
    """The array of an NPY file; it shares the memory of `content`.

    Raises:
        InputError: it is damaged, or holds Python objects.
    """
    head = io.BytesIO(content.data[:_HEADER_BYTES])
    try:
        version = np.lib.format.read_magic(head)
        if version not in _HEADERS:
            return _load(io.BytesIO(content.data), content.name, "NPY file")
        shape, in_fortran_order, dtype = _HEADERS[version](head)
        count = math.prod(shape)
        if dtype.hasobject or dtype.itemsize == 0:
            return _load(io.BytesIO(content.data), content.name, "NPY file")
        if head.tell() + count * dtype.itemsize > len(content.data):
            raise EOFError("it ends before the last element")
        flat: NDArray[Any] = np.frombuffer(content.data, dtype, count, head.tell())
    except _DAMAGE as error:
        raise InputError(f"NPY file is not readable: {_one_line(error)}", content.name) from error
    return flat.reshape(shape, order="F" if in_fortran_order else "C")


def map_npy(path: str) -> NDArray[Any]:
    """The array of an NPY file that is not compressed, left in the file until it is looked at.

    Raises:
        InputError: it is damaged, or holds Python objects.
    """
    try:
        return np.lib.format.open_memmap(path, mode="r")
    except _DAMAGE as error:
        raise InputError(f"NPY file is not readable: {_one_line(error)}", path) from error


def load_npz(content: Content) -> dict[str, NDArray[Any]]:
    """The arrays of an NPZ file by name.

    Raises:
        InputError: it is damaged, holds Python objects, or is another kind of zip archive.
    """
    with NpzArchive(io.BytesIO(content.data), content.name) as archive:
        return {name: archive.load(name) for name in archive.names}


class NpzArchive:
    """An NPZ file whose arrays are read one at a time; a context manager.

    Args:
        file: a path, or a seekable binary file.
        source: the input's name for messages.

    Raises:
        InputError: here and in `load`: it is damaged, holds Python objects, or is another kind of zip archive.
    """

    def __init__(self, file: str | BinaryIO, source: str) -> None:
        self.source = source
        try:
            self._archive = zipfile.ZipFile(file)
        except _DAMAGE as error:
            raise InputError(f"not a readable NPZ file: {_one_line(error)}", source) from error
        members = [name for name in self._archive.namelist() if name.endswith(".npy")]
        self.names = [name.removesuffix(".npy") for name in members]
        if not self.names:
            self._archive.close()
            raise InputError("a zip archive without arrays; unpack it first", source)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._archive.close()

    def load(self, name: str) -> NDArray[Any]:
        """One of the arrays."""
        try:
            member = self._archive.open(f"{name}.npy")
        except _DAMAGE as error:
            raise InputError(f"not a readable NPZ file: {_one_line(error)}", self.source) from error
        with member:
            return _load(member, self.source, f"array '{name}'")

    def layout(self, name: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """Shape and type of one of the arrays, from its header alone."""
        try:
            with self._archive.open(f"{name}.npy") as member:
                version = np.lib.format.read_magic(member)
                if version in _HEADERS:
                    shape, _, dtype = _HEADERS[version](member)
                    return shape, dtype
        except _DAMAGE as error:
            raise InputError(f"array '{name}' is not readable: {_one_line(error)}", self.source) from error
        array = self.load(name)
        return array.shape, array.dtype


def _load(file: IO[bytes], source: str, what: str) -> NDArray[Any]:
    try:
        array = np.lib.format.read_array(file, allow_pickle=False)
    except _DAMAGE as error:
        raise InputError(f"{what} is not readable: {_one_line(error)}", source) from error
    if array.dtype.hasobject:
        raise InputError(f"{what} holds Python objects", source)
    return array


def _one_line(error: BaseException) -> str:
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__


def as_float64(array: NDArray[Any], what: str, source: str) -> NDArray[np.float64]:
    """Numbers as float64.

    Raises:
        InputError: they are no real numbers.
    """
    if array.dtype.kind not in "biuf":
        raise InputError(f"{what} must hold real numbers, not {array.dtype}", source)
    return np.asarray(array, np.float64)


def as_int64(array: NDArray[Any], what: str, source: str) -> NDArray[np.int64]:
    """Integers as int64.

    Raises:
        InputError: they are no integers, or do not fit.
    """
    if array.dtype.kind not in "iu" or (array.dtype == np.uint64 and array.size and array.max() >= 1 << 63):
        raise InputError(f"{what} must hold int64 integers, not {array.dtype}", source)
    return np.asarray(array, np.int64)


def require_finite(values: NDArray[np.float64], what: str, source: str) -> None:
    """Raises an InputError naming the first row of `values` (m,) that is NaN or infinite, counted from 1."""
    bad = ~np.isfinite(values)
    if bad.any():
        k = int(np.argmax(bad))
        raise InputError(f"expected a finite number in {what}, row {k + 1}, got {values[k]}", source)
