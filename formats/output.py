"""Output that appears whole or not at all: files by way of a temporary one, JSON, and lines of JSON.

A file is written beside its destination, synced, and renamed over it, so that a crash, a full disk or a second process
writing the same file never leaves a part of one. What cannot be renamed over is written directly: standard output,
/dev/stdout, pipes and devices.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import math
import os
import re
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Literal, Self, overload

from icml.formats.errors import InputError, WorkError

Destination = str | Path | None
"""A path, or "-" or None for standard output."""

_STDOUT = "stdout"
_DISK_TROUBLE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
_DESCRIPTOR = re.compile(r"/dev/(?P<name>stdin|stdout|stderr)|(?:/dev|/proc/self)/fd/(?P<number>\d+)")
_NOT_BINARY = "binary output is not for a terminal; redirect it or name a file with -o"


class _Target(io.RawIOBase):
    """An open file descriptor whose failing writes are WorkErrors; a closed pipe stays a BrokenPipeError.

    It has no fileno(), so that nobody (numpy's tofile, for one) writes past it.
    """

    def __init__(self, descriptor: int, name: str, *, seekable: bool = False) -> None:
        self._descriptor = descriptor
        self.name = name
        self._seekable = seekable
        self.discarding = False  # after a failure, what is still buffered must go nowhere

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._seekable

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        if not self._seekable:
            raise io.UnsupportedOperation("seek")
        return os.lseek(self._descriptor, offset, whence)

    def write(self, data: Any, /) -> int:
        if self.discarding:
            return memoryview(data).nbytes
        try:
            return os.write(self._descriptor, data)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise _write_error(error, self.name) from error

    def sync(self) -> None:
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            if error.errno != errno.EINVAL:  # a file system that cannot sync
                raise _write_error(error, self.name) from error

    def close(self) -> None:
        if not self.closed:
            super().close()
            os.close(self._descriptor)


def _write_error(error: OSError, name: str) -> WorkError:
    return WorkError(f"{name}: {error.strerror or error}")


def _open_error(error: OSError, name: str) -> InputError | WorkError:
    if error.errno in _DISK_TROUBLE:
        return _write_error(error, name)
    return InputError(error.strerror or str(error), name)


@overload
def atomic_output(
    path: Destination, mode: Literal["w"] = "w"
) -> contextlib.AbstractContextManager[IO[str]]: ...
@overload
def atomic_output(path: Destination, mode: Literal["wb"]) -> contextlib.AbstractContextManager[IO[bytes]]: ...
def atomic_output(
    path: Destination, mode: Literal["w", "wb"] = "w"
) -> contextlib.AbstractContextManager[IO[str]] | contextlib.AbstractContextManager[IO[bytes]]:
    """A file to write, that takes its place under `path` only when the `with` block ends without an exception.

    Until then what was there before stays as it is, and after an exception too. A new file has the permissions that
    the umask gives, one that replaces another the permissions of that. A symbolic link stays one: its target is
    replaced. Text is UTF-8 with line feeds.

    Args:
        path: where to write; "-" or None is standard output.
        mode: "w" for text, "wb" for bytes.

    Raises:
        InputError: the destination cannot be written to, with the operating system's reason; or it is a terminal and
            the mode binary.
        WorkError: writing failed, e.g. on a full disk.
        BrokenPipeError: whoever read the output has closed it.
    """
    return _output(path, mode)


@contextlib.contextmanager
def _output(path: Destination, mode: str) -> Iterator[Any]:
    if path is None or path == "-":
        if sys.stdout is not sys.__stdout__:
            yield _replaced_stdout(mode)
        else:
            with _buffered(_open_stdout(), mode) as file:
                yield file
        return
    name = os.fspath(path)
    if (special := _open_special(name)) is not None:
        with _buffered(special, mode) as file:
            yield file
        return
    with _Replacement(name) as replacement, _buffered(replacement.target, mode) as file:
        yield file
        file.flush()
        replacement.commit()


def _replaced_stdout(mode: str) -> IO[Any]:
    """The object that someone put in the place of sys.stdout."""
    if mode == "w":
        return sys.stdout
    buffer: IO[bytes] | None = getattr(sys.stdout, "buffer", None)
    if buffer is None or sys.stdout.isatty():
        raise InputError(_NOT_BINARY, _STDOUT)
    return buffer


@contextlib.contextmanager
def _buffered(target: _Target, mode: str) -> Iterator[Any]:
    """A buffered text or binary file over `target`; closes both."""
    binary = io.BufferedWriter(target, 1 << 18)
    file: Any = binary
    if mode == "w":
        file = io.TextIOWrapper(binary, "utf-8", errors="backslashreplace", newline="\n")
    try:
        if mode == "wb" and target.isatty():
            raise InputError(_NOT_BINARY, target.name)
        yield file
        file.flush()
    except BaseException:
        target.discarding = True
        raise
    finally:
        file.close()


def _open_stdout() -> _Target:
    sys.stdout.flush()
    return _Target(os.dup(sys.stdout.fileno()), _STDOUT)


def _open_special(name: str) -> _Target | None:
    """Opens `name` if it is something to write into rather than to replace; else returns None.

    A path that means a descriptor of this process, such as /dev/stdout, is that descriptor, even where it leads to an
    ordinary file: opening the file anew would overwrite what others have appended to it.
    """
    try:
        found = _DESCRIPTOR.fullmatch(name)
        if found:
            if found["name"] == "stdout" and sys.stdout is not None:
                sys.stdout.flush()
            number = {"stdin": 0, "stdout": 1, "stderr": 2}.get(found["name"]) or int(found["number"] or 0)
            return _Target(os.dup(number), name)
        mode = os.stat(name).st_mode
        if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
            return None
        return _Target(os.open(name, os.O_WRONLY | os.O_CLOEXEC), name)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _open_error(error, name) from error
    except ValueError as error:  # a NUL in the path
        raise InputError(str(error), name) from error


class _Replacement:
    """A temporary file beside `name`, that commit() renames over it and leaving without that removes."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._final = os.path.realpath(name)
        self._folder = os.path.dirname(self._final)
        self._temporary = os.path.join(self._folder, f".icml-{os.urandom(8).hex()}.tmp")
        self._committed = False
        self.target = self._create()

    def __enter__(self) -> Self:
        return self

    def _create(self) -> _Target:
        """Opens the temporary file, with the permissions that the final one is to have."""
        try:
            old = self._permissions()
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            descriptor = os.open(self._temporary, flags, 0o666)
        except OSError as error:
            raise _open_error(error, self._name) from error
        if old is not None:
            with contextlib.suppress(OSError):  # a file system without permissions
                os.fchmod(descriptor, old)
        return _Target(descriptor, self._name, seekable=True)

    def _permissions(self) -> int | None:
        """Those of the file that is there, None without one."""
        if not self._name:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        if self._name.endswith(os.sep) or os.path.isdir(self._final):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        try:
            mode = os.stat(self._final).st_mode
        except FileNotFoundError:
            return None
        if not os.access(
            self._final, os.W_OK
        ):  # a file made read-only is not to be overwritten by a rename either
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return stat.S_IMODE(mode) & 0o777

    def publish(self) -> None:
        """Gives the file its name as it is now; what is written later follows."""
        try:
            os.replace(self._temporary, self._final)
        except OSError as error:
            raise _open_error(error, self._name) from error
        self._committed = True

    def commit(self) -> None:
        """Gives the file its name once its content is on the disk."""
        self.target.sync()
        self.publish()
        with contextlib.suppress(
            OSError
        ):  # a folder that cannot be opened or synced: the rename holds all the same
            descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def __exit__(self, *_: object) -> None:
        if not self._committed:
            with contextlib.suppress(OSError):
                os.unlink(self._temporary)


def write_json(dest: Destination, obj: object, *, indent: int | None = None) -> None:
    """Writes one JSON value and a line feed.

    Keys keep their order; NaN and infinities become null; numpy scalars and arrays, tuples and other sequences are
    taken for what they hold.

    Args:
        dest: a path, or "-" or None for standard output; written whole or not at all.
        obj: mappings with string keys, sequences, strings, numbers, truth values, None.
        indent: spaces a level; by default all is on one line.

    Raises:
        InputError, WorkError, BrokenPipeError: as atomic_output.
        TypeError: `obj` holds something else.
    """
    text = json.dumps(_plain(obj), ensure_ascii=False, allow_nan=False, indent=indent)
    with atomic_output(dest) as file:
        file.write(text + "\n")


class JsonLines:
    """A log of one JSON value a line, each there to be read as soon as it is written.

    A new file takes the place of an old one at once, so that processes that log to the same path never mix lines; it
    then grows line by line, and an interrupted run leaves whole lines. Use it in a `with` block, or close() it.

    Args:
        dest: a path, or "-" or None for standard output.

    Raises:
        InputError, WorkError, BrokenPipeError: as atomic_output, here and in write().
    """

    def __init__(self, dest: Destination) -> None:
        self._other: IO[str] | None = None
        if (dest is None or dest == "-") and sys.stdout is not sys.__stdout__:
            self._other = sys.stdout
        else:
            self._target = self._open(dest)

    @staticmethod
    def _open(dest: Destination) -> _Target:
        if dest is None or dest == "-":
            return _open_stdout()
        name = os.fspath(dest)
        if (special := _open_special(name)) is not None:
            return special
        with _Replacement(name) as replacement:
            replacement.publish()
            return replacement.target

    def write(self, obj: object) -> None:
        """Appends `obj`, written as write_json does, as one line.

        Raises:
            TypeError: `obj` holds what JSON cannot.
        """
        line = json.dumps(_plain(obj), ensure_ascii=False, allow_nan=False) + "\n"
        if self._other is not None:
            self._other.write(line)
            self._other.flush()
            return
        rest = line.encode("utf-8", "backslashreplace")
        while rest:
            rest = rest[self._target.write(rest) :]

    def close(self) -> None:
        """Closes the file; standard output stays open."""
        if self._other is None:
            self._target.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _plain(obj: object) -> object:
    """`obj` made of what the json module writes."""
    if obj is None or isinstance(obj, str | bool | int):
        return obj
    if isinstance(obj, float):
        return float(obj) if math.isfinite(obj) else None
    if isinstance(obj, Mapping):
        return {_key(key): _plain(value) for key, value in obj.items()}
    if hasattr(obj, "dtype") and hasattr(obj, "tolist"):  # numpy, which need not be imported for that
        return _plain(obj.tolist())
    if isinstance(obj, Sequence) and not isinstance(obj, bytes | bytearray | memoryview):
        return [_plain(value) for value in obj]
    raise TypeError(f"JSON has no way to hold a {type(obj).__name__}")


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise TypeError(f"JSON keys are strings, not {type(key).__name__}")
    return key
