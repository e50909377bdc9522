"""The peers of bench/nneinfact.py that no package has: the paper's algorithm as written, and Adam on softplus."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from icml.tools.nneinfact import Model
from icml.tools.nneinfact.losses import Divergence

CUSTOM = "wr,hr,dr,ikr,jkr->whdij"
Factors = list[np.ndarray]


def mean_divergence(y: np.ndarray, x: np.ndarray, d: Divergence) -> float:
    """Mean divergence in double precision, a slice at a time."""
    return sum(float(d(a, b).sum()) for a, b in zip(y, x, strict=True)) / y.size


class Reference:
    """The paper's update in torch and opt_einsum: for each factor a dense model, dense terms and two contractions."""

    def __init__(
        self,
        model: str,
        y: np.ndarray,
        factors: Factors,
        pair: tuple[float, float],
        seen: np.ndarray | None = None,
    ) -> None:
        import torch

        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
        self.model, self.d = Model.parse(model), Divergence(*pair)
        self.y = torch.from_numpy(y)
        self.seen = None if seen is None else torch.from_numpy(seen.astype(np.float32))
        self.factors = [torch.tensor(f, dtype=torch.float32) for f in factors]

    def values(self) -> Any:
        """The dense model."""
        import opt_einsum

        return opt_einsum.contract(self.model.text, *self.factors).clamp_(min=1e-10)

    def sweep(self) -> None:
        """One update of every factor."""
        import opt_einsum

        a, b = self.d.alpha, self.d.beta
        for i, letters in enumerate(self.model.factors):
            x = self.values()
            others = [f for k, f in enumerate(self.factors) if k != i]
            text = ",".join([self.model.output, *(s for k, s in enumerate(self.model.factors) if k != i)])
            if (a, b) == (1, 0):
                up, down = self.y / x, self.y.new_ones(self.y.shape)
            else:
                up, down = self.y**a * x ** (b - 1), x ** (a + b - 1)
            if self.seen is not None:
                up, down = up * self.seen, down * self.seen
            num, den = (opt_einsum.contract(f"{text}->{letters}", term, *others) for term in (up, down))
            self.factors[i] = self.factors[i] * (num / den) ** self.d.exponent

    def loss(self) -> float:
        """The mean divergence of the current factors."""
        return mean_divergence(self.y.numpy(), self.values().numpy(), self.d)


class Adam:
    """The same model and loss by automatic differentiation: factors are softplus of what Adam moves."""

    def __init__(self, y: np.ndarray, factors: Factors, seen: np.ndarray, rate: float) -> None:
        import torch

        self.y, self.seen = torch.from_numpy(y), torch.from_numpy(seen.astype(np.float32))
        inverse = [np.log(np.expm1(np.maximum(f, 1e-6))) for f in factors]
        self.raw = [torch.tensor(f, dtype=torch.float32, requires_grad=True) for f in inverse]
        self._steps = torch.optim.Adam(self.raw, lr=rate)

    def values(self) -> Any:
        """The dense model."""
        import opt_einsum
        import torch

        factors = [torch.nn.functional.softplus(f) for f in self.raw]
        return opt_einsum.contract(CUSTOM, *factors).clamp(min=1e-10)

    def sweep(self) -> None:
        """One step."""
        self._steps.zero_grad()
        x = self.values()
        ((x - self.y * x.log()) * self.seen).mean().backward()
        self._steps.step()
