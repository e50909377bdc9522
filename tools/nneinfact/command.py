"""`icml nneinfact`: fits a factorization, predicts cells, folds in new data, searches among models."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from icml.cli import options
from icml.formats.errors import InputError

if TYPE_CHECKING:
    from icml.cli.anytime import Anytime
    from icml.cli.progress import ProgressLine, Reporter
    from icml.tools.nneinfact.task import Task

_INPUT, _MODEL, _DESCENT, _OUTPUT = "Input", "Model", "Descent", "Output"


class Action(StrEnum):
    """What to do."""

    FIT = "fit"
    PREDICT = "predict"
    TRANSFORM = "transform"
    SELECT = "select"


class Sweep(StrEnum):
    """Choices of --sweep."""

    AUTO = "auto"
    BLOCK = "block"
    JOINT = "joint"


class Dtype(StrEnum):
    """Choices of --dtype."""

    AUTO = "auto"
    FLOAT32 = "float32"
    FLOAT64 = "float64"


class Walk(StrEnum):
    """Choices of --path."""

    AUTO = "auto"
    DENSE = "dense"
    SPARSE = "sparse"


class Nan(StrEnum):
    """Choices of --nan."""

    MISSING = "missing"
    ERROR = "error"


_FITS = {Action.FIT, Action.TRANSFORM, Action.SELECT}
_TRAINS = {Action.FIT, Action.SELECT}
_APPLIES: dict[str, set[Action]] = {
    "data": _FITS,
    "k": _TRAINS,
    "loss": _TRAINS,
    "alpha": _TRAINS,
    "beta": _TRAINS,
    "mask": _FITS,
    "weights": _FITS,
    "holdout": _TRAINS,
    "key": _FITS,
    "shape": _TRAINS,
    "labels": _FITS,
    "nan": _FITS,
    "max_iter": _FITS,
    "tol": _FITS,
    "patience": _TRAINS,
    "restarts": _TRAINS,
    "relax": _FITS,
    "sweep": _FITS,
    "joint": _FITS,
    "minibatch": _TRAINS,
    "init": {Action.FIT},
    "l1": _FITS,
    "prior_shape": _FITS,
    "prior_rate": _FITS,
    "raw_scale": {Action.FIT},
    "free": {Action.TRANSFORM},
    "at": {Action.PREDICT},
    "slice_": {Action.PREDICT},
    "format": {Action.FIT, Action.PREDICT, Action.TRANSFORM},
    "json": _FITS,
    "plot": {Action.FIT, Action.TRANSFORM},
    "trace": {Action.FIT, Action.TRANSFORM},
    "checkpoint": {Action.FIT},
    "resume": {Action.FIT},
    "time_limit": _FITS,
    "path": _FITS,
    "dtype": _FITS,
    "max_memory": _FITS,
    "device": _FITS,
    "seed": _FITS,
}
"""Which actions an option is for; what is not here is for all."""


def command(
    ctx: typer.Context,
    action: Annotated[
        Action, typer.Argument(metavar="ACTION", help="fit, predict, transform or select.")
    ],
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL|MODELS",
            show_default=False,
            help="fit: a string such as ur,vr->uv. predict, transform: a model file. select: a file of strings.",
        ),
    ] = options.PIPED,
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA", show_default=False, help=".npy, .npz, .tns or a table of coordinates; - is a pipe."
        ),
    ] = options.PIPED,
    *,
    input_format: Annotated[
        str,
        typer.Option(
            "--input-format", metavar="FORMAT", rich_help_panel=_INPUT,
            help="auto, text, csv, tsv, tns, parquet, npy or npz.",
        ),
    ] = "auto",
    key: Annotated[
        str | None, typer.Option(metavar="NAME", rich_help_panel=_INPUT, help="Array of an NPZ file.")
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="C1,C2,...", rich_help_panel=_INPUT,
            help="A table's columns for the observed letters, then the value; by name or number.",
        ),
    ] = None,
    shape: Annotated[
        str | None,
        typer.Option(
            metavar="N1,N2,...", rich_help_panel=_INPUT, help="Sizes of the observed letters; ? for as many as occur."
        ),
    ] = None,
    names: Annotated[
        str,
        typer.Option(
            metavar="LETTERS", rich_help_panel=_INPUT,
            help="Letters whose columns hold names even where they are integers."
        ),
    ] = "",
    labels: Annotated[
        str | None,
        typer.Option(
            metavar="L=FILE,...", rich_help_panel=_INPUT,
            help="Names along a letter: a file with one a line, or an array of the NPZ file.",
        ),
    ] = None,
    mask: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", rich_help_panel=_INPUT,
            help="An array, true where a cell is observed, or a table of the cells that are not.",
        ),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(metavar="FILE", rich_help_panel=_INPUT, help="An array with a weight for every cell."),
    ] = None,
    nan: Annotated[
        Nan, typer.Option(rich_help_panel=_INPUT, help="Whether NaN cells are missing or an error.")
    ] = Nan.MISSING,
    k: Annotated[
        str,
        typer.Option(
            "-k", metavar="r=N,...", rich_help_panel=_MODEL, help="Sizes of the latent letters; select: also r=5:50:5."
        ),
    ] = "",
    loss: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", rich_help_panel=_MODEL,
            help="kl (the default), euclidean, is, hellinger, reverse-kl, log or beta:B.",
        ),
    ] = None,
    alpha: Annotated[
        float | None, typer.Option(metavar="A", rich_help_panel=_MODEL, help="Of the divergence, instead of --loss.")
    ] = None,
    beta: Annotated[
        float | None, typer.Option(metavar="B", rich_help_panel=_MODEL, help="Of the divergence, instead of --loss.")
    ] = None,
    l1: Annotated[
        float, typer.Option("--l1", metavar="S", rich_help_panel=_MODEL, help="Penalty on the sum of all entries.")
    ] = 0.0,
    prior_shape: Annotated[
        float, typer.Option(metavar="A", rich_help_panel=_MODEL, help="Gamma prior of the entries (kl): its shape.")
    ] = 1.0,
    prior_rate: Annotated[
        float, typer.Option(metavar="B", rich_help_panel=_MODEL, help="Gamma prior of the entries (kl): its rate.")
    ] = 0.0,
    holdout: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE", rich_help_panel=_DESCENT,
            help="Share of all cells to hold out for validation; select: 0.1 if not given.",
        ),
    ] = None,
    max_iter: Annotated[
        int, typer.Option(metavar="N", min=0, rich_help_panel=_DESCENT, help="Most iterations.")
    ] = 500,
    tol: Annotated[
        float,
        typer.Option(
            metavar="X", rich_help_panel=_DESCENT,
            help="Stop when five iterations lower the loss by less than this share."
        ),
    ] = 1e-6,
    patience: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, rich_help_panel=_DESCENT,
            help="Stop when the held-out loss has not fallen for N iterations; the best ones are kept.",
        ),
    ] = 10,
    restarts: Annotated[
        int, typer.Option(metavar="N", min=1, rich_help_panel=_DESCENT, help="Fit from N starts and keep the best.")
    ] = 1,
    init: Annotated[
        Path | None, typer.Option(metavar="FILE", rich_help_panel=_DESCENT, help="Model file to start from.")
    ] = None,
    relax: Annotated[
        float, typer.Option(metavar="W", rich_help_panel=_DESCENT, help="Over-relaxation: from 1, none, to below 2.")
    ] = 1.8,
    sweep: Annotated[
        Sweep, typer.Option(rich_help_panel=_DESCENT, help="Update factors one by one, or all from one pass (kl).")
    ] = Sweep.AUTO,
    joint: Annotated[
        bool, typer.Option("--joint", rich_help_panel=_DESCENT, help="The same as --sweep joint.")
    ] = False,
    minibatch: Annotated[
        int | None,
        typer.Option(
            metavar="M", min=1, rich_help_panel=_DESCENT, help="Update from M slices of the first axis at a time."
        ),
    ] = None,
    free: Annotated[
        str | None,
        typer.Option(
            metavar="LETTERS", rich_help_panel=_DESCENT, help="transform: refit the factors that carry these letters."
        ),
    ] = None,
    path: Annotated[
        Walk, typer.Option(rich_help_panel=_DESCENT, help="Walk over all cells or over the listed ones.")
    ] = Walk.AUTO,
    dtype: Annotated[
        Dtype, typer.Option(rich_help_panel=_DESCENT, help="Arithmetic on the data.")
    ] = Dtype.AUTO,
    max_memory: Annotated[
        float | None,
        typer.Option(
            metavar="MIB", min=1, rich_help_panel=_DESCENT,
            help="Memory for the matrices of a pass, in MiB; a quarter of the machine's if not given.",
        ),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(metavar="FILE", rich_help_panel=_OUTPUT, help="predict: a table of cells; - is a pipe."),
    ] = None,
    slice_: Annotated[
        str | None,
        typer.Option(
            "--slice", metavar="w=3,h=8", rich_help_panel=_OUTPUT,
            help="predict: all cells with these indices or labels."
        ),
    ] = None,
    raw_scale: Annotated[
        bool, typer.Option("--raw-scale", rich_help_panel=_OUTPUT, help="Leave the columns' scale as it came out.")
    ] = False,
    output: options.Output = options.STDOUT,
    format: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="FORMAT", rich_help_panel=_OUTPUT,
            help="fit, transform: npz (the default) or tsv. predict: tsv (the default) or npy.",
        ),
    ] = None,
    json: options.Json = False,
    plot: options.Plot = None,
    checkpoint: options.Checkpoint = None,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="FILE", rich_help_panel=options.COMMON, help="Go on from the state in this checkpoint."),
    ] = None,
    time_limit: options.TimeLimit = None,
    trace: options.Trace = None,
    seed: options.Seed = 0,
    threads: options.Threads,
    device: options.Device = "auto",
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    progress: options.Progress = None,
) -> None:  # fmt: skip
    """Factorize a tensor of counts or intensities into nonnegative parts, along any einsum, under any divergence.

    The letters after -> are the axes of the data, all others are latent:

        icml nneinfact fit 'wr,hr,dr,ikr,jkr->whdij' uber_pickups.npz -k r=10,k=6 --holdout 0.1 -o uber.model.npz
        icml nneinfact predict uber.model.npz --slice w=3,h=8
    """
    values = dict(locals())
    given = {name for name in values if _is_given(ctx, name)}
    _check_applies(ctx, action, given)
    if plot is not None:
        from icml.tools.nneinfact.plot import require_matplotlib

        require_matplotlib()
    import numpy as np

    from icml.cli.progress import Reporter
    from icml.tools.nneinfact.actions import ACTIONS
    from icml.tools.nneinfact.task import Task, together

    task = Task(
        **{field.name: values[field.name] for field in fields(Task) if field.name in values}, given=given
    )
    task.check()
    with together(task) as (mine, ranks):
        report = Reporter(
            "nneinfact",
            quiet=quiet or mine.follows,
            verbose=verbose,
            progress=False if mine.follows else progress,
        )
        with np.errstate(all="ignore"):  # what is not finite is looked for, and said in the tool's own words
            ACTIONS[action.value](mine, _Session(report, mine), ranks)


@dataclass(frozen=True)
class _Session:
    """The command line's side of a run: what is said to people, and what may end it."""

    report: Reporter
    task: Task

    @contextmanager
    def anytime(self, text: str, total: float | None = None) -> Iterator[tuple[Anytime, ProgressLine]]:
        """A block that signals and the time limit end with the best so far; it ends the process."""
        from icml.cli.anytime import Anytime

        with (
            Anytime(time_limit=self.task.time_limit, trace=self.task.trace) as run,
            self.report.progress(text, total=total) as line,
        ):
            yield run, line
            run.finish()


def _check_applies(ctx: typer.Context, action: Action, given: set[str]) -> None:
    for name in sorted(given & set(_APPLIES)):
        if action not in _APPLIES[name]:
            flag = next((opt for p in ctx.command.params if p.name == name for opt in p.opts), name)
            raise InputError(f"{flag if flag.startswith('-') else 'DATA'} is not for '{action}'")


def _is_given(ctx: typer.Context, name: str) -> bool:
    source = ctx.get_parameter_source(name)
    return source is not None and source.name not in ("DEFAULT", "DEFAULT_MAP")
