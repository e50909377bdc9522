"""What test_sharded.py runs, alone or in several processes: `sharded_fits.py FOLDER` fits all cases, writes rank N's
results to FOLDER/case.N.npz."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from icml.formats.errors import IcmlError
from icml.tools.nneinfact import Checkpoint, NNEinFact, load_checkpoint, save_checkpoint, select
from icml.tools.nneinfact.sharded import Ranks, ranks_from_environment

MODEL, SIZES = "wr,hr,ikr,jkr->whij", "r=3,k=2"
PAIRS = [(1, 0), (1, 1), (0.5, 0.5), (0.7, 0.5), (1, -1), (0, 1), (0, 0.5)]
SHAPE = (9, 5, 8, 11)
REFUSED = "refused"


def counts(shape: tuple[int, ...] = SHAPE) -> Any:
    rng = np.random.default_rng(0)
    return np.where(rng.random(shape) < 0.3, rng.poisson(4.0, shape), 0).astype(float)


def listed(y: Any) -> Any:
    return np.array(np.nonzero(y)), y[y != 0], y.shape


def cases(folder: Path, ranks: Ranks | None) -> Iterator[tuple[str, Callable[[], NNEinFact]]]:
    """Names and fits; the same in every process."""

    def made(pair: tuple[float, float] = (1, 0), **options: Any) -> NNEinFact:
        return NNEinFact(
            MODEL,
            SIZES,
            *pair,
            **{"max_iter": 8, "tol": 0, "dtype": "float64", "threads": 1, "ranks": ranks, **options},
        )

    y = counts()
    positive = y + 0.5
    mapped = np.load(folder / "y.npy", mmap_mode="r")
    rng = np.random.default_rng(1)
    mask, weights = rng.random(SHAPE) < 0.8, rng.random(SHAPE[1:])
    missing = np.array(np.nonzero(~mask))
    for pair in PAIRS:
        data = y if pair[0] > 0 and sum(pair) > 0 else positive
        yield f"dense {pair}", lambda p=pair, d=data: made(p, path="dense").fit(d)
        yield f"dense held {pair}", lambda p=pair, d=data: made(p, path="dense", holdout=0.2).fit(d, mask)
    for pair in PAIRS[:4]:
        yield f"mapped {pair}", lambda p=pair: made(p, holdout=0.2).fit(mapped)
        yield f"sparse {pair}", lambda p=pair: made(p).fit(listed(y))
        yield f"sparse held {pair}", lambda p=pair: made(p, holdout=0.2).fit(listed(y), missing)
    yield "dense as sparse", lambda: made(path="sparse", holdout=0.1).fit(y)
    yield "weights", lambda: made((0.7, 0.5)).fit(y, weights=weights)
    yield "sparse weights", lambda: made().fit(listed(y), weights=weights)
    yield "float32", lambda: made(dtype="float32", holdout=0.1).fit(y)
    yield "torch", lambda: made((0.7, 0.5), device="torch-cpu", holdout=0.1).fit(y)
    yield "restarts", lambda: made(restarts=3).fit(y)
    gaps = y.copy()
    gaps[0, 1, 2, 3:5] = gaps[8, 0, 0, 0] = np.nan
    gaps[:, 2] = np.nan
    gaps[7] = np.nan
    yield "gaps", lambda: made().fit(gaps)
    yield "short first axis", lambda: made().fit(y[:3])
    lonely = np.zeros(SHAPE)  # all entries in one row: the other process has none
    lonely[4] = y[4]
    yield "lonely", lambda: made().fit(listed(lonely))
    keyed = np.zeros((70, 60, 50))
    keyed[rng.integers(0, 70, 40), rng.integers(0, 60, 40), rng.integers(0, 50, 40)] = 2.0
    yield (
        "keyed",
        lambda: NNEinFact(
            "ur,vr,tr->uvt", "r=3", max_iter=5, tol=0, dtype="float64", ranks=ranks, holdout=2e-4
        ).fit(listed(keyed)),
    )
    yield "fold-in", lambda: made().fit(y).transform(y[:, :, ::-1], "i")
    yield (
        "selected",
        lambda: select([MODEL, "wr,hr,ir,jr->whij"], y, {"r": [2, 3], "k": 2}, made(patience=50))[0].fitted,
    )
    kept: list[Checkpoint] = []
    made(on_checkpoint=kept.append).fit(y)
    if ranks is None:
        save_checkpoint(folder / "single.checkpoint", kept[3])
    resumed = load_checkpoint(folder / "single.checkpoint")
    yield "resumed", lambda: made().fit(y, resume=resumed)


def refusals(ranks: Ranks | None) -> Iterator[tuple[str, Callable[[], object]]]:
    """Fits that fail, each in the part of one process alone."""
    for name, cell, value in (("first", (1, 2, 3, 4), -1.0), ("last", (8, 4, 7, 10), np.inf)):
        bad = counts()
        bad[cell] = value
        yield name, lambda b=bad: NNEinFact(MODEL, SIZES, ranks=ranks).fit(b)
    negative = counts()
    negative[7, 0, 0, 0] = -1
    yield "listed", lambda: NNEinFact(MODEL, SIZES, ranks=ranks).fit(listed(negative))
    yield "nan", lambda: NNEinFact(MODEL, SIZES, ranks=ranks, nan="error").fit(negative * np.nan)
    yield "masked", lambda: NNEinFact(MODEL, SIZES, ranks=ranks).fit(counts(), np.zeros(SHAPE, bool))
    yield "mask", lambda: NNEinFact(MODEL, SIZES, ranks=ranks).fit(counts(), np.ones((2, 2), bool))
    weights = np.ones(SHAPE)
    weights[8, 4, 7, 10] = -1
    yield "weights", lambda: NNEinFact(MODEL, SIZES, ranks=ranks).fit(counts(), weights=weights)


def results(fitted: NNEinFact) -> dict[str, Any]:
    return {
        **{f"factor_{i}": f for i, f in enumerate(fitted.factors_)},
        "history": fitted.history_,
        "held": fitted.heldout_history_,
        "numbers": [fitted.loss_, fitted.null_loss_, fitted.objective_, fitted.passes_, fitted.n_iter_],
        "held_numbers": [
            np.nan if v is None else v for v in (fitted.heldout_loss_, fitted.null_heldout_loss_)
        ],
        "statistics": [float(v) for v in vars(fitted.stats_).values()],
        "words": [*fitted.notes_, fitted.path_, fitted.reason_, str(fitted.plan_)],
    }


def stopped(ranks: Ranks, rank: int) -> NNEinFact:
    """A fit that one process alone is told to stop."""
    began = time.monotonic()
    return NNEinFact(
        MODEL,
        SIZES,
        ranks=ranks,
        tol=0,
        max_iter=10**7,
        should_stop=lambda: ranks.rank == rank and time.monotonic() > began + 0.3,
    ).fit(counts())


def limited(ranks: Ranks) -> NNEinFact:
    """A fit whose processes have different ideas of the time."""
    limit = 0.3 if ranks.first else 30.0
    return NNEinFact(MODEL, SIZES, ranks=ranks, tol=0, max_iter=10**7, time_limit=limit).fit(counts())


def main(folder: Path) -> None:
    ranks = ranks_from_environment()
    assert (ranks is None) == ("RANK" not in os.environ)
    rank = 0 if ranks is None else ranks.rank
    for name, fit in cases(folder, ranks):
        np.savez(folder / f"{name}.{rank}.npz", **results(fit()))
    said = {}
    for name, fit in refusals(ranks):
        try:
            fit()
        except IcmlError as error:
            said[name] = [str(error), error.exit_code]
    (folder / f"{REFUSED}.{rank}.json").write_text(json.dumps(said))
    if ranks is not None:
        for name, end in (("stop 0", lambda: stopped(ranks, 0)), ("stop 1", lambda: stopped(ranks, 1))):
            np.savez(folder / f"{name}.{rank}.npz", **results(end()))
        np.savez(folder / f"limit.{rank}.npz", **results(limited(ranks)))
        ranks.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
