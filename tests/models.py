"""Language models small enough for tests, made on the spot: random weights, and a tokenizer whose tokens are bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

BEGIN, END = "<s>", "</s>"
POSITIONS = 256
"""The longest sequence the models take."""


def byte_tokenizer(folder: Path, *, begins: bool = False) -> None:
    """Saves a tokenizer with a token for every byte, and one each for the beginning and the end of a text.

    Args:
        begins: put the former before every text.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: i for i, token in enumerate([BEGIN, END, *letters])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    if begins:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{BEGIN} $A", pair=f"{BEGIN} $A $B", special_tokens=[(BEGIN, 0)]
        )
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=BEGIN, eos_token=END).save_pretrained(
        folder
    )


def llama_config(*, hidden: int = 64, layers: int = 2, tied: bool = True) -> Any:
    """Grouped queries, and a feed-forward width that is no power of two."""
    from transformers import LlamaConfig

    return LlamaConfig(
        vocab_size=258, hidden_size=hidden, intermediate_size=hidden * 11 // 4, num_hidden_layers=layers,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=POSITIONS, tie_word_embeddings=tied,
        initializer_range=0.1, bos_token_id=0, eos_token_id=1, pad_token_id=None,
    )  # fmt: skip


def tiny_llama(
    folder: Path,
    *,
    seed: int = 0,
    hidden: int = 64,
    layers: int = 2,
    tied: bool = True,
    dtype: str = "float32",
) -> Path:
    """Saves a model as a directory: configuration, weights, tokenizer.

    Returns:
        the folder.
    """
    import torch
    from transformers import LlamaForCausalLM

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(llama_config(hidden=hidden, layers=layers, tied=tied))
    model.to(getattr(torch, dtype)).save_pretrained(folder)
    byte_tokenizer(folder)
    return folder
