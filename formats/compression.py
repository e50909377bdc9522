"""Undoing compression by content: gzip, bzip2, xz and Zstandard, of any number of members."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from icml.formats.errors import InputError

HEAD_BYTES = 16
"""How much of a stream's beginning `detect` wants to see."""

SUFFIXES = (".gz", ".bz2", ".xz", ".zst", ".zstd")
"""What a compressed file's name may end with; only used to see the suffix before it."""

_CHUNK = 1 << 20


class Reader(Protocol):
    """The one method of a binary file object that is needed here."""

    def read(self, size: int = -1, /) -> bytes: ...


class _Decompressor(Protocol):
    """What the standard library's decompressors and zstandard's have in common."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


@dataclass(frozen=True)
class Codec:
    """One compression format: how a member begins, and how to read one."""

    name: str
    magic: re.Pattern[bytes]
    new: Callable[[], tuple[_Decompressor, type[Exception]]]


def _gzip() -> tuple[_Decompressor, type[Exception]]:
    import zlib

    return zlib.decompressobj(wbits=16 + zlib.MAX_WBITS), zlib.error


def _bzip2() -> tuple[_Decompressor, type[Exception]]:
    import bz2

    return bz2.BZ2Decompressor(), OSError


def _xz() -> tuple[_Decompressor, type[Exception]]:
    import lzma

    return lzma.LZMADecompressor(lzma.FORMAT_XZ), lzma.LZMAError


def _zstd() -> tuple[_Decompressor, type[Exception]]:
    import zstandard

    return zstandard.ZstdDecompressor().decompressobj(), zstandard.ZstdError


_CODECS = (
    Codec("gzip", re.compile(rb"\x1f\x8b"), _gzip),
    # The second part is a block's or the end's magic number, so that text may begin with "BZh1".
    Codec("bzip2", re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"), _bzip2),
    Codec("xz", re.compile(rb"\xfd7zXZ\x00"), _xz),
    # A frame, or a skippable frame such as parallel compressors write.
    Codec("zstd", re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18", re.DOTALL), _zstd),
)


def detect(head: bytes) -> Codec | None:
    """The compression of a stream that begins with `head`, None if it is not compressed."""
    return next((codec for codec in _CODECS if codec.magic.match(head)), None)


def decompress(codec: Codec, head: bytes, stream: Reader, source: str) -> bytearray:
    """Everything in the compressed stream `head` + `stream`.

    Members may follow one another, and zero bytes the last one, as in files from tapes and parallel compressors.

    Raises:
        InputError: the stream is truncated, corrupt, or followed by something else.
    """
    result = bytearray()
    data = _read_member(codec, head, stream, source, result)
    while data := _fill(data, stream):
        if not codec.magic.match(data):
            _require_padding(codec, data, stream, source)
            break
        data = _read_member(codec, data, stream, source, result)
    return result


def _fill(data: bytes, stream: Reader) -> bytes:
    """`data` with as much of the stream as is needed to recognise a member."""
    while len(data) < HEAD_BYTES and (more := stream.read(_CHUNK)):
        data += more
    return data


def _read_member(codec: Codec, data: bytes, stream: Reader, source: str, result: bytearray) -> bytes:
    """Appends one member to `result`; returns the bytes read beyond its end."""
    decompressor, error_type = codec.new()
    while True:
        try:
            result += decompressor.decompress(data)
        except error_type as error:
            raise InputError(f"corrupt {codec.name} stream", source) from error
        if decompressor.eof:
            return decompressor.unused_data
        data = stream.read(_CHUNK)
        if not data:
            raise InputError(f"truncated {codec.name} stream", source)


def _require_padding(codec: Codec, data: bytes, stream: Reader, source: str) -> None:
    while data:
        if data.strip(b"\0"):
            raise InputError(f"something else after the {codec.name} stream", source)
        data = stream.read(_CHUNK)
