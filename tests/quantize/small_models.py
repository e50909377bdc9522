"""What the tests of whole models share: a text to calibrate on, one call that quantizes, and what is compared after."""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path
from typing import Any

from icml.tools.quantize.pipeline.jobs import Control, Job, Settings, quantize_model

WORDS = """the of and to in a is that for it as was with be by on not he his but at are this have from or had an
they which one you were all her she there would their we him been has when who will no more if out so up said what its
about than into them can only other time new some could these two may first then do any like my now over such our man
me even most made after also did many off before must well back through years much where your way down should because"""


def write_text(path: Path, words: int = 3000) -> Path:
    """Some English words in a random order."""
    choose = random.Random(0)
    path.write_text(" ".join(choose.choice(WORDS.split()) for _ in range(words)))
    return path


def quantize(
    model: Path, out: Path, *, threads: int = 2, control: Control | None = None, job: dict[str, Any] | None = None,
    **settings: Any,
) -> Any:  # fmt: skip
    """Quantizes a model fast, on `text.txt` beside it if that is there; returns the summary."""
    text = model.parent / "text.txt"
    options: dict[str, Any] = {
        "calibration": text if text.is_file() else "none",
        "tokens": 1024,
        "length": 128,
    }
    chosen = Settings(**{"effort": "fast", "pool": 2, **settings})
    return quantize_model(
        Job(model, out, chosen, **{**options, **(job or {})}), control or Control(threads=threads)
    )


def content(folder: Path) -> dict[str, str]:
    """A digest of every file but the report, which holds times."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "quantize-report.jsonl"
    }


def configuration(folder: Path) -> dict[str, Any]:
    """Its quantization_config."""
    found: dict[str, Any] = json.loads((folder / "config.json").read_text())["quantization_config"]
    return found


def logits(path: Path, ids: Any, kind: str = "AutoModelForCausalLM") -> Any:
    """What the model in a directory says."""
    import torch
    import transformers

    import icml.hf  # noqa: F401

    model = (
        getattr(transformers, kind).from_pretrained(path, dtype=torch.float32, local_files_only=True).eval()
    )
    with torch.no_grad():
        found = model(ids)
    return found.logits if hasattr(found, "logits") else found.last_hidden_state
