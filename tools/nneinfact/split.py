"""The split: which factors form the left and which the right matrix of ŷ[p,q] = Σ_c L[p,c] R[q,c].

p are the observed letters that only left factors carry, q those that only right ones do; letters on both sides index
a batch of such products; c are the latent letters that both sides share. All 2^L splits are priced, and the one with
the least work that fits into the memory allowed is taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from icml.formats.errors import InputError
from icml.tools.nneinfact.contraction import compile_contraction
from icml.tools.nneinfact.model import Model

KEY = "\x01"
"""The letter that numbers the rows, or columns, that occur on a keyed side."""
CELL_COST = 8.0
"""What the arithmetic of one cell costs beside its multiply-adds, in multiply-adds."""
GATHER_COST = 16.0
"""The same for fetching one cell that does not lie next to its neighbour."""
BUILD_COST = 30.0
"""What one multiply-add or element of a small contraction costs, in multiply-adds of the kernel."""
CANDIDATES = 48
"""Splits whose contractions are planned in full; the others are further off by the work on the data alone."""


@dataclass(frozen=True)
class Plan:
    """How one pass over the data is carried out.

    Attributes:
        model, sizes: what is planned for.
        left, right: numbers of the factors on each side.
        batch: observed letters on both sides.
        rows, columns: observed letters of one side only; the data's last letter is never among `rows`.
        cut: latent letters on both sides.
        keyed: whether the left, the right matrix is built only for the rows, columns that occur (sparse data).
        keys: upper bound on how many of them there are.
        flops: what one pass that feeds one side costs, in multiply-adds.
        bytes: memory for both matrices and their sums.
    """

    model: Model
    sizes: dict[str, int]
    left: tuple[int, ...]
    right: tuple[int, ...]
    batch: str
    rows: str
    columns: str
    cut: str
    keyed: tuple[bool, bool] = (False, False)
    keys: int = 0
    flops: float = 0.0
    bytes: float = 0.0

    @property
    def rank(self) -> int:
        """Number of terms c of the sum."""
        return self._size(self.cut)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Sizes of batch, rows and columns."""
        return self._size(self.batch), self._size(self.rows), self._size(self.columns)

    def side(self, factor: int) -> int:
        """0 if the factor is on the left, 1 if on the right."""
        return 0 if factor in self.left else 1

    def __str__(self) -> str:
        def group(side: tuple[int, ...]) -> str:
            return ",".join(self.model.factors[i] for i in side) or "1"

        b, p, q = self.shape
        return (
            f"{group(self.left)} | {group(self.right)}: {b} x {p} x {q} cells, rank {self.rank}, "
            f"{self.flops:.3g} multiply-adds and {self.bytes / 2**20:.3g} MiB a pass"
        )

    def _size(self, letters: str) -> int:
        return math.prod(self.sizes[c] for c in letters)


def plan(
    model: Model | str,
    sizes: Mapping[str, int],
    *,
    nnz: int | None = None,
    max_memory: float | None = None,
) -> Plan:
    """The cheapest split of `model`.

    Args:
        model: the model, or its string.
        sizes: sizes of all its letters.
        nnz: number of non-zeros (and held-out cells) of sparse data; None for dense data.
        max_memory: bytes that the two matrices and their sums may take; default a quarter of the machine's memory.

    Raises:
        InputError: no split fits into `max_memory`, or a letter has no size.
    """
    model = Model.parse(model) if isinstance(model, str) else model
    missing = [c for c in model.letters if c not in sizes]
    if missing:
        raise InputError(f"letter {missing[0]!r} of the model has no size")
    factors = 8.0 * model.parameters(sizes)
    if factors > physical_memory():
        given = ", ".join(f"{c}={sizes[c]}" for c in model.letters)
        raise InputError(
            f"the factors of model {model.text!r} at these sizes ({given}) "
            f"need {factors / 2**20:.4g} MiB, more than the {physical_memory() / 2**20:.4g} MiB of this machine"
        )
    limit = memory_limit(max_memory)
    candidates = sorted(_splits(model, sizes, nnz), key=lambda c: c.flops)
    affordable = [c for c in candidates if c.bytes <= limit][:CANDIDATES]
    priced = [_price(c) for c in affordable]
    fitting = [c for c in priced if c.bytes <= limit]
    if not fitting:
        least = min(
            (_price(c) for c in sorted(candidates, key=lambda c: c.bytes)[:CANDIDATES]), key=lambda c: c.bytes
        )
        raise InputError(
            f"model {model.text!r} at these sizes needs {least.bytes / 2**20:.4g} MiB for the smaller of its splits "
            f"({least}), more than the {limit / 2**20:.4g} MiB allowed"
        )
    return min(fitting, key=lambda c: c.flops)


