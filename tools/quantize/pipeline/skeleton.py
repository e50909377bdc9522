"""A model without weights, whose parts get theirs when they are needed and give them back.

transformers builds the modules on torch's meta device; the weights come from the files, one block of layers at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from icml.formats.errors import InputError
from icml.formats.huggingface import model_class, quiet, require_transformers
from icml.formats.model_dir import ModelDir, from_torch
from icml.formats.safetensors import FLOATS, RawTensor, to_dtype


@contextmanager
def parameters_on_meta() -> Iterator[None]:
    """Within, modules are built with parameters that take no memory; buffers, which are not in files, are real."""
    register = nn.Module.register_parameter

    def on_meta(self: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        register(self, name, parameter)
        if parameter is not None and parameter.device.type != "meta":
            self._parameters[name] = nn.Parameter(parameter.to("meta"), parameter.requires_grad)

    nn.Module.register_parameter = on_meta  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        nn.Module.register_parameter = register  # type: ignore[method-assign]


def check_not_quantized(source: ModelDir) -> str | None:
    """Refuses a model that is quantized already, unless its weights can be read; returns a note about those.

    Raises:
        InputError: it is quantized in a format that is not read here.
    """
    found = source.quantization
    if found is None:
        return None
    method = str(found.get("quant_method") or found.get("format") or "some format")
    if method == "fp8" or (
        method == "compressed-tensors" and any(source[n].dtype == "F8_E4M3" for n in source)
    ):
        return f"the weights are {method}; they are dequantized, and its error adds to what is made here"
    what = "by icml already" if method == "icml" else f"as {method} already"
    raise InputError(f"is quantized {what}; give the original model", source.name)


@dataclass
class Skeleton:
    """The modules of a model, and where the weights of each are.

    Attributes:
        source: the files.
        model: the modules.
        prefix: name of the stack of blocks: "model.layers".
        blocks: the stack.
        homes: for each parameter and persistent buffer of the model the tensor of the source that it is.
    """

    source: ModelDir
    model: Any
    prefix: str
    blocks: nn.ModuleList
    homes: dict[str, str]
    _memory: Mapping[str, RawTensor] | None = field(default=None, repr=False)

    @classmethod
    def build(cls, source: ModelDir) -> Skeleton:
        """Makes the modules and finds their blocks.

        Raises:
            InputError: transformers does not know the architecture, or it has no stack of blocks of linears.
            MissingError: transformers or torch is not installed.
        """
        transformers = require_transformers("quantizing a model")
        model = _empty_model(transformers, source)
        prefix, blocks = _find_blocks(model, source)
        homes, missing = _match_names(model, list(source))
        skeleton = cls(source, model, prefix, blocks, homes)
        if missing:
            skeleton._load_whole(transformers, missing)
        return skeleton

    @property
    def in_memory(self) -> bool:
        """Whether transformers had to load the whole model: its files name or lay out the weights differently."""
        return self._memory is not None

    def _load_whole(self, transformers: Any, missing: list[str]) -> None:
        absent: list[str] = list(missing)
        try:
            with quiet(transformers):
                loaded, info = type(self.model).from_pretrained(
                    self.source.name, dtype="auto", local_files_only=True, output_loading_info=True
                )
            absent = sorted(info["missing_keys"])
        except Exception as error:
            raise InputError(f"tensor {missing[0]!r} is missing ({error})", self.source.name) from error
        if absent:  # transformers would make them up
            raise InputError(f"tensor {absent[0]!r} is missing", self.source.name)
        self._memory = {name: from_torch(value) for name, value in loaded.state_dict().items()}
        self.homes = {name: name for name in self._memory}

    def raw(self, name: str) -> RawTensor:
        """A tensor of the model as it is stored."""
        return self.source[self.homes[name]] if self._memory is None else self._memory[name]

    def float32(self, name: str) -> NDArray[np.float32]:
        """A tensor's values.

        Raises:
            InputError: it holds NaN or infinities.
        """
        stored = (
            self.source.float32(self.homes[name]) if self._memory is None else self._memory[name].float32()
        )
        if not np.isfinite(stored).all():
            raise InputError(f"tensor {name!r} holds NaN or infinite values", self.source.name)
        return stored

    def block_name(self, index: int) -> str:
        """ "model.layers.3"."""
        return f"{self.prefix}.{index}"

    def block_tensors(self, index: int) -> list[str]:
        """Names of everything in a block that is in the files."""
        return [name for name in self.homes if name.startswith(self.block_name(index) + ".")]

    def other_tensors(self) -> list[str]:
        """Names of everything outside the blocks."""
        return [name for name in self.homes if not name.startswith(self.prefix + ".")]

    def linears(self, index: int) -> dict[str, nn.Linear]:
        """The linears of a block, by full name."""
        base = self.block_name(index)
        return {
            f"{base}.{name}": module
            for name, module in self.blocks[index].named_modules()
            if isinstance(module, nn.Linear)
        }

    def kept(self, name: str) -> RawTensor:
        """A tensor that stays as it is; in float8, which needs its scales, as BF16."""
        raw = self.raw(name)
        return to_dtype(self.float32(name), "BF16") if raw.dtype.startswith("F8") else raw

    def rows(self, name: str, chosen: slice | NDArray[np.int64]) -> NDArray[np.float32]:
        """Some rows of a tensor, without the others being read.

        Raises:
            InputError: they hold NaN or infinities.
        """
        raw = self.raw(name)
        if raw.dtype.startswith("F8"):  # whose scales may be shared between rows
            return self.float32(name)[chosen]
        found = RawTensor(raw.dtype, raw.bits[chosen]).float32()
        if not np.isfinite(found).all():
            raise InputError(f"tensor {name!r} holds NaN or infinite values", self.source.name)
        return found

    @contextmanager
    def loaded(self, names: list[str]) -> Iterator[None]:
        """Within, the named tensors are in their modules, as float32 on the CPU."""
        for name in names:
            raw = self.raw(name)
            if raw.dtype in FLOATS:
                value = torch.from_numpy(np.array(self.float32(name)))
            else:
                value = torch.from_numpy(np.array(raw.bits))
            put_tensor(self.model, name, value)
        try:
            yield
        finally:
            for name in names:
                put_tensor(self.model, name, torch.empty(self.raw(name).shape, device="meta"))

    def put_linear(self, name: str, weight: NDArray[np.float32], bias: RawTensor | None) -> None:
        """Gives a linear other values; without a bias the one it has stays."""
        put_tensor(self.model, f"{name}.weight", torch.from_numpy(weight))
        if bias is not None:
            put_tensor(self.model, f"{name}.bias", torch.from_numpy(np.array(bias.float32())))

    @contextmanager
    def head_tied(self) -> Iterator[None]:
        """Within, the output embedding is the loaded input embedding, if the model has one for both."""
        first, last = self.embedding_names()
        head = self.model.get_output_embeddings()
        own = head.weight
        if first == last:
            head.weight = self.model.get_input_embeddings().weight
        try:
            yield
        finally:
            head.weight = own

    def embedding_names(self) -> tuple[str | None, str | None]:
        """The weights of the input and the output embedding; the same name twice if they are tied."""
        found = []
        for module in (self.model.get_input_embeddings(), self.model.get_output_embeddings()):
            names = (
                [name for name, other in self.model.named_modules() if other is module]
                if module is not None
                else []
            )
            found.append(f"{names[0]}.weight" if names else None)
        first, last = found
        if last is not None and (last not in self.homes or bool(self.model.config.tie_word_embeddings)):
            last = first
        return first, last


class StandIn(nn.Module):
    """Takes the place of a block; what the model asks of it but to be called, the block answers."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        object.__setattr__(self, "_block", block)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(object.__getattribute__(self, "_block"), name)


