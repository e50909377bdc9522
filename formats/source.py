"""Where bytes come from: a path, standard input or a binary file object, with compression undone."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from icml.formats import compression
from icml.formats.compression import Reader
from icml.formats.errors import InputError

Source = str | Path | BinaryIO
"""A path, "-" for standard input, or an open binary file."""


@dataclass(frozen=True)
class Content:
    """A whole input.

    Attributes:
        data: its bytes, decompressed, without a UTF-8 byte-order mark.
        name: what error messages call it: the path as the user gave it, or "stdin".
        suffix: the name's last suffix in lower case, not counting one like ".gz"; "" without one.
    """

    data: bytearray
    name: str
    suffix: str

    def begins_with(self, magic: bytes) -> bool:
        return self.data[: len(magic)] == magic


def read_source(source: Source) -> Content:
    """Reads all of `source` into memory.

    Raises:
        InputError: it cannot be opened or read, with the operating system's reason; it is compressed and truncated or
            corrupt; or it is a kind of archive.
    """
    name = source_name(source)
    with _located(name), _opened(source) as stream:
        data = _read_all(stream, name)
    if data[257:262] == b"ustar":
        raise InputError("this is a tar archive; unpack it first", name)
    if data[:3] == b"\xef\xbb\xbf":
        del data[:3]
    return Content(data, name, _suffix(name))


def source_name(source: Source) -> str:
    """What error messages call `source`."""
    if isinstance(source, str | os.PathLike):
        return "stdin" if source == "-" else os.fspath(source)
    name = getattr(source, "name", None)
    if name == "<stdin>":
        return "stdin"
    return name if isinstance(name, str) else "input"


@contextmanager
def _located(name: str) -> Iterator[None]:
    """Turns the operating system's errors into InputErrors about `name`."""
    try:
        yield
    except InputError:
        raise
    except OSError as error:
        raise InputError(error.strerror or str(error), name) from error
    except ValueError as error:  # a NUL in the path, or a file object that is closed
        raise InputError(str(error), name) from error


@contextmanager
def _opened(source: Source) -> Iterator[Reader]:
    if isinstance(source, str | os.PathLike):
        if source == "-":
            yield sys.stdin.buffer
        else:
            with open(source, "rb", buffering=0) as stream:
                yield stream
    else:
        yield source


class _Pieces:
    """Reads with one system call at a time: a full read goes on in C, deaf to signals, until a slow pipe ends."""

    def __init__(self, stream: Reader) -> None:
        self.read = getattr(stream, "read1", stream.read)


def _read_all(stream: Reader, name: str) -> bytearray:
    head = bytearray()
    stream = _Pieces(stream)
    while len(head) < compression.HEAD_BYTES:
        piece = stream.read(compression.HEAD_BYTES - len(head))
        if not isinstance(piece, bytes | bytearray | memoryview):
            raise TypeError("a source must be a path, '-' or a file object opened in binary mode")
        if not piece:
            break
        head += piece
    codec = compression.detect(bytes(head))
    if codec is not None:
        return compression.decompress(codec, bytes(head), stream, name)
    while piece := stream.read(1 << 24):
        head += piece
    return head


def _suffix(name: str) -> str:
    path = Path(name.lower())
    if path.suffix in compression.SUFFIXES:
        path = path.with_suffix("")
    return path.suffix
