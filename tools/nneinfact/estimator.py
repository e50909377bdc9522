"""`NNEinFact`: fit, predict, transform, score, as an estimator."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from icml.formats.errors import InputError
from icml.tools.nneinfact.contraction import Array, compile_contraction
from icml.tools.nneinfact.control import Checkpoint, Guard
from icml.tools.nneinfact.coverage import empty_note, observed_counts
from icml.tools.nneinfact.data import Holdout
from icml.tools.nneinfact.dense_data import DenseData
from icml.tools.nneinfact.engine import Engine
from icml.tools.nneinfact.engines import Setup, make_engine
from icml.tools.nneinfact.fit import Descent, Options, Progress, State, normalized, rescaled_to_mean, start
from icml.tools.nneinfact.loading import load_data
from icml.tools.nneinfact.losses import Divergence
from icml.tools.nneinfact.minibatch import MinibatchDescent
from icml.tools.nneinfact.model import Model, parse_sizes
from icml.tools.nneinfact.null_model import null_losses
from icml.tools.nneinfact.sparse_data import SparseData
from icml.tools.nneinfact.split import KEY

if TYPE_CHECKING:
    from icml.tools.nneinfact.sharded import Ranks

PREDICT_CELLS = 1 << 16
"""Cells whose values are made together."""

Labels = dict[str, list[str]]


@dataclass
class NNEinFact:
    """Nonnegative factorization of a tensor along a model string.

    Args:
        model: the model string, e.g. "wr,hr,dr->whd".
        sizes: sizes of the latent letters, as a mapping or as "r=10,k=6".
        alpha, beta: the divergence; default Kullback-Leibler.
        loss: a named loss instead ("kl", "euclidean", "is", "hellinger", "reverse-kl", "log", "beta:B").
        max_iter, tol, patience, relax, sweep, l1, prior_shape, prior_rate: see `fit.Options`.
        restarts: fits from different starts, of which the best is kept.
        holdout: share of all cells to hold out for validation, drawn with the seed.
        seed: of the starts and of the held-out cells.
        dtype: arithmetic on the data: "float32", "float64", or "auto": float32 unless the divergence needs more.
        path: "dense", "sparse", or "auto".
        threads: default all CPUs this process may use. The result does not depend on it.
        device: "cpu"; "cuda" or "cuda:N" for torch on a GPU; "auto": a GPU if there is one and the work is large.
        ranks: the processes that share the data, as `sharded.ranks_from_environment` gives them; all of them make
            the same calls with the whole data, and all get the same result. None for a process of its own.
        minibatch: slices of the first axis to update from at a time; None for full sweeps.
        max_memory: bytes for the matrices of the plan; default a quarter of the machine's.
        nan: "missing" or "error".
        raw_scale: leave the scale of the factors as the descent has it instead of normalizing columns.
        labels: names along observed letters, carried into the model file.
        time_limit: seconds after which the best so far is returned.
        should_stop: polled at least every 0.2 s; true ends the fit with the best so far.
        on_progress: called after every sweep.
        on_checkpoint: called after every sweep, and at a stop, with the state to resume from.

    Attributes:
        factors_: the fitted factors, float64, in the order of the model.
        loss_: mean divergence of exactly these factors over the observed cells.
        heldout_loss_: the same over the held-out cells; None without any.
        null_loss_, null_heldout_loss_: that of the best constant model.
        objective_: loss plus penalties per cell, before normalization.
        history_: mean loss of the start and after each sweep; `heldout_history_` likewise.
        n_iter_: sweeps. converged_: whether a stop rule other than a limit ended it. reason_: which.
        stopped_: whether the time limit or the caller ended the fit, or one of its restarts.
        plan_: the split in use. path_: dense, sparse or stream. device_: where it was computed.
        notes_: sentences for the user.
    """

    model: str
    sizes: Mapping[str, int] | str = field(default_factory=dict)
    alpha: float = 1.0
    beta: float = 0.0
    loss: str | None = None
    max_iter: int = 500
    tol: float = 1e-6
    patience: int = 10
    restarts: int = 1
    relax: float = 1.8
    sweep: str = "auto"
    l1: float = 0.0
    prior_shape: float = 1.0
    prior_rate: float = 0.0
    holdout: float | None = None
    seed: int = 0
    dtype: str = "auto"
    path: str = "auto"
    threads: int | None = None
    device: str = "auto"
    ranks: Ranks | None = None
    minibatch: int | None = None
    max_memory: float | None = None
    nan: str = "missing"
    raw_scale: bool = False
    labels: Labels | None = None
    time_limit: float | None = None
    should_stop: Callable[[], bool] | None = None
    on_progress: Progress | None = None
    on_checkpoint: Callable[[Checkpoint], None] | None = None

    factors_: list[Array] = field(default_factory=list, init=False, repr=False)
    loss_: float = field(default=float("nan"), init=False, repr=False)

    def __post_init__(self) -> None:
        self._model = Model.parse(self.model)
        self._latent = parse_sizes(self.sizes) if isinstance(self.sizes, str) else dict(self.sizes)
        self._divergence = (
            Divergence.named(self.loss) if self.loss is not None else Divergence(self.alpha, self.beta)
        )
        self.alpha, self.beta = self._divergence.alpha, self._divergence.beta
        self._options = Options(
            self.max_iter,
            self.tol,
            self.patience,
            self.relax,
            self.sweep,
            self.l1,
            self.prior_shape,
            self.prior_rate,
        )
        self._options.check(self._divergence)
        if self.restarts < 1:
            raise InputError(f"restarts must be at least 1, got {self.restarts}")
        if self.holdout is not None and not 0 < self.holdout < 1:
            raise InputError(f"the held-out fraction must lie between 0 and 1, got {self.holdout}")
        if self.nan not in ("missing", "error"):
            raise InputError(f"nan must be missing or error, got {self.nan!r}")
        if self.threads is not None and self.threads < 1:
            raise InputError(f"threads must be at least 1, got {self.threads}")
        if self.minibatch is not None and self.minibatch < 1:
            raise InputError(f"minibatch must be at least 1, got {self.minibatch}")
        if self.minibatch is not None and self.ranks is not None:
            raise InputError("minibatches are for a single process")

    def fit(
        self,
        y: Any,
        mask: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        *,
        init: Sequence[ArrayLike] | None = None,
        resume: Checkpoint | None = None,
    ) -> NNEinFact:
        """Fits the factors.

        Args:
            y: an array, memory-mapped array, torch tensor, scipy.sparse matrix, object with `coords`, `data` and
                `shape`, a tuple (coords, values, shape) with coords of shape (axes, entries), or what `load` gave.
            mask: true where a cell is observed; for sparse data also the (axes, n) indices of cells that are not.
            weights: weight of each cell, broadcastable to the data.
            init: factors to start from; exact zeros stay zero.
            resume: what `on_checkpoint` was last given; the fit goes on to the same bytes.

        Raises:
            InputError: data, mask, weights or init do not fit the model or the divergence.
            WorkError: the loss of the start is not finite.
        """
        data = (
            y if isinstance(y, DenseData | SparseData) else self.load(y, mask, weights, holdout=self.holdout)
        )
        self._check_labels(data.whole_shape)
        guard = Guard(self.time_limit, self.should_stop)
        engine = make_engine(self._setup(), data, guard.poll, keep_dense=self.minibatch is not None)
        self.plan_, self.path_ = engine.plan, engine.path
        first = self._check_init(init, engine)
        checkpoint = resume if resume is not None else Checkpoint()
        checkpoint.claim(self._fingerprint(data))
        self._check_resumed(checkpoint, engine)
        for restart in range(checkpoint.restart, self.restarts):
            if checkpoint.state is None:
                given = (
                    first
                    if restart == 0 and first is not None
                    else start(self._model, engine, (self.seed, restart))
                )
                checkpoint.state = State(given)
            self._descend(engine, checkpoint, guard)
            assert checkpoint.state is not None
            checkpoint = checkpoint.finished(checkpoint.state)
            if guard.stopped:
                break
        assert checkpoint.kept is not None
        self._finish(engine, checkpoint.kept, data)
        self.stopped_ = guard.stopped
        return self

    def load(
        self,
        y: Any,
        mask: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        *,
        holdout: float | None = None,
    ) -> DenseData | SparseData:
        """The data as the engines take them, checked against the divergence; see `fit` for what `y` may be."""
        held = None if holdout is None else Holdout(holdout, self.seed)
        return load_data(
            y, self._divergence, mask=mask, weights=weights, holdout=held, nan=self.nan, ranks=self.ranks
        )

    def predict(self, coords: ArrayLike) -> Array:
        """Values ŷ of cells, given as (axes, n) indices.

        Raises:
            InputError: an index outside the model.
        """
        model, sizes = self._fitted()
        index = np.asarray(coords)
        if (
            index.ndim != 2
            or index.shape[0] != len(model.output)
            or (index.size and index.dtype.kind not in "iu")
        ):
            raise InputError(
                f"cells must be whole numbers of shape ({len(model.output)}, n), got {index.dtype} {index.shape}"
            )
        for letter, row in zip(model.output, index, strict=True):
            bad = np.flatnonzero((row < 0) | (row >= sizes[letter]))
            if len(bad):
                raise InputError(f"cell {bad[0]}: {letter}={row[bad[0]]} is outside 0..{sizes[letter] - 1}")
        out = np.empty(index.shape[1])
        for low in range(0, len(out), PREDICT_CELLS):
            out[low : low + PREDICT_CELLS] = self._cells(index[:, low : low + PREDICT_CELLS])
        return out

    def reconstruct(self, tile: Mapping[str, slice | int | Sequence[int]] | None = None) -> Array:
        """ŷ over all cells, or over the part that `tile` picks along observed letters; an int drops its axis.

        Raises:
            InputError: a letter that is not observed, or an index outside the model.
        """
        model, sizes = self._fitted()
        chosen = dict(tile or {})
        for letter, pick in chosen.items():
            if letter not in model.output:
                raise InputError(f"{letter!r} is not an observed letter of the model {model.text!r}")
            if not isinstance(pick, slice):
                at = np.atleast_1d(np.asarray(pick))
                if at.size and (at.min() < 0 or at.max() >= sizes[letter]):
                    raise InputError(f"{letter}={int(at.max())} is outside 0..{sizes[letter] - 1}")
        parts = []
        for letters, factor in zip(model.factors, self.factors_, strict=True):
            part = factor
            for axis, letter in enumerate(letters):
                if letter in chosen:
                    pick = chosen[letter]
                    index = pick if isinstance(pick, slice) else np.atleast_1d(np.asarray(pick))
                    part = part[(slice(None),) * axis + (index,)]
            parts.append(part)
        now = {
            c: n
            for s, part in zip(model.factors, parts, strict=True)
            for c, n in zip(s, part.shape, strict=True)
        }
        full = compile_contraction(model.factors, model.output, now)(*parts, threads=self._threads())
        return full.reshape(
            [now[c] for c in model.output if not isinstance(chosen.get(c), (int, np.integer))]
        )

    def transform(
        self, y: Any, free: str, mask: ArrayLike | None = None, weights: ArrayLike | None = None
    ) -> NNEinFact:
        """Fold-in: a model of new data in which only the factors that carry a letter of `free` are fitted.

        Raises:
            InputError: `free` names no observed letter, or the data differ in size along another letter.
        """
        model, sizes = self._fitted()
        if not free or not set(free) <= set(model.output):
            raise InputError(f"free letters {free!r} must be observed letters of the model {model.text!r}")
        new = self._like(max_iter=self.max_iter, minibatch=None, holdout=None)
        data = new.load(y, mask, weights)
        bound = model.bind(data.whole_shape, {c: n for c, n in sizes.items() if c not in free})
        new._latent = {c: bound[c] for c in model.latent}
        guard = Guard(self.time_limit, self.should_stop)
        engine = make_engine(new._setup(), data, guard.poll)
        moving = model.carrying(free)
        fresh = start(model, engine, (self.seed, 0))
        factors = [fresh[i] if i in moving else np.array(f) for i, f in enumerate(self.factors_)]
        state = State(rescaled_to_mean(factors, moving, engine))
        with guard:
            Descent(engine, self._options, moving).run(state, on_progress=self.on_progress)
        new.raw_scale = True  # the factors that were given must come back as they are
        new._finish(engine, state, data)
        new.stopped_ = guard.stopped or state.reason == "stopped"
        if self.labels is not None:
            new.labels = {c: names for c, names in self.labels.items() if c not in free}
        return new

    def score(self, y: Any, mask: ArrayLike | None = None, weights: ArrayLike | None = None) -> float:
        """Mean divergence of the model from `y` over its observed cells: lower is better."""
        model, sizes = self._fitted()
        data = self.load(y, mask, weights)
        model.bind(data.whole_shape, sizes)
        engine = make_engine(self._setup(), data, lambda: None)
        return engine.exact_losses(self.factors_).train / data.stats.weight

    def _descend(self, engine: Engine, checkpoint: Checkpoint, guard: Guard) -> None:
        state = checkpoint.state
        assert state is not None

        def after_sweep(_: State) -> None:
            if self.on_checkpoint is not None:
                self.on_checkpoint(checkpoint)

        everything = range(len(self._model.factors))
        with guard:
            descent = (
                Descent(engine, self._options, everything)
                if self.minibatch is None
                else MinibatchDescent(engine, self._options, self.minibatch, self.seed)
            )
            descent.run(state, on_progress=self.on_progress, after_sweep=after_sweep)
        guard.stopped = guard.stopped or state.reason == "stopped"
        if guard.stopped and self.on_checkpoint is not None:
            self.on_checkpoint(checkpoint)

    def _finish(self, engine: Engine, state: State, data: DenseData | SparseData) -> None:
        factors = state.best if state.best else state.factors
        losses = engine.exact_losses(factors)
        stats = data.stats
        self.factors_ = [np.array(f) for f in factors] if self.raw_scale else normalized(self._model, factors)
        self.loss_ = losses.train / stats.weight
        self.heldout_loss_ = losses.held / stats.held_weight if stats.held_weight > 0 else None
        at = state.best_sweep if state.best else state.sweeps
        self.objective_ = state.history[at] if state.history else self.loss_
        self.history_, self.heldout_history_ = list(state.losses), list(state.held_losses)
        if not state.history:  # stopped before the loss of the start was known
            self.history_ = [self.loss_]
            self.heldout_history_ = [] if self.heldout_loss_ is None else [self.heldout_loss_]
        self.n_iter_, self.best_iter_ = state.sweeps, at
        self.reason_, self.converged_ = state.reason, state.reason in ("converged", "patience")
        self.passes_, self.rejected_ = engine.passes, state.rejected
        self.plan_, self.path_, self.dtype_ = engine.plan, engine.path, str(engine.kernel.dtype)
        self.device_ = engine.device
        self.stats_ = stats
        self.notes_ = list(data.notes)
        if self.holdout is not None and stats.held_weight <= 0:
            self.notes_.append(
                f"no cell was held out: {stats.cells} cells are too few for a share of {self.holdout:g}"
            )
        counts = observed_counts(data)
        note = empty_note(counts if self.ranks is None else self.ranks.sum_counts(counts), self._model.output)
        if note is not None:
            self.notes_.append(note)
        null = null_losses(engine)
        self.null_loss_ = null.train / stats.weight
        self.null_heldout_loss_ = null.held / stats.held_weight if stats.held_weight > 0 else None

    def _check_init(self, init: Sequence[ArrayLike] | None, engine: Engine) -> list[Array] | None:
        if init is None:
            return None
        if len(init) != len(self._model.factors):
            raise InputError(f"init has {len(init)} factors, the model {len(self._model.factors)}")
        factors = [np.array(f, np.float64, order="C") for f in init]
        for i, (letters, factor) in enumerate(zip(self._model.factors, factors, strict=True)):
            shape = self._model.shape(i, engine.plan.sizes)
            if factor.shape != shape:
                raise InputError(
                    f"init of factor {letters!r} has shape {factor.shape}, the model needs {shape}"
                )
            if not np.isfinite(factor).all() or factor.min() < 0 or factor.max() == 0:
                raise InputError(f"init of factor {letters!r} must be finite, not negative and not all zero")
        return factors

    def _check_resumed(self, checkpoint: Checkpoint, engine: Engine) -> None:
        shapes = [self._model.shape(i, engine.plan.sizes) for i in range(len(self._model.factors))]
        for state in (checkpoint.state, checkpoint.kept):
            if state is not None and [f.shape for f in (*state.factors, *state.best)] not in (
                shapes,
                shapes * 2,
            ):
                raise InputError("the checkpoint holds factors of other sizes")
        if checkpoint.restart >= self.restarts and checkpoint.kept is None:
            raise InputError("the checkpoint is of a fit that had ended without a result")

    def _cells(self, index: NDArray[np.integer[Any]]) -> Array:
        model, sizes = self._fitted()
        at = dict(zip(model.output, index, strict=True))
        parts, inputs = [], []
        for letters, factor in zip(model.factors, self.factors_, strict=True):
            observed = [c for c in letters if c in at]
            latent = [c for c in letters if c not in at]
            moved = factor.transpose([letters.index(c) for c in observed + latent])
            parts.append(moved[tuple(at[c] for c in observed)] if observed else moved)
            inputs.append((KEY if observed else "") + "".join(latent))
        return compile_contraction(inputs, KEY, {**sizes, KEY: index.shape[1]})(
            *parts, threads=self._threads()
        )

    def all_sizes(self) -> dict[str, int]:
        """Sizes of all letters of the fitted model."""
        return self._fitted()[1]

    def locate(self, letter: str, names: Sequence[str]) -> NDArray[np.int64]:
        """Indices of labels along an observed letter; where the model has no labels, the names are the indices.

        Raises:
            InputError: a label, or index, that the model does not know.
        """
        _, sizes = self._fitted()
        if letter not in self._model.output:
            raise InputError(f"{letter!r} is not an observed letter of the model {self._model.text!r}")
        known = (self.labels or {}).get(letter)
        number = (
            {str(i): i for i in range(sizes[letter])}
            if known is None
            else {n: i for i, n in enumerate(known)}
        )
        unknown = next((name for name in names if name not in number), None)
        if unknown is not None:
            raise InputError(f"the model knows no {letter}={unknown!r}")
        return np.array([number[name] for name in names], np.int64)

    def _check_labels(self, shape: Sequence[int]) -> None:
        for letter, names in (self.labels or {}).items():
            if letter not in self._model.output:
                raise InputError(f"labels are given for {letter!r}, which is not an observed letter")
            size = (
                shape[self._model.output.index(letter)]
                if len(shape) == len(self._model.output)
                else len(names)
            )
            if len(names) != size:
                raise InputError(f"letter {letter!r} has {len(names)} labels but size {size}")

    def _fingerprint(self, data: DenseData | SparseData) -> str:
        """What must be the same for a checkpoint to be resumed."""
        stats = data.stats
        task = (
            self._model.text,
            sorted(self._latent.items()),
            self._divergence,
            replace(self._options, max_iter=0),
        )
        numbers = (self.seed, self.restarts, self.minibatch, stats.nonzeros, stats.sum, stats.weight)
        return repr((*task, *numbers, data.whole_shape))

    def _fitted(self) -> tuple[Model, dict[str, int]]:
        if not self.factors_:
            raise InputError("the model has not been fitted")
        sizes: dict[str, int] = {}
        for letters, factor in zip(self._model.factors, self.factors_, strict=True):
            sizes.update(zip(letters, map(int, factor.shape), strict=True))
        return self._model, sizes

    def _like(self, **changes: Any) -> NNEinFact:
        return replace(self, loss=None, alpha=self.alpha, beta=self.beta, **changes)

    def _threads(self) -> int:
        return self.threads if self.threads is not None else available_threads()

    def _setup(self) -> Setup:
        return Setup(
            self._model,
            self._divergence,
            self._latent,
            self.dtype,
            self.path,
            self._threads(),
            self.max_memory,
            self.device,
            self.ranks,
        )


def available_threads() -> int:
    """CPUs this process may run on, or fewer if OMP_NUM_THREADS says so."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, min(cpus, int(limit))) if limit.isdecimal() and int(limit) > 0 else cpus