def check_language_model(skeleton: Skeleton, option: str) -> None:
    """Raises InputError if the model does not say what the next token is."""
    if skeleton.model.get_output_embeddings() is None:
        raise InputError(
            f"{option} needs a language model; this has no output embedding", skeleton.source.name
        )


def put_tensor(model: nn.Module, name: str, value: torch.Tensor) -> None:
    """Makes `value` the parameter or buffer called `name`."""
    path, _, leaf = name.rpartition(".")
    module = model.get_submodule(path)
    if leaf in module._parameters:
        module._parameters[leaf] = nn.Parameter(value, requires_grad=False)
    else:
        module._buffers[leaf] = value


def _empty_model(transformers: Any, source: ModelDir) -> Any:
    try:
        config = transformers.AutoConfig.from_pretrained(source.name, local_files_only=True)
    except Exception as error:
        kind = (source.config or {}).get("model_type")
        raise InputError(
            f"transformers does not know the architecture {kind!r}: {error}", source.name
        ) from error
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    if getattr(config, "is_encoder_decoder", False):
        raise InputError(
            f"{config.model_type} has two stacks of blocks; models of one stack are quantized", source.name
        )
    config.use_cache = False
    cls = model_class(transformers, config)
    cls = getattr(cls, "_model_mapping", {}).get(type(config), cls)
    try:
        with parameters_on_meta():
            model = cls(config)
    except Exception as error:
        raise InputError(f"transformers cannot build a {config.model_type}: {error}", source.name) from error
    return model.float().eval()


def _find_blocks(model: nn.Module, source: ModelDir) -> tuple[str, nn.ModuleList]:
    """The outermost list of modules with the most weights in linears."""
    best, most = "", 0
    for name, module in model.named_modules():
        if isinstance(module, nn.ModuleList):
            size = sum(m.weight.numel() for m in module.modules() if isinstance(m, nn.Linear))
            if size > most:
                best, most = name, size
    if not most:
        linears = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
        raise InputError(
            f"{type(model).__name__} has no stack of blocks of nn.Linear; its linears: "
            f"{', '.join(linears[:8]) or 'none'}",
            source.name,
        )
    blocks = model.get_submodule(best)
    assert isinstance(blocks, nn.ModuleList)
    return best, blocks


def _match_names(model: Any, stored: list[str]) -> tuple[dict[str, str], list[str]]:
    """For each tensor of the model the one in the files that it is, and those for which there is none."""
    known = set(stored)
    base = model.base_model_prefix
    tied = set(getattr(model, "all_tied_weights_keys", {})) if model.config.tie_word_embeddings else set()
    homes, missing = {}, []
    for name in model.state_dict():
        candidates = [name, f"{base}.{name}", name.removeprefix(f"{base}.")]
        candidates += [c.removesuffix(".weight") + ".gamma" for c in candidates if c.endswith(".weight")]
        candidates += [c.removesuffix(".bias") + ".beta" for c in candidates if c.endswith(".bias")]
        found = next((candidate for candidate in candidates if candidate in known), None)
        if found is not None:
            homes[name] = found
        elif name not in tied:
            missing.append(name)
    return homes, missing
