"""The format as transformers wants it: a configuration, and a quantizer that swaps modules before weights come."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn
from transformers.quantizers import HfQuantizer, register_quantization_config, register_quantizer
from transformers.utils.quantization_config import QuantizationConfigMixin

from icml.formats.errors import InputError
from icml.formats.safetensors import SafetensorsFile
from icml.hf.modules import IcmlEmbedding, IcmlHead, IcmlLinear, TiedHead, _Stored

VERSION = 1


@register_quantization_config("icml")
class IcmlConfig(QuantizationConfigMixin):  # type: ignore[misc]
    """`quantization_config` of a directory that `icml quantize` made.

    Args:
        modules: for every quantized module its method, shape and code; see `QuantizedLinear.meta`.
        format, bits, settings: what was asked for.
        version: of the format.
    """

    def __init__(self, modules: dict[str, dict[str, Any]], version: int = VERSION, **rest: Any) -> None:
        if version > VERSION:
            raise InputError(f"the model is in version {version} of the format; this icml reads {VERSION}")
        self.quant_method = "icml"
        self.version = version
        self.format = rest.get("format")
        self.bits = rest.get("bits")
        self.settings = rest.get("settings")
        self.modules = modules


@register_quantizer("icml")
class IcmlQuantizer(HfQuantizer):  # type: ignore[misc]
    """Puts `icml.hf.modules` in the place of what they stand for."""

    requires_calibration = True

    def _process_model_before_weight_loading(self, model: Any, **kwargs: Any) -> Any:
        swapped = swap_modules(model, self.quantization_config.modules)
        _check_complete(model, swapped, kwargs.get("checkpoint_files") or [])
        return model

    def _dequantize(self, model: Any, dtype: Any = None) -> Any:
        if any(isinstance(module, TiedHead) for module in model.modules()):
            model.config.tie_word_embeddings = True
        restore_modules(model, dtype or torch.float32)
        return model

    def is_serializable(self) -> bool:
        """save_pretrained writes what was read."""
        return True

    @property
    def is_trainable(self) -> bool:
        """The codes are fixed."""
        return False


def swap_modules(model: nn.Module, modules: Mapping[str, Mapping[str, Any]]) -> dict[str, _Stored]:
    """Replaces every module that the configuration names, and returns the new ones; their buffers are still empty.

    The model may be the base of the one that was quantized, without its head, or have a head that that lacked.

    Raises:
        InputError: the model has no such module.
    """
    new: dict[str, _Stored] = {}
    tied = []
    for name, meta in modules.items():
        place = _place(model, name)
        if place is None:
            continue
        if meta.get("role") == "tied":
            tied.append((place, name, meta["to"]))
        else:
            new[name] = _counterpart(model.get_submodule(place), meta)
            model.set_submodule(place, new[name])
    for place, name, source in tied:
        embedding = new.get(source)
        if not isinstance(embedding, IcmlEmbedding):
            raise InputError(f"{name!r} is tied to {source!r}, which is no quantized embedding")
        model.set_submodule(place, TiedHead(embedding))
    return new


def _place(model: Any, name: str) -> str | None:
    """What a module of the configuration is called in this model; None for a head that it does not have."""
    base = getattr(model, "base_model_prefix", "")
    for place in (name, name.removeprefix(f"{base}."), f"{base}.{name}"):
        with contextlib.suppress(AttributeError):
            model.get_submodule(place)
            return place
    if base and model is getattr(model, "base_model", None) and not name.startswith(f"{base}."):
        return None
    raise InputError(f"{type(model).__name__} has no module {name!r}, which the configuration names")


def _counterpart(old: Any, meta: Mapping[str, Any]) -> _Stored:
    bias = getattr(old, "bias", None) is not None
    dtype = old.weight.dtype
    if meta.get("role") == "embedding":
        return IcmlEmbedding(meta, dtype=dtype, padding_idx=getattr(old, "padding_idx", None))
    return (IcmlHead if meta.get("role") == "head" else IcmlLinear)(meta, bias=bias, dtype=dtype)


def _check_complete(
    model: Any, swapped: Mapping[str, _Stored], files: Sequence[str | os.PathLike[str]]
) -> None:
    """Raises InputError if the files lack a tensor; transformers would put up with what happens to be in memory."""
    if not files or not all(os.fspath(file).endswith(".safetensors") for file in files):
        return
    base = f"{getattr(model, 'base_model_prefix', '')}."
    known = {name for file in files for name in SafetensorsFile(file)}
    known |= {name.removeprefix(base) for name in known} | {base + name for name in known}
    for name, module in swapped.items():
        for suffix in module.stored:
            if f"{name}.{suffix}" not in known:
                raise InputError(f"no tensor {name}.{suffix}", os.path.dirname(os.fspath(files[0])))


def restore_modules(model: nn.Module, dtype: torch.dtype) -> None:
    """Puts ordinary linears and embeddings with the dequantized weights back; what was tied is tied again."""
    weights: dict[int, nn.Parameter] = {}
    found = [
        (name, module) for name, module in model.named_modules() if isinstance(module, _Stored | TiedHead)
    ]
    for name, module in found:
        source = module.embedding if isinstance(module, TiedHead) else module
        if id(source) not in weights:
            weights[id(source)] = nn.Parameter(source.weight.to(dtype), requires_grad=False)
        weight = weights[id(source)]
        new: nn.Module
        if isinstance(module, IcmlEmbedding) and not isinstance(module, IcmlHead):
            rows, width = weight.shape
            new = nn.Embedding(rows, width, padding_idx=module.padding_idx, _weight=weight)
        else:
            bias = getattr(module, "bias", None)
            new = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
            if bias is not None:
                new.bias = nn.Parameter(bias.to(dtype), requires_grad=False)
        new.weight = weight
        model.set_submodule(name, new)
