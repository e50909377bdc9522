"""At equal CPU time multiplicative updates end lower on held-out cells than gradient descent on the same model."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support import EXAMPLES

from icml.tools.nneinfact import NNEinFact
from icml.tools.nneinfact.cells import draw_cells
from icml.tools.nneinfact.losses import Divergence
from icml.tools.nneinfact.model import Model

from .oracles import random_factors

CUSTOM, SIZES = "wr,hr,dr,ikr,jkr->whdij", {"r": 10, "k": 6}
BUDGET = 8.0


class Problem:
    """27 x 24 x 7 x 25 x 25 counts of pickups with a tenth held out, and a start with their mean."""

    def __init__(self) -> None:
        y = np.load(EXAMPLES / "uber_pickups.npz")["Y"].reshape(27, 24, 7, 25, 4, 25, 4).sum(axis=(4, 6))
        self.y = y.astype(np.float32)
        self.held = np.zeros(y.size, bool)
        self.held[np.concatenate(list(draw_cells(y.size, 0.1, 0)))] = True
        self.held = self.held.reshape(y.shape)
        self.model = Model.parse(CUSTOM)
        sizes = {**dict(zip("whdij", y.shape, strict=True)), **SIZES}
        start = random_factors(self.model, sizes, 0)
        mean = np.einsum(CUSTOM, *start, optimize=True).mean()
        self.start = [f * (y[~self.held].mean() / mean) ** (1 / len(start)) for f in start]

    def heldout(self, x: Any) -> float:
        return float(Divergence(1, 0)(self.y[self.held], np.asarray(x)[self.held]).mean())


def run_for(seconds: float, step: Callable[[], None]) -> None:
    """Repeats a step until the CPU time is used up."""
    began = time.process_time()
    while time.process_time() - began < seconds:
        step()


def by_adam(problem: Problem, rate: float, torch: Any) -> float:
    y, seen = torch.from_numpy(problem.y), torch.from_numpy(~problem.held)
    raw = [torch.tensor(np.log(np.expm1(f)), dtype=torch.float32, requires_grad=True) for f in problem.start]
    steps = torch.optim.Adam(raw, lr=rate)

    def values() -> Any:
        w, h, d, i, j = (torch.nn.functional.softplus(f) for f in raw)
        space = torch.einsum("ikr,jkr->rij", i, j).reshape(10, -1)
        times = torch.einsum("wr,hr,dr->whdr", w, h, d).reshape(-1, 10)
        return (times @ space).reshape(y.shape).clamp_min(1e-10)

    def step() -> None:
        steps.zero_grad()
        x = values()
        ((x - y * x.log()) * seen).mean().backward()
        steps.step()

    run_for(BUDGET, step)
    with torch.no_grad():
        return problem.heldout(values())


def by_plain_updates(problem: Problem) -> float:
    """The method as the paper writes it, on the same two matrix products as Adam has."""
    y, seen = problem.y, ~problem.held
    factors = [f.astype(np.float32) for f in problem.start]

    def values() -> Any:
        w, h, d, i, j = factors
        space = np.einsum("ikr,jkr->rij", i, j).reshape(10, -1)
        times = np.einsum("wr,hr,dr->whdr", w, h, d).reshape(-1, 10)
        return (times @ space).reshape(y.shape).clip(1e-10)

    def step() -> None:
        for k, letters in enumerate(problem.model.factors):
            others = [f for n, f in enumerate(factors) if n != k]
            text = ",".join(s for n, s in enumerate(problem.model.factors) if n != k)
            num, den = (
                np.einsum(f"whdij,{text}->{letters}", term, *others, optimize=True)
                for term in (seen * y / values(), seen.astype(np.float32))
            )
            factors[k] *= num / den

    run_for(BUDGET, step)
    return problem.heldout(values())


def by_this_project(problem: Problem) -> float:
    began = time.process_time()
    fitted = NNEinFact(
        CUSTOM,
        SIZES,
        holdout=0.1,
        tol=0,
        max_iter=10**6,
        patience=10**6,
        threads=1,
        should_stop=lambda: time.process_time() - began > BUDGET,
    ).fit(problem.y, init=problem.start)
    assert fitted.heldout_loss_ == pytest.approx(problem.heldout(fitted.reconstruct()), rel=1e-6)
    return fitted.heldout_loss_


@pytest.mark.slow
def test_lower_at_equal_time() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        problem = Problem()
        adam = min(by_adam(problem, rate, torch) for rate in (0.3, 0.1))
        plain, ours = by_plain_updates(problem), by_this_project(problem)
    finally:
        torch.set_num_threads(threads)
    assert plain < adam
    assert ours < plain
    assert ours < adam / 1.3
