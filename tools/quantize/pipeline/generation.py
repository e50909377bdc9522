"""How fast a quantized model writes text, beside the model it was made from: both in turn, in one process."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from icml.formats.corpus import load_tokenizer
from icml.formats.errors import InputError
from icml.formats.huggingface import load_causal, require_transformers
from icml.tools.quantize.pipeline.finished import Finished

PROMPT = "The difference between a compiler and an interpreter is"
TOKENS, REPEATS = 48, 5


@dataclass(frozen=True)
class Speed:
    """Tokens a second, medians of interleaved repeats.

    Attributes:
        quantized, original: decoding one token after the other; `original` in float32, None if it was not at hand.
        ratio: of the two.
        tokens: written each time.
        threads: that computed.
        text: what the quantized model wrote.
    """

    quantized: float
    original: float | None
    ratio: float | None
    tokens: int
    threads: int
    text: str


def find_original(finished: Finished) -> Path | None:
    """The directory that a quantized one was made from, if it is where it was."""
    said = finished.quantization.get("original")
    path = None if said is None else finished.source.path / str(said)
    return path.resolve() if path is not None and (path / "config.json").is_file() else None


def measure_speed(
    out: Path, original: Path | None, *, threads: int, should_stop: Callable[[], bool] = lambda: False
) -> Speed:
    """Lets a quantized model, and the original, write the same number of tokens after the same prompt.

    Raises:
        InputError: one of them is no language model with a tokenizer.
    """
    transformers = require_transformers("measuring speed")
    import icml.hf  # noqa: F401 - so that transformers knows the format

    tokenizer = load_tokenizer(transformers, out)
    prompt = tokenizer(PROMPT, return_tensors="pt")["input_ids"]
    models = {"quantized": load_causal(transformers, str(out), dtype=torch.float32)}
    if original is not None:
        models["original"] = load_causal(transformers, str(original), dtype=torch.float32)
    times: dict[str, list[float]] = {name: [] for name in models}
    text = ""
    with _threads(threads), torch.no_grad():
        for name, model in models.items():
            ids = _write(model, prompt, TOKENS)
            if name == "quantized":
                text = tokenizer.decode(ids[0, prompt.shape[1] :])
        for _ in range(REPEATS):
            for name, model in models.items():
                if should_stop():
                    break
                start = time.perf_counter()
                _write(model, prompt, TOKENS)
                times[name].append(time.perf_counter() - start)
    rate = {name: TOKENS / statistics.median(found) for name, found in times.items() if found}
    if "quantized" not in rate:
        raise InputError("stopped before anything was measured", str(out))
    other = rate.get("original")
    return Speed(
        rate["quantized"], other, None if other is None else rate["quantized"] / other, TOKENS, threads, text
    )


def _write(model: Any, prompt: torch.Tensor, tokens: int) -> torch.Tensor:
    """Greedily, exactly so many tokens."""
    written: torch.Tensor = model.generate(
        prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=tokens, min_new_tokens=tokens,
        do_sample=False, pad_token_id=0, use_cache=True,
    )  # fmt: skip
    return written


@contextmanager
def _threads(count: int) -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
