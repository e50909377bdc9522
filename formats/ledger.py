"""A ledger: a text file that only grows, written by many processes at once and safe against any of them dying.

A line that `append` has returned from is on the disk and stays there. Writers take turns by a lock on the file
itself (flock(2), which NFS and Lustre pass on to the server), so nothing beside the file is needed. A process
killed in the middle of an append leaves a last line without its line feed; the next writer turns that into a
comment, or, if the line is complete but for the line feed (as an editor may leave it), ends it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from icml.formats.errors import InputError, WorkError

TORN = "# torn: "
"""What a line that was not written to its end begins with once repaired."""
_POLL_SECONDS = 0.02


class Ledger:
    """A ledger that exists.

    Args:
        path: the file.
        complete: whether a last line without a line feed is nevertheless whole; by default none is.
        timeout: seconds to wait for other writers.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        complete: Callable[[str], bool] | None = None,
        timeout: float = 30.0,
    ) -> None:
        self.path = Path(path)
        self._name = os.fspath(path)
        self._complete = complete or (lambda line: False)
        self._timeout = timeout

    @classmethod
    def create(cls, path: str | os.PathLike[str], lines: Sequence[str]) -> None:
        """Makes a new ledger that begins with `lines`: whole or not at all, and never in place of a file that is there.

        Raises:
            InputError: the file exists, or cannot be made.
            WorkError: writing failed, e.g. on a full disk.
        """
        target = Path(path)
        temporary = target.parent / f".icml-{os.urandom(8).hex()}.tmp"
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise InputError(error.strerror or str(error), os.fspath(path)) from error
        try:
            try:
                _write_all(descriptor, _encode(lines))
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            _link(temporary, target)
            _sync_folder(target.parent)
        except FileExistsError as error:
            raise InputError("is there already", os.fspath(path)) from error
        except OSError as error:
            raise WorkError(f"{os.fspath(path)}: {error.strerror or error}") from error
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)

    def read(self) -> list[str]:
        """The whole lines as they are now, without line feeds; waits for nobody."""
        return self._split(self._content())[0]

    @contextlib.contextmanager
    def locked(self) -> Iterator[LockedLedger]:
        """Keeps other writers out while the block runs.

        Raises:
            WorkError: others kept it locked for longer than the timeout.
        """
        descriptor = self._open(os.O_RDWR)
        try:
            self._lock(descriptor)
            self._repair(descriptor)
            yield LockedLedger(self, descriptor)
        finally:
            os.close(descriptor)

    def append(self, lines: Sequence[str]) -> None:
        """Adds lines at the end; when this returns they are on the disk."""
        with self.locked() as ledger:
            ledger.append(lines)

    def _open(self, flags: int) -> int:
        try:
            return os.open(self.path, flags | os.O_CLOEXEC)
        except OSError as error:
            raise InputError(error.strerror or str(error), self._name) from error

    def _content(self) -> bytes:
        descriptor = self._open(os.O_RDONLY)
        try:
            return _read_all(descriptor)
        finally:
            os.close(descriptor)

    def _split(self, content: bytes) -> tuple[list[str], bytes]:
        """The whole lines, and the bytes of a torn last one."""
        head, _, last = content.rpartition(b"\n")
        text = head.decode("utf-8", "replace") if head else ""
        lines = [line.removesuffix("\r") for line in text.split("\n")] if content.count(b"\n") else []
        if last and self._is_whole(last):
            lines.append(last.decode())
            last = b""
        return lines, last

    def _is_whole(self, last: bytes) -> bool:
        try:
            return self._complete(last.decode())
        except UnicodeDecodeError:
            return False

    def _lock(self, descriptor: int) -> None:
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except OSError as error:
                if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                    raise WorkError(f"{self._name}: cannot lock: {error.strerror or error}") from error
            if time.monotonic() >= deadline:
                raise WorkError(f"{self._name}: another process has kept it locked for {self._timeout:g} s")
            time.sleep(_POLL_SECONDS)

    def _repair(self, descriptor: int) -> None:
        content = _read_all(descriptor)
        _, _, last = content.rpartition(b"\n")
        if not last:
            return
        if self._is_whole(last):
            os.lseek(descriptor, 0, os.SEEK_END)
            self._write(descriptor, b"\n")
            return
        # One write from where the line begins: wherever this one is cut short in turn, a comment is what is left.
        os.lseek(descriptor, len(content) - len(last), os.SEEK_SET)
        self._write(descriptor, TORN.encode() + last + b"\n")

    def _write(self, descriptor: int, data: bytes) -> None:
        try:
            _write_all(descriptor, data)
            os.fsync(descriptor)
        except OSError as error:
            raise WorkError(f"{self._name}: {error.strerror or error}") from error


class LockedLedger:
    """A ledger whose lock this process holds; made by `Ledger.locked`."""

    def __init__(self, ledger: Ledger, descriptor: int) -> None:
        self._ledger = ledger
        self._descriptor = descriptor

    def read(self) -> list[str]:
        """The lines, none of them torn."""
        return self._ledger._split(_read_all(self._descriptor))[0]

    def append(self, lines: Sequence[str]) -> None:
        """Adds lines at the end; when this returns they are on the disk. After a failure the file is as it was."""
        if not lines:
            return
        end = os.lseek(self._descriptor, 0, os.SEEK_END)
        try:
            self._ledger._write(self._descriptor, _encode(lines))
        except WorkError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, end)
            raise


def _encode(lines: Sequence[str]) -> bytes:
    if any("\n" in line or "\r" in line for line in lines):
        raise ValueError("a line of a ledger holds no line break")
    return "".join(line + "\n" for line in lines).encode()


def _read_all(descriptor: int) -> bytes:
    size = os.fstat(descriptor).st_size
    parts = []
    offset = 0
    while offset < size:
        part = os.pread(descriptor, size - offset, offset)
        if not part:
            break
        parts.append(part)
        offset += len(part)
    return b"".join(parts)


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _link(temporary: Path, target: Path) -> None:
    """Gives the file its name unless the name is taken."""
    try:
        os.link(temporary, target)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK):
            raise
        # A file system without hard links: claim the name, then put the file there.
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
        os.replace(temporary, target)


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # a folder that cannot be opened or synced
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
