"""Minibatch descent: updates from a few slices of the first axis at a time, for data that are slow to read.

After Lefèvre, Bach and Févotte, "Online algorithms for nonnegative matrix factorization with the Itakura-Saito
divergence" (2011). Factors that carry the first axis' letter are updated in the rows sampled. The others minimise a
running average of their majorisers: with num and den forgotten at a rate ρ, θ = (avg(θ^(1/γ) num) / avg(den))^γ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from icml.formats.errors import InputError
from icml.tools.nneinfact.contraction import Array
from icml.tools.nneinfact.dense_data import DenseData
from icml.tools.nneinfact.dense_engine import DenseEngine
from icml.tools.nneinfact.engine import Engine, Losses
from icml.tools.nneinfact.fit import TINY, Descent, Options, State

FORGET_FIRST, FORGET_LAST = 0.7, 0.95
"""ρ of the first epoch, and the value it tends to."""


class MinibatchDescent(Descent):
    """Epochs over all slices in random order. An epoch counts as a sweep, and reads the data once.

    The losses of an epoch are those met on the way, each slice before its update: a running estimate, not monotone.

    Args:
        engine: dense data, in memory or mapped.
        options: as for full sweeps.
        batch: slices of the first axis per update.
        seed: of the order.
    """

    def __init__(self, engine: Engine, options: Options, batch: int, seed: int) -> None:
        if not isinstance(engine, DenseEngine) or not isinstance(engine.data, DenseData):
            raise InputError("minibatches are for dense data")
        if options.sweep == "joint":
            raise InputError("minibatches are block updates; joint sweeps need the whole data")
        model = engine.plan.model
        super().__init__(engine, replace(options, sweep="block"), range(len(model.factors)))
        self._dense, self._batch, self._seed = engine, batch, seed
        self._letter = model.output[0]
        self._local = set(model.carrying(self._letter))

    def _advance(self, state: State) -> tuple[list[Array], Losses]:
        factors = list(state.factors)
        averages = dict(state.averages)
        forget = FORGET_LAST - (FORGET_LAST - FORGET_FIRST) / (1 + state.sweeps)
        train = held = 0.0
        for rows in self._batches(state.sweeps):
            self.engine.kernel.poll()
            losses = self._update(factors, averages, rows, forget)
            train += losses.train
            held += losses.held
        state.averages = averages
        return factors, Losses(train, held)

    def _judge(self, state: State, proposal: list[Array], losses: Losses) -> bool:
        self._accept(state, proposal, losses)
        return True

    def _batches(self, epoch: int) -> Iterator[slice]:
        slices = self.engine.plan.sizes[self._letter]
        starts = np.arange(0, slices, self._batch)
        generator = np.random.Generator(np.random.Philox(np.random.SeedSequence([self._seed, epoch, 0xBA7C])))
        for start in generator.permutation(starts):
            yield slice(int(start), min(int(start) + self._batch, slices))

    def _update(self, factors: list[Array], averages: dict[str, Array], rows: slice, forget: float) -> Losses:
        """Updates all factors from the slices `rows`; returns the losses there before."""
        count = rows.stop - rows.start
        plan = self.engine.plan
        small = replace(plan, sizes={**plan.sizes, self._letter: count})
        engine = self._dense.of_slices(small, rows)
        part = [self._rows(i, f, rows) for i, f in enumerate(factors)]
        losses = engine.losses(part, self._wanted)
        share = count / plan.sizes[self._letter]
        for i in self.order:
            num, den = engine.numerator(i, part), engine.denominator(i, part)
            if i in self._local:
                part[i] = self._updated(part[i], num, den, 1.0)
                whole = factors[i].copy()
                whole[self._index(i, rows)] = part[i]
                factors[i] = whole
            else:
                part[i] = factors[i] = self._averaged(
                    i, part[i], (num, den), averages, forget=forget, share=share
                )
        return losses

    def _averaged(
        self,
        i: int,
        theta: Array,
        sums: tuple[Array, Array],
        averages: dict[str, Array],
        *,
        forget: float,
        share: float,
    ) -> Array:
        """Minimiser of the running average of the majorisers of factor i."""
        d, o = self.divergence, self.options
        num, den = sums
        gamma = d.exponent
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if d.alpha == 0:
                up = den * np.log(np.maximum(theta, np.finfo(float).tiny)) + gamma * num
            else:
                up = theta ** (1 / gamma) * num + (o.prior_shape - 1) * share
            down = den + (o.prior_rate + d.alpha * o.l1) * share
            for name, value in ((f"num{i}", up), (f"den{i}", down)):
                averages[name] = forget * averages[name] + (1 - forget) * value if name in averages else value
            ratio = averages[f"num{i}"] / averages[f"den{i}"]
            new = np.exp(ratio) if d.alpha == 0 else ratio**gamma
        new = np.where(np.isfinite(new), new, theta)
        return np.where(theta > 0, np.maximum(new, TINY * float(new.max())), 0.0)

    def _index(self, i: int, rows: slice) -> tuple[slice, ...]:
        axis = self.engine.plan.model.factors[i].index(self._letter)
        return (slice(None),) * axis + (rows,)

    def _rows(self, i: int, factor: Array, rows: slice) -> Array:
        return np.ascontiguousarray(factor[self._index(i, rows)]) if i in self._local else factor
