"""Arrays in NPY and NPZ files, read without ever unpickling anything."""

from __future__ import annotations

import io
import struct
import tokenize
import zipfile
import zlib
from typing import Any

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


def load_npy(content: Content) -> NDArray[Any]:
    """The array of an NPY file.

    Raises:
        InputError: it is damaged, or holds Python objects.
    """
    return _load(io.BytesIO(content.data), content.name, "NPY file")


def load_npz(content: Content) -> dict[str, NDArray[Any]]:
    """The arrays of an NPZ file by name.

    Raises:
        InputError: it is damaged, holds Python objects, or is another kind of zip archive.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content.data)) as archive:
            members = [name for name in archive.namelist() if name.endswith(".npy")]
            raw = {name.removesuffix(".npy"): io.BytesIO(archive.read(name)) for name in members}
    except _DAMAGE as error:
        raise InputError(f"not a readable NPZ file: {_one_line(error)}", content.name) from error
    if not raw:
        raise InputError("a zip archive without arrays; unpack it first", content.name)
    return {name: _load(file, content.name, f"array '{name}'") for name, file in raw.items()}


def _load(file: io.BytesIO, source: str, what: str) -> NDArray[Any]:
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
