"""Structure search: every candidate model is fitted to the same observed cells and ranked by the same held-out ones."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import ArrayLike

from icml.formats.errors import InputError
from icml.tools.nneinfact.dense_data import DenseData
from icml.tools.nneinfact.estimator import NNEinFact
from icml.tools.nneinfact.model import Model
from icml.tools.nneinfact.sparse_data import SparseData

HOLDOUT = 0.1


@dataclass(frozen=True)
class Candidate:
    """One model of a search.

    Attributes:
        model, sizes: what was fitted; sizes of the latent letters.
        parameters: number of parameters.
        heldout_loss, loss: mean divergence over the held-out and over the observed cells.
        null_heldout_loss: that of the best constant.
        iterations: sweeps. seconds: time of the fit.
        fitted: the model itself.
    """

    model: str
    sizes: dict[str, int]
    parameters: int
    heldout_loss: float
    loss: float
    null_heldout_loss: float
    iterations: int
    seconds: float
    fitted: NNEinFact


def select(
    models: Sequence[str],
    y: Any,
    grid: Mapping[str, int | Sequence[int]],
    template: NNEinFact,
    *,
    mask: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    on_result: Callable[[Candidate], None] | None = None,
) -> list[Candidate]:
    """Fits every model at every combination of latent sizes; best held-out loss first.

    Args:
        models: model strings with the same observed letters.
        y, mask, weights: as for `NNEinFact.fit`; what `NNEinFact.load` gave must have cells held out.
        grid: for each latent letter one size, or several to try; letters a model lacks are passed over.
        template: supplies all other options; its hold-out share defaults to 0.1. Its time limit is for each fit.
        on_result: called with each candidate as it is done.

    Raises:
        InputError: no model, one that cannot be parsed, or models of different data.
    """
    todo = jobs(models, grid)
    holdout = template.holdout if template.holdout is not None else HOLDOUT
    data = y
    if not isinstance(y, DenseData | SparseData):
        first = replace(template, model=todo[0][0].text, sizes={}, holdout=holdout)
        data = first.load(y, mask, weights, holdout=holdout)
    done: list[Candidate] = []
    for model, sizes in todo:
        if done and template.should_stop is not None and template.should_stop():
            break
        began = time.monotonic()
        fitted = replace(template, model=model.text, sizes=sizes, holdout=holdout).fit(data)
        if fitted.heldout_loss_ is None or fitted.null_heldout_loss_ is None:
            raise InputError("no cell was held out: the data are too few for the held-out share")
        done.append(
            Candidate(
                model.text,
                sizes,
                model.parameters(fitted.all_sizes()),
                fitted.heldout_loss_,
                fitted.loss_,
                fitted.null_heldout_loss_,
                fitted.n_iter_,
                time.monotonic() - began,
                fitted,
            )
        )
        if on_result is not None:
            on_result(done[-1])
    return sorted(done, key=lambda c: c.heldout_loss)


def jobs(
    models: Sequence[str], grid: Mapping[str, int | Sequence[int]]
) -> list[tuple[Model, dict[str, int]]]:
    """What there is to fit: every model at every combination of its latent sizes.

    Raises:
        InputError: no model, one that cannot be parsed, models of different data, or a latent letter without size.
    """
    parsed = [Model.parse(text) for text in models]
    if not parsed:
        raise InputError("no model to choose from")
    other = next((m for m in parsed if m.output != parsed[0].output), None)
    if other is not None:
        raise InputError(f"models {parsed[0].text!r} and {other.text!r} are not of the same observed letters")
    return [(model, sizes) for model in parsed for sizes in _combinations(model, grid)]


def _combinations(model: Model, grid: Mapping[str, int | Sequence[int]]) -> list[dict[str, int]]:
    """All choices of latent sizes, the last letter varying fastest."""
    choices: list[list[int]] = []
    for letter in model.latent:
        if letter not in grid:
            raise InputError(
                f"latent letter {letter!r} of {model.text!r} has no size; give one, as in {letter}=10"
            )
        given = grid[letter]
        choices.append([given] if isinstance(given, int) else list(given))
    return [dict(zip(model.latent, sizes, strict=True)) for sizes in itertools.product(*choices)]
