"""The one place where an exception becomes an exit code and one line on standard error."""

from __future__ import annotations

import re
from enum import IntEnum

from icml.cli import streams
from icml.formats.errors import IcmlError


class ExitCode(IntEnum):
    """The exit codes of every tool."""

    DONE = 0
    FAILED = 1
    """The work itself failed, or a fault in icml."""
    USAGE = 2
    """Bad usage or bad input."""
    MISSING = 3
    """Something outside icml is needed and not here."""
    INTERRUPTED = 130
    """Ctrl-C."""
    CLOSED_PIPE = 141
    """Nobody reads standard output any more; quiet, and with the status of a filter killed by SIGPIPE."""
    TERMINATED = 143
    """SIGTERM, or SIGUSR1 as batch systems send it ahead of the time limit."""


class Terminated(BaseException):
    """SIGTERM or SIGUSR1 arrived; not an `Exception`, so that only clean-up code sees it on its way out."""


class PluginError(IcmlError):
    """An installed plug-in cannot be loaded."""

    exit_code = ExitCode.MISSING


_BAD_INPUT = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)


def report(error: BaseException, program: str, *, debug: bool = False) -> int:
    """Says on standard error what went wrong and returns the exit code.

    Args:
        error: what ended the command.
        program: the command as the user called it: "icml cclust-lb".
        debug: print the traceback first.
    """
    if isinstance(error, BrokenPipeError) and streams.stdout_has_no_reader():
        return ExitCode.CLOSED_PIPE
    if debug:
        import traceback

        streams.write_error_line("".join(traceback.format_exception(error)).rstrip("\n"))
    context = getattr(error, "ctx", None)
    program = getattr(context, "command_path", None) or program
    code, message = _describe(error, program)
    streams.write_error_line(f"{program}: {one_line(message)}")
    return code


def _describe(error: BaseException, program: str) -> tuple[int, str]:
    if _is_usage_error(error):
        return _usage_error(error, program)
    name = type(error).__name__
    match error:
        case IcmlError():
            found = error.exit_code, str(error)
        case KeyboardInterrupt():
            found = ExitCode.INTERRUPTED, "interrupted"
        case Terminated():
            found = ExitCode.TERMINATED, "terminated"
        case MemoryError():
            found = ExitCode.FAILED, _joined("out of memory", str(error))
        case OSError():
            found = ExitCode.USAGE if isinstance(error, _BAD_INPUT) else ExitCode.FAILED, _os_error(error)
        case _:
            fault = _joined("internal error", name, str(error))
            found = ExitCode.FAILED, f"{fault}; run again with --debug for the traceback"
    return found


def _joined(*words: str) -> str:
    return ": ".join(word for word in words if word)


def _os_error(error: OSError) -> str:
    names = " -> ".join(str(name) for name in (error.filename, error.filename2) if name is not None)
    if not names and streams.stdout_fails():
        names = "standard output"
    return _joined(names, error.strerror or str(error) or type(error).__name__)


def _is_usage_error(error: BaseException) -> bool:
    """Click's exceptions, by their shape: typer ships its own copy of click, whose names are private."""
    return hasattr(error, "format_message") and hasattr(error, "exit_code")


def _usage_error(error: BaseException, program: str) -> tuple[int, str]:
    message = str(getattr(error, "format_message")()).strip().rstrip(".")  # noqa: B009 - see _is_usage_error
    message = message.replace(": Value error, ", ": ")  # what pydantic, inside typer, calls every refusal
    code = int(getattr(error, "exit_code"))  # noqa: B009
    hint = f" (try '{program} --help')" if code == ExitCode.USAGE else ""
    return code, message[:1].lower() + message[1:] + hint


def one_line(text: str) -> str:
    """The text with line breaks turned to spaces, and whatever else could drive a terminal to escapes."""
    text = re.sub(r"\s*[\r\n]\s*|\t+", " ", text.strip())
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
