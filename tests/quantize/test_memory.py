"""Memory is that of one block: it does not grow with their number."""

from __future__ import annotations

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

class Watch(threading.Thread):
    most, running = 0, True

    def run(self):
        while self.running:
            self.most = max(self.most, held())
            time.sleep(0.005)

def quantize(name):
    control = Control(threads=2, on_block=lambda state: blocks.append(watch.most))
    settings, text = Settings(method="rtn"), folder / "text.txt"
    job = Job(folder / name, folder / f"{name}-rtn", settings, text, tokens=512, length=128)
    return quantize_model(job, control)

folder, blocks, watch = Path(sys.argv[1]), [], Watch()
quantize("small")  # what is imported and set up once
blocks, start = [], held()
watch.start()
quantize("big")
watch.running = False
watch.join()
print(*(most - start for most in blocks))
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
    most = list(map(int, done.stdout.split()))
    assert len(most) == LAYERS
    assert most[-1] < size / 2.5, f"{most[-1] / 1e6:.0f} MB for a model of {size / 1e6:.0f} MB"
    block = 4 * (3 * WIDTH * WIDTH + 3 * WIDTH * INNER)
    assert most[-1] - most[3] < 2 * block, "it grows with the blocks"
