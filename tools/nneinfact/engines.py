"""The choice of engine for a data set: sparse where cost O(entries) is to be had, dense tiles elsewhere."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from icml.formats.errors import InputError
from icml.tools.nneinfact.dense_data import DenseData
from icml.tools.nneinfact.dense_engine import DenseEngine
from icml.tools.nneinfact.engine import Engine, Kernel, make_floor
from icml.tools.nneinfact.losses import Divergence
from icml.tools.nneinfact.model import Model
from icml.tools.nneinfact.sparse_data import SparseData, sparse_from_dense
from icml.tools.nneinfact.sparse_engine import SparseEngine
from icml.tools.nneinfact.split import plan

ENTRY_COST = 8
"""What a listed entry costs on the sparse path, in dense cells."""


@dataclass(frozen=True)
class Setup:
    """What an engine is made for.

    Attributes:
        model, divergence: the factorization and its loss.
        latent: sizes of the latent letters.
        dtype: "auto", "float32" or "float64".
        path: "auto", "dense" or "sparse".
        threads: number of threads.
        max_memory: bytes for the plan's matrices, or None.
    """

    model: Model
    divergence: Divergence
    latent: dict[str, int]
    dtype: str = "auto"
    path: str = "auto"
    threads: int = 1
    max_memory: float | None = None


def make_engine(
    setup: Setup, data: DenseData | SparseData, poll: Callable[[], None], *, keep_dense: bool = False
) -> Engine:
    """The engine for `data`.

    Raises:
        InputError: an unknown dtype or path, a path that the data or the divergence do not allow, or a plan that does
            not fit into the memory allowed.
    """
    if setup.path not in ("auto", "dense", "sparse"):
        raise InputError(f"path must be auto, dense or sparse, got {setup.path!r}")
    d = setup.divergence
    sizes = setup.model.bind(data.shape, setup.latent)
    kernel = Kernel(d, choose_dtype(setup.dtype, d, data), setup.threads, make_floor(data.stats), poll)
    if not keep_dense and _takes_sparse_path(setup, data):
        listed = sparse_from_dense(data) if isinstance(data, DenseData) else data
        entries = len(listed.flat) + len(listed.excluded)
        return SparseEngine(
            plan(setup.model, sizes, nnz=entries, max_memory=setup.max_memory), kernel, listed
        )
    return DenseEngine(plan(setup.model, sizes, max_memory=setup.max_memory), kernel, data)


def choose_dtype(wanted: str, d: Divergence, data: DenseData | SparseData) -> np.dtype[Any]:
    """float32 unless asked otherwise, or unless powers would leave its range or differences its precision."""
    if wanted in ("float32", "float64"):
        return np.dtype(wanted)
    if wanted != "auto":
        raise InputError(f"dtype must be auto, float32 or float64, got {wanted!r}")
    small = [abs(e) for e in (d.alpha, d.beta, d.order) if e != 0]
    near_limit = bool(small) and min(small) < 0.05
    mean, most = data.stats.mean, data.stats.largest
    reach = max((abs(math.log10(v)) for v in (most, mean, 1e-12 * mean) if v > 0), default=0.0)
    steepest = max(abs(d.beta - 1), abs(d.order - 1), abs(d.alpha), abs(d.order), 1.0)
    beyond = reach * (steepest if d.alpha == 1 and d.beta in (0.0, 1.0) else steepest + 0.5) > 35
    return np.dtype(np.float64 if near_limit or beyond else np.float32)


def _takes_sparse_path(setup: Setup, data: DenseData | SparseData) -> bool:
    d = setup.divergence
    possible = d.order in (1.0, 2.0) and d.admits_zeros and data.weights is None
    if isinstance(data, DenseData) and possible:
        stats = data.stats
        listed = stats.nonzeros + (stats.cells - stats.weight if data.observed is not None else 0)
        possible = listed < 2**31 and (setup.path == "sparse" or not data.mapped)
        worth = listed * ENTRY_COST < stats.cells
    else:
        worth = True
    if setup.path == "sparse" and not possible:
        raise InputError(
            "the sparse path needs alpha + beta = 1 or 2, alpha > 0 and no weights; leave the path to be chosen"
        )
    return possible and setup.path != "dense" and (worth or setup.path == "sparse")
