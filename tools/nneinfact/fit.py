"""The descent: sweeps of multiplicative updates, over-relaxed while the loss falls, until they no longer help.

A block sweep updates one factor after another, each with fresh model values. A joint sweep (Kullback-Leibler only)
takes the numerators of all factors from one pass and then minimises the resulting majoriser
Σ ŷ(θ) - Σ_l Σ C_l ln θ_l factor by factor, without data. Both never raise the objective; over-relaxation
(exponent ω γ, ω > 1) is taken back whenever it does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from icml.formats.errors import InputError, WorkError
from icml.tools.nneinfact.contraction import Array
from icml.tools.nneinfact.engine import Engine, Losses, Rule
from icml.tools.nneinfact.losses import Divergence
from icml.tools.nneinfact.model import Model

TINY = 1e-12
"""Entries of a factor are kept above this times its largest, so that none dies by underflow; exact zeros stay."""
GROWTH = 1.05
LEAST_STEP = 1e-6
STALL_SWEEPS = 5

Progress = Callable[[dict[str, Any]], None]


class Stopped(Exception):
    """Raised inside a pass when the time is up or the caller asks to stop."""


@dataclass(frozen=True)
class Options:
    """How the descent goes.

    Attributes:
        max_iter: most sweeps.
        tol: stop when the objective has fallen by less than this share over five sweeps; 0 never stops.
        patience: stop when the held-out loss has not improved for this many sweeps, and return the best.
        relax: largest over-relaxation ω; 1 switches it off.
        sweep: "auto", "block" or "joint".
        l1: weight of the sum of all entries, in the unit of the summed loss.
        prior_shape, prior_rate: Gamma prior of every entry (Kullback-Leibler only), shape at least 1.
    """

    max_iter: int = 500
    tol: float = 1e-6
    patience: int = 10
    relax: float = 1.8
    sweep: str = "auto"
    l1: float = 0.0
    prior_shape: float = 1.0
    prior_rate: float = 0.0

    def check(self, divergence: Divergence) -> None:
        """Refuses what the method cannot do.

        Raises:
            InputError: naming the option.
        """
        if self.max_iter < 0:
            raise InputError(f"max_iter must not be negative, got {self.max_iter}")
        if not self.tol >= 0:
            raise InputError(f"tol must not be negative, got {self.tol}")
        if self.patience < 1:
            raise InputError(f"patience must be at least 1, got {self.patience}")
        if not (1 <= self.relax < 2):
            raise InputError(f"relax must be at least 1 and below 2, got {self.relax}")
        if self.sweep not in ("auto", "block", "joint"):
            raise InputError(f"sweep must be auto, block or joint, got {self.sweep!r}")
        if self.sweep == "joint" and not divergence.is_kl:
            raise InputError("joint sweeps are for the Kullback-Leibler loss (alpha=1, beta=0) only")
        if not (math.isfinite(self.l1) and self.l1 >= 0):
            raise InputError(f"the L1 weight must be finite and not negative, got {self.l1}")
        if self.l1 and divergence.alpha <= 0:
            raise InputError("an L1 penalty needs alpha > 0: elsewhere the update with it is not monotone")
        if not (math.isfinite(self.prior_shape) and self.prior_shape >= 1):
            raise InputError(f"the prior's shape must be at least 1, got {self.prior_shape}")
        if not (math.isfinite(self.prior_rate) and self.prior_rate >= 0):
            raise InputError(f"the prior's rate must not be negative, got {self.prior_rate}")
        if self.has_prior and not divergence.is_kl:
            raise InputError("a Gamma prior is for the Kullback-Leibler loss (alpha=1, beta=0) only")

    @property
    def has_prior(self) -> bool:
        return self.prior_shape != 1 or self.prior_rate != 0


@dataclass
class State:
    """Everything a descent needs to go on as if it had never stopped.

    Attributes:
        factors: the current iterate.
        omega: over-relaxation of the next sweep (for α = 0, β ≠ 1: its step).
        sweeps: sweeps accepted.
        history: objective of the start and of each accepted iterate, per unit of weight; empty before the start's
            is known.
        losses, held_losses: the same for the mean loss over observed and over held-out cells.
        best, best_sweep: iterate of least held-out loss, and its number.
        rejected: sweeps taken back.
        reason: why it ended: "", "converged", "patience", "max_iter", "stopped".
        averages: running numerators and denominators of a minibatch fit.
    """

    factors: list[Array]
    omega: float = 1.0
    sweeps: int = 0
    history: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    held_losses: list[float] = field(default_factory=list)
    best: list[Array] = field(default_factory=list)
    best_sweep: int = 0
    rejected: int = 0
    reason: str = ""
    averages: dict[str, Array] = field(default_factory=dict)


class Descent:
    """Sweeps over one engine.

    Args:
        engine: the data.
        options: see `Options`.
        free: numbers of the factors to fit; the others stay as they are.
    """

    def __init__(self, engine: Engine, options: Options, free: Sequence[int]) -> None:
        self.engine, self.options = engine, options
        divergence = engine.kernel.divergence
        options.check(divergence)
        self.divergence = divergence
        self.joint = options.sweep == "joint" or (options.sweep == "auto" and divergence.is_kl)
        sides = engine.plan.left + engine.plan.right
        self.order = [i for i in sides if i in free] if self.joint or engine.groups_by_side else sorted(free)
        self._wanted = tuple(
            sorted({engine.plan.side(i) for i in (self.order if self.joint else self.order[:1])})
        )
        # A rise of this share is the arithmetic's, not the method's.
        self._noise = 1e-6 if engine.kernel.dtype == np.float32 else 1e-12
        self._backtracks = divergence.alpha == 0 and divergence.beta != 1

    def run(
        self,
        state: State,
        *,
        on_progress: Progress | None = None,
        after_sweep: Callable[[State], None] | None = None,
    ) -> State:
        """Sweeps until a stop rule holds; `state` is updated in place and holds a valid iterate at any time.

        Raises:
            WorkError: the loss of the start is not finite.
        """
        if state.reason == "stopped":
            state.reason = ""
        try:
            self._begin(state)
            while not state.reason:
                state.reason = self._ended(state)
                if state.reason:
                    break
                if not self._judge(state, *self._advance(state)):
                    continue
                if after_sweep is not None:
                    after_sweep(state)
                if on_progress is not None:
                    on_progress(progress_of(state))
        except Stopped:
            state.reason = "stopped"
        return state

    def _begin(self, state: State) -> None:
        """Evaluates a new start; of one that is resumed, so that the first sweep finds its numerators."""
        if state.history and state.reason:
            return
        losses = self._evaluate(state.factors)
        if state.history:
            return
        if not math.isfinite(losses.train) or not self._in_range(state.factors):
            raise WorkError(
                "the loss of the start is not finite in this arithmetic, or its slope is out of range; rescale the "
                "data, or use float64"
            )
        self._accept(state, state.factors, losses)

    def _in_range(self, factors: Sequence[Array]) -> bool:
        """Whether an update can be computed: an overflow would leave the factors where they are, as if at rest."""
        d, kernel, mean = self.divergence, self.engine.kernel, self.engine.stats.mean
        if kernel.rule not in (Rule.KL, Rule.EUCLIDEAN, Rule.IS, Rule.SUM_ONE) and mean > 0:
            # These take powers of the model's values, which the kernels keep within the range of numbers.
            digits = abs(math.log10(mean)) * max(abs(d.beta - 1), abs(d.order - 1), abs(d.order))
            if not digits < math.log10(np.finfo(kernel.dtype).max) - 2:
                return False
        first = self.order[0]
        num, den = self.engine.numerator(first, factors), self.engine.denominator(first, factors)
        lost = d.alpha != 0 and self.engine.stats.sum > 0 and not num.any()
        return bool(np.isfinite(num).all() and np.isfinite(den).all()) and not lost

    def objective(self, factors: Sequence[Array], losses: Losses) -> float:
        """Mean loss plus penalties per unit of weight."""
        return (losses.train + self._penalty(factors)) / self.engine.stats.weight

    def sweep(self, factors: Sequence[Array], omega: float) -> list[Array]:
        """One round of updates of all free factors."""
        return self._joint_sweep(factors, omega) if self.joint else self._block_sweep(factors, omega)

    def _advance(self, state: State) -> tuple[list[Array], Losses]:
        """The next iterate and its losses."""
        proposal = self.sweep(state.factors, state.omega)
        return proposal, self._evaluate(proposal)

    def _block_sweep(self, factors: Sequence[Array], omega: float) -> list[Array]:
        current = list(factors)
        for i in self.order:
            num = self.engine.numerator(i, current)
            den = self.engine.denominator(i, current)
            current[i] = self._updated(current[i], num, den, omega)
        return current

    def _joint_sweep(self, factors: Sequence[Array], omega: float) -> list[Array]:
        num = {i: self.engine.numerator(i, factors) for i in self.order}
        current = list(factors)
        for i in self.order:
            den = self.engine.denominator(i, current)
            current[i] = self._updated(factors[i], num[i], den, omega)
        return current

    def _updated(self, theta: Array, num: Array, den: Array, omega: float) -> Array:
        """θ after its update; entries without any cell (num = den = 0) stay, or take the prior's mode."""
        o, d = self.options, self.divergence
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if d.alpha == 0:
                ratio = np.exp(omega * d.exponent * np.clip(num / den, -50, 50))
            elif o.has_prior:
                ratio = ((o.prior_shape - 1) / theta + num) / (o.prior_rate + o.l1 + den)
                ratio = ratio if omega == 1 else ratio**omega
            else:
                ratio = num / (den + d.alpha * o.l1 if o.l1 else den)
                power = omega * d.exponent
                ratio = ratio if power == 1 else ratio**power
            new = theta * np.where(np.isfinite(ratio), ratio, 1.0)
        return np.where(theta > 0, np.maximum(new, TINY * float(new.max())), 0.0)

    def _evaluate(self, factors: Sequence[Array]) -> Losses:
        return self.engine.losses(factors, self._wanted)

    def _judge(self, state: State, proposal: list[Array], losses: Losses) -> bool:
        """Accepts the proposal, or takes it back and makes the next step more careful."""
        before, after = state.history[-1], self.objective(proposal, losses)
        careful = state.omega <= 1 and not self._backtracks
        if after <= before + (self._noise * abs(before) if careful else 0.0):
            self._accept(state, proposal, losses)
            state.omega = min(state.omega * GROWTH, self.options.relax)
            return True
        state.rejected += 1
        if state.omega > 1:
            state.omega = 1.0
        elif self._backtracks and state.omega / 2 >= LEAST_STEP:
            state.omega /= 2
        else:
            state.reason = "converged"  # not even the plain step gets lower
            return False
        self._evaluate(state.factors)
        return False

    def _accept(self, state: State, factors: list[Array], losses: Losses) -> None:
        stats = self.engine.stats
        state.history.append(self.objective(factors, losses))
        state.losses.append(losses.train / stats.weight)
        state.sweeps = len(state.history) - 1
        state.factors = factors
        if stats.held_weight > 0:
            held = losses.held / stats.held_weight
            state.held_losses.append(held)
            if not state.best or held < state.held_losses[state.best_sweep]:
                state.best, state.best_sweep = factors, state.sweeps

    def _ended(self, state: State) -> str:
        o = self.options
        if state.held_losses and state.sweeps - state.best_sweep >= o.patience:
            return "patience"
        if o.tol > 0 and state.sweeps >= STALL_SWEEPS:
            before = state.history[-1 - STALL_SWEEPS]
            if before - state.history[-1] < o.tol * abs(before):
                return "converged"
        return "max_iter" if state.sweeps >= o.max_iter else ""

    def _penalty(self, factors: Sequence[Array]) -> float:
        o = self.options
        total = 0.0
        if o.l1 or o.prior_rate:
            total += (o.l1 + o.prior_rate) * sum(float(factors[i].sum()) for i in self.order)
        if o.prior_shape != 1:
            logs = sum(float(np.log(factors[i][factors[i] > 0]).sum()) for i in self.order)
            total -= (o.prior_shape - 1) * logs
        return total


