"""The entry point: runs a command line, and whatever happens ends with one of the documented exit codes.

Nothing heavy is imported at the top, so that a Ctrl-C or a closed stream is handled from the first moment on.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from icml.cli import streams
from icml.cli.errors import ExitCode, Terminated, report

if TYPE_CHECKING:
    from typer import Context
    from typer.core import TyperGroup

PROGRAM = "icml"
COMPLETION_VARIABLE = "_ICML_COMPLETE"


def main() -> NoReturn:
    """Runs `sys.argv` and ends the process."""
    streams.open_missing()
    sys.exit(run(sys.argv[1:]))


def run(argv: list[str]) -> int:
    """Runs a command line, says on standard error what went wrong, and returns the exit code."""
    invocation = _Invocation(argv)
    _end_on_signals()
    code = invocation.guard(invocation.execute)
    _leave_signals(code)
    flushed = invocation.guard(_flush)
    if flushed:
        streams.abandon(sys.stdout)
    return code or flushed


def app_command() -> TyperGroup:
    """The group that holds every subcommand."""
    from icml.cli.group import build_group

    return build_group(PROGRAM)


class _Invocation:
    """One command line, and how far it got: the name in an error message depends on that."""

    def __init__(self, argv: list[str]) -> None:
        self.argv = argv
        self.debug = "--debug" in argv[: argv.index("--") if "--" in argv else len(argv)]
        self.context: Context | None = None
        self.failed = False

    @property
    def program(self) -> str:
        tool = self.context.invoked_subcommand if self.context else None
        return f"{PROGRAM} {tool}" if tool else PROGRAM

    def execute(self) -> None:
        from typer import Abort, Exit

        group = app_command()
        if os.environ.get(COMPLETION_VARIABLE):
            from icml.cli.completion import answer

            answer(group, PROGRAM, COMPLETION_VARIABLE)
            return
        try:
            self.context = group.make_context(PROGRAM, list(self.argv))  # type: ignore[assignment]  # its base class
            assert self.context is not None
            with self.context:
                group.invoke(self.context)
        except Exit as end:
            raise SystemExit(end.exit_code) from end
        except Abort as end:
            raise SystemExit("aborted") from end

    def guard(self, action: Callable[[], None]) -> int:
        """Runs the action; returns the exit code it ends with."""
        try:
            action()
        except SystemExit as end:
            return self._code_of(end)
        except BaseException as error:
            if self.failed:  # one line is enough: what still stood to be written is lost for the same reason
                return ExitCode.FAILED
            self.failed = True
            return report(error, self.program, debug=self.debug)
        return ExitCode.DONE

    def _code_of(self, end: SystemExit) -> int:
        if end.code is None or isinstance(end.code, int):
            return int(end.code or 0)
        streams.write_error_line(f"{self.program}: {end.code}")
        return ExitCode.FAILED


def _end_on_signals() -> None:
    """Makes SIGTERM and SIGUSR1 unwind the command, so that temporary files go away."""
    for signum in (signal.SIGTERM, signal.SIGUSR1):
        if signal.getsignal(signum) is signal.SIG_DFL:
            signal.signal(signum, _terminate)


def _terminate(signum: int, frame: FrameType | None) -> NoReturn:
    raise Terminated(signal.Signals(signum).name)


def _leave_signals(code: int) -> None:
    """From here on a signal ends the process on the spot, except for more of those that have ended the command."""
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
        if callable(signal.getsignal(signum)):
            again = code == ExitCode.TERMINATED and signum != signal.SIGINT
            signal.signal(signum, signal.SIG_IGN if again else signal.SIG_DFL)


def _flush() -> None:
    try:
        sys.stdout.flush()
    except OSError as error:
        raise OSError(error.errno, error.strerror, "standard output") from error
