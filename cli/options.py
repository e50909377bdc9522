"""The options that tools share, each declared once: a `command` takes them by annotating its parameters.

A value is checked while the command line is parsed, and so is whether a file can be written where an option
puts it: nothing has been computed yet when that turns out to be wrong.
"""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from icml.cli.resources import available_threads
from icml.formats.errors import InputError

INPUT, OUTPUT, COMMON = "Input", "Output", "Common options"
"""The panels of the help that shared options stand in; a tool puts its own beside them, or into others."""

PIPED = "-"
"""The default of an `Input`: standard input."""

STDOUT = "-"
"""The default of an `Output`: standard output."""

MAX_SEED = 2**64 - 1
MAX_THREADS = 65536

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}
_PICTURES = (".png", ".svg", ".pdf")


def integer(least: int, most: int) -> Callable[[str], int]:
    """A parser for integers from `least` to `most`."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            raise typer.BadParameter(f"expected an integer from {least} to {most}, got {str(text)!r}")
        return value

    return parse


def parse_duration(text: str) -> float:
    """Seconds from "90", "1.5", "90s", "10m" or "2h"."""
    match = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)([smh]?)", str(text).strip())
    seconds = float(match[1]) * _UNITS[match[2]] if match else math.inf
    if not math.isfinite(seconds):
        raise typer.BadParameter(f"expected a time such as 90, 90s, 10m or 2h, got {str(text)!r}")
    return seconds


def parse_device(text: str) -> str:
    """Checks the name of a torch device: auto, cpu, cuda or cuda:N."""
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", text):
        raise typer.BadParameter(f"expected auto, cpu, cuda or cuda:N, got {text!r}")
    return text


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raises InputError if no output file could be put at `path`; "-" is standard output and always passes.

    Outputs are written beside their place and renamed into it, so the folder must be writable even where the
    file exists; a device or a named pipe is written in place.
    """
    name = os.fspath(path)
    if name == "-":
        return
    target = os.path.realpath(name)
    folder = os.path.dirname(target)
    shown = os.path.dirname(name) or folder
    if os.path.isdir(target) or name.endswith(os.sep):
        raise InputError("cannot write there: it is a folder", name)
    if not os.path.isdir(folder):
        raise InputError(f"cannot write there: there is no folder {shown!r}", name)
    if os.path.exists(target) and not os.access(target, os.W_OK):
        raise InputError("cannot write there: permission denied", name)
    if (os.path.isfile(target) or not os.path.exists(target)) and not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"cannot write there: no permission to write in folder {shown!r}", name)


def check_resume(checkpoint: Path | None, resume: bool) -> None:
    """Raises InputError if `--resume` is given without a checkpoint that exists."""
    if resume and checkpoint is None:
        raise InputError("--resume needs --checkpoint FILE")
    if resume and checkpoint is not None and not checkpoint.is_file():
        raise InputError("no checkpoint to resume from", os.fspath(checkpoint))


def input_path(ctx: typer.Context, param: typer.CallbackParam, value: str) -> str:
    """Checks the name of an input; one that is left out stands for a pipe, and is an error at a terminal."""
    source = ctx.get_parameter_source(str(param.name))
    if not value:
        raise typer.BadParameter("expected a file name")
    if source is not None and source.name == "DEFAULT" and not ctx.resilient_parsing and sys.stdin.isatty():
        raise typer.BadParameter("no file given and nothing piped in")
    return value


def output_name(text: str) -> str:
    """Checks the name of an output: a file that can be written, or "-"."""
    if not text:
        raise typer.BadParameter("expected a file name")
    try:
        check_writable(text)
    except InputError as error:
        raise typer.BadParameter(str(error)) from error
    return text


def output_file(text: str) -> Path:
    """Checks the name of an output that must be a file."""
    if text == STDOUT:
        raise typer.BadParameter("expected a file name; standard output is for the result")
    return Path(output_name(text))


def picture_file(text: str) -> Path:
    """Checks the name of a picture, whose format is told by its ending."""
    if not str(text).lower().endswith(_PICTURES):
        raise typer.BadParameter(
            f"expected a name ending in {', '.join(_PICTURES[:-1])} or {_PICTURES[-1]}, got {text!r}"
        )
    return output_file(text)


