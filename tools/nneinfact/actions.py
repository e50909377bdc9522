"""What each action of `icml nneinfact` does with files: read, call the API, write."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from icml.formats.errors import InputError
from icml.formats.output import write_json
from icml.tools.nneinfact.task import STDOUT, Task

if TYPE_CHECKING:
    from icml.tools.nneinfact.control import Checkpoint
    from icml.tools.nneinfact.estimator import NNEinFact
    from icml.tools.nneinfact.inputs import Observations, Reading
    from icml.tools.nneinfact.model import Model
    from icml.tools.nneinfact.selection import Candidate
    from icml.tools.nneinfact.sharded import Ranks

CHECKPOINT_SECONDS = 60.0
"""At least so long lies between two checkpoints of a run that nobody stops."""


class Report(Protocol):
    """Says things to people."""

    def say(self, text: str) -> None: ...
    def detail(self, text: str) -> None: ...
    def warn(self, text: str) -> None: ...
    def summary(self, rows: Any) -> None: ...


class Run(Protocol):
    """A run that may be told to end."""

    interrupted: Any

    def should_stop(self) -> bool: ...
    def record(self, progress: Mapping[str, Any] | None = None, /, **figures: Any) -> None: ...


class Line(Protocol):
    """Shows how far the work is."""

    def update(
        self, done: float | None = None, total: float | None = None, text: str | None = None
    ) -> None: ...


class Session(Protocol):
    """Whoever asked for the action."""

    @property
    def report(self) -> Report: ...
    def anytime(self, text: str, total: float | None = None) -> AbstractContextManager[tuple[Any, Any]]: ...


def fit(task: Task, session: Session, ranks: Ranks | None) -> None:
    """Fits a model to data."""
    from icml.tools.nneinfact.inputs import about, load, read_data, start_from
    from icml.tools.nneinfact.model import Model, parse_sizes
    from icml.tools.nneinfact.modelfile import load_checkpoint, load_model

    if "model" not in task.given:
        raise InputError("fit needs a model string, such as 'ur,vr->uv'")
    model = Model.parse(task.model)
    sizes = parse_sizes(task.k)
    estimator = task.estimator(model.text, sizes, ranks)
    _check_latent(model, sizes)
    reading = task.reading(model.output)
    saved = None if task.init is None else load_model(task.init)
    resumed = None if task.resume is None else load_checkpoint(task.resume)
    data = read_data(task.data, model, reading)
    estimator.labels = data.labels or None
    init = None
    if saved is not None:
        with about(str(task.init)):
            init = start_from(saved, model, data.labels)
    mask, weights = _read_beside(task, data, reading)
    loaded = load(estimator, data, mask, weights, task.holdout)
    _warn(task, session.report, data)
    del data, mask, weights
    with session.anytime("fitting", total=task.max_iter) as (run, line):
        keeper = _Keeper(task, estimator, run, line, session.report)
        began = time.monotonic()
        try:
            estimator.fit(loaded, init=init, resume=resumed)
        except InputError as error:
            if task.resume is not None and error.message.startswith("the checkpoint"):
                raise InputError(error.message, str(task.resume)) from None
            raise
        _conclude(task, session.report, estimator, time.monotonic() - began)
        keeper.finish(estimator.stopped_)


def transform(task: Task, session: Session, ranks: Ranks | None) -> None:
    """Folds new data into a model."""
    from icml.tools.nneinfact.inputs import about, read_data
    from icml.tools.nneinfact.model import Model
    from icml.tools.nneinfact.modelfile import load_model

    if task.free is None:
        raise InputError("transform needs --free LETTERS: whose factors are to be fitted")
    saved = load_model(task.model)
    model = Model.parse(saved.model)
    unknown = next((c for c in task.free if c not in model.output), None)
    if unknown is not None:
        raise InputError(f"--free: {unknown!r} is not an observed letter of the model {model.text!r}")
    estimator = replace(saved, loss=None, **task.descent(ranks))
    estimator.factors_ = saved.factors_
    sizes = saved.all_sizes()
    known = {c: names for c, names in (saved.labels or {}).items() if c not in task.free}
    fixed = {c: sizes[c] for c in model.output if c not in task.free and c not in known}
    reading = replace(task.reading(model.output), sizes=fixed)
    data = read_data(task.data, model, reading, known)
    mask, weights = _read_beside(task, data, reading)
    _warn(task, session.report, data)
    with session.anytime("fitting", total=task.max_iter) as (run, line):
        keeper = _Keeper(task, estimator, run, line, session.report)
        began = time.monotonic()
        with about(data.source):
            new = estimator.transform(data.values(), task.free, mask, weights)
        new.labels = data.labels or None
        session.report.detail(f"plan: {new.path_}, {new.plan_}")
        _conclude(task, session.report, new, time.monotonic() - began)
        keeper.finish(new.stopped_)


def predict(task: Task, session: Session, ranks: Ranks | None) -> None:
    """Writes values of a model's cells."""
    from icml.tools.nneinfact import outputs
    from icml.tools.nneinfact.inputs import parse_slice, read_cells
    from icml.tools.nneinfact.model import Model
    from icml.tools.nneinfact.modelfile import load_model

    if task.at is not None and task.slice_ is not None:
        raise InputError("give --at or --slice, not both")
    model = load_model(task.model)
    model.threads = task.threads
    if task.at is not None:
        cells = read_cells(task.at, model, task.reading(Model.parse(model.model).output))
        outputs.write_cells(task.output, model, cells, format=task.format_out())
    else:
        fixed = {} if task.slice_ is None else parse_slice(task.slice_, model)
        outputs.write_slice(task.output, model, fixed, format=task.format_out())


