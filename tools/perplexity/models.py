"""Opens what can be measured: model directories, those that `icml quantize` made included, and GGUF files."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from icml.formats.corpus import begin_token, load_tokenizer
from icml.formats.errors import InputError
from icml.formats.gguf_model import convert_gguf, is_gguf
from icml.formats.huggingface import load_causal, require_transformers
from icml.formats.model_dir import open_model

PURPOSE = "measuring a language model"


@dataclass(frozen=True)
class LoadedModel:
    """A causal language model, ready to be run.

    Attributes:
        name: its path, as the user gave it.
        module: the model; its forward gives logits.
        tokenizer: what cuts text into its tokens.
        vocabulary: size of the embedding.
        longest: positions it was made for; None if it does not say.
    """

    name: str
    module: Any
    tokenizer: Any
    vocabulary: int
    longest: int | None

    @property
    def begin(self) -> int | None:
        """The token that its tokenizer puts before every text."""
        return begin_token(self.tokenizer)


def pick_device(device: str) -> Any:
    """The torch device for "auto", "cpu" or "cuda[:N]".

    Raises:
        InputError: there is no such device here.
    """
    require_transformers(PURPOSE)
    import torch

    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    chosen = torch.device(device)
    if chosen.type == "cuda" and (chosen.index or 0) >= torch.cuda.device_count():
        raise InputError(f"there is no device {device} here")
    return chosen


def load_model(
    path: str | Path,
    device: Any,
    *,
    allow_pickle: bool = False,
    on_note: Callable[[str], None] = lambda _: None,
) -> LoadedModel:
    """Loads a model and its tokenizer: in float32 on a CPU, in the dtype it is stored in elsewhere.

    Raises:
        InputError: it is no model that can be run, is not a causal one, or has no tokenizer.
        MissingError: torch or transformers is not installed, or for GGUF, gguf or accelerate.
    """
    if not (Path(path).is_file() and is_gguf(path)):
        return _load(path, str(path), device, allow_pickle)
    with tempfile.TemporaryDirectory(prefix="icml-gguf-") as folder:
        on_note(f"{path}: the weights are {convert_gguf(path, folder)}; they are dequantized to be measured")
        return _load(folder, str(path), device, allow_pickle)


def _load(path: str | Path, name: str, device: Any, allow_pickle: bool) -> LoadedModel:
    transformers = require_transformers(PURPOSE)
    import torch

    stored = open_model(path, allow_pickle=allow_pickle)
    if (stored.quantization or {}).get("quant_method") == "icml":
        import icml.hf  # noqa: F401 - by which transformers learns of the format
    if stored.config is None:
        raise InputError("is a file of tensors without a configuration; give the model's directory", name)
    tokenizer = load_tokenizer(transformers, path)
    dtype = torch.float32 if device.type == "cpu" else "auto"
    module = load_causal(transformers, str(path), dtype=dtype, name=name)
    config = module.config.get_text_config()
    longest = getattr(config, "max_position_embeddings", None)
    module = module.to(device)
    return LoadedModel(name, module, tokenizer, int(config.vocab_size), int(longest) if longest else None)