def progress_of(state: State) -> dict[str, Any]:
    """What a caller is told after a sweep."""
    told: dict[str, Any] = {
        "iteration": state.sweeps,
        "loss": state.losses[-1],
        "objective": state.history[-1],
    }
    if state.held_losses:
        told["heldout_loss"] = state.held_losses[-1]
    return told


def start(model: Model, engine: Engine, seed: Sequence[int]) -> list[Array]:
    """Seeded positive factors whose mean over the observed cells is that of the data."""
    generator = np.random.Generator(np.random.Philox(np.random.SeedSequence(list(seed))))
    sizes = engine.plan.sizes
    factors = [generator.gamma(1.0, 1.0, model.shape(i, sizes)) + 0.05 for i in range(len(model.factors))]
    return rescaled_to_mean(factors, range(len(factors)), engine)


def rescaled_to_mean(factors: list[Array], free: Sequence[int], engine: Engine) -> list[Array]:
    """The factors with the free ones scaled so that the model's mean is that of the data."""
    mean = engine.weighted_model(factors) / engine.stats.weight
    target = engine.stats.mean
    if mean <= 0 or target <= 0:
        return factors
    scale = (target / mean) ** (1 / len(free))
    return [f * scale if i in free else f for i, f in enumerate(factors)]


def normalized(model: Model, factors: Sequence[Array]) -> list[Array]:
    """The same model values, with columns that sum to 1 wherever another factor can take their scale.

    A column of a factor is what its latent letters index. Its scale can go to any factor that carries all of these;
    factors with fewer latent letters give first, so that none that has given takes.
    """
    out = [np.array(f) for f in factors]
    latent = ["".join(c for c in letters if c in model.latent) for letters in model.factors]
    order = sorted(range(len(out)), key=lambda i: (len(latent[i]), i))
    for at, i in enumerate(order):
        takers = [j for j in order[at + 1 :] if set(latent[i]) <= set(latent[j])]
        if not takers or latent[i] == model.factors[i]:
            continue
        letters, taker = model.factors[i], takers[-1]
        scale = out[i].sum(axis=tuple(k for k, c in enumerate(letters) if c not in latent[i]), keepdims=True)
        scale = np.where(scale > 0, scale, 1.0)
        out[i] = out[i] / scale
        shape = {c: n for c, n in zip(letters, scale.shape, strict=True) if c in latent[i]}
        kept = scale.reshape(list(shape.values()))
        order_there = "".join(c for c in model.factors[taker] if c in shape)
        moved = kept.transpose([list(shape).index(c) for c in order_there])
        out[taker] = out[taker] * moved.reshape([shape.get(c, 1) for c in model.factors[taker]])
    return out
