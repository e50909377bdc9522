"""Memory is that of one block: a model five times larger than what may be held is quantized all the same."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from models import byte_tokenizer, llama_config, tiny_llama

pytest.importorskip("transformers")

from icml.formats.safetensors import write_safetensors

from .small_models import write_text

LAYERS, WIDTH, INNER, VOCABULARY = 16, 384, 1024, 60_000

PROGRAM = """
import sys, threading, time
from pathlib import Path
from icml.tools.quantize.pipeline.jobs import Control, Job, Settings, quantize_model

def held():
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))

def watch():
    global most
    while running:
        most = max(most, held())
        time.sleep(0.005)

def quantize(name):
    global start, most, running
    start, running = held(), True
    most = start
    thread = threading.Thread(target=watch)
    thread.start()
    made = folder / (name + "-rtn")
    job = Job(folder / name, made, Settings(method="rtn"), calibration=folder / "text.txt", tokens=512, length=128)
    summary = quantize_model(job, Control(threads=2))
    running = False
    thread.join()
    return summary

folder = Path(sys.argv[1])
quantize("small")  # what is imported and set up once
summary = quantize("big")
print(most - start, summary.linears)
"""


def _big_model(folder: Path) -> int:
    """Writes random weights as the files of a Llama; returns their bytes as float32."""
    rng = np.random.default_rng(0)
    config = llama_config(hidden=WIDTH, layers=LAYERS, tied=False)
    config.update(
        {"intermediate_size": INNER, "vocab_size": VOCABULARY, "architectures": ["LlamaForCausalLM"]}
    )
    config.save_pretrained(folder)
    byte_tokenizer(folder)

    def noise(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float16]]:
        return (rng.standard_normal(shape, np.float32) / 20).astype(np.float16)

    tensors = {
        "model.embed_tokens.weight": noise(VOCABULARY, WIDTH),
        "lm_head.weight": noise(VOCABULARY, WIDTH),
    }
    tensors["model.norm.weight"] = np.ones(WIDTH, np.float16)
    for i in range(LAYERS):
        base = f"model.layers.{i}"
        for name, rows in (("q", WIDTH), ("k", WIDTH // 2), ("v", WIDTH // 2), ("o", WIDTH)):
            tensors[f"{base}.self_attn.{name}_proj.weight"] = noise(rows, WIDTH)
        for name, shape in (("gate", (INNER, WIDTH)), ("up", (INNER, WIDTH)), ("down", (WIDTH, INNER))):
            tensors[f"{base}.mlp.{name}_proj.weight"] = noise(*shape)
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{base}.{name}.weight"] = np.ones(WIDTH, np.float16)
    write_safetensors(folder / "model.safetensors", tensors, {"format": "pt"})
    return sum(4 * tensor.size for tensor in tensors.values())


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux what memory is held")
def test_memory_is_that_of_a_block(tmp_path: Path) -> None:
    write_text(tmp_path / "text.txt")
    tiny_llama(tmp_path / "small")
    size = _big_model(tmp_path / "big")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, tmp_path], capture_output=True, text=True, check=True
    )
    held, linears = map(int, done.stdout.split())
    assert linears == 7 * LAYERS
    assert held < size / 5, f"{held / 1e6:.0f} MB for a model of {size / 1e6:.0f} MB"
    assert (
        json.loads((tmp_path / "big-rtn" / "config.json").read_text())["quantization_config"]["format"]
        == "rtn"
    )
