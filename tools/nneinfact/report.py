"""A fit in figures: for people and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from icml.tools.nneinfact.model import Model

if TYPE_CHECKING:
    from icml.tools.nneinfact.estimator import NNEinFact


def figures(fitted: NNEinFact, seconds: float) -> dict[str, Any]:
    """The figures of a fit, in the order that the manual documents."""
    model, stats = Model.parse(fitted.model), fitted.stats_
    sizes = fitted.all_sizes()
    return {
        "model": model.text,
        "sizes": {c: sizes[c] for c in model.letters},
        "alpha": fitted.alpha,
        "beta": fitted.beta,
        "parameters": model.parameters(sizes),
        "cells": stats.cells,
        "nnz": stats.nonzeros,
        "density": stats.density,
        "missing": stats.missing,
        "loss": fitted.loss_,
        "heldout_loss": fitted.heldout_loss_,
        "null_loss": fitted.null_loss_,
        "null_heldout_loss": fitted.null_heldout_loss_,
        "iterations": fitted.n_iter_,
        "best_iteration": fitted.best_iter_,
        "converged": fitted.converged_,
        "reason": fitted.reason_,
        "path": fitted.path_,
        "device": fitted.device_,
        "dtype": fitted.dtype_,
        "passes": fitted.passes_,
        "seconds": seconds,
        "seconds_per_pass": seconds / max(fitted.passes_, 1),
        "seed": fitted.seed,
    }


def summary(fitted: NNEinFact) -> list[tuple[str, str | int | float | None]]:
    """The same for people."""
    model, stats = Model.parse(fitted.model), fitted.stats_
    sizes = fitted.all_sizes()
    shape = " x ".join(str(sizes[c]) for c in model.output)
    rows: list[tuple[str, str | int | float | None]] = [
        ("model", f"{model.text}, {model.parameters(sizes)} parameters"),
        (
            "data",
            f"{shape} = {stats.cells} cells, {100 * stats.density:.3g} % not zero{_missing(stats.missing)}",
        ),
        ("loss", f"{fitted.loss_:.6g}, of the best constant {fitted.null_loss_:.6g}"),
    ]
    if fitted.heldout_loss_ is not None and fitted.null_heldout_loss_ is not None:
        rows.append(
            (
                "held-out loss",
                f"{fitted.heldout_loss_:.6g}, of the best constant {fitted.null_heldout_loss_:.6g}",
            )
        )
    best = f", best at {fitted.best_iter_}" if fitted.best_iter_ != fitted.n_iter_ else ""
    rows.append(("iterations", f"{fitted.n_iter_} ({_REASONS.get(fitted.reason_, fitted.reason_)}{best})"))
    return rows


_REASONS = {
    "converged": "converged",
    "patience": "the held-out loss no longer fell",
    "max_iter": "the most allowed",
    "stopped": "stopped",
}


def _missing(count: int) -> str:
    return f", {count} missing" if count else ""
