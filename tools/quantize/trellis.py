"""Tail-biting trellis-coded quantization with a bitshift trellis: any weight is a function of L neighbouring bits.

State after weight t: s_t = (s_{t-1} 2^K + b_t) mod 2^L; the 256 K bits of a tile of 16 x 16 weights are a ring. The
encoder is the Viterbi algorithm in integers, the same bits from every instruction set and from torch.

Sources: Proteus (ICML 2026, reconstructed from its abstract); Tseng, Sun, Hou, De Sa, "QTIP: Quantization with
Trellises and Incoherence Processing", 2024.
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from icml.formats.errors import InputError
from icml.tools.quantize import _kernel
from icml.tools.quantize.generators import CENTRE, Generator, best_generators
from icml.tools.quantize.threads import thread_count

TILE = 16
TILE_WEIGHTS = TILE * TILE
LEVELS = 128  # to which values are rounded where costs have 8 bits
WINDOW = 64  # weights each side of the seam that the first search sees with tail="window"
REFINEMENTS = 4  # searches more, with tail="refine", each from another opening of the ring


class TrellisCode:
    """A trellis code of K bits a weight for values distributed as N(0,1).

    Args:
        L: bits of a state, K+1..16; more is better and slower, the time doubles with each.
        K: bits a weight, 1..4.
        family: of the generator; by default the pool's best for this L.
        A, B: the generator's multipliers; by default the family's best.

    Attributes:
        values: float32 [2^L], the standardised value of each state.
        mean, sd: of the byte sums over all states; value = (byte sum - mean) / sd.
    """

    def __init__(
        self, L: int = 16, K: int = 2, family: str | None = None, A: int | None = None, B: int | None = None
    ) -> None:
        if not 1 <= K <= 4:
            raise InputError(f"a trellis has 1 to 4 bits a weight, not {K}")
        if not K < L <= 16:
            raise InputError(f"at {K} bits a weight a state has {K + 1} to 16 bits, not {L}")
        if A is None:
            self.generator = best_generators(L, 1, family)[0]
        else:
            self.generator = Generator("mul32" if family is None else family, A, B or 0)
        self.L, self.K = L, K
        sums = self.generator.byte_sums(np.arange(2**L)).astype(np.float64)
        self.mean, self.sd = float(sums.mean()), float(sums.std())
        if self.sd == 0:
            raise InputError(f"generator {self.generator} gives every state the same value")
        self._sums = sums.astype(np.int16)
        standard = (sums - self.mean) / self.sd
        self.values: NDArray[np.float32] = standard.astype(np.float32)
        self.q13 = np.clip(np.rint(standard * 2**13), -32767, 32767).astype(np.int16)
        self.level, self.level_value = _levels(standard)
        self._code = _kernel.Code(L, K, self.q13, self.level, self.level_value)

    @classmethod
    def of(cls, generator: Generator, L: int, K: int = 2) -> TrellisCode:
        return cls(L, K, generator.family, generator.A, generator.B)

    def encode(
        self,
        tiles: NDArray[np.float32],
        *,
        tail: str = "refine",
        costs: str = "uint16",
        threads: int | None = None,
        isa: str | None = None,
        device: str = "cpu",
    ) -> tuple[NDArray[np.uint32], NDArray[np.float32]]:
        """The closest closed path for each tile.

        Args:
            tiles: [N, 256] of unit variance (any even length whose bits fill whole words); clipped at 4.
            tail: "refine" is the closest path; "full" searches the whole ring twice, three times as fast and up to
                0.3 % worse; "window" sees only 64 weights each side of the seam in the first search, a quarter faster
                still and up to 0.6 % worse than that.
            costs: "uint16"; "uint8" (K = 2 only: two to three times as fast, 0.5 % worse); "auto" takes uint8 where
                it can.
            device: other than "cpu": a torch device; the same bits.

        Returns:
            The packed tiles, uint32 [N, 8 K], and their values, float32 [N, 256].
        """
        x = np.ascontiguousarray(tiles, np.float32)
        states = self.search(x, tail=tail, costs=costs, threads=threads, isa=isa, device=device)
        return _kernel.pack(states, self.K), self.values[states]

    def search(
        self,
        tiles: NDArray[np.float32],
        *,
        tail: str = "refine",
        costs: str = "uint16",
        threads: int | None = None,
        isa: str | None = None,
        device: str = "cpu",
    ) -> NDArray[np.uint16]:
        """As `encode`, but the states [N, T]; T is any even number with T K >= L."""
        x = np.ascontiguousarray(tiles, np.float32)
        if x.ndim != 2 or x.shape[1] % 2 or x.shape[1] * self.K < self.L:
            raise InputError(f"tiles are [N, T] with T even and T {self.K} >= {self.L}, not {list(x.shape)}")
        if not np.isfinite(x).all():
            raise InputError("tiles hold NaN or infinite values")
        if tail not in ("refine", "full", "window"):
            raise InputError(f"tail is refine, full or window, not {tail}")
        narrow = costs == "uint8" or (costs == "auto" and self.K == 2)
        if costs not in ("auto", "uint8", "uint16") or (narrow and self.K != 2):
            raise InputError(f"costs are auto, uint16 or, with 2 bits a weight, uint8; not {costs}")
        window = WINDOW if tail == "window" else x.shape[1] // 2
        refinements = REFINEMENTS if tail == "refine" else 0
        if device != "cpu":
            from icml.tools.quantize.trellis_torch import search

            return search(self, x, window, refinements, narrow, device)
        return _kernel.search(self._code, x, window, refinements, narrow, thread_count(threads), isa or "")

    def states(self, packed: NDArray[np.uint32]) -> NDArray[np.uint16]:
        """The state of each weight of packed tiles."""
        words = np.ascontiguousarray(packed, np.uint32)
        if words.ndim != 2 or words.shape[1] == 0 or words.shape[1] * 32 % self.K:
            raise InputError(f"packed tiles are [N, {8 * self.K}] words, not {list(words.shape)}")
        return _kernel.unpack(words, self.L, self.K)

    def decode(self, packed: NDArray[np.uint32]) -> NDArray[np.float32]:
        """Standardised values of packed tiles."""
        return self.values[self.states(packed)]

    def byte_sums(self, packed: NDArray[np.uint32]) -> NDArray[np.int16]:
        """Byte sums less 510 of packed tiles: what the products multiply."""
        return self._sums[self.states(packed)] - np.int16(CENTRE)


def _levels(standard: NDArray[np.float64]) -> tuple[NDArray[np.uint8], NDArray[np.int16]]:
    """Each state's level and the levels' values in units of 2^-10.

    Boundaries are the quantiles of N(0, 3): the cube root of the Gaussian density, which minimises the squared error of
    a fine scalar quantizer; a level's value is the mean of its states.
    """
    normal = NormalDist(0.0, 3**0.5)
    edges = np.array([normal.inv_cdf(i / LEVELS) for i in range(1, LEVELS)])
    level = np.searchsorted(edges, standard)
    count = np.bincount(level, minlength=LEVELS)
    total = np.bincount(level, standard, minlength=LEVELS)
    value = np.where(count > 0, total / np.maximum(count, 1), 0.0)
    return level.astype(np.uint8), np.clip(np.rint(value * 2**10), -4096, 4096).astype(np.int16)


def instruction_sets() -> list[str]:
    """Names of the instruction sets this machine can run, narrowest first."""
    return list(_kernel.instruction_sets())
