"""Where a stream comes from: lines as they arrive, or a table in a binary file."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO, cast

from icml.formats import compression
from icml.formats.errors import InputError
from icml.formats.source import Content, read_source

BINARY = {b"\x93NUMPY": "npy", b"PAR1": "parquet", b"PK\x03\x04": "npz"}
_CHUNK = 1 << 18
_LONGEST_LINE = 1 << 24
_PATIENCE = 0.2  # seconds between looks at whether to stop, while nothing arrives


@dataclass
class LineStream:
    """Text that may still be growing.

    Attributes:
        name: what error messages call it.
        head: its beginning, at least one line with data if there is one.
    """

    name: str
    head: bytes
    _rest: Iterator[bytes]

    def chunks(self, skip: int) -> Iterator[bytes]:
        """All bytes but the first `skip`, as they arrive; an empty chunk when nothing does for a while."""
        if len(self.head) > skip:
            yield self.head[skip:]
        yield from self._rest


@contextmanager
def open_stream(path: str, should_stop: Callable[[], bool]) -> Iterator[LineStream | Content]:
    """Opens a path, or "-" for standard input: lines, or the whole of a binary file.

    Compressed input is read as a whole first. While nothing arrives through a pipe, `should_stop` is asked now and
    then.

    Raises:
        InputError: it cannot be read.
    """
    name = "stdin" if path == "-" else path
    try:
        stream: BinaryIO = (
            sys.stdin.buffer if path == "-" else open(path, "rb", buffering=0)  # noqa: SIM115
        )
    except OSError as error:
        raise InputError(error.strerror or str(error), name) from error
    try:
        pieces = _pieces(stream, name, should_stop)
        head = b""
        while not _is_recognisable(head) and (piece := next(pieces, None)) is not None:
            head += piece
        binary = any(head.startswith(magic) for magic in BINARY)
        if binary or compression.detect(head[: compression.HEAD_BYTES]) is not None:
            content = read_source(cast(BinaryIO, _Joined(head, pieces, name)))  # read() is all it needs
            if not binary and not any(content.begins_with(magic) for magic in BINARY):
                yield LineStream(name, bytes(content.data), iter(()))
            else:
                yield content
            return
        yield LineStream(name, _through_data_line(head, pieces, name).removeprefix(b"\xef\xbb\xbf"), pieces)
    finally:
        if path != "-":
            stream.close()


def whole_lines(stream: LineStream) -> Content:
    """The head without a line that has not ended yet, for finding out the layout."""
    end = stream.head.rfind(b"\n") + 1
    return Content(bytearray(stream.head[:end] or stream.head), stream.name, "")


def _is_recognisable(head: bytes) -> bool:
    """Whether text, compression and binary formats can be told apart; of text, a line of plain characters is enough."""
    return len(head) >= compression.HEAD_BYTES or (head.isascii() and _has_data_line(head))


def _has_data_line(head: bytes) -> bool:
    lines = head[: head.rfind(b"\n") + 1].splitlines()
    return any(line.strip() and not line.lstrip().startswith((b"#", b"%")) for line in lines)


def _through_data_line(head: bytes, pieces: Iterator[bytes], name: str) -> bytes:
    """Reads on until there is a line of data that has ended, or nothing more comes."""
    text = bytearray(head)
    seen = 0  # before here are whole lines without data
    while True:
        end = text.rfind(b"\n", seen) + 1
        if _has_data_line(bytes(text[seen:end])):
            break
        seen = max(seen, end)
        if len(text) - seen > _LONGEST_LINE:
            raise InputError(f"a line is longer than {_LONGEST_LINE >> 20} MiB; is this text?", name)
        if (piece := next(pieces, None)) is None:
            break
        text += piece
    return bytes(text)


def _pieces(stream: BinaryIO, name: str, should_stop: Callable[[], bool]) -> Iterator[bytes]:
    """What arrives, piece by piece; an empty piece when nothing does, the end when it is time to stop."""
    descriptor = stream.fileno()
    while not should_stop():
        try:
            if not select.select([descriptor], [], [], _PATIENCE)[0]:
                yield b""
                continue
            piece = os.read(descriptor, _CHUNK)
        except OSError as error:
            raise InputError(error.strerror or str(error), name) from error
        if not piece:
            return
        yield piece


class _Joined:
    """A beginning that was read already and the pieces after it, as a file object."""

    def __init__(self, head: bytes, rest: Iterator[bytes], name: str) -> None:
        self._held = head
        self._rest = rest
        self.name = name

    def read(self, size: int = -1, /) -> bytes:
        while (size < 0 or len(self._held) < size) and (piece := next(self._rest, None)) is not None:
            self._held += piece
        end = len(self._held) if size < 0 else size
        taken, self._held = self._held[:end], self._held[end:]
        return taken
