"""One fit by several processes, each of which holds a part of the data: torch.distributed under torchrun or srun.

Numerators, denominators and losses are sums over cells, so every process works out those of its part and the sums are
added up. What travels is of the size of the factors, which every process holds whole and updates alike.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from icml.formats.errors import InputError, MissingError, WorkError
from icml.tools.nneinfact.cells import Part
from icml.tools.nneinfact.contraction import Array
from icml.tools.nneinfact.data import Holdout, check_mask_shape, readable, spread_weights
from icml.tools.nneinfact.dense_data import NOTHING_LEFT, DenseData, load_dense
from icml.tools.nneinfact.engine import Engine, Losses, Memo
from icml.tools.nneinfact.fit import Stopped
from icml.tools.nneinfact.losses import Divergence
from icml.tools.nneinfact.sparse_data import SparseData
from icml.tools.nneinfact.split import Plan

ROWS_EACH = 4
"""Indices that every process should have along the axis that is shared out, if one axis is long enough."""
_NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")

T = TypeVar("T")


class Ranks:
    """The processes of a run. Every method that sends anything must be called by all of them.

    Attributes:
        rank, size: number of this process, and of processes.
        local_rank: number of this process on its machine.
    """

    def __init__(self, rank: int, size: int, local_rank: int = 0) -> None:
        import torch.distributed as dist

        self.rank, self.size, self.local_rank = rank, size, local_rank
        dist.init_process_group("gloo", rank=rank, world_size=size)

    @property
    def first(self) -> bool:
        """Whether this process is the one that writes."""
        return self.rank == 0

    def sum(self, array: Array) -> Array:
        """The sum of the arrays of all processes, the same bytes in each."""
        import torch
        import torch.distributed as dist

        total = torch.from_numpy(np.array(array, np.float64))
        with _lost():
            dist.all_reduce(total)
        return total.numpy()

    def sum_counts(self, counts: list[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
        """The sums of counts along each axis."""
        total = self.sum(np.concatenate(counts).astype(np.float64)).astype(np.int64)
        return np.split(total, np.cumsum([len(c) for c in counts])[:-1])

    def total(self, value: float) -> float:
        """The sum of a number."""
        return float(sum(self.gather(value)))

    def least(self, value: float) -> float:
        """The least of a number."""
        return min(self.gather(value))

    def gather(self, value: T) -> list[T]:
        """The values of all processes, by rank."""
        import torch.distributed as dist

        values: list[Any] = [None] * self.size
        with _lost():
            dist.all_gather_object(values, value)
        return values

    def agree(self, work: Callable[[], T]) -> T:
        """Does the work; input that one process refuses is refused by all.

        Raises:
            InputError: the first one by rank.
        """
        result, error = None, None
        try:
            result = work()
        except InputError as raised:
            error = raised
        first = next((e for e in self.gather(error) if e is not None), None)
        if first is not None:
            raise first
        assert result is not None
        return result

    def close(self) -> None:
        """Ends the connection; nothing can be sent afterwards."""
        import torch.distributed as dist

        if dist.is_initialized():
            dist.destroy_process_group()

    def __enter__(self) -> Ranks:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def _lost() -> Iterator[None]:
    """Says in one sentence that another process has gone."""
    try:
        yield
    except RuntimeError as error:
        raise WorkError("another process of this run has ended") from error


def ranks_from_environment() -> Ranks | None:
    """The run that torchrun, or a batch script, has started this process for; None if it is the only one.

    Reads RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and LOCAL_RANK.

    Raises:
        InputError: some of them are missing or contradict each other.
        MissingError: torch is not installed.
    """
    size = _number("WORLD_SIZE", 1)
    if size == 1:
        return None
    missing = [name for name in _NEEDED if not os.environ.get(name)]
    if missing:
        raise InputError(
            f"WORLD_SIZE is {size}, but {' and '.join(missing)} are not set; start it with torchrun"
        )
    rank = _number("RANK", 0)
    if not 0 <= rank < size:
        raise InputError(f"RANK is {rank}, of WORLD_SIZE {size}")
    from importlib.util import find_spec

    if find_spec("torch") is None:
        raise MissingError("a run of several processes needs torch", "pip install torch")
    return Ranks(rank, size, _number("LOCAL_RANK", 0))


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, "").strip()
    if not text:
        return default
    if not text.isdecimal():
        raise InputError(f"the environment variable {name} must be a whole number, got {text!r}")
    return int(text)


def shared_axis(shape: Sequence[int], size: int) -> int:
    """The axis to share out: the first that gives every process some indices, else the longest.

    Raises:
        InputError: no axis has an index for every process.
    """
    long = next((axis for axis, n in enumerate(shape) if n >= ROWS_EACH * size), None)
    axis = long if long is not None else int(np.argmax(shape))
    if shape[axis] < size:
        raise InputError(
            f"data of shape {tuple(shape)} cannot be shared out to {size} processes; start fewer"
        )
    return axis


def even_part(shape: Sequence[int], ranks: Ranks) -> Part:
    """This process's share of the indices along the axis that is shared out."""
    axis = shared_axis(shape, ranks.size)
    cuts = [shape[axis] * r // ranks.size for r in range(ranks.size + 1)]
    return Part(tuple(shape), axis, cuts[ranks.rank], cuts[ranks.rank + 1])


def part_by_entries(data: SparseData, ranks: Ranks) -> Part:
    """The same with about as many listed entries for every process."""
    axis = shared_axis(data.shape, ranks.size)
    n = data.shape[axis]
    counts = np.full(n, 1e-9)  # so that rows without entries are shared out too
    for cells in (data.flat, data.excluded):
        counts += np.bincount(np.unravel_index(cells, data.shape)[axis], minlength=n)
    below = np.concatenate(([0.0], np.cumsum(counts)))
    wanted = below[-1] * np.arange(1, ranks.size) / ranks.size
    cuts = np.concatenate(([0], np.searchsorted(below, wanted), [n]))
    for r in range(1, ranks.size):  # at least one row each
        cuts[r] = min(max(cuts[r], cuts[r - 1] + 1), n - (ranks.size - r))
    return Part(data.shape, axis, int(cuts[ranks.rank]), int(cuts[ranks.rank + 1]))


def load_dense_part(
    values: ArrayLike,
    divergence: Divergence,
    ranks: Ranks,
    *,
    mask: ArrayLike | None,
    weights: ArrayLike | None,
    holdout: Holdout | None,
    nan: str,
) -> DenseData:
    """This process's part of a dense tensor, of which it reads no other; the statistics are those of the whole.

    Raises:
        InputError: as `load_dense`, in all processes alike.
    """

    def load() -> DenseData:
        array = values
        seen = mask
        if isinstance(array, np.ma.MaskedArray):
            inner = ~np.ma.getmaskarray(array)
            seen = inner if seen is None else inner & np.asarray(seen, bool)
            array = array.data
        whole = array if isinstance(array, np.ndarray) else readable(array)
        part = even_part(whole.shape, ranks)
        if seen is not None:
            seen = np.asarray(seen)
            check_mask_shape(seen.shape, whole.shape)
            seen = seen[part.slices]
        spread = spread_weights(weights, whole.shape)
        return load_dense(
            whole[part.slices],
            divergence,
            mask=seen,
            weights=None if spread is None else spread[part.slices],
            holdout=holdout,
            nan=nan,
            part=part,
        )

    data = ranks.agree(load)
    first, *others = ranks.gather(data.stats)
    for other in others:
        first = first.combined(other)
    data.stats = first
    if first.weight <= 0:
        raise InputError(NOTHING_LEFT)
    return data


class ShardedEngine(Engine):
    """The engine of the whole data, made of the engines of the parts.

    Args:
        plan: for the whole.
        local: the engine of this process's part.
        letter: the letter of the axis that is shared out.
        part: which part it is.
    """

    def __init__(self, plan: Plan, local: Engine, letter: str, part: Part, ranks: Ranks) -> None:
        super().__init__(plan, local.kernel, local.stats, local.sides)
        self._local, self._letter, self._part, self._ranks = local, letter, part, ranks
        self.path, self.device = local.path, local.device
        self._cut: list[Memo[Array]] = [Memo() for _ in plan.model.factors]

    def losses(self, factors: Sequence[Array], sides: tuple[int, ...] = ()) -> Losses:
        return self._losses(lambda mine: self._local.losses(mine, sides), factors)

    def exact_losses(self, factors: Sequence[Array]) -> Losses:
        return self._losses(self._local.exact_losses, factors)

    def numerator(self, factor: int, factors: Sequence[Array]) -> Array:
        return self._factor_sum(factor, factors, self._local.numerator)

    def denominator(self, factor: int, factors: Sequence[Array]) -> Array:
        return self._factor_sum(factor, factors, self._local.denominator)

    def weighted_model(self, factors: Sequence[Array]) -> float:
        return float(self._sum((), lambda: np.array(self._local.weighted_model(self._mine(factors)))))

    def _losses(self, work: Callable[[list[Array]], Losses], factors: Sequence[Array]) -> Losses:
        def both() -> Array:
            losses = work(self._mine(factors))
            return np.array([losses.train, losses.held])

        train, held = self._sum((2,), both)
        return Losses(float(train), float(held))

    def _factor_sum(
        self, factor: int, factors: Sequence[Array], work: Callable[[int, Sequence[Array]], Array]
    ) -> Array:
        shape = factors[factor].shape

        def placed() -> Array:
            sums = work(factor, self._mine(factors))
            if self._letter not in self.plan.model.factors[factor]:
                return sums
            out = np.zeros(shape)
            out[self._index(factor)] = sums
            return out

        return self._sum(shape, placed)

    def _sum(self, shape: tuple[int, ...], work: Callable[[], Array]) -> Array:
        """The sum of what all processes work out; where one is told to stop meanwhile, all stop."""
        packed = np.zeros(math.prod(shape) + 1)
        try:
            packed[:-1] = work().reshape(-1)
        except Stopped:
            packed[-1] = 1
        packed = self._ranks.sum(packed)
        self.passes = self._local.passes
        if packed[-1]:
            raise Stopped
        return packed[:-1].reshape(shape)

    def _mine(self, factors: Sequence[Array]) -> list[Array]:
        """The factors with the rows of this process's part alone; the same arrays for the same factors."""
        mine = []
        for i, (memo, whole) in enumerate(zip(self._cut, factors, strict=True)):
            if self._letter not in self.plan.model.factors[i]:
                mine.append(whole)
                continue
            kept = memo.get([whole])
            mine.append(kept if kept is not None else memo.put([whole], whole[self._index(i)].copy()))
        return mine

    def _index(self, factor: int) -> tuple[slice, ...]:
        axis = self.plan.model.factors[factor].index(self._letter)
        return (slice(None),) * axis + (slice(self._part.start, self._part.stop),)
