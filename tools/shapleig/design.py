"""Ask and tell: proposes the coalitions to evaluate and keeps the posterior of the values (the method as a whole).

What `ask` proposes is a function of the settings and of the evaluations in their order: it does not depend on
earlier calls, so a study can be taken up by another process at any moment.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import ArrayLike, NDArray

from icml.formats.errors import InputError
from icml.tools.shapleig import candidates as pools
from icml.tools.shapleig.candidates import Coalition, Mask, key_of, mask_of, signs
from icml.tools.shapleig.costs import CostModel
from icml.tools.shapleig.criteria import Criterion, parse_criterion, resolve, score
from icml.tools.shapleig.estimates import Estimate, infer
from icml.tools.shapleig.evaluations import Evaluations
from icml.tools.shapleig.hyperparameters import Fitted, MapFit
from icml.tools.shapleig.posterior import Candidates, Posterior
from icml.tools.shapleig.semivalues import Array, Semivalue, parse_semivalue
from icml.tools.shapleig.threads import single_threaded

MAX_SEED = 2**64 - 1
_CLIMB_WORK = 4 * 10**9
"""Players times the squares of players and evaluations that climbing to a better coalition may take."""


@dataclass(frozen=True)
class Settings:
    """What a study is made with, fixed for its whole life.

    Args:
        index: "shapley", "banzhaf", "beta:ALPHA,BETA" or "binomial:RATE".
        criterion: how the next coalition is chosen.
        learn_noise: evaluations are noisy; otherwise they are taken to be exact.
        cost: what an evaluation costs, or None if all cost the same.
        candidates: how many coalitions to choose from when not all can be looked at.
        seed: of the random choices.
    """

    index: str = "shapley"
    criterion: Criterion = "eig"
    learn_noise: bool = False
    cost: CostModel | None = None
    candidates: int = 2048
    seed: int = 0

    @property
    def semivalue(self) -> Semivalue:
        """The index, parsed."""
        return parse_semivalue(self.index)


class ShapleyDesign:
    """A study in memory.

    Args:
        n_players: p >= 2.
        index: which value is estimated: "shapley", "banzhaf", "beta:ALPHA,BETA", "binomial:RATE".
        criterion: "auto", "eig", "trace", "variance" or "random".
        seed: of the random choices.
        noise: "fixed" takes evaluations to be exact, "learn" fits a noise variance and averages repeats.
        cost: prefer coalitions that are cheap for what they tell.
        candidates: how many coalitions to choose from when there are more than 65,536.
        fit: the memory of an earlier design of the same study.
    """

    def __init__(
        self,
        n_players: int,
        index: str = "shapley",
        criterion: Criterion = "eig",
        seed: int = 0,
        *,
        noise: str = "fixed",
        cost: CostModel | None = None,
        candidates: int = 2048,
        fit: MapFit | None = None,
    ) -> None:
        if n_players < 2:
            raise InputError(f"expected at least 2 players, got {n_players}")
        if noise not in ("fixed", "learn"):
            raise InputError(f"unknown noise '{noise}': expected fixed or learn")
        if not 0 <= seed <= MAX_SEED:
            raise InputError(f"expected a seed from 0 to {MAX_SEED}, got {seed}")
        if candidates < 2:
            raise InputError(f"expected at least 2 candidates, got {candidates}")
        self.n_players = n_players
        self.settings = Settings(index, parse_criterion(criterion), noise == "learn", cost, candidates, seed)
        self.semivalue = self.settings.semivalue
        self.evaluations = Evaluations(n_players, repeats_allowed=noise == "learn")
        self.pending: dict[Coalition, None] = {}
        self.failed: dict[Coalition, None] = {}
        self._fit = fit or MapFit(learn_noise=self.settings.learn_noise)
        self._estimate: Estimate | None = None
        self._drawing = pools.initial_coalitions(n_players, seed)
        self._drawn: list[Coalition] = []

    def tell(self, Z: ArrayLike, y: ArrayLike, cost: ArrayLike | None = None) -> None:
        """Adds evaluations.

        Args:
            Z: coalitions, (n, p) or (p,), bool or 0/1.
            y: their values, (n,) or a number.
            cost: what each of them cost, (n,), for a cost model that is learnt.

        Raises:
            InputError: a shape does not fit, a value is not finite, or contradicts what was told before.
        """
        masks = self._masks(Z)
        values = np.atleast_1d(np.asarray(y, dtype=float))
        costs = (
            np.full(len(values), math.nan) if cost is None else np.atleast_1d(np.asarray(cost, dtype=float))
        )
        if not len(masks) == len(values) == len(costs):
            raise InputError(f"expected as many values as coalitions: {len(values)} for {len(masks)}")
        for mask, value, price in zip(masks, values.tolist(), costs.tolist(), strict=True):
            key = key_of(mask)
            self.evaluations.add(key, value, price)
            self.pending.pop(key, None)
            self.failed.pop(key, None)
            self._estimate = None

    def mark_pending(self, Z: ArrayLike) -> None:
        """Says that these coalitions are being evaluated elsewhere: they are not asked again.

        And count when choosing others.
        """
        for mask in self._masks(Z):
            key = key_of(mask)
            self.failed.pop(key, None)
            if key not in self.evaluations:
                self.pending[key] = None

    def mark_failed(self, Z: ArrayLike) -> None:
        """Says that the evaluation of these coalitions failed: they are not asked again unless `ask` is told to."""
        for mask in self._masks(Z):
            key = key_of(mask)
            self.pending.pop(key, None)
            if key not in self.evaluations:
                self.failed[key] = None

    def ask(self, n: int = 1, *, retry: bool = False) -> Mask:
        """The next coalitions to evaluate, (m, p) with m <= n; fewer than n only when no others are left.

        They are not marked as pending: whoever starts evaluating them says so.

        Args:
            n: how many.
            retry: failed coalitions may come again.
        """
        known = {**dict.fromkeys(self.evaluations.keys()), **self.pending, **({} if retry else self.failed)}
        chosen = self._initial(n, known)
        if len(chosen) < n:
            with single_threaded():
                chosen += self._chosen(
                    n - len(chosen), [*self.pending, *chosen], {**known, **dict.fromkeys(chosen)}
                )
        return np.frombuffer(b"".join(chosen), dtype=np.bool_).reshape(-1, self.n_players).copy()

    def _initial(self, n: int, known: dict[Coalition, None]) -> list[Coalition]:
        """What is still missing of the first p + 1 evaluations, at most n."""
        anchors = (bytes(self.n_players), b"\x01" * self.n_players)
        missing = max(self.n_players + 1 - len(known), sum(key not in known for key in anchors))
        chosen: list[Coalition] = []
        for key in self._initial_order(n + len(known) if missing else 0):
            if len(chosen) >= min(n, missing):
                break
            if key not in known:
                chosen.append(key)
        return chosen

    def _initial_order(self, count: int) -> list[Coalition]:
        """The first `count` of the coalitions that a study begins with, drawn once."""
        self._drawn += islice(self._drawing, max(0, count - len(self._drawn)))
        return self._drawn

    def _chosen(self, n: int, pending: list[Coalition], known: dict[Coalition, None]) -> list[Coalition]:
        """The next n by the criterion, greedily, each given the ones before."""
        done = self.evaluations
        masks = pools.pool(
            self.n_players,
            known,
            done.masks,
            np.empty((0, self.n_players), dtype=bool),
            seed=self.settings.seed,
            step=len(known),
            size=self.settings.candidates,
        )
        if not len(masks):
            return []
        criterion = resolve(self.settings.criterion, len(known), self.n_players)
        if criterion == "random":
            rng = pools.generator(self.settings.seed, 2, len(known))
            return [key_of(mask) for mask in masks[rng.permutation(len(masks))[:n]]]
        return self._greedy(n, masks, pending, known)

    def _greedy(
        self, n: int, masks: Mask, pending: list[Coalition], known: dict[Coalition, None]
    ) -> list[Coalition]:
        posterior = self._posterior(pending)
        terms = posterior.candidates(signs(masks))
        enumerated = 2**self.n_players <= pools.ENUMERATED
        chosen: list[Coalition] = []
        while len(chosen) < n and len(masks):
            scores = self._scores(terms, masks, posterior, len(known) + len(chosen))
            index = pools.best(scores, masks)
            if not enumerated:
                taken = {**known, **dict.fromkeys(chosen)}
                better = self._climb(masks[index], float(scores[index]), posterior, taken)
                masks = np.vstack([masks, better])
                terms = terms.joined(posterior.candidates(signs(better[None])))
                index = len(masks) - 1
            chosen.append(key_of(masks[index]))
            if len(chosen) < n:
                terms = posterior.condition(terms, index)
                masks = terms.W > 0
        return chosen

    def _climb(self, start: Mask, value: float, posterior: Posterior, known: dict[Coalition, None]) -> Mask:
        """The best coalition reached from `start` by moving one player at a time, in at most 16 moves."""
        work = self.n_players * (self.n_players**2 + len(self.evaluations) ** 2)
        for _ in range(max(1, min(self.n_players, 16, _CLIMB_WORK // work))):
            around = pools.neighbours(start, known)
            if not len(around):
                break
            scores = self._scores(posterior.candidates(signs(around)), around, posterior, len(known))
            index = pools.best(scores, around)
            if scores[index] <= value * (1 + 1e-9):
                break
            start, value = around[index], float(scores[index])
        return start

    def _scores(self, terms: Candidates, masks: Mask, posterior: Posterior, evaluations: int) -> Array:
        criterion = resolve(self.settings.criterion, evaluations, self.n_players)
        scores = score(criterion, terms, posterior)
        if self.settings.cost is not None:
            scores = scores / self.settings.cost.predict(masks, self.evaluations)
        return scores

    def _posterior(self, pending: Iterable[Coalition]) -> Posterior:
        """Given all evaluations and, after them, the pending coalitions."""
        done = self.evaluations
        waiting = [mask_of(key) for key in pending]
        X = signs(np.vstack([done.masks, *waiting]))
        repeats = np.concatenate([done.repeats, np.ones(len(waiting))])
        return Posterior(self.fitted.theta, X, repeats, self.semivalue)

    @property
    def fitted(self) -> Fitted:
        """Hyper-parameters for the evaluations so far."""
        with single_threaded():
            return self._fit(self.evaluations)

    @property
    def estimate(self) -> Estimate:
        """Values, covariance and diagnostics, given the evaluations so far."""
        if self._estimate is None:
            with single_threaded():
                self._estimate = infer(self.evaluations, self.fitted, self.semivalue)
        return self._estimate

    @property
    def values_(self) -> Array:
        """The estimated values, (p,)."""
        return self.estimate.values

    @property
    def covariance_(self) -> Array:
        """Their posterior covariance, calibrated, (p, p)."""
        return self.estimate.covariance

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Lower and upper ends of intervals that each hold their value with the given probability."""
        return self.estimate.interval(level)

    def stop(self, tol: float | str | None = None, stable_top: int | None = None) -> bool:
        """Whether the estimate is good enough; see `estimate.Stopping`."""
        from icml.tools.shapleig.estimates import Stopping

        return Stopping.parse(tol, stable_top).reason(self.estimate, seed=self.settings.seed) is not None

    def _masks(self, Z: ArrayLike) -> NDArray[np.bool_]:
        array = np.asarray(Z)
        array = array.reshape(-1, array.shape[-1]) if array.ndim else array.reshape(1, 1)
        if array.shape[1] != self.n_players:
            raise InputError(f"expected {self.n_players} players in a coalition, got {array.shape[1]}")
        if array.dtype != np.bool_ and not np.isin(array, (0, 1)).all():
            raise InputError("a coalition holds 0 and 1 only")
        return array.astype(np.bool_)