def select(task: Task, session: Session, ranks: Ranks | None) -> None:
    """Fits every model of a list and ranks them."""
    from icml.tools.nneinfact import selection
    from icml.tools.nneinfact.inputs import load, read_data, read_models
    from icml.tools.nneinfact.model import Model, parse_grid
    from icml.tools.nneinfact.outputs import ranking, write_ranking

    models = read_models(task.model)
    grid = parse_grid(task.k)
    first = Model.parse(models[0])
    reading = task.reading(first.output)
    jobs = selection.jobs(models, grid)
    unknown = next((c for c in grid if not any(c in model.latent for model, _ in jobs)), None)
    if unknown is not None:
        raise InputError(f"-k gives a size for {unknown!r}, which is no latent letter of any of the models")
    data = read_data(task.data, first, reading)
    holdout = selection.HOLDOUT if task.holdout is None else task.holdout
    template = replace(task.estimator(first.text, {}, ranks), holdout=holdout, labels=data.labels or None)
    mask, weights = _read_beside(task, data, reading)
    loaded = load(template, data, mask, weights, holdout)
    _warn(task, session.report, data)
    del data, mask, weights
    with session.anytime("fitting", total=len(jobs)) as (run, line):
        template.should_stop = run.should_stop
        done: list[Candidate] = []

        def tell(candidate: Candidate) -> None:
            done.append(candidate)
            line.update(done=len(done))
            run.record(
                model=candidate.model, sizes=candidate.sizes, heldout_loss=candidate.heldout_loss,
                seconds=candidate.seconds,
            )  # fmt: skip
            session.report.detail(
                f"{candidate.model} {candidate.sizes}: held-out loss {candidate.heldout_loss:.6g}, "
                f"{candidate.iterations} iterations, {candidate.seconds:.3g} s"
            )

        found = selection.select(models, loaded, grid, template, on_result=tell)
        unfinished = done[-1].fitted.stopped_
        if unfinished or len(done) < len(jobs):
            last = ", the last one unfinished" if unfinished else ""
            session.report.say(f"stopped after {len(done)} of {len(jobs)} fits{last}")
        if task.json:
            rows = [
                {**row, "sizes": c.sizes, "seconds": c.seconds}
                for row, c in zip(ranking(found), found, strict=True)
            ]
            write_json(task.output, {"holdout": holdout, "seed": task.seed, "models": rows})
        else:
            write_ranking(task.output, found)