Input = Annotated[
    str,
    typer.Argument(
        metavar="INPUT",
        callback=input_path,
        show_default=False,
        help="File to read; - or, with a pipe, nothing: standard input.",
    ),
]
"""The only input of most tools: `edges: Input = PIPED`."""

Output = Annotated[
    str,
    typer.Option(
        "-o",
        "--output",
        metavar="FILE",
        parser=output_name,
        show_default=False,
        rich_help_panel=OUTPUT,
        help="File to write, whole or not at all; standard output without it.",
    ),
]
"""`output: Output = STDOUT`."""

AllowPickle = Annotated[
    bool,
    typer.Option("--allow-pickle", rich_help_panel=INPUT, help="Read a model whose weights are pickles."),
]
"""`allow_pickle: AllowPickle = False`."""

Format = Annotated[
    str,
    typer.Option(
        "--format",
        metavar="FORMAT",
        rich_help_panel=INPUT,
        help="Format of the input; auto looks at the content.",
    ),
]
"""`format: Format = "auto"`."""

Json = Annotated[
    bool,
    typer.Option(
        "--json", rich_help_panel=OUTPUT, help="Write the figures of the result as one JSON object."
    ),
]

Plot = Annotated[
    Path | None,
    typer.Option(
        "--plot",
        metavar="FILE",
        parser=picture_file,
        rich_help_panel=OUTPUT,
        help="Draw the result: FILE.png, FILE.svg or FILE.pdf.",
    ),
]

Seed = Annotated[
    int,
    typer.Option(
        "--seed",
        metavar="INT",
        parser=integer(0, MAX_SEED),
        rich_help_panel=COMMON,
        help="Seed of the random numbers; the same seed gives the same result.",
    ),
]
"""`seed: Seed = 0`."""

Threads = Annotated[
    int,
    typer.Option(
        "--threads",
        metavar="INT",
        parser=integer(1, MAX_THREADS),
        default_factory=available_threads,
        show_default="CPUs this process may use",
        rich_help_panel=COMMON,
        help="Number of threads.",
    ),
]
"""`*, threads: Threads`, without a default of its own."""

Device = Annotated[
    str,
    typer.Option(
        "--device",
        metavar="auto|cpu|cuda[:N]",
        parser=parse_device,
        rich_help_panel=COMMON,
        help="Where torch computes; auto takes a GPU if there is one.",
    ),
]
"""`device: Device = "auto"`."""

TimeLimit = Annotated[
    float | None,
    typer.Option(
        "--time-limit",
        metavar="TIME",
        parser=parse_duration,
        rich_help_panel=COMMON,
        help="Stop after TIME (90, 90s, 10m, 2h) with the best result so far.",
    ),
]

Trace = Annotated[
    Path | None,
    typer.Option(
        "--trace",
        metavar="FILE",
        parser=output_file,
        rich_help_panel=COMMON,
        help="Write time and best so far to FILE as it goes, one JSON object a line.",
    ),
]

Checkpoint = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint",
        metavar="FILE",
        parser=output_file,
        rich_help_panel=COMMON,
        help="Save the state to FILE now and then, and when interrupted.",
    ),
]

Resume = Annotated[
    bool,
    typer.Option("--resume", rich_help_panel=COMMON, help="Go on from the state in the --checkpoint file."),
]

Quiet = Annotated[
    bool, typer.Option("-q", "--quiet", rich_help_panel=COMMON, help="Say nothing but warnings and errors.")
]

Verbose = Annotated[
    bool, typer.Option("-v", "--verbose", rich_help_panel=COMMON, help="Say more about what is going on.")
]

Progress = Annotated[
    bool | None,
    typer.Option(
        "--progress/--no-progress",
        rich_help_panel=COMMON,
        help="Show progress; without either, if standard error is a terminal.",
    ),
]
"""`progress: Progress = None`."""

Debug = Annotated[
    bool, typer.Option("--debug", rich_help_panel=COMMON, help="Show the traceback of an error.")
]
"""Every command has it without declaring it."""
