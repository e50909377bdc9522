"""GGUF files, turned into model directories: transformers undoes llama.cpp's names, permutations and block types.

What was quantized is dequantized; the error of that stays in the weights.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from icml.formats.errors import InputError, MissingError
from icml.formats.huggingface import quiet, require_transformers


def is_gguf(path: str | Path) -> bool:
    """Whether a file begins as GGUF files do."""
    try:
        with open(path, "rb") as stream:
            return stream.read(4) == b"GGUF"
    except OSError:
        return False


def convert_gguf(path: str | Path, folder: str | Path) -> str:
    """Writes the model in a GGUF file, with its tokenizer, as a directory of float16 safetensors.

    The whole model is in memory meanwhile, as float32.

    Returns:
        what the weights were stored as most often: "Q4_1", "F16", …

    Raises:
        InputError: the file is damaged, or transformers does not know its architecture.
        MissingError: torch, transformers, gguf or accelerate is not installed.
    """
    name = os.fspath(path)
    transformers = require_transformers("reading GGUF")
    _require_readers()
    stored = _stored_type(name)
    import torch

    source: dict[str, Any] = {"gguf_file": os.path.basename(name), "local_files_only": True}
    home = os.path.dirname(os.path.abspath(name))
    with quiet(transformers), _no_bar():
        try:
            model: Any = transformers.AutoModelForCausalLM.from_pretrained(
                home, dtype=torch.float32, **source
            )
            tokenizer = transformers.AutoTokenizer.from_pretrained(home, **source)
        except Exception as error:  # of any kind, from any depth of a converter fed with a damaged file
            reason = str(error).strip().split("\n")[0] or type(error).__name__
            raise InputError(f"transformers cannot convert it: {reason}", name) from error
        if hasattr(model.config, "quantization_config"):
            del model.config.quantization_config
        model.hf_quantizer = None
        model = model.to(torch.float16)
        model.config.dtype = torch.float16
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return stored


@contextmanager
def _no_bar() -> Iterator[None]:
    """Within, the converter shows no progress; it does so by itself, past transformers' own switch."""
    from transformers import modeling_gguf_pytorch_utils as converter

    shown = converter.tqdm
    converter.tqdm = partial(shown, disable=True)
    try:
        yield
    finally:
        converter.tqdm = shown


def _stored_type(name: str) -> str:
    import gguf

    try:
        reader = gguf.GGUFReader(name)
        sizes: dict[str, int] = {}
        for tensor in reader.tensors:
            kind = str(tensor.tensor_type.name)
            sizes[kind] = sizes.get(kind, 0) + int(tensor.n_elements)
        blocks = [
            int(field.contents()) for key, field in reader.fields.items() if key.endswith(".block_count")
        ]
    except Exception as error:  # of any kind: the reader believes what it reads
        raise InputError(f"not a sound GGUF file, or truncated: {error}", name) from error
    if not sizes:
        raise InputError("a GGUF file without tensors", name)
    found = {tensor.name.split(".")[1] for tensor in reader.tensors if tensor.name.startswith("blk.")}
    if blocks != [len(found)]:  # believed, a damaged count would build millions of layers
        raise InputError(f"not a sound GGUF file: tensors of {len(found)} blocks, not of {blocks}", name)
    return max(sizes, key=lambda kind: sizes[kind])


def _require_readers() -> None:
    """Raises MissingError where something that transformers reads GGUF with is not installed."""
    try:
        import accelerate  # noqa: F401
        import gguf  # noqa: F401
    except ImportError as error:
        raise MissingError(
            "reading GGUF needs the packages gguf and accelerate", "pip install 'icml-tools[quantize]'"
        ) from error
