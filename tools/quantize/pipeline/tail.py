"""What comes after the last block: the final norm and the output embedding, from hidden states to scores of tokens."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from icml.formats.errors import InputError
from icml.tools.quantize.pipeline.skeleton import Skeleton

Tail = Callable[[torch.Tensor], torch.Tensor]


class _Source(nn.Module):
    """Stands in the place of the last block and gives hidden states that were computed before."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        object.__setattr__(self, "_block", block)
        self.seen = threading.local()

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(object.__getattribute__(self, "_block"), name)

    def forward(self, *_: Any, **__: Any) -> torch.Tensor:
        hidden: torch.Tensor = self.seen.hidden
        return hidden


@contextmanager
def loaded_tail(skeleton: Skeleton) -> Iterator[Tail]:
    """Within, everything outside the blocks is loaded; yields a function from hidden states after the last block, one
    sequence at a time, to scores [1, length, vocabulary]; threads may call it.

    Raises:
        InputError: the model scores no tokens.
    """
    model = skeleton.model
    if model.get_output_embeddings() is None:
        raise InputError(
            f"{type(model).__name__} has no output embedding to score tokens with", skeleton.source.name
        )
    first, last = skeleton.embedding_names()
    originals = list(skeleton.blocks)
    source = _Source(originals[-1])
    names = [name for name in skeleton.other_tensors() if name != first or first == last]
    head = model.get_output_embeddings()
    unloaded = head.weight
    with skeleton.loaded(names):
        if first == last:
            head.weight = model.get_input_embeddings().weight
        for i in range(len(originals)):
            skeleton.blocks[i] = source
        try:
            yield lambda hidden: _scores(model, source, hidden)
        finally:
            for i, block in enumerate(originals):
                skeleton.blocks[i] = block
            head.weight = unloaded


def _scores(model: Any, source: _Source, hidden: torch.Tensor) -> torch.Tensor:
    source.seen.hidden = hidden
    scores: torch.Tensor = model(inputs_embeds=hidden).logits
    return scores