def memory_limit(max_memory: float | None) -> float:
    """Bytes that a plan's matrices may take: as given, or a quarter of the machine's."""
    return physical_memory() / 4 if max_memory is None else max_memory


def physical_memory() -> float:
    """Bytes of memory of this machine."""
    import os

    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (ValueError, OSError):  # not known here
        return float(8 << 30)


def _splits(model: Model, sizes: Mapping[str, int], nnz: int | None) -> Iterator[Plan]:
    """All splits with the work on the data and the memory of the two matrices; building them is not yet counted."""
    n = len(model.factors)
    everything = (1 << n) - 1
    # The factor that carries the data's last letter stays on the right where one side has it alone: rows of the data
    # then lie in one piece. Splits are not ordered otherwise.
    for mask in range(everything + 1):
        left = tuple(i for i in range(n) if mask >> i & 1)
        right = tuple(i for i in range(n) if not mask >> i & 1)
        if not right and n > 0:
            continue
        candidate = _describe(model, sizes, left, right, nnz)
        if model.output[-1] not in candidate.rows:
            yield candidate


def _describe(
    model: Model, sizes: Mapping[str, int], left: Sequence[int], right: Sequence[int], nnz: int | None
) -> Plan:
    on_left = set("".join(model.factors[i] for i in left))
    on_right = set("".join(model.factors[i] for i in right))
    both = on_left & on_right
    batch = "".join(c for c in model.output if c in both)
    rows = "".join(c for c in model.output if c in on_left - both)
    columns = "".join(c for c in model.output if c in on_right - both)
    cut = "".join(c for c in model.latent if c in both)
    draft = Plan(model, dict(sizes), tuple(left), tuple(right), batch, rows, columns, cut)
    b, p, q = draft.shape
    rank = draft.rank
    if nnz is None:
        keyed = (False, False)
        padded = b * (-(-p // 8) * 8) * (-(-q // 16) * 16)
        apart = model.output[-1] not in columns or not model.output.endswith(columns)
        flops = padded * (2.0 * rank + CELL_COST + GATHER_COST * apart)
        height, width = b * p, b * q
    else:
        keyed = (b * p > 4 * nnz + 1024, b * q > 4 * nnz + 1024)
        flops = nnz * (2.0 * rank + 2 * CELL_COST)
        height, width = nnz if keyed[0] else b * p, nnz if keyed[1] else b * q
    flops += (height + width) * rank * BUILD_COST
    # Each matrix exists in the pass's type and, beside its sums, in double.
    memory = 28.0 * rank * (height + width)
    return replace(draft, keyed=keyed, keys=nnz or 0, flops=flops, bytes=memory)


def _price(candidate: Plan) -> Plan:
    """The candidate with the work and the largest array of building its matrices added."""
    flops, largest = candidate.flops, 0.0
    for number, side in enumerate((candidate.left, candidate.right)):
        if not side:
            continue
        inputs, output, sizes = _matrix(candidate, number)
        build = compile_contraction(inputs, output, sizes)
        flops += BUILD_COST / 4 * build.flops * (1 + len(side))
        largest = max(largest, build.largest)
        if candidate.keyed[number]:  # rows are gathered from, and sums scattered to, every factor
            terms = sum(math.prod(sizes[c] for c in letters) for letters in inputs if KEY in letters)
            flops += 2 * BUILD_COST * terms
            largest = max(largest, terms)
    return replace(candidate, flops=flops, bytes=candidate.bytes + 8.0 * largest)


def _matrix(candidate: Plan, number: int) -> tuple[list[str], str, dict[str, int]]:
    """The contraction that makes one side's matrix: inputs, output, sizes."""
    letters = [candidate.model.factors[i] for i in (candidate.left, candidate.right)[number]]
    observed = (candidate.rows, candidate.columns)[number]
    if not candidate.keyed[number]:
        return letters, candidate.batch + observed + candidate.cut, candidate.sizes
    keyed = candidate.batch + observed
    short = [(KEY if set(s) & set(keyed) else "") + "".join(c for c in s if c not in keyed) for s in letters]
    return short, KEY + candidate.cut, {**candidate.sizes, KEY: candidate.keys}
