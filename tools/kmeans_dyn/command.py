"""`icml kcenter-dyn`: reads a stream of points that come and go, writes an answer a line."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from icml.cli import options
from icml.formats.errors import InputError, WorkError

if TYPE_CHECKING:
    from icml.cli.anytime import Anytime
    from icml.cli.progress import ProgressLine, Reporter
    from icml.formats.output import JsonLines
    from icml.tools.kmeans_dyn.dynamic import DynamicKCenter, Result
    from icml.tools.kmeans_dyn.layout import Columns
    from icml.tools.kmeans_dyn.stream import StreamRun

_INPUT, _PROBLEM, _ANSWERS, _RESULT = "Input", "Problem", "Answers", "Output"


class Metric(StrEnum):
    """Choices of --metric."""

    EUCLIDEAN = "euclidean"
    COSINE = "cosine"
    HAVERSINE = "haversine"
    MANHATTAN = "manhattan"
    CHEBYSHEV = "chebyshev"
    HAMMING = "hamming"
    PRECOMPUTED = "precomputed"


class Schedule(StrEnum):
    """Choices of --schedule."""

    LAZY = "lazy"
    STRICT = "strict"


class Dtype(StrEnum):
    """Choices of --dtype."""

    FLOAT32 = "float32"
    FLOAT64 = "float64"


class Conflict(StrEnum):
    """Choices of --on-conflict."""

    ERROR = "error"
    SKIP = "skip"
    REPLACE = "replace"


def command(
    stream: options.Input = options.PIPED,
    *,
    k: Annotated[int, typer.Option("-k", metavar="K", help="Number of centers.", rich_help_panel=_PROBLEM)],
    z: Annotated[
        str,
        typer.Option(
            "-z",
            metavar="N|P%",
            help="Outliers: a number, or a percentage of the live points.",
            rich_help_panel=_PROBLEM,
        ),
    ],
    eps: Annotated[
        float,
        typer.Option(
            metavar="X", help="Answers may discard (1 + X) times the outliers.", rich_help_panel=_PROBLEM
        ),
    ] = 0.2,
    metric: Annotated[
        Metric, typer.Option(help="How distances are measured.", rich_help_panel=_PROBLEM)
    ] = Metric.EUCLIDEAN,
    matrix: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.npy", help="Distances for --metric precomputed.", rich_help_panel=_PROBLEM
        ),
    ] = None,
    dtype: Annotated[
        Dtype,
        typer.Option(
            help="How points are stored; float32 rounds them and takes half the memory.",
            rich_help_panel=_PROBLEM,
        ),
    ] = Dtype.FLOAT64,
    dim: Annotated[
        int | None,
        typer.Option(
            metavar="D",
            min=1,
            help="Insist on D coordinates; else the first point tells.",
            rich_help_panel=_INPUT,
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="X1,X2,…",
            help="A table's coordinates, by header name or number.",
            rich_help_panel=_INPUT,
        ),
    ] = None,
    id_column: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="A table's ids.", rich_help_panel=_INPUT)
    ] = None,
    time_column: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="A table's times.", rich_help_panel=_INPUT)
    ] = None,
    on_conflict: Annotated[
        Conflict,
        typer.Option(
            help="What to do about an insertion of an id in use, a deletion of one that is not.",
            rich_help_panel=_INPUT,
        ),
    ] = Conflict.ERROR,
    window: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Keep only the latest N points.", rich_help_panel=_INPUT),
    ] = None,
    window_time: Annotated[
        float | None,
        typer.Option(
            metavar="T",
            help="Keep only points at most T older than the latest; insertions carry a time.",
            rich_help_panel=_INPUT,
        ),
    ] = None,
    query_every: Annotated[
        int, typer.Option(metavar="N", min=0, help="Answer after every N updates.", rich_help_panel=_ANSWERS)
    ] = 0,
    static: Annotated[
        bool,
        typer.Option(
            "--static", help="One build on the whole input and one answer.", rich_help_panel=_ANSWERS
        ),
    ] = False,
    schedule: Annotated[
        Schedule,
        typer.Option(
            help="Rebuild layers when needed, or for the worst-case bound.", rich_help_panel=_ANSWERS
        ),
    ] = Schedule.LAZY,
    sticky: Annotated[
        float,
        typer.Option(
            metavar="X",
            help="Keep the centers before while their radius is at most 1 + X times the new one.",
            rich_help_panel=_ANSWERS,
        ),
    ] = 0.0,
    list_outliers: Annotated[
        bool,
        typer.Option("--list-outliers", help="Name the outliers in every answer.", rich_help_panel=_RESULT),
    ] = False,
    audit: Annotated[
        bool,
        typer.Option(
            "--audit",
            help="Check every answer against all points; exit 1 if one does not hold.",
            rich_help_panel=_RESULT,
        ),
    ] = False,
    compare: Annotated[
        bool,
        typer.Option(
            "--compare",
            help="Radii of Gonzalez, random-pick greedy and k-means beside every answer.",
            rich_help_panel=_RESULT,
        ),
    ] = False,
    output: Annotated[
        str,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            parser=options.output_name,
            show_default=False,
            rich_help_panel=_RESULT,
            help="File for the answers, which grows line by line; standard output without it.",
        ),
    ] = options.STDOUT,
    plot: options.Plot = None,
    checkpoint: options.Checkpoint = None,
    checkpoint_every: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, help="Save the state after every N updates.", rich_help_panel=options.COMMON
        ),
    ] = 0,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Go on from the state in this checkpoint.", rich_help_panel=options.COMMON
        ),
    ] = None,
    time_limit: options.TimeLimit = None,
    seed: options.Seed = 0,
    threads: options.Threads,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    progress: options.Progress = None,
) -> None:
    """Keep k centers for points that come and go, up to z outliers discarded, with a certified radius.

    INPUT is a stream of lines "+ id x1 x2 …", "- id", "? [k z]", "@ x1 x2 …", "= FILE", or a table of points
    (CSV, TSV, NPY, Parquet; compressed or not). Answers are JSON objects, one a line.
    """
    from icml.cli.anytime import Anytime
    from icml.cli.progress import Reporter
    from icml.tools.kmeans_dyn.dynamic import DynamicKCenter
    from icml.tools.kmeans_dyn.layout import Columns
    from icml.tools.kmeans_dyn.stream import Schedule as RunSchedule

    if plot is not None:
        from icml.tools.kmeans_dyn.plot import require_matplotlib

        require_matplotlib()
    if static and query_every:
        raise InputError("--static answers once, at the end; it does not go with --query-every")
    if checkpoint_every and checkpoint is None:
        raise InputError("--checkpoint-every needs --checkpoint FILE")
    model = DynamicKCenter(
        k,
        z,
        eps=eps,
        metric=metric.value,
        schedule=schedule.value,
        sticky=sticky,
        window=window,
        window_time=window_time,
        dtype=dtype.value,
        matrix=_read_matrix(matrix, metric),
        seed=seed,
        threads=threads,
    )
    if dim is not None and metric is not Metric.PRECOMPUTED:
        model.prepare(dim)
    if resume is not None:
        model.load(resume)
    chosen = Columns(id_column, time_column, None if columns is None else _split(columns))
    when = RunSchedule(query_every, checkpoint_every, static)
    report = Reporter("kcenter-dyn", quiet=quiet, verbose=verbose, progress=progress)
    with Anytime(time_limit=time_limit) as run, report.progress("reading") as line:
        writer = _Writer(model, output, list_outliers, audit, compare, checkpoint, plot is not None, line)
        with writer:
            session = writer.session(when, run, on_conflict.value)
            _run(session, stream, chosen, model, run)
            session.finish(forced=run.should_stop())
            if checkpoint is not None:
                model.save(checkpoint)
        if plot is not None:
            writer.draw(plot, stream)
        _say_end(report, model, writer, session, run)
        run.finish()


@dataclass
class _Writer:
    """Writes answers as they come, and keeps what the plot needs."""

    model: DynamicKCenter
    output: str
    list_outliers: bool
    audit: bool
    compare: bool
    checkpoint: Path | None
    plotted: bool
    line: ProgressLine
    history: list[dict[str, Any]] = field(default_factory=list)
    answers: int = 0
    _lines: JsonLines | None = None

    def __enter__(self) -> None:
        from icml.formats.output import JsonLines

        self._lines = JsonLines(self.output)

    def __exit__(self, *_: object) -> None:
        if self._lines is not None:
            self._lines.close()
            self._lines = None

    def session(self, schedule: Any, run: Anytime, on_conflict: str) -> StreamRun:
        """A run whose answers come here."""
        from icml.tools.kmeans_dyn.stream import Sink, StreamRun

        sink = Sink(self.result, self.write, self.save, run.should_stop)
        return StreamRun(self.model, sink, schedule, on_conflict=on_conflict)

    def write(self, values: dict[str, Any]) -> None:
        """One line, flushed."""
        assert self._lines is not None
        self._lines.write(values)

    def result(self, result: Result) -> None:
        """An answer, with what was asked to go with it."""
        from icml.tools.kmeans_dyn.report import audit_figures, comparison, figures

        values = figures(result, list_outliers=self.list_outliers)
        if self.audit:
            values["audit"] = audit_figures(self.model, result, list_outliers=self.list_outliers)
        if self.compare:
            values["compare"] = comparison(self.model, result)
        self.write(values)
        self.answers += 1
        if self.plotted:  # without a picture an endless stream must not fill memory
            self.history.append({key: values[key] for key in ("t", "radius", "opt_lower", "outliers", "z")})
        self.line.update(text=f"{result.updates} updates, {result.n} points, radius {result.radius:.6g}")
        if self.audit and not values["audit"]["holds"]:
            found = values["audit"]
            raise WorkError(
                f"the answer after {result.updates} updates does not hold: {found['beyond']} points are beyond its "
                f"radius, {found['allowed']} may be"
            )

    def save(self, path: str | None) -> None:
        """A checkpoint, where the stream says or else at the run's own place."""
        destination = self.checkpoint if path is None else Path(path)
        assert destination is not None
        options.check_writable(destination)
        self.model.save(destination)

    def draw(self, plot: Path, source: str) -> None:
        """The picture of all answers."""
        from icml.tools.kmeans_dyn.metrics import UNITS
        from icml.tools.kmeans_dyn.plot import plot_answers

        title = f"{'stdin' if source == '-' else source}: k = {self.model.k}"
        plot_answers(self.history, plot, title=title, unit=UNITS.get(self.model.metric, ""))


