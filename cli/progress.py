"""What a tool says to people: notes, warnings, a progress line on standard error; figures in aligned tables.

Data goes to standard output and past this module, except for a table that is itself the result.
"""

from __future__ import annotations

import numbers
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TextIO

from icml.cli.errors import one_line
from icml.cli.streams import write_error_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

SECONDS_BETWEEN_LINES = 5.0
"""How often progress is written where the line cannot be rewritten in place: to a log file, say."""

Cell = str | int | float | None


class ProgressLine(Protocol):
    """A line that shows how far the work is."""

    def update(self, done: float | None = None, total: float | None = None, text: str | None = None) -> None:
        """Shows how much of the work is done, and how much there is; what is left out stays as it was."""


class Reporter:
    """Speaks on standard error for one command.

    Args:
        tool: the name of the tool, which warnings begin with.
        quiet: keep notes and summaries back (`-q`).
        verbose: show details too (`-v`).
        progress: show progress; None: if standard error is a terminal.
    """

    def __init__(
        self, tool: str, *, quiet: bool = False, verbose: bool = False, progress: bool | None = None
    ) -> None:
        self.tool = tool
        self.quiet = quiet
        self.verbose = verbose and not quiet
        self.shows_progress = progress if progress is not None else sys.stderr.isatty() and not quiet
        self._console: Console | None = None

    def say(self, text: str) -> None:
        """A note."""
        if not self.quiet:
            self._write(text)

    def detail(self, text: str) -> None:
        """A note for those who asked for more."""
        if self.verbose:
            self._write(text)

    def warn(self, text: str) -> None:
        """A warning: one line, whatever the options."""
        self._write(f"icml {self.tool}: warning: {one_line(text)}")

    def summary(self, rows: Sequence[tuple[str, Cell]]) -> None:
        """Names and values in two columns, as a note."""
        width = max((len(name) for name, _ in rows), default=0)
        for name, value in rows:
            self.say(f"{name:<{width}}  {_text(value)}".rstrip())

    @contextmanager
    def progress(self, text: str, total: float | None = None) -> Iterator[ProgressLine]:
        """Shows a progress line while the block runs.

        Args:
            text: what is being done.
            total: how much work there is, in any unit; None if nobody knows.
        """
        if not self.shows_progress:
            yield _NoProgress()
        elif not sys.stderr.isatty():
            yield _ProgressLog(self, text, total)
        else:
            with _terminal_progress() as bars:
                self._console = bars.console
                try:
                    yield _ProgressBar(bars, text, total)
                finally:
                    self._console = None

    def _write(self, text: str) -> None:
        if self._console is None:
            write_error_line(text)
        else:  # above the progress line
            self._console.print(text, markup=False, highlight=False, emoji=False, soft_wrap=True)


class _NoProgress:
    def update(self, done: float | None = None, total: float | None = None, text: str | None = None) -> None:
        pass


class _ProgressLog:
    """Progress where lines stay: a new one now and then."""

    def __init__(self, reporter: Reporter, text: str, total: float | None) -> None:
        self._reporter = reporter
        self._text = text
        self._total = total
        self._done = 0.0
        self._next = time.monotonic()

    def update(self, done: float | None = None, total: float | None = None, text: str | None = None) -> None:
        self._done = self._done if done is None else done
        self._total = self._total if total is None else total
        self._text = self._text if text is None else text
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + SECONDS_BETWEEN_LINES
            share = f" {100 * min(1.0, self._done / self._total):.0f}%" if self._total else ""
            self._reporter._write(f"icml {self._reporter.tool}: {self._text}{share}")


class _ProgressBar:
    """Progress on a terminal."""

    def __init__(self, bars: Progress, text: str, total: float | None) -> None:
        self._bars = bars
        self._task: TaskID = bars.add_task(text, total=total)

    def update(self, done: float | None = None, total: float | None = None, text: str | None = None) -> None:
        self._bars.update(self._task, completed=done, total=total, description=text)


def _terminal_progress() -> Progress:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        SpinnerColumn,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
    )

    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,  # else what is written to standard output would land on standard error
        redirect_stderr=False,
    )


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[Cell]], *, title: str = "", file: TextIO | None = None
) -> None:
    """Writes a table for people: plain aligned text, drawn and coloured on a terminal.

    Args:
        columns: the headings.
        rows: the cells; a column of nothing but numbers is set flush right.
        title: a line above the table.
        file: standard output if None.
    """
    file = sys.stdout if file is None else file
    right = [all(_is_number(row[i]) for row in rows) and bool(rows) for i in range(len(columns))]
    cells = [[_text(cell) for cell in row] for row in rows]
    if file.isatty():
        _draw_table(columns, cells, right, title, file)
    else:
        file.write(_plain_table(columns, cells, right, title))


def _plain_table(columns: Sequence[str], rows: list[list[str]], right: list[bool], title: str) -> str:
    lines = [list(columns), *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    text = [title] if title else []
    for line in lines:
        padded = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(line, widths, right, strict=True)]
        text.append("  ".join(padded).rstrip())
    return "\n".join(text) + "\n"


def _draw_table(
    columns: Sequence[str], rows: list[list[str]], right: list[bool], title: str, file: TextIO
) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=box.SIMPLE_HEAD, title=Text(title) if title else None, title_justify="left", pad_edge=False
    )
    for column, flush_right in zip(columns, right, strict=True):
        table.add_column(Text(column), justify="right" if flush_right else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    Console(file=file, highlight=False).print(table)


def _is_number(cell: object) -> bool:
    return isinstance(cell, numbers.Real) and not isinstance(cell, bool)


def _text(cell: Cell) -> str:
    """Six significant digits, or all digits of the whole part where that is longer."""
    if cell is None:
        return "-"
    if isinstance(cell, float) and 1e5 <= abs(cell) < 1e15:
        return f"{cell:.2f}".removesuffix(".00")
    return f"{cell:.6g}" if isinstance(cell, float) else str(cell)
