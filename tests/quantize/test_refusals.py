"""What cannot be quantized is refused in one line that says why, and leaves nothing behind."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from models import tiny_llama

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from icml.formats.errors import InputError  # noqa: E402
from icml.formats.model_dir import open_model  # noqa: E402
from icml.formats.safetensors import RawTensor, write_safetensors  # noqa: E402
from icml.tools.quantize.pipeline.run import Shard  # noqa: E402
from icml.tools.quantize.pipeline.settings import Protection, Settings  # noqa: E402

from .small_models import quantize, write_text  # noqa: E402


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llama(tmp_path_factory.mktemp("model") / "m", hidden=32, layers=1)


@pytest.fixture
def model(original: Path, tmp_path: Path) -> Path:
    """A copy to damage, a text beside it."""
    write_text(tmp_path / "text.txt", 600)
    return Path(shutil.copytree(original, tmp_path / "m"))


def refuse(model: Path, message: str, **options: Any) -> None:
    """It is refused, and neither result nor workspace is there."""
    out = model.parent / "q"
    with pytest.raises(InputError, match=message):
        quantize(model, out, **options)
    assert not out.exists()
    assert not out.with_name("q.partial").exists()


def edit(model: Path, name: str, change: Any) -> None:
    """Changes a tensor's values in the file."""
    tensors = {key: RawTensor(raw.dtype, np.array(raw.bits)) for key, raw in open_model(model).items()}
    change(tensors[name].bits)
    write_safetensors(model / "model.safetensors", tensors, {"format": "pt"})


def configure(model: Path, **changes: Any) -> None:
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | changes))


def test_not_a_model(model: Path) -> None:
    refuse(model.parent / "nowhere", "no such file or directory")
    (model.parent / "empty").mkdir()
    refuse(model.parent / "empty", "it has no config.json")
    (model / "model.safetensors").unlink()
    refuse(model, "it has neither model.safetensors nor")


def test_truncated_weights(model: Path) -> None:
    data = (model / "model.safetensors").read_bytes()
    (model / "model.safetensors").write_bytes(data[:-10])
    refuse(model, "truncated")


def test_hostile_headers(model: Path) -> None:
    (model / "model.safetensors").write_bytes((2**62).to_bytes(8, "little") + b"{}")
    refuse(model, "not a safetensors file, or truncated: a header of")
    overlap = {name: {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} for name in ("a", "b")}
    text = json.dumps(overlap).encode()
    (model / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + bytes(8))
    refuse(model, "overlaps")


def test_pickles_only_if_allowed(model: Path) -> None:
    tensors = {name: torch.from_numpy(np.array(raw.bits)) for name, raw in open_model(model).items()}
    (model / "model.safetensors").unlink()
    torch.save(tensors, model / "pytorch_model.bin")
    refuse(model, "pickles only, which can run code; allow that with --allow-pickle")
    quantize(model, model.parent / "allowed", job={"allow_pickle": True})


def test_unknown_architecture(model: Path) -> None:
    configure(model, model_type="abacus", architectures=["AbacusForCausalLM"])
    refuse(model, "abacus")


def test_a_tensor_that_is_missing(model: Path) -> None:
    tensors = dict(open_model(model))
    del tensors["model.layers.0.mlp.up_proj.weight"]
    write_safetensors(model / "model.safetensors", tensors, {"format": "pt"})
    refuse(model, r"tensor 'model\.layers\.0\.mlp\.up_proj\.weight' is missing$")


def test_quantized_already(model: Path) -> None:
    configure(model, quantization_config={"quant_method": "awq"})
    refuse(model, "is quantized as awq already; give the original model")
    configure(model, quantization_config={"quant_method": "icml"})
    refuse(model, "is quantized by icml already")


@pytest.mark.parametrize(
    "name", ["model.layers.0.mlp.up_proj.weight", "model.embed_tokens.weight", "model.norm.weight"]
)
def test_weights_that_are_not_finite(model: Path, name: str) -> None:
    edit(model, name, lambda bits: bits.reshape(-1).__setitem__(slice(None), math.nan))
    with pytest.raises(InputError, match=rf"tensor '{name}' holds NaN or infinite values|not finite"):
        quantize(model, model.parent / "q")
    assert not (model.parent / "q").exists()


def test_activations_that_are_not_finite(model: Path) -> None:
    for name in ("gate_proj", "up_proj", "down_proj"):
        edit(model, f"model.layers.0.mlp.{name}.weight", lambda bits: bits.__imul__(np.float32(1e18)))
    with pytest.raises(InputError, match=r"NaN or infinite values|not finite"):
        quantize(model, model.parent / "q")


def test_calibration_text(model: Path) -> None:
    text = model.parent / "text.txt"
    text.write_text("  \n")
    refuse(model, "holds no text")
    text.write_bytes(b"a\0b" * 100)
    refuse(model, "binary data, not text")
    text.write_text("short")
    refuse(model, "5 tokens of text, less than one sequence of 128")
    write_text(text)
    (model / "tokenizer.json").unlink()
    (model / "tokenizer_config.json").unlink()
    refuse(model, "has no tokenizer that transformers can read")


