"""What cells and listed entries add to numerators, denominators and losses, as torch expressions.

The counterpart of `losses.Divergence` and of the kernel's cells.hpp.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from icml.tools.nneinfact.engine import Kernel, Rule
from icml.tools.nneinfact.losses import Divergence

if TYPE_CHECKING:
    from torch import Tensor


def cell_terms(
    d: Divergence, rule: Rule, y: Tensor, x: Tensor, *, den: bool, loss: bool
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """What each cell adds to numerator, denominator and loss; see `Divergence.terms`."""
    if rule is Rule.MODEL:
        return x, None, None
    a, b, order = d.alpha, d.beta, d.order
    down = x ** (order - 1) if a and den else None
    if rule is Rule.KL:
        up = y / x
    elif a == 0:
        down = x ** (b - 1)
        up = down * (y / x).log()
    else:
        up = (y if a == 1 else y**a) * (1 if b == 1 else x ** (b - 1))
    return up, down, _cell_losses(d, y, x) if loss else None


def _cell_losses(d: Divergence, y: Tensor, x: Tensor) -> Tensor:
    """The divergence of each cell, in the form that does not cancel when x is close to y; see losses.py."""
    a, b, order = d.alpha, d.beta, d.order
    if d.alpha == 1 and d.beta == 1:
        return (y - x).square_().mul_(0.5)
    if not d.admits_zeros:
        return _positive_losses(d, y, (x / y).log())
    positive = y > 0
    safe = y.where(positive, 1)
    losses = _positive_losses(d, safe, (x / safe).log())
    return losses.where(positive, x**order / (a * order)) if b != 0 or a != 1 else losses.where(positive, x)


def _positive_losses(d: Divergence, y: Tensor, u: Tensor) -> Tensor:
    a, b, order = d.alpha, d.beta, d.order
    if a == 0 and b == 0:
        return u * u / 2
    if a == 0:
        return y**b * ((b * u).exp() * b * u - (b * u).expm1()) / b**2
    return y**order * (_phi(order, u) - _phi(b, u)) / a


def _phi(k: float, u: Tensor) -> Tensor:
    return u if k == 0 else (k * u).expm1() / k


def entry_terms(d: Divergence, rule: Rule, y: Tensor, x: Tensor | None) -> Tensor:
    """What each listed entry adds to the numerator; 0 where its value is not known."""
    if rule is Rule.WEIGHT:
        return y.new_ones(y.shape)
    if rule is Rule.DATA:
        return y.nan_to_num(nan=0.0)
    assert x is not None
    return cell_terms(d, rule, y.nan_to_num(nan=0.0), x, den=False, loss=False)[0]


def entry_losses(kernel: Kernel, y: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Over the entries whose value is known: the loss but for what a zero would have, and Σ ŷ^(α+β)."""
    import torch

    d = kernel.divergence
    known = ~y.isnan()
    clean = y.where(known, 0)
    at_zero = x**d.order
    losses = _cell_losses(d, clean, x).double() - kernel.den_loss * at_zero.double()
    zero = losses.new_zeros(())
    return losses.where(known & (clean > 0), zero).sum(), at_zero.double().where(known, zero).sum(
        dtype=torch.float64
    )
