"""Runs a model over a window, and compares its predictions with the text and with another model's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from icml.formats.errors import InputError

if TYPE_CHECKING:
    import torch

    from icml.tools.perplexity.models import LoadedModel
    from icml.tools.perplexity.windows import Window

ROWS = 128
"""Positions whose log-probabilities are held at once."""


class Stopped(Exception):
    """Somebody wants an end; the window at hand is given up."""


@contextmanager
def stoppable(module: Any, should_stop: Callable[[], bool]) -> Iterator[None]:
    """Within, a run of the model asks before every one of its blocks whether to go on, and may raise Stopped."""
    from torch import nn

    def ask(*_: Any) -> None:
        if should_stop():
            raise Stopped

    blocks = [block for stack in module.modules() if isinstance(stack, nn.ModuleList) for block in stack]
    hooks = [block.register_forward_pre_hook(ask) for block in blocks]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def logits(model: LoadedModel, window: Window, device: Any) -> torch.Tensor:
    """What the model holds of each target, [targets, vocabulary], in its own dtype."""
    import torch

    inputs = torch.from_numpy(window.inputs)[None].to(device)
    with torch.no_grad():
        found: torch.Tensor = model.module(input_ids=inputs, use_cache=False).logits[0]
    return found[-len(window.targets) :]


def score(model: LoadedModel, baseline: LoadedModel | None, window: Window, device: Any) -> dict[str, float]:
    """Sums over a window's targets: tokens, nll, and beside a baseline baseline_nll, kl, agree.

    Raises:
        InputError: a model's logits are not numbers, or give a token of the text no probability at all.
    """
    import torch

    targets = torch.from_numpy(window.targets).to(device)
    ours = logits(model, window, device)
    theirs = None if baseline is None else logits(baseline, window, device)
    sums = {"tokens": float(len(targets)), "nll": 0.0}
    if theirs is not None:
        sums |= {"baseline_nll": 0.0, "kl": 0.0, "agree": 0.0}
    for first in range(0, len(targets), ROWS):
        part = slice(first, first + ROWS)
        wanted = targets[part, None]
        p = ours[part].float().log_softmax(-1)
        sums["nll"] -= _total(p.gather(1, wanted))
        if theirs is not None:
            q = theirs[part].float().log_softmax(-1)
            sums["baseline_nll"] -= _total(q.gather(1, wanted))
            sums["kl"] += _divergence(q, p)
            sums["agree"] += float((p.argmax(-1) == q.argmax(-1)).sum())
    _check_finite(model, sums["nll"])
    if baseline is not None:
        _check_finite(baseline, sums["baseline_nll"])
    return sums


def _total(x: torch.Tensor) -> float:
    return float(x.double().sum())


def _divergence(q: torch.Tensor, p: torch.Tensor) -> float:
    """The sum over rows of KL(q || p) for log-probabilities; tokens that q rules out add nothing."""
    terms = q.exp() * (q - p)
    return _total(terms.masked_fill(q.isneginf(), 0.0).sum(-1).clamp(min=0.0))


def _check_finite(model: LoadedModel, nll: float) -> None:
    if not abs(nll) < float("inf"):
        raise InputError("its logits are NaN, or rule out a token of the text", model.name)