@dataclass(frozen=True)
class Result:
    """What `estimate` returns: the last `Estimate`, why it ended, and the evaluations in order."""

    estimate: Estimate
    stop_reason: str
    coalitions: Mask
    observed: Array

    @property
    def values(self) -> Array:
        """The estimated values, (p,)."""
        return self.estimate.values


def estimate(
    value_fn: Callable[[Mask], float],
    n_players: int,
    budget: int,
    *,
    index: str = "shapley",
    criterion: Criterion = "eig",
    seed: int = 0,
    noise: str = "fixed",
    tol: float | str | None = None,
    stable_top: int | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> Result:
    """Evaluates a value function at most `budget` times, at coalitions chosen one after another.

    Args:
        value_fn: v of a coalition (p,) bool.
        n_players: p.
        budget: evaluations, at least 3.
        index, criterion, seed, noise: as for `ShapleyDesign`.
        tol, stable_top: end earlier, see `Stopping`.
        should_stop: asked before every evaluation.
    """
    from icml.tools.shapleig.estimates import Stopping

    if budget < 3:
        raise InputError(f"expected a budget of at least 3 evaluations, got {budget}")
    design = ShapleyDesign(n_players, index, criterion, seed, noise=noise)
    stopping = Stopping.parse(tol, stable_top)
    reason = "budget"
    for count in range(budget):
        if should_stop is not None and should_stop():
            reason = "stopped"
            break
        following = design.ask()
        if not len(following):
            reason = "complete"
            break
        if count >= 3 and stopping.active and (met := stopping.reason(design.estimate, seed=seed)):
            reason = met
            break
        design.tell(following, value_fn(following[0]))
    return Result(design.estimate, reason, design.evaluations.masks, design.evaluations.values)