def _run(session: StreamRun, path: str, columns: Columns, model: DynamicKCenter, run: Anytime) -> None:
    """Reads the input to its end, or until it is time to stop."""
    from icml.formats.source import Content
    from icml.tools.kmeans_dyn.layout import find_layout
    from icml.tools.kmeans_dyn.source import open_stream, whole_lines

    with open_stream(path, run.should_stop) as opened:
        if isinstance(opened, Content):
            session.run_points(_binary_points(opened, columns, model))
            return
        layout = find_layout(whole_lines(opened), columns, model.metric, timed=model.window_time is not None)
        session.run_lines(opened.chunks(layout.skip), layout, opened.name)


def _binary_points(content: Any, columns: Columns, model: DynamicKCenter) -> Any:
    from icml.tools.kmeans_dyn.tables import read_binary

    if model.window_time is not None or model.metric == "precomputed":
        raise InputError("windows by time and precomputed distances take text", content.name)
    return read_binary(content, columns, model.metric)


def _read_matrix(path: Path | None, metric: Metric) -> Any:
    if (path is None) == (metric is Metric.PRECOMPUTED):
        raise InputError("--metric precomputed and --matrix FILE.npy go together")
    if path is None:
        return None
    from icml.formats.arrays import as_float64, load_npy
    from icml.formats.source import read_source
    from icml.tools.kmeans_dyn.dynamic import check_matrix

    content = read_source(path)
    try:
        return check_matrix(as_float64(load_npy(content), "the matrix", content.name))
    except InputError as error:
        raise InputError(error.message, content.name) from None


def _split(columns: str) -> list[str]:
    names = [name.strip() for name in columns.split(",")]
    if not all(names):
        raise InputError(f"--columns takes names or numbers separated by commas, got {columns!r}")
    return names


def _say_end(
    report: Reporter, model: DynamicKCenter, writer: _Writer, session: StreamRun, run: Anytime
) -> None:
    if run.interrupted is not None:
        place = f" after line {session.line}" if session.line else ""
        saved = f"; state saved in {writer.checkpoint}" if writer.checkpoint else ""
        report.say(f"stopped{place}{saved}")
    report.summary(
        [
            ("updates", model.updates),
            ("live points", len(model)),
            ("answers", writer.answers),
            ("seconds", round(run.elapsed(), 3)),
        ]
    )
    for name, value in model.counters().items():
        report.detail(f"{name}: {value}")
