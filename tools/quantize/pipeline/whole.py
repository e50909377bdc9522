"""The whole model in memory at once, for what looks at it from end to end: distillation, bits of activations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from icml.formats.errors import InputError
from icml.tools.quantize.pipeline.finished import Finished
from icml.tools.quantize.pipeline.settings import TIED
from icml.tools.quantize.pipeline.skeleton import Skeleton, put_tensor


def check_language_model(skeleton: Skeleton, option: str) -> None:
    """Raises InputError if the model does not say what the next token is."""
    if skeleton.model.get_output_embeddings() is None:
        raise InputError(
            f"{option} needs a language model; this has no output embedding", skeleton.source.name
        )


@contextmanager
def whole_model(skeleton: Skeleton) -> Iterator[None]:
    """Within, all weights of the original are in the skeleton's model, as float32."""
    first, last = skeleton.embedding_names()
    head = skeleton.model.get_output_embeddings()
    with skeleton.loaded(list(skeleton.homes)):
        own = head.weight
        if first == last:
            head.weight = skeleton.model.get_input_embeddings().weight
        try:
            yield
        finally:
            head.weight = own


@contextmanager
def quantized_embeddings(made: Finished, skeleton: Skeleton) -> Iterator[None]:
    """Within a `whole_model`, embeddings that were quantized have the weights that came of it."""
    model, modules = skeleton.model, made.modules
    head = model.get_output_embeddings()
    own = head.weight
    for name, meta in modules.items():
        if meta.get("role") not in (None, TIED):
            put_tensor(model, f"{name}.weight", torch.from_numpy(made.linear(name).dequantize()))
    if any(meta.get("role") == TIED for meta in modules.values()):
        head.weight = model.get_input_embeddings().weight
    try:
        yield
    finally:
        head.weight = own


def put_module(model: nn.Module, name: str, module: nn.Module) -> None:
    """Makes `module` the one called `name`."""
    parent, _, leaf = name.rpartition(".")
    setattr(model.get_submodule(parent), leaf, module)
