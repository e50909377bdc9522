"""`icml cclust-lb`: reads a graph, certifies a clustering of it, writes what was found."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from icml.cli import options
from icml.formats.errors import InputError, WorkError

if TYPE_CHECKING:
    from icml.cli.anytime import Anytime
    from icml.cli.progress import ProgressLine, Reporter
    from icml.formats.edges import EdgeList
    from icml.tools.cclust_lb.certification import Certified, Labels
    from icml.tools.cclust_lb.problem import Problem, SignedGraph

_BOUND, _CLUSTERING = "Bound", "Clustering"


_PARTS = ("read", "merge", "enumerate", "solve", "cycles", "stars", "heuristic", "total")


EXACT_TOTAL = 2.0**53
"""Up to here sums of whole weights are exact in double precision."""


class ProblemName(StrEnum):
    """Choices of --problem."""

    AUTO = "auto"
    CC = "cc"
    CC_COMPLETE = "cc-complete"
    FRUSTRATION = "frustration"
    MAXCUT = "maxcut"


class MergePolicy(StrEnum):
    """Choices of --merge."""

    SUM = "sum"
    FIRST = "first"
    LAST = "last"
    DROP = "drop"


class WeightMode(StrEnum):
    """Choices of --weights."""

    UNIT = "unit"
    ABS = "abs"


class Engine(StrEnum):
    """Choices of --engine."""

    ENTROPIC = "entropic"
    GK = "gk"


class Heuristic(StrEnum):
    """Choices of --heuristic."""

    ILS = "ils"
    LOUVAIN = "louvain"
    LOCAL = "local"
    PIVOT = "pivot"
    NONE = "none"


def command(
    graph: options.Input = options.PIPED,
    *,
    problem: Annotated[
        ProblemName,
        typer.Option(
            help="What to certify; auto: cc if a value is negative, else cc-complete.",
            rich_help_panel=options.INPUT,
        ),
    ] = ProblemName.AUTO,
    format: options.Format = "auto",
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="SRC,DST[,SIGN]",
            help="Columns to read, by header name or number.",
            rich_help_panel=options.INPUT,
        ),
    ] = None,
    merge: Annotated[
        MergePolicy,
        typer.Option(help="What parallel and reciprocal rows become.", rich_help_panel=options.INPUT),
    ] = MergePolicy.SUM,
    weights: Annotated[
        WeightMode,
        typer.Option(
            help="Count signs, or add values and weigh edges by size.", rich_help_panel=options.INPUT
        ),
    ] = WeightMode.UNIT,
    clusters: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Certify this clustering: lines node<TAB>cluster.",
            rich_help_panel=options.INPUT,
        ),
    ] = None,
    obstructions: Annotated[
        str,
        typer.Option(
            metavar="auto|LIST", help="Of triangle,cycle,clique,wedge,star.", rich_help_panel=_BOUND
        ),
    ] = "auto",
    engine: Annotated[
        Engine, typer.Option(help="How weights are found.", rich_help_panel=_BOUND)
    ] = Engine.ENTROPIC,
    max_cycle: Annotated[
        int | None,
        typer.Option(metavar="N", min=3, help="No cycles longer than N edges.", rich_help_panel=_BOUND),
    ] = None,
    star: Annotated[
        int,
        typer.Option(
            metavar="N", min=2, max=64, help="No stars with more than N leaves.", rich_help_panel=_BOUND
        ),
    ] = 16,
    max_pool: Annotated[
        int, typer.Option(metavar="N", min=1, help="Hold at most N obstructions.", rich_help_panel=_BOUND)
    ] = 200_000_000,
    tol: Annotated[
        float,
        typer.Option(
            metavar="X", min=0, help="Relative gap to the relaxation to stop at.", rich_help_panel=_BOUND
        ),
    ] = 0.005,
    sweeps: Annotated[
        int, typer.Option(metavar="N", min=1, help="Sweeps over the obstructions.", rich_help_panel=_BOUND)
    ] = 100,
    mu: Annotated[
        float,
        typer.Option(
            metavar="X",
            min=1e-6,
            max=1,
            help="Final temperature, relative to the mean weight.",
            rich_help_panel=_BOUND,
        ),
    ] = 0.01,
    heuristic: Annotated[
        Heuristic | None,
        typer.Option(
            help="How to look for a clustering; default ils, with --clusters none.",
            show_default=False,
            rich_help_panel=_CLUSTERING,
        ),
    ] = None,
    heuristic_time: Annotated[
        float,
        typer.Option(
            metavar="TIME",
            parser=options.parse_duration,
            help="Longest time to look.",
            rich_help_panel=_CLUSTERING,
        ),
    ] = 10.0,
    heuristic_steps: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Look for N steps, whatever the clock says.", rich_help_panel=_CLUSTERING
        ),
    ] = None,
    output: options.Output = options.STDOUT,
    json: options.Json = False,
    out_clusters: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            parser=options.output_name,
            help="Write the best clustering; - for standard output.",
            rich_help_panel=options.OUTPUT,
        ),
    ] = None,
    certificate: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            parser=options.output_file,
            help="Write the proof of the bound (NPZ).",
            rich_help_panel=options.OUTPUT,
        ),
    ] = None,
    verify: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Check a certificate instead; exit 0 if it holds, else 1.",
            rich_help_panel=options.OUTPUT,
        ),
    ] = None,
    blame: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, help="List the N edges most surely wrong.", rich_help_panel=options.OUTPUT
        ),
    ] = 0,
    plot: options.Plot = None,
    seed: options.Seed = 0,
    threads: options.Threads,
    time_limit: options.TimeLimit = 300.0,
    trace: options.Trace = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    progress: options.Progress = None,
) -> None:
    """Certify a clustering of a graph: a bound that no clustering can go below, and a clustering close to it.

    INPUT is an edge list (text, MatrixMarket, METIS, NPZ, Parquet; compressed or not) with an optional sign or weight.
    """
    from icml.cli.anytime import Anytime
    from icml.cli.progress import Reporter
    from icml.tools.cclust_lb.certification import BoundOptions, HeuristicOptions, certify

    outputs = _Outputs(output, json, out_clusters, certificate, blame, plot, trace)
    outputs.check(inputs=[graph, clusters, verify])
    name = (heuristic or (Heuristic.ILS if clusters is None else Heuristic.NONE)).value
    if out_clusters is not None and clusters is None and name == "none":
        raise InputError("--out-clusters needs a clustering: a --heuristic or --clusters")
    report = Reporter("cclust-lb", quiet=quiet, verbose=verbose, progress=progress)
    begin = time.monotonic()
    edges = _read_edges(graph, format, columns, threads)
    read_seconds = time.monotonic() - begin
    signed = _merge(edges, merge, weights)
    merge_seconds = time.monotonic() - begin - read_seconds
    if verify is not None:
        outputs.refuse_with_verify({"--clusters": clusters, "--heuristic": heuristic, "--trace": trace})
        _verify(verify, signed, problem, outputs)
        return
    chosen = _choose(problem, edges, signed, report)
    if float(signed.weight.sum()) > EXACT_TOTAL:
        report.warn("the weights add up to more than 2^53: the heuristic may overlook the small ones")
    labels = None if clusters is None else _read_labels(clusters, edges, chosen)
    report.detail(f"read {edges.source}: {len(edges.u)} rows, {signed.m} edges, {read_seconds:.2f} s")
    with Anytime(trace=trace) as run:
        with report.progress(f"{chosen}: {signed.n} nodes, {signed.m} edges", total=100) as line:
            result = certify(
                signed,
                chosen,
                labels=labels,
                bounding=BoundOptions(obstructions, engine.value, tol, sweeps, mu, max_cycle, star, max_pool),
                heuristic=HeuristicOptions(name, heuristic_time, heuristic_steps),
                time_limit=time_limit,
                threads=threads,
                seed=seed,
                should_stop=run.should_stop,
                on_progress=_Progress(run, line),
            )
        seconds = {"read": read_seconds, "merge": merge_seconds} | result.seconds
        seconds["total"] = time.monotonic() - begin
        run_facts = {
            "problem_chosen": "auto" if problem is ProblemName.AUTO else "given",
            "heuristic": None if name == "none" else name,
            "seconds": {part: round(seconds.get(part, 0.0), 4) for part in _PARTS},
            "seed": seed,
        }
        outputs.write(edges, signed, result, run_facts)
        run.finish()


@dataclass(frozen=True)
class _Outputs:
    """Where the results go."""

    output: str
    json: bool
    clusters: str | None
    certificate: Path | None
    blame: int
    plot: Path | None
    trace: Path | None

    def check(self, inputs: list[str | Path | None]) -> None:
        """Refuses, before any work, files that would overwrite each other or the input, and a plot without plotter."""
        if self.clusters == "-" and self.output == "-" and self.json:
            raise InputError(
                "--json and --out-clusters - both go to standard output; give one of them a file"
            )
        if inputs.count("-") > 1 or ("-" in map(str, inputs[1:]) and inputs[0] == "-"):
            raise InputError("standard input can be read only once: give the graph or the clusters a file")
        taken = {os.path.realpath(path): "the input" for path in inputs if path is not None and path != "-"}
        for option, path in {
            "--output": self.output,
            "--out-clusters": self.clusters,
            "--certificate": self.certificate,
            "--trace": self.trace,
            "--plot": self.plot,
        }.items():
            if path is None or path == "-" or (os.path.exists(path) and not os.path.isfile(path)):
                continue
            other = taken.setdefault(os.path.realpath(path), option)
            if other != option:
                raise InputError(f"{option} would overwrite {other}", str(path))
        if self.plot is not None:
            from icml.tools.cclust_lb.plot import require_matplotlib

            require_matplotlib()

    def refuse_with_verify(self, others: dict[str, object]) -> None:
        """A check computes nothing and writes nothing but its verdict."""
        writes = {"--out-clusters": self.clusters, "--certificate": self.certificate, "--plot": self.plot}
        for option, value in {**others, **writes, "--blame": self.blame}.items():
            if value:
                raise InputError(f"--verify only checks; it cannot be combined with {option}")

    def write(
        self, edges: EdgeList, graph: SignedGraph, result: Certified, run_facts: dict[str, Any]
    ) -> None:
        """Writes everything asked for: files first, so that the summary speaks of what is there."""
        if self.certificate is not None:
            from icml.tools.cclust_lb.certificate import save_certificate

            save_certificate(self.certificate, result.bound)
        if self.plot is not None:
            from icml.tools.cclust_lb.plot import plot_trace

            plot_trace(result.trace, self.plot, title=_headline(edges, graph, result))
        if self.clusters is not None and result.labels is not None:
            from icml.formats.labels import write_labels

            write_labels(self.clusters, edges.names, result.labels)
        self.summarise(_figures(edges, graph, result, self.blame) | run_facts)

    def summarise(self, figures: dict[str, Any]) -> None:
        """Writes the figures as a JSON object or as lines for people."""
        from icml.formats.output import atomic_output, write_json
        from icml.tools.cclust_lb.report import table

        if self.json:
            write_json(self.output, figures)
        elif self.clusters == "-" and self.output == "-":
            sys.stderr.write(table(figures))
        else:
            with atomic_output(self.output, "w") as stream:
                stream.write(table(figures))


class _Progress:
    """Hands what the method reports to the trace and to the progress line."""

    def __init__(self, run: Anytime, line: ProgressLine) -> None:
        self._run = run
        self._line = line
        self._lower: float | None = None
        self._cost: float | None = None

    def __call__(self, entry: dict[str, Any]) -> None:
        self._run.record(entry)
        self._lower = entry.get("lower", self._lower)
        self._cost = entry.get("cost", self._cost)
        known = [] if self._lower is None else [f"bound {self._lower:.6g}"]
        known += [] if self._cost is None else [f"best {self._cost:.10g}"]
        share = 100 * self._lower / self._cost if self._lower is not None and self._cost else None
        self._line.update(done=share, text=", ".join(known))


def _read_edges(source: str, format: str, columns: str | None, threads: int) -> EdgeList:
    from icml.formats.edges import read_edges

    names = None if columns is None else tuple(part.strip() for part in columns.split(","))
    if names is not None and (len(names) not in (2, 3) or not all(names)):
        raise InputError(
            f"--columns takes two or three names or numbers separated by commas, got {columns!r}"
        )
    return read_edges(source, format=format, columns=names, threads=threads)


def _merge(edges: EdgeList, merge: MergePolicy, weights: WeightMode) -> SignedGraph:
    """The graph that the edge list merges into; errors name file and line."""
    from icml.tools.cclust_lb.problem import merge_edges

    if edges.value is not None and merge is not MergePolicy.SUM:
        zero = (edges.value == 0).nonzero()[0]
        if len(zero):
            line = None if edges.line is None else int(edges.line[zero[0]])
            raise InputError(
                "weight 0, which only --merge sum accepts (it drops the edge)", edges.source, line
            )
    try:
        return merge_edges(
            edges.u, edges.v, edges.value, n=len(edges.names), merge=merge.value, weights=weights.value
        )
    except InputError as error:
        raise InputError(error.message, edges.source) from error


def _choose(problem: ProblemName, edges: EdgeList, graph: SignedGraph, report: Reporter) -> Problem:
    from icml.tools.cclust_lb.problem import Problem, check_problem, choose_problem

    if problem is not ProblemName.AUTO:
        chosen = Problem(problem.value)
        check_problem(graph, chosen)
        return chosen
    chosen = choose_problem(graph)
    if edges.value is not None and bool((edges.value < 0).any()) and not chosen.signed:
        raise InputError(
            "every negative edge cancels out, so all pairs agree; say which --problem is meant", edges.source
        )
    reason = (
        "there are negative edges" if chosen.signed else "a plain edge list: missing pairs count as negative"
    )
    report.say(f"problem: {chosen} ({reason}); --problem chooses another")
    return chosen


def _read_labels(path: Path, edges: EdgeList, problem: Problem) -> Labels:
    """Cluster numbers by node of the graph, from a file that must name exactly its nodes."""
    import numpy as np

    from icml.formats.labels import read_labels

    given = read_labels(os.fspath(path))
    nodes = edges.names.lookup(given.keys)
    unknown = np.flatnonzero(nodes < 0)
    if len(unknown):
        name, line = given.keys[unknown[0]], int(given.lines[unknown[0]])
        raise InputError(f"node {name!r} is not in the graph", str(path), line)
    labels = np.full(len(edges.names), -1, dtype=np.int32)
    numbers: dict[str, int] = {}
    labels[nodes] = [numbers.setdefault(value, len(numbers)) for value in given.values]
    if problem.two_clusters and len(numbers) > 2:
        raise InputError(f"{problem} allows two clusters, here are {len(numbers)}", str(path))
    missing = np.flatnonzero(labels < 0)
    if len(missing):
        others = f" and {len(missing) - 1} others" if len(missing) > 1 else ""
        raise InputError(f"no cluster for node {edges.names[int(missing[0])]!r}{others}", str(path))
    return labels


def _verify(path: Path, graph: SignedGraph, problem: ProblemName, outputs: _Outputs) -> None:
    """Checks a certificate and says what it proves.

    Raises:
        InputError: it is no certificate, for another graph, or for another problem than the one given.
        WorkError: it does not hold.
    """
    from icml.tools.cclust_lb.certificate import load_certificate, verify

    certificate = load_certificate(path)
    if certificate.digest != graph.digest():
        raise InputError(
            "the certificate is for another graph, or for other --merge, --weights or --columns", str(path)
        )
    if problem.value not in (ProblemName.AUTO, certificate.problem):
        raise InputError(
            f"the certificate is for --problem {certificate.problem}, not {problem.value}", str(path)
        )
    checked = verify(certificate, graph)
    outputs.summarise(
        {
            "holds": checked.ok,
            "reason": checked.reason,
            "problem": str(certificate.problem),
            "lower_bound": checked.lower,
            "lower_bound_int": checked.lower_int,
        }
    )
    if not checked.ok:
        raise WorkError(f"{path}: the certificate does not hold: {checked.reason}")


def _figures(edges: EdgeList, graph: SignedGraph, result: Certified, blame_count: int) -> dict[str, Any]:
    """All figures of a run but its circumstances, as plain values in the order that the man page documents."""
    from icml.tools.cclust_lb.report import blame, figures

    values = figures(graph, result.bound, result.cost, result.clusters)
    values["heuristic_cost"] = result.heuristic_cost
    if blame_count:
        values["blame"] = [
            {
                "u": edges.names[int(graph.u[item.edge])],
                "v": edges.names[int(graph.v[item.edge])],
                "sign": -1 if graph.negative[item.edge] else 1,
                "cover": round(item.cover, 6),
            }
            for item in blame(result.bound, blame_count)
        ]
    return values


def _headline(edges: EdgeList, graph: SignedGraph, result: Certified) -> str:
    return f"{edges.source}: {result.bound.problem}, {graph.n} nodes, {graph.m} edges"
