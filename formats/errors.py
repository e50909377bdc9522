"""The errors a tool may raise on purpose; each knows the exit code the command line gives it."""

from __future__ import annotations


class IcmlError(Exception):
    """Base of every error meant for the user; its text is one line."""

    exit_code = 1


class WorkError(IcmlError):
    """The work itself failed: it did not converge, or a check did not hold."""


class InputError(IcmlError, ValueError):
    """Bad usage or bad input; a `ValueError` to a caller in Python.

    Args:
        message: what is wrong, without a trailing full stop.
        source: the file it is in, as the user named it.
        line: the 1-based line of that file.
    """

    exit_code = 2

    def __init__(self, message: str, source: str | None = None, line: int | None = None) -> None:
        self.message = message
        self.source = source
        self.line = line
        place = "" if source is None else f"{source}: " if line is None else f"{source}:{line}: "
        super().__init__(place + message)


class MissingError(IcmlError):
    """Something outside icml is needed and not here.

    Args:
        what: what needs it and what is missing, e.g. "reading Parquet needs pyarrow".
        how: the command or step that gets it.
    """

    exit_code = 3

    def __init__(self, what: str, how: str) -> None:
        self.what = what
        self.how = how
        super().__init__(f"{what}; get it with: {how}")