def test_tokens_outside_the_vocabulary(model: Path) -> None:
    tensors = dict(open_model(model))
    rows = tensors["model.embed_tokens.weight"]
    tensors["model.embed_tokens.weight"] = RawTensor(rows.dtype, np.array(rows.bits[:70]))
    write_safetensors(model / "model.safetensors", tensors, {"format": "pt"})
    configure(model, vocab_size=70)
    refuse(model, r"token \d+ is not in the model's vocabulary of 70")


def test_few_tokens_are_said(model: Path) -> None:
    from icml.tools.quantize.pipeline.control import Control

    notes: list[str] = []
    quantize(model, model.parent / "q", job={"tokens": 128}, control=Control(on_note=notes.append))
    assert "128 calibration tokens are few for inputs of 88: their Hessian has not full rank" in notes


def test_places_that_cannot_be(model: Path) -> None:
    for out in (model, model / "q", model.parent):
        with pytest.raises(InputError, match="lies inside the model's directory, or around it"):
            quantize(model, out)
    with pytest.raises(InputError, match="there is no such folder to write in"):
        quantize(model, model.parent / "no" / "q")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bits": 5}, "expected 1 to 4 bits a weight, got 5"),
        ({"bits": 0.5}, "expected 1 to 4 bits"),
        ({"bits": float("nan")}, "expected 1 to 4 bits"),
        ({"bits": 2.5, "method": "gptq"}, "is for proteus; gptq takes whole bits"),
        ({"bits": 3, "method": "twla"}, "twla is ternary"),
        ({"bits": 2.5, "hessian": "sequential"}, "needs --hessian once"),
        ({"method": "awq"}, "expected --method proteus, twla, gptq, rtn, got 'awq'"),
        ({"effort": "most"}, "expected --effort fast, normal, max"),
        ({"act_bits": "1"}, "expected --act-bits 16, 8, 4, mix"),
        ({"avg_act_bits": 1.0}, "2 to 8 bits on average"),
        ({"rotate": "kotms"}, "proteus rotates by hadamard, none, not by 'kotms'"),
        ({"damping": -1.0}, "must not be negative"),
        ({"group": 0}, "a group has at least one column"),
        ({"group": 24, "method": "twla"}, "multiple of 16"),
        ({"pool": 0}, "at least one generator"),
        ({"generator": "mul64"}, "mul64"),
        ({"generator": "mul32:xyz"}, "mul32:xyz"),
        ({"head_bits": 4}, "--head-bits takes 8 or 16, got 4"),
        ({"skip": "("}, "--skip: '\\(' is not a regular expression"),
    ],
)
def test_settings(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Settings(**options)


@pytest.mark.parametrize("text", ["v_proj", "v_proj:5", ":4", "(:4", "v_proj:x"])
def test_protections(text: str) -> None:
    with pytest.raises(InputError, match="--protect"):
        Protection.parse(text)


@pytest.mark.parametrize("text", ["5/4", "4/4", "-1/4", "1", "a/b", "1/0"])
def test_shards(text: str) -> None:
    with pytest.raises(InputError, match=r"--shard takes I/N with I from 0 to N - 1, got"):
        Shard.parse(text)


@pytest.mark.parametrize(
    ("job", "settings", "message"),
    [
        ({"distill": 2, "shard": Shard(0, 2)}, {}, "does not go with --shard"),
        ({"shard": Shard(0, 2)}, {"hessian": "sequential"}, "does not go with --shard"),
        ({"shard": Shard(0, 2)}, {"act_bits": "mix"}, "does not go with --shard"),
        ({"distill": 2}, {"method": "twla"}, "--distill is for proteus"),
        ({"distill": 2, "calibration": "none"}, {}, "--distill needs calibration text"),
        ({"calibration": "none"}, {"act_bits": "8"}, "--act-bits needs calibration text"),
        ({"length": 1}, {}, "at least one token, in sequences of at least two"),
    ],
)
def test_combinations(job: dict[str, Any], settings: dict[str, Any], message: str, model: Path) -> None:
    refuse(model, message, job=job, **settings)


def test_bare_tensors(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "v.safetensors", {"norm": np.ones(4, np.float32)})
    refuse(tmp_path / "v.safetensors", "holds no matrix to quantize")
    refuse(tmp_path / "v.safetensors", "which no text can calibrate", job={"calibration": "some.txt"})
    write_safetensors(tmp_path / "w.safetensors", {"w": np.full((4, 4), np.inf, np.float32)})
    with pytest.raises(InputError, match="tensor 'w' holds NaN or infinite values"):
        quantize(tmp_path / "w.safetensors", tmp_path / "q")
    assert not (tmp_path / "q").exists()
