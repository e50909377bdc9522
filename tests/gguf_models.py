"""GGUF files as llama.cpp's converter writes them, out of the small models of `models`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icml.formats.model_dir import open_model

HEADS, GROUPS = 4, 2
NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
}  # fmt: skip


def interleaved(weight: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Rows of queries and keys in the order that llama.cpp's rotary embedding wants."""
    return weight.reshape(heads, 2, len(weight) // heads // 2, -1).swapaxes(1, 2).reshape(weight.shape)


def write_gguf(path: Path, model: Path, *, quantized: bool = False) -> None:
    """A directory that `tiny_llama` made, as llama.cpp's own converter would write it."""
    import gguf

    tensors = open_model(model)
    config = tensors.config
    assert config is not None
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(GROUPS)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_vocab_size(config["vocab_size"])
    vocabulary = json.loads((model / "tokenizer.json").read_text())["model"]["vocab"]
    writer.add_tokenizer_model("gpt2")
    tokens = sorted(vocabulary, key=vocabulary.get)
    tokens[tokens.index("ÿ")] = (
        "ĠĠ"  # transformers wants a merge; two blanks take the place of a byte that text lacks
    )
    writer.add_token_list(tokens)
    writer.add_token_types([3, 3] + [1] * (len(vocabulary) - 2))
    writer.add_token_merges(["Ġ Ġ"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    for name in tensors:
        value = tensors.float32(name)
        if name.endswith("q_proj.weight") or name.endswith("k_proj.weight"):
            value = interleaved(value, HEADS if "q_proj" in name else GROUPS)
        _add(writer, _name(name), np.ascontiguousarray(value), quantized)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _name(name: str) -> str:
    if not name.startswith("model.layers."):
        return {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight"}[
            name
        ]
    block, _, rest = name.removeprefix("model.layers.").partition(".")
    return f"blk.{block}.{NAMES[rest.removesuffix('.weight')]}.weight"


def _add(writer: Any, name: str, value: NDArray[np.float32], quantized: bool) -> None:
    import gguf

    if quantized and value.ndim == 2 and value.shape[1] % 32 == 0:
        kind = gguf.GGMLQuantizationType.Q8_0
        writer.add_tensor(name, gguf.quants.quantize(value, kind), raw_dtype=kind)
    else:
        writer.add_tensor(name, value)
