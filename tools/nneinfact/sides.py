"""The two matrices of a split: how each is built from its factors, and how sums over it come back to a factor.

ŷ is linear in each factor, so a factor's numerator is the contraction of its side's sums with the other factors of
the side.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from icml.tools.nneinfact import _kernel
from icml.tools.nneinfact.contraction import Array, Contraction, compile_contraction
from icml.tools.nneinfact.model import Model
from icml.tools.nneinfact.split import KEY, Plan


class Side(Protocol):
    """One matrix of the split."""

    factors: tuple[int, ...]

    def build(self, factors: Sequence[Array], threads: int) -> Array:
        """The matrix, from all factors of the model."""
        ...

    def pull(self, factor: int, sums: Array, factors: Sequence[Array], threads: int) -> Array:
        """What sums of the matrix's shape are for one factor of this side."""
        ...


class FullSide:
    """A matrix over all combinations of its letters.

    Its axes are batch, own observed letters and cut letters, the last two swapped under `cut_first`.
    """

    def __init__(self, plan: Plan, number: int, *, cut_first: bool = False) -> None:
        model, sizes = plan.model, plan.sizes
        self.factors = (plan.left, plan.right)[number]
        own = (plan.rows, plan.columns)[number]
        groups = (plan.batch, plan.cut, own) if cut_first else (plan.batch, own, plan.cut)
        letters = "".join(groups)
        self.shape = tuple(math.prod(sizes[c] for c in group) for group in groups)
        self._axes = tuple(sizes[c] for c in letters)
        self._build = _contraction([model.factors[i] for i in self.factors], letters, sizes)
        self._pull = {
            i: compile_contraction(
                [letters, *(model.factors[j] for j in self.factors if j != i)], model.factors[i], sizes
            )
            for i in self.factors
        }

    def build(self, factors: Sequence[Array], threads: int) -> Array:
        if self._build is None:
            return np.ones(self.shape)
        return self._build(*(factors[i] for i in self.factors), threads=threads).reshape(self.shape)

    def pull(self, factor: int, sums: Array, factors: Sequence[Array], threads: int) -> Array:
        others = (factors[i] for i in self.factors if i != factor)
        return self._pull[factor](sums.reshape(self._axes), *others, threads=threads)


class KeyedSide:
    """A matrix over the keys that occur: keys x cut.

    Args:
        keys: for each observed letter of the side, its index in every key.
    """

    def __init__(self, plan: Plan, number: int, keys: Mapping[str, NDArray[np.int64]]) -> None:
        model = plan.model
        self.factors = (plan.left, plan.right)[number]
        count = len(next(iter(keys.values())))
        sizes = {**plan.sizes, KEY: count}
        self._letters = {i: model.factors[i] for i in self.factors}
        self._observed = {i: "".join(c for c in s if c in keys) for i, s in self._letters.items()}
        self._latent = {i: "".join(c for c in s if c not in keys) for i, s in self._letters.items()}
        self._keys = keys
        self._sizes = sizes
        self._axes = (count, *(sizes[c] for c in plan.cut))
        short = {i: (KEY if self._observed[i] else "") + self._latent[i] for i in self.factors}
        self._build = _contraction([short[i] for i in self.factors], KEY + plan.cut, sizes)
        self._pull = {
            i: compile_contraction(
                [KEY + plan.cut, *(short[j] for j in self.factors if j != i)], short[i], sizes
            )
            for i in self.factors
        }

    def build(self, factors: Sequence[Array], threads: int) -> Array:
        assert self._build is not None  # a keyed side has at least one factor
        built = self._build(*(self._gather(i, factors) for i in self.factors), threads=threads)
        return built.reshape(len(built), -1)

    def pull(self, factor: int, sums: Array, factors: Sequence[Array], threads: int) -> Array:
        others = (self._gather(i, factors) for i in self.factors if i != factor)
        out = self._pull[factor](sums.reshape(self._axes), *others, threads=threads)
        observed, latent = self._observed[factor], self._latent[factor]
        if not observed:
            return out
        shape = [self._sizes[c] for c in observed]
        index = np.ravel_multi_index([self._keys[c] for c in observed], shape)
        summed = _kernel.scatter_add(index, out.reshape(len(index), -1), math.prod(shape))
        full = summed.reshape([*shape, *(self._sizes[c] for c in latent)])
        natural = observed + latent
        return np.ascontiguousarray(full.transpose([natural.index(c) for c in self._letters[factor]]))

    def _gather(self, factor: int, factors: Sequence[Array]) -> Array:
        observed, letters = self._observed[factor], self._letters[factor]
        if not observed:
            return factors[factor]
        order = [letters.index(c) for c in observed + self._latent[factor]]
        return factors[factor].transpose(order)[tuple(self._keys[c] for c in observed)]


