"""The choice of engine for a data set: sparse where cost O(entries) is to be had, dense tiles elsewhere."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from icml.formats.errors import InputError
from icml.tools.nneinfact.dense_data import DenseData
from icml.tools.nneinfact.dense_engine import DenseEngine
from icml.tools.nneinfact.device import choose_device
from icml.tools.nneinfact.engine import Engine, Kernel, make_floor
from icml.tools.nneinfact.losses import Divergence
from icml.tools.nneinfact.model import Model
from icml.tools.nneinfact.sparse_data import SparseData, sparse_from_dense
from icml.tools.nneinfact.sparse_engine import SparseEngine
from icml.tools.nneinfact.split import Plan, memory_limit, plan

if TYPE_CHECKING:
    from icml.tools.nneinfact.sharded import Ranks

ENTRY_COST = 8
"""What a listed entry costs on the sparse path, in dense cells."""
LISTED_BYTES = 40
"""What it takes of memory at most."""
LISTED_SHARE = 0.1
"""Data that are in memory are listed beside that if the list takes no more than this share of them."""


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
        device: "auto", "cpu", "cuda", "cuda:N"; see `choose_device`.
        ranks: the processes that share the data, or None.
    """

    model: Model
    divergence: Divergence
    latent: dict[str, int]
    dtype: str = "auto"
    path: str = "auto"
    threads: int = 1
    max_memory: float | None = None
    device: str = "cpu"
    ranks: Ranks | None = None


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
    sizes = setup.model.bind(data.whole_shape, setup.latent)
    kernel = Kernel(d, choose_dtype(setup.dtype, d, data), setup.threads, make_floor(data.stats), poll)
    ranks = setup.ranks
    max_memory = setup.max_memory if ranks is None else ranks.least(memory_limit(setup.max_memory))
    nnz = None
    if not keep_dense and _takes_sparse_path(setup, data):
        data = sparse_from_dense(data) if isinstance(data, DenseData) else data
        nnz = len(data.flat) + len(data.excluded)
        nnz = nnz if ranks is None else int(ranks.total(nnz))
    whole = plan(setup.model, sizes, nnz=nnz, max_memory=max_memory)
    work = (data.stats.cells if nnz is None else nnz) * whole.rank
    device = choose_device(setup.device, work, ranks.local_rank if ranks is not None else 0)
    if ranks is None or data.part is None:
        return _local_engine(whole, kernel, data, device, sparse=nnz is not None)
    from icml.tools.nneinfact.sharded import ShardedEngine

    letter = setup.model.output[data.part.axis]
    mine = replace(whole, sizes={**whole.sizes, letter: data.shape[data.part.axis]})
    local = _local_engine(mine, kernel, data, device, sparse=nnz is not None)
    return ShardedEngine(whole, local, letter, data.part, ranks)


def _local_engine(
    plan: Plan, kernel: Kernel, data: DenseData | SparseData, device: str, *, sparse: bool
) -> Engine:
    """The engine of this process."""
    if sparse:
        assert isinstance(data, SparseData)
        if device == "cpu":
            return SparseEngine(plan, kernel, data)
        from icml.tools.nneinfact.torch_sparse import TorchSparseEngine

        return TorchSparseEngine(plan, kernel, data, device=device)
    if device == "cpu":
        return DenseEngine(plan, kernel, data)
    from icml.tools.nneinfact.torch_pass import TorchDenseEngine

    return TorchDenseEngine(plan, kernel, data, device=device)


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
        listed = stats.nonzeros + stats.cells - stats.weight  # held-out and missing cells are listed too
        possible = listed < 2**31 and (setup.path == "sparse" or not data.mapped)
        small = listed * LISTED_BYTES <= LISTED_SHARE * stats.cells * data.array.itemsize
        worth = small and listed * ENTRY_COST < stats.cells
    else:
        worth = True
    if setup.path == "sparse" and not possible:
        raise InputError(
            "the sparse path needs alpha + beta = 1 or 2, alpha > 0 and no weights; leave the path to be chosen"
        )
    return possible and setup.path != "dense" and (worth or setup.path == "sparse")
