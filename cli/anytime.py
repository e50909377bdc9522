"""The anytime contract: a long run can be stopped at any moment, and what it has found by then is its result.

Inside `with Anytime(...) as run`, SIGINT, SIGTERM and SIGUSR1 do not end the command: they make
`run.should_stop()` true, as the time limit does. The command computes, writes its best so far and ends with
`run.finish()`, all inside the block:

    with Anytime(time_limit=time_limit, trace=trace) as run:
        result = method(edges, should_stop=run.should_stop, on_progress=run.record)
        write_json(output, result)
        run.finish()

A batch system may send SIGTERM twice (to the launcher, which passes it on, and to the process itself): inside
the block that does no harm. A second Ctrl-C comes from somebody who does not want to wait, and raises
KeyboardInterrupt at once.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self

from icml.cli.errors import ExitCode, one_line
from icml.cli.streams import write_error_line
from icml.formats.errors import IcmlError

if TYPE_CHECKING:
    from icml.formats.output import JsonLines

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)


class Anytime:
    """One run under the contract; use it as a context manager.

    Args:
        time_limit: seconds from entering the block on; None for no limit.
        trace: the file that gets a line of JSON for every `record`; it is emptied at the start.
    """

    def __init__(
        self, *, time_limit: float | None = None, trace: str | os.PathLike[str] | None = None
    ) -> None:
        self.time_limit = time_limit
        self.interrupted: signal.Signals | None = None
        """The first signal that asked for an end."""
        self._trace_path = None if trace is None else os.fspath(trace)
        self._trace: JsonLines | None = None
        self._start = time.monotonic()
        self._interrupts = 0
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if self._trace_path is not None:
            from icml.formats.output import JsonLines

            self._trace = JsonLines(self._trace_path)
        self._start = time.monotonic()
        if threading.current_thread() is threading.main_thread():
            for signum in SIGNALS:
                if signal.getsignal(signum) is not signal.SIG_IGN:  # as a script has it for `command &`
                    self._previous[signum] = signal.signal(signum, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for signum, handler in self._previous.items():
            signal.signal(signum, handler)
        self._previous.clear()
        self._close_trace()

    def _close_trace(self) -> None:
        if self._trace is not None:
            self._trace.close()
            self._trace = None

    def elapsed(self) -> float:
        """Seconds since the block was entered."""
        return time.monotonic() - self._start

    def remaining(self) -> float | None:
        """Seconds until the time limit, 0 once it has passed; None without one."""
        return None if self.time_limit is None else max(0.0, self.time_limit - self.elapsed())

    def should_stop(self) -> bool:
        """Whether to end now with the best so far; for the main thread, which sees the signals."""
        return self.interrupted is not None or self.remaining() == 0.0

    def record(self, progress: Mapping[str, Any] | None = None, /, **figures: Any) -> None:
        """Appends `{"t": seconds, ...}` to the trace, from a mapping, from keywords, or from both.

        A trace that cannot be written is given up with a warning: hours of work are worth more than it.
        """
        if self._trace is None:
            return
        try:
            self._trace.write({"t": round(self.elapsed(), 6), **(progress or {}), **figures})
        except (OSError, IcmlError) as error:
            write_error_line(f"icml: warning: {one_line(str(error))}; the trace ends here")
            self._close_trace()

    def exit_code(self) -> int:
        """0 after an end of its own or by the time limit, 130 after Ctrl-C, 143 after SIGTERM or SIGUSR1."""
        if self.interrupted is None:
            return ExitCode.DONE
        return ExitCode.INTERRUPTED if self.interrupted == signal.SIGINT else ExitCode.TERMINATED

    def finish(self, code: int = ExitCode.DONE) -> NoReturn:
        """Ends the command, once its result is written.

        Args:
            code: the exit code of a run that no signal cut short; the signal's code takes precedence.
        """
        sys.stdout.flush()  # still inside the block, where a signal that comes again does no harm
        raise SystemExit(int(self.exit_code() or code))

    def _on_signal(self, signum: int, frame: FrameType | None) -> None:
        if signum == signal.SIGINT:
            self._interrupts += 1
            if self._interrupts > 1:
                raise KeyboardInterrupt
        if self.interrupted is None:
            self.interrupted = signal.Signals(signum)