class FreeSums:
    """Denominators that need no data: Σ over all cells of W (α+β = 1), or of W ŷ (α+β = 2)."""

    def __init__(self, plan: Plan) -> None:
        model, sizes = plan.model, plan.sizes
        self._plan = plan
        self._groups = (plan.left, plan.right)
        n = len(model.factors)
        self._ones = [
            compile_contraction([model.factors[j] for j in range(n) if j != i], model.factors[i], sizes)
            if n > 1
            else None
            for i in range(n)
        ]
        wide = {**sizes, **{_copy(c, model): sizes[c] for c in model.latent}}
        copies = ["".join(_copy(c, model) for c in s) for s in model.factors]
        gram = plan.batch + plan.cut + "".join(_copy(c, model) for c in plan.cut)
        self._gram = [
            _contraction([*(model.factors[i] for i in g), *(copies[i] for i in g)], gram, wide)
            for g in self._groups
        ]
        self._model = [
            compile_contraction(
                [gram, *(model.factors[j] for j in g if j != i), *(copies[j] for j in g)],
                model.factors[i],
                wide,
            )
            for i in range(n)
            for g in [self._groups[plan.side(i)]]
        ]
        self._cache: dict[int, tuple[list[Array], Array]] = {}

    def ones(self, factor: int, factors: Sequence[Array], threads: int) -> Array:
        """Σ of W over all cells, of the factor's shape."""
        contraction = self._ones[factor]
        if contraction is None:  # the only factor
            letters = self._plan.model.factors[factor]
            return np.ones([self._plan.sizes[c] for c in letters])
        return contraction(*(f for j, f in enumerate(factors) if j != factor), threads=threads)

    def model(self, factor: int, factors: Sequence[Array], threads: int) -> Array:
        """Σ of W ŷ over all cells, of the factor's shape."""
        side = self._plan.side(factor)
        group = self._groups[side]
        others = (factors[j] for j in group if j != factor)
        copies = (factors[j] for j in group)
        return self._model[factor](
            self._side_gram(1 - side, factors, threads), *others, *copies, threads=threads
        )

    def _side_gram(self, side: int, factors: Sequence[Array], threads: int) -> Array:
        """Matrix times matrix over a side's own letters; kept until one of its factors is replaced."""
        group = [factors[i] for i in self._groups[side]]
        kept = self._cache.get(side)
        if kept is not None and all(a is b for a, b in zip(kept[0], group, strict=True)):
            return kept[1]
        contraction = self._gram[side]
        if contraction is None:
            plan = self._plan
            gram = np.ones([plan.sizes[c] for c in plan.batch])
        else:
            gram = contraction(*group, *group, threads=threads)
        self._cache[side] = (group, gram)
        return gram


def _contraction(inputs: Sequence[str], output: str, sizes: Mapping[str, int]) -> Contraction | None:
    """The contraction, or None for the empty product."""
    return compile_contraction(inputs, output, sizes) if inputs else None


def _copy(letter: str, model: Model) -> str:
    """The letter of the second copy of the model: another one for a latent letter."""
    return letter if letter in model.output else chr(0x4E00 + ord(letter))