ACTIONS: dict[str, Callable[[Task, Session, Ranks | None], None]] = {
    "fit": fit,
    "predict": predict,
    "transform": transform,
    "select": select,
}


class _Keeper:
    """Watches a fit: shows how it goes, and keeps the state to resume from."""

    def __init__(self, task: Task, estimator: NNEinFact, run: Run, line: Line, report: Report) -> None:
        self._task, self._run, self._line, self._report = task, run, line, report
        self._estimator = estimator
        self._last: Checkpoint | None = None
        self._next = time.monotonic() + CHECKPOINT_SECONDS
        self._planned = False
        estimator.should_stop = run.should_stop
        estimator.on_progress = self._progress
        estimator.on_checkpoint = self._checkpoint if task.checkpoint is not None else None

    def finish(self, stopped: bool) -> None:
        """Saves the state of a fit that was ended from outside."""
        if not stopped:
            return
        saved = ""
        if self._task.checkpoint is not None and self._last is not None:
            self._save(self._last)
            saved = f"; go on with --resume {self._task.checkpoint}"
        self._report.say(f"stopped before the fit was done{saved}")

    def _progress(self, figures: dict[str, Any]) -> None:
        if not self._planned and hasattr(self._estimator, "plan_"):
            self._planned = True
            self._report.detail(f"plan: {self._estimator.path_}, {self._estimator.plan_}")
        self._line.update(done=figures["iteration"], text=f"loss {figures['loss']:.6g}")
        self._run.record(figures)

    def _checkpoint(self, checkpoint: Checkpoint) -> None:
        self._last = checkpoint
        if time.monotonic() >= self._next:
            self._save(checkpoint)
            self._next = time.monotonic() + CHECKPOINT_SECONDS

    def _save(self, checkpoint: Checkpoint) -> None:
        from icml.tools.nneinfact.modelfile import save_checkpoint

        assert self._task.checkpoint is not None
        save_checkpoint(self._task.checkpoint, checkpoint)


def _conclude(task: Task, report: Report, fitted: NNEinFact, seconds: float) -> None:
    """Writes a fitted model and says what came of it."""
    from icml.tools.nneinfact.modelfile import save_model
    from icml.tools.nneinfact.outputs import write_factors
    from icml.tools.nneinfact.report import figures, summary

    for note in fitted.notes_:
        report.say(f"note: {note}")
    report.detail(
        f"path: {fitted.path_} on {fitted.device_}, {fitted.dtype_}; {fitted.passes_} passes, {seconds:.3g} s"
    )
    report.summary(summary(fitted))
    if not (task.json and task.output == STDOUT):
        if task.format_out() == "tsv":
            write_factors(task.output, fitted)
        else:
            save_model(task.output, fitted)
    if task.json:
        write_json(STDOUT, figures(fitted, seconds))
    if task.plot is not None:
        from icml.tools.nneinfact.plot import plot_model

        plot_model(fitted, task.plot)


def _warn(task: Task, report: Report, data: Observations) -> None:
    """Says what looks wrong about the data, once for all processes."""
    for note in [] if task.follows else data.notes:
        report.warn(note)


def _read_beside(task: Task, data: Observations, reading: Reading) -> tuple[Any, Any]:
    """The mask and the weights."""
    from icml.tools.nneinfact.inputs import read_mask, read_weights

    mask = None if task.mask is None else read_mask(task.mask, data, reading)
    weights = None if task.weights is None else read_weights(task.weights, data, reading)
    return mask, weights


def _check_latent(model: Model, sizes: Mapping[str, int]) -> None:
    """Refuses sizes that cannot be right before any data are read."""
    for letter in model.latent:
        if letter not in sizes:
            raise InputError(
                f"latent letter {letter!r} of {model.text!r} has no size; give one, as in -k {letter}=10"
            )
    unknown = next((c for c in sizes if c not in model.letters), None)
    if unknown is not None:
        raise InputError(f"-k gives a size for {unknown!r}, which is no letter of the model {model.text!r}")
