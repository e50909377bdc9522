"""The standard streams at their worst: closed by the caller, or breaking while the last bytes go out."""

from __future__ import annotations

import os
import select
import sys
from typing import TextIO


def open_missing() -> None:
    """Replaces each stream that the caller closed (`>&-`) by one whose use fails with "Bad file descriptor".

    Otherwise there is no stream object to use, and the first data file opened becomes descriptor 0, 1 or 2. A
    closed standard error swallows what it is told instead: messages for people are not worth failing for.
    """
    if sys.stdin is None:
        _occupy(0, os.O_WRONLY)
        sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    if sys.stdout is None:
        _occupy(1, os.O_RDONLY)
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    if sys.stderr is None:
        _occupy(2, os.O_WRONLY)
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)


def _occupy(descriptor: int, flags: int) -> None:
    opened = os.open(os.devnull, flags)
    if opened != descriptor:
        os.dup2(opened, descriptor)
        os.close(opened)
    os.set_inheritable(descriptor, True)


def stdout_has_no_reader() -> bool:
    """Whether standard output is a pipe or socket that nobody reads any more."""
    try:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), select.POLLOUT)
        return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
    except (OSError, ValueError):
        return False


def stdout_fails() -> bool:
    """Whether standard output takes nothing, or not what it still holds."""
    try:
        os.write(sys.stdout.fileno(), b"")
        sys.stdout.flush()
    except (OSError, ValueError):
        return True
    return False


def abandon(stream: TextIO) -> None:
    """Sends what a broken stream still holds nowhere, so that the interpreter's last flush succeeds."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
    except (OSError, ValueError):
        pass


def write_error_line(line: str) -> None:
    """Writes a line for people; a standard error that cannot take it is no reason to fail."""
    try:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        abandon(sys.stderr)
