"""Toy subcommands, installed as plug-ins by the tests: each shows one promise that `icml.cli` makes to a real tool."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from icml.cli import options
from icml.cli.anytime import Anytime
from icml.cli.progress import Reporter, print_table
from icml.formats import errors


def show(
    source: options.Input = options.PIPED,
    *,
    format: options.Format = "auto",
    output: options.Output = options.STDOUT,
    as_json: options.Json = False,
    plot: options.Plot = None,
    seed: options.Seed = 0,
    threads: options.Threads,
    device: options.Device = "auto",
    time_limit: options.TimeLimit = None,
    trace: options.Trace = None,
    checkpoint: options.Checkpoint = None,
    resume: options.Resume = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    progress: options.Progress = None,
) -> None:
    """Show what the options [all of them] came to.

    The second paragraph
    is filled again.

        icml toy-show graph.edges
    """
    options.check_resume(checkpoint, resume)
    json.dump(dict(locals()), sys.stdout, default=str)
    sys.stdout.write("\n")


_FAULTS: dict[str, BaseException] = {
    "input": errors.InputError("expected 2 or 3 columns, got 1", "graph.edges", 17),
    "work": errors.WorkError("did not converge"),
    "missing": errors.MissingError("reading Parquet needs pyarrow", "pip install 'icml-tools[parquet]'"),
    "absent": FileNotFoundError(2, "No such file or directory", "absent.edges"),
    "denied": PermissionError(13, "Permission denied", "secret.edges"),
    "folder": IsADirectoryError(21, "Is a directory", "data"),
    "full": OSError(28, "No space left on device"),
    "memory": MemoryError("Unable to allocate 7.45 GiB"),
    "bug": TypeError("unsupported operand\ntype(s)"),
    "usage": typer.BadParameter("cannot be both", param_hint="'--a' / '--b'"),
    "interrupt": KeyboardInterrupt(),
    "exit": SystemExit(7),
    "exit-text": SystemExit("some text"),
    "typer-exit": typer.Exit(5),
    "abort": typer.Abort(),
    "other-pipe": BrokenPipeError(32, "Broken pipe", "endpoint"),
}


def fail(kind: str) -> None:
    """Write a line and fail."""
    sys.stdout.write("before\n")
    raise _FAULTS[kind]


def flood(lines: int = 10**6) -> None:
    """Write many lines."""
    for i in range(lines):
        sys.stdout.write(f"line {i}\n")


def wait(seconds: float = 60) -> None:
    """Sleep outside of any anytime run, with a file that must go away."""
    leftover = Path("leftover.tmp")
    leftover.touch()
    try:
        _say_ready()
        time.sleep(seconds)
    finally:
        leftover.unlink()


def loop(
    *,
    output: options.Output = options.STDOUT,
    time_limit: options.TimeLimit = None,
    trace: options.Trace = None,
    stubborn: Annotated[bool, typer.Option(help="Never look at should_stop.")] = False,
    code: int = 0,
    steps: int = 10**9,
) -> None:
    """Search for a bound until told to stop, then write the best one."""
    with Anytime(time_limit=time_limit, trace=trace) as run:
        _say_ready()
        best = 0
        while best < steps and (stubborn or not run.should_stop()):
            time.sleep(0.02)
            best += 1
            run.record({"lower": best}, upper=None)
        time.sleep(0.2)  # a result takes time to write, and signals may come again
        result = json.dumps({"best": best, "stopped_by": run.interrupted and run.interrupted.name})
        Path(output).write_text(result) if output != "-" else sys.stdout.write(result + "\n")
        run.finish(code)


def talk(
    *,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    progress: options.Progress = None,
    seconds: float = 0.0,
) -> None:
    """Say something of every kind on standard error, and a table on standard output."""
    reporter = Reporter("toy-talk", quiet=quiet, verbose=verbose, progress=progress)
    reporter.say("a note")
    reporter.detail("a detail")
    reporter.warn("a\nwarning")
    reporter.summary([("bound", 12.5), ("clusters", 3)])
    with reporter.progress("packing", total=4) as line:
        for done in range(5):
            line.update(done)
            reporter.say(f"round {done}")
            sys.stdout.write(f"data {done}\n")
            sys.stdout.flush()
            time.sleep(seconds)
    print_table(["name", "value"], [["bound", 12.5], ["a [b]", 3], ["none", None]], title="Figures")


def heavy() -> None:
    """Say which of the heavy libraries are loaded."""
    import numpy as np

    sys.stdout.write(f"numpy {np.__version__} {'torch' in sys.modules}\n")


def _say_ready() -> None:
    sys.stderr.write("ready\n")
    sys.stderr.flush()


sub = typer.Typer(help="A plug-in with subcommands of its own.")


@sub.command()
def one() -> None:
    """The first."""
    sys.stdout.write("one\n")


@sub.command()
def two() -> None:
    """The second."""
    sys.stdout.write("two\n")
