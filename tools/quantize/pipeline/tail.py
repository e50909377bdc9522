"""What comes after the last block: the final norm and the output embedding, from hidden states to scores of tokens."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from icml.tools.quantize.pipeline.skeleton import Skeleton, StandIn

Tail = Callable[[torch.Tensor], torch.Tensor]


class _Source(StandIn):
    """Gives hidden states that were computed before."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__(block)
        self.seen = threading.local()

    def forward(self, *_: Any, **__: Any) -> torch.Tensor:
        hidden: torch.Tensor = self.seen.hidden
        return hidden


@contextmanager
def loaded_tail(skeleton: Skeleton) -> Iterator[Tail]:
    """Within, everything outside the blocks is loaded; yields a function from hidden states after the last block, one
    sequence at a time, to scores [1, length, vocabulary]; threads may call it.
    """
    model = skeleton.model
    first, last = skeleton.embedding_names()
    originals = list(skeleton.blocks)
    source = _Source(originals[-1])
    names = [name for name in skeleton.other_tensors() if name != first or first == last]
    with skeleton.loaded(names), skeleton.head_tied():
        for i in range(len(originals)):
            skeleton.blocks[i] = source
        try:
            yield lambda hidden: _scores(model, source, hidden)
        finally:
            for i, block in enumerate(originals):
                skeleton.blocks[i] = block


def _scores(model: Any, source: _Source, hidden: torch.Tensor) -> torch.Tensor:
    source.seen.hidden = hidden
    scores: torch.Tensor = model(inputs_embeds=hidden).logits
    return scores
