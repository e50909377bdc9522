"""What is asked of `icml nneinfact`, checked as far as it can be without reading anything."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from icml.formats.errors import InputError

if TYPE_CHECKING:
    from icml.tools.nneinfact.estimator import NNEinFact
    from icml.tools.nneinfact.inputs import Reading
    from icml.tools.nneinfact.sharded import Ranks

STDIN = STDOUT = "-"


@dataclass(frozen=True)
class Task:
    """What was asked for; the names are those of the options."""

    action: str
    model: str
    data: str
    input_format: str
    key: str | None
    columns: str | None
    shape: str | None
    names: str
    labels: str | None
    mask: str | None
    weights: str | None
    nan: str
    k: str
    loss: str | None
    alpha: float | None
    beta: float | None
    l1: float
    prior_shape: float
    prior_rate: float
    holdout: float | None
    max_iter: int
    tol: float
    patience: int
    restarts: int
    init: Path | None
    relax: float
    sweep: str
    joint: bool
    minibatch: int | None
    free: str | None
    path: str
    dtype: str
    max_memory: float | None
    at: str | None
    slice_: str | None
    raw_scale: bool
    output: str
    format: str | None
    json: bool
    plot: Path | None
    checkpoint: Path | None
    resume: Path | None
    time_limit: float | None
    trace: Path | None
    seed: int
    threads: int
    device: str
    given: set[str]
    follows: bool = False
    """Whether another process of the same run does the writing."""

    def check(self) -> None:
        """Refuses what can be refused without reading anything.

        Raises:
            InputError: options that do not go together, two inputs from one pipe, or binary output to a terminal.
        """
        allowed = {"predict": ("tsv", "npy"), "select": ()}.get(self.action, ("npz", "tsv"))
        if self.format is not None and self.format not in allowed:
            raise InputError(f"--format for '{self.action}' is {' or '.join(allowed)}, got {self.format!r}")
        if (self.alpha is None) != (self.beta is None):
            raise InputError("--alpha and --beta go together")
        if self.loss is not None and self.alpha is not None:
            raise InputError("give --loss, or --alpha and --beta")
        if self.joint and self.sweep == "block":
            raise InputError("--joint is --sweep joint; it cannot be block")
        if self.holdout is not None and not 0 < self.holdout < 1:
            raise InputError(f"--holdout must lie between 0 and 1, got {self.holdout:g}")
        piped = [name for name, place in self.inputs() if place == STDIN]
        if len(piped) > 1:
            raise InputError(f"{' and '.join(piped)} cannot both come from standard input")
        if piped and sys.stdin.isatty() and not {"model", "data", "at"} & self.given:
            raise InputError("no file given and nothing piped in")
        binary = self.format_out() != "tsv" and self.action != "select" and not self.json
        if binary and self.output == STDOUT and sys.stdout.isatty():
            raise InputError(
                "binary output is not for a terminal; redirect it or name a file with -o", "stdout"
            )

    def format_out(self) -> str:
        """The format of the result."""
        return self.format or ("tsv" if self.action == "predict" else "npz")

    def reading(self, letters: str) -> Reading:
        """How files are read."""
        from icml.tools.nneinfact.inputs import Reading, parse_labels, parse_shape

        columns = None if self.columns is None else [c.strip() for c in self.columns.split(",")]
        sizes = {} if self.shape is None else parse_shape(self.shape, letters)
        labels = {} if self.labels is None else parse_labels(self.labels)
        named = self.names.replace(",", "").replace(" ", "")
        return Reading(self.input_format, self.key, columns, sizes, named, labels, self.nan, self.threads)

    def descent(self, ranks: Ranks | None) -> dict[str, Any]:
        """The options of every fit, as `NNEinFact` takes them."""
        return {
            "max_iter": self.max_iter, "tol": self.tol, "relax": self.relax, "l1": self.l1,
            "sweep": "joint" if self.joint else str(self.sweep), "prior_shape": self.prior_shape,
            "prior_rate": self.prior_rate, "seed": self.seed, "dtype": str(self.dtype), "path": str(self.path),
            "threads": self.threads, "nan": str(self.nan), "device": self.device, "ranks": ranks,
            "max_memory": None if self.max_memory is None else self.max_memory * 2**20,
        }  # fmt: skip

    def estimator(self, model: str, sizes: dict[str, int], ranks: Ranks | None) -> NNEinFact:
        """A new estimator."""
        from icml.tools.nneinfact.estimator import NNEinFact

        if self.alpha is not None and self.beta is not None:
            loss: dict[str, Any] = {"alpha": self.alpha, "beta": self.beta}
        else:
            loss = {"loss": self.loss or "kl"}
        return NNEinFact(
            model, sizes, **loss, **self.descent(ranks), holdout=self.holdout, patience=self.patience,
            restarts=self.restarts, minibatch=self.minibatch, raw_scale=self.raw_scale,
        )  # fmt: skip

    def inputs(self) -> list[tuple[str, str | None]]:
        """The files to read, by what they are called on the command line."""
        model = ("MODEL", self.model if self.action != "fit" else None)
        data = ("DATA", self.data if self.action != "predict" else None)
        return [model, data, ("--at", self.at), ("--mask", self.mask), ("--weights", self.weights)]


@contextmanager
def together(task: Task) -> Iterator[tuple[Task, Ranks | None]]:
    """What this process is to do, and the processes it does it with: those that torchrun has started.

    Raises:
        InputError: the data come from a pipe, which cannot be shared out.
    """
    if task.action == "predict" or os.environ.get("WORLD_SIZE", "1").strip() in ("", "1"):
        yield task, None
        return
    from icml.tools.nneinfact.sharded import ranks_from_environment

    piped = [name for name, place in task.inputs() if place == STDIN]
    if piped:
        raise InputError(f"{piped[0]} must be a file where several processes share the work")
    ranks = ranks_from_environment()
    if ranks is None:
        yield task, None
        return
    with ranks:
        if not ranks.first:
            task = replace(
                task, follows=True, output=os.devnull, json=False, plot=None, checkpoint=None, trace=None
            )
        yield task, ranks
